//! Runs as other programs follow them.

mod tensorboard;

use std::{path::Path, str::FromStr};

use analysis::{Evaluation, RunRecord};
use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{RunManifest, StepLine};
use crate::train::{Step, TrainState, Watch};
use tensorboard::TensorBoard;

/// A program that follows runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracking {
    /// TensorBoard, by event files in the folder of runs.
    TensorBoard,
}

/// A name that is none of those.
#[derive(Debug, thiserror::Error)]
#[error("unknown name `{0}`")]
pub struct UnknownTracking(String);

impl FromStr for Tracking {
    type Err = UnknownTracking;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "tensorboard" => Ok(Tracking::TensorBoard),
            _ => Err(UnknownTracking(name.to_owned())),
        }
    }
}

/// Tells another program of one run. What goes wrong there is no reason to stop.
pub(super) trait Tracker {
    /// A step was taken.
    fn step(&mut self, step: &StepLine) -> Result<()>;

    /// The model was evaluated.
    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()>;

    /// The run is over.
    fn finished(&mut self, record: &RunRecord) -> Result<()>;
}

/// All that follow a run; one that fails is left out from then on.
#[derive(Default)]
pub(super) struct Trackers(Vec<Box<dyn Tracker>>);

impl Trackers {
    /// Begins to tell of a run: with all that was done before, each step once.
    pub fn begin(
        tracking: &[Tracking],
        runs: &Path,
        id: &str,
        manifest: &RunManifest,
        steps: &[StepLine],
        state: Option<&TrainState>,
        watch: &mut dyn Watch,
    ) -> Self {
        let mut trackers = Self::default();
        for tracking in tracking {
            let tracker: Result<Box<dyn Tracker>> = match tracking {
                Tracking::TensorBoard => TensorBoard::begin(runs, id, manifest).map(|tracker| Box::new(tracker) as _),
            };
            match tracker {
                Ok(tracker) => trackers.0.push(tracker),
                Err(error) => watch.note(&format!("this run is not tracked: {error:#}")),
            }
        }
        steps.iter().for_each(|step| trackers.each(watch, |tracker| tracker.step(step)));
        for evaluation in state.iter().flat_map(|state| &state.evaluations) {
            trackers.each(watch, |tracker| tracker.evaluation(evaluation));
        }
        trackers
    }

    /// A step was taken.
    pub fn step(&mut self, step: &Step, watch: &mut dyn Watch) {
        if !self.0.is_empty() {
            let line = StepLine::from(step);
            self.each(watch, |tracker| tracker.step(&line));
        }
    }

    /// The model was evaluated.
    pub fn evaluation(&mut self, evaluation: &Evaluation, watch: &mut dyn Watch) {
        self.each(watch, |tracker| tracker.evaluation(evaluation));
    }

    /// The run is over.
    pub fn finished(&mut self, record: &RunRecord, watch: &mut dyn Watch) {
        self.each(watch, |tracker| tracker.finished(record));
    }

    fn each(&mut self, watch: &mut dyn Watch, mut tell: impl FnMut(&mut dyn Tracker) -> Result<()>) {
        self.0.retain_mut(|tracker| match tell(&mut **tracker) {
            Ok(()) => true,
            Err(error) => {
                watch.note(&format!("this run is not tracked any more: {error:#}"));
                false
            }
        });
    }
}
