//! Training: the loop, and what it calls.

mod adam;
mod checkpoint;
mod config;
mod error;
mod evaluate;
mod gradients;
mod loss_scale;
mod optimizer;
mod replicas;
mod schedule;
#[allow(clippy::module_inception)] // the loop is what the module is about
mod train;
mod trainer;
mod watch;

pub use adam::Adam;
pub use checkpoint::{Checkpoint, CheckpointPolicy, TrainState, WriteCheckpoint};
pub use config::{Evaluate, TrainConfig};
pub use error::{RunError, Stop};
pub use gradients::StepGradients;
pub use loss_scale::LossScale;
pub use optimizer::{ModuleOptimizer, Optimizer, OptimizerConfig, OptimizerState, Update};
pub use schedule::Schedule;
pub use train::{Trained, Training, TrainingData, train};
pub use trainer::{TextPrediction, TrainedModel, Trainer};
pub use watch::{Doing, Ended, Silent, Step, SweepWatch, Watch};
