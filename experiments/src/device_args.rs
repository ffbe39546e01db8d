//! Where to compute and how precisely, as the command line says it.

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{device::DeviceName, guard::guard_on, precision::Precision};

/// Where to compute.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct DeviceArgs {
    /// Where to compute (see `list devices`)
    #[arg(long, env = "ADAPTER_LAB_DEVICE", default_value_t = DeviceName::Flex)]
    pub device: DeviceName,
}

/// Where to compute, and how precisely.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct ComputeArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) device: DeviceArgs,
    /// Precision of the network; normalisations, softmax, loss and optimiser are in f32
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub dtype: Precision,
}

impl ComputeArgs {
    /// Opens the device.
    ///
    /// # Errors
    /// If it cannot be had, or cannot compute in this precision.
    pub fn open(&self) -> Result<Device> {
        let device = self.device.device.open()?;
        self.dtype.check(self.device.device, &device)?;
        Ok(device)
    }
}

/// Where to train, and how precisely.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct TrainingPlace {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Several devices instead of --device, divided by commas: each takes its share of every batch, gradients are averaged
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…")]
    pub devices: Vec<DeviceName>,
}

impl TrainingPlace {
    /// All devices by name; the first holds the optimiser.
    pub fn names(&self) -> Vec<DeviceName> {
        if self.devices.is_empty() { vec![self.compute.device.device] } else { self.devices.clone() }
    }

    /// The kinds of all devices: a run on `cuda:0` is the same run on `cuda:1`.
    pub fn kinds(&self) -> String {
        let kinds: Vec<&str> = self.names().into_iter().map(DeviceName::kind).collect();
        kinds.join(",")
    }

    /// Opens all devices.
    ///
    /// # Errors
    /// If one cannot be had, or cannot compute in this precision.
    pub fn open(&self) -> Result<Vec<Device>> {
        self.open_for(self.compute.dtype)
    }

    /// [`open`](Self::open) for another precision.
    pub(crate) fn open_for(&self, precision: Precision) -> Result<Vec<Device>> {
        let open = |name: DeviceName| {
            let device = name.open()?;
            precision.check(name, &device)?;
            Ok(device)
        };
        self.names().into_iter().map(open).collect()
    }

    /// Runs `f`, whose runs are kept or not: what a device panics with becomes an error.
    ///
    /// # Errors
    /// What `f` fails with, or [`DeviceFailed`](crate::DeviceFailed).
    pub fn guard<T>(&self, kept: bool, f: impl FnOnce() -> Result<T>) -> Result<T> {
        guard_on(&self.names(), kept, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_no_number() {
        let compute = ComputeArgs { device: DeviceArgs { device: DeviceName::Flex }, dtype: Precision::F32 };
        let devices = vec![DeviceName::Cuda(0), DeviceName::TchCuda(1), DeviceName::Wgpu(Some(2)), DeviceName::Tch];
        let place = TrainingPlace { compute, devices };
        assert_eq!(place.kinds(), "cuda,tch:cuda,wgpu,tch");
    }
}
