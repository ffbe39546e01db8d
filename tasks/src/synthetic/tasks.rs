//! The tasks over the language.

use std::path::Path;

use super::{
    dice::Dice,
    makers::{
        Words, acceptability, answerable, duplicates, emotion, entailment, inference, paraphrase, question, sentiment,
        similarity, spam, topic,
    },
};
use crate::{DataError, Dataset, Example, Questions, SquadVersion, Target, TaskData, TaskKind, TaskSource};

/// A task over the synthetic language.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// The paper's task whose place it takes.
    pub stands_for: &'static str,
    /// What it asks for.
    pub kind: TaskKind,
    /// The name of the metric it is judged by.
    pub metric: &'static str,
    /// The names of its classes.
    pub labels: &'static [&'static str],
    /// Training, validation and test examples.
    sizes: [usize; 3],
    /// Percent of the examples whose label is another class's: people err too.
    noise: usize,
    make: Maker,
}

#[derive(Clone, Copy, Debug)]
enum Maker {
    Text(fn(&mut Dice) -> (Words, usize)),
    Pair(fn(&mut Dice) -> (Words, Words, usize)),
    Question,
}

const fn glue(
    stands_for: &'static str,
    kind: TaskKind,
    labels: &'static [&'static str],
    train: usize,
    make: Maker,
) -> Synthetic {
    Synthetic { stands_for, kind, metric: kind.metric(), labels, sizes: [train, 400, 0], noise: 3, make }
}

const fn additional(stands_for: &'static str, labels: &'static [&'static str], make: Maker) -> Synthetic {
    Synthetic { stands_for, kind: CLASS, metric: CLASS.metric(), labels, sizes: [1200, 300, 300], noise: 5, make }
}

const YES: &[&str] = &["no", "yes"];
const CLASS: TaskKind = TaskKind::Classification;

/// Every task with its name.
pub const TASKS: [(&str, Synthetic); 12] = [
    ("syn-acceptability", glue("cola", CLASS, &["unacceptable", "acceptable"], 2000, Maker::Text(acceptability))),
    ("syn-sentiment", glue("sst-2", CLASS, &["negative", "positive"], 1600, Maker::Text(sentiment))),
    ("syn-paraphrase", glue("mrpc", CLASS, YES, 1600, Maker::Pair(paraphrase))),
    ("syn-similarity", glue("sts-b", TaskKind::Regression, &[], 1600, Maker::Pair(similarity))),
    ("syn-duplicates", glue("qqp", CLASS, YES, 1600, Maker::Pair(duplicates))),
    ("syn-inference", glue("mnli", CLASS, &["entailment", "neutral", "contradiction"], 2400, Maker::Pair(inference))),
    ("syn-answerable", glue("qnli", CLASS, YES, 1600, Maker::Pair(answerable))),
    ("syn-entailment", glue("rte", CLASS, &["not entailment", "entailment"], 800, Maker::Pair(entailment))),
    (
        "syn-topic",
        additional(
            "20-newsgroups",
            &["farm", "food", "sport", "music", "travel", "trade", "school", "health"],
            Maker::Text(topic),
        ),
    ),
    ("syn-spam", additional("sms-spam", &["wanted", "spam"], Maker::Text(spam))),
    ("syn-emotion", additional("emotion", &["joy", "anger", "fear", "sadness", "surprise"], Maker::Text(emotion))),
    (
        "syn-questions",
        Synthetic {
            stands_for: "squad",
            kind: TaskKind::Span,
            metric: TaskKind::Span.metric(),
            labels: &[],
            sizes: [1600, 300, 0],
            noise: 0,
            make: Maker::Question,
        },
    ),
];

impl TaskSource for Synthetic {
    fn load(&self, name: &str, _data: &Path) -> Result<TaskData, DataError> {
        Ok(Synthetic::load(self, name))
    }
}

impl Synthetic {
    /// Makes the examples of the task called `name`.
    pub fn load(&self, name: &str) -> TaskData {
        let [train, validation, test] = self.sizes;
        // The parts have other dice, so that no size changes what another part holds.
        let part = |part: &str, count: usize| -> Vec<Dice> {
            (0..count as u64).map(|number| Dice::new(&format!("{name} {part}"), number)).collect()
        };
        if let Maker::Question = self.make {
            let questions =
                |part: Vec<Dice>| part.into_iter().enumerate().map(|(id, mut dice)| question(id, &mut dice)).collect();
            return TaskData::Questions(Questions {
                version: SquadVersion::V1,
                train: questions(part("train", train)),
                validation: questions(part("validation", validation)),
            });
        }
        let examples = |part: Vec<Dice>| {
            let numbered = part.into_iter().enumerate();
            numbered.map(|(id, mut dice)| self.example(id, &mut dice)).collect()
        };
        TaskData::Texts(Dataset {
            task: name.to_owned(),
            kind: self.kind,
            labels: self.labels.iter().map(|label| (*label).to_owned()).collect(),
            train: examples(part("train", train)),
            validation: examples(part("validation", validation)),
            test: examples(part("test", test)),
            extra: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn example(&self, id: usize, dice: &mut Dice) -> Example {
        let (text, pair, mut label) = match self.make {
            Maker::Text(make) => {
                let (text, label) = make(dice);
                (text, None, label)
            }
            Maker::Pair(make) => {
                let (text, pair, label) = make(dice);
                (text, Some(pair), label)
            }
            Maker::Question => unreachable!("questions have no labels"),
        };
        let wrong = dice.chance(self.noise);
        let target = match self.kind {
            TaskKind::Regression => {
                if wrong {
                    label = dice.below(6);
                }
                Target::Score(label as f32)
            }
            _ => {
                if wrong {
                    label = (label + 1 + dice.below(self.labels.len() - 1)) % self.labels.len();
                }
                Target::Class(label)
            }
        };
        Example {
            id: id.to_string(),
            text: text.join(" "),
            pair: pair.map(|pair| pair.join(" ")),
            target: Some(target),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rstest::rstest;

    use super::*;
    use crate::{
        Answer,
        synthetic::{
            sentence::{Meaning, Slip},
            vocabulary,
        },
    };

    fn texts(data: &TaskData) -> Vec<String> {
        match data {
            TaskData::Texts(dataset) => {
                let all = dataset.train.iter().chain(&dataset.validation).chain(&dataset.test);
                all.flat_map(|example| [Some(example.text.clone()), example.pair.clone()]).flatten().collect()
            }
            TaskData::Questions(questions) => {
                let all = questions.train.iter().chain(&questions.validation);
                all.flat_map(|question| [question.question.clone(), question.context.to_string()]).collect()
            }
        }
    }

    #[rstest]
    fn every_word_is_known_and_every_text_repeats_itself(
        #[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)] number: usize,
    ) {
        let (name, task) = TASKS[number];
        let known: BTreeSet<String> = vocabulary().into_iter().collect();
        let all = texts(&task.load(name));
        for word in all.iter().flat_map(|text| text.split(' ')) {
            assert!(known.contains(word), "{name}: {word}");
        }
        assert!(all.iter().all(|text| text.split(' ').count() <= 40), "short enough for a small network");
        assert_eq!(all, texts(&task.load(name)));
    }

    /// Runs are known by their data: what a task holds must never change.
    #[test]
    fn tasks_hold_what_they_always_held() {
        let hash = |(name, task): &(&str, Synthetic)| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(format!("{:?}", task.load(name)).as_bytes());
            format!("{name} {}", &hasher.finalize().to_hex()[..16])
        };
        let now: Vec<String> = TASKS.iter().map(hash).collect();
        assert_eq!(now, HELD, "{now:#?}");
    }

    const HELD: [&str; 12] = [
        "syn-acceptability 7ec7f164c2597692",
        "syn-sentiment 0ba5ab3807a54928",
        "syn-paraphrase f2f7752846e3b31e",
        "syn-similarity c3d5a33cc184a04c",
        "syn-duplicates 5cbb980bb8eac16d",
        "syn-inference 0175dae5d4ab1e5d",
        "syn-answerable 828ef1f76e1cfe83",
        "syn-entailment f7f6656b6433f9d2",
        "syn-topic a4b27acccfb93de9",
        "syn-spam 8023c0fb676c5706",
        "syn-emotion 885b1d4585143b53",
        "syn-questions 84720ec11b9261b8",
    ];

    #[rstest]
    fn classes_are_balanced_enough_to_be_learnt(#[values(0, 1, 2, 4, 5, 6, 7, 8, 9, 10)] number: usize) {
        let (name, task) = TASKS[number];
        let TaskData::Texts(dataset) = task.load(name) else { panic!("texts") };
        let mut counts = BTreeMap::new();
        for example in &dataset.train {
            if let Some(Target::Class(class)) = example.target {
                *counts.entry(class).or_insert(0) += 1;
            }
        }
        assert_eq!(counts.len(), dataset.labels.len());
        let fair = dataset.train.len() / dataset.labels.len();
        // Two of the three classes of inference are one of entailment's.
        let least = if name == "syn-entailment" { fair / 2 } else { fair * 2 / 3 };
        assert!(counts.values().all(|&count| count > least), "{name}: {counts:?}");
    }

    #[test]
    fn answers_stand_where_they_say() {
        let (name, task) = TASKS[11];
        let TaskData::Questions(questions) = task.load(name) else { panic!("questions") };
        for question in questions.train.iter().chain(&questions.validation) {
            let Answer { start, text } = &question.answers[0];
            assert!(!text.is_empty() && question.context[*start..].starts_with(text.as_str()), "{question:?}");
        }
    }

    /// What agrees and what does not, word for word.
    #[test]
    fn verbs_agree_with_their_subjects() {
        let mut dice = Dice::new("agreement", 0);
        for _ in 0..500 {
            let mut meaning = Meaning::about_anything(&mut dice);
            (meaning.past, meaning.negated, meaning.place) = (false, false, None);
            let plural = meaning.subject.is_plural();
            let words = meaning.say(&mut dice);
            let form = usize::from(!plural);
            assert!(meaning.verb.names.iter().any(|forms| words.contains(&forms[form].to_owned())), "{words:?}");
            let wrong = meaning.say_with(Some(Slip::Verb), &mut dice);
            assert!(meaning.verb.names.iter().any(|forms| wrong.contains(&forms[1 - form].to_owned())), "{wrong:?}");
        }
    }
}
