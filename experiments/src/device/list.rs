//! Every kind of device, and what this machine has of each.

use std::panic::catch_unwind;

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
use burn::tensor::{Device, DeviceType};
use serde::Serialize;

#[cfg(feature = "tch")]
use super::name::tch;
use super::{DeviceName, memory, name::build_command, panic_text};

/// A kind of device, for a list of them all.
#[derive(Debug, Serialize)]
pub struct DeviceKind {
    /// What it is called, `N` being a number.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Whether this build has it.
    pub built: bool,
    /// The command that builds it in, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Those on this machine, by name.
    pub found: Vec<FoundDevice>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A device on this machine.
#[derive(Debug, Serialize)]
pub struct FoundDevice {
    /// What to call it.
    pub name: DeviceName,
    /// What it calls itself.
    pub adapter: String,
    /// Its memory in bytes, where it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// All kinds of devices, with those on this machine.
pub fn device_kinds() -> Vec<DeviceKind> {
    let kinds = [
        ("flex", "the CPU, with fused operations", DeviceName::Flex),
        ("tch", "libtorch on the CPU", DeviceName::Tch),
        ("tch:cuda:N", "libtorch on an NVIDIA GPU", DeviceName::TchCuda(0)),
        ("wgpu:N", "a GPU through Vulkan, Metal or DirectX", DeviceName::Wgpu(None)),
        ("cuda:N", "an NVIDIA GPU", DeviceName::Cuda(0)),
        ("rocm:N", "an AMD GPU", DeviceName::Rocm(0)),
    ];
    let kind = |(name, what, first): (_, _, DeviceName)| {
        let built = first.is_built();
        let (found, problem) = match catch_unwind(|| first.found()) {
            Ok(found) if found.is_empty() && built => (found, Some("no device or no driver was found".to_owned())),
            Ok(found) => (found, None),
            Err(panic) => (Vec::new(), Some(panic_text(&*panic).to_owned())),
        };
        let build = (!built).then(|| build_command(first.feature()));
        DeviceKind { name, what, built, build, found, problem }
    };
    kinds.into_iter().map(kind).collect()
}

impl DeviceName {
    fn is_built(self) -> bool {
        let features = [
            ("flex", true),
            ("tch", cfg!(feature = "tch")),
            ("wgpu", cfg!(feature = "wgpu")),
            ("cuda", cfg!(feature = "cuda")),
            ("rocm", cfg!(feature = "rocm")),
        ];
        features.contains(&(self.feature(), true))
    }

    /// Those of its kind on this machine; nothing, if this build does not have it.
    fn found(self) -> Vec<FoundDevice> {
        match self {
            Self::Flex => vec![found_cpu(self)],
            #[cfg(feature = "tch")]
            Self::Tch => vec![found_cpu(self)],
            #[cfg(feature = "tch")]
            Self::TchCuda(_) => tch::cuda().map(|n| found(Self::TchCuda(n), "CUDA".to_owned())).collect(),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(_) => enumerated(DeviceType::Wgpu, |n| Self::Wgpu(Some(n))),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => enumerated(DeviceType::Cuda, Self::Cuda),
            #[cfg(feature = "rocm")]
            Self::Rocm(_) => enumerated(DeviceType::Rocm, Self::Rocm),
            _ => Vec::new(),
        }
    }
}

fn found_cpu(name: DeviceName) -> FoundDevice {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    FoundDevice { memory_bytes: memory::total(), ..found(name, format!("CPU with {threads} threads")) }
}

fn found(name: DeviceName, adapter: String) -> FoundDevice {
    FoundDevice { name, adapter, memory_bytes: None }
}

/// What Burn finds of a kind.
#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
fn enumerated(kind: DeviceType, name: fn(usize) -> DeviceName) -> Vec<FoundDevice> {
    let adapter = |device: &Device| device.identity().map_or("unknown".to_owned(), |identity| identity.name);
    let devices = Device::enumerate(kind).into_vec();
    devices.iter().enumerate().map(|(number, device)| found(name(number), adapter(device))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there() {
        DeviceName::Flex.open().unwrap();
        let kinds = device_kinds();
        assert!(kinds[0].built && kinds[0].found.len() == 1);
        assert!(kinds.iter().all(|kind| kind.built == kind.build.is_none()));
    }
}
