//! What is written of tasks that were learnt one after the other.

use serde::{Deserialize, Serialize};

/// Several tasks, one after the other over one backbone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Version of the record's form.
    pub schema: u32,
    /// A hash of its runs' ids.
    pub id: String,
    /// The backbone they began with.
    pub backbone: String,
    /// What is trained for each task.
    pub tuning: String,
    /// The seed of every run.
    pub seed: u64,
    /// After each task.
    pub stages: Vec<Stage>,
}

/// The state after a task was learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The task.
    pub task: String,
    /// The id of its run.
    pub run: String,
    /// Parameters trained for it.
    pub trained: usize,
    /// Parameters of everything that must be kept for all tasks so far.
    pub total: usize,
    /// Every task so far, the new one included, evaluated again.
    pub recall: Vec<Recall>,
}

/// A task evaluated again after others were learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// The task.
    pub task: String,
    /// The metric of its scores.
    pub metric: String,
    /// Its validation score when it was learnt: a fraction.
    pub then: f64,
    /// Its validation score now: a fraction.
    pub now: f64,
    /// Whether every output for every validation example is the same, bit for bit.
    pub identical: bool,
}
