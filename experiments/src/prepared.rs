//! A task's data as a run takes them: tokenised, limited, and what is known of them.

use adapter_core::Insertion;
use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::{module::Module, tensor::Device};
use tasks::{
    EvaluationSet, FrozenPrefix, TaskData, TaskKind, TaskModel, TokenCache, TrainingSet, WindowConfig,
    shuffle::{Purpose, permutation},
};

use crate::{memory, run_config::RunConfig};

/// A task as a run takes it.
pub struct Prepared {
    pub task: String,
    pub kind: TaskKind,
    pub labels: Vec<String>,
    pub outputs: usize,
    pub train: TrainingSet,
    pub validation: EvaluationSet,
    pub test: Option<EvaluationSet>,
}

impl Prepared {
    pub fn new(data: &TaskData, config: &RunConfig, backbone: &Backbone, cache: &TokenCache) -> Result<Self> {
        let tokenizer = &backbone.tokenizer;
        let validation = validation(data, config, backbone, cache)?;
        match data {
            TaskData::Texts(dataset) => {
                let has_targets = dataset.test.iter().any(|example| example.target.is_some());
                let test = || EvaluationSet::texts(dataset, &dataset.test, tokenizer, config.max_length, cache);
                let kept = limited(&dataset.train, config);
                Ok(Self {
                    task: dataset.task.clone(),
                    kind: dataset.kind,
                    labels: dataset.labels.clone(),
                    outputs: dataset.outputs(),
                    train: TrainingSet::texts(dataset, &kept, tokenizer, config.max_length, cache)?,
                    validation,
                    test: has_targets.then(test).transpose()?,
                })
            }
            TaskData::Questions(questions) => {
                let window = WindowConfig::within(backbone.config.max_position_embeddings);
                Ok(Self {
                    task: config.task.clone(),
                    kind: TaskKind::Span,
                    labels: Vec::new(),
                    outputs: 2,
                    train: TrainingSet::questions(&limited(&questions.train, config), tokenizer, window, cache)?,
                    validation,
                    test: None,
                })
            }
        }
    }

    /// The same sets with what the model's frozen layers say of them.
    pub fn with_prefix<I: Insertion>(
        self,
        model: &TaskModel<I>,
        config: &RunConfig,
        network: &BertConfig,
        device: &Device,
    ) -> Result<Self> {
        let layers = model.frozen_layers(config.tuning).context("the embeddings are trained: there is no prefix")?;
        let (train, validation) = (self.train.tokens.clone(), self.validation.tokens().clone());
        let needed = [&train, &validation].map(|tokens| FrozenPrefix::bytes(tokens, network.hidden_size)).iter().sum();
        if let Some(free) = memory::free() {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            ensure!(
                needed < free / 10 * 9,
                "the cached prefix takes {:.1} GB, {:.1} GB of memory are free; use a limit, or no cache_prefix",
                gigabytes(needed),
                gigabytes(free)
            );
        }
        let plain = model.bert().valid();
        let prefix = |tokens| FrozenPrefix::compute(&plain, layers, tokens, network, 2 * config.batch_size, device);
        let (train, validation) = (prefix(&train)?, prefix(&validation)?);
        Ok(Self { train: self.train.with_prefix(train), validation: self.validation.with_prefix(validation), ..self })
    }
}

/// The examples that a run is judged by.
pub fn validation(
    data: &TaskData,
    config: &RunConfig,
    backbone: &Backbone,
    cache: &TokenCache,
) -> Result<EvaluationSet> {
    let tokenizer = &backbone.tokenizer;
    Ok(match data {
        TaskData::Texts(dataset) => {
            EvaluationSet::texts(dataset, &dataset.validation, tokenizer, config.max_length, cache)?
        }
        TaskData::Questions(questions) => {
            let window = WindowConfig::within(backbone.config.max_position_embeddings);
            EvaluationSet::questions(&questions.validation, questions.version, tokenizer, window, cache)?
        }
    })
}

/// The training examples that a run keeps.
fn limited<T: Clone>(all: &[T], config: &RunConfig) -> Vec<T> {
    match config.limit {
        Some(limit) => {
            let order = permutation(all.len(), config.seed, Purpose::Limit);
            order.into_iter().take(limit).map(|example| all[example].clone()).collect()
        }
        None => all.to_vec(),
    }
}
