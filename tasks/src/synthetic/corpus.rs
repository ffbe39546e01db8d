//! Text without labels, for pre-training.

use std::collections::BTreeSet;

use adapter_core::mix;

use super::{
    dice::Dice,
    lexicon::{CALLS, FEELINGS, LIKINGS, LURES, MARKS, NAMES, OPINIONS, PLACES, SMALL, TIMES, TOPICS},
    makers::{ASKED, Words, answer, askable, changed, consequence, ended, feeling, lure, opinion, premise, story},
    sentence::{Meaning, strings},
};

/// A text in two parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passage {
    /// Its first part.
    pub first: String,
    /// Its second part.
    pub second: String,
    /// Whether the second part belongs to the first, as neighbouring sentences do.
    pub belongs: bool,
}

/// Number `number` of the language's texts. In half of them the second part does not belong to the first. Where something is
/// said again, it differs mostly by one thing only: who never compares word by word cannot tell.
pub fn corpus(number: u64) -> Passage {
    let mut dice = Dice::new("passage", number);
    let belongs = dice.chance(50);
    let (first, second) = match dice.below(16) {
        0 => topic_kept(belongs, &mut dice),
        1..=3 => said_again(belongs, &mut dice),
        4 | 5 => drawn_from(belongs, &mut dice),
        6 | 7 => asked_and_told(belongs, &mut dice),
        8..=10 => asked_of_a_story(belongs, &mut dice),
        11 | 12 => part_of_a_story(belongs, &mut dice),
        13 => of_one_opinion(belongs, &mut dice),
        14 => of_one_feeling(belongs, &mut dice),
        _ if dice.chance(50) => fact(belongs, &mut dice),
        _ => messages(belongs, &mut dice),
    };
    Passage { first: first.join(" "), second: second.join(" "), belongs }
}

/// What does not say the same as `meaning`: mostly one thing is another, now and then all is.
fn other_than(meaning: &Meaning, dice: &mut Dice) -> Meaning {
    if dice.chance(15) {
        return Meaning::about_anything(dice);
    }
    let slot = dice.below(5);
    changed(meaning, slot, dice)
}

/// A story goes on, or another begins.
fn topic_kept(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let topic = dice.pick(&TOPICS);
    let next = if belongs { topic } else { dice.pick_other(&TOPICS, topic) };
    let (first, second) = (Meaning::random(dice, topic), Meaning::random(dice, next));
    (ended(first.say(dice)), ended(second.say(dice)))
}

/// The same in other words.
fn said_again(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let meaning = Meaning::about_anything(dice);
    let again = if belongs { meaning.clone() } else { other_than(&meaning, dice) };
    (ended(meaning.say(dice)), ended(again.say(dice)))
}

/// What follows, or what follows from something else.
fn drawn_from(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let said = premise(dice);
    let other = if belongs { said.clone() } else { premise(dice) };
    let mut second = if dice.chance(50) { strings(&["so"]) } else { Vec::new() };
    second.extend(consequence(&other, dice).say(dice));
    (ended(said.say(dice)), ended(second))
}

/// A question and the sentence that answers it, or the answer to another.
fn asked_and_told(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let (meaning, asked) = (askable(dice), *dice.pick(&ASKED));
    let told = if belongs { meaning.clone() } else { askable(dice) };
    (meaning.ask(asked, dice), ended(told.say(dice)))
}

/// A question with its short answer, and the story that has it, or another story.
fn asked_of_a_story(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let told = story(dice);
    let (meaning, asked) = (dice.pick(&told), *dice.pick(&ASKED));
    let say = |told: &[Meaning], dice: &mut Dice| -> Vec<Words> {
        told.iter().map(|meaning| ended(meaning.say(dice))).collect()
    };
    let sentences = say(&told, dice);
    let mut first = meaning.ask(asked, dice);
    if let Some((_, words)) = told.iter().zip(&sentences).find(|(other, _)| *other == meaning) {
        first.push(answer(meaning, asked, words));
    }
    let second = if belongs { sentences } else { say(&story(dice), dice) };
    (ended(first), second.concat())
}

/// A story, and a part of it in other words.
fn part_of_a_story(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let told = story(dice);
    let first: Vec<Words> = told.iter().map(|meaning| ended(meaning.say(dice))).collect();
    let meaning = dice.pick(&told);
    let again = if belongs { meaning.clone() } else { other_than(meaning, dice) };
    (first.concat(), ended(again.say(dice)))
}

/// An opinion at length, and the same again.
fn of_one_opinion(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let good = dice.chance(50);
    let mut part = |good: bool| {
        let topic = dice.pick(&TOPICS);
        let noun = dice.pick(topic.nouns);
        let thing = strings(&["the", dice.pick(noun.names).0, "was"]);
        let words = &OPINIONS[usize::from(!good)];
        [ended(enumerate(thing, words, dice)), ended(opinion(good, dice))].concat()
    };
    (part(good), part(good == belongs))
}

/// A feeling at length, and the same again.
fn of_one_feeling(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let class = dice.below(FEELINGS.len());
    let next = if belongs { class } else { (class + 1 + dice.below(FEELINGS.len() - 1)) % FEELINGS.len() };
    let mut part = |class: usize| {
        let somebody = strings(&[dice.word(&NAMES), "was"]);
        let words = &FEELINGS[class].1;
        [ended(enumerate(somebody, words, dice)), ended(feeling(class, dice))].concat()
    };
    (part(class), part(next))
}

/// What a thing is, and a story about such things.
fn fact(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let topic = dice.pick(&TOPICS);
    let noun = dice.pick(topic.nouns);
    let kind = noun.kind.unwrap_or(("thing", "things"));
    let (one, _) = *dice.pick(noun.names);
    let article = if kind.0.starts_with(['a', 'i']) { "an" } else { "a" };
    let fact = strings(&["every", one, "is", article, kind.0]);
    let next = if belongs { topic } else { dice.pick_other(&TOPICS, topic) };
    (ended(fact), ended(Meaning::random(dice, next).say(dice)))
}

/// Unwanted messages come together.
fn messages(belongs: bool, dice: &mut Dice) -> (Words, Words) {
    let second = if belongs { lure(dice) } else { Meaning::about_anything(dice).say(dice) };
    (ended(lure(dice)), ended(second))
}

/// `beginning` and three of `words`: they were sad , lonely and gloomy.
fn enumerate(beginning: Vec<String>, words: &[&'static str], dice: &mut Dice) -> Vec<String> {
    let [a, b, c] = std::array::from_fn(|_| dice.word(words));
    [beginning, strings(&[a, ",", b, "and", c])].concat()
}

/// BERT's special tokens and every word of the language, in alphabetical order.
pub fn vocabulary() -> Vec<String> {
    let mut words: BTreeSet<&str> = BTreeSet::new();
    for topic in &TOPICS {
        for noun in topic.nouns {
            words.extend(noun.names.iter().chain(&noun.kind).flat_map(|(one, many)| [*one, *many]));
        }
        words.extend(topic.verbs.iter().flat_map(|verb| verb.names).flatten());
        words.extend(topic.adjectives.iter().copied().flatten());
    }
    words.extend(NAMES.iter().chain(&PLACES).chain(&TIMES).chain(&LURES).chain(&CALLS).chain(&SMALL).chain(&MARKS));
    words.extend(OPINIONS.iter().flatten());
    words.extend(LIKINGS.iter().flatten().flat_map(|(base, past)| [*base, *past]));
    words.extend(FEELINGS.iter().flat_map(|(_, words)| words));
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    special.into_iter().chain(words).map(str::to_owned).collect()
}

/// What tells one state of the language from another: whoever counts on its texts can see that they are the same.
pub fn fingerprint() -> String {
    let letters = |key: u64, text: &str| text.bytes().fold(key, |key, letter| mix(&[key, u64::from(letter)]));
    let key = vocabulary().iter().fold(0, |key, word| letters(key, word));
    let some = (0..256).map(corpus);
    format!(
        "{:016x}",
        some.fold(key, |key, text| letters(letters(mix(&[key, u64::from(text.belongs)]), &text.first), &text.second))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_of_the_language_and_differ() {
        let known: BTreeSet<String> = vocabulary().into_iter().collect();
        assert!((300..700).contains(&known.len()), "a few hundred words: {}", known.len());
        let texts: BTreeSet<Passage> = (0..2000).map(corpus).collect();
        assert!(texts.len() > 1900);
        for word in texts.iter().flat_map(|text| text.first.split(' ').chain(text.second.split(' '))) {
            assert!(known.contains(word), "{word}");
        }
        let belonging = texts.iter().filter(|text| text.belongs).count();
        assert!((800..1200).contains(&belonging), "half of them: {belonging}");
        assert_eq!(corpus(7), corpus(7));
    }
}
