//! Training without a command line: from a backbone and a dataset to a model.

use std::{path::Path, sync::Arc};

use adapter_core::{Init, Method, ParamCount, TaskFile, TaskInfo};
use analysis::Scored;
use anyhow::{Context, Result, anyhow, ensure};
use bert_backbone::{Backbone, BertConfig, Tokenizer};
use burn::{module::Module, tensor::Device};
use serde_json::Value;
use tasks::{
    Dataset, EvaluationSet, Example, FrozenPrefix, Head, HeadKind, Heads, Metrics, Prediction, Scores, TaskModel,
    TokenCache, TrainingSet, outputs,
};

use super::{
    Adam, CheckpointPolicy, Optimizer, RunError, Silent, TrainConfig, Trained, Training, TrainingData, Watch, train,
};
use crate::device::Precision;

/// Trains a method on a dataset.
///
/// ```
/// # use bert_backbone::RandomCheckpoint;
/// use adapter_core::AdapterConfig;
/// use bert_backbone::Backbone;
/// use burn::tensor::Device;
/// use experiments::Trainer;
/// use tasks::FileTask;
///
/// # fn main() -> anyhow::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # RandomCheckpoint::tiny().write(&folder.path().join("bert"), &Device::flex())?;
/// # let rows: String = (0..40).map(|i| ["the cat sat,no\n", "a dog sat,yes\n"][i % 2]).collect();
/// # std::fs::write(folder.path().join("dogs.csv"), format!("text,label\n{rows}"))?;
/// let backbone = Backbone::load(&folder.path().join("bert"), &Device::flex())?;
/// let dogs = FileTask::new(folder.path().join("dogs.csv")).load()?;
///
/// let model = Trainer::new(&backbone, &dogs, AdapterConfig::new(8))
///     .learning_rate(1e-2)
///     .epochs(2)
///     .batch_size(8)
///     .train()?;
/// model.save(&folder.path().join("dogs.safetensors"))?;
///
/// println!("{:?}", model.scores());
/// println!("{}", model.predict(&["the dog sat on the mat"])?[0].label);
/// # Ok(())
/// # }
/// ```
pub struct Trainer<'a, M: Method> {
    backbone: &'a Backbone,
    dataset: &'a Dataset,
    method: M,
    head: Option<Arc<dyn HeadKind>>,
    optimizer: Box<dyn Optimizer>,
    config: TrainConfig,
    max_length: usize,
    metric: Option<String>,
    metrics: Metrics,
    device: Device,
}

impl<'a, M: Method> Trainer<'a, M> {
    /// A trainer of `method` on `dataset`, with the paper's settings.
    pub fn new(backbone: &'a Backbone, dataset: &'a Dataset, method: M) -> Self {
        Self {
            backbone,
            dataset,
            method,
            head: None,
            optimizer: Box::new(Adam::default()),
            config: TrainConfig::default(),
            max_length: backbone.config.max_position_embeddings.min(128),
            metric: None,
            metrics: Metrics::default(),
            device: backbone.bert.devices().into_iter().next().unwrap_or_else(Device::flex),
        }
    }

    /// The highest learning rate.
    pub fn learning_rate(mut self, rate: f64) -> Self {
        self.config.learning_rate = rate;
        self
    }

    /// Passes over the training set.
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.config.epochs = epochs;
        self
    }

    /// Examples of a step.
    pub fn batch_size(mut self, examples: usize) -> Self {
        self.config.batch_size = examples;
        self
    }

    /// Decides initial values, order and dropout.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Longest sequence in tokens.
    pub fn max_length(mut self, tokens: usize) -> Self {
        self.max_length = tokens;
        self
    }

    /// Everything else of the configuration.
    pub fn config(mut self, change: impl FnOnce(&mut TrainConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Trains with this head.
    pub fn head(mut self, head: impl HeadKind + 'static) -> Self {
        self.head = Some(Arc::new(head));
        self
    }

    /// Trains with this optimiser.
    pub fn optimizer(mut self, optimizer: impl Optimizer + 'static) -> Self {
        self.optimizer = Box::new(optimizer);
        self
    }

    /// Chooses by the metric called `name`, which is one of `metrics`.
    pub fn metric(mut self, name: &str, metrics: Metrics) -> Self {
        (self.metric, self.metrics) = (Some(name.to_owned()), metrics);
        self
    }

    /// Trains, unwatched.
    ///
    /// # Errors
    /// If the settings make no sense or training fails.
    pub fn train(self) -> Result<TrainedModel<M>, RunError> {
        self.train_watched(&mut Silent)
    }

    /// Trains; `watch` is told of every step and evaluation.
    ///
    /// # Errors
    /// If the settings make no sense or training fails.
    pub fn train_watched(self, watch: &mut dyn Watch) -> Result<TrainedModel<M>, RunError> {
        let Self { backbone, dataset, method, config, max_length, .. } = self;
        config.check()?;
        let run_keys = method.run_keys();
        let usual = run_keys.get("head").and_then(Value::as_str).unwrap_or("cls");
        let head = match self.head {
            Some(head) => head,
            None => Heads::default().find(usual).map_err(anyhow::Error::from)?,
        };
        if head.per_token() {
            return Err(anyhow!(
                "the head `{}` answers for every token; {} needs one answer",
                head.name(),
                dataset.kind
            )
            .into());
        }
        let metric = self.metric.as_deref().unwrap_or(dataset.kind.metric());
        self.metrics.find_for(metric, dataset.kind, dataset.labels.len()).map_err(anyhow::Error::from)?;
        let (device, init) = (self.device.autodiff(), Init::new(config.seed));
        let info = TaskInfo {
            task: dataset.task.clone(),
            kind: dataset.kind.to_string(),
            labels: dataset.labels.clone(),
            pairs: Some(dataset.train.iter().any(|example| example.pair.is_some())),
            head: head.name().to_owned(),
            max_length,
            method: method.info(),
            backbone: backbone.id(),
            origin: backbone.folder.iter().map(|f| ("backbone".to_owned(), f.display().to_string().into())).collect(),
        };
        let head = Head::new(&backbone.config.shape(), dataset.outputs(), head, init, &device);
        let model = TaskModel::tuned(&method, backbone.bert.clone().train(), head, init, &device);
        let model = model.context("cannot tune this backbone")?;
        let selection = method.select(&model);
        let model = selection.apply(model);
        let (tokenizer, cache) = (&backbone.tokenizer, TokenCache::none());
        let train_set = TrainingSet::texts(dataset, &dataset.train, tokenizer, max_length, &cache);
        let validation = EvaluationSet::texts(dataset, &dataset.validation, tokenizer, max_length, &cache);
        let mut train_set = train_set.context("the training set")?;
        let mut validation = validation.context("the validation set")?.with_metrics(&self.metrics);
        if run_keys.get("cache_prefix") == Some(&Value::Bool(true)) {
            let layers = model.frozen_layers(&selection).context("the embeddings are trained: there is no prefix")?;
            let (frozen, plain) = (model.valid(), device.clone().inner());
            let prefix = |tokens| FrozenPrefix::compute(&frozen, layers, tokens, &backbone.config, 64, &plain);
            let of_train = prefix(&train_set.tokens).context("the training set")?;
            let of_validation = prefix(validation.tokens()).context("the validation set")?;
            (train_set, validation) = (train_set.with_prefix(of_train), validation.with_prefix(of_validation));
        }
        let trained = train(
            model.clone(),
            &selection,
            &Training {
                info: &info,
                data: TrainingData { train: &train_set, validation: &validation, metric, network: &backbone.config },
                config: &config,
                optimizer: &*self.optimizer,
                devices: std::slice::from_ref(&device),
                precision: Precision::F32,
                probe_every: None,
            },
            CheckpointPolicy::default(),
            watch,
        )?;
        let count = ParamCount::of(&model, &method);
        let (Some(file), Some(kept)) = (trained.file.clone(), trained.kept(config.keep).cloned()) else {
            let step = trained.diverged.unwrap_or_default();
            return Err(anyhow!("the loss is not finite at step {step}: try a lower learning rate").into());
        };
        let applied = file.clone().apply(model, &selection, &backbone.id());
        Ok(TrainedModel {
            // Without gradients: predictions must not pay for a graph that nobody walks back.
            model: applied.context("the trained model")?.valid(),
            file,
            kept,
            trained,
            count,
            kind: dataset.kind,
            network: backbone.config.clone(),
            tokenizer: backbone.tokenizer.clone(),
            max_length,
            metrics: self.metrics,
        })
    }
}

/// A trained model, ready to predict.
pub struct TrainedModel<M: Method> {
    model: TaskModel<Option<M::Insertion>>,
    file: TaskFile,
    kept: Scored,
    trained: Trained,
    count: ParamCount,
    kind: tasks::TaskKind,
    network: BertConfig,
    tokenizer: Tokenizer,
    max_length: usize,
    metrics: Metrics,
}

/// What a model says of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPrediction {
    /// The class's name, the score, or the labels with commas between them.
    pub label: String,
    /// All that the head says.
    pub prediction: Prediction,
}

impl<M: Method> TrainedModel<M> {
    /// Its scores on the validation set, by metric.
    pub fn scores(&self) -> &Scores {
        &self.kept.validation
    }

    /// Everything that training brought.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// How many parameters were trained.
    pub fn params(&self) -> &ParamCount {
        &self.count
    }

    /// The trained tensors with what they belong to.
    pub fn file(&self) -> &TaskFile {
        &self.file
    }

    /// Writes the task file: exactly what was trained, bound to its backbone. `predict`, `eval` and `ablate` of a program that
    /// has the method take it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        Ok(self.file.write(path)?)
    }

    /// Predictions for texts.
    ///
    /// # Errors
    /// If the model was trained on pairs, or a text cannot be tokenised.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<TextPrediction>> {
        let texts: Vec<Example> = texts.iter().map(|text| Example::new(*text, None)).collect();
        self.predict_examples(&texts)
    }

    /// Predictions for pairs of texts.
    ///
    /// # Errors
    /// If the model was trained on single texts, or a text cannot be tokenised.
    pub fn predict_pairs(&self, pairs: &[(&str, &str)]) -> Result<Vec<TextPrediction>> {
        let pairs: Vec<Example> = pairs.iter().map(|(text, pair)| Example::pair(*text, *pair, None)).collect();
        self.predict_examples(&pairs)
    }

    fn predict_examples(&self, examples: &[Example]) -> Result<Vec<TextPrediction>> {
        let info = &self.file.info;
        let fits = |example: &Example| info.pairs.is_none_or(|pairs| pairs == example.pair.is_some());
        let form = if info.pairs == Some(true) { "pairs of texts" } else { "single texts" };
        ensure!(examples.iter().all(fits), "`{}` is about {form}", info.task);
        let name = |label: &usize| info.labels.get(*label).cloned().unwrap_or(label.to_string());
        let predict = |row: Vec<f32>| {
            let prediction = Prediction::from_outputs(self.kind, &row);
            let label = match &prediction {
                Prediction::Class(class, _) => name(class),
                Prediction::Score(score) => score.to_string(),
                Prediction::Labels(labels, _) => labels.iter().map(name).collect::<Vec<_>>().join(", "),
            };
            TextPrediction { label, prediction }
        };
        Ok(self.outputs(examples)?.into_iter().map(predict).collect())
    }

    /// Scores on examples of the dataset it was trained on.
    ///
    /// # Errors
    /// If a text cannot be tokenised.
    pub fn evaluate(&self, dataset: &Dataset, examples: &[Example]) -> Result<Scores> {
        let cache = TokenCache::none();
        let set = EvaluationSet::texts(dataset, examples, &self.tokenizer, self.max_length, &cache)?;
        Ok(set.with_metrics(&self.metrics).score(&self.outputs(examples)?))
    }

    fn outputs(&self, examples: &[Example]) -> Result<Vec<Vec<f32>>> {
        let tokens = TokenCache::none().texts(examples, &self.tokenizer, self.max_length)?;
        let device = self.model.devices().into_iter().next().unwrap_or_else(Device::flex);
        Ok(outputs(&self.model, &Arc::new(tokens), &self.network, 64, &device)?)
    }
}

#[cfg(test)]
mod tests {
    use adapter_core::AdapterConfig;
    use bert_backbone::RandomCheckpoint;
    use tasks::Target;

    use super::*;

    #[test]
    fn a_trained_model_predicts_without_gradients_and_refuses_pairs() {
        let folder = tempfile::tempdir().unwrap();
        RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
        // Even on a backbone that was loaded for training.
        let backbone = Backbone::load(folder.path(), &Device::flex().autodiff()).unwrap();
        let example = |i: usize| Example::new(["the cat", "a dog"][i % 2], Target::Class(i % 2));
        let dataset = Dataset::classification("dogs", ["no", "yes"], (0..8).map(example), (0..4).map(example));
        let model = Trainer::new(&backbone, &dataset, AdapterConfig::new(2)).epochs(1).train().unwrap();
        assert!(model.model.devices().iter().all(|device| !device.is_autodiff()));
        assert!(model.predict(&["a dog"]).is_ok());
        let refused = model.predict_pairs(&[("a", "b")]).unwrap_err().to_string();
        assert!(refused.contains("is about single texts"), "{refused}");
        assert_eq!(model.file().info.origin["backbone"], folder.path().display().to_string());
    }
}
