//! What is written of an experiment.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Store, axis::counted, setup::written};

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
    /// `train`, `ablate`, `stream` or `search`.
    pub kind: String,
    /// `quick`, `desk`, `wide` or `paper`.
    pub scale: String,
    /// The backbones of its runs by name, and what should be known of them.
    #[serde(default)]
    pub backbones: BTreeMap<String, String>,
    /// Keys that the user changed on a preset: by `--set`, by flags or by the environment.
    #[serde(default)]
    pub overrides: BTreeMap<String, Value>,
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
    /// The space of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub space: Vec<DimensionRecord>,
}

/// A choice of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionRecord {
    /// The key of a trial's configuration.
    pub key: String,
    /// What it decides.
    pub about: String,
    /// What it can be, in words.
    pub values: String,
    /// What must hold for it to decide anything.
    pub when: Option<String>,
}

impl ExperimentRecord {
    /// What is left of it, in words: "55 of 96 runs still to do". `None` if it is whole. A run that it names counts only if its
    /// record can be read, and with all that the experiment asks of it: a verdict without it would be one of other runs.
    pub(crate) fn unfinished(&self, store: &Store) -> Option<String> {
        let done = store.runs(self).len() - self.incomplete_runs(store);
        let left = self.planned.saturating_sub(done);
        (left > 0).then(|| format!("{left} of {} still to do", counted(self.planned, "run")))
    }

    /// How many of its readable runs lack what its kind asks of them: an ablation, or a stream that they are a part of.
    pub(crate) fn incomplete_runs(&self, store: &Store) -> usize {
        match self.kind.as_str() {
            // Of a run that diverged there is nothing to remove.
            "ablate" => {
                let trained = store.runs(self).into_iter().filter(|run| !run.is_diverged()).count();
                trained - store.ablated(self).iter().filter(|(run, _)| !run.is_diverged()).count()
            }
            "stream" => {
                let stages = store.streams(self).into_iter().flat_map(|stream| &stream.stages);
                let learnt: BTreeSet<&str> = stages.map(|stage| stage.run.as_str()).collect();
                store.runs(self).iter().filter(|run| !learnt.contains(run.id.as_str())).count()
            }
            _ => 0,
        }
    }

    /// Whether this is a later state of the same experiment: it has all runs and streams that `earlier` has, and more.
    pub fn continues(&self, earlier: &Self) -> bool {
        let all = |mine: &[String], theirs: &[String]| theirs.iter().all(|id| mine.contains(id));
        self.name == earlier.name
            && all(&self.runs, &earlier.runs)
            && all(&self.streams, &earlier.streams)
            && self.runs.len() + self.streams.len() > earlier.runs.len() + earlier.streams.len()
    }

    /// What was changed on a preset, in words: "with lr = 1e-2: not the paper's settings". `None` if nothing was.
    pub fn overridden(&self) -> Option<String> {
        (self.preset && !self.overrides.is_empty())
            .then(|| format!("with {}: not the paper's settings", self.overrides_in_words()))
    }

    /// What was changed: "lr = 1e-2, seed = 0 1".
    pub(crate) fn overrides_in_words(&self) -> String {
        let said = self.overrides.iter().map(|(key, value)| format!("{key} = {}", written(value)));
        said.collect::<Vec<_>>().join(", ")
    }
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Which, in short.
    pub run: String,
    /// Why.
    pub error: String,
}
