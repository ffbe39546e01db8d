//! The numbers a network computes with.

use std::fmt;

use adapter_core::cast;
use anyhow::{Result, ensure};
use burn::{
    module::Module,
    tensor::{Device, FloatDType},
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::device::DeviceName;

/// Precision of a network's weights and of what passes through it. Sums of normalisations and softmaxes, the loss and the
/// optimiser are in f32 whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 5 of them for the exponent; the loss is scaled, so that small gradients do not vanish
    F16,
    /// 16 bits, 8 of them for the exponent
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
        })
    }
}

impl Precision {
    fn dtype(self) -> FloatDType {
        match self {
            Precision::F32 => FloatDType::F32,
            Precision::F16 => FloatDType::F16,
            Precision::Bf16 => FloatDType::BF16,
        }
    }

    /// The same module in this precision.
    pub fn of<M: Module>(self, module: M) -> M {
        if self == Precision::F32 { module } else { cast(module, self.dtype()) }
    }

    /// Refuses a device that cannot compute in this precision.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(self, name: DeviceName, device: &Device) -> Result<()> {
        ensure!(device.supports_dtype(self.dtype()), "device `{name}` does not compute in {self}; use another --dtype");
        Ok(())
    }

    /// The scale of the loss at the beginning of a run, where one is needed.
    pub fn loss_scale(self) -> Option<LossScale> {
        (self == Precision::F16).then(LossScale::default)
    }
}

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
    /// Steps without an overflow after which the factor is doubled.
    const PATIENCE: usize = 500;

    /// The scale after a step, which had an overflow or not.
    #[must_use]
    pub fn after(self, overflow: bool) -> Self {
        match overflow {
            true => Self { factor: (self.factor / 2.0).max(1.0), steps: 0, skipped: self.skipped + 1 },
            false if self.steps + 1 == Self::PATIENCE => Self { factor: 2.0 * self.factor, steps: 0, ..self },
            false => Self { steps: self.steps + 1, ..self },
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
