//! The one place that maps a device's name to a Burn device.

use std::{fmt, str::FromStr};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// The devices of this build, with what they are.
pub const DEVICES: [(&str, &str); 1] = [("flex", "CPU, all cores; always there")];

/// A device as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceName {
    /// The CPU.
    Flex,
}

/// A name that is no device of this build.
#[derive(Debug, thiserror::Error)]
#[error("unknown device `{0}`; this build has: flex (see `adapter-lab list devices`)")]
pub struct UnknownDevice(String);

impl FromStr for DeviceName {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "flex" => Ok(DeviceName::Flex),
            _ => Err(UnknownDevice(name.to_owned())),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("flex")
    }
}

impl DeviceName {
    /// Opens the device.
    pub fn open(self) -> Device {
        match self {
            DeviceName::Flex => Device::flex(),
        }
    }
}
