//! Studies beside training: tasks one after the other, devices compared, pre-training.

mod parity;
mod pretraining;
mod stream;

pub use parity::{Deviation, Parity, Tolerance, parity, trace};
pub use pretraining::{PretrainConfig, PretrainState, Pretraining};
pub use stream::stream;
