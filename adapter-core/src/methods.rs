//! Methods beside the paper's adapters, each in a file of its own.

mod also;
mod bias;
mod features;
mod full;
mod head;
mod ia3;
mod layer_norm;
mod lora;
mod one_adapter;
mod top_layers;

pub use also::Also;
pub use bias::BiasOnly;
pub use features::{Features, Pool};
pub use full::FullFineTuning;
pub use head::HeadOnly;
pub use ia3::{Ia3, Ia3Layout, Rescaled};
pub use layer_norm::LayerNormOnly;
pub use lora::{Lora, LowRank, LowRankUpdates};
pub use one_adapter::{ParallelAdapters, Pfeiffer};
pub use top_layers::TopLayers;
