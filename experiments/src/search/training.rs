//! How a trial's classifier is trained: Adagrad on batches of texts, in an order that follows from the seed.

use std::time::Instant;

use adapter_core::DropoutKey;
use anyhow::Result;
use burn::tensor::{Device, Tensor};
use tasks::{
    loss,
    shuffle::{Purpose, permutation},
};

use super::{
    features::{Batch, Text},
    network::Classifier,
    space::TrialConfig,
};
use crate::train::{ModuleOptimizer, Optimizer, RunError, StepGradients, Update};

/// Examples of a step.
pub const BATCH: usize = 128;
/// Points of a loss curve.
const CURVE: usize = 50;

/// Adagrad with a penalty on large weights.
#[derive(Clone, Copy, Debug)]
struct Adagrad {
    l2: f64,
}

impl Optimizer for Adagrad {
    fn memory(&self) -> &'static [&'static str] {
        &["squares"]
    }

    fn update(&self, update: Update<'_>) -> Tensor<1> {
        let Update { value, gradient, memory, rate, decays, .. } = update;
        let gradient = if decays && self.l2 > 0.0 { gradient + value.clone() * self.l2 } else { gradient };
        let [squares] = memory else { unreachable!("Adagrad remembers one tensor") };
        *squares = squares.clone() + gradient.clone() * gradient.clone();
        // TensorFlow's first value of the sum.
        value - gradient * rate / (squares.clone() + 0.1).sqrt()
    }
}

/// A classifier after its training.
pub struct Fitted {
    pub model: Classifier,
    pub steps: usize,
    pub diverged: bool,
    pub mean_loss: f64,
    pub loss_curve: Vec<(usize, f64)>,
    pub words: usize,
    /// Seconds of a step, but for the first: it also pays for what is made once.
    pub step_seconds: f64,
}

/// The training loop. Order, initial values and dropout are functions of the seed and the step. `may_go_on` is asked before
/// each step.
///
/// # Errors
/// If it may not go on, or a choice makes no sense.
pub fn fit(
    mut model: Classifier,
    config: &TrialConfig,
    texts: &[Text],
    classes: &[usize],
    device: &Device,
    may_go_on: impl Fn(usize) -> Result<(), RunError>,
) -> Result<Fitted, RunError> {
    let device = device.clone().autodiff();
    let (deep_rule, wide_rule) = (Adagrad { l2: config.get("l2")? }, Adagrad { l2: config.get("wide_l2")? });
    let mut deep_optimizer = ModuleOptimizer::new(&deep_rule, 0.0);
    let mut wide_optimizer = ModuleOptimizer::new(&wide_rule, 0.0);
    let (deep_rate, wide_rate): (f64, f64) = (config.get("lr")?, config.get("wide_lr")?);
    let (steps, mut order) = (config.samples.div_ceil(BATCH), Order::new(texts.len(), config.seed));
    let curve_every = steps.div_ceil(CURVE);
    let (mut loss_sum, mut curve_sum, mut loss_curve, mut words) = (0.0, 0.0, Vec::new(), 0);
    let mut after_first = Instant::now();
    for step in 0..steps {
        may_go_on(step)?;
        let chosen: Vec<usize> = (step * BATCH..(step + 1) * BATCH).map(|place| order.example(place)).collect();
        let batch: Vec<&Text> = chosen.iter().map(|&example| &texts[example]).collect();
        words += batch.iter().map(|text| text.words.len()).sum::<usize>();
        let right: Vec<usize> = chosen.iter().map(|&example| classes[example]).collect();
        let batch = Batch::new(&batch, &device);
        let key = DropoutKey { seed: config.seed, step: step as u64 };
        let loss = loss::cross_entropy(model.forward(&batch, Some(key))?, &right);
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            let (mean_loss, step_seconds) = (value, after_first.elapsed().as_secs_f64() / step.max(1) as f64);
            return Ok(Fitted { model, steps: step, diverged: true, mean_loss, loss_curve, words, step_seconds });
        }
        (loss_sum, curve_sum) = (loss_sum + value, curve_sum + value);
        if (step + 1).is_multiple_of(curve_every) {
            loss_curve.push((step + 1, curve_sum / curve_every as f64));
            curve_sum = 0.0;
        }
        // Of the sum over the batch: with the mean, Adagrad's sums would stay below their first value.
        let gradients = (loss * BATCH as f64).backward();
        model.deep = model.deep.map(|deep| {
            let gradients = StepGradients::of(&deep, &gradients);
            deep_optimizer.update(deep, &gradients, deep_rate)
        });
        model.wide = model.wide.map(|wide| {
            let gradients = StepGradients::of(&wide, &gradients);
            wide_optimizer.update(wide, &gradients, wide_rate)
        });
        if step == 0 {
            after_first = Instant::now();
        }
    }
    let step_seconds = after_first.elapsed().as_secs_f64() / (steps.max(2) - 1) as f64;
    let mean_loss = loss_sum / steps as f64;
    Ok(Fitted { model, steps, diverged: false, mean_loss, loss_curve, words, step_seconds })
}

/// The order of training examples, epoch after epoch.
struct Order {
    seed: u64,
    epoch: u64,
    order: Vec<usize>,
}

impl Order {
    fn new(examples: usize, seed: u64) -> Self {
        Self { seed, epoch: 0, order: permutation(examples, seed, Purpose::Epoch(0)) }
    }

    /// The example at a place of all epochs together.
    fn example(&mut self, place: usize) -> usize {
        let (examples, epoch) = (self.order.len(), (place / self.order.len()) as u64);
        if epoch != self.epoch {
            *self = Self { epoch, order: permutation(examples, self.seed, Purpose::Epoch(epoch)), ..*self };
        }
        self.order[place % examples]
    }
}
