//! Experiments: a file, the grid of runs it stands for, and running them all.

mod estimate;
mod experiment;
mod grid;
mod plan;
mod workers;

pub use estimate::{Estimate, duration, estimate};
pub use experiment::{Experiment, ExperimentKind, Scale, Suite, UnknownName};
pub use grid::{BackboneShape, Grid};
pub use plan::{ExperimentResult, Failure, Plan, PlanOptions};
pub use workers::{RunOutcome, Sweep, work};
