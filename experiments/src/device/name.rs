//! Devices by name: the one place that maps a name to a Burn device.

use std::{
    fmt,
    panic::catch_unwind,
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::panic_text;

/// A device as named on the command line, whether or not this build has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// The CPU; always there.
    Flex,
    /// libtorch on the CPU.
    Tch,
    /// libtorch on a CUDA device.
    TchCuda(usize),
    /// The graphics adapter that the system prefers, or one by its number.
    Wgpu(Option<usize>),
    /// The preferred adapter, through Vulkan alone.
    Vulkan,
    /// The preferred adapter, through Metal alone.
    Metal,
    /// A CUDA device.
    Cuda(usize),
    /// A ROCm device.
    Rocm(usize),
}

/// A device that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No device is called that.
    #[error("unknown device `{0}`; there are flex, tch, tch:cuda:N, wgpu, wgpu:N, vulkan, metal, cuda:N and rocm:N")]
    Unknown(String),
    /// It was not built in.
    #[error("device `{name}` is not in this build; build with `{}` (see docs/backends.md)", build_command(name.feature()))]
    NotBuilt {
        /// The device.
        name: DeviceName,
    },
    /// It is not on this machine.
    #[error("device `{name}` cannot be used: {reason} (`adapter-lab list devices` shows what was found)")]
    NotFound {
        /// The device.
        name: DeviceName,
        /// Why.
        reason: String,
    },
}

/// The command that builds a device in.
pub(super) fn build_command(feature: &str) -> String {
    format!("cargo build --release --features {feature}")
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = || DeviceError::Unknown(name.to_owned());
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        match name.split(':').collect::<Vec<_>>()[..] {
            ["flex"] => Ok(Self::Flex),
            ["tch"] => Ok(Self::Tch),
            ["tch", "cuda"] => Ok(Self::TchCuda(0)),
            ["tch", "cuda", n] => Ok(Self::TchCuda(number(n)?)),
            ["wgpu"] => Ok(Self::Wgpu(None)),
            ["wgpu", n] => Ok(Self::Wgpu(Some(number(n)?))),
            ["vulkan"] => Ok(Self::Vulkan),
            ["metal"] => Ok(Self::Metal),
            ["cuda"] => Ok(Self::Cuda(0)),
            ["cuda", n] => Ok(Self::Cuda(number(n)?)),
            ["rocm"] => Ok(Self::Rocm(0)),
            ["rocm", n] => Ok(Self::Rocm(number(n)?)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => f.pad(&format!("{}:{number}", self.kind())),
            None => f.pad(self.kind()),
        }
    }
}

/// Names with commas between them.
pub(super) fn joined(names: &[DeviceName]) -> String {
    let names: Vec<String> = names.iter().map(DeviceName::to_string).collect();
    names.join(",")
}

impl TryFrom<String> for DeviceName {
    type Error = DeviceError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
    }
}

/// The CPU.
pub fn cpu() -> Device {
    Device::flex()
}

/// Devices that were opened: a graphics adapter can be opened once in a process.
static OPEN: Mutex<Vec<(DeviceName, Device)>> = Mutex::new(Vec::new());

/// The devices that this process has opened.
pub(super) fn opened() -> Vec<DeviceName> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.iter().map(|(name, _)| *name).collect()
}

impl DeviceName {
    /// Its name without a number.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Tch => "tch",
            Self::TchCuda(_) => "tch:cuda",
            Self::Wgpu(_) => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Cuda(_) => "cuda",
            Self::Rocm(_) => "rocm",
        }
    }

    fn number(self) -> Option<usize> {
        match self {
            Self::TchCuda(number) | Self::Cuda(number) | Self::Rocm(number) => Some(number),
            Self::Wgpu(number) => number,
            Self::Flex | Self::Tch | Self::Vulkan | Self::Metal => None,
        }
    }

    /// The Cargo feature that builds it in.
    pub(super) fn feature(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Tch | Self::TchCuda(_) => "tch",
            Self::Wgpu(_) | Self::Vulkan | Self::Metal => "wgpu",
            Self::Cuda(_) => "cuda",
            Self::Rocm(_) => "rocm",
        }
    }

    /// Opens the device, and lets it compute something to see that it can.
    ///
    /// # Errors
    /// If it is not in this build, or not on this machine.
    pub fn open(self) -> Result<Device, DeviceError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, device)) = open.iter().find(|(name, _)| *name == self) {
            return Ok(device.clone());
        }
        let not_found = |reason| DeviceError::NotFound { name: self, reason };
        let opened = catch_unwind(|| {
            let device = self.find()?;
            let four = (Tensor::<1>::ones([2], &device) * 2.0).sum().into_scalar::<f32>();
            if four == 4.0 { Ok(device) } else { Err(not_found(format!("it computes 2 + 2 = {four}"))) }
        });
        let device = opened.unwrap_or_else(|panic| Err(not_found(panic_text(&*panic).to_owned())))?;
        open.push((self, device.clone()));
        Ok(device)
    }

    fn find(self) -> Result<Device, DeviceError> {
        #[cfg(any(feature = "tch", feature = "wgpu"))]
        let not_found = |reason| DeviceError::NotFound { name: self, reason };
        match self {
            Self::Flex => Ok(cpu()),
            #[cfg(feature = "tch")]
            Self::Tch | Self::TchCuda(_) => tch::find(self).map_err(not_found),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(_) | Self::Vulkan | Self::Metal => wgpu::find(self).map_err(not_found),
            #[cfg(feature = "cuda")]
            Self::Cuda(n) => Ok(Device::cuda(n)),
            #[cfg(feature = "rocm")]
            Self::Rocm(n) => Ok(Device::rocm(n)),
            #[allow(unreachable_patterns)] // in a build that has them all
            _ => Err(DeviceError::NotBuilt { name: self }),
        }
    }
}

/// libtorch leaves Burn with its next version: these are its last uses.
#[cfg(feature = "tch")]
#[allow(deprecated)]
pub(super) mod tch {
    use burn::{
        backend::{DispatchDevice, LibTorchDevice},
        tensor::{Device, DeviceType},
    };

    use super::DeviceName;

    pub fn find(name: DeviceName) -> Result<Device, String> {
        match (name, cuda().len()) {
            (DeviceName::TchCuda(n), found) if n >= found => Err(format!("libtorch finds {found} CUDA devices here")),
            (DeviceName::TchCuda(n), _) => Ok(Device::libtorch_cuda(n)),
            _ => Ok(Device::libtorch()),
        }
    }

    /// Numbers of the CUDA devices.
    pub fn cuda() -> std::ops::Range<usize> {
        let devices = Device::enumerate(DeviceType::LibTorch).into_vec();
        let is_cuda =
            |device: &&Device| matches!(device.as_dispatch(), DispatchDevice::LibTorch(LibTorchDevice::Cuda(_)));
        0..devices.iter().filter(is_cuda).count()
    }
}

#[cfg(feature = "wgpu")]
mod wgpu {
    use burn::tensor::{Device, DeviceType, wgpu::WgpuBackend};

    use super::DeviceName;

    pub fn find(name: DeviceName) -> Result<Device, String> {
        let api = match name {
            DeviceName::Wgpu(Some(number)) => {
                let found = Device::enumerate(DeviceType::Wgpu).into_vec();
                let count = found.len();
                let device = found.into_iter().nth(number);
                return device.ok_or_else(|| format!("graphics adapters found here: {count}, the first is `wgpu:0`"));
            }
            DeviceName::Vulkan => WgpuBackend::Vulkan,
            DeviceName::Metal => WgpuBackend::Metal,
            _ => WgpuBackend::Auto,
        };
        let driver = match name {
            DeviceName::Metal => "only a Mac has it",
            _ => "is a driver installed? Mesa's software renderer is enough: `mesa-vulkan-drivers` on Debian",
        };
        let options = Device::wgpu_options().graphics_api(api);
        options.init().map_err(|error| format!("{error}; {driver}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    fn names_are_read_as_they_are_written(
        #[values("flex", "tch", "tch:cuda:1", "wgpu", "wgpu:0", "vulkan", "metal", "cuda:3", "rocm:0")] name: &str,
    ) {
        assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
    }

    #[rstest]
    fn other_names_are_refused(
        #[values("", "gpu", "cuda:", "cuda:-1", "cuda:0:1", "tch:0", "wgpu:x", "FLEX")] name: &str,
    ) {
        let error = name.parse::<DeviceName>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("unknown device `{name}`; there are flex, tch")), "{error}");
    }

    #[rstest]
    #[cfg_attr(feature = "cuda", ignore = "it is in this build")]
    fn what_is_not_built_in_says_how_to_build_it() {
        let error = DeviceName::Cuda(0).open().unwrap_err().to_string();
        assert!(error.contains("device `cuda:0` is not in this build"), "{error}");
        assert!(error.contains("`cargo build --release --features cuda`"), "{error}");
    }
}
