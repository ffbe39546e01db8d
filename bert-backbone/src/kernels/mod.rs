//! Fast paths for the CPU device, with the plain composition for every other one.
//!
//! This folder is the one place below the command line that asks which device it runs on.

mod dropout;

pub use dropout::dropout;

use burn::{backend::DispatchDevice, tensor::Device};

/// Whether `device` is the CPU device, whose tensors lie in this process's own memory.
fn is_flex(device: &Device) -> bool {
    matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
}
