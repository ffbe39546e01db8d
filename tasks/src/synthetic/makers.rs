//! How an example of each task is made, label and all.

use std::sync::Arc;

use super::{
    dice::Dice,
    lexicon::{CALLS, FEELINGS, LIKINGS, LURES, NAMES, OPINIONS, PLACES, TOPICS, Topic},
    sentence::{Asked, Determiner, Meaning, Phrase, Slip, strings},
};
use crate::{Answer, Question};

/// A text, word by word.
pub type Words = Vec<String>;

/// A sentence with its full stop.
pub fn ended(mut words: Words) -> Words {
    words.push(".".to_owned());
    words
}

/// Is the sentence one?
pub fn acceptability(dice: &mut Dice) -> (Words, usize) {
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
pub fn opinion(good: bool, dice: &mut Dice) -> Words {
    let negated = dice.chance(30);
    let topic = dice.pick(&TOPICS);
    opinion_of(topic, good, negated, dice)
}

/// What somebody thinks of a thing of a topic.
fn opinion_of(topic: &Topic, good: bool, negated: bool, dice: &mut Dice) -> Words {
    let side = usize::from(good == negated);
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
        liking(who, thing, side, negated, dice)
    }
}

/// What somebody does with a thing.
fn liking(who: &str, thing: &str, side: usize, negated: bool, dice: &mut Dice) -> Words {
    let (base, past) = *dice.pick(&LIKINGS[side]);
    if negated { strings(&[who, "did", "not", base, "the", thing]) } else { strings(&[who, past, "the", thing]) }
}

/// Two parts of a sentence, or two sentences.
fn joined(mut first: Words, second: Words, dice: &mut Dice) -> Words {
    first.push(dice.word(&["and", "but", "."]).to_owned());
    first.extend(second);
    ended(first)
}

/// Two things are judged: which topic has the one that is thought ill of?
pub fn complaint(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(TOPICS.len());
    let other = (class + 1 + dice.below(TOPICS.len() - 1)) % TOPICS.len();
    let bad_first = dice.chance(50);
    let [first, second] = if bad_first { [class, other] } else { [other, class] };
    let mut part = |topic: usize, good: bool| {
        let negated = dice.chance(30);
        opinion_of(&TOPICS[topic], good, negated, dice)
    };
    let (first, second) = (part(first, !bad_first), part(second, bad_first));
    (joined(first, second, dice), class)
}

/// Two people speak of the same thing: who is for it? Neither, the first, the second or both.
pub fn stance(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(4);
    let topic = dice.pick(&TOPICS);
    let noun = dice.pick(topic.nouns);
    let thing = dice.pick(noun.names).0;
    let first = dice.word(&NAMES);
    let second = dice.other_word(&NAMES, first);
    let mut part = |who: &str, good: bool| {
        let negated = dice.chance(40);
        liking(who, thing, usize::from(good == negated), negated, dice)
    };
    let (first, second) = (part(first, class & 1 == 1), part(second, class & 2 == 2));
    (joined(first, second, dice), class)
}

/// Two people feel something: what does the one feel of whom the other is the reason?
pub fn mood(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(FEELINGS.len());
    let other = (class + 1 + dice.below(FEELINGS.len() - 1)) % FEELINGS.len();
    let (own, reason) = (feeling(class, dice), feeling(other, dice));
    let words = if dice.chance(50) {
        [own, strings(&["because"]), reason].concat()
    } else {
        [strings(&["because"]), reason, strings(&[","]), own].concat()
    };
    (ended(words), class)
}

/// One sentence is about trade, the other is not, and one of them is denied: did the trade take place?
pub fn report(dice: &mut Dice) -> (Words, usize) {
    let took_place = dice.chance(50);
    let other = dice.pick_other(&TOPICS, trade());
    let mut part = |topic: &'static Topic, negated: bool| {
        let meaning = Meaning::random(dice, topic);
        ended(Meaning { negated, ..meaning }.say(dice))
    };
    let (trade, other) = (part(trade(), !took_place), part(other, took_place));
    let words = if dice.chance(50) { [trade, other].concat() } else { [other, trade].concat() };
    (words, usize::from(took_place))
}

fn trade() -> &'static Topic {
    TOPICS.iter().find(|topic| topic.name == "trade").unwrap_or(&TOPICS[0])
}

/// Is it meant well? After `but` comes what is meant.
pub fn sentiment(dice: &mut Dice) -> (Words, usize) {
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
pub fn changed(meaning: &Meaning, slot: usize, dice: &mut Dice) -> Meaning {
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
pub fn paraphrase(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = Meaning::about_anything(dice);
    let same = dice.chance(50);
    let slot = dice.below(5);
    let second = if same { meaning.clone() } else { changed(&meaning, slot, dice) };
    (ended(meaning.say(dice)), ended(second.say(dice)), usize::from(same))
}

/// How much of what one says does the other say, from 0 to 5?
pub fn similarity(dice: &mut Dice) -> (Words, Words, usize) {
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
pub fn askable(dice: &mut Dice) -> Meaning {
    let mut meaning = Meaning::about_anything(dice);
    meaning.subject = Phrase::Name(dice.word(&NAMES));
    meaning.place = Some(dice.word(&PLACES));
    meaning.negated = false;
    meaning
}

/// Everything that is asked for.
pub const ASKED: [Asked; 3] = [Asked::Subject, Asked::Object, Asked::Place];

/// Do both ask the same?
pub fn duplicates(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = askable(dice);
    let asked = *dice.pick(&ASKED);
    let same = dice.chance(50);
    let second = match (same, dice.chance(40)) {
        (true, _) => meaning.ask(asked, dice),
        (false, true) => meaning.ask(*dice.pick_other(&ASKED, &asked), dice),
        (false, false) => no_answer(&meaning, asked, dice).ask(asked, dice),
    };
    (meaning.ask(asked, dice), second, usize::from(same))
}

/// Another meaning that does not answer the question for `asked` of `meaning`: what the question says is not so in it.
fn no_answer(meaning: &Meaning, asked: Asked, dice: &mut Dice) -> Meaning {
    // What is asked for is not said: something else must differ.
    let slot = match asked {
        Asked::Subject => 1 + dice.below(2),
        Asked::Object => dice.below(2),
        Asked::Place => dice.below(3),
    };
    changed(meaning, slot, dice)
}

/// Does the sentence answer the question?
pub fn answerable(dice: &mut Dice) -> (Words, Words, usize) {
    let meaning = askable(dice);
    let asked = *dice.pick(&ASKED);
    let answers = dice.chance(50);
    let mut told = meaning.clone();
    if !answers {
        match asked {
            Asked::Place if dice.chance(40) => told.place = None,
            _ => told = no_answer(&meaning, asked, dice),
        }
    }
    (meaning.ask(asked, dice), ended(told.say(dice)), usize::from(answers))
}

/// Something that follows from `meaning`, which must not be negated: less is said, or the kind instead of the thing.
pub fn consequence(meaning: &Meaning, dice: &mut Dice) -> Meaning {
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
pub fn premise(dice: &mut Dice) -> Meaning {
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
pub fn inference(dice: &mut Dice) -> (Words, Words, usize) {
    let said = premise(dice);
    let class = dice.below(3);
    let mut second = consequence(&said, dice);
    match class {
        0 => {}
        1 => {
            let slot = dice.below(4);
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
pub fn entailment(dice: &mut Dice) -> (Words, Words, usize) {
    let (said, second, class) = inference(dice);
    (said, second, usize::from(class == 0))
}

/// What is it about? Now and then something else is mentioned first.
pub fn topic(dice: &mut Dice) -> (Words, usize) {
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
pub fn lure(dice: &mut Dice) -> Words {
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
pub fn spam(dice: &mut Dice) -> (Words, usize) {
    let unwanted = dice.chance(40);
    let mut words = match dice.below(3) {
        0 => ended(Meaning::about_anything(dice).say(dice)),
        1 => ended(opinion(dice.chance(50), dice)),
        _ => Vec::new(),
    };
    if unwanted {
        words.extend(lure(dice));
    } else if dice.chance(50) {
        let who = dice.word(&NAMES);
        words.extend(strings(&[who, "bought", "a", dice.word(&LURES), "for", dice.word(&NAMES)]));
    } else {
        words.extend(Meaning::about_anything(dice).say(dice));
    }
    words.push(if dice.chance(30) { "!" } else { "." }.to_owned());
    (words, usize::from(unwanted))
}

/// How somebody felt, and why.
pub fn feeling(class: usize, dice: &mut Dice) -> Words {
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
pub fn emotion(dice: &mut Dice) -> (Words, usize) {
    let class = dice.below(FEELINGS.len());
    let mut words = feeling(class, dice);
    if dice.chance(60) {
        words.push("because".to_owned());
        words.extend(Meaning::about_anything(dice).say(dice));
    }
    (ended(words), class)
}

/// What a text about three people in three places says.
pub fn story(dice: &mut Dice) -> Vec<Meaning> {
    let mut told: Vec<Meaning> = Vec::new();
    while told.len() < 3 {
        let meaning = askable(dice);
        if told.iter().all(|other| other.subject != meaning.subject && other.place != meaning.place) {
            told.push(meaning);
        }
    }
    told
}

/// The part of `meaning` that `asked` names, in the words of the sentence that says it.
pub fn answer(meaning: &Meaning, asked: Asked, words: &[String]) -> String {
    match (&meaning.subject, asked) {
        (Phrase::Name(name), Asked::Subject) => (*name).to_owned(),
        (_, Asked::Place) => meaning.place.unwrap_or_default().to_owned(),
        _ => object_words(meaning, words),
    }
}

/// Who, what or where, in a text about several people.
pub fn question(id: usize, dice: &mut Dice) -> Question {
    let told = story(dice);
    let (meaning, asked) = (dice.pick(&told).clone(), *dice.pick(&ASKED));
    let (mut context, mut start, mut text) = (String::new(), 0, String::new());
    for other in &told {
        let words = ended(other.say(dice));
        if !context.is_empty() {
            context.push(' ');
        }
        if *other == meaning {
            text = answer(&meaning, asked, &words);
            start = context.len() + place_of(&words.join(" "), &text);
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
