//! The search without BERT (§3.3): classical text classifiers, drawn from a space, trained and compared on validation.
//!
//! A trial is a run like any other: its id is a hash of its configuration, its data and its embeddings, and a finished one is never
//! run again. It has no checkpoint: a killed one starts over, and comes out the same to the bit.

mod config;
mod embeddings;
mod features;
mod network;
mod space;
mod speed;
mod training;
mod trial;

pub use config::{Search, SearchOptions, Searched};
pub(crate) use config::{is_search_key, search_options};
pub use embeddings::{EmbeddingError, KnownEmbeddings, WordVectors, embedding_file, known_embeddings};
pub(crate) use space::NO_BERT;
pub use space::{Dimension, Domain, Space, TrialConfig};
pub use speed::{SearchLeft, TrialSpeed};
pub use trial::TrialRunner;
