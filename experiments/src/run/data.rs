//! A task's data as a run takes them: tokenised, limited, and what is known of them.

use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::tensor::Device;
use tasks::{
    EvaluationSet, Example, FrozenPrefix, Metrics, TaskData, TaskKind, TokenCache, TrainingSet, WindowConfig,
    shuffle::{Purpose, permutation},
};

use super::RunConfig;
use crate::{
    device::memory,
    lab::{AnyModel, Inference},
};

/// A task's data as a run takes them.
pub struct PreparedData {
    /// The task's name.
    pub task: String,
    /// What it asks for.
    pub kind: TaskKind,
    /// The names of its classes.
    pub labels: Vec<String>,
    /// Whether its examples are pairs of texts; unknown for questions.
    pub pairs: Option<bool>,
    /// Outputs of its head.
    pub outputs: usize,
    /// Examples to train on.
    pub train: TrainingSet,
    /// Examples to choose by.
    pub validation: EvaluationSet,
    /// Examples to report on, where their labels are known.
    pub test: Option<EvaluationSet>,
    /// Further validation sets, by task name.
    pub extra: Vec<(String, EvaluationSet)>,
}

impl PreparedData {
    /// Tokenises what a run takes of `data`.
    ///
    /// # Errors
    /// If an example has no label, or a text cannot be tokenised.
    pub fn new(
        data: &TaskData,
        config: &RunConfig,
        backbone: &Backbone,
        cache: &TokenCache,
        metrics: &Metrics,
    ) -> Result<Self> {
        let tokenizer = &backbone.tokenizer;
        let validation = validation(data, config, backbone, cache, metrics)?;
        match data {
            TaskData::Texts(dataset) => {
                let has_targets = dataset.test.iter().any(|example| example.target.is_some());
                let test = || EvaluationSet::texts(dataset, &dataset.test, tokenizer, config.max_length, cache);
                let extra = |(name, examples): &(String, Vec<Example>)| {
                    let examples = limited(examples, config.limit_validation, config.limit_seed);
                    let set = EvaluationSet::texts(dataset, &examples, tokenizer, config.max_length, cache)?;
                    Ok((name.clone(), set.with_metrics(metrics)))
                };
                let kept = limited(&dataset.train, config.limit, config.limit_seed);
                Ok(Self {
                    task: dataset.task.clone(),
                    kind: dataset.kind,
                    labels: dataset.labels.clone(),
                    pairs: Some(dataset.train.iter().any(|example| example.pair.is_some())),
                    outputs: dataset.outputs(),
                    train: TrainingSet::texts(dataset, &kept, tokenizer, config.max_length, cache)?,
                    validation,
                    test: has_targets.then(test).transpose()?.map(|set| set.with_metrics(metrics)),
                    extra: dataset.extra.iter().map(extra).collect::<Result<_>>()?,
                })
            }
            TaskData::Questions(questions) => {
                let window = WindowConfig::within(config.max_length);
                Ok(Self {
                    task: config.task.clone(),
                    kind: TaskKind::Span,
                    labels: Vec::new(),
                    pairs: None,
                    outputs: 2,
                    train: TrainingSet::questions(
                        &limited(&questions.train, config.limit, config.limit_seed),
                        tokenizer,
                        window,
                        cache,
                    )?,
                    validation,
                    test: None,
                    extra: Vec::new(),
                })
            }
        }
    }

    /// The same sets with what the model's frozen layers say of them.
    ///
    /// # Errors
    /// If there are no frozen layers, or not enough memory.
    pub fn with_prefix(
        self,
        model: &dyn AnyModel,
        config: &RunConfig,
        network: &BertConfig,
        device: &Device,
    ) -> Result<Self> {
        let layers = model.frozen_layers().context("the embeddings are trained: there is no prefix")?;
        let (train, validation) = (self.train.tokens.clone(), self.validation.tokens().clone());
        let bytes = |tokens| FrozenPrefix::bytes(model.head(), layers, tokens, network);
        let needed = bytes(&train) + bytes(&validation);
        if let Some(free) = memory::free() {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            ensure!(
                needed < free / 10 * 9,
                "the cached prefix takes {:.1} GB, {:.1} GB of memory are free; use a limit, or no cache_prefix",
                gigabytes(needed),
                gigabytes(free)
            );
        }
        let how = Inference { network, batch_size: 2 * config.train.batch_size, device };
        let prefix = |tokens| model.prefix(layers, tokens, how);
        let (train, validation) = (prefix(&train)?, prefix(&validation)?);
        Ok(Self { train: self.train.with_prefix(train), validation: self.validation.with_prefix(validation), ..self })
    }
}

/// The examples that a run is judged by.
pub(super) fn validation(
    data: &TaskData,
    config: &RunConfig,
    backbone: &Backbone,
    cache: &TokenCache,
    metrics: &Metrics,
) -> Result<EvaluationSet> {
    let tokenizer = &backbone.tokenizer;
    let kept = |all: &[Example]| limited(all, config.limit_validation, config.limit_seed);
    let set = match data {
        TaskData::Texts(dataset) => {
            EvaluationSet::texts(dataset, &kept(&dataset.validation), tokenizer, config.max_length, cache)?
        }
        TaskData::Questions(questions) => {
            let window = WindowConfig::within(config.max_length);
            let kept = limited(&questions.validation, config.limit_validation, config.limit_seed);
            EvaluationSet::questions(&kept, questions.version, tokenizer, window, cache)?
        }
    };
    Ok(set.with_metrics(metrics))
}

/// The examples that a limit keeps: the same for every seed of training.
pub(crate) fn limited<T: Clone>(all: &[T], limit: Option<usize>, limit_seed: u64) -> Vec<T> {
    match limit {
        Some(limit) => {
            let order = permutation(all.len(), limit_seed, Purpose::Limit);
            order.into_iter().take(limit).map(|example| all[example].clone()).collect()
        }
        None => all.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{lab::Lab, run::resolve};

    #[test]
    fn a_limit_keeps_the_same_examples_for_every_seed_and_others_for_another_limit_seed() {
        let kept = |seed: u64, limit_seed: u64| {
            let keys = json!({"task": "cola", "backbone": "b", "seed": seed, "limit_seed": limit_seed, "limit": 10});
            let keys = keys.as_object().cloned().unwrap_or_default();
            let config = resolve(&Lab::paper(), &keys, &BertConfig::new(32, 2, 2), true).unwrap();
            limited(&(0..100).collect::<Vec<_>>(), config.limit, config.limit_seed)
        };
        assert_eq!((kept(0, 0).len(), kept(0, 0)), (10, kept(1, 0)));
        assert_ne!(kept(0, 0), kept(0, 1));
    }
}
