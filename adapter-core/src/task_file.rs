//! The per-task file: exactly v, bound to w by a hash.
//!
//! One safetensors file holds the trained tensors (and, where batch normalisation is used, its running
//! statistics), as f32 in the layout of the module. Its metadata has one entry, `adapter_lab`: a JSON document
//! with the [`TaskInfo`] and a checksum over all of the file's contents.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use burn::tensor::Device;
use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    AdapterConfig, Tunable, Tuning,
    atomic_file::write_atomically,
    tensors::{hash_tensor, replace_values, tensors, visit_values},
    tuning::Kind,
};

/// Version of the format written here.
const FORMAT_VERSION: u32 = 1;
const METADATA_KEY: &str = "adapter_lab";

/// What a per-task file says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// The task that was trained.
    pub task: String,
    /// What it asks for, such as `classification` or `span`.
    pub kind: String,
    /// The names of its classes, in the order of the head's outputs; empty for a score or a span.
    pub labels: Vec<String>,
    /// What the head is and reads, such as `cls` or `pooler`.
    pub head: String,
    /// Longest sequence in tokens, as in training.
    pub max_length: usize,
    /// What was trained.
    pub tuning: Tuning,
    /// The adapters, if there are any.
    pub adapter: Option<AdapterConfig>,
    /// The backbone: v is of use with this w alone.
    pub backbone: BackboneId,
}

/// Which backbone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackboneId {
    /// What it is called; two folders may hold the same one under other names.
    pub name: String,
    /// Its content hash, which decides.
    pub hash: String,
}

impl fmt::Display for BackboneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({:.12}…)", self.name, self.hash)
    }
}

/// A task's trained tensors with what they belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    /// What they are.
    pub info: TaskInfo,
    tensors: Tensors,
}

/// Shapes and values by name.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Why a per-task file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The file cannot be written or read.
    #[error("{}: {flaw}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The file was trained on another backbone.
    #[error("these tensors were trained on backbone {expected}, not on {found}; load that backbone, or train again")]
    OtherBackbone {
        /// The backbone of the file.
        expected: BackboneId,
        /// The backbone at hand.
        found: BackboneId,
    },
    /// A tensor has another shape than in the model.
    #[error("tensor `{name}` has shape {found:?} in the file and {expected:?} in the model")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// Its shape in the model.
        expected: Vec<usize>,
    },
    /// File and model have other tensors.
    #[error("file and model differ: missing in the file {missing:?}, unknown to the model {unknown:?}")]
    Tensors {
        /// Trained tensors of the model that the file lacks.
        missing: Vec<String>,
        /// Tensors of the file that the model lacks.
        unknown: Vec<String>,
    },
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The system cannot read or write it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("the file is truncated; copy it again")]
    Truncated,
    /// Its header cannot be parsed.
    #[error("the header is damaged ({0}); copy the file again")]
    Header(String),
    /// It is no per-task file.
    #[error("this safetensors file holds no per-task metadata; it was not written by `--save`")]
    Foreign,
    /// It was written by another version of this program.
    #[error("format version {0}, this program reads {FORMAT_VERSION}; use the version that wrote it")]
    Version(u32),
    /// Its contents are not those that were written.
    #[error("the contents do not match their checksum; copy the file again")]
    Checksum,
}

/// The document in the file's metadata.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    checksum: String,
    /// The text of a [`TaskInfo`], as it is covered by the checksum.
    info: Box<RawValue>,
}

impl TaskFile {
    /// Takes from `model` exactly what `info.tuning` trains, and running statistics.
    pub fn from_model<M: Tunable>(model: &M, info: TaskInfo) -> Self {
        let wanted = wanted(model, info.tuning);
        let mut tensors = BTreeMap::new();
        visit_values(
            // Burn holds the newest running statistics back until a module is asked for its validation form.
            &model.valid(),
            |name| wanted.contains_key(name),
            |tensor, values| {
                tensors.insert(tensor.name, (tensor.shape, values));
            },
        );
        Self { info, tensors }
    }

    /// Puts the file's tensors into `model`, which must have been made on `backbone` as [`info`](Self::info) says.
    ///
    /// # Errors
    /// If the file was trained on another backbone, or the model has other trained tensors than the file, or one of
    /// another shape.
    pub fn apply<M: Tunable>(mut self, model: M, backbone: &BackboneId) -> Result<M, TaskFileError> {
        self.check_backbone(backbone)?;
        let wanted = wanted(&model, self.info.tuning);
        let missing: Vec<_> = wanted.keys().filter(|name| !self.tensors.contains_key(*name)).cloned().collect();
        let unknown: Vec<_> = self.tensors.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        if !(missing.is_empty() && unknown.is_empty()) {
            return Err(TaskFileError::Tensors { missing, unknown });
        }
        for (name, expected) in wanted {
            let (found, _) = &self.tensors[&name];
            if *found != expected {
                let found = found.clone();
                return Err(TaskFileError::Shape { name, found, expected });
            }
        }
        // Clones of a Burn module share running statistics; the validation form has its own.
        let on_autodiff = model.devices().iter().any(Device::is_autodiff);
        let model = if on_autodiff { model.valid().train() } else { model.valid() };
        Ok(replace_values(model, |tensor| self.tensors.remove(&tensor.name).map(|(_, values)| values)))
    }

    /// Refuses any backbone but the one the tensors were trained on.
    ///
    /// # Errors
    /// If `backbone` has another hash than the file's.
    pub fn check_backbone(&self, backbone: &BackboneId) -> Result<(), TaskFileError> {
        let (expected, found) = (self.info.backbone.clone(), backbone.clone());
        match expected.hash == found.hash {
            true => Ok(()),
            false => Err(TaskFileError::OtherBackbone { expected, found }),
        }
    }

    /// The dimensions of the tensor called `name`, if the file has it.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|(shape, _)| shape.as_slice())
    }

    /// Writes the file by atomic rename.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TaskFileError> {
        let written = self.to_bytes().and_then(|bytes| write_atomically(path, &bytes));
        written.map_err(|error| TaskFileError::File { path: path.to_owned(), flaw: error.into() })
    }

    /// Reads and verifies a file.
    ///
    /// # Errors
    /// If the file is no whole, unchanged per-task file of this format version.
    pub fn read(path: &Path) -> Result<Self, TaskFileError> {
        let read = fs::read(path).map_err(Flaw::from).and_then(|bytes| Self::from_bytes(&bytes));
        read.map_err(|flaw| TaskFileError::File { path: path.to_owned(), flaw })
    }

    /// The file's contents.
    ///
    /// # Errors
    /// If the tensors have no written form.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let info = serde_json::value::to_raw_value(&self.info)?;
        let header = Header { version: FORMAT_VERSION, checksum: checksum(&info, &self.tensors), info };
        let metadata = [(METADATA_KEY.to_owned(), serde_json::to_string(&header)?)].into();
        let views: Result<Vec<_>, _> = self
            .tensors
            .iter()
            .map(|(name, (shape, values))| {
                let view = TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(values));
                view.map(|view| (name, view))
            })
            .collect();
        views.and_then(|views| safetensors::serialize(views, Some(metadata))).map_err(io::Error::other)
    }

    /// Parses and verifies a file's contents.
    ///
    /// # Errors
    /// If they are no whole, unchanged per-task file of this format version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Flaw> {
        let damaged = |error: &dyn std::error::Error| Flaw::Header(error.to_string());
        let stored = SafeTensors::deserialize(bytes).map_err(|error| match error {
            SafeTensorError::HeaderTooSmall
            | SafeTensorError::InvalidHeaderLength
            | SafeTensorError::MetadataIncompleteBuffer => Flaw::Truncated,
            error => damaged(&error),
        })?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
        let entries = metadata.metadata().as_ref();
        let document = entries.and_then(|entries| entries.get(METADATA_KEY)).ok_or(Flaw::Foreign)?;

        // Another version may have another header: look at the version first.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(document).map_err(|error| damaged(&error))?;
        if version != FORMAT_VERSION {
            return Err(Flaw::Version(version));
        }
        let header: Header = serde_json::from_str(document).map_err(|error| damaged(&error))?;

        let tensors = stored.iter().map(|(name, view)| match view.dtype() {
            Dtype::F32 => {
                let values = bytemuck::pod_collect_to_vec(view.data());
                Ok((name.to_owned(), (view.shape().to_vec(), values)))
            }
            _ => Err(Flaw::Checksum),
        });
        let tensors = tensors.collect::<Result<_, _>>()?;
        if checksum(&header.info, &tensors) != header.checksum {
            return Err(Flaw::Checksum);
        }
        let info = serde_json::from_str(header.info.get()).map_err(|error| damaged(&error))?;
        Ok(Self { info, tensors })
    }
}

/// A hash over the description and all tensors.
fn checksum(info: &RawValue, tensors: &Tensors) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&FORMAT_VERSION.to_le_bytes()).update(info.get().as_bytes());
    for (name, (shape, values)) in tensors {
        hash_tensor(&mut hasher, name, shape, values);
    }
    hasher.finalize().to_hex().to_string()
}

/// Names and shapes of what a per-task file holds of `model`.
fn wanted<M: Tunable>(model: &M, tuning: Tuning) -> BTreeMap<String, Vec<usize>> {
    let layers = model.layers();
    tensors(model)
        .into_iter()
        .filter(|tensor| {
            let role = model.role(&tensor.name);
            tuning.trains(role, layers) || role.kind == Kind::Statistic
        })
        .map(|tensor| (tensor.name, tensor.shape))
        .collect()
}
