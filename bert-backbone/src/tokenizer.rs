//! Text to word pieces.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use adapter_core::read_file;
use serde::Deserialize;
use tokenizers::{
    AddedToken, PostProcessor, TruncationParams, models::wordpiece::WordPiece, normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer, processors::bert::BertProcessing, utils::truncation::truncate_encodings,
};

/// BERT's tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The file that it comes from.
    path: PathBuf,
}

/// A text, or a pair of texts, as the network takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Word pieces, special tokens included.
    pub input_ids: Vec<u32>,
    /// Segments: 0, and 1 for the second text of a pair.
    pub token_type_ids: Vec<u32>,
    /// The bytes of its text that each token covers; (0, 0) for special tokens.
    pub offsets: Vec<(usize, usize)>,
    /// Which text each token comes from (0 or 1); `None` for special tokens.
    pub text_ids: Vec<Option<usize>>,
}

/// The word pieces of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Their numbers.
    pub ids: Vec<u32>,
    /// The bytes of the text that each covers.
    pub offsets: Vec<(usize, usize)>,
}

/// Why a text cannot be tokenised.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The folder has no tokenizer.
    #[error("{}: no tokenizer here (looked for tokenizer.json and vocab.txt)", folder.display())]
    None {
        /// The folder.
        folder: PathBuf,
    },
    /// The tokenizer's file cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// The longest permitted sequence has no room for a text.
    #[error("a maximum length of {max_length} tokens has no room beside {special} special tokens")]
    TooShort {
        /// The maximum asked for.
        max_length: usize,
        /// Special tokens that are always there.
        special: usize,
    },
    /// A text that is too long to be taken apart.
    #[error("a text of {bytes} bytes is too long: {most} are taken at most")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that is taken.
        most: usize,
    },
}

/// Bytes of the largest `tokenizer.json`.
const LARGEST: u64 = 256 << 20;
/// Bytes of the longest text whose word pieces are all wanted.
const LONGEST: usize = 16 << 20;
/// Bytes of a text that are looked at for each token that is kept: no word piece is that long.
const BYTES_A_TOKEN: usize = 1024;

/// What `tokenizer_config.json` says for a plain vocabulary.
#[derive(Deserialize)]
#[serde(default)]
struct PlainConfig {
    do_lower_case: bool,
    strip_accents: Option<bool>,
    tokenize_chinese_chars: bool,
}

impl Default for PlainConfig {
    fn default() -> Self {
        Self { do_lower_case: true, strip_accents: None, tokenize_chinese_chars: true }
    }
}

impl Tokenizer {
    /// Loads `tokenizer.json`, else `vocab.txt` (with `tokenizer_config.json` for lower-casing) from a folder.
    ///
    /// # Errors
    /// If there is neither, or the file is no tokenizer.
    pub fn load(folder: &Path) -> Result<Self, TokenizerError> {
        let whole = folder.join("tokenizer.json");
        let vocabulary = folder.join("vocab.txt");
        if whole.exists() {
            let bytes = read_file(&whole, LARGEST).map_err(|e| file_error(&whole, e))?;
            Self::from_bytes(&bytes, &whole)
        } else if vocabulary.is_file() {
            let config = folder.join("tokenizer_config.json");
            let config = match read_file(&config, LARGEST) {
                Ok(text) => serde_json::from_slice(&text).map_err(|e| file_error(&config, e))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => PlainConfig::default(),
                Err(error) => return Err(file_error(&config, error)),
            };
            Self::checked(from_vocabulary(&vocabulary, &config)?, &vocabulary)
        } else {
            let folder = folder.to_owned();
            Err(TokenizerError::None { folder })
        }
    }

    /// The tokenizer of a `tokenizer.json`; `path` is what errors call it.
    ///
    /// # Errors
    /// If it is no tokenizer, or one that fails.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, TokenizerError> {
        Self::checked(guarded(path, || tokenizers::Tokenizer::from_bytes(bytes))?, path)
    }

    /// Tries it, so that one that fails does so before any work.
    fn checked(mut inner: tokenizers::Tokenizer, path: &Path) -> Result<Self, TokenizerError> {
        // Some files carry a fixed truncation and padding; here lengths are the caller's choice.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| file_error(path, e))?;
        let tokenizer = Self { inner, path: path.to_owned() };
        for pair in [None, Some("b")] {
            match tokenizer.encode("a", pair, LONGEST) {
                Ok(encoded) if encoded.input_ids.is_empty() => {
                    return Err(file_error(path, "it makes no tokens of a text"));
                }
                encoded => encoded?,
            };
        }
        Ok(tokenizer)
    }

    /// What the tokenizer says; its failures are its file's.
    fn try_to<T>(&self, f: impl FnOnce(&tokenizers::Tokenizer) -> tokenizers::Result<T>) -> Result<T, TokenizerError> {
        guarded(&self.path, || f(&self.inner))
    }

    /// Encodes a text or a pair with `[CLS]` and `[SEP]`, cut to `max_length` tokens from the longer text first.
    ///
    /// # Errors
    /// If `max_length` has no room for the special tokens.
    pub fn encode(&self, text: &str, pair: Option<&str>, max_length: usize) -> Result<Encoded, TokenizerError> {
        let special = self.special_tokens(pair.is_some());
        if max_length < special {
            return Err(TokenizerError::TooShort { max_length, special });
        }
        // What lies far behind the cut need not be taken apart.
        let most = max_length.max(64).saturating_mul(BYTES_A_TOKEN);
        let [first, second] = [Some(text), pair].map(|text| text.map(|text| &text[..text.floor_char_boundary(most)]));
        let limit = TruncationParams { max_length: max_length - special, ..TruncationParams::default() };
        let encoding = self.try_to(|inner| {
            let first = inner.encode(first.unwrap_or_default(), false)?;
            let second = second.map(|second| inner.encode(second, false)).transpose()?;
            let (first, second) = truncate_encodings(first, second, &limit)?;
            inner.post_process(first, second, true)
        })?;
        // A BERT has one segment for each text.
        let text_ids = encoding.get_type_ids().iter().zip(encoding.get_special_tokens_mask());
        let text_ids = text_ids.map(|(&text, &special)| (special == 0).then_some(text as usize));
        Ok(Encoded {
            input_ids: encoding.get_ids().to_vec(),
            token_type_ids: encoding.get_type_ids().to_vec(),
            offsets: encoding.get_offsets().to_vec(),
            text_ids: text_ids.collect(),
        })
    }

    fn special_tokens(&self, pair: bool) -> usize {
        self.inner.get_post_processor().map_or(0, |processor| processor.added_tokens(pair))
    }

    /// Refuses a length that leaves nothing of a text, or of a pair of them.
    ///
    /// # Errors
    /// As said.
    pub fn check_room(&self, pair: bool, max_length: usize) -> Result<(), TokenizerError> {
        let special = self.special_tokens(pair);
        if max_length > special { Ok(()) } else { Err(TokenizerError::TooShort { max_length, special }) }
    }

    /// The word pieces of a text alone: no special tokens, nothing cut.
    ///
    /// # Errors
    /// If the tokenizer fails on the text, or it is longer than 16 MB.
    pub fn pieces(&self, text: &str) -> Result<Pieces, TokenizerError> {
        if text.len() > LONGEST {
            return Err(TokenizerError::TooLong { bytes: text.len(), most: LONGEST });
        }
        let encoding = self.try_to(|inner| inner.encode(text, false))?;
        Ok(Pieces { ids: encoding.get_ids().to_vec(), offsets: encoding.get_offsets().to_vec() })
    }

    /// A hash of everything that decides how texts are encoded.
    ///
    /// # Errors
    /// If the tokenizer has no written form.
    pub fn hash(&self) -> Result<String, TokenizerError> {
        let text = self.try_to(|inner| inner.to_string(false))?;
        Ok(blake3::hash(text.as_bytes()).to_hex().to_string())
    }

    /// The number of a special token, such as `[CLS]`.
    ///
    /// # Errors
    /// If there is none.
    pub fn special(&self, token: &str) -> Result<u32, TokenizerError> {
        self.id(token).ok_or_else(|| file_error(&self.path, format!("there is no `{token}`")))
    }

    /// The number of a word piece.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The word piece with number `id`.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }
}

/// What a tokenizer does, whatever it fails with: a strange file makes the library panic.
fn guarded<T>(path: &Path, f: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, TokenizerError> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(done) => done.map_err(|error| file_error(path, error)),
        Err(_) => Err(file_error(path, "it describes a tokenizer that fails")),
    }
}

fn file_error(path: &Path, reason: impl ToString) -> TokenizerError {
    TokenizerError::File { path: path.to_owned(), reason: reason.to_string() }
}

fn from_vocabulary(path: &Path, config: &PlainConfig) -> Result<tokenizers::Tokenizer, TokenizerError> {
    let ids = WordPiece::read_file(&path.to_string_lossy()).map_err(|e| file_error(path, e))?;
    let id = |token: &str| match ids.get(token) {
        Some(&id) => Ok((token.to_owned(), id)),
        None => Err(file_error(path, format!("the vocabulary has no `{token}`"))),
    };
    let (unknown, separator, class) = (id("[UNK]")?, id("[SEP]")?, id("[CLS]")?);
    let special: Vec<_> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        .into_iter()
        .filter(|token| ids.contains_key(*token))
        .map(|token| AddedToken::from(token, true))
        .collect();
    let model = WordPiece::builder().vocab(ids).unk_token(unknown.0).build().map_err(|e| file_error(path, e))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    let normalizer =
        BertNormalizer::new(true, config.tokenize_chinese_chars, config.strip_accents, config.do_lower_case);
    tokenizer
        .with_normalizer(Some(normalizer))
        .map_err(|e| file_error(path, e))?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(BertProcessing::new(separator, class)));
    tokenizer.add_special_tokens(special).map_err(|e| file_error(path, e))?;
    Ok(tokenizer)
}
