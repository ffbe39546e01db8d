//! The tasks over the language.

use std::path::Path;

use super::{
    dice::Dice,
    makers::{
        Words, acceptability, answerable, complaint, duplicates, emotion, entailment, inference, mood, paraphrase,
        question, report, sentiment, similarity, spam, stance, topic,
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
    /// The part whose examples validate.
    validates: &'static str,
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
    let (metric, sizes) = (kind.metric(), [train, 400, 0]);
    Synthetic { stands_for, kind, metric, labels, sizes, noise: 3, make, validates: VALIDATION }
}

const fn additional(
    stands_for: &'static str,
    labels: &'static [&'static str],
    train: usize,
    make: fn(&mut Dice) -> (Words, usize),
) -> Synthetic {
    let (metric, sizes, make) = (CLASS.metric(), [train, 300, 300], Maker::Text(make));
    Synthetic { stands_for, kind: CLASS, metric, labels, sizes, noise: 5, make, validates: VALIDATION }
}

const VALIDATION: &str = "validation";

/// The part that settings are chosen by.
const TUNING: &str = "tuning";

const YES: &[&str] = &["no", "yes"];
const CLASS: TaskKind = TaskKind::Classification;
const TOPIC: &[&str] = &["farm", "food", "sport", "music", "travel", "trade", "school", "health"];
const FEELING: &[&str] = &["joy", "anger", "fear", "sadness", "surprise"];

/// Every task with its name.
pub const TASKS: [(&str, Synthetic); 16] = [
    ("syn-acceptability", glue("cola", CLASS, &["unacceptable", "acceptable"], 2000, Maker::Text(acceptability))),
    ("syn-sentiment", glue("sst-2", CLASS, &["negative", "positive"], 1600, Maker::Text(sentiment))),
    ("syn-paraphrase", glue("mrpc", CLASS, YES, 1600, Maker::Pair(paraphrase))),
    ("syn-similarity", glue("sts-b", TaskKind::Regression, &[], 1600, Maker::Pair(similarity))),
    ("syn-duplicates", glue("qqp", CLASS, YES, 1600, Maker::Pair(duplicates))),
    ("syn-inference", glue("mnli", CLASS, &["entailment", "neutral", "contradiction"], 2400, Maker::Pair(inference))),
    ("syn-answerable", glue("qnli", CLASS, YES, 1600, Maker::Pair(answerable))),
    ("syn-entailment", glue("rte", CLASS, &["not entailment", "entailment"], 800, Maker::Pair(entailment))),
    ("syn-topic", additional("20-newsgroups", TOPIC, 1200, topic)),
    ("syn-spam", additional("sms-spam", &["wanted", "spam"], 1200, spam)),
    ("syn-emotion", additional("emotion", FEELING, 1200, emotion)),
    ("syn-complaint", additional("customer-complaints", TOPIC, 1600, complaint)),
    ("syn-stance", additional("progressive-stance", &["neither", "first", "second", "both"], 1600, stance)),
    ("syn-mood", additional("primary-emotions", FEELING, 1600, mood)),
    ("syn-report", additional("economic-news", YES, 1600, report)),
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
            validates: VALIDATION,
        },
    ),
];

impl TaskSource for Synthetic {
    fn load(&self, name: &str, _data: &Path) -> Result<TaskData, DataError> {
        Ok(Synthetic::load(self, name))
    }
}

impl Synthetic {
    /// The same task, called `NAME-tuning`, with other examples to validate by: settings are chosen on them, so that they are
    /// not chosen by what is reported.
    #[must_use]
    pub fn tuning(self) -> Self {
        let [train, validation, _] = self.sizes;
        Self { sizes: [train, validation, 0], validates: TUNING, ..self }
    }

    /// Makes the examples of the task called `name`.
    pub fn load(&self, name: &str) -> TaskData {
        let [train, validation, test] = self.sizes;
        // The parts have other dice, so that no size changes what another part holds.
        let of = if self.validates == TUNING { name.trim_end_matches("-tuning") } else { name };
        let part = |part: &str, count: usize| -> Vec<Dice> {
            (0..count as u64).map(|number| Dice::new(&format!("{of} {part}"), number)).collect()
        };
        if let Maker::Question = self.make {
            let questions =
                |part: Vec<Dice>| part.into_iter().enumerate().map(|(id, mut dice)| question(id, &mut dice)).collect();
            return TaskData::Questions(Questions {
                version: SquadVersion::V1,
                train: questions(part("train", train)),
                validation: questions(part(self.validates, validation)),
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
            validation: examples(part(self.validates, validation)),
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
        #[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)] number: usize,
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

    #[test]
    fn settings_are_chosen_on_examples_that_nothing_reports() {
        for (name, task) in TASKS {
            let (own, tuning) = (task.load(name), task.tuning().load(&format!("{name}-tuning")));
            let parts = |data: &TaskData| match data {
                TaskData::Texts(data) => [&data.train, &data.validation, &data.test]
                    .map(|part| part.iter().map(|e| format!("{} | {:?}", e.text, e.pair)).collect::<Vec<String>>()),
                TaskData::Questions(data) => [&data.train, &data.validation, &Vec::new()]
                    .map(|part| part.iter().map(|q| format!("{} | {}", q.question, q.context)).collect()),
            };
            let ([train, validation, test], [same, other, none]) = (parts(&own), parts(&tuning));
            assert_eq!((train, none.len()), (same, 0));
            let reported: BTreeSet<&String> = validation.iter().chain(&test).collect();
            let shared = other.iter().filter(|text| reported.contains(text)).count();
            // Short texts meet by chance: there are not so many different ones.
            assert!(shared * 5 < other.len() && other.len() == validation.len(), "{name}: {shared}");
        }
    }

    const HELD: [&str; 16] = [
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
        "syn-complaint 12270d013f9cb8b8",
        "syn-stance 206b8c353cac7f15",
        "syn-mood 65a0523ef1869c7c",
        "syn-report 41cd79dcfcf27d24",
        "syn-questions 84720ec11b9261b8",
    ];

    #[rstest]
    fn classes_are_balanced_enough_to_be_learnt(
        #[values(0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)] number: usize,
    ) {
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
        let (name, task) = TASKS[15];
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
