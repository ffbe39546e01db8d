//! The per-task file: exactly v, bound to w by a hash.
//!
//! One safetensors file holds the trained tensors (and, where batch normalisation is used, its running
//! statistics), as f32 in the layout of the module. Its metadata has one entry, `adapter_lab`: a JSON document
//! with the [`TaskInfo`] and a checksum over all of the file's contents.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};

use crate::{
    AdapterConfig, Tunable, Tuning,
    atomic_file::write_atomically,
    tensors::{hash_tensor, replace_tensors, tensors, visit_tensors},
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
    /// The names of its classes, in the order of the head's outputs; empty for a score or a span.
    pub labels: Vec<String>,
    /// What the head is and reads, such as `cls` or `pooler`.
    pub head: String,
    /// What was trained.
    pub tuning: Tuning,
    /// The adapters, if there are any.
    pub adapter: Option<AdapterConfig>,
    /// The backbone's name.
    pub backbone: String,
    /// The backbone's content hash: v is of use with this w alone.
    pub backbone_hash: String,
}

/// A task's trained tensors with what they belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    /// What they are.
    pub info: TaskInfo,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// Why a per-task file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file ends too early.
    #[error("{}: the file is truncated ({found} bytes); copy it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that are there.
        found: u64,
    },
    /// The header cannot be read.
    #[error("{}: the header is damaged ({reason}); copy the file again", path.display())]
    DamagedHeader {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// The file is no per-task file.
    #[error("{}: this safetensors file holds no per-task metadata; it was not written by `--save`", path.display())]
    NotATaskFile {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version.
    #[error("{}: format version {found}, this program reads {FORMAT_VERSION}; use the version that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The contents do not match their checksum.
    #[error("{}: the contents do not match their checksum; copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file was trained on another backbone.
    #[error(
        "these tensors were trained on backbone `{expected}` ({expected_hash:.12}…), not on `{found}` ({found_hash:.12}…); \
         load that backbone, or train again"
    )]
    OtherBackbone {
        /// The backbone of the file.
        expected: String,
        /// Its hash.
        expected_hash: String,
        /// The backbone at hand.
        found: String,
        /// Its hash.
        found_hash: String,
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

/// The document in the file's metadata.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    #[serde(flatten)]
    info: TaskInfo,
    checksum: String,
}

impl TaskFile {
    /// Takes from `model` exactly what `info.tuning` trains, and running statistics.
    pub fn from_model<M: Tunable>(model: &M, info: TaskInfo) -> Self {
        let wanted = wanted(model, info.tuning);
        let mut tensors = BTreeMap::new();
        visit_tensors(
            model,
            |name| wanted.contains_key(name),
            |name, shape, values| {
                tensors.insert(name.to_owned(), (shape.to_vec(), values));
            },
        );
        Self { info, tensors }
    }

    /// Puts the file's tensors into `model`, which must have been made for the same tuning on the same backbone
    /// (see [`check_backbone`](Self::check_backbone)).
    ///
    /// # Errors
    /// If the model has other trained tensors than the file, or one of another shape.
    pub fn apply<M: Tunable>(mut self, model: M) -> Result<M, TaskFileError> {
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
        Ok(replace_tensors(model, |info, _| self.tensors.remove(&info.name).map(|(_, values)| values)))
    }

    /// Refuses any backbone but the one the tensors were trained on.
    ///
    /// # Errors
    /// If `hash` is not the hash in the file.
    pub fn check_backbone(&self, name: &str, hash: &str) -> Result<(), TaskFileError> {
        if self.info.backbone_hash == hash {
            return Ok(());
        }
        Err(TaskFileError::OtherBackbone {
            expected: self.info.backbone.clone(),
            expected_hash: self.info.backbone_hash.clone(),
            found: name.to_owned(),
            found_hash: hash.to_owned(),
        })
    }

    /// Writes the file by atomic rename.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TaskFileError> {
        let io_error = |source| TaskFileError::Io { path: path.to_owned(), source };
        let header = Header { version: FORMAT_VERSION, info: self.info.clone(), checksum: self.checksum() };
        let views: Result<Vec<_>, SafeTensorError> = self
            .tensors
            .iter()
            .map(|(name, (shape, values))| {
                let bytes = bytemuck::cast_slice(values);
                Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?))
            })
            .collect();
        let metadata = serde_json::to_string(&header).map_err(|e| io_error(e.into()))?;
        let metadata = [(METADATA_KEY.to_owned(), metadata)].into();
        let bytes = views
            .and_then(|views| safetensors::serialize(views, Some(metadata)))
            .map_err(|e| io_error(io::Error::other(e)))?;
        write_atomically(path, &bytes).map_err(io_error)
    }

    /// Reads and verifies a file.
    ///
    /// # Errors
    /// If the file is no whole, unchanged per-task file of this format version.
    pub fn read(path: &Path) -> Result<Self, TaskFileError> {
        let path = path.to_owned();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(TaskFileError::Io { path, source }),
        };
        let stored = match SafeTensors::deserialize(&bytes) {
            Ok(stored) => stored,
            Err(
                SafeTensorError::HeaderTooSmall
                | SafeTensorError::InvalidHeaderLength
                | SafeTensorError::MetadataIncompleteBuffer,
            ) => {
                let found = bytes.len() as u64;
                return Err(TaskFileError::Truncated { path, found });
            }
            Err(error) => {
                let reason = error.to_string();
                return Err(TaskFileError::DamagedHeader { path, reason });
            }
        };
        let metadata = SafeTensors::read_metadata(&bytes).ok().and_then(|(_, header)| header.metadata().clone());
        let Some(document) = metadata.and_then(|mut entries| entries.remove(METADATA_KEY)) else {
            return Err(TaskFileError::NotATaskFile { path });
        };
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let header = serde_json::from_str::<Versioned>(&document).and_then(|Versioned { version }| {
            match version == FORMAT_VERSION {
                true => serde_json::from_str::<Header>(&document).map(Ok),
                false => Ok(Err(version)),
            }
        });
        let header = match header {
            Ok(Ok(header)) => header,
            Ok(Err(found)) => return Err(TaskFileError::Version { path, found }),
            Err(error) => {
                let reason = error.to_string();
                return Err(TaskFileError::DamagedHeader { path, reason });
            }
        };
        let mut tensors = BTreeMap::new();
        for (name, view) in stored.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(TaskFileError::Damaged { path });
            }
            let values = bytemuck::pod_collect_to_vec(view.data());
            tensors.insert(name.to_owned(), (view.shape().to_vec(), values));
        }
        let file = Self { info: header.info, tensors };
        match file.checksum() == header.checksum {
            true => Ok(file),
            false => Err(TaskFileError::Damaged { path }),
        }
    }

    /// A hash over the description and all tensors.
    fn checksum(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&FORMAT_VERSION.to_le_bytes());
        // A struct of strings, numbers and lists always has a JSON form.
        hasher.update(&serde_json::to_vec(&self.info).unwrap_or_default());
        for (name, (shape, values)) in &self.tensors {
            hash_tensor(&mut hasher, name, shape, values);
        }
        hasher.finalize().to_hex().to_string()
    }
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
