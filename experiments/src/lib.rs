//! What to run: methods, tasks and experiments, composed.
//!
//! - [`Trainer`] trains a method on a dataset, in a few lines of Rust and without a command line.
//! - [`Lab`] holds everything that a program has by name. A program of your own adds methods, tasks, heads, metrics, optimisers,
//!   presets and figures to [`Lab::paper`] and hands it to [`main`]: it then has every command of `adapter-lab`.
//! - [`Runner`] takes one run from its configuration to its record; [`Plan`] and [`Sweep`] do that for a whole experiment.
//!
//! The modules follow the way of a run, and each uses only those before it: `device`, `train`, `lab`, `run`, `exchange`, `search`,
//! `study`, `sweep`, and `cli`, the only one that knows the command line, the terminal, signals and exit codes.
//!
//! ```
//! use experiments::{Lab, PlanOptions, Plan, RunContext};
//! use serde_json::json;
//!
//! let (lab, mut options) = (Lab::paper(), PlanOptions::default());
//! options.set.insert("backbone".to_owned(), json!("nano"));
//! let plan = Plan::new(&lab, "fig6-init", &options, &RunContext::default())?;
//! assert_eq!(plan.runs.len(), 30);
//! # Ok::<(), anyhow::Error>(())
//! ```

mod cli;
mod device;
mod exchange;
mod lab;
mod run;
mod search;
mod study;
mod sweep;
mod train;

pub use cli::{main, run_command};
pub use device::{
    DeviceError, DeviceFailed, DeviceKind, DeviceName, Devices, FoundDevice, Precision, UnknownPrecision, device_kinds,
    guard_on,
};
pub use exchange::{ExportOptions, Format, ImportOptions, LAYER_NORMS, UnknownFormat, export, import, merge};
pub use lab::{Ablation, AnyMethod, AnyModel, Inference, Keys, Lab, MethodKind, OwnKey, Parts, Preset, Traces};
pub use run::{
    BURN_VERSION, ClaimLost, FILE_KEYS, FileOptions, FinishedRun, Imported, Labels, Layers, Mlflow, MlflowError,
    NUMERICS, OpenRun, Origin, Owner, PreparedData, RUN_KEYS, RunConfig, RunContext, RunManifest, RunStore, Runner,
    SEARCH_KEYS, STALE_AFTER, Sent, Speed, StepLine, StepLog, StoredRun, Tracking, UnknownTracking, Workload,
    differences, effective_keys, foreign_keys, general_keys, origins, owner_of, resolve, run_id, settle_tracking,
    write_json,
};
pub use search::{
    Dimension, Domain, EmbeddingError, KnownEmbeddings, Search, SearchLeft, SearchOptions, Searched, Space,
    TrialConfig, TrialRunner, TrialSpeed, WordVectors, embedding_file, known_embeddings,
};
pub use study::{
    Deviation, Parity, PretrainConfig, PretrainState, Pretraining, Repeat, Tolerance, parity, stream, trace,
};
pub use sweep::{
    BackboneShape, Concluded, Estimate, Executor, Experiment, ExperimentKind, ExperimentResult, Failure, Grid, Plan,
    PlanOptions, RunOutcome, Scale, SlurmOptions, Suite, Sweep, UnknownName, duration, estimate,
};
pub use train::{
    Adam, Checkpoint, CheckpointPolicy, Doing, Ended, LossScale, ModuleOptimizer, Optimizer, OptimizerConfig,
    OptimizerState, RunError, Schedule, Silent, Step, StepGradients, Stop, SweepWatch, TextPrediction, TrainConfig,
    TrainState, Trained, TrainedModel, Trainer, Training, TrainingData, Update, Watch, WriteCheckpoint, train,
};

/// The code of the README and of the guide to extending is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// See [`Readme`].
#[cfg(doctest)]
#[doc = include_str!("../../docs/extending.md")]
struct Extending;
