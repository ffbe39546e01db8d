//! Texts as a trial sees them: words with their vectors for the deep network, hashed n-grams for the wide model.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use adapter_core::Init;
use anyhow::{Context, Result};
use bert_backbone::Backbone;
use burn::tensor::{Device, Int, Tensor, TensorData};
use tasks::Example;

use super::{WordVectors, space::TrialConfig};

/// Words of a text that the deep network reads; longer texts are cut.
pub const MAX_WORDS: usize = 128;
/// Words of the training set that get a vector of their own.
const MAX_VOCABULARY: usize = 20_000;
/// Places that n-grams are hashed to.
const BUCKETS: usize = 1 << 17;
/// The row of words that nobody knows.
const UNKNOWN: u32 = 0;
/// The wide model's row for places that no training text has: it is never trained, and stays zero.
const UNSEEN: u32 = 0;

/// Where the vectors of words come from.
pub enum Embedding<'a> {
    /// From nowhere: so many random numbers for each word of the training set.
    Random(usize),
    /// From a file.
    Words(&'a WordVectors),
    /// A backbone's own, of word pieces.
    Pieces(&'a Backbone),
}

/// How a text becomes words.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// In lower case.
    pub lower_case: bool,
    /// Only letters and digits.
    pub strip: bool,
}

impl Reading {
    /// The words of a text: runs of letters and digits, and every other character by itself unless it is stripped.
    pub fn words(self, text: &str) -> Vec<String> {
        let text = if self.lower_case { text.to_lowercase() } else { text.to_owned() };
        let (mut words, mut word) = (Vec::new(), String::new());
        for c in text.chars() {
            if c.is_alphanumeric() {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !self.strip && !c.is_whitespace() {
                words.push(c.to_string());
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    }

    /// The words of an example: both texts of a pair.
    pub fn example(self, example: &Example) -> Vec<String> {
        let pair = example.pair.iter().flat_map(|pair| self.words(pair));
        self.words(&example.text).into_iter().chain(pair).collect()
    }
}

/// Every word of some examples, however they are read.
pub fn all_words<'a>(examples: impl Iterator<Item = &'a Example>) -> BTreeSet<String> {
    let ways = [true, false].map(|lower_case| Reading { lower_case, strip: false });
    let mut words = BTreeSet::new();
    for example in examples {
        ways.iter().for_each(|reading| words.extend(reading.example(example)));
    }
    words
}

/// An example in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// Rows of the table of vectors; one at least.
    pub words: Vec<u32>,
    /// Rows of the wide model for its n-grams, each once; [`UNSEEN`] for those of no training text.
    pub grams: Vec<u32>,
}

/// Examples in numbers, and what the numbers mean.
pub struct Features {
    /// Training, validation and test.
    pub parts: [Vec<Text>; 3],
    /// The table of vectors, row by row, and its width; `None` without a deep network.
    pub table: Option<(Vec<f32>, usize)>,
    /// Rows of the wide model: one for each place that a training text has, and that of the others.
    pub grams: usize,
}

impl Features {
    /// Reads training, validation and test examples as `config` says.
    pub fn new(config: &TrialConfig, embedding: Option<Embedding<'_>>, parts: [&[Example]; 3]) -> Result<Self> {
        let reading = Reading { lower_case: config.get("lower_case")?, strip: config.get("strip")? };
        let (ngram, mut vocabulary) = (config.get("wide_ngram")?, Vocabulary::default());
        let mut text = |example: &Example| {
            let words = reading.example(example);
            Text { grams: grams(&words, ngram), words: words.into_iter().map(|word| vocabulary.number(word)).collect() }
        };
        // The numbers of words, and then the rows of those.
        let mut parts = parts.map(|part| part.iter().map(&mut text).collect::<Vec<Text>>());
        let grams = seen_only(&mut parts);
        let words = vocabulary.words();
        let random = |dimensions| Table::random(config.seed, dimensions);
        let read = match embedding {
            None => None,
            Some(Embedding::Pieces(backbone)) => Some(pieces(backbone, &words)?),
            Some(Embedding::Random(dimensions)) => {
                let known = frequent(&words, &parts[0]).into_iter().take(MAX_VOCABULARY).map(|word| (word, None));
                Some(rows_of(words.len(), known, random(dimensions)))
            }
            Some(Embedding::Words(vectors)) => {
                let known = words.iter().filter_map(|word| Some((*word, Some(vectors.vectors.get(word.0)?))));
                Some(rows_of(words.len(), known, random(vectors.dimensions)))
            }
        };
        let (rows, table) = match read {
            Some((rows, Table { values, width, .. })) => (rows, Some((values, width))),
            None => (vec![Vec::new(); words.len()], None),
        };
        for text in parts.iter_mut().flatten() {
            let own = text.words.iter().flat_map(|&word| &rows[word as usize]);
            text.words = own.take(MAX_WORDS).copied().collect();
            if text.words.is_empty() {
                text.words.push(UNKNOWN);
            }
        }
        Ok(Self { parts, table, grams })
    }
}

/// Words in numbers: each is kept once, however often it occurs.
#[derive(Default)]
struct Vocabulary(HashMap<String, u32>);

/// A word and its number.
type Numbered<'a> = (&'a str, u32);

impl Vocabulary {
    fn number(&mut self, word: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(word).or_insert(next)
    }

    /// All of them in alphabetical order.
    fn words(&self) -> Vec<Numbered<'_>> {
        let mut words: Vec<Numbered<'_>> = self.0.iter().map(|(word, &number)| (word.as_str(), number)).collect();
        words.sort_unstable();
        words
    }
}

/// Numbers the places of n-grams that training texts have, in their order, and puts the numbers where the places were. Returns how
/// many rows that makes.
fn seen_only(parts: &mut [Vec<Text>; 3]) -> usize {
    let seen: BTreeSet<u32> = parts[0].iter().flat_map(|text| &text.grams).copied().collect();
    let rows: BTreeMap<u32, u32> = seen.into_iter().zip(UNSEEN + 1..).collect();
    for gram in parts.iter_mut().flatten().flat_map(|text| &mut text.grams) {
        *gram = rows.get(gram).copied().unwrap_or(UNSEEN);
    }
    rows.len() + 1
}

/// A table of vectors under way: the first row is of the unknown.
struct Table {
    seed: u64,
    values: Vec<f32>,
    width: usize,
}

impl Table {
    fn random(seed: u64, width: usize) -> Self {
        let mut table = Self { seed, values: Vec::new(), width };
        table.add("", None);
        table
    }

    /// Adds the vector of a word: its own, or a random one.
    fn add(&mut self, word: &str, vector: Option<&Vec<f32>>) {
        match vector {
            Some(vector) => self.values.extend(vector),
            None => {
                let std = 1.0 / (self.width as f64).sqrt();
                self.values.extend(Init::new(self.seed).values(&format!("word {word}"), self.width, std));
            }
        }
    }
}

/// The rows of each word, by its number.
type Rows = Vec<Vec<u32>>;

/// A row for each word that is `known`; all others share that of the unknown.
fn rows_of<'a>(
    words: usize,
    known: impl Iterator<Item = (Numbered<'a>, Option<&'a Vec<f32>>)>,
    mut table: Table,
) -> (Rows, Table) {
    let mut rows = vec![vec![UNKNOWN]; words];
    for (((word, number), vector), row) in known.zip(UNKNOWN + 1..) {
        rows[number as usize] = vec![row];
        table.add(word, vector);
    }
    (rows, table)
}

/// Word pieces instead of words; only those that occur get a row.
fn pieces(backbone: &Backbone, words: &[Numbered<'_>]) -> Result<(Rows, Table)> {
    let all = backbone.bert.embeddings.word_embeddings.weight.val();
    let [_, width] = all.dims();
    let mut rows: Rows = vec![Vec::new(); words.len()];
    for (word, number) in words {
        rows[*number as usize] = backbone.tokenizer.pieces(word).context("cannot tokenise a word")?.ids;
    }
    let used: BTreeSet<u32> = rows.iter().flatten().copied().collect();
    let ids: Vec<i32> = used.iter().map(|&id| id as i32).collect();
    let mut table = Table { seed: 0, values: vec![0.0; width], width };
    if !ids.is_empty() {
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [used.len()]), &all.device());
        table.values.extend(all.select(0, ids).into_data().iter::<f32>());
    }
    let numbers: BTreeMap<u32, u32> = used.into_iter().zip(UNKNOWN + 1..).collect();
    rows.iter_mut().flatten().for_each(|id| *id = numbers[id]);
    Ok((rows, table))
}

/// Those of `words` that occur in the texts, the most frequent first; equally frequent ones in alphabetical order.
fn frequent<'a>(words: &[Numbered<'a>], texts: &[Text]) -> Vec<Numbered<'a>> {
    let mut counts = vec![0usize; words.len()];
    texts.iter().flat_map(|text| &text.words).for_each(|&word| counts[word as usize] += 1);
    let count = |(_, number): &Numbered<'_>| counts[*number as usize];
    let mut frequent: Vec<Numbered<'a>> = words.iter().copied().filter(|word| count(word) > 0).collect();
    frequent.sort_by_key(|word| Reverse(count(word)));
    frequent
}

/// The places of all n-grams of up to `longest` words.
fn grams(words: &[String], longest: usize) -> Vec<u32> {
    let grams = (1..=longest).flat_map(|n| words.windows(n).map(|gram| place(&gram.join(" "))));
    grams.collect::<BTreeSet<u32>>().into_iter().collect()
}

/// A hash that no platform and no version changes (FNV-1a), folded into the places there are.
fn place(gram: &str) -> u32 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = gram.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    ((hash ^ (hash >> 32)) % BUCKETS as u64) as u32
}

/// Some texts on a device: their words and n-grams lie end to end, without padding.
pub struct Batch {
    /// How many texts.
    pub texts: usize,
    /// Rows of the table of vectors.
    pub words: Tensor<1, Int>,
    /// Where each text's words begin, and where the last one's end.
    pub starts: Arc<[usize]>,
    /// The text of each word.
    pub text_of_word: Tensor<1, Int>,
    /// 1 / how many words each text has. `[texts, 1]`
    pub word_scale: Tensor<2>,
    /// Rows of the wide model.
    pub grams: Tensor<1, Int>,
    /// The text of each n-gram.
    pub text_of_gram: Tensor<1, Int>,
    /// 1 / √ of how many n-grams each text has. `[texts, 1]`
    pub gram_scale: Tensor<2>,
}

impl Batch {
    /// Packs `texts`.
    pub fn new(texts: &[&Text], device: &Device) -> Self {
        let ints = |values: Vec<usize>| {
            let size = values.len();
            let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
            Tensor::<1, Int>::from_data(TensorData::new(values, [size]), device)
        };
        let column = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [texts.len(), 1]), device);
        let text_of = |length: &dyn Fn(&Text) -> usize| {
            texts.iter().enumerate().flat_map(|(text, of)| vec![text; length(of)]).collect::<Vec<usize>>()
        };
        let ends = texts.iter().scan(0, |end, text| {
            *end += text.words.len();
            Some(*end)
        });
        Self {
            texts: texts.len(),
            words: ints(texts.iter().flat_map(|text| &text.words).map(|&row| row as usize).collect()),
            starts: std::iter::once(0).chain(ends).collect(),
            text_of_word: ints(text_of(&|text| text.words.len())),
            word_scale: column(texts.iter().map(|text| 1.0 / text.words.len() as f32).collect()),
            grams: ints(texts.iter().flat_map(|text| &text.grams).map(|&row| row as usize).collect()),
            text_of_gram: ints(text_of(&|text| text.grams.len())),
            gram_scale: column(texts.iter().map(|text| 1.0 / (text.grams.len().max(1) as f32).sqrt()).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(true, true, &["it", "s", "a", "café", "2"])]
    #[case(true, false, &["it", "'", "s", "a", "café", "!", "2"])]
    #[case(false, true, &["It", "s", "a", "Café", "2"])]
    fn a_text_is_read_in_four_ways(#[case] lower_case: bool, #[case] strip: bool, #[case] expected: &[&str]) {
        assert_eq!(Reading { lower_case, strip }.words("It's a Café! 2"), expected);
    }

    #[test]
    fn n_grams_count_once_and_their_places_never_change() {
        let words = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(grams(&words, 1).len(), 2);
        assert_eq!(grams(&words, 2).len(), 4);
        assert_eq!((place(""), place("a b"), place("café")), (49089, 41355, 36787));
    }
}
