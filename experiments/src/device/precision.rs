//! The numbers a network computes with.

use std::{fmt, str::FromStr};

use adapter_core::cast;
use anyhow::{Result, ensure};
use burn::{
    module::Module,
    tensor::{Device, FloatDType},
};
use serde::{Deserialize, Serialize};

use super::DeviceName;

/// Precision of a network's weights and of what passes through it. Sums of normalisations and softmaxes, the loss and the
/// optimiser are in f32 whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A name that is no precision.
#[derive(Debug, thiserror::Error)]
#[error("unknown precision `{0}`; there are f32, f16 and bf16")]
pub struct UnknownPrecision(String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut known = [Precision::F32, Precision::F16, Precision::Bf16].into_iter();
        known.find(|known| known.to_string() == name).ok_or_else(|| UnknownPrecision(name.to_owned()))
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
}
