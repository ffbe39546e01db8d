//! Runs as other programs follow them.

mod delivery;
mod mlflow;
mod tensorboard;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use analysis::{Evaluation, RunRecord};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::StepLine;
use crate::{
    lab::Keys,
    train::{Step, TrainState, Watch},
};
pub use delivery::settle_tracking;
use delivery::{Delivery, News};
pub use mlflow::{Mlflow, MlflowError, Sent};
use tensorboard::TensorBoard;

/// A program that follows runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracking {
    /// TensorBoard, by event files in the folder of runs.
    TensorBoard,
    /// MLflow, by its tracking server.
    Mlflow,
}

impl Tracking {
    /// Says whether it could follow runs from here.
    ///
    /// # Errors
    /// If something is missing.
    pub fn check(self) -> Result<()> {
        match self {
            Tracking::TensorBoard => Ok(()),
            Tracking::Mlflow => Mlflow::from_environment().map(drop).context("--track mlflow"),
        }
    }
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
            "mlflow" => Ok(Tracking::Mlflow),
            _ => Err(UnknownTracking(name.to_owned())),
        }
    }
}

/// Tells another program of one run. What goes wrong there is no reason to stop.
pub(crate) trait Tracker {
    /// A step was taken.
    fn step(&mut self, step: &StepLine) -> Result<()>;

    /// The model was evaluated.
    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()>;

    /// What was told so far is kept: the run will not do it again.
    fn checkpoint(&mut self) {}

    /// The run is over, and in the store.
    fn finished(&mut self, record: &RunRecord) -> Result<()>;

    /// What the user should know; once.
    fn trouble(&mut self) -> Option<String> {
        None
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// All that follow a run; one that fails is left out from then on.
#[derive(Default)]
pub(crate) struct Trackers(Vec<Box<dyn Tracker>>);

impl Trackers {
    /// Begins to tell of a run: with all that was done before, each step once.
    pub fn begin(
        tracking: &[Tracking],
        runs: &Path,
        id: &str,
        keys: &Keys,
        steps: &[StepLine],
        state: Option<&TrainState>,
        watch: &mut dyn Watch,
    ) -> Self {
        let mut trackers = Self::default();
        for tracking in tracking {
            let tracker: Result<Box<dyn Tracker>> = match tracking {
                Tracking::TensorBoard => TensorBoard::begin(runs, id, keys).map(|tracker| Box::new(tracker) as _),
                Tracking::Mlflow => MlflowRun::begin(runs, id, keys).map(|tracker| Box::new(tracker) as _),
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
        trackers.checkpoint(watch);
        trackers
    }

    /// Tells of a run that is over and was not followed.
    pub fn tell(tracking: &[Tracking], runs: &Path, record: &RunRecord, watch: &mut dyn Watch) {
        let mut trackers = Self::begin(tracking, runs, &record.id, &record.config, &[], None, watch);
        for evaluation in &record.evaluations {
            trackers.evaluation(evaluation, watch);
        }
        trackers.finished(record, watch);
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

    /// What was told so far is kept.
    pub fn checkpoint(&mut self, watch: &mut dyn Watch) {
        self.each(watch, |tracker| {
            tracker.checkpoint();
            Ok(())
        });
    }

    /// The run is over.
    pub fn finished(&mut self, record: &RunRecord, watch: &mut dyn Watch) {
        self.each(watch, |tracker| tracker.finished(record));
    }

    fn each(&mut self, watch: &mut dyn Watch, mut tell: impl FnMut(&mut dyn Tracker) -> Result<()>) {
        self.0.retain_mut(|tracker| {
            let told = tell(&mut **tracker);
            if let Err(error) = &told {
                watch.note(&format!("this run is not tracked any more: {error:#}"));
            }
            if let Some(trouble) = tracker.trouble() {
                watch.note(&trouble);
            }
            told.is_ok()
        });
    }
}

/// Makes sure that these runs of other processes, which are gone, arrive where they are tracked.
pub(crate) fn deliver_finished<'a>(tracking: &[Tracking], runs: &Path, ids: impl Iterator<Item = &'a str>) {
    if !tracking.contains(&Tracking::Mlflow) {
        return;
    }
    // Without a server nothing began.
    if let Ok(delivery) = Delivery::of_process() {
        ids.for_each(|id| delivery.tell(News::Finished { runs: runs.to_owned(), id: id.to_owned() }));
    }
}

/// A run that MLflow hears of at each checkpoint: what is told then is never done again.
struct MlflowRun {
    delivery: &'static Delivery,
    runs: PathBuf,
    id: String,
    keys: Keys,
    steps: Vec<StepLine>,
    evaluations: Vec<Evaluation>,
}

impl MlflowRun {
    fn begin(runs: &Path, id: &str, keys: &Keys) -> Result<Self> {
        let (delivery, steps, evaluations) = (Delivery::of_process()?, Vec::new(), Vec::new());
        Ok(Self { delivery, runs: runs.to_owned(), id: id.to_owned(), keys: keys.clone(), steps, evaluations })
    }
}

impl Tracker for MlflowRun {
    fn step(&mut self, step: &StepLine) -> Result<()> {
        self.steps.push(step.clone());
        Ok(())
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        self.evaluations.push(evaluation.clone());
        Ok(())
    }

    fn checkpoint(&mut self) {
        let (steps, evaluations) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.evaluations));
        let (id, keys) = (self.id.clone(), self.keys.clone());
        self.delivery.tell(News::Progress { id, keys, steps, evaluations });
    }

    fn finished(&mut self, _: &RunRecord) -> Result<()> {
        self.delivery.tell(News::Finished { runs: self.runs.clone(), id: self.id.clone() });
        Ok(())
    }

    fn trouble(&mut self) -> Option<String> {
        self.delivery.trouble()
    }
}
