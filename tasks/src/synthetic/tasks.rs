//! The tasks over the language.

use std::sync::Arc;

use super::{
    dice::Dice,
    lexicon::{CALLS, FEELINGS, LIKINGS, LURES, NAMES, OPINIONS, PLACES, TOPICS, Topic},
    sentence::{Asked, Determiner, Meaning, Phrase, Slip, strings},
};
use crate::{Answer, Dataset, Example, Metric, Question, Questions, SquadVersion, Target, TaskData, TaskKind};

/// A text, word by word.
pub(super) type Words = Vec<String>;

/// A task over the synthetic language.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// The paper's task whose place it takes.
    pub stands_for: &'static str,
    /// What it asks for.
    pub kind: TaskKind,
    /// The metric it is judged by.
    pub metric: Metric,
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
    let metric = match kind {
        TaskKind::Regression => Metric::Spearman,
        _ => Metric::Accuracy,
    };
    Synthetic { stands_for, kind, metric, labels, sizes: [train, 400, 0], noise: 3, make }
}

const fn additional(stands_for: &'static str, labels: &'static [&'static str], make: Maker) -> Synthetic {
    Synthetic {
        stands_for,
        kind: TaskKind::Classification,
        metric: Metric::Accuracy,
        labels,
        sizes: [1200, 300, 300],
        noise: 5,
        make,
    }
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
            metric: Metric::AnswerF1,
            labels: &[],
            sizes: [1600, 300, 0],
            noise: 0,
            make: Maker::Question,
        },
    ),
];

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

fn ended(mut words: Words) -> Words {
    words.push(".".to_owned());
    words
}

/// Is the sentence one?
fn acceptability(dice: &mut Dice) -> (Words, usize) {
    let meaning = Meaning::about_anything(dice);
    if dice.chance(50) {
        return (ended(meaning.say(dice)), 1);
    }
    let words = match dice.below(5) {
        0 | 1 => meaning.say_with(Some(Slip::Verb), dice),
        2 if meaning.object.shows_number() => meaning.say_with(Some(Slip::Object), dice),
        3 if meaning.subject.shows_number() => meaning.say_with(Some(Slip::Subject), dice),
        _ => {
            let mut words = meaning.say(dice);
            // The last two words, or two in the middle, change places; two of a kind would still be a sentence.
            let first = dice.below(words.len() - 1);
            words.swap(first, first + 1);
            words
        }
    };
    (ended(words), 0)
}

/// What somebody thinks: `good` says which way, however it is said.
pub(super) fn opinion(good: bool, dice: &mut Dice) -> Words {
    let negated = dice.chance(30);
    let side = usize::from(good == negated);
    let topic: &Topic = dice.pick(&TOPICS);
    let noun = dice.pick(topic.nouns);
    let thing = dice.pick(noun.names).0;
    if dice.chance(50) {
        let mut words = strings(&["the", thing, "was"]);
        if negated {
            words.push("not".to_owned());
        } else if dice.chance(30) {
            words.push("very".to_owned());
        }
        words.push(dice.word(&OPINIONS[side]).to_owned());
        words
    } else {
        let who = if dice.chance(70) { "i" } else { "we" };
        let (base, past) = *dice.pick(&LIKINGS[side]);
        match negated {
            true => strings(&[who, "did", "not", base, "the", thing]),
            false => strings(&[who, past, "the", thing]),
        }
    }
}

/// Is it meant well? After `but` comes what is meant.
fn sentiment(dice: &mut Dice) -> (Words, usize) {
    let good = dice.chance(50);
    let mut words = Vec::new();
    match dice.below(3) {
        0 => {}
        1 => {
            words.extend(opinion(!good, dice));
            words.push("but".to_owned());
        }
        _ => {
            words.extend(opinion(good, dice));
            words.push("and".to_owned());
        }
    }
    words.extend(opinion(good, dice));
    (ended(words), usize::from(good))
}

/// One thing said otherwise than in `meaning`.
fn changed(meaning: &Meaning, slot: usize, dice: &mut Dice) -> Meaning {
    let mut other = meaning.clone();
    match slot {
        0 => {
            other.subject = match &meaning.subject {
                Phrase::Name(name) => Phrase::Name(dice.other_word(&NAMES, name)),
                things => other_things(things, meaning.topic, dice),
            }
        }
        1 => other.verb = dice.pick_other(meaning.topic.verbs, meaning.verb),
        2 => other.object = other_things(&meaning.object, meaning.topic, dice),
        3 => other.place = Some(dice.other_word(&PLACES, meaning.place.unwrap_or_default())),
        _ => other.negated = !meaning.negated,
    }
    other
}

fn other_things(phrase: &Phrase, topic: &'static Topic, dice: &mut Dice) -> Phrase {
    match phrase {
        Phrase::Things { determiner, adjective, noun } => {
            Phrase::Things { determiner: *determiner, adjective: *adjective, noun: dice.pick_other(topic.nouns, noun) }
        }
        other => other.clone(),
    }
}

/// Do both say the same?
fn paraphrase(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = Meaning::about_anything(dice);
    let same = dice.chance(50);
    let slot = dice.below(5);
    let second = if same { meaning.clone() } else { changed(&meaning, slot, dice) };
    (ended(meaning.say(dice)), ended(second.say(dice)), usize::from(same))
}

/// How much of what one says does the other say, from 0 to 5?
fn similarity(dice: &mut Dice) -> (Words, Words, usize) {
    let mut meaning = Meaning::about_anything(dice);
    meaning.place = Some(dice.word(&PLACES));
    let differing = dice.below(6);
    let first = dice.below(5);
    let mut second = meaning.clone();
    for slot in 0..differing {
        second = changed(&second, (first + slot) % 5, dice);
    }
    (ended(meaning.say(dice)), ended(second.say(dice)), 5 - differing)
}

/// A meaning that all three questions can be asked of.
fn askable(dice: &mut Dice) -> Meaning {
    let mut meaning = Meaning::about_anything(dice);
    meaning.subject = Phrase::Name(dice.word(&NAMES));
    meaning.place = Some(dice.word(&PLACES));
    meaning.negated = false;
    meaning
}

const ASKED: [Asked; 3] = [Asked::Subject, Asked::Object, Asked::Place];

/// Do both ask the same?
fn duplicates(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = askable(dice);
    let asked = *dice.pick(&ASKED);
    let same = dice.chance(50);
    let second = match (same, dice.chance(40)) {
        (true, _) => meaning.ask(asked, dice),
        (false, true) => meaning.ask(*dice.pick_other(&ASKED, &asked), dice),
        (false, false) => {
            // What is asked for is not said: something else must differ.
            let slot = match asked {
                Asked::Subject => 1 + dice.below(2),
                Asked::Object => dice.below(2),
                Asked::Place => dice.below(3),
            };
            changed(&meaning, slot, dice).ask(asked, dice)
        }
    };
    (meaning.ask(asked, dice), second, usize::from(same))
}

/// Does the sentence answer the question?
fn answerable(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = askable(dice);
    let asked = *dice.pick(&ASKED);
    let answers = dice.chance(50);
    let mut told = meaning.clone();
    if !answers {
        match asked {
            Asked::Place if dice.chance(40) => told.place = None,
            Asked::Subject => told = changed(&meaning, 1 + dice.below(2), dice),
            Asked::Object => told = changed(&meaning, dice.below(2), dice),
            Asked::Place => told = changed(&meaning, dice.below(3), dice),
        }
    }
    (meaning.ask(asked, dice), ended(told.say(dice)), usize::from(answers))
}

/// Something that follows from `meaning`, which must not be negated: less is said, or the kind instead of the thing.
pub(super) fn consequence(meaning: &Meaning, dice: &mut Dice) -> Meaning {
    let mut less = meaning.clone();
    (less.time, less.place) = (None, if dice.chance(50) { meaning.place } else { None });
    if let Phrase::Things { determiner: Determiner::Every, adjective, noun } = meaning.subject {
        less.subject = Phrase::Things { determiner: Determiner::Some, adjective, noun };
    }
    if let Phrase::Things { determiner, noun, .. } = meaning.object {
        less.object = match noun.kind {
            Some(kind) if dice.chance(60) => Phrase::Kind(determiner, kind),
            _ => Phrase::Things { determiner, adjective: None, noun },
        };
    }
    less
}

/// What a premise says: not negated, now and then of every one.
pub(super) fn premise(dice: &mut Dice) -> Meaning {
    let mut meaning = Meaning::about_anything(dice);
    meaning.negated = false;
    if let Phrase::Things { determiner, .. } = &mut meaning.subject
        && dice.chance(40)
    {
        *determiner = Determiner::Every;
    }
    meaning
}

/// Does the second follow from the first, contradict it, or neither?
fn inference(dice: &mut Dice) -> (Words, Words, usize) {
    let said = premise(dice);
    let class = dice.below(3);
    let mut second = consequence(&said, dice);
    match class {
        0 => {}
        1 => {
            let slot = [0, 1, 2, 3][dice.below(4)];
            // Another place would contradict; one where none was said does not.
            second = match (slot, said.place) {
                (3, Some(_)) => changed(&second, 2, dice),
                (2, _) if matches!(second.object, Phrase::Kind(..)) => changed(&second, 1, dice),
                (slot, _) => changed(&second, slot, dice),
            };
        }
        _ => match (&mut second.subject, dice.chance(50)) {
            (Phrase::Things { determiner, .. }, true) => *determiner = Determiner::No,
            _ => second.negated = true,
        },
    }
    (ended(said.say(dice)), ended(second.say(dice)), class)
}

/// Does the second follow from the first?
fn entailment(dice: &mut Dice) -> (Words, Words, usize) {
    let (said, second, class) = inference(dice);
    (said, second, usize::from(class == 0))
}

/// What is it about? Now and then something else is mentioned first.
fn topic(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(TOPICS.len());
    let mut words = Vec::new();
    if dice.chance(30) {
        let other = dice.pick(&TOPICS);
        words.extend(Phrase::random(dice, other).say(false, dice));
        words.push("and".to_owned());
    }
    words.extend(Meaning::random(dice, &TOPICS[class]).say(dice));
    (ended(words), class)
}

/// A message that wants something of its reader.
pub(super) fn lure(dice: &mut Dice) -> Words {
    let mut words = strings(&[dice.word(&CALLS)]);
    match dice.below(3) {
        0 => words.extend(strings(&["now", "for", "your", "free"])),
        1 => words.extend(strings(&["to", "win", "a"])),
        _ => words.extend(strings(&["today", "for", "this"])),
    }
    words.push(dice.word(&LURES).to_owned());
    words
}

/// Is the message unwanted? Friends give gifts and call too.
fn spam(dice: &mut Dice) -> (Words, usize) {
    let unwanted = dice.chance(40);
    let mut words = match dice.below(3) {
        0 => ended(Meaning::about_anything(dice).say(dice)),
        1 => ended(opinion(dice.chance(50), dice)),
        _ => Vec::new(),
    };
    match unwanted {
        true => words.extend(lure(dice)),
        false if dice.chance(50) => {
            let who = dice.word(&NAMES);
            words.extend(strings(&[who, "bought", "a", dice.word(&LURES), "for", dice.word(&NAMES)]));
        }
        false => words.extend(Meaning::about_anything(dice).say(dice)),
    }
    words.push(if dice.chance(30) { "!" } else { "." }.to_owned());
    (words, usize::from(unwanted))
}

/// How somebody felt, and why.
pub(super) fn feeling(class: usize, dice: &mut Dice) -> Words {
    let who = dice.word(&NAMES);
    let was = if dice.chance(50) { "was" } else { "felt" };
    let mut words = strings(&[who, was]);
    if dice.chance(40) {
        let (_, others) = FEELINGS[(class + 1 + dice.below(FEELINGS.len() - 1)) % FEELINGS.len()];
        words.extend(strings(&["not", dice.word(&others), "but"]));
    }
    words.push(dice.word(&FEELINGS[class].1).to_owned());
    words
}

/// What is felt in the end?
fn emotion(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(FEELINGS.len());
    let mut words = feeling(class, dice);
    if dice.chance(60) {
        words.push("because".to_owned());
        words.extend(Meaning::about_anything(dice).say(dice));
    }
    (ended(words), class)
}

/// Who, what or where, in a text about several people.
fn question(id: usize, dice: &mut Dice) -> Question {
    let mut told: Vec<Meaning> = Vec::new();
    while told.len() < 3 {
        let meaning = askable(dice);
        if told.iter().all(|other| other.subject != meaning.subject && other.place != meaning.place) {
            told.push(meaning);
        }
    }
    let (meaning, asked) = (dice.pick(&told).clone(), *dice.pick(&ASKED));
    let (mut context, mut start, mut text) = (String::new(), 0, String::new());
    for other in &told {
        let words = ended(other.say(dice));
        if !context.is_empty() {
            context.push(' ');
        }
        if *other == meaning {
            let sentence = words.join(" ");
            text = match (&meaning.subject, asked) {
                (Phrase::Name(name), Asked::Subject) => (*name).to_owned(),
                (_, Asked::Place) => meaning.place.unwrap_or_default().to_owned(),
                _ => object_words(&meaning, &words),
            };
            start = context.len() + place_of(&sentence, &text);
        }
        context.push_str(&words.join(" "));
    }
    Question {
        id: id.to_string(),
        question: meaning.ask(asked, dice).join(" "),
        context: Arc::from(context),
        answers: vec![Answer { start, text }],
    }
}

/// The object as the sentence says it: from the word behind the verb to the next time, place or mark.
fn object_words(meaning: &Meaning, words: &[String]) -> String {
    let is_verb = |word: &String| meaning.verb.names.iter().any(|forms| forms.contains(&word.as_str()));
    let start = words.iter().position(is_verb).map_or(0, |verb| verb + 1);
    let ends = |word: &String| word == "." || word == "in" || meaning.time == Some(word.as_str());
    let end = words[start..].iter().position(ends).map_or(words.len(), |length| start + length);
    words[start..end].join(" ")
}

/// Where `part` stands in `text` as whole words.
fn place_of(text: &str, part: &str) -> usize {
    format!(" {text} ").find(&format!(" {part} ")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rstest::rstest;

    use super::{super::vocabulary, *};

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
