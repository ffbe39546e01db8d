//! Texts as word pieces: made once, in parallel, and kept on disk by the hash of what they were made from.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use adapter_core::{Container, Stored};
use bert_backbone::{Encoded, Tokenizer, TokenizerError};
use rayon::prelude::*;
use safetensors::Dtype;

use crate::Example;

/// Sequences of word pieces, end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokenised {
    ids: Vec<u32>,
    types: Vec<u8>,
    /// Where each sequence ends.
    ends: Vec<u32>,
}

impl Tokenised {
    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tokens of sequence `i`.
    pub fn length(&self, i: usize) -> usize {
        self.range(i).len()
    }

    /// Sequence `i`, as a batch takes it (without offsets).
    pub fn sequence(&self, i: usize) -> Encoded {
        let range = self.range(i);
        Encoded {
            input_ids: self.ids[range.clone()].to_vec(),
            token_type_ids: self.types[range].iter().map(|&segment| u32::from(segment)).collect(),
            ..Encoded::default()
        }
    }

    /// A segment beyond 255 becomes 255, which no network has either.
    pub(crate) fn push(&mut self, ids: &[u32], types: &[u32]) {
        self.ids.extend_from_slice(ids);
        self.types.extend(types.iter().map(|&segment| u8::try_from(segment).unwrap_or(u8::MAX)));
        self.ends.push(self.ids.len() as u32);
    }

    pub(crate) fn range(&self, i: usize) -> std::ops::Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start as usize..self.ends[i] as usize
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        vec![("ids", Stored::u32(&self.ids)), ("types", Stored::u8(&self.types)), ("ends", Stored::u32(&self.ends))]
    }

    pub(crate) fn from_columns(file: &CachedFile) -> Option<Self> {
        let (ids, types, ends) = (file.u32("ids")?, file.u8("types")?, file.u32("ends")?);
        let ordered = ends.is_sorted() && ends.last().map_or(0, |&end| end as usize) == ids.len();
        (ordered && ids.len() == types.len()).then_some(Self { ids, types, ends })
    }
}

/// Where word pieces are kept between runs.
#[derive(Clone, Debug)]
pub struct TokenCache {
    folder: Option<PathBuf>,
}

/// Why texts cannot be made into word pieces.
#[derive(Debug, thiserror::Error)]
pub enum TokeniseError {
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl TokenCache {
    /// Keeps word pieces in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// Keeps nothing.
    pub fn none() -> Self {
        Self { folder: None }
    }

    /// The word pieces of `examples`, cut to `max_length`, from the cache if they were made before.
    ///
    /// # Errors
    /// If the tokenizer fails, or `max_length` leaves nothing of the texts.
    pub fn texts(
        &self,
        examples: &[Example],
        tokenizer: &Tokenizer,
        max_length: usize,
    ) -> Result<Tokenised, TokeniseError> {
        tokenizer.check_room(examples.iter().any(|example| example.pair.is_some()), max_length)?;
        let texts = examples.iter().flat_map(|example| [Some(example.text.as_str()), example.pair.as_deref()]);
        let key = Key::new("texts", tokenizer, &[max_length])?.texts(texts);
        self.get(key, Tokenised::from_columns, Tokenised::columns, || {
            let encoded: Result<Vec<Encoded>, TokenizerError> = examples
                .par_iter()
                .map(|example| tokenizer.encode(&example.text, example.pair.as_deref(), max_length))
                .collect();
            let mut tokenised = Tokenised::default();
            for sequence in encoded? {
                tokenised.push(&sequence.input_ids, &sequence.token_type_ids);
            }
            Ok(tokenised)
        })
    }

    /// What `key` stands for: read from the cache, or made and written there.
    ///
    /// Two processes may make the same at once; both write the same bytes by rename. A file that is not whole (there
    /// is none but by a disk's fault) is made anew.
    pub(crate) fn get<T>(
        &self,
        key: Key,
        read: impl Fn(&CachedFile) -> Option<T>,
        columns: impl Fn(&T) -> Vec<Column>,
        make: impl FnOnce() -> Result<T, TokeniseError>,
    ) -> Result<T, TokeniseError> {
        let Some(folder) = &self.folder else { return make() };
        let path = folder.join(format!("tokens-{}.safetensors", key.hasher.finalize().to_hex()));
        if let Some(cached) = CachedFile::open(&path).and_then(|file| read(&file)) {
            return Ok(cached);
        }
        let made = make()?;
        // What cannot be kept is made anew the next time; that is no reason to stop.
        if fs::create_dir_all(folder).is_ok() {
            sweep(folder);
            let columns = columns(&made).into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
            let _ = FORM.write(&path, &(), &columns);
        }
        Ok(made)
    }
}

/// Removes temporary files that a process killed long ago left; whoever still writes has a newer one.
fn sweep(folder: &Path) {
    let is_old = |path: &Path| {
        let age = fs::metadata(path).and_then(|file| file.modified()).map(|time| time.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age > Duration::from_secs(24 * 3600))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp"))) {
        if is_old(&path) {
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        }
    }
}

/// The hash of all that word pieces depend on.
pub(crate) struct Key {
    hasher: blake3::Hasher,
}

impl Key {
    /// Raised when the meaning of a cache file changes.
    const VERSION: u64 = 2;

    pub fn new(kind: &str, tokenizer: &Tokenizer, numbers: &[usize]) -> Result<Self, TokenizerError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&Self::VERSION.to_le_bytes()).update(kind.as_bytes()).update(tokenizer.hash()?.as_bytes());
        for &number in numbers {
            hasher.update(&(number as u64).to_le_bytes());
        }
        Ok(Self { hasher })
    }

    /// Adds texts; an absent one differs from an empty one.
    pub fn texts<'a>(mut self, texts: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        for text in texts {
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            self.hasher.update(&length.to_le_bytes()).update(text.unwrap_or_default().as_bytes());
        }
        self
    }

    /// Adds numbers.
    pub fn numbers(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        for number in numbers {
            self.hasher.update(&(number as u64).to_le_bytes());
        }
        self
    }
}

/// A named column of a cache file.
pub(crate) type Column = (&'static str, Stored);

/// The form of a cache file.
const FORM: Container = Container { key: "adapter_lab_tokens", version: 1 };

/// A cache file, whole and unchanged.
pub(crate) struct CachedFile(BTreeMap<String, Stored>);

impl CachedFile {
    fn open(path: &Path) -> Option<Self> {
        FORM.read::<()>(path).ok().map(|((), columns)| Self(columns))
    }

    pub fn u32(&self, name: &str) -> Option<Vec<u32>> {
        self.0.get(name)?.values(Dtype::U32)
    }

    pub fn u8(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name)?.values(Dtype::U8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_beyond_a_byte_does_not_become_the_first() {
        let mut tokens = Tokenised::default();
        tokens.push(&[1, 2], &[1, 256]);
        assert_eq!(tokens.sequence(0).token_type_ids, [1, 255]);
    }
}
