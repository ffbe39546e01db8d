//! Following a run.

use std::collections::BTreeMap;

use adapter_core::Place;
use analysis::{Evaluation, RunRecord};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A step that was taken.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// The number of all steps.
    pub of: usize,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// The number of all epochs.
    pub epochs: usize,
    /// Its loss.
    pub loss: f64,
    /// Its learning rate.
    pub rate: f64,
    /// Tokens trained on in a second.
    pub tokens_per_second: f64,
    /// How far each insertion is from the identity, ‖Δ‖/‖x‖, if this step measured it.
    pub deviations: BTreeMap<Place, f64>,
}

/// Follows a run. A closure that takes a [`Step`] does.
pub trait Watch {
    /// The run begins; it is scored by these metrics, the one that it is judged by first.
    fn scored_by(&mut self, _metrics: &[String]) {}

    /// A step was taken.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn step(&mut self, step: &Step) -> Result<()>;

    /// The model was evaluated.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn evaluation(&mut self, _evaluation: &Evaluation) -> Result<()> {
        Ok(())
    }

    /// A checkpoint is about to be written: what was seen so far must not be lost.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    /// Something that a user should know.
    fn note(&mut self, _text: &str) {}

    /// Whether it shows how far insertions are from the identity.
    fn shows_deviations(&self) -> bool {
        false
    }
}

impl<F: FnMut(&Step)> Watch for F {
    fn step(&mut self, step: &Step) -> Result<()> {
        self(step);
        Ok(())
    }
}

/// Follows nothing.
pub struct Silent;

impl Watch for Silent {
    fn step(&mut self, _: &Step) -> Result<()> {
        Ok(())
    }
}

/// A run of many that is over.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// How many are over, this one included.
    pub done: usize,
    /// How many there are.
    pub of: usize,
    /// What it is called.
    pub label: &'a str,
    /// Its record, or why it failed.
    pub result: Result<&'a RunRecord, &'a str>,
    /// Whether it was finished before: nothing was trained.
    pub before: bool,
}

/// What a process of many does at this moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doing {
    /// Its run, in short.
    pub label: String,
    /// The step that was taken last.
    pub step: usize,
    /// Of so many.
    pub of: usize,
}

/// Follows many runs.
pub trait SweepWatch: Send {
    /// What comes next are the runs of the experiment called `name`, or the trials of its `search`es.
    fn experiment(&mut self, _name: &str, _search: bool) {}

    /// The experiment is over; `_said` is what there is to say about that.
    fn concluded(&mut self, _name: &str, _said: &str) {}

    /// Follows a run of this process, called `label`.
    fn run(&mut self, label: &str) -> Box<dyn Watch>;

    /// A run is over.
    fn ended(&mut self, ended: Ended<'_>);

    /// What other processes do, by their names.
    fn working(&mut self, _doing: &BTreeMap<String, Doing>) {}

    /// Whether jobs that could go on without us are to be cancelled, now that we are asked to stop.
    fn cancels(&mut self, _jobs: &str) -> bool {
        false
    }
}
