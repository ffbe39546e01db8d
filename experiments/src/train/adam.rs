//! Adam, as the paper and as the authors' released code have it.

use adapter_core::Key;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Optimizer, OptimizerConfig, Update};

/// Adam. The default is PyTorch's, which the paper's profile uses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// Decay of the mean gradient.
    pub beta1: f64,
    /// Decay of the mean squared gradient.
    pub beta2: f64,
    /// Added to the divisor.
    pub epsilon: f64,
    /// Whether the means are corrected for their start at 0.
    pub bias_correction: bool,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, bias_correction: true, weight_decay: 0.0 }
    }
}

impl OptimizerConfig for Adam {
    const NAME: &'static str = "adam";
    const KEYS: &'static [Key] = &[
        Key::new("beta1", "BETA", "Decay of Adam's mean gradient"),
        Key::new("beta2", "BETA", "Decay of Adam's mean squared gradient"),
        Key::new("epsilon", "EPSILON", "Added to Adam's divisor"),
        Key::new("bias_correction", "BOOL", "Whether Adam's means are corrected for their start at 0"),
        Key::new("weight_decay", "DECAY", "Decoupled weight decay of matrices"),
    ];

    fn check(&self) -> Result<(), String> {
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err(format!("{name} {beta}: a number from 0 up to, but not including, 1 is needed"));
            }
        }
        if self.epsilon <= 0.0 || self.epsilon.is_nan() {
            return Err(format!("epsilon {}: a positive number is needed", self.epsilon));
        }
        if self.weight_decay < 0.0 || !self.weight_decay.is_finite() {
            return Err(format!("weight_decay {}: a number from 0 up is needed", self.weight_decay));
        }
        Ok(())
    }
}

impl Optimizer for Adam {
    fn memory(&self) -> &'static [&'static str] {
        &["mean", "square"]
    }

    fn update(&self, update: Update<'_>) -> Tensor<1> {
        let Update { step, value, gradient, memory, rate, decays } = update;
        let Self { beta1, beta2, epsilon, bias_correction, weight_decay } = *self;
        let [mean, square] = memory else { unreachable!("Adam remembers two tensors") };
        *mean = mean.clone() * beta1 + gradient.clone() * (1.0 - beta1);
        *square = square.clone() * beta2 + gradient.powf_scalar(2.0) * (1.0 - beta2);
        let (correct_mean, correct_square) =
            if bias_correction { (1.0 - beta1.powi(step), 1.0 - beta2.powi(step)) } else { (1.0, 1.0) };
        let divisor = square.clone().sqrt() / correct_square.sqrt() + epsilon;
        let mut change = mean.clone() / divisor / correct_mean;
        if weight_decay > 0.0 && decays {
            change = change + value.clone() * weight_decay;
        }
        value - change * rate
    }
}
