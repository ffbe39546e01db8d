//! A task made ready for a backbone: word pieces, targets, and how outputs are judged.

use std::{collections::BTreeMap, sync::Arc};

use adapter_core::Insertion;
use bert_backbone::{BatchError, BertConfig, Tokenizer};
use burn::tensor::{Device, Tensor};

use crate::{
    AnswerConfig, Dataset, Example, FrozenPrefix, Metrics, NumberedBatch, Prediction, Question, Scores, SquadVersion,
    Target, TaskKind, TaskModel, TokenCache, TokeniseError, Tokenised, WindowConfig, Windows, best_answers,
    inference::{forward, outputs_from},
    loss, majority_accuracy,
};

/// Why examples make no set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// An example to train on without a target.
    #[error("example {id} of `{task}` has no label to train on")]
    NoTarget {
        /// The task.
        task: String,
        /// The example.
        id: String,
    },
    /// An example with a target of another kind, or with a label that the task does not have.
    #[error("example {id} of `{task}` has {target}, which does not fit a {kind} task with {labels} labels")]
    WrongTarget {
        /// The task.
        task: String,
        /// The example.
        id: String,
        /// What the example has.
        target: Target,
        /// What the task asks for.
        kind: TaskKind,
        /// Number of the task's labels.
        labels: usize,
    },
    /// The texts cannot be tokenised.
    #[error(transparent)]
    Tokenise(#[from] TokeniseError),
}

/// The target of an example, if it has one and it fits the dataset.
fn checked<'a>(dataset: &Dataset, example: &'a Example) -> Result<Option<&'a Target>, SetError> {
    let (kind, labels) = (dataset.kind, dataset.labels.len());
    match &example.target {
        Some(target) if !target.is_of(kind) || !target.is_within(labels) => {
            let (task, id, target) = (dataset.task.clone(), example.id.clone(), target.clone());
            Err(SetError::WrongTarget { task, id, target, kind, labels })
        }
        target => Ok(target.as_ref()),
    }
}

/// What is to be found for each sequence of a training set.
#[derive(Clone, Debug)]
enum Targets {
    Classes(Vec<usize>),
    Scores(Vec<f32>),
    Labels(Vec<Vec<usize>>),
    Spans(Vec<(usize, usize)>),
}

impl Targets {
    fn of(dataset: &Dataset, examples: &[Example]) -> Result<Self, SetError> {
        let (mut classes, mut scores, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for example in examples {
            match checked(dataset, example)? {
                Some(Target::Class(class)) => classes.push(*class),
                Some(Target::Score(score)) => scores.push(*score),
                Some(Target::Labels(found)) => labels.push(found.clone()),
                None => return Err(SetError::NoTarget { task: dataset.task.clone(), id: example.id.clone() }),
            }
        }
        Ok(match dataset.kind {
            TaskKind::Classification => Targets::Classes(classes),
            TaskKind::Regression => Targets::Scores(scores),
            // No target of a text fits a span.
            TaskKind::MultiLabel | TaskKind::Span => Targets::Labels(labels),
        })
    }
}

/// Sequences to train on.
#[derive(Clone, Debug)]
pub struct TrainingSet {
    /// Their word pieces.
    pub tokens: Arc<Tokenised>,
    targets: Targets,
    prefix: Option<Arc<FrozenPrefix>>,
}

impl TrainingSet {
    /// The training set of texts.
    ///
    /// # Errors
    /// If an example has no target or one that does not fit the dataset, or the texts cannot be tokenised.
    pub fn texts(
        dataset: &Dataset,
        examples: &[Example],
        tokenizer: &Tokenizer,
        max_length: usize,
        cache: &TokenCache,
    ) -> Result<Self, SetError> {
        let targets = Targets::of(dataset, examples)?;
        Ok(Self { tokens: Arc::new(cache.texts(examples, tokenizer, max_length)?), targets, prefix: None })
    }

    /// The training set of questions: one sequence for each window.
    ///
    /// # Errors
    /// If the texts cannot be tokenised.
    pub fn questions(
        questions: &[Question],
        tokenizer: &Tokenizer,
        config: WindowConfig,
        cache: &TokenCache,
    ) -> Result<Self, TokeniseError> {
        let windows = cache.windows(questions, tokenizer, config)?;
        let spans = (0..windows.len()).map(|window| windows.target(window)).collect();
        Ok(Self { tokens: Arc::new(windows.tokens().clone()), targets: Targets::Spans(spans), prefix: None })
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is nothing to train on.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The same set with what the model's frozen layers say of it, which are then no longer computed.
    pub fn with_prefix(self, prefix: FrozenPrefix) -> Self {
        Self { prefix: Some(Arc::new(prefix)), ..self }
    }

    /// The outputs of `model` for a batch of these sequences.
    ///
    /// # Shapes
    /// - result: as [`TaskModel::forward`] returns it
    pub fn forward<I: Insertion>(&self, model: &TaskModel<I>, batch: &NumberedBatch) -> Tensor<2> {
        forward(model, batch, self.prefix.as_deref())
    }

    /// The loss of a model's outputs for a batch of these sequences.
    ///
    /// # Shapes
    /// - `scores`: as [`TaskModel::forward`] returns them
    /// - result: `[1]`
    pub fn loss(&self, scores: Tensor<2>, batch: &NumberedBatch) -> Tensor<1> {
        let NumberedBatch { examples, packed } = batch;
        fn pick<T: Clone>(of: &[T], examples: &[usize]) -> Vec<T> {
            examples.iter().map(|&example| of[example].clone()).collect()
        }
        match &self.targets {
            Targets::Classes(classes) => loss::cross_entropy(scores, &pick(classes, examples)),
            Targets::Scores(numbers) => loss::squared_error(scores, &pick(numbers, examples)),
            Targets::Labels(labels) => loss::multi_label(scores, &pick(labels, examples)),
            Targets::Spans(spans) => loss::span(scores, packed, &pick(spans, examples)),
        }
    }
}

/// Examples to score a model on.
#[derive(Clone, Debug)]
pub struct EvaluationSet {
    tokens: Arc<Tokenised>,
    answers: Answers,
    metrics: Metrics,
    prefix: Option<Arc<FrozenPrefix>>,
}

#[derive(Clone, Debug)]
enum Answers {
    Texts { kind: TaskKind, classes: usize, examples: Vec<Example> },
    Questions { questions: Vec<Question>, windows: Box<Windows>, version: SquadVersion },
}

impl EvaluationSet {
    /// Texts with their targets; one without is predicted, but not scored.
    ///
    /// # Errors
    /// If a target does not fit the dataset, or the texts cannot be tokenised.
    pub fn texts(
        dataset: &Dataset,
        examples: &[Example],
        tokenizer: &Tokenizer,
        max_length: usize,
        cache: &TokenCache,
    ) -> Result<Self, SetError> {
        for example in examples {
            checked(dataset, example)?;
        }
        let tokens = cache.texts(examples, tokenizer, max_length)?;
        let (kind, classes) = (dataset.kind, dataset.labels.len());
        Ok(Self::new(tokens, Answers::Texts { kind, classes, examples: examples.to_vec() }))
    }

    /// Questions with their answers.
    ///
    /// # Errors
    /// If the texts cannot be tokenised.
    pub fn questions(
        questions: &[Question],
        version: SquadVersion,
        tokenizer: &Tokenizer,
        config: WindowConfig,
        cache: &TokenCache,
    ) -> Result<Self, TokeniseError> {
        let windows = cache.windows(questions, tokenizer, config)?;
        let tokens = windows.tokens().clone();
        let (questions, windows) = (questions.to_vec(), Box::new(windows));
        Ok(Self::new(tokens, Answers::Questions { questions, windows, version }))
    }

    fn new(tokens: Tokenised, answers: Answers) -> Self {
        Self { tokens: Arc::new(tokens), answers, metrics: Metrics::default(), prefix: None }
    }

    /// The same set, scored by `metrics` in place of the built-in ones.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        match &self.answers {
            Answers::Texts { examples, .. } => examples.len(),
            Answers::Questions { questions, .. } => questions.len(),
        }
    }

    /// Whether there is nothing to score.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All metrics of the task for `model`.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    pub fn evaluate<I: Insertion>(
        &self,
        model: &TaskModel<I>,
        config: &BertConfig,
        batch_size: usize,
        device: &Device,
    ) -> Result<Scores, BatchError> {
        let prefix = self.prefix.as_deref();
        Ok(self.score(&outputs_from(prefix, model, &self.tokens, config, batch_size, device)?))
    }

    /// The same set with what the model's frozen layers say of it, which are then no longer computed.
    pub fn with_prefix(self, prefix: FrozenPrefix) -> Self {
        Self { prefix: Some(Arc::new(prefix)), ..self }
    }

    /// The accuracy of always naming the most frequent class, for a classification.
    pub fn majority_accuracy(&self) -> Option<f64> {
        match &self.answers {
            Answers::Texts { kind: TaskKind::Classification, examples, .. } => Some(majority_accuracy(examples)),
            _ => None,
        }
    }

    /// The scores of the trivial answer that `train` suggests: its most frequent class, its mean, the labels that most of its
    /// examples have; for spans, no answer.
    pub fn trivial_scores(&self, train: &TrainingSet) -> Scores {
        let constant = match &train.targets {
            Targets::Classes(classes) => {
                let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
                classes.iter().for_each(|&class| *counts.entry(class).or_default() += 1);
                // The lowest of equally frequent ones.
                let most = counts.iter().rev().max_by_key(|(_, count)| **count).map_or(0, |(&class, _)| class);
                Prediction::Class(most, Vec::new())
            }
            Targets::Scores(scores) => {
                let sum: f64 = scores.iter().copied().map(f64::from).sum();
                Prediction::Score((sum / scores.len().max(1) as f64) as f32)
            }
            Targets::Labels(all) => {
                let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
                all.iter().flatten().for_each(|&label| *counts.entry(label).or_default() += 1);
                let usual = counts.into_iter().filter(|(_, count)| 2 * count > all.len()).map(|(label, _)| label);
                Prediction::Labels(usual.collect(), Vec::new())
            }
            Targets::Spans(_) => Prediction::Score(0.0),
        };
        match &self.answers {
            Answers::Texts { kind, classes, examples } => {
                self.metrics.evaluate(*kind, *classes, &vec![constant; examples.len()], examples)
            }
            Answers::Questions { questions, .. } => {
                self.metrics.evaluate_answers(&vec![String::new(); questions.len()], questions)
            }
        }
    }

    /// The word pieces of all sequences.
    pub fn tokens(&self) -> &Arc<Tokenised> {
        &self.tokens
    }

    /// All metrics of the task for a model's outputs, one row for each sequence. Where an output is no finite number, no score is
    /// one either.
    pub fn score(&self, rows: &[Vec<f32>]) -> Scores {
        let mut scores = self.scores_of(rows);
        if !rows.iter().flatten().all(|output| output.is_finite()) {
            scores.values_mut().for_each(|score| *score = f64::NAN);
        }
        scores
    }

    fn scores_of(&self, rows: &[Vec<f32>]) -> Scores {
        match &self.answers {
            Answers::Texts { kind, classes, examples } => {
                let predictions: Vec<_> = rows.iter().map(|row| Prediction::from_outputs(*kind, row)).collect();
                self.metrics.evaluate(*kind, *classes, &predictions, examples)
            }
            Answers::Questions { questions, windows, version } => {
                let scores: Vec<_> = rows.iter().map(|row| row.as_chunks::<2>().0.to_vec()).collect();
                let config = AnswerConfig { version: *version, ..AnswerConfig::default() };
                self.metrics.evaluate_answers(&best_answers(questions, windows, &scores, config), questions)
            }
        }
    }
}
