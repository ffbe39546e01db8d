//! Whether two devices compute the same: one tuned model and one batch on each, compared number by number.

use std::sync::Arc;

use adapter_core::Init;
use anyhow::Result;
use bert_backbone::{Bert, BertConfig};
use burn::{module::Module, tensor::Device};
use serde::Serialize;
use tasks::{Head, HeadKind};

use crate::{
    lab::{AnyMethod, Parts, Traces},
    train::Adam,
};

/// What `device` computes of `bert`, which is on it, tuned by `method`: new tensors are the same on every device.
///
/// # Errors
/// If the method or the head does not fit the network.
pub fn trace(
    method: &dyn AnyMethod,
    head: impl Into<Arc<dyn HeadKind>>,
    bert: Bert,
    config: &BertConfig,
    device: &Device,
) -> Result<Traces> {
    let (init, training) = (Init::new(0), device.clone().autodiff());
    let head = Head::new(&config.shape(), Traces::CLASSES, head, init, &training);
    method.build(bert.train(), head, init, &training)?.trace(config, &Adam::default(), device)
}

/// How far two devices may be apart.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tolerance {
    /// Of a layer's output: the largest difference.
    pub forward: f64,
    /// Of a gradient: the largest difference, relative to the tensor's largest value. The same for losses.
    pub gradient: f64,
    /// Of a trained tensor after some steps: the norm of the difference, relative to that of the tensor. Adam turns tiny
    /// gradients into steps as large as any other, with whatever sign they have.
    pub trained: f64,
}

/// How far two devices are apart in a part of the network, at most.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Deviation {
    /// The part.
    pub part: String,
    /// Largest difference of its output.
    pub forward_absolute: f64,
    /// The same, relative to the largest output.
    pub forward_relative: f64,
    /// Largest difference of a gradient.
    pub gradient_absolute: f64,
    /// Largest difference of a gradient, relative to the largest of its tensor.
    pub gradient_relative: f64,
    /// The tensor whose gradient it is.
    pub gradient_of: String,
    /// Norm of the difference of a trained tensor after the steps, relative to that of the tensor.
    pub trained_relative: f64,
}

/// How far a device is from another.
#[derive(Debug, Serialize)]
pub struct Parity {
    /// From the bottom of the network to its top.
    pub parts: Vec<Deviation>,
    /// The loss on the other device, before each step and after the last.
    pub losses: Vec<f64>,
    /// Largest difference of these, relative to the loss.
    pub loss_relative: f64,
    /// Whether dropout drops what the host would, to the bit.
    pub dropout_equal: bool,
    /// Whether nothing passes the tolerance.
    pub within: bool,
}

/// Compares what a device computed with what the reference did.
pub fn parity(reference: &Traces, other: &Traces, tolerance: Tolerance) -> Parity {
    let parts: Vec<Deviation> = reference.forward.keys().map(|part| deviation(part, reference, other)).collect();
    let losses = reference.losses.iter().zip(&other.losses);
    let loss_relative = losses.map(|(a, b)| (a - b).abs() / a.abs()).fold(0.0, largest);
    let close = |part: &Deviation| {
        part.forward_absolute <= tolerance.forward
            && part.gradient_relative <= tolerance.gradient
            && part.trained_relative <= tolerance.trained
    };
    let within = parts.iter().all(close) && loss_relative <= tolerance.gradient && other.dropout;
    Parity { parts, losses: other.losses.clone(), loss_relative, dropout_equal: other.dropout, within }
}

/// A gradient below this share of the largest of its part is what is left of sums that should vanish: the bias of attention's keys has
/// none but that, for a softmax does not see what is added to all its scores.
const NOISE: f64 = 1e-4;

fn deviation(part: &str, reference: &Traces, other: &Traces) -> Deviation {
    let mut deviation = Deviation { part: part.to_owned(), ..Deviation::default() };
    let gradients = reference.gradients.get(part).map(Vec::as_slice).unwrap_or_default();
    let steepest = gradients.iter().map(|(_, values)| most(values)).fold(0.0, largest);
    let is_noise = |own: f64| own > 0.0 && own < NOISE * steepest;
    for (_, a, b) in pairs(&reference.forward, &other.forward, part) {
        deviation.forward_absolute = apart(a, b);
        deviation.forward_relative = apart(a, b) / most(a);
    }
    for (name, a, b) in pairs(&reference.gradients, &other.gradients, part) {
        let difference = apart(a, b);
        deviation.gradient_absolute = largest(deviation.gradient_absolute, difference);
        let scale = if is_noise(most(a)) { steepest } else { most(a) };
        // Where nothing flows yet, as through half of LoRA, equal is equal.
        let relative = if difference == 0.0 { 0.0 } else { difference / scale };
        if deviation.gradient_of.is_empty() || relative > deviation.gradient_relative || relative.is_nan() {
            (deviation.gradient_relative, deviation.gradient_of) = (relative, name.to_owned());
        }
    }
    // Adam makes steps of any gradient, also of noise: tensors with nothing else may go anywhere.
    let moves = |name: &str| gradients.iter().any(|(known, values)| known == name && !is_noise(most(values)));
    for (_, a, b) in pairs(&reference.trained, &other.trained, part).filter(|(name, ..)| moves(name)) {
        let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
        let difference = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
        let relative = if a.len() == b.len() { difference } else { f64::NAN };
        let relative = relative / square(&mut a.iter().map(|&a| f64::from(a)));
        deviation.trained_relative = largest(deviation.trained_relative, relative);
    }
    deviation
}

/// The tensors of a part on both devices; nothing, where the second has none.
fn pairs<'a>(a: &'a Parts, b: &'a Parts, part: &str) -> impl Iterator<Item = (&'a str, &'a [f32], &'a [f32])> {
    let of = |parts: &'a Parts| parts.get(part).map(Vec::as_slice).unwrap_or_default();
    let (a, b) = (of(a), of(b));
    a.iter().map(move |(name, a)| {
        let b = b.iter().find(|(other, _)| other == name).map(|(_, b)| b.as_slice());
        (name.as_str(), a.as_slice(), b.unwrap_or_default())
    })
}

fn apart(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return f64::NAN;
    }
    a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, largest)
}

fn most(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(value.abs())).fold(0.0, largest)
}

/// The larger of both; something that is not a number is larger than all numbers.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tasks::HeadInput;

    use super::*;

    const TOLERANCE: Tolerance = Tolerance { forward: 1e-4, gradient: 1e-3, trained: 1e-2 };

    fn traces() -> Traces {
        traces_of("adapters")
    }

    fn traces_of(method: &str) -> Traces {
        let (config, device) = (BertConfig { vocab_size: 50, ..BertConfig::new(16, 2, 2) }, Device::flex());
        let method = crate::Lab::paper().find_method(method).unwrap().configure(Default::default()).unwrap();
        trace(&*method, HeadInput::Cls, Bert::random(&config, Init::new(0), &device).unwrap(), &config, &device)
            .unwrap()
    }

    #[test]
    fn a_device_is_equal_to_itself() {
        let parity = parity(&traces(), &traces(), TOLERANCE);
        assert!(parity.within && parity.dropout_equal && parity.loss_relative == 0.0);
        let parts: Vec<&str> = parity.parts.iter().map(|part| part.part.as_str()).collect();
        assert_eq!(parts, ["embeddings", "layer  0", "layer  1", "the head"]);
        assert!(parity.parts.iter().all(|part| part.forward_absolute == 0.0 && !part.gradient_of.is_empty()));
        assert!(parity.losses.first() > parity.losses.last(), "it learns");
    }

    /// Half of LoRA gets no gradient at first, and biases of keys never do.
    #[test]
    fn what_gets_no_gradient_is_equal_and_what_gets_only_noise_may_differ() {
        let lora = parity(&traces_of("lora"), &traces_of("lora"), TOLERANCE);
        assert!(lora.within && lora.parts.iter().all(|part| part.gradient_relative == 0.0));
        let (reference, mut other) = (traces_of("bias"), traces_of("bias"));
        let is_key = |name: &str| name.ends_with("layer.0.attention.self.key.bias");
        let of = |parts: &mut Parts, change: &dyn Fn(f32) -> f32| {
            let (_, values) = parts.get_mut("layer  0").unwrap().iter_mut().find(|(name, _)| is_key(name)).unwrap();
            values.iter_mut().for_each(|value| *value = change(*value));
        };
        of(&mut other.gradients, &|value| -value);
        of(&mut other.trained, &|value| -value);
        assert!(parity(&reference, &other, TOLERANCE).within);
        of(&mut other.gradients, &|value| value + 1e-2);
        assert!(!parity(&reference, &other, TOLERANCE).within, "a gradient where there is none");
    }

    #[rstest]
    #[case::forward(|traces: &mut Traces| traces.forward.get_mut("layer  1").unwrap()[0].1[3] += 2e-4)]
    #[case::gradient(|traces: &mut Traces| traces.gradients.get_mut("layer  0").unwrap()[2].1[0] += 1.0)]
    #[case::missing(|traces: &mut Traces| drop(traces.gradients.get_mut("layer  1").unwrap().pop()))]
    #[case::part_missing(|traces: &mut Traces| drop(traces.trained.remove("the head")))]
    #[case::not_a_number(|traces: &mut Traces| traces.gradients.get_mut("the head").unwrap()[0].1[0] = f32::NAN)]
    #[case::trained(|traces: &mut Traces| traces.trained.get_mut("layer  0").unwrap()[0].1[0] += 10.0)]
    #[case::loss(|traces: &mut Traces| traces.losses[10] *= 1.002)]
    #[case::dropout(|traces: &mut Traces| traces.dropout = false)]
    fn whatever_is_apart_is_found(#[case] change: fn(&mut Traces)) {
        let (reference, mut other) = (traces(), traces());
        change(&mut other);
        assert!(!parity(&reference, &other, TOLERANCE).within);
    }
}
