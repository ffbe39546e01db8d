//! The classifier of a trial: a deep network on word vectors, a wide linear model on n-grams, or the sum of both.

use std::{collections::BTreeMap, sync::Arc};

use adapter_core::{Activation, DropoutKey, DropoutSite, Init, Kind, Site, TensorInfo, tensors};
use analysis::Params;
use anyhow::{Context, Result, anyhow, bail};
use bert_backbone::filter_peaks;
use burn::{
    module::{Module, Param},
    nn::{BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig},
    tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData, activation},
};
use tasks::{Prediction, TaskKind};

use super::{
    features::{Batch, Features, Text},
    space::{NO_BERT, TrialConfig},
};

/// Texts that are scored at a time.
pub const SCORED: usize = 256;

/// What a trial trains: a deep network, a wide model, or both.
pub struct Classifier {
    pub deep: Option<Deep>,
    pub wide: Option<Wide>,
}

impl Classifier {
    /// The untrained classifier of `config` for so many `classes`.
    pub fn new(config: &TrialConfig, features: &Features, classes: usize, device: &Device) -> Result<Self> {
        let towers: String = config.get("towers")?;
        let deep = features.table.as_ref().map(|table| Deep::new(config, table, classes, device));
        Ok(Self {
            deep: deep.transpose()?,
            wide: (towers != "deep").then(|| Wide::new(features.grams, classes, device)),
        })
    }

    /// Scores of the classes; with `dropout` in training.
    ///
    /// # Shapes
    /// - result: `[texts, classes]`
    pub fn forward(&self, batch: &Batch, dropout: Option<DropoutKey>) -> Result<Tensor<2>> {
        let deep = self.deep.as_ref().map(|deep| deep.forward(batch, dropout)).transpose()?;
        match (deep, self.wide.as_ref().map(|wide| wide.forward(batch))) {
            (Some(deep), Some(wide)) => Ok(deep + wide),
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (None, None) => bail!("a trial without a network"),
        }
    }

    /// How many parameters it has and trains.
    pub fn params(&self, features: &Features) -> Params {
        // Running statistics are no parameters.
        let trained = |info: &&TensorInfo| Kind::of(info) != Kind::Statistic;
        let elements = |all: Vec<TensorInfo>| all.iter().filter(trained).map(TensorInfo::elements).sum::<usize>();
        let deep = self.deep.as_ref().map_or(0, |deep| elements(tensors(deep)));
        let trained = deep + self.wide.as_ref().map_or(0, |wide| elements(tensors(wide)));
        let table = features.table.as_ref().map_or(0, |(values, _)| values.len());
        let frozen = if self.deep.as_ref().is_some_and(Deep::is_frozen) { table } else { 0 };
        Params {
            trained,
            total: trained + frozen,
            backbone: frozen,
            shared_backbone: true,
            groups: BTreeMap::from([(NO_BERT.to_owned(), trained)]),
        }
    }

    /// The same without gradients.
    pub fn valid(self) -> Self {
        Self { deep: self.deep.map(|deep| deep.valid()), wide: self.wide.map(|wide| wide.valid()) }
    }

    /// What it says of texts; `None` if an output is no number.
    pub fn predict(&self, texts: &[Text], device: &Device) -> Result<Option<Vec<Prediction>>> {
        let mut predictions = Vec::new();
        for part in texts.chunks(SCORED) {
            let batch = Batch::new(&part.iter().collect::<Vec<_>>(), device);
            let outputs = self.forward(&batch, None)?;
            let [_, classes] = outputs.dims();
            let values: Vec<f32> = outputs.into_data().iter::<f32>().collect();
            if !values.iter().all(|value| value.is_finite()) {
                return Ok(None);
            }
            predictions
                .extend(values.chunks(classes).map(|row| Prediction::from_outputs(TaskKind::Classification, row)));
        }
        Ok(Some(predictions))
    }
}

/// A linear layer.
#[derive(Module, Debug)]
struct Dense {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Dense {
    fn new(name: &str, from: usize, to: usize, init: Init, device: &Device) -> Self {
        let std = (1.0 / from as f64).sqrt();
        let weight = init.truncated_normal(format!("{name}.weight"), [from, to], std, device);
        Self { weight, bias: init.constant(0.0, [to], device) }
    }

    /// # Shapes
    /// - `x`: `[rows, from]`, result: `[rows, to]`
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val()) + self.bias.val().unsqueeze()
    }
}

/// A hidden layer.
#[derive(Module, Debug)]
struct Hidden {
    dense: Dense,
    batch_norm: Option<BatchNorm>,
    layer_norm: Option<LayerNorm>,
}

/// The deep network.
#[derive(Module, Debug)]
pub struct Deep {
    /// Vectors of words that are trained.
    tuned: Option<Param<Tensor<2>>>,
    /// A filter bank for each width, the narrowest first.
    filters: Vec<Dense>,
    filter_norm: Option<BatchNorm>,
    hidden: Vec<Hidden>,
    output: Dense,
    /// Vectors of words that stay as they are.
    #[module(skip)]
    frozen: Option<Tensor<2>>,
    #[module(skip)]
    settings: Settings,
}

/// What of a trial's choices decides a pass through the deep network.
#[derive(Clone, Debug)]
struct Settings {
    embedding_dropout: f64,
    conv_activation: String,
    conv_dropout: f64,
    activation: String,
    dropout: f64,
}

impl Deep {
    /// The deep network of `config` for so many `classes`, on a table of vectors `[words, width]`.
    pub fn new(config: &TrialConfig, table: &(Vec<f32>, usize), classes: usize, device: &Device) -> Result<Self> {
        let (values, width) = (table.0.clone(), table.1);
        let init = Init::new(config.seed);
        let rows = values.len() / width.max(1);
        let table = Tensor::<2>::from_data(TensorData::new(values, [rows, width]), device);
        let tune: bool = config.get("tune_embeddings")?;
        let widest: usize = if config.get("convolution")? { config.get("max_ngram")? } else { 0 };
        let filters: usize = config.get("filters")?;
        let bank = |n: usize| Dense::new(&format!("filters.{n}"), n * width, filters, init, device);
        let pooled = if widest > 0 { widest * filters } else { width };
        let batch_norm: bool = config.get("conv_batch_norm")?;
        let (layers, size): (usize, usize) = (config.get("hidden_layers")?, config.get("hidden_size")?);
        let norm: String = config.get("norm")?;
        let hidden = (0..layers).map(|layer| Hidden {
            dense: Dense::new(&format!("hidden.{layer}"), if layer == 0 { pooled } else { size }, size, init, device),
            batch_norm: (norm == "batch").then(|| BatchNormConfig::new(size).init(device)),
            layer_norm: (norm == "layer").then(|| LayerNormConfig::new(size).init(device)),
        });
        let hidden: Vec<Hidden> = hidden.collect();
        let last = if layers > 0 { size } else { pooled };
        Ok(Self {
            tuned: tune.then(|| Param::from_tensor(table.clone())),
            filters: (1..=widest).map(bank).collect(),
            filter_norm: (widest > 0 && batch_norm).then(|| BatchNormConfig::new(pooled).init(device)),
            hidden,
            output: Dense::new("output", last, classes, init, device),
            frozen: (!tune).then_some(table),
            settings: Settings {
                embedding_dropout: config.get("embedding_dropout")?,
                conv_activation: config.get("conv_activation")?,
                conv_dropout: config.get("conv_dropout")?,
                activation: config.get("activation")?,
                dropout: config.get("dropout")?,
            },
        })
    }

    /// Whether the vectors of words stay as they are.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Scores of the classes; with `dropout` in training.
    ///
    /// # Shapes
    /// - result: `[texts, classes]`
    pub fn forward(&self, batch: &Batch, dropout: Option<DropoutKey>) -> Result<Tensor<2>> {
        let table = self.tuned.as_ref().map(Param::val).or_else(|| self.frozen.clone()).context("no vectors")?;
        let drop = |x: Tensor<2>, place: usize, probability: f64| match dropout {
            Some(key) => {
                bert_backbone::dropout(x, Some(key.mask(DropoutSite::SubLayer(place, Site::Attention), probability)))
            }
            None => x,
        };
        let Settings { embedding_dropout, conv_activation, conv_dropout, activation, dropout: hidden_dropout } =
            &self.settings;
        let words = drop(table.select(0, batch.words.clone()), 0, *embedding_dropout);
        let mut x = if self.filters.is_empty() {
            sum_by_text(words, batch.text_of_word.clone(), batch.texts) * batch.word_scale.clone()
        } else {
            let found = self.filters.iter().map(|bank| highest(bank, &words, conv_activation, &batch.starts));
            let mut found = Tensor::cat(found.collect::<Result<Vec<_>>>()?, 1);
            if let Some(norm) = &self.filter_norm {
                found = norm.forward(found);
            }
            drop(found, 1, *conv_dropout)
        };
        for (hidden, place) in self.hidden.iter().zip(2..) {
            x = hidden.dense.forward(x);
            if let Some(norm) = &hidden.batch_norm {
                x = norm.forward(x);
            }
            if let Some(norm) = &hidden.layer_norm {
                x = norm.forward(x);
            }
            x = drop(activate(activation, x)?, place, *hidden_dropout);
        }
        Ok(self.output.forward(x))
    }
}

/// What each filter of a bank finds at most in each text.
///
/// # Shapes
/// - `words`: `[words, width]`
/// - result: `[texts, filters]`
fn highest(bank: &Dense, words: &Tensor<2>, name: &str, starts: &Arc<[usize]>) -> Result<Tensor<2>> {
    // All others rise everywhere: the strongest response stays the strongest. Swish falls and then rises, so that its highest
    // value is at one of the two ends.
    let both_ends = name == "swish";
    let peaks = filter_peaks(words.clone(), bank.weight.val(), starts, both_ends);
    let activated = |peaks: Tensor<2>| activate(name, peaks + bank.bias.val().unsqueeze());
    if !both_ends {
        return activated(peaks);
    }
    let [high, low] = peaks.chunk(2, 1).try_into().map_err(|_| anyhow!("two ends"))?;
    Ok(activated(high)?.max_pair(activated(low)?))
}

/// # Shapes
/// - `rows`: `[rows, width]`, `text_of`: the text of each
/// - result: `[texts, width]`
fn sum_by_text(rows: Tensor<2>, text_of: Tensor<1, Int>, texts: usize) -> Tensor<2> {
    let [_, width] = rows.dims();
    let none = Tensor::zeros([texts, width], &rows.device());
    none.select_assign(0, text_of, rows, IndexingUpdateOp::Add)
}

fn activate(name: &str, x: Tensor<2>) -> Result<Tensor<2>> {
    if name == "relu6" {
        return Ok(activation::relu(x).clamp_max(6.0));
    }
    Ok(name.parse::<Activation>()?.forward(x))
}

/// The wide model: a weight for each n-gram and each class.
#[derive(Module, Debug)]
pub struct Wide {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Wide {
    /// A wide model of so many rows for so many `classes`, which starts with nothing.
    pub fn new(rows: usize, classes: usize, device: &Device) -> Self {
        let init = Init::new(0);
        Self { weight: init.constant(0.0, [rows, classes], device), bias: init.constant(0.0, [classes], device) }
    }

    /// Scores of the classes.
    ///
    /// # Shapes
    /// - result: `[texts, classes]`
    pub fn forward(&self, batch: &Batch) -> Tensor<2> {
        let weights = self.weight.val().select(0, batch.grams.clone());
        let sum = sum_by_text(weights, batch.text_of_gram.clone(), batch.texts);
        sum * batch.gram_scale.clone() + self.bias.val().unsqueeze()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// ReLU6 is flat below zero and above six, and what it gives between them is what it got.
    #[test]
    fn relu6_ends_at_six() {
        let x = Tensor::<2>::from_data([[-1.0, 0.5, 3.0, 6.0, 7.0]], &Device::flex());
        let y: Vec<f32> = activate("relu6", x).unwrap().into_data().iter::<f32>().collect();
        assert_eq!(y, [0.0, 0.5, 3.0, 6.0, 6.0]);
    }

    /// The highest of all activated responses, without activating all of them.
    #[rstest]
    fn the_highest_response_is_that_of_every_window_activated(
        #[values("relu", "relu6", "leaky-relu", "swish", "sigmoid", "tanh")] name: &str,
        #[values(1, 2)] reach: usize,
    ) {
        let (device, width, filters) = (Device::flex().autodiff(), 3, 16);
        let starts: Arc<[usize]> = Arc::new([0, 4, 6, 15]);
        let values = |name: &str, [rows, columns]: [usize; 2], std| {
            let values = Init::new(1).values(name, rows * columns, std);
            Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device)
        };
        let words = values("words", [15, width], 4.0).require_grad();
        let mut bank = Dense::new("bank", reach * width, filters, Init::new(2), &device);
        bank.bias = Param::from_tensor(values("bias", [1, filters], 1.0).reshape([filters]));
        let weights = values("loss", [3, filters], 1.0);
        let gradients = |found: Tensor<2>| {
            let gradients = (found * weights.clone()).sum().backward();
            [words.grad(&gradients), bank.weight.val().grad(&gradients)].map(|gradient| gradient.unwrap().into_data())
        };

        let found = highest(&bank, &words, name, &starts).unwrap();
        let every = |window: usize| {
            let window = words.clone().narrow(0, window, reach).reshape([1, reach * width]);
            activate(name, bank.forward(window)).unwrap()
        };
        let of_text = |text: usize| {
            let windows = starts[text]..=starts[text + 1] - reach;
            Tensor::cat(windows.map(every).collect(), 0).max_dim(0)
        };
        let expected = Tensor::cat((0..3).map(of_text).collect(), 0);

        found.to_data().assert_approx_eq(&expected.to_data(), burn::tensor::Tolerance::<f32>::absolute(1e-5));
        for (found, expected) in gradients(found).iter().zip(&gradients(expected)) {
            found.assert_approx_eq(expected, burn::tensor::Tolerance::<f32>::absolute(1e-4));
        }
    }
}
