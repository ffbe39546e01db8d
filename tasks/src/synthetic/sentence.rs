//! Sentences: who did what to what, where.

use super::{
    dice::Dice,
    lexicon::{NAMES, Noun, PLACES, TIMES, TOPICS, Topic, Verb},
};

/// Who or what.
#[derive(Clone, Debug, PartialEq)]
pub enum Phrase {
    /// A person.
    Name(&'static str),
    /// Things, counted or pointed at.
    Things {
        /// Which, or how many.
        determiner: Determiner,
        /// What they are like, as a set of synonyms.
        adjective: Option<&'static [&'static str]>,
        /// What they are.
        noun: &'static Noun,
    },
    /// Things of a kind, as `some animals`.
    Kind(Determiner, (&'static str, &'static str)),
}

/// Which things, or how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Determiner {
    A,
    The,
    TheMany,
    Every,
    Some,
    Many,
    Two,
    No,
}

impl Determiner {
    /// Those that do not change what a sentence says of its subject beyond how many.
    pub const PLAIN: [Determiner; 6] =
        [Determiner::A, Determiner::The, Determiner::TheMany, Determiner::Some, Determiner::Many, Determiner::Two];

    fn is_plural(self) -> bool {
        matches!(self, Determiner::TheMany | Determiner::Some | Determiner::Many | Determiner::Two)
    }

    fn word(self, next: &str) -> &'static str {
        match self {
            Determiner::A if next.starts_with(['a', 'e', 'i', 'o', 'u']) => "an",
            Determiner::A => "a",
            Determiner::The | Determiner::TheMany => "the",
            Determiner::Every => "every",
            Determiner::Some => "some",
            Determiner::Many => "many",
            Determiner::Two => "two",
            Determiner::No => "no",
        }
    }
}

/// What a sentence says. The same meaning can be said in several ways: see [`say`](Self::say).
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    pub topic: &'static Topic,
    pub subject: Phrase,
    pub verb: &'static Verb,
    pub object: Phrase,
    pub place: Option<&'static str>,
    pub time: Option<&'static str>,
    pub past: bool,
    pub negated: bool,
}

impl Meaning {
    /// Something about a topic.
    pub fn random(dice: &mut Dice, topic: &'static Topic) -> Self {
        let subject = if dice.chance(50) { Phrase::Name(dice.word(&NAMES)) } else { Phrase::random(dice, topic) };
        Self {
            topic,
            subject,
            verb: dice.pick(topic.verbs),
            object: Phrase::random(dice, topic),
            place: dice.chance(40).then(|| dice.word(&PLACES)),
            time: dice.chance(20).then(|| dice.word(&TIMES)),
            past: dice.chance(60),
            negated: dice.chance(20),
        }
    }

    /// Something about anything.
    pub fn about_anything(dice: &mut Dice) -> Self {
        let topic = dice.pick(&TOPICS);
        Self::random(dice, topic)
    }

    /// Words for the meaning: synonyms and the place's position are left to chance, agreement is not.
    pub fn say(&self, dice: &mut Dice) -> Vec<String> {
        self.say_with(None, dice)
    }

    /// [`say`](Self::say), with a slip.
    pub fn say_with(&self, slip: Option<Slip>, dice: &mut Dice) -> Vec<String> {
        let [base, third, past] = *dice.pick(self.verb.names);
        let plural = self.subject.is_plural();
        let mut words = self.subject.say(slip == Some(Slip::Subject), dice);
        let wrong = slip == Some(Slip::Verb);
        match (self.negated, self.past) {
            // `did not bought`; where the past is no other word, `did not reads`.
            (true, true) if wrong => words.extend(strings(&["did", "not", if past == base { third } else { past }])),
            (true, true) => words.extend(strings(&["did", "not", base])),
            (true, false) => words.extend(strings(&[if plural != wrong { "do" } else { "does" }, "not", base])),
            (false, true) if !wrong => words.push(past.to_owned()),
            (false, _) => words.push(if plural != wrong { base } else { third }.to_owned()),
        }
        words.extend(self.object.say(slip == Some(Slip::Object), dice));
        if let Some(time) = self.time {
            words.push(time.to_owned());
        }
        match self.place {
            Some(place) if dice.chance(25) => {
                words.splice(0..0, strings(&["in", place, ","]));
            }
            Some(place) => words.extend(strings(&["in", place])),
            None => {}
        }
        words
    }

    /// A question for the part that `asked` names.
    pub fn ask(&self, asked: Asked, dice: &mut Dice) -> Vec<String> {
        let [base, third, past] = *dice.pick(self.verb.names);
        let doing = match (self.past, self.subject.is_plural()) {
            (true, _) => "did",
            (false, true) => "do",
            (false, false) => "does",
        };
        let mut words = match asked {
            Asked::Subject => {
                // A name answers `who`; the verb is that of one person.
                let mut words = strings(if dice.chance(70) { &["who"] } else { &["which", "person"] });
                words.push(if self.past { past } else { third }.to_owned());
                words.extend(self.object.say(false, dice));
                words
            }
            Asked::Object => {
                let mut words = strings(if dice.chance(70) { &["what"] } else { &["which", "thing"] });
                words.push(doing.to_owned());
                words.extend(self.subject.say(false, dice));
                words.push(base.to_owned());
                words
            }
            Asked::Place => {
                let mut words = strings(if dice.chance(70) { &["where"] } else { &["in", "which", "place"] });
                words.push(doing.to_owned());
                words.extend(self.subject.say(false, dice));
                words.push(base.to_owned());
                words.extend(self.object.say(false, dice));
                words
            }
        };
        words.push("?".to_owned());
        words
    }
}

/// A word that does not agree with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The subject's noun has the other number than its determiner.
    Subject,
    /// The verb has another form than its subject and tense ask for.
    Verb,
    /// The object's noun has the other number than its determiner.
    Object,
}

/// What a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Subject,
    Object,
    Place,
}

impl Phrase {
    /// Things of a topic.
    pub fn random(dice: &mut Dice, topic: &'static Topic) -> Self {
        Phrase::Things {
            determiner: *dice.pick(&Determiner::PLAIN),
            adjective: dice.chance(35).then(|| *dice.pick(topic.adjectives)),
            noun: dice.pick(topic.nouns),
        }
    }

    /// Whether verbs take their plural.
    pub fn is_plural(&self) -> bool {
        match self {
            Phrase::Name(_) => false,
            Phrase::Things { determiner, .. } | Phrase::Kind(determiner, _) => determiner.is_plural(),
        }
    }

    /// Whether a noun of the other number would be wrong: `the dog` and `the dogs` are both right.
    pub fn shows_number(&self) -> bool {
        match self {
            Phrase::Name(_) => false,
            Phrase::Things { determiner, .. } | Phrase::Kind(determiner, _) => {
                !matches!(determiner, Determiner::The | Determiner::TheMany | Determiner::Some | Determiner::No)
            }
        }
    }

    /// Words for it; `wrong` gives the noun the other number.
    pub fn say(&self, wrong: bool, dice: &mut Dice) -> Vec<String> {
        let (determiner, adjective, (one, many)) = match self {
            Phrase::Name(name) => return strings(&[name]),
            Phrase::Things { determiner, adjective, noun } => {
                (determiner, adjective.map(|synonyms| *dice.pick(synonyms)), *dice.pick(noun.names))
            }
            Phrase::Kind(determiner, kind) => (determiner, None, *kind),
        };
        let noun = if determiner.is_plural() != wrong { many } else { one };
        let first = adjective.unwrap_or(noun);
        let mut words = strings(&[determiner.word(first)]);
        words.extend(adjective.map(str::to_owned));
        words.push(noun.to_owned());
        words
    }
}

/// Owned words.
pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
