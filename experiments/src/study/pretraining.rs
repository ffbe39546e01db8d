//! Pre-training on the built-in language as BERT was pre-trained, by masked language modelling and next-sentence prediction:
//! how `nano` is made.

use std::path::Path;

use adapter_core::{Init, mix};
use anyhow::{Context, Result, ensure};
use bert_backbone::{Bert, BertConfig, MaskedLmHead, PackedBatch, Tokenizer, write_vocabulary, write_weights};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Int, Tensor, TensorData},
};
use tasks::{MaskConfig, loss::cross_entropy, mask_tokens, synthetic};

use crate::train::{Adam, ModuleOptimizer, Schedule, StepGradients};

/// What is pre-trained, and how long. The default is `nano`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PretrainConfig {
    /// Width of the network.
    pub hidden: usize,
    /// Its layers.
    pub layers: usize,
    /// Its attention heads.
    pub heads: usize,
    /// Steps.
    pub steps: usize,
    /// Texts of a step.
    pub batch_size: usize,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Decides initial values and which tokens are hidden.
    pub seed: u64,
}

impl Default for PretrainConfig {
    fn default() -> Self {
        Self { hidden: 96, layers: 6, heads: 4, steps: 6000, batch_size: 64, learning_rate: 2e-3, seed: 0 }
    }
}

/// Apart from all other draws of a text.
const OTHER: u64 = u64::MAX;

/// Share of the tokens that are hidden: texts are short, so a little more than BERT's.
const SHARE: f64 = 0.2;

/// Longest text in tokens.
const MAX_LENGTH: usize = 64;

/// The network with its two heads.
#[derive(Module, Debug)]
struct Pretrained {
    bert: Bert,
    masked_lm: MaskedLmHead,
    /// Whether the second text belongs to the first; read from the pooler, as in BERT.
    next_sentence: Linear,
}

/// Pre-trains a network and writes it into `folder`, in Hugging Face layout. `watch` is told every step's number and loss.
///
/// The same configuration gives the same bytes on the same kind of machine.
///
/// # Errors
/// If the configuration describes no network, or the files cannot be written.
pub fn pretrain(
    config: PretrainConfig,
    folder: &Path,
    device: &Device,
    mut watch: impl FnMut(usize, f64),
) -> Result<()> {
    let PretrainConfig { steps, batch_size, learning_rate, .. } = config;
    ensure!(steps > 0 && batch_size > 0, "at least one step and one text are needed");
    ensure!(learning_rate > 0.0 && learning_rate.is_finite(), "lr {learning_rate}: a positive number is needed");
    let vocabulary = synthetic::vocabulary();
    let shape = BertConfig {
        vocab_size: vocabulary.len(),
        max_position_embeddings: MAX_LENGTH,
        ..BertConfig::new(config.hidden, config.layers, config.heads)
    };
    shape.check()?;
    let writing = || format!("cannot write {}", folder.display());
    write_vocabulary(folder, &shape, &vocabulary).with_context(writing)?;
    let tokenizer = Tokenizer::load(folder)?;
    let number = |token: &str| vocabulary.iter().position(|word| word == token).map(|id| id as u32);
    let special: Vec<u32> = ["[CLS]", "[SEP]"].into_iter().filter_map(number).collect();
    let mask = MaskConfig::new(number("[MASK]").context("no [MASK]")?, vocabulary.len() as u32);
    let mask = MaskConfig { share: SHARE, ..mask };

    let (init, training) = (Init::new(config.seed), device.clone().autodiff());
    let mut model = Pretrained {
        bert: Bert::random(&shape, init, &training)?,
        masked_lm: MaskedLmHead::random(&shape, init, &training)?,
        next_sentence: Linear {
            weight: init.truncated_normal("next_sentence", [config.hidden, 2], shape.initializer_range, &training),
            bias: Some(init.constant(0.0, [2], &training)),
        },
    };
    let adam = Adam { weight_decay: 0.01, ..Adam::default() };
    let mut optimizer = ModuleOptimizer::new(&adam, 1.0);
    for step in 0..steps {
        let (mut sequences, mut hidden, mut unrelated) = (Vec::new(), Vec::new(), Vec::new());
        for text in 0..batch_size {
            let text = (step * batch_size + text) as u64;
            let (first, mut second) = synthetic::corpus(text);
            // Half of the texts go on as they should: class 0, as in BERT.
            let other = mix(&[config.seed, text, OTHER]) & 1;
            if other == 1 {
                second = synthetic::unrelated(text);
            }
            unrelated.push(other as usize);
            let mut sequence = tokenizer.encode(&first, Some(&second), MAX_LENGTH)?;
            hidden.push(mask_tokens(&mut sequence, mask, &special, mix(&[config.seed, text])));
            sequences.push(sequence);
        }
        let batch = PackedBatch::new(&sequences, &shape, &training)?;
        let begins = batch.boundaries().iter();
        let found = begins.zip(&hidden).flat_map(|(begin, of)| of.iter().map(move |(place, id)| (begin + place, *id)));
        let (rows, words): (Vec<i32>, Vec<usize>) = found.map(|(row, id)| (row as i32, id as usize)).unzip();
        let count = rows.len();
        if count == 0 {
            // A few short texts may hide nothing: there is nothing to learn from them.
            continue;
        }
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &training);
        let outputs = model.bert.forward(&batch);
        let scores = model.masked_lm.forward(outputs.clone().select(0, rows), &model.bert.embeddings);
        let pooler = model.bert.pooler.as_ref().context("a new network has a pooler")?;
        let pooled = pooler.forward(batch.first_tokens(outputs));
        let loss = cross_entropy(scores, &words) + cross_entropy(model.next_sentence.forward(pooled), &unrelated);
        let value = f64::from(loss.clone().into_scalar::<f32>());
        ensure!(value.is_finite(), "the loss is {value} at step {}: try a lower learning rate", step + 1);
        let rate = Schedule::Paper.rate(learning_rate, step, steps, 0.1);
        let gradients = StepGradients::of(&model, &loss.backward());
        model = optimizer.update(model, &gradients, rate);
        watch(step + 1, value);
    }
    write_weights(folder, &model.bert.valid(), &model.masked_lm.valid()).with_context(writing)
}
