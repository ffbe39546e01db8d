//! Weights of others: safetensors and PyTorch files, with every naming found in the wild.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use adapter_core::{Tensors, replace_values};
use burn::module::Module;
use half::{bf16, f16};
use pytorch_reader::{DType as PickleDtype, PytorchReader};
use safetensors::{Dtype, tensor::Metadata};

/// The tensors of a weight file, under their names in [`Bert`](crate::Bert).
pub struct Checkpoint {
    path: PathBuf,
    file: Option<fs::File>,
    tensors: BTreeMap<String, Stored>,
    used: BTreeSet<String>,
}

/// Tensors under the names that they have in their file.
type Found = Vec<(String, Stored)>;

struct Stored {
    shape: Vec<usize>,
    format: Format,
    place: Place,
}

enum Place {
    /// So many bytes of the file, from a place on.
    Bytes { start: u64, length: usize },
    /// An entry of a PyTorch archive.
    Pickled(Box<pytorch_reader::Tensor>),
}

#[derive(Clone)]
enum Format {
    F16,
    Bf16,
    F32,
    F64,
    /// One that holds no floats this program reads.
    Other(String),
}

/// Why weights cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The folder has no weights.
    #[error("{}: no weights here (looked for model.safetensors and pytorch_model.bin)", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file is not what its name says, or ends too early.
    #[error("{}: damaged or truncated weights ({reason}); fetch or copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// A tensor holds something that is no finite number.
    #[error("{}: the tensor `{name}` has values that are not finite; fetch or copy the file again", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// Two tensors have the same meaning.
    #[error("{}: two tensors are called `{name}` once prefixes and old spellings are removed", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// Their name.
        name: String,
    },
    /// Tensors of the network are missing or do not fit.
    #[error("{}: the weights do not fit the configuration\n{problems}", path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// What is wrong with which tensor.
        problems: Misfits,
    },
}

/// Tensors that are missing or do not fit, a line each.
#[derive(Debug, Default)]
pub struct Misfits(Vec<String>);

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Checkpoint {
    /// Opens the weights of a folder in Hugging Face layout: `model.safetensors`, else `pytorch_model.bin`.
    ///
    /// # Errors
    /// If there are none, or the file is damaged.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let safetensors = folder.join("model.safetensors");
        let pickle = folder.join("pytorch_model.bin");
        if safetensors.is_file() {
            Self::open_safetensors(safetensors)
        } else if pickle.is_file() {
            Self::open_pickle(pickle)
        } else {
            let folder = folder.to_owned();
            Err(CheckpointError::NoWeights { folder })
        }
    }

    /// Every tensor of one file, safetensors or PyTorch's, under the name that it has there. Nothing of the file is executed.
    ///
    /// # Errors
    /// If the file is damaged, or a tensor holds no floats.
    pub fn tensors_of(path: &Path) -> Result<Tensors, CheckpointError> {
        let is_pickle = path.extension().is_some_and(|extension| extension == "bin" || extension == "pt");
        let (found, file) = if is_pickle { (pickled(path)?, None) } else { safetensors(path)? };
        let file = Self { path: path.to_owned(), file, tensors: BTreeMap::new(), used: BTreeSet::new() };
        let read = |(name, stored): (String, Stored)| match &stored.format {
            Format::Other(dtype) => {
                let reason = format!("{name} is stored as {dtype}, not as f32, f16, bf16 or f64");
                Err(CheckpointError::Damaged { path: path.to_owned(), reason })
            }
            _ => {
                let values = file.read(&name, &stored)?;
                Ok((name, (stored.shape, values)))
            }
        };
        found.into_iter().map(read).collect()
    }

    fn open_safetensors(path: PathBuf) -> Result<Self, CheckpointError> {
        let (found, file) = safetensors(&path)?;
        Self::new(path, found, file)
    }

    fn open_pickle(path: PathBuf) -> Result<Self, CheckpointError> {
        let found = pickled(&path)?;
        Self::new(path, found, None)
    }

    fn new(path: PathBuf, found: Found, file: Option<fs::File>) -> Result<Self, CheckpointError> {
        let mut tensors = BTreeMap::new();
        for (name, stored) in found {
            let Some(name) = canonical(&name) else { continue };
            if tensors.insert(name.clone(), stored).is_some() {
                return Err(CheckpointError::Duplicate { path, name });
            }
        }
        Ok(Self { path, file, tensors, used: BTreeSet::new() })
    }

    /// Whether there is a tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Fills every tensor of `module` from the one called `prefix` + its name.
    ///
    /// # Errors
    /// If tensors are missing or misshapen (all of them are listed), or the file cannot be read.
    pub fn load<M: Module>(&mut self, module: M, prefix: &str) -> Result<M, CheckpointError> {
        let mut problems = Misfits::default();
        let mut failure = None;
        let loaded = replace_values(module, |tensor| {
            let name = format!("{prefix}{}", tensor.name);
            let Some(stored) = self.tensors.get(&name) else {
                problems.0.push(format!("  missing: {name} {:?}", tensor.shape));
                return None;
            };
            // PyTorch's Linear has [out, in], Burn's [in, out].
            let transposed = tensor.holder == "Linear" && tensor.shape.len() == 2;
            let mut expected = tensor.shape.clone();
            if transposed {
                expected.reverse();
            }
            if stored.shape != expected {
                let found = &stored.shape;
                problems.0.push(format!("  misshapen: {name} is {found:?}, not {expected:?}"));
                return None;
            }
            if let Format::Other(dtype) = &stored.format {
                problems.0.push(format!("  unsupported: {name} is stored as {dtype}, not as f32, f16, bf16 or f64"));
                return None;
            }
            match self.read(&name, stored) {
                Ok(values) if transposed => Some(transpose(&values, expected[0], expected[1])),
                Ok(values) => Some(values),
                Err(error) => {
                    failure.get_or_insert(error);
                    None
                }
            }
            .inspect(|_| {
                self.used.insert(name);
            })
        });
        match failure {
            Some(error) => Err(error),
            None if problems.0.is_empty() => Ok(loaded),
            None => Err(CheckpointError::Misfit { path: self.path.clone(), problems }),
        }
    }

    /// Whether the masked-LM decoder is the word embeddings: stored once, or a copy.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn has_tied_decoder(&mut self) -> Result<bool, CheckpointError> {
        let decoder = "cls.predictions.decoder.weight";
        let embeddings = "embeddings.word_embeddings.weight";
        let (Some(a), Some(b)) = (self.tensors.get(decoder), self.tensors.get(embeddings)) else {
            return Ok(true);
        };
        let tied = self.read(decoder, a)? == self.read(embeddings, b)?;
        if tied {
            self.used.insert(decoder.to_owned());
        }
        Ok(tied)
    }

    /// Names of tensors that nothing was filled from.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.tensors.keys().filter(|name| !self.used.contains(*name));
        unused.cloned().collect()
    }

    fn read(&self, name: &str, stored: &Stored) -> Result<Vec<f32>, CheckpointError> {
        let bytes = match (&stored.place, &self.file) {
            (Place::Bytes { start, length }, Some(file)) => part_of(file, *start, *length),
            (Place::Pickled(tensor), _) => tensor.read(),
            (Place::Bytes { .. }, None) => unreachable!("they come with their file"),
        };
        let path = || self.path.clone();
        let values = match bytes {
            Ok(bytes) => floats(&bytes, &stored.format),
            // A file that became shorter while it was read.
            Err(reason) if reason.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(CheckpointError::Damaged { path: path(), reason: format!("`{name}` ends too early") });
            }
            Err(reason) => return Err(CheckpointError::Io { path: path(), reason }),
        };
        if !all_finite(&values) {
            return Err(CheckpointError::NotFinite { path: path(), name: name.to_owned() });
        }
        Ok(values)
    }
}

/// Whether all are finite: none has all the bits of the exponent. Without a way out of the loop, it takes many at once.
fn all_finite(values: &[f32]) -> bool {
    let largest = values.iter().fold(0, |largest: u32, value| largest.max(value.to_bits() & 0x7fff_ffff));
    largest < f32::INFINITY.to_bits()
}

fn part_of(mut file: &fs::File, start: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Longest header of a safetensors file.
const LONGEST_HEADER: u64 = 100 << 20;

/// The tensors of a safetensors file, and the file. It is read and not mapped: a mapped file that somebody shortens ends the process.
fn safetensors(path: &Path) -> Result<(Found, Option<fs::File>), CheckpointError> {
    let io_error = |reason| CheckpointError::Io { path: path.to_owned(), reason };
    let damaged = |reason: String| CheckpointError::Damaged { path: path.to_owned(), reason };
    let file = fs::File::open(path).map_err(io_error)?;
    let whole = file.metadata().map_err(io_error)?.len();
    let start = part_of(&file, 0, 8).map_err(|_| damaged("it has no header".to_owned()))?;
    let header = start.try_into().map_or(u64::MAX, u64::from_le_bytes);
    if header > LONGEST_HEADER || header > whole.saturating_sub(8) {
        return Err(damaged(format!("a header of {header} bytes in a file of {whole}")));
    }
    let document = part_of(&file, 8, header as usize).map_err(io_error)?;
    let metadata: Metadata = serde_json::from_slice(&document).map_err(|error| damaged(error.to_string()))?;
    let expected = (metadata.data_len() as u64).checked_add(8 + header);
    if expected != Some(whole) {
        return Err(damaged(format!(
            "the header tells of {} bytes, the file has {}",
            metadata.data_len(),
            whole.saturating_sub(8 + header)
        )));
    }
    let mut found = Vec::new();
    for (name, info) in metadata.tensors() {
        let format = match info.dtype {
            Dtype::F16 => Format::F16,
            Dtype::BF16 => Format::Bf16,
            Dtype::F32 => Format::F32,
            Dtype::F64 => Format::F64,
            other => Format::Other(format!("{other:?}")),
        };
        let (start, end) = info.data_offsets;
        let place = Place::Bytes { start: 8 + header + start as u64, length: end - start };
        found.push((name, Stored { shape: info.shape.clone(), format, place }));
    }
    Ok((found, Some(file)))
}

/// The tensors of a PyTorch file.
fn pickled(path: &Path) -> Result<Found, CheckpointError> {
    let io_error = |reason| CheckpointError::Io { path: path.to_owned(), reason };
    let damaged = |reason: String| CheckpointError::Damaged { path: path.to_owned(), reason };
    let file = fs::File::open(path).map_err(io_error)?;
    let whole = file.metadata().map_err(io_error)?.len();
    if part_of(&file, 257, 5).is_ok_and(|magic| magic == b"ustar") {
        return Err(damaged("a tar archive, which PyTorch wrote before it had a BERT".to_owned()));
    }
    let reader = PytorchReader::new(path).map_err(|error| damaged(error.to_string()))?;
    // A few bytes can claim to be a large tensor, by steps of nothing from one value to the next.
    let claimed = reader.tensors().values().fold(0u64, |sum, tensor| sum.saturating_add(tensor.byte_len() as u64));
    if claimed > whole.saturating_mul(4).saturating_add(1 << 20) {
        return Err(damaged(format!("it claims {claimed} bytes of tensors in a file of {whole}")));
    }
    let mut found = Vec::new();
    for (name, tensor) in reader.into_tensors() {
        let format = match tensor.dtype() {
            PickleDtype::F16 => Format::F16,
            PickleDtype::BF16 => Format::Bf16,
            PickleDtype::F32 => Format::F32,
            PickleDtype::F64 => Format::F64,
            other => Format::Other(format!("{other:?}")),
        };
        let shape = tensor.shape().to_vec();
        found.push((name, Stored { shape, format, place: Place::Pickled(Box::new(tensor)) }));
    }
    Ok(found)
}

/// A checkpoint's name for a tensor in our spelling; `None` for buffers and copies that carry no weight.
fn canonical(name: &str) -> Option<String> {
    let name = name.strip_prefix("module.").unwrap_or(name);
    let name = name.strip_prefix("bert.").unwrap_or(name);
    // Buffers, and a second copy of `cls.predictions.bias`.
    let ignored = ["embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.bias"];
    if ignored.contains(&name) {
        return None;
    }
    Some(match name.rsplit_once('.') {
        Some((path, "gamma")) => format!("{path}.weight"),
        Some((path, "beta")) => format!("{path}.bias"),
        _ => name.to_owned(),
    })
}

fn floats(bytes: &[u8], format: &Format) -> Vec<f32> {
    fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|&chunk| f(chunk)).collect()
    }
    match format {
        Format::F16 => each(bytes, |b| f16::from_le_bytes(b).to_f32()),
        Format::Bf16 => each(bytes, |b| bf16::from_le_bytes(b).to_f32()),
        Format::F32 => each(bytes, f32::from_le_bytes),
        Format::F64 => each(bytes, |b| f64::from_le_bytes(b) as f32),
        Format::Other(_) => Vec::new(),
    }
}

/// `[rows, columns]` to `[columns, rows]`, in blocks that stay in the cache.
pub fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const BLOCK: usize = 32;
    let mut transposed = vec![0.0; values.len()];
    for row_block in (0..rows).step_by(BLOCK) {
        for column_block in (0..columns).step_by(BLOCK) {
            for row in row_block..rows.min(row_block + BLOCK) {
                for column in column_block..columns.min(column_block + BLOCK) {
                    transposed[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    transposed
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("bert.embeddings.LayerNorm.gamma", Some("embeddings.LayerNorm.weight"))]
    #[case("module.bert.encoder.layer.0.output.LayerNorm.beta", Some("encoder.layer.0.output.LayerNorm.bias"))]
    #[case("encoder.layer.0.output.dense.weight", Some("encoder.layer.0.output.dense.weight"))]
    #[case("bert.embeddings.position_ids", None)]
    #[case("cls.predictions.decoder.bias", None)]
    #[case("cls.predictions.bias", Some("cls.predictions.bias"))]
    fn names_in_the_wild_have_one_spelling(#[case] wild: &str, #[case] ours: Option<&str>) {
        assert_eq!(canonical(wild).as_deref(), ours);
    }

    #[test]
    fn blocks_transpose_any_shape() {
        let (rows, columns) = (37, 65);
        let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let transposed = transpose(&values, rows, columns);
        assert_eq!(transposed[3 * rows + 36], values[36 * columns + 3]);
        assert_eq!(transpose(&transposed, columns, rows), values);
    }
}
