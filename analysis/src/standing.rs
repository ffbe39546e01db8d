//! Where a method stands between the trivial answer and everything right.

use crate::{
    evidence::of_seeds,
    select::{Estimate, Point},
    setup::Run,
    thresholds::SEEDS,
};

/// How runs are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// In the task's own metric.
    Own,
    /// By accuracy where the task has it, as most of the paper's figures.
    Accuracy,
    /// In the task's own metric, on test where every seed has a test score. The trivial answer is compared with validation scores.
    Reported,
}

impl Measure {
    fn metric(self, run: &Run) -> Option<&str> {
        match self {
            Measure::Own | Measure::Reported => run.metric(),
            Measure::Accuracy => run.shown_metric(),
        }
    }

    /// The validation score: a fraction.
    pub fn score(self, run: &Run) -> Option<f64> {
        run.score(self.metric(run)?)
    }

    /// The trivial answer's validation score: a fraction.
    pub fn trivial(self, run: &Run) -> Option<f64> {
        run.trivial(self.metric(run)?)
    }

    /// Scores of the seeds, in points of a hundred.
    pub fn estimate(self, point: &Point<'_>) -> Estimate {
        match self {
            Measure::Own => point.validation(),
            Measure::Reported => point.reported(),
            Measure::Accuracy => point.shown(),
        }
    }
}

/// Where a method stands on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Clearly above the trivial answer and below everything right.
    Clear,
    /// Within its interval of everything right: whatever is compared there comes out even.
    Ceiling,
    /// Within its interval of the trivial answer, or below: it has learnt nothing that could be compared.
    Floor,
    /// The trivial answer's score is not recorded.
    Unknown,
}

/// Where a point stands, by the 95 % interval over its seeds; with fewer than three, which say too little, by its mean alone.
pub fn standing(point: &Point<'_>, measure: Measure) -> Standing {
    let pairs = point.seeds.iter().map(|run| Some((100.0 * measure.score(run)?, 100.0 * measure.trivial(run)?)));
    let Some(pairs) = pairs.collect::<Option<Vec<(f64, f64)>>>() else { return Standing::Unknown };
    let gains: Vec<f64> = pairs.iter().map(|(score, trivial)| score - trivial).collect();
    let scores: Vec<f64> = pairs.iter().map(|(score, _)| *score).collect();
    let ends = |values: &[f64]| {
        let few = values.len() as f64 <= SEEDS.limit;
        match of_seeds(values) {
            Some((_, interval)) if !few => (interval.low, interval.high),
            Some((mean, _)) => (mean, mean),
            None => (values[0], values[0]),
        }
    };
    let ((low, _), (_, high)) = (ends(&gains), ends(&scores));
    if low <= 0.0 {
        Standing::Floor
    } else if high >= 100.0 {
        Standing::Ceiling
    } else {
        Standing::Clear
    }
}
