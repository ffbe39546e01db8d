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
pub use queue::{Event, Heard, HeardRun, Item, Queue, Teller};
pub use slurm::{Array, SlurmOptions, submit_again};
pub use worker::{Left, Worker};
pub use workers::{Concluded, Executor, LEFT_EARLY, RunOutcome, Sweep};
