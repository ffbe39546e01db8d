//! Studies beside training: tasks one after the other, devices compared, runs repeated, pre-training.

mod parity;
mod pretraining;
mod repeat;
mod stream;

pub use parity::{Deviation, Parity, Tolerance, parity, trace};
pub use pretraining::{PretrainConfig, PretrainState, Pretraining};
pub use repeat::Repeat;
pub use stream::stream;
