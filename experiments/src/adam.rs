//! Adam with its state by tensor name.

use std::collections::BTreeMap;

use adapter_core::{TensorInfo, TensorMapper, TensorVisitor, precision, rewrite, walk};
use burn::{
    module::{Module, Param},
    tensor::{Device, FloatDType, Gradients, Tensor, TensorData},
};
use serde::{Deserialize, Serialize};

/// How Adam works.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamConfig {
    /// Decay of the mean gradient.
    pub beta1: f64,
    /// Decay of the mean squared gradient.
    pub beta2: f64,
    /// Added to the divisor.
    pub epsilon: f64,
    /// Whether the means are corrected for their start at 0.
    pub bias_correction: bool,
    /// Decoupled weight decay, not on biases and normalisations.
    pub weight_decay: f64,
    /// The largest norm of all gradients together; 0 clips nothing.
    pub clip: f64,
}

/// The state of Adam: for each trained tensor the two means, flat. Whatever the precision of the tensors, it is in f32.
#[derive(Clone, Debug)]
pub struct Adam {
    config: AdamConfig,
    step: i32,
    moments: BTreeMap<String, Moments>,
}

/// What Adam remembers, off the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdamState {
    /// Steps taken.
    pub step: i32,
    /// Mean and mean square of the gradients, by tensor.
    pub moments: BTreeMap<String, [Vec<f32>; 2]>,
    /// The exact values of tensors that the network has in half precision only.
    pub exact: BTreeMap<String, Vec<f32>>,
}

#[derive(Clone, Debug)]
struct Moments {
    mean: Tensor<1>,
    square: Tensor<1>,
    /// The tensor itself, where the network has it in half precision only: small changes would be lost in that.
    exact: Option<Tensor<1>>,
}

impl Adam {
    /// Adam before its first step.
    pub fn new(config: AdamConfig) -> Self {
        Self { config, step: 0, moments: BTreeMap::new() }
    }

    /// The state: steps taken, and for each tensor by name its two means.
    pub fn state(&self) -> AdamState {
        let values = |tensor: &Tensor<1>| tensor.to_data().iter::<f32>().collect();
        let moments = self.moments.iter().map(|(name, m)| (name.clone(), [values(&m.mean), values(&m.square)]));
        let exact = self.moments.iter().filter_map(|(name, m)| Some((name.clone(), values(m.exact.as_ref()?))));
        AdamState { step: self.step, moments: moments.collect(), exact: exact.collect() }
    }

    /// Adam as it was when `state` was taken.
    pub fn restore(config: AdamConfig, mut state: AdamState, device: &Device) -> Self {
        let tensor = |values: Vec<f32>| {
            let elements = values.len();
            Tensor::from_data(TensorData::new(values, [elements]), device)
        };
        let moments = state.moments.into_iter().map(|(name, [mean, square])| {
            let exact = state.exact.remove(&name).map(tensor);
            (name, Moments { mean: tensor(mean), square: tensor(square), exact })
        });
        Self { config, step: state.step, moments: moments.collect() }
    }

    /// Names of the tensors that have a state.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.moments.keys().map(String::as_str)
    }

    /// Moves every tensor of `module` that has a gradient.
    pub fn update<M: Module>(&mut self, module: M, gradients: &StepGradients, rate: f64) -> M {
        self.step += 1;
        let scale = match self.config.clip {
            clip if clip > 0.0 => (clip / (gradients.norm() + 1e-6)).min(1.0),
            _ => 1.0,
        };
        rewrite(module, &mut Update { adam: self, gradients, rate, scale })
    }
}

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

    /// Adds gradients that were computed on another device to those on `device`.
    pub fn merge(&mut self, mut other: Self, device: &Device) {
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
    fn norm(&self) -> f64 {
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

struct Update<'a> {
    adam: &'a mut Adam,
    gradients: &'a StepGradients,
    rate: f64,
    scale: f64,
}

impl TensorMapper for Update<'_> {
    fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.by_name.get(&tensor.name).cloned() else { return param };
        let AdamConfig { beta1, beta2, epsilon, bias_correction, weight_decay, .. } = self.adam.config;
        let elements = tensor.elements();
        let gradient = gradient.reshape([elements]) * self.scale;
        let (mean, square, exact) = match self.adam.moments.remove(&tensor.name) {
            Some(Moments { mean, square, exact }) => (mean, square, exact),
            None => (gradient.zeros_like(), gradient.zeros_like(), None),
        };
        let mean = mean * beta1 + gradient.clone() * (1.0 - beta1);
        let square = square * beta2 + gradient.powf_scalar(2.0) * (1.0 - beta2);
        let (correct_mean, correct_square) = match bias_correction {
            true => (1.0 - beta1.powi(self.adam.step), 1.0 - beta2.powi(self.adam.step)),
            false => (1.0, 1.0),
        };
        let divisor = square.clone().sqrt() / correct_square.sqrt() + epsilon;
        let mut change = mean.clone() / divisor / correct_mean;
        let mut moments = Moments { mean, square, exact: None };
        let param = param.map(|value| {
            let value = value.inner();
            let (shape, dtype) = (value.dims(), precision(&value));
            let flat = exact.clone().unwrap_or_else(|| value.reshape([elements]).cast(FloatDType::F32));
            if weight_decay > 0.0 && decays(&tensor.name) {
                change = change.clone() + flat.clone() * weight_decay;
            }
            let moved = flat - change.clone() * self.rate;
            moments.exact = (dtype != FloatDType::F32).then(|| moved.clone());
            Tensor::from_inner(moved.reshape(shape).cast(dtype)).require_grad()
        });
        self.adam.moments.insert(tensor.name, moments);
        param
    }
}

/// Whether weight decay applies: not to biases and normalisations.
fn decays(name: &str) -> bool {
    let normalisation = ["LayerNorm", "layer_norm", "batch_norm"].iter().any(|norm| name.contains(norm));
    !normalisation && !name.ends_with("bias")
}
