//! The words.

/// A thing: its singular and plural, and those of a synonym where it has one.
#[derive(Debug, PartialEq, Eq)]
pub struct Noun {
    /// Singular and plural of each name.
    pub names: &'static [(&'static str, &'static str)],
    /// The kind of thing it is: singular and plural.
    pub kind: Option<(&'static str, &'static str)>,
}

/// A deed: base form, third person, past; and those of a synonym where it has one.
#[derive(Debug, PartialEq, Eq)]
pub struct Verb {
    /// The forms of each name.
    pub names: &'static [[&'static str; 3]],
}

/// What a text can be about.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// Who or what acts or is acted on.
    pub nouns: &'static [Noun],
    /// What is done.
    pub verbs: &'static [Verb],
    /// What things are like.
    pub adjectives: &'static [&'static [&'static str]],
}

const fn noun(names: &'static [(&'static str, &'static str)]) -> Noun {
    Noun { names, kind: None }
}

const fn of_kind(names: &'static [(&'static str, &'static str)], kind: (&'static str, &'static str)) -> Noun {
    Noun { names, kind: Some(kind) }
}

const fn verb(names: &'static [[&'static str; 3]]) -> Verb {
    Verb { names }
}

const ANIMAL: (&str, &str) = ("animal", "animals");
const FRUIT: (&str, &str) = ("fruit", "fruits");
const INSTRUMENT: (&str, &str) = ("instrument", "instruments");
const VEHICLE: (&str, &str) = ("vehicle", "vehicles");

/// Every topic.
#[rustfmt::skip]
pub const TOPICS: [Topic; 8] = [
    Topic {
        name: "farm",
        nouns: &[
            of_kind(&[("dog", "dogs"), ("hound", "hounds")], ANIMAL), of_kind(&[("cow", "cows")], ANIMAL),
            of_kind(&[("horse", "horses"), ("pony", "ponies")], ANIMAL), of_kind(&[("goat", "goats")], ANIMAL),
            noun(&[("farmer", "farmers")]), noun(&[("fence", "fences")]),
        ],
        verbs: &[
            verb(&[["feed", "feeds", "fed"]]), verb(&[["chase", "chases", "chased"], ["follow", "follows", "followed"]]),
            verb(&[["wash", "washes", "washed"]]), verb(&[["guard", "guards", "guarded"]]),
        ],
        adjectives: &[&["young"], &["brown"], &["muddy", "dirty"]],
    },
    Topic {
        name: "food",
        nouns: &[
            of_kind(&[("apple", "apples")], FRUIT), of_kind(&[("pear", "pears")], FRUIT),
            of_kind(&[("plum", "plums")], FRUIT), noun(&[("cook", "cooks"), ("chef", "chefs")]),
            noun(&[("meal", "meals"), ("dish", "dishes")]), noun(&[("guest", "guests")]),
        ],
        verbs: &[
            verb(&[["eat", "eats", "ate"]]), verb(&[["boil", "boils", "boiled"]]),
            verb(&[["serve", "serves", "served"]]), verb(&[["taste", "tastes", "tasted"], ["try", "tries", "tried"]]),
        ],
        adjectives: &[&["sweet"], &["hot", "warm"], &["salty"]],
    },
    Topic {
        name: "sport",
        nouns: &[
            noun(&[("player", "players"), ("athlete", "athletes")]), noun(&[("team", "teams")]),
            noun(&[("ball", "balls")]), noun(&[("match", "matches"), ("game", "games")]),
            noun(&[("coach", "coaches"), ("trainer", "trainers")]), noun(&[("goal", "goals")]),
        ],
        verbs: &[
            verb(&[["kick", "kicks", "kicked"]]), verb(&[["win", "wins", "won"]]),
            verb(&[["miss", "misses", "missed"]]), verb(&[["throw", "throws", "threw"], ["toss", "tosses", "tossed"]]),
        ],
        adjectives: &[&["strong"], &["fast", "quick"], &["tired"]],
    },
    Topic {
        name: "music",
        nouns: &[
            of_kind(&[("guitar", "guitars")], INSTRUMENT), of_kind(&[("piano", "pianos")], INSTRUMENT),
            of_kind(&[("drum", "drums")], INSTRUMENT), noun(&[("song", "songs"), ("tune", "tunes")]),
            noun(&[("singer", "singers")]), noun(&[("band", "bands"), ("group", "groups")]),
        ],
        verbs: &[
            verb(&[["play", "plays", "played"]]), verb(&[["hear", "hears", "heard"]]),
            verb(&[["record", "records", "recorded"], ["tape", "tapes", "taped"]]), verb(&[["tune", "tunes", "tuned"]]),
        ],
        adjectives: &[&["loud"], &["soft", "quiet"], &["famous"]],
    },
    Topic {
        name: "travel",
        nouns: &[
            of_kind(&[("car", "cars"), ("auto", "autos")], VEHICLE), of_kind(&[("bus", "buses")], VEHICLE),
            of_kind(&[("train", "trains")], VEHICLE), noun(&[("driver", "drivers")]),
            noun(&[("ticket", "tickets")]), noun(&[("traveller", "travellers"), ("tourist", "tourists")]),
        ],
        verbs: &[
            verb(&[["drive", "drives", "drove"], ["steer", "steers", "steered"]]), verb(&[["board", "boards", "boarded"]]),
            verb(&[["repair", "repairs", "repaired"], ["fix", "fixes", "fixed"]]), verb(&[["await", "awaits", "awaited"]]),
        ],
        adjectives: &[&["late"], &["crowded", "full"], &["red"]],
    },
    Topic {
        name: "trade",
        nouns: &[
            noun(&[("shop", "shops"), ("store", "stores")]), noun(&[("seller", "sellers"), ("vendor", "vendors")]),
            noun(&[("coat", "coats"), ("jacket", "jackets")]), noun(&[("price", "prices")]),
            noun(&[("client", "clients"), ("customer", "customers")]), noun(&[("bill", "bills")]),
        ],
        verbs: &[
            verb(&[["buy", "buys", "bought"], ["purchase", "purchases", "purchased"]]), verb(&[["sell", "sells", "sold"]]),
            verb(&[["pay", "pays", "paid"]]), verb(&[["return", "returns", "returned"]]),
        ],
        adjectives: &[&["cheap"], &["costly", "expensive"], &["new"]],
    },
    Topic {
        name: "school",
        nouns: &[
            noun(&[("teacher", "teachers"), ("tutor", "tutors")]), noun(&[("student", "students"), ("pupil", "pupils")]),
            noun(&[("book", "books")]), noun(&[("lesson", "lessons"), ("class", "classes")]),
            noun(&[("exam", "exams"), ("test", "tests")]), noun(&[("letter", "letters")]),
        ],
        verbs: &[
            verb(&[["read", "reads", "read"]]), verb(&[["write", "writes", "wrote"]]),
            verb(&[["begin", "begins", "began"], ["start", "starts", "started"]]), verb(&[["teach", "teaches", "taught"]]),
        ],
        adjectives: &[&["hard", "difficult"], &["long"], &["clever", "smart"]],
    },
    Topic {
        name: "health",
        nouns: &[
            noun(&[("doctor", "doctors"), ("medic", "medics")]), noun(&[("nurse", "nurses")]),
            noun(&[("patient", "patients")]), noun(&[("pill", "pills"), ("tablet", "tablets")]),
            noun(&[("wound", "wounds"), ("injury", "injuries")]), noun(&[("bed", "beds")]),
        ],
        verbs: &[
            verb(&[["heal", "heals", "healed"], ["cure", "cures", "cured"]]), verb(&[["need", "needs", "needed"]]),
            verb(&[["visit", "visits", "visited"]]), verb(&[["carry", "carries", "carried"]]),
        ],
        adjectives: &[&["sick", "ill"], &["clean"], &["weak"]],
    },
];

/// People.
pub const NAMES: [&str; 20] = [
    "anna", "ben", "carla", "david", "emma", "frank", "grace", "henry", "irene", "jack", "karen", "leo", "maria",
    "nina", "oscar", "paul", "rosa", "sam", "tina", "victor",
];

/// Where things happen.
pub const PLACES: [&str; 10] =
    ["paris", "london", "berlin", "madrid", "rome", "vienna", "oslo", "dublin", "prague", "athens"];

/// When things happen.
pub const TIMES: [&str; 6] = ["today", "yesterday", "again", "often", "early", "twice"];

/// What is thought of things: good and bad.
pub const OPINIONS: [[&str; 10]; 2] = [
    ["good", "great", "lovely", "fine", "superb", "nice", "pleasant", "brilliant", "charming", "perfect"],
    ["bad", "awful", "terrible", "poor", "dreadful", "nasty", "boring", "horrible", "ugly", "useless"],
];

/// What people do with things they think so of: base form and past.
pub const LIKINGS: [[(&str, &str); 4]; 2] = [
    [("love", "loved"), ("enjoy", "enjoyed"), ("like", "liked"), ("admire", "admired")],
    [("hate", "hated"), ("regret", "regretted"), ("dislike", "disliked"), ("despise", "despised")],
];

/// How people feel, by feeling.
pub const FEELINGS: [(&str, [&str; 5]); 5] = [
    ("joy", ["happy", "glad", "cheerful", "joyful", "delighted"]),
    ("anger", ["angry", "furious", "mad", "annoyed", "bitter"]),
    ("fear", ["afraid", "scared", "anxious", "worried", "frightened"]),
    ("sadness", ["sad", "unhappy", "gloomy", "lonely", "miserable"]),
    ("surprise", ["surprised", "amazed", "stunned", "astonished", "puzzled"]),
];

/// What unwanted messages promise.
pub const LURES: [&str; 6] = ["prize", "bonus", "reward", "discount", "gift", "jackpot"];

/// What unwanted messages ask for.
pub const CALLS: [&str; 5] = ["call", "click", "reply", "hurry", "claim"];

/// Small words.
#[rustfmt::skip]
pub const SMALL: [&str; 54] = [
    "a", "an", "the", "every", "some", "many", "two", "three", "no", "all", "most", "few",
    "does", "do", "did", "not", "is", "are", "was", "were", "be",
    "in", "at", "with", "of", "for", "by", "to", "and", "but", "so", "because", "then",
    "i", "we", "you", "it", "they", "my", "your", "this",
    "who", "what", "where", "which", "place", "thing", "person", "someone",
    "now", "free", "very", "felt", "there",
];

/// Marks.
pub const MARKS: [&str; 4] = [".", ",", "?", "!"];
