//! The devices of a run.

use anyhow::Result;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::{DeviceName, Precision};

/// Where to compute, and how precisely. The default is the CPU in f32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Devices {
    /// By name. The first holds the optimiser; each takes its share of every batch.
    pub names: Vec<DeviceName>,
    /// The numbers that the network computes with.
    pub precision: Precision,
}

impl Default for Devices {
    fn default() -> Self {
        Self::from(DeviceName::Flex)
    }
}

impl From<DeviceName> for Devices {
    fn from(name: DeviceName) -> Self {
        Self { names: vec![name], precision: Precision::F32 }
    }
}

impl Devices {
    /// The kinds of all devices: a run on `cuda:0` is the same run on `cuda:1`.
    pub fn kinds(&self) -> String {
        let kinds: Vec<&str> = self.names.iter().map(|name| name.kind()).collect();
        kinds.join(",")
    }

    /// Whether it is the processor alone that computes.
    pub fn on_cpu(&self) -> bool {
        matches!(self.names[..], [DeviceName::Flex | DeviceName::Tch])
    }

    /// Opens all devices.
    ///
    /// # Errors
    /// If one cannot be used, or cannot compute in this precision, or there is none.
    pub fn open(&self) -> Result<Vec<Device>> {
        anyhow::ensure!(!self.names.is_empty(), "name at least one device");
        let open = |&name: &DeviceName| {
            let device = name.open()?;
            self.precision.check(name, &device)?;
            Ok(device)
        };
        self.names.iter().map(open).collect()
    }

    /// Opens the first device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn first(&self) -> Result<Device> {
        Ok(self.open()?.swap_remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_no_number() {
        let names = vec![DeviceName::Cuda(0), DeviceName::TchCuda(1), DeviceName::Wgpu(Some(2)), DeviceName::Tch];
        assert_eq!(Devices { names, precision: Precision::F32 }.kinds(), "cuda,tch:cuda,wgpu,tch");
    }
}
