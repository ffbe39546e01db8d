//! The paper's methods beside adapters, each in a file of its own.

mod bias;
mod full;
mod head;
mod layer_norm;
mod top_layers;

pub use bias::BiasOnly;
pub use full::FullFineTuning;
pub use head::HeadOnly;
pub use layer_norm::LayerNormOnly;
pub use top_layers::TopLayers;
