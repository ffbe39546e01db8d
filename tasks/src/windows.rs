//! Questions as the network takes them: windows over a text, and answers out of them.

use std::collections::HashMap;

use adapter_core::Stored;
use bert_backbone::{Encoded, Pieces, Tokenizer, TokenizerError};
use rayon::prelude::*;

use crate::{
    Question, SquadVersion,
    tokenised::{CachedFile, Column, Key, TokenCache, TokeniseError, Tokenised},
};

/// How texts longer than the network's input are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Tokens of a window, question and special tokens included.
    pub max_length: usize,
    /// Tokens of the text between the beginnings of two windows.
    pub stride: usize,
    /// Tokens of the question that are kept.
    pub max_question: usize,
}

impl WindowConfig {
    /// The usual windows, no longer than a backbone can take.
    pub fn within(longest: usize) -> Self {
        let usual = Self::default();
        Self { max_length: usual.max_length.min(longest), ..usual }
    }
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self { max_length: 384, stride: 128, max_question: 64 }
    }
}

/// Windows over the texts of questions: `[CLS] question [SEP] part of the text [SEP]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    tokens: Tokenised,
    questions: Vec<u32>,
    /// For each token, the bytes of the text it covers; (0, 0) outside the text.
    offsets: Vec<[u32; 2]>,
    /// First and last token of the first right answer; (0, 0), the `[CLS]` token, where the window does not hold it.
    targets: Vec<[u32; 2]>,
}

impl Windows {
    /// Number of windows.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// The word pieces of all windows.
    pub fn tokens(&self) -> &Tokenised {
        &self.tokens
    }

    /// The question of window `i`.
    pub fn question(&self, i: usize) -> usize {
        self.questions[i] as usize
    }

    /// First and last token of the answer in window `i`; (0, 0) where it is not in the window.
    pub fn target(&self, i: usize) -> (usize, usize) {
        let [first, last] = self.targets[i];
        (first as usize, last as usize)
    }

    /// The part of `context` between two tokens of window `i`, both included.
    pub fn text<'a>(&self, i: usize, tokens: (usize, usize), context: &'a str) -> &'a str {
        let offsets = &self.offsets[self.tokens.range(i)];
        &context[offsets[tokens.0][0] as usize..offsets[tokens.1][1] as usize]
    }

    /// Whether a token of window `i` belongs to the text.
    fn is_context(&self, i: usize, token: usize) -> bool {
        self.offsets[self.tokens.range(i)][token] != [0, 0]
    }

    /// For every token of every text, by question and place, the window that gives it most context: as many tokens as possible
    /// on the side where it has fewer; the first of equal ones.
    fn most_context(&self) -> HashMap<(usize, [u32; 2]), MostContext> {
        let mut best: HashMap<(usize, [u32; 2]), MostContext> = HashMap::new();
        for window in 0..self.len() {
            let offsets = &self.offsets[self.tokens.range(window)];
            let context: Vec<[u32; 2]> = offsets.iter().copied().filter(|offset| *offset != [0, 0]).collect();
            for (place, &offset) in context.iter().enumerate() {
                let least = place.min(context.len() - 1 - place);
                let known = best.entry((self.question(window), offset)).or_insert(MostContext { least, window });
                if least > known.least {
                    *known = MostContext { least, window };
                }
            }
        }
        best
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.tokens.columns();
        columns.push(("questions", Stored::u32(&self.questions)));
        columns.push(("offsets", Stored::u32(self.offsets.as_flattened())));
        columns.push(("targets", Stored::u32(self.targets.as_flattened())));
        columns
    }

    fn from_columns(file: &CachedFile) -> Option<Self> {
        let pairs = |name| Some(file.u32(name)?.as_chunks::<2>().0.to_vec());
        let tokens = Tokenised::from_columns(file)?;
        let windows =
            Self { questions: file.u32("questions")?, offsets: pairs("offsets")?, targets: pairs("targets")?, tokens };
        let whole = windows.questions.len() == windows.tokens.len() && windows.targets.len() == windows.tokens.len();
        whole.then_some(windows)
    }
}

/// The window in which a token has most context.
struct MostContext {
    /// Tokens on the side where it has fewer.
    least: usize,
    window: usize,
}

impl TokenCache {
    /// The windows of `questions`, from the cache if they were made before.
    ///
    /// # Errors
    /// If the configuration has no room for a text, the tokenizer fails, or the cache cannot be written.
    pub fn windows(
        &self,
        questions: &[Question],
        tokenizer: &Tokenizer,
        config: WindowConfig,
    ) -> Result<Windows, TokeniseError> {
        let numbers = [config.max_length, config.stride, config.max_question];
        let texts = questions.iter().flat_map(|question| {
            let answer = question.answers.first().map(|answer| answer.text.as_str());
            [Some(question.question.as_str()), Some(&*question.context), answer]
        });
        let starts = questions.iter().map(|question| question.answers.first().map_or(0, |answer| answer.start));
        let key = Key::new("windows", tokenizer, &numbers)?.texts(texts).numbers(starts);
        self.get(key, Windows::from_columns, Windows::columns, || {
            make_windows(questions, tokenizer, config).map_err(TokeniseError::from)
        })
    }
}

fn make_windows(
    questions: &[Question],
    tokenizer: &Tokenizer,
    config: WindowConfig,
) -> Result<Windows, TokenizerError> {
    let special = |token: &str| tokenizer.special(token);
    let ends = [special("[CLS]")?, special("[SEP]")?];
    // Questions of a paragraph share its text; each text is tokenised once.
    let address = |question: &Question| question.context.as_ptr() as usize;
    let mut contexts: Vec<&Question> = questions.iter().collect();
    contexts.dedup_by_key(|question| address(question));
    let pieces: Result<HashMap<usize, Pieces>, TokenizerError> =
        contexts.par_iter().map(|q| Ok((address(q), tokenizer.pieces(&q.context)?))).collect();
    let pieces = pieces?;
    let made: Result<Vec<Vec<Window>>, TokenizerError> = questions
        .par_iter()
        .map(|question| question_windows(question, &pieces[&address(question)], tokenizer, ends, config))
        .collect();
    let mut windows = Windows::default();
    for (number, window) in made?.into_iter().enumerate().flat_map(|(n, made)| made.into_iter().map(move |w| (n, w))) {
        windows.tokens.push(&window.encoded.input_ids, &window.encoded.token_type_ids);
        windows.questions.push(number as u32);
        windows.offsets.extend(window.encoded.offsets.iter().map(|&(from, to)| [from as u32, to as u32]));
        windows.targets.push([window.target.0 as u32, window.target.1 as u32]);
    }
    Ok(windows)
}

struct Window {
    encoded: Encoded,
    target: (usize, usize),
}

fn question_windows(
    question: &Question,
    context: &Pieces,
    tokenizer: &Tokenizer,
    [cls, sep]: [u32; 2],
    config: WindowConfig,
) -> Result<Vec<Window>, TokenizerError> {
    let mut asked = tokenizer.pieces(question.question.trim())?.ids;
    asked.truncate(config.max_question);
    let special = 3;
    let taken = asked.len() + special;
    if taken >= config.max_length || config.stride == 0 {
        return Err(TokenizerError::TooShort { max_length: config.max_length, special: taken });
    }
    let room = config.max_length - taken;
    let first_of_context = asked.len() + 2;
    let answer = question.answers.first().and_then(|answer| {
        let bytes = answer.start..answer.start + answer.text.len();
        covering_tokens(&context.offsets, bytes)
    });
    let mut windows = Vec::new();
    let mut start = 0;
    loop {
        let end = (start + room).min(context.ids.len());
        let part = start..end;
        let ids = [&[cls], &asked[..], &[sep], &context.ids[part.clone()], &[sep]].concat();
        let mut types = vec![0; first_of_context];
        types.resize(ids.len(), 1);
        let mut offsets = vec![(0, 0); first_of_context];
        offsets.extend_from_slice(&context.offsets[part.clone()]);
        offsets.push((0, 0));
        let target = match answer {
            Some((first, last)) if part.contains(&first) && part.contains(&last) => {
                (first_of_context + first - start, first_of_context + last - start)
            }
            _ => (0, 0),
        };
        let encoded = Encoded { input_ids: ids, token_type_ids: types, offsets, ..Encoded::default() };
        windows.push(Window { encoded, target });
        if end == context.ids.len() {
            return Ok(windows);
        }
        start += config.stride.min(room);
    }
}

/// First and last of the tokens that touch the bytes.
fn covering_tokens(offsets: &[(usize, usize)], bytes: std::ops::Range<usize>) -> Option<(usize, usize)> {
    let first = offsets.iter().position(|&(_, to)| to > bytes.start)?;
    let last = offsets.iter().rposition(|&(from, _)| from < bytes.end)?;
    (first <= last).then_some((first, last))
}

/// How answers are chosen from scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerConfig {
    /// How many of the best first and last tokens are combined.
    pub n_best: usize,
    /// Most tokens of an answer.
    pub max_answer: usize,
    /// Whether a question may have no answer.
    pub version: SquadVersion,
    /// With v2.0: how much better than the best answer "no answer" must score to be given.
    pub null_threshold: f32,
}

impl Default for AnswerConfig {
    fn default() -> Self {
        Self { n_best: 20, max_answer: 30, version: SquadVersion::V1, null_threshold: 0.0 }
    }
}

/// The best answer to every question: a span of its text, or nothing. An answer is taken from the window that gives its first
/// token most context.
///
/// `scores` holds, for each window, a first-token and a last-token score for each of its tokens.
pub fn best_answers(
    questions: &[Question],
    windows: &Windows,
    scores: &[Vec<[f32; 2]>],
    config: AnswerConfig,
) -> Vec<String> {
    struct Best {
        score: f32,
        text: String,
        null: f32,
    }
    let mut best: Vec<Best> =
        questions.iter().map(|_| Best { score: f32::NEG_INFINITY, text: String::new(), null: f32::INFINITY }).collect();
    let most_context = windows.most_context();
    for (window, scores) in scores.iter().enumerate() {
        let number = windows.question(window);
        let best = &mut best[number];
        if let Some([first, last]) = scores.first() {
            best.null = best.null.min(first + last);
        }
        let candidates = |side: usize| {
            let mut tokens: Vec<usize> = (0..scores.len()).filter(|&token| windows.is_context(window, token)).collect();
            tokens.sort_by(|&a, &b| scores[b][side].total_cmp(&scores[a][side]));
            tokens.truncate(config.n_best);
            tokens
        };
        let lasts = candidates(1);
        let offsets = &windows.offsets[windows.tokens.range(window)];
        let here =
            |&first: &usize| most_context.get(&(number, offsets[first])).is_none_or(|best| best.window == window);
        for first in candidates(0).into_iter().filter(here) {
            for &last in lasts.iter().filter(|&&last| last >= first && last - first < config.max_answer) {
                let score = scores[first][0] + scores[last][1];
                if score > best.score {
                    best.score = score;
                    best.text = windows.text(window, (first, last), &questions[number].context).to_owned();
                }
            }
        }
    }
    let answer = |best: Best| match config.version {
        SquadVersion::V2 if best.null - best.score > config.null_threshold => String::new(),
        _ => best.text,
    };
    best.into_iter().map(answer).collect()
}
