//! The scale of the loss in half precision.

use serde::{Deserialize, Serialize};

use crate::device::Precision;

/// What the loss is multiplied by before its gradients are computed: as much as possible without an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// The factor.
    pub factor: f64,
    /// Steps since it was changed.
    steps: usize,
    /// Steps that were not taken because of an overflow.
    pub skipped: usize,
}

impl Default for LossScale {
    fn default() -> Self {
        Self { factor: f64::from(1 << 15), steps: 0, skipped: 0 }
    }
}

impl LossScale {
    /// The scale at the beginning of a run, where its precision needs one.
    pub fn of(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then(Self::default)
    }

    /// Steps without an overflow after which the factor is doubled.
    const PATIENCE: usize = 500;

    /// The scale after a step, which had an overflow or not.
    #[must_use]
    pub fn after(self, overflow: bool) -> Self {
        if overflow {
            Self { factor: (self.factor / 2.0).max(1.0), steps: 0, skipped: self.skipped + 1 }
        } else if self.steps + 1 == Self::PATIENCE {
            Self { factor: 2.0 * self.factor, steps: 0, ..self }
        } else {
            Self { steps: self.steps + 1, ..self }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_halved_by_an_overflow_and_doubled_after_many_steps_without() {
        let start = LossScale::default();
        let halved = start.after(true);
        assert_eq!((halved.factor, halved.skipped), (start.factor / 2.0, 1));
        let later = (0..LossScale::PATIENCE).fold(halved, |scale, _| scale.after(false));
        assert_eq!((later.factor, later.skipped), (start.factor, 1));
        let lowest = (0..100).fold(start, |scale, _| scale.after(true));
        assert_eq!(lowest.factor, 1.0);
    }
}
