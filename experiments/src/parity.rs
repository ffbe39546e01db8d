//! Whether two devices compute the same: one adapted model and one batch on each, compared number by number.

use std::collections::BTreeMap;

use adapter_core::{
    AdapterConfig, DropoutKey, DropoutSite, Init, Part, Tunable, Tuning, visit_gradients, visit_values,
};
use anyhow::Result;
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch, dropout};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use serde::Serialize;
use tasks::{Head, HeadInput, TaskModel, loss::cross_entropy};

use crate::{
    adam::{Adam, StepGradients},
    profile::Profile,
};

/// Numbers by the part of the network that they belong to: `embeddings`, `layer N`, `head`.
type Parts = BTreeMap<String, Vec<Numbers>>;

/// A tensor's values by name.
type Numbers = (String, Vec<f32>);

/// Everything that a device computed.
pub struct Traces {
    /// Output of the embeddings, of each layer and of the head.
    forward: Parts,
    /// Gradient of each trained tensor.
    gradients: Parts,
    /// The trained tensors after some steps.
    trained: Parts,
    /// The loss before each of the steps, and after the last.
    losses: Vec<f64>,
    /// Whether the device drops what the host would.
    dropout: bool,
}

/// Training steps that are compared.
const STEPS: usize = 10;

impl Traces {
    /// What `device` computes of `bert`, which is on it, with adapters and a head that are the same everywhere.
    ///
    /// # Errors
    /// If the network cannot take the batch.
    pub fn of(bert: Bert, config: &BertConfig, device: &Device) -> Result<Self> {
        let (init, hidden, training) = (Init::new(0), config.hidden_size, device.clone().autodiff());
        let adapter = AdapterConfig { init_std: 0.05, ..AdapterConfig::default() };
        let bert = bert.train().insert(|place| adapter.init(place, hidden, init, &training));
        let head = Head::new(hidden, CLASSES, HeadInput::Cls, init, &training);
        let mut model = Tuning::Adapters.apply(TaskModel::new(bert, head)?);
        let (sequences, classes) = batch(config);
        let packed = PackedBatch::new(&sequences, config, &training)?;

        let plain = PackedBatch::new(&sequences, config, device)?;
        let network = model.valid();
        let mut hidden = network.bert().embeddings.forward(&plain);
        let mut forward = Parts::new();
        let mut keep =
            |part: String, values: Tensor<2>| drop(forward.insert(part, vec![("output".into(), floats(values))]));
        keep("embeddings".to_owned(), hidden.clone());
        for (number, layer) in network.bert().encoder.layer.iter().enumerate() {
            hidden = layer.forward(hidden, &plain, number);
            keep(part(Part::Layer(number)), hidden.clone());
        }
        keep(part(Part::Head), network.forward(&plain));

        let (mut gradients, mut trained, mut losses) = (Parts::new(), Parts::new(), Vec::new());
        let mut adam = Adam::new(Profile::Paper.settings().adam);
        for step in 0..=STEPS {
            let loss = cross_entropy(model.forward(&packed), &classes);
            losses.push(f64::from(loss.clone().into_scalar::<f32>()));
            let slopes = loss.backward();
            if step == 0 {
                visit_gradients(&model, &slopes, |tensor, values| add(&mut gradients, &model, tensor.name, values));
            }
            if step < STEPS {
                model = adam.update(model.clone(), &StepGradients::of(&model, &slopes), 1e-3);
            }
        }
        let names: Vec<String> = Tuning::Adapters.trained(&model).into_iter().map(|tensor| tensor.name).collect();
        let wanted = |name: &str| names.iter().any(|trained| trained == name);
        visit_values(&model, wanted, |tensor, values| add(&mut trained, &model, tensor.name, values));
        Ok(Self { forward, gradients, trained, losses, dropout: drops_as_the_host(device) })
    }
}

const CLASSES: usize = 3;

/// Sequences of several lengths, with a class for each. Any word pieces will do; these are not all the same.
fn batch(config: &BertConfig) -> (Vec<Encoded>, Vec<usize>) {
    let longest = config.max_position_embeddings.min(48);
    let lengths = [longest, 1, longest / 2, 7.min(longest), longest];
    let sequence = |(row, &length): (usize, &usize)| Encoded {
        input_ids: (0..length).map(|place| ((row * 7919 + place * 104_729) % config.vocab_size) as u32).collect(),
        token_type_ids: (0..length).map(|place| u32::from(2 * place > length && config.type_vocab_size > 1)).collect(),
        ..Encoded::default()
    };
    let sequences: Vec<_> = lengths.iter().enumerate().map(sequence).collect();
    let classes = (0..sequences.len()).map(|row| row % CLASSES).collect();
    (sequences, classes)
}

fn drops_as_the_host(device: &Device) -> bool {
    let (mask, elements) = (DropoutKey { seed: 7, step: 11 }.mask(DropoutSite::Embeddings, 0.1), 10_000);
    let host: Vec<f32> = (0..elements).map(|element| mask.factor(element)).collect();
    let ones = Tensor::<2>::ones([100, 100], device);
    let starts: Vec<u32> = (0..elements).step_by(100).collect();
    let ways = [mask.apply(ones.clone()), mask.apply_rows(ones.clone(), &starts), dropout(ones, Some(mask))];
    ways.into_iter().all(|dropped| floats(dropped) == host)
}

fn part(part: Part) -> String {
    match part {
        Part::Embeddings => "embeddings".to_owned(),
        Part::Layer(layer) => format!("layer {layer:>2}"),
        Part::Pooler { .. } | Part::Head => "the head".to_owned(),
    }
}

fn add<M: Tunable>(to: &mut Parts, model: &M, name: String, values: Vec<f32>) {
    to.entry(part(model.role(&name).part)).or_default().push((name, values));
}

fn floats(values: Tensor<2>) -> Vec<f32> {
    values.into_data().iter::<f32>().collect()
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

fn deviation(part: &str, reference: &Traces, other: &Traces) -> Deviation {
    let mut deviation = Deviation { part: part.to_owned(), ..Deviation::default() };
    for (_, a, b) in pairs(&reference.forward, &other.forward, part) {
        deviation.forward_absolute = apart(a, b);
        deviation.forward_relative = apart(a, b) / most(a);
    }
    for (name, a, b) in pairs(&reference.gradients, &other.gradients, part) {
        deviation.gradient_absolute = largest(deviation.gradient_absolute, apart(a, b));
        let relative = apart(a, b) / most(a);
        if deviation.gradient_of.is_empty() || relative > deviation.gradient_relative || relative.is_nan() {
            (deviation.gradient_relative, deviation.gradient_of) = (relative, name.to_owned());
        }
    }
    for (_, a, b) in pairs(&reference.trained, &other.trained, part) {
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

    use super::*;

    const TOLERANCE: Tolerance = Tolerance { forward: 1e-4, gradient: 1e-3, trained: 1e-2 };

    fn traces() -> Traces {
        let (config, device) = (BertConfig { vocab_size: 50, ..BertConfig::new(16, 2, 2) }, Device::flex());
        Traces::of(Bert::random(&config, Init::new(0), &device).unwrap(), &config, &device).unwrap()
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
