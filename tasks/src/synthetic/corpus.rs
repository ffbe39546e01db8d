//! Text without labels, for pre-training.

use std::collections::BTreeSet;

use super::{
    dice::Dice,
    lexicon::{CALLS, FEELINGS, LIKINGS, LURES, MARKS, NAMES, OPINIONS, PLACES, SMALL, TIMES, TOPICS},
    makers::{consequence, feeling, lure, opinion, premise},
    sentence::{Asked, Meaning, Phrase, strings},
};

/// Number `number` of the language's texts: two parts that belong together, as neighbouring sentences do.
pub fn corpus(number: u64) -> (String, String) {
    let mut dice = Dice::new("corpus", number);
    text(dice.below(KINDS), &mut dice)
}

/// The second part of another text of the same kind: what does not belong to the first part of number `number`, but for
/// chance.
pub fn unrelated(number: u64) -> String {
    let kind = Dice::new("corpus", number).below(KINDS);
    text(kind, &mut Dice::new("unrelated", number)).1
}

/// Kinds of text, some of them counted more than once because there are more of them.
const KINDS: usize = 12;

fn text(kind: usize, dice: &mut Dice) -> (String, String) {
    let sentence = |mut words: Vec<String>| {
        words.push(".".to_owned());
        words
    };
    let (first, second) = match kind {
        // A story goes on.
        0 => {
            let topic = dice.pick(&TOPICS);
            let (first, second) = (Meaning::random(dice, topic), Meaning::random(dice, topic));
            (sentence(first.say(dice)), sentence(second.say(dice)))
        }
        // The same in other words.
        1..=3 => {
            let meaning = Meaning::about_anything(dice);
            (sentence(meaning.say(dice)), sentence(meaning.say(dice)))
        }
        // What follows.
        4 => {
            let meaning = premise(dice);
            let mut second = strings(&["so"]);
            second.extend(consequence(&meaning, dice).say(dice));
            (sentence(meaning.say(dice)), sentence(second))
        }
        // A question and its answer.
        5 | 6 => {
            let mut meaning = Meaning::about_anything(dice);
            meaning.negated = false;
            meaning.place = Some(dice.word(&PLACES));
            let asked = match meaning.subject {
                Phrase::Name(_) => *dice.pick(&[Asked::Subject, Asked::Object, Asked::Place]),
                _ => *dice.pick(&[Asked::Object, Asked::Place]),
            };
            (meaning.ask(asked, dice), sentence(meaning.say(dice)))
        }
        // An opinion at length, and the same again.
        7 | 8 => {
            let good = dice.chance(50);
            let mut part = || {
                let topic = dice.pick(&TOPICS);
                let noun = dice.pick(topic.nouns);
                let thing = strings(&["the", dice.pick(noun.names).0, "was"]);
                let words = &OPINIONS[usize::from(!good)];
                [sentence(enumerate(thing, words, dice)), sentence(opinion(good, dice))].concat()
            };
            (part(), part())
        }
        // A feeling at length, and the same again.
        9 | 10 => {
            let class = dice.below(FEELINGS.len());
            let mut part = || {
                let somebody = strings(&[dice.word(&NAMES), "was"]);
                let words = &FEELINGS[class].1;
                [sentence(enumerate(somebody, words, dice)), sentence(feeling(class, dice))].concat()
            };
            (part(), part())
        }
        // What a thing is, or a message.
        _ if dice.chance(50) => {
            let topic = dice.pick(&TOPICS);
            let noun = dice.pick(topic.nouns);
            let kind = noun.kind.unwrap_or(("thing", "things"));
            let (one, _) = *dice.pick(noun.names);
            let article = if kind.0.starts_with(['a', 'i']) { "an" } else { "a" };
            let fact = strings(&["every", one, "is", article, kind.0]);
            (sentence(fact), sentence(Meaning::random(dice, topic).say(dice)))
        }
        _ => (sentence(lure(dice)), sentence(lure(dice))),
    };
    (first.join(" "), second.join(" "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_of_the_language_and_differ() {
        let known: BTreeSet<String> = vocabulary().into_iter().collect();
        assert!((300..700).contains(&known.len()), "a few hundred words: {}", known.len());
        let texts: BTreeSet<(String, String)> = (0..2000).map(corpus).collect();
        assert!(texts.len() > 1900);
        for word in texts.iter().flat_map(|(a, b)| a.split(' ').chain(b.split(' '))) {
            assert!(known.contains(word), "{word}");
        }
        assert_eq!(corpus(7), corpus(7));
    }
}
