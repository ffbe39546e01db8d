//! The idea of *Parameter-Efficient Transfer Learning for NLP* (Houlsby et al., 2019), without any network.
//!
//! A pre-trained network `w` is frozen; a task adds a small `v`. This crate holds what `v` is made of:
//! bottleneck [`Adapter`]s and the [`Insertion`] they implement, the [`Method`] that says what is inserted and trained,
//! the [`ParamCount`] that says how much that is, and the [`TaskFile`] that stores exactly it.
//! It knows no BERT, no tasks and no files of others.
//!
//! ```
//! use adapter_core::{AdapterConfig, At, Init, Insertion, Place, Site};
//! use burn::tensor::{Device, Tensor};
//!
//! let device = Device::flex();
//! let place = Place::new(0, Site::Attention);
//! let adapter = AdapterConfig::new(8).init(place, 32, Init::new(0), &device).unwrap();
//!
//! // Three tokens of two sequences, end to end: a sub-layer's output and its input.
//! let output = Tensor::<2>::ones([3, 32], &device);
//! let at = At::new(place, &[0, 2, 3]);
//! let adapted = adapter.forward(output.clone(), output.clone(), &at);
//!
//! // Near-identity: a new adapter hardly changes what passes through it.
//! let change = (adapted - output).abs().max().into_scalar::<f32>();
//! assert!(change < 0.01);
//! ```

mod accounting;
mod activation;
mod adapter;
mod atomic_file;
mod container;
mod dropout;
mod init;
mod insertion;
mod method;
mod methods;
mod mix;
mod nearest;
mod place;
mod precision;
mod probe;
mod role;
mod task_file;
mod tensors;

pub use accounting::ParamCount;
pub use activation::{Activation, UnknownActivation};
pub use adapter::{Adapter, AdapterConfig, InnerNorm, Interaction, Placement, Scaling, Sites};
pub use atomic_file::{check_writable, create_new, read_file, write_atomically, write_once};
pub use container::{Container, Flaw, Stored};
pub use dropout::{DropoutKey, DropoutMask, DropoutSite};
pub use init::Init;
pub use insertion::{At, Bottleneck, Insertion, NoInsertion, Projection};
pub use method::{Key, Method, MethodError, MethodInfo};
pub use methods::{
    Also, BiasOnly, Features, FullFineTuning, HeadOnly, Ia3, Ia3Layout, LayerNormOnly, Lora, LowRank, LowRankUpdates,
    ParallelAdapters, Pfeiffer, Pool, Rescaled, TopLayers,
};
pub use mix::mix;
pub use nearest::nearest;
pub use place::{LayerSpan, LayerSpanError, Place, Site};
pub use precision::{cast, in_f32, precision};
pub use probe::{Probe, Probed};
pub use role::{Kind, NetworkShape, Part, Role, Selection, Tunable};
pub use task_file::{BackboneId, TaskFile, TaskFileError, TaskInfo, Tensors};
pub use tensors::{
    TensorInfo, TensorMapper, TensorVisitor, content_hash, replace_values, rewrite, tensors, visit_gradients,
    visit_values, walk,
};
