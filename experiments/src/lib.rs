//! What to run: the commands of `adapter-lab`.
//!
//! The binary parses its arguments into a [`Cli`] and calls [`run`]. Results go to standard output (with `--json`
//! one JSON document and nothing else), everything else to standard error.
//!
//! ```
//! use clap::Parser;
//! use experiments::Cli;
//!
//! let cli = Cli::try_parse_from(["adapter-lab", "params", "--backbone", "bert-base-uncased"]).unwrap();
//! experiments::run(cli).unwrap();
//! ```

mod ablation;
mod adam;
mod backbones;
mod checkpoint;
mod commands;
mod dashboard;
mod device;
mod device_args;
mod execution;
mod experiment;
mod experiment_args;
mod guard;
mod layers;
mod memory;
mod options;
mod parity;
mod precision;
mod prepared;
mod pretraining;
mod profile;
mod progress;
mod replicas;
mod run_config;
mod run_store;
mod runner;
mod saved;
mod schedule;
mod step_log;
mod stream;
mod sweep;
mod task_args;
mod trainer;
mod tuning_args;

pub use ablation::{Ablation, ablate_spans};
pub use adam::{Adam, AdamConfig, AdamState, StepGradients};
pub use backbones::CacheArgs;
pub use checkpoint::{Checkpoint, Numbers};
pub use commands::{Cli, run};
pub use dashboard::Dashboard;
pub use device::{DeviceError, DeviceKind, DeviceName, FoundDevice, device_kinds};
pub use device_args::{ComputeArgs, DeviceArgs, TrainingPlace};
pub use execution::{Ended, Executed, Failure, Plan, Setting, run_all};
pub use experiment::{Experiment, Grid, Kind, PRESETS, Scale, Tasks};
pub use guard::DeviceFailed;
pub use layers::Keys;
pub use memory::keep_what_is_freed;
pub use options::{Options, Sites};
pub use parity::{Deviation, Parity, Tolerance, Traces, parity};
pub use precision::{LossScale, Precision};
pub use pretraining::{PretrainConfig, pretrain};
pub use profile::{Profile, Settings, UnknownProfile};
pub use progress::{Progress, ProgressLine, Show};
pub use run_config::{BURN_VERSION, NUMERICS, RunConfig};
pub use run_store::{Begun, Busy, Found, OpenRun, RunStore};
pub use runner::{Ran, Runner};
pub use schedule::Schedule;
pub use step_log::StepLine;
pub use stream::stream;
pub use sweep::{Report, Workplace};
pub use task_args::{Labels, TaskFiles};
pub use trainer::{Course, Interrupted, Keep, Lessons, Safety, Step, Trained, Watch, train, train_on};

/// The README's code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
