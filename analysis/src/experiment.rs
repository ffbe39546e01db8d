//! What is written of an experiment.

use serde::{Deserialize, Serialize};

/// An experiment and which runs belong to it; kept as `experiments/NAME.json` in the folder of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// Version of the record's form.
    pub schema: u32,
    /// Its name: a preset's (`fig4`), or that of its file.
    pub name: String,
    /// Whether it is one of the program's presets, not an experiment of the user's that is called like one.
    #[serde(default)]
    pub preset: bool,
    /// What it shows.
    pub about: String,
    /// `train`, `ablate` or `stream`.
    pub kind: String,
    /// `quick` or `paper`.
    pub scale: String,
    /// How many runs its grid has.
    pub planned: usize,
    /// The ids of those that are finished, in the grid's order.
    pub runs: Vec<String>,
    /// The ids of its streams.
    pub streams: Vec<String>,
    /// Those that failed.
    pub failed: Vec<FailedRun>,
    /// Tasks that it asks for and whose data is not there.
    pub missing: Vec<String>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Which, in short.
    pub run: String,
    /// Why.
    pub error: String,
}
