//! Learning rates over a run.

use serde::{Deserialize, Serialize};

/// How the learning rate rises and falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// §3.1: rises linearly to the peak over the warm-up, then falls linearly to 0.
    Paper,
    /// The authors' released code: falls linearly from the first step on, and a rise from 0 lies over the warm-up. At the
    /// end of the warm-up the rate is below the peak.
    AdapterBert,
}

impl Schedule {
    /// The rate at `step` (from 0) of `total`, of which the share `warmup` is warm-up.
    pub fn rate(self, peak: f64, step: usize, total: usize, warmup: f64) -> f64 {
        let rising = (total as f64 * warmup) as usize;
        let (s, t, w) = (step as f64, total as f64, rising.max(1) as f64);
        match self {
            Schedule::Paper => {
                let falling = if t > w { (t - s) / (t - w) } else { 1.0 };
                peak * ((s + 1.0) / w).min(falling)
            }
            Schedule::AdapterBert if step < rising => peak * s / w,
            Schedule::AdapterBert => peak * (1.0 - s / t),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_rate_peaks_at_the_end_of_the_warm_up_and_ends_near_zero() {
        let rate = |step| Schedule::Paper.rate(1e-3, step, 100, 0.1);
        assert!((rate(0) - 1e-4).abs() < 1e-12);
        assert!((rate(9) - 1e-3).abs() < 1e-12);
        assert!((rate(10) - 1e-3).abs() < 1e-12);
        assert!((rate(55) - 5e-4).abs() < 1e-12);
        assert!((rate(99) - 1e-3 / 90.0).abs() < 1e-12);
    }

    #[test]
    fn the_released_codes_rate_starts_at_zero_and_jumps_below_the_peak() {
        let rate = |step| Schedule::AdapterBert.rate(1e-3, step, 100, 0.1);
        assert_eq!(rate(0), 0.0);
        assert!((rate(9) - 9e-4).abs() < 1e-12);
        assert!((rate(10) - 9e-4).abs() < 1e-12);
        assert!((rate(99) - 1e-5).abs() < 1e-12);
    }

    #[test]
    fn a_run_of_one_step_has_the_peak_rate() {
        assert_eq!(Schedule::Paper.rate(1e-3, 0, 1, 0.1), 1e-3);
        assert_eq!(Schedule::AdapterBert.rate(1e-3, 0, 1, 0.1), 1e-3, "no warm-up where a tenth is no step");
    }
}
