//! Experiments: a file, the grid of runs it stands for, and running them all.

mod estimate;
mod experiment;
mod grid;
mod plan;
mod queue;
mod slurm;
mod worker;
mod workers;

pub use estimate::{Estimate, duration, estimate};
pub use experiment::{Experiment, ExperimentKind, Scale, Suite, UnknownName};
pub use grid::{BackboneShape, Grid};
pub use plan::{ExperimentResult, Failure, Plan, PlanOptions};
pub(crate) use queue::{Heard, HeardRun, Queue};
pub use slurm::SlurmOptions;
pub(crate) use slurm::{Array, submit_again};
pub(crate) use worker::{Left, Worker};
pub use workers::{Concluded, Executor, LEFT_EARLY, RunOutcome, Sweep};
