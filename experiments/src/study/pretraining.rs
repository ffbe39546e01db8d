//! Pre-training on the built-in language as BERT was pre-trained, by masked language modelling and next-sentence prediction:
//! how `nano` is made.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use adapter_core::{Container, Init, Stored, TensorInfo, mix, replace_values, visit_values};
use anyhow::{Context, Result, ensure};
use bert_backbone::{Bert, BertConfig, Encoded, MaskedLmHead, PackedBatch, Tokenizer, write_vocabulary, write_weights};
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Int, Tensor, TensorData},
};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use tasks::{MaskConfig, loss::cross_entropy, mask_tokens, synthetic};

use crate::{
    run::NUMERICS,
    train::{Adam, Checkpoint, ModuleOptimizer, OptimizerState, RunError, Schedule, StepGradients, Stop},
};

/// What is pre-trained, and how long. The default is `nano`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
        Self { hidden: 96, layers: 6, heads: 4, steps: 40_000, batch_size: 64, learning_rate: 2e-3, seed: 0 }
    }
}

impl PretrainConfig {
    fn check(&self) -> Result<()> {
        let Self { steps, batch_size, learning_rate, .. } = *self;
        ensure!(steps > 0 && batch_size > 0, "at least one step and one text are needed");
        ensure!(learning_rate > 0.0 && learning_rate.is_finite(), "lr {learning_rate}: a positive number is needed");
        Ok(())
    }
}

/// Share of the tokens that are hidden: texts are short, so a little more than BERT's.
const SHARE: f64 = 0.2;

/// Longest text in tokens.
const MAX_LENGTH: usize = 64;

/// Steps between two points of the loss curve.
const CURVE_EVERY: usize = 100;

/// How far a pre-training is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PretrainState {
    /// Steps taken.
    pub step: usize,
    /// The mean loss of both objectives together, of every hundred steps.
    pub loss_curve: Vec<f64>,
    /// Sum of the losses since the last point of the curve.
    loss_sum: f64,
}

/// A network that is being pre-trained. It is in the same state after the same number of steps, however often it was stopped.
pub struct Pretraining {
    config: PretrainConfig,
    folder: PathBuf,
    shape: BertConfig,
    corpus: Corpus,
    device: Device,
    network: Network,
    optimizer: ModuleOptimizer<'static>,
    state: PretrainState,
}

/// The network with its two heads.
#[derive(Module, Debug)]
struct Network {
    bert: Bert,
    masked_lm: MaskedLmHead,
    /// Whether the second text belongs to the first; read from the pooler, as in BERT.
    next_sentence: Linear,
}

/// What moves the network: Adam with BERT's weight decay.
const ADAM: Adam = Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, bias_correction: true, weight_decay: 0.01 };

impl Pretraining {
    /// Begins in `folder`, or goes on where a pre-training with the same configuration was stopped there.
    ///
    /// # Errors
    /// If the configuration describes no network, `folder` has a checkpoint of another pre-training, or cannot be written to.
    pub fn open(config: PretrainConfig, folder: &Path, device: &Device) -> Result<Self> {
        config.check()?;
        let vocabulary = synthetic::vocabulary();
        let shape = BertConfig {
            vocab_size: vocabulary.len(),
            max_position_embeddings: MAX_LENGTH,
            ..BertConfig::new(config.hidden, config.layers, config.heads)
        };
        shape.check()?;
        // What is in the folder stays as it is until the network is ready.
        let beside = tempfile::tempdir().context("cannot make a temporary folder")?;
        write_vocabulary(beside.path(), &shape, &vocabulary).with_context(|| cannot_write(beside.path()))?;
        let tokenizer = Tokenizer::load(beside.path())?;
        fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
        let (init, device) = (Init::new(config.seed), device.clone().autodiff());
        let network = Network {
            bert: Bert::random(&shape, init, &device)?,
            masked_lm: MaskedLmHead::random(&shape, init, &device)?,
            next_sentence: Linear {
                weight: init.truncated_normal("next_sentence", [config.hidden, 2], shape.initializer_range, &device),
                bias: Some(init.constant(0.0, [2], &device)),
            },
        };
        let pretraining = Self {
            config,
            folder: folder.to_owned(),
            corpus: Corpus::new(tokenizer, &vocabulary, config)?,
            shape,
            device,
            network,
            optimizer: ModuleOptimizer::new(&ADAM, 1.0),
            state: PretrainState::default(),
        };
        let checkpoint = pretraining.checkpoint();
        if checkpoint.exists() { pretraining.resume(&checkpoint) } else { Ok(pretraining) }
    }

    /// How far it is.
    pub fn state(&self) -> &PretrainState {
        &self.state
    }

    /// Takes the steps that are left and writes the network into the folder, in Hugging Face layout. A checkpoint is written
    /// whenever `every` has passed, and when `stop` asks for the end. `watch` is told of every step.
    ///
    /// # Errors
    /// If it is stopped, the loss is not finite, or a file cannot be written.
    pub fn finish(
        mut self,
        every: Duration,
        stop: &Stop,
        mut watch: impl FnMut(&PretrainState, f64),
    ) -> Result<PretrainState, RunError> {
        let mut last = Instant::now();
        while self.state.step < self.config.steps {
            let loss = self.step()?;
            watch(&self.state, loss);
            if stop.requested() {
                self.keep()?;
                return Err(RunError::Interrupted { step: self.state.step, kept: true });
            }
            if last.elapsed() >= every {
                self.keep()?;
                last = Instant::now();
            }
        }
        let Network { bert, masked_lm, .. } = self.network.valid();
        let written = write_vocabulary(&self.folder, &self.shape, &synthetic::vocabulary());
        written.with_context(|| cannot_write(&self.folder))?;
        write_weights(&self.folder, &bert, &masked_lm).with_context(|| cannot_write(&self.folder))?;
        Checkpoint::remove(&self.checkpoint()).with_context(|| cannot_write(&self.folder))?;
        Ok(self.state)
    }

    /// Learns from the next texts.
    fn step(&mut self) -> Result<f64> {
        let (step, PretrainConfig { steps, learning_rate, .. }) = (self.state.step, self.config);
        let texts = self.corpus.batch(step)?;
        let batch = PackedBatch::new(&texts.sequences, &self.shape, &self.device)?;
        let begins = batch.boundaries().iter();
        let places = begins.zip(&texts.hidden).flat_map(|(begin, of)| of.iter().map(move |(at, id)| (begin + at, *id)));
        let (rows, words): (Vec<i32>, Vec<usize>) = places.map(|(row, id)| (row as i32, id as usize)).unzip();
        let count = rows.len();
        let Network { bert, masked_lm, next_sentence } = &self.network;
        let outputs = bert.forward(&batch);
        let pooler = bert.pooler.as_ref().context("a new network has a pooler")?;
        let pooled = pooler.forward(batch.first_tokens(outputs.clone()));
        let mut loss = cross_entropy(next_sentence.forward(pooled), &texts.wrong);
        // A few short texts may hide nothing.
        if count > 0 {
            let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &self.device);
            loss = loss + cross_entropy(masked_lm.forward(outputs.select(0, rows), &bert.embeddings), &words);
        }
        let value = f64::from(loss.clone().into_scalar::<f32>());
        ensure!(value.is_finite(), "the loss is {value} at step {}: try a lower learning rate", step + 1);
        let rate = Schedule::Paper.rate(learning_rate, step, steps, 0.1);
        let gradients = StepGradients::of(&self.network, &loss.backward());
        self.network = self.optimizer.update(self.network.clone(), &gradients, rate);
        self.state.count(value);
        Ok(value)
    }

    fn checkpoint(&self) -> PathBuf {
        self.folder.join("pretraining.safetensors")
    }

    /// Writes everything that is needed to go on.
    fn keep(&self) -> Result<()> {
        let optimizer = self.optimizer.state();
        let mut stored: BTreeMap<String, Stored> = optimizer.stored().collect();
        let keep = |tensor: TensorInfo, values: Vec<f32>| {
            stored.insert(format!("{NETWORK}{}", tensor.name), Stored::f32(tensor.shape, &values));
        };
        visit_values(&self.network, |_| true, keep);
        let header = Header {
            config: self.config,
            numerics: NUMERICS,
            language: synthetic::fingerprint(),
            state: self.state.clone(),
            optimizer_step: optimizer.step,
        };
        let path = self.checkpoint();
        FORM.write(&path, &header, &stored).with_context(|| cannot_write(&path))
    }

    /// Goes on from a checkpoint.
    fn resume(self, path: &Path) -> Result<Self> {
        let damaged = || format!("{}: the checkpoint is damaged; remove it to begin anew", path.display());
        let (header, stored) = FORM.read::<Header>(path).with_context(damaged)?;
        let same = (header.config, header.numerics) == (self.config, NUMERICS)
            && header.language == synthetic::fingerprint()
            && header.state.step <= self.config.steps;
        ensure!(same, "{}: a checkpoint of another pre-training; remove it to begin anew", path.display());
        let mut values = BTreeMap::new();
        let mut state = OptimizerState { step: header.optimizer_step, ..OptimizerState::default() };
        for (name, tensor) in stored {
            match name.strip_prefix(NETWORK) {
                Some(name) => drop(values.insert(name.to_owned(), tensor.values(Dtype::F32).unwrap_or_default())),
                None => state.put(&name, &tensor).with_context(damaged)?,
            }
        }
        let known = adapter_core::tensors(&self.network);
        let whole = known.iter().all(|tensor| {
            let fits = |values: &Vec<f32>| values.len() == tensor.elements();
            let slots = state.memory.get(&tensor.name);
            values.get(&tensor.name).is_some_and(fits) && slots.is_some_and(|s| s.len() == 2 && s.iter().all(fits))
        });
        ensure!(whole && values.len() == known.len() && state.memory.len() == known.len(), damaged());
        let network = replace_values(self.network, |tensor| values.remove(&tensor.name));
        let optimizer = self.optimizer.restore(state, &self.device.clone().inner());
        Ok(Self { network, optimizer, state: header.state, ..self })
    }
}

impl PretrainState {
    fn count(&mut self, loss: f64) {
        self.step += 1;
        self.loss_sum += loss;
        if self.step.is_multiple_of(CURVE_EVERY) {
            self.loss_curve.push(self.loss_sum / CURVE_EVERY as f64);
            self.loss_sum = 0.0;
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    config: PretrainConfig,
    numerics: u32,
    /// What the texts are made by.
    language: String,
    state: PretrainState,
    optimizer_step: i32,
}

/// The form of a checkpoint.
const FORM: Container = Container { key: "adapter_lab_pretraining", version: 1 };

/// What the names of the network's own tensors begin with.
const NETWORK: &str = "network/";

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Texts as tokens, some of them hidden.
struct Corpus {
    tokenizer: Tokenizer,
    mask: MaskConfig,
    special: Vec<u32>,
    seed: u64,
    batch_size: usize,
}

/// The texts of a step.
struct Texts {
    sequences: Vec<Encoded>,
    /// Of each text, the hidden tokens' places and ids.
    hidden: Vec<Vec<(usize, u32)>>,
    /// 1 where the second part does not belong to the first, as in BERT.
    wrong: Vec<usize>,
}

impl Corpus {
    fn new(tokenizer: Tokenizer, vocabulary: &[String], config: PretrainConfig) -> Result<Self> {
        let number = |token: &str| vocabulary.iter().position(|word| word == token).map(|id| id as u32);
        let mask = MaskConfig::new(number("[MASK]").context("no [MASK]")?, vocabulary.len() as u32);
        Ok(Self {
            tokenizer,
            mask: MaskConfig { share: SHARE, ..mask },
            special: ["[CLS]", "[SEP]"].into_iter().filter_map(number).collect(),
            seed: config.seed,
            batch_size: config.batch_size,
        })
    }

    fn batch(&self, step: usize) -> Result<Texts> {
        let (mut sequences, mut hidden, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for text in 0..self.batch_size {
            let number = (step * self.batch_size + text) as u64;
            let text = synthetic::corpus(number);
            let mut sequence = self.tokenizer.encode(&text.first, Some(&text.second), MAX_LENGTH)?;
            hidden.push(mask_tokens(&mut sequence, self.mask, &self.special, mix(&[self.seed, number])));
            sequences.push(sequence);
            wrong.push(usize::from(!text.belongs));
        }
        Ok(Texts { sequences, hidden, wrong })
    }
}
