//! One model on several devices.
//!
//! Every device has a copy of w for good; v, which is small, is sent to it after each step. (burn-train's own multi-device
//! step sends the whole network to every device at every step.)

use std::collections::BTreeMap;

use adapter_core::{Insertion, TensorInfo, TensorMapper, TensorVisitor, rewrite, walk};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use tasks::TaskModel;

/// Copies of a model on further devices.
pub struct Replicas<I: Insertion> {
    copies: Vec<(Device, TaskModel<I>)>,
}

impl<I: Insertion> Replicas<I> {
    /// Copies `model` to `devices`.
    pub fn new(model: &TaskModel<I>, devices: &[Device]) -> Self {
        let copy = |device: &Device| (device.clone(), model.clone().fork(device));
        Self { copies: devices.iter().map(copy).collect() }
    }

    /// The copies, each with its device.
    pub fn copies(&self) -> impl Iterator<Item = &(Device, TaskModel<I>)> {
        self.copies.iter()
    }

    /// Gives the copies the trained tensors of `model`.
    pub fn follow(&mut self, model: &TaskModel<I>) {
        if self.copies.is_empty() {
            return;
        }
        let mut trained = Trained::default();
        walk(model, &mut trained);
        for (device, copy) in &mut self.copies {
            *copy = rewrite(copy.clone(), &mut Follow { trained: &trained, device });
        }
    }
}

/// Trained tensors by name, flat.
#[derive(Default)]
struct Trained(BTreeMap<String, Tensor<1>>);

impl TensorVisitor for Trained {
    fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            let elements = tensor.elements();
            self.0.insert(tensor.name, param.val().inner().reshape([elements]));
        }
    }
}

struct Follow<'a> {
    trained: &'a Trained,
    device: &'a Device,
}

impl TensorMapper for Follow<'_> {
    fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(value) = self.trained.0.get(&tensor.name) else { return param };
        let value = value.clone().to_device(&self.device.clone().inner());
        param.map(|old| Tensor::from_inner(value.clone().reshape(old.dims())).require_grad())
    }
}
