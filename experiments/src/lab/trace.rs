//! Everything that a model computes of a few batches, for a comparison number by number.

use std::collections::BTreeMap;

use adapter_core::{
    DropoutKey, DropoutSite, Insertion, Part, Selection, TensorInfo, Tunable, visit_gradients, visit_values,
};
use anyhow::Result;
use bert_backbone::{BertConfig, Encoded, PackedBatch, dropout};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use tasks::{TaskModel, loss::cross_entropy};

use crate::train::{ModuleOptimizer, Optimizer, StepGradients};

/// Tensors with their values by the part of the network that they belong to: `embeddings`, `layer N`, `head`.
pub type Parts = BTreeMap<String, Vec<(String, Vec<f32>)>>;

/// Everything that a device computed.
pub struct Traces {
    /// Output of the embeddings, of each layer and of the head.
    pub forward: Parts,
    /// Gradient of each trained tensor.
    pub gradients: Parts,
    /// The trained tensors after some steps.
    pub trained: Parts,
    /// The loss before each of the steps, and after the last.
    pub losses: Vec<f64>,
    /// Whether the device drops what the host would.
    pub dropout: bool,
}

/// Training steps that are compared.
const STEPS: usize = 10;

impl Traces {
    /// Classes that a traced model needs.
    pub const CLASSES: usize = 3;

    /// What `device` computes of `model`, which is on it.
    ///
    /// # Errors
    /// If the network cannot take the batch.
    pub(super) fn of<I: Insertion>(
        model: &TaskModel<I>,
        selection: &Selection,
        config: &BertConfig,
        optimizer: &dyn Optimizer,
        device: &Device,
    ) -> Result<Self> {
        let (mut model, training) = (model.clone(), device.clone().autodiff());
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
        let mut optimizer = ModuleOptimizer::new(optimizer, 0.0);
        for step in 0..=STEPS {
            let loss = cross_entropy(model.forward(&packed), &classes);
            losses.push(f64::from(loss.clone().into_scalar::<f32>()));
            let found = loss.backward();
            if step == 0 {
                visit_gradients(&model, &found, |tensor, values| add(&mut gradients, &model, tensor, values));
            }
            if step < STEPS {
                model = optimizer.update(model.clone(), &StepGradients::of(&model, &found), 1e-3);
            }
        }
        let wanted = |name: &str| selection.trained.iter().any(|trained| trained.name == name);
        visit_values(&model, wanted, |tensor, values| add(&mut trained, &model, tensor, values));
        Ok(Self { forward, gradients, trained, losses, dropout: drops_as_the_host(device) })
    }
}

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
    let classes = (0..sequences.len()).map(|row| row % Traces::CLASSES).collect();
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

fn add<M: Tunable>(to: &mut Parts, model: &M, tensor: TensorInfo, values: Vec<f32>) {
    to.entry(part(model.role(&tensor).part)).or_default().push((tensor.name, values));
}

fn floats(values: Tensor<2>) -> Vec<f32> {
    values.into_data().iter::<f32>().collect()
}
