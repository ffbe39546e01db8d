//! How a model is trained.

use analysis::Kept;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::Schedule;

/// How long, how fast and in what order. The default is the paper's: batches of 32, three epochs, an evaluation at each
/// epoch's end, of which the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainConfig {
    /// The highest learning rate.
    #[serde(rename = "lr")]
    pub learning_rate: f64,
    /// Passes over the training set.
    pub epochs: usize,
    /// Examples of a step.
    pub batch_size: usize,
    /// Parts into which a step's examples are divided, to save memory; their gradients are averaged.
    pub accumulate: usize,
    /// Decides initial values, order and dropout.
    pub seed: u64,
    /// The learning rate over the run.
    pub schedule: Schedule,
    /// Share of the steps that are warm-up.
    pub warmup: f64,
    /// The largest norm of all gradients together; 0 clips nothing.
    pub clip: f64,
    /// Steps between evaluations, besides those at every epoch's end.
    pub evaluate_every: Option<usize>,
    /// When the model is evaluated beside that.
    pub evaluate: Evaluate,
    /// Evaluations without a better score after which the run ends; `None` runs to the end.
    pub patience: Option<usize>,
    /// The evaluation that the run reports, saves and tests.
    pub keep: Kept,
}

/// When a model is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evaluate {
    /// At every epoch's end.
    #[default]
    Epoch,
    /// At the end of the run only.
    End,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            learning_rate: 3e-4,
            epochs: 3,
            batch_size: 32,
            accumulate: 1,
            seed: 0,
            schedule: Schedule::Paper,
            warmup: 0.1,
            clip: 0.0,
            evaluate_every: None,
            evaluate: Evaluate::Epoch,
            patience: None,
            keep: Kept::Last,
        }
    }
}

/// The most that a count may be: beyond any training, and products of two can still be counted.
const MOST: usize = 1_000_000_000;

impl TrainConfig {
    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// Which, and what is needed.
    pub fn check(&self) -> Result<()> {
        let (lr, clip, warmup) = (self.learning_rate, self.clip, self.warmup);
        ensure!(lr > 0.0 && lr.is_finite(), "lr {lr}: a positive number is needed");
        ensure!(clip.is_finite() && clip >= 0.0, "clip {clip}: a number from 0 up is needed");
        ensure!((0.0..=1.0).contains(&warmup), "warmup {warmup}: a share from 0 to 1 is needed");
        for (name, value) in [
            ("epochs", Some(self.epochs)),
            ("batch_size", Some(self.batch_size)),
            ("accumulate", Some(self.accumulate)),
            ("evaluate_every", self.evaluate_every),
            ("patience", self.patience),
        ] {
            ensure!(value != Some(0), "{name} 0: at least 1 is needed");
            ensure!(value <= Some(MOST), "{name} {}: {MOST} at most", value.unwrap_or_default());
        }
        let stops_early = self.patience.is_some();
        ensure!(
            !stops_early || self.keep == Kept::Best,
            "patience needs keep = \"best\": the last evaluation is not the best"
        );
        ensure!(!stops_early || self.evaluate == Evaluate::Epoch, "patience needs evaluate = \"epoch\"");
        Ok(())
    }
}
