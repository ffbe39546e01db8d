//! The gradients of a step: of one batch, of its parts, or of parts on several devices.

use std::collections::BTreeMap;

use adapter_core::{Insertion, TensorInfo, TensorVisitor, walk};
use burn::{
    module::{Module, Param},
    tensor::{Device, FloatDType, Gradients, Tensor},
};
use rayon::prelude::*;
use tasks::{NumberedBatch, TaskModel, TrainingSet};

use super::replicas::Replicas;

/// The gradients of a step by tensor name, summed over the parts of its batch; each as `[rows, width]`.
#[derive(Clone, Debug, Default)]
pub struct StepGradients {
    by_name: BTreeMap<String, Tensor<2>>,
    /// In the module's order.
    names: Vec<String>,
}

impl StepGradients {
    /// The gradients of a batch that was not divided.
    pub fn of<M: Module>(module: &M, gradients: &Gradients) -> Self {
        let mut sum = Self::default();
        sum.add(module, gradients, 1.0);
        sum
    }

    /// Adds the gradients of a part of the batch, multiplied by its share.
    pub fn add<M: Module>(&mut self, module: &M, gradients: &Gradients, share: f64) {
        walk(module, &mut Add { sum: self, gradients, share });
    }

    /// The gradient of a tensor, if it has one.
    pub(super) fn get(&self, name: &str) -> Option<Tensor<2>> {
        self.by_name.get(name).cloned()
    }

    /// Adds gradients that were computed on another device to those on `device`.
    fn merge(&mut self, mut other: Self, device: &Device) {
        for name in other.names {
            let Some(gradient) = other.by_name.remove(&name) else { continue };
            self.include(name, gradient.to_device(device));
        }
    }

    fn include(&mut self, name: String, mut gradient: Tensor<2>) {
        match self.by_name.remove(&name) {
            Some(sum) => gradient = sum + gradient,
            None => self.names.push(name.clone()),
        }
        self.by_name.insert(name, gradient);
    }

    /// Whether all of them are numbers.
    pub fn are_finite(&self) -> bool {
        self.norm().is_finite()
    }

    /// The norm of all gradients together. Rows are summed on the device, their sums on the host in the module's order,
    /// so that the result does not depend on threads.
    pub fn norm(&self) -> f64 {
        let square = |name: &String| {
            let rows = self.by_name[name].clone().powf_scalar(2.0).sum_dim(1);
            rows.into_data().iter::<f32>().map(f64::from).sum::<f64>()
        };
        self.names.iter().map(square).sum::<f64>().sqrt()
    }
}

struct Add<'a> {
    sum: &'a mut StepGradients,
    gradients: &'a Gradients,
    share: f64,
}

impl TensorVisitor for Add<'_> {
    fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
        let Some(gradient) = param.val().grad(self.gradients) else { return };
        let width = gradient.dims()[D - 1];
        let mut gradient = gradient.cast(FloatDType::F32).reshape([tensor.elements() / width, width]);
        if self.share != 1.0 {
            gradient = gradient * self.share;
        }
        self.sum.include(tensor.name, gradient);
    }
}

/// The examples of one step, in as many batches as it is divided into.
pub(super) struct StepBatches {
    pub batches: Vec<NumberedBatch>,
    /// Examples of all batches together.
    pub examples: usize,
    /// Batches that a device takes.
    pub per_device: usize,
}

impl StepBatches {
    /// Tokens of all batches together.
    pub fn tokens(&self) -> usize {
        self.batches.iter().map(|batch| batch.packed.tokens()).sum()
    }

    /// The examples of the first batch.
    pub fn first_part(&self) -> Vec<usize> {
        self.batches.first().map(|batch| batch.examples.clone()).unwrap_or_default()
    }

    /// The mean loss and its gradients, computed by `model` and its replicas; the sum is on `device`. The loss is multiplied
    /// by `scale` on its way.
    pub fn gradients<I: Insertion>(
        mut self,
        model: &TaskModel<I>,
        replicas: &Replicas<I>,
        set: &TrainingSet,
        scale: f64,
        device: &Device,
    ) -> (f64, StepGradients) {
        let examples = self.examples as f64;
        let compute = |model: &TaskModel<I>, batches: Vec<NumberedBatch>| {
            let (mut loss, mut gradients) = (0.0, StepGradients::default());
            for batch in batches {
                let share = batch.examples.len() as f64 / examples;
                let mean = set.loss(set.forward(model, &batch), &batch);
                loss += share * f64::from(mean.clone().into_scalar::<f32>());
                let mean = if scale == 1.0 { mean } else { mean * scale };
                gradients.add(model, &mean.backward(), share / scale);
            }
            (loss, gradients)
        };
        if replicas.copies().next().is_none() {
            return compute(model, self.batches);
        }
        let mut take = || self.batches.drain(..self.per_device.min(self.batches.len())).collect::<Vec<_>>();
        let mut work = vec![(model.clone(), take())];
        for (device, copy) in replicas.copies() {
            let mine = take().into_iter().map(|batch| batch.to_device(device));
            work.push((copy.clone(), mine.collect()));
        }
        let done: Vec<_> = work.into_par_iter().map(|(model, batches)| compute(&model, batches)).collect();
        // In the order of the devices: the sum does not depend on who was first.
        done.into_iter().fold((0.0, StepGradients::default()), |(loss, mut sum), (part, gradients)| {
            sum.merge(gradients, device);
            (loss + part, sum)
        })
    }
}
