//! BERT as the frozen network `w` of the paper, with a place for an insertion behind every sub-layer.
//!
//! [`Backbone::load`] reads a folder in Hugging Face layout: configuration, weights, tokenizer. Its [`Bert`] runs
//! on [`PackedBatch`]es, in which the tokens of all sequences lie end to end and nothing is padded, and takes any
//! [`Insertion`](adapter_core::Insertion) without copying a weight. It knows no tasks and no experiments.
//!
//! ```
//! use adapter_core::{AdapterConfig, Init};
//! use bert_backbone::{Backbone, PackedBatch, RandomCheckpoint};
//! use burn::tensor::Device;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let device = Device::flex();
//! RandomCheckpoint::tiny().write(folder.path(), &device)?;
//!
//! let backbone = Backbone::load(folder.path(), &device)?;
//! let sentence = backbone.tokenizer.encode("the cat sat", None, 128)?;
//! let batch = PackedBatch::new(&[sentence], &backbone.config, &device)?;
//!
//! let adapter = AdapterConfig::new(4);
//! let hidden = backbone.config.hidden_size;
//! let adapted = backbone.bert.clone().insert(|place| adapter.init(place, hidden, Init::new(0), &device));
//! assert_eq!(adapted.forward(&batch).dims(), [batch.tokens(), hidden]);
//! # Ok(())
//! # }
//! ```

mod backbone;
mod batch;
mod bert;
mod checkpoint;
mod config;
mod download;
mod fetch;
mod folder;
mod hub;
mod kernels;
mod known;
mod masked_lm;
mod nano;
mod onnx;
mod package;
mod random_checkpoint;
mod roles;
mod staging;
mod tokenizer;

pub use backbone::{Backbone, BackboneError};
pub use batch::{BatchError, PackedBatch};
pub use bert::{
    Attention, Bert, Embedding, Embeddings, Encoder, Intermediate, Layer, Pooler, SelfAttention, SubLayerOutput,
};
pub use checkpoint::{Checkpoint, CheckpointError, Misfits, transpose};
pub use config::{BertConfig, ConfigError};
pub use download::{DownloadError, Downloader, Expected};
pub use fetch::{FetchError, Fetched, Fetcher};
pub use folder::{write_model, write_vocabulary, write_weights};
pub use hub::{HUGGING_FACE, Hub, Provenance, Repository, RepositoryKind};
pub use kernels::{dropout, filter_peaks};
pub use known::{KnownBackbone, Package, Source, WebFile, known_backbones};
pub use masked_lm::{MaskedLmHead, Transform};
pub use random_checkpoint::RandomCheckpoint;
pub use roles::role;
pub use staging::Staging;
pub use tokenizer::{Encoded, Pieces, Tokenizer, TokenizerError};
