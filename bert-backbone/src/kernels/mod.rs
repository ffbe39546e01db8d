//! Fast paths for the CPU device, with the plain composition for every other one.
//!
//! This folder is the one place below the command line that asks which device it runs on.

mod add_norm;
mod attention;
mod bottleneck;
mod dropout;
mod feed_forward;
mod filters;
mod math;
mod matrix;
mod operation;
mod rows;
#[cfg(test)]
mod tests;

pub use add_norm::add_norm;
pub use attention::attention;
pub use bottleneck::insert;
pub use dropout::{dropout, dropout_rows};
pub use feed_forward::feed_forward;
pub use filters::filter_peaks;
pub use math::knows;
pub use operation::is_fast;
pub use rows::Rows;

use burn::{backend::DispatchDevice, module::Param, nn::Linear, tensor::Device, tensor::Tensor};
use operation::Input;

/// Whether `device` is the CPU device, which has the fused operations.
fn is_flex(device: &Device) -> bool {
    matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether tensors of `device` lie in this process's own memory, so that what is made here need not be sent far.
#[cfg_attr(feature = "tch", allow(deprecated))] // libtorch leaves Burn with its next version
fn is_host(device: &Device) -> bool {
    match device.clone().inner().as_dispatch() {
        #[cfg(feature = "tch")]
        DispatchDevice::LibTorch(device) => *device == burn::backend::LibTorchDevice::Cpu,
        device => matches!(device, DispatchDevice::Flex(_)),
    }
}

/// A projection's weight and bias.
fn inputs(linear: &Linear) -> [Input; 2] {
    let bias = linear.bias.as_ref().map(Param::val);
    let none = || Tensor::zeros([linear.weight.dims()[1]], &linear.weight.device());
    [linear.weight.val().into(), bias.unwrap_or_else(none).into()]
}
