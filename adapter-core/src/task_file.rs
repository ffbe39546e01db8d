//! The task file: exactly v, bound to w by a hash.
//!
//! One safetensors file holds the trained tensors (and, where batch normalisation is used, its running
//! statistics), as f32 in the layout of the module, with the [`TaskInfo`] as its header (see [`Container`]).

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use burn::{module::Module, tensor::Device};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Container, Flaw, MethodInfo, Selection, Stored,
    tensors::{replace_values, visit_values},
};

/// The form of the file.
const FORM: Container = Container { key: "adapter_lab", version: 2 };

/// What a task file says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// The task that was trained.
    pub task: String,
    /// What it asks for, such as `classification` or `span`.
    pub kind: String,
    /// The names of its classes, in the order of the head's outputs; empty for a score or a span.
    pub labels: Vec<String>,
    /// Whether its examples are pairs of texts; unknown for spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<bool>,
    /// What the head is and reads, such as `cls` or `pooler`.
    pub head: String,
    /// Longest sequence in tokens, as in training.
    pub max_length: usize,
    /// The method that trained it.
    pub method: MethodInfo,
    /// The backbone: v is of use with this w alone.
    pub backbone: BackboneId,
    /// Where its backbone and its data were found, as hints for whoever uses the file on the same machine.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub origin: Map<String, Value>,
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
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Why a task file cannot be used.
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
        /// The backbone that is given.
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

impl TaskFile {
    /// A file of these tensors. Whether they fit is found out when it is [applied](Self::apply).
    pub fn new(info: TaskInfo, tensors: Tensors) -> Self {
        Self { info, tensors }
    }

    /// Its tensors, under their names in a model.
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Takes from `model` exactly what `selection` names.
    pub fn from_model<M: Module>(model: &M, selection: &Selection, info: TaskInfo) -> Self {
        let wanted = selection.kept();
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

    /// Puts the file's tensors into `model`, of which `selection` is trained, and which must have been made on `backbone` as
    /// [`info`](Self::info) says.
    ///
    /// # Errors
    /// If the file was trained on another backbone, or the model has other trained tensors than the file, or one of
    /// another shape.
    pub fn apply<M: Module>(
        mut self,
        model: M,
        selection: &Selection,
        backbone: &BackboneId,
    ) -> Result<M, TaskFileError> {
        self.check_backbone(backbone)?;
        let wanted = selection.kept();
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
        if expected.hash == found.hash { Ok(()) } else { Err(TaskFileError::OtherBackbone { expected, found }) }
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
        let written = FORM.write(path, &self.info, &self.stored());
        written.map_err(|error| TaskFileError::File { path: path.to_owned(), flaw: error.into() })
    }

    /// Reads and verifies a file.
    ///
    /// # Errors
    /// If the file is no whole, unchanged task file of this format version, or has values that are not finite: nothing can be
    /// predicted with those.
    pub fn read(path: &Path) -> Result<Self, TaskFileError> {
        let finite = |file: Self| {
            let is_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
            match file.tensors.iter().find(|(_, (_, values))| !is_finite(values)) {
                Some((name, _)) => Err(Flaw::NotFinite(name.clone())),
                None => Ok(file),
            }
        };
        let read = FORM.read(path).and_then(|(info, stored)| Self::from_stored(info, stored)).and_then(finite);
        read.map_err(|flaw| TaskFileError::File { path: path.to_owned(), flaw })
    }

    /// The file's contents.
    ///
    /// # Errors
    /// If the tensors have no written form.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        FORM.to_bytes(&self.info, &self.stored())
    }

    /// Parses and verifies a file's contents.
    ///
    /// # Errors
    /// If they are no whole, unchanged task file of this format version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Flaw> {
        let (info, stored) = FORM.from_bytes(bytes)?;
        Self::from_stored(info, stored)
    }

    fn stored(&self) -> BTreeMap<String, Stored> {
        let tensors = self.tensors.iter();
        tensors.map(|(name, (shape, values))| (name.clone(), Stored::f32(shape.clone(), values))).collect()
    }

    fn from_stored(info: TaskInfo, stored: BTreeMap<String, Stored>) -> Result<Self, Flaw> {
        let tensors = stored.into_iter().map(|(name, stored)| {
            let values = stored.values(Dtype::F32).ok_or(Flaw::Checksum)?;
            Ok((name, (stored.shape, values)))
        });
        Ok(Self { info, tensors: tensors.collect::<Result<_, Flaw>>()? })
    }
}
