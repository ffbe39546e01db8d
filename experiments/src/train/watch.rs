//! Following a run.

use std::collections::BTreeMap;

use adapter_core::Place;
use analysis::{Evaluation, RunRecord};
use anyhow::Result;

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

/// Follows many runs.
pub trait SweepWatch: Send {
    /// Follows a run of this process, called `label`.
    fn run(&mut self, label: &str) -> Box<dyn Watch>;

    /// A run is over: its place among all of them, and its record or why it failed.
    fn ended(&mut self, done: usize, of: usize, label: &str, result: Result<&RunRecord, &str>);
}
