//! How long a search takes here: from a few steps of some of its trials.

use anyhow::Result;

use super::{Search, Space, TrialRunner};
use crate::train::{RunError, Watch};

/// What is left of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchLeft {
    /// Trials that are still to do, at most.
    pub trials: usize,
    /// Seconds that one process takes for those that are left.
    pub seconds: f64,
}

/// How long a trial takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialSpeed {
    /// Seconds before and after training: texts into numbers, and all scores.
    pub around: f64,
    /// Seconds for each example that is trained on.
    pub sample: f64,
}

impl TrialSpeed {
    /// Seconds of a trial that trains on so many examples.
    pub fn seconds(&self, samples: usize) -> f64 {
        self.around + self.sample * samples as f64
    }
}

/// Trials that are measured, of all that are drawn.
const MEASURED: usize = 6;

impl Search {
    /// What is left of the search. A few steps of some of its trials tell how long that takes: nobody knows which of them go on.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, or a record cannot.
    pub fn left(&self, runner: &mut TrialRunner<'_>, watch: &mut dyn Watch) -> Result<SearchLeft> {
        let (mut looked_at, mut open) = (0, Vec::new());
        self.walk(|configs| {
            let mut records = Vec::new();
            for config in configs {
                match runner.finished(config, &self.files, watch)? {
                    Some(record) => records.push(record),
                    None => open.push(config.samples),
                }
            }
            looked_at += 1;
            Ok((records.len() == configs.len()).then_some(records))
        })?;
        let drawn_samples = Space::SAMPLES.iter().sum::<usize>() / Space::SAMPLES.len();
        let later = self.stages().into_iter().skip(looked_at);
        open.extend(later.flat_map(|(trials, samples)| vec![samples.unwrap_or(drawn_samples); trials]));
        let mut seconds = 0.0;
        if !open.is_empty() {
            let drawn = self.drawn()?;
            let some: Vec<usize> = drawn.iter().copied().step_by(drawn.len().div_ceil(MEASURED)).collect();
            for &number in &some {
                let speed = runner.speed(&self.trial(number, None)?, &self.files, watch);
                let speed = speed.map_err(|error: RunError| error.explained(false))?;
                seconds += open.iter().map(|&samples| speed.seconds(samples)).sum::<f64>() / some.len() as f64;
            }
        }
        Ok(SearchLeft { trials: open.len(), seconds })
    }
}
