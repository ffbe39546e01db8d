//! Optimisers: one rule for a tensor, applied to a whole model, with a memory that can be kept.

use std::{collections::BTreeMap, fmt};

use adapter_core::{Key, Kind, TensorInfo, TensorMapper, precision, rewrite};
use burn::{
    module::{Module, Param},
    tensor::{Device, FloatDType, Tensor, TensorData},
};
use serde::{Serialize, de::DeserializeOwned};

use super::StepGradients;

/// How an optimiser moves one tensor. It keeps nothing itself: what it remembers comes with every [`Update`], so that a
/// checkpoint can hold it.
pub trait Optimizer: fmt::Debug + Send + Sync {
    /// What it remembers of each trained tensor, by name. Each is as large as the tensor, and zero before the first step.
    fn memory(&self) -> &'static [&'static str];

    /// The tensor after a step.
    ///
    /// # Shapes
    /// - everything flat, in f32
    fn update(&self, update: Update<'_>) -> Tensor<1>;
}

/// One tensor in one step.
#[derive(Debug)]
pub struct Update<'a> {
    /// The step's number, from 1.
    pub step: i32,
    /// The tensor's values.
    pub value: Tensor<1>,
    /// Its gradient, clipped.
    pub gradient: Tensor<1>,
    /// What is remembered, in the order of [`Optimizer::memory`]: to be replaced by what is to be remembered.
    pub memory: &'a mut [Tensor<1>],
    /// The learning rate.
    pub rate: f64,
    /// Whether weight decay applies: to matrices, not to biases, normalisations and other vectors.
    pub decays: bool,
}

/// An optimiser that files and flags can configure: its fields are keys.
pub trait OptimizerConfig: Optimizer + Clone + Default + Serialize + DeserializeOwned + 'static {
    /// The value of the key `optimizer` that stands for it.
    const NAME: &'static str;
    /// Its keys as help shows them.
    const KEYS: &'static [Key] = &[];

    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// Which, and what is needed.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An optimiser at work on a model: its memory by tensor name. Whatever the precision of the tensors, it is in f32.
#[derive(Debug)]
pub struct ModuleOptimizer<'a> {
    optimizer: &'a dyn Optimizer,
    clip: f64,
    step: i32,
    memory: BTreeMap<String, Memory>,
}

#[derive(Debug)]
struct Memory {
    slots: Vec<Tensor<1>>,
    /// The tensor itself, where the network has it in half precision only: small changes would be lost in that.
    exact: Option<Tensor<1>>,
}

/// What an optimiser remembers, off the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerState {
    /// Steps taken.
    pub step: i32,
    /// What is remembered of each tensor, in the order of [`Optimizer::memory`].
    pub memory: BTreeMap<String, Vec<Vec<f32>>>,
    /// The exact values of tensors that the network has in half precision only.
    pub exact: BTreeMap<String, Vec<f32>>,
}

impl<'a> ModuleOptimizer<'a> {
    /// An optimiser before its first step; `clip` is the largest norm of all gradients together, 0 clips nothing.
    pub fn new(optimizer: &'a dyn Optimizer, clip: f64) -> Self {
        Self { optimizer, clip, step: 0, memory: BTreeMap::new() }
    }

    /// What it remembers.
    pub fn state(&self) -> OptimizerState {
        let values = |tensor: &Tensor<1>| tensor.to_data().iter::<f32>().collect::<Vec<f32>>();
        let remembered = self.memory.iter().filter(|(_, m)| !m.slots.is_empty());
        let memory = remembered.map(|(name, m)| (name.clone(), m.slots.iter().map(values).collect()));
        let exact = self.memory.iter().filter_map(|(name, m)| Some((name.clone(), values(m.exact.as_ref()?))));
        OptimizerState { step: self.step, memory: memory.collect(), exact: exact.collect() }
    }

    /// The same optimiser as it was when `state` was taken.
    pub fn restore(self, mut state: OptimizerState, device: &Device) -> Self {
        let tensor = |values: Vec<f32>| {
            let elements = values.len();
            Tensor::from_data(TensorData::new(values, [elements]), device)
        };
        // An optimiser that remembers nothing may still have exact values.
        let names: Vec<String> = state.exact.keys().filter(|name| !state.memory.contains_key(*name)).cloned().collect();
        state.memory.extend(names.into_iter().map(|name| (name, Vec::new())));
        let memory = state.memory.into_iter().map(|(name, slots)| {
            let exact = state.exact.remove(&name).map(tensor);
            (name, Memory { slots: slots.into_iter().map(tensor).collect(), exact })
        });
        Self { step: state.step, memory: memory.collect(), ..self }
    }

    /// Names of the tensors that have a memory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.memory.keys().map(String::as_str)
    }

    /// Moves every tensor of `module` that has a gradient.
    pub fn update<M: Module>(&mut self, module: M, gradients: &StepGradients, rate: f64) -> M {
        self.step += 1;
        let scale = if self.clip > 0.0 { (self.clip / (gradients.norm() + 1e-6)).min(1.0) } else { 1.0 };
        rewrite(module, &mut Move { optimizer: self, gradients, rate, scale })
    }
}

struct Move<'a, 'o> {
    optimizer: &'a mut ModuleOptimizer<'o>,
    gradients: &'a StepGradients,
    rate: f64,
    scale: f64,
}

impl TensorMapper for Move<'_, '_> {
    fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.get(&tensor.name) else { return param };
        let ModuleOptimizer { optimizer, step, memory, .. } = self.optimizer;
        let elements = tensor.elements();
        let gradient = gradient.reshape([elements]) * self.scale;
        let Memory { mut slots, exact } = memory.remove(&tensor.name).unwrap_or_else(|| Memory {
            slots: optimizer.memory().iter().map(|_| gradient.zeros_like()).collect(),
            exact: None,
        });
        let decays = Kind::of(&tensor) == Kind::Weight;
        let mut kept = None;
        let param = param.map(|value| {
            let value = value.inner();
            let (shape, dtype) = (value.dims(), precision(&value));
            let value = exact.clone().unwrap_or_else(|| value.reshape([elements]).cast(FloatDType::F32));
            let moved = optimizer.update(Update {
                step: *step,
                value,
                gradient: gradient.clone(),
                memory: &mut slots,
                rate: self.rate,
                decays,
            });
            kept = (dtype != FloatDType::F32).then(|| moved.clone());
            Tensor::from_inner(moved.reshape(shape).cast(dtype)).require_grad()
        });
        memory.insert(tensor.name, Memory { slots, exact: kept });
        param
    }
}
