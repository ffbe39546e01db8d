//! Metrics by name: the built-in ones, and a program's own beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, slice,
    sync::Arc,
};

use crate::{
    ConfusionMatrix, Example, Prediction, Question, Target, TaskKind, nearest, pearson, score_answer,
    source::did_you_mean, spearman,
};

/// Scores by the names of their metrics.
pub type Scores = BTreeMap<String, f64>;

/// Predictions and what was to be found, as a metric takes them.
///
/// Both lists have the same length and are of the task's kind; examples without a target are left out.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// What the task asks for.
    pub kind: TaskKind,
    /// What the model says.
    pub predictions: &'a [Prediction],
    /// What is right.
    pub targets: &'a [Target],
    /// Number of the task's classes or labels; 0 for a number.
    pub classes: usize,
}

impl Judged<'_> {
    /// How often each class was predicted as each, for a classification; empty otherwise.
    ///
    /// # Panics
    /// If a class is not below `classes`.
    pub fn confusion_matrix(&self) -> ConfusionMatrix {
        let class = |(prediction, target): (&Prediction, &Target)| match (prediction, target) {
            (Prediction::Class(predicted, _), Target::Class(gold)) => Some((*predicted, *gold)),
            _ => None,
        };
        let (predicted, gold): (Vec<_>, Vec<_>) = self.pairs().filter_map(class).unzip();
        ConfusionMatrix::new(&predicted, &gold, self.classes)
    }

    /// Predicted and right numbers, for a regression; empty otherwise.
    pub fn numbers(&self) -> (Vec<f64>, Vec<f64>) {
        let number = |(prediction, target): (&Prediction, &Target)| match (prediction, target) {
            (Prediction::Score(predicted), Target::Score(gold)) => Some((f64::from(*predicted), f64::from(*gold))),
            _ => None,
        };
        self.pairs().filter_map(number).unzip()
    }

    /// Predicted and right labels of each example; a class is one label.
    pub fn label_sets(&self) -> impl Iterator<Item = (&[usize], &[usize])> {
        self.pairs().filter_map(|(prediction, target)| match (prediction, target) {
            (Prediction::Class(predicted, _), Target::Class(gold)) => {
                Some((slice::from_ref(predicted), slice::from_ref(gold)))
            }
            (Prediction::Labels(predicted, _), Target::Labels(gold)) => Some((&predicted[..], &gold[..])),
            _ => None,
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&Prediction, &Target)> {
        self.predictions.iter().zip(self.targets)
    }
}

/// A score by name. The larger, the better: training keeps the epoch that scores most.
///
/// ```
/// use tasks::{Metric, Metrics, TaskKind};
///
/// let mut metrics = Metrics::default();
/// let balanced = Metric::new("balanced_accuracy", TaskKind::Classification, |judged| {
///     let matrix = judged.confusion_matrix();
///     let recall = |class| matrix.count(class, class) as f64 / matrix.gold()[class].max(1) as f64;
///     (0..judged.classes).map(recall).sum::<f64>() / judged.classes as f64
/// });
/// metrics.add(balanced).unwrap();
/// assert!(metrics.find("balanced_accuracy").is_ok());
/// ```
#[derive(Clone)]
pub struct Metric {
    name: String,
    kinds: Vec<TaskKind>,
    classes: Option<usize>,
    rule: Rule,
}

#[derive(Clone)]
enum Rule {
    Texts(Arc<dyn Fn(&Judged<'_>) -> f64 + Send + Sync>),
    /// The metric is the mean over questions.
    Answers(Arc<AnswerRule>),
}

/// What one answer scores, beside the texts that are right.
type AnswerRule = dyn Fn(&str, &[&str]) -> f64 + Send + Sync;

impl Metric {
    /// A metric of texts with a class, a score or labels. Answers to questions have [`Metric::answers`].
    pub fn new(
        name: impl Into<String>,
        kind: TaskKind,
        judge: impl Fn(&Judged<'_>) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), kinds: vec![kind], classes: None, rule: Rule::Texts(Arc::new(judge)) }
    }

    /// A metric of answers to questions: the mean of what `judge` says of an answer and the texts that are right. None is
    /// right where a question has no answer; the model then should say the empty text.
    pub fn answers(name: impl Into<String>, judge: impl Fn(&str, &[&str]) -> f64 + Send + Sync + 'static) -> Self {
        Self { name: name.into(), kinds: vec![TaskKind::Span], classes: None, rule: Rule::Answers(Arc::new(judge)) }
    }

    /// The same metric for tasks of `kind` too.
    pub fn also(mut self, kind: TaskKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The same metric for tasks with this number of classes alone.
    pub fn for_classes(self, classes: usize) -> Self {
        Self { classes: Some(classes), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a task of `kind` with `classes` classes or labels has this metric.
    pub fn applies_to(&self, kind: TaskKind, classes: usize) -> bool {
        self.kinds.contains(&kind) && self.classes.is_none_or(|wanted| wanted == classes)
    }
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kinds, classes, .. } = self;
        let mut shown = f.debug_struct("Metric");
        shown.field("name", name).field("kinds", kinds).field("classes", classes).finish_non_exhaustive()
    }
}

/// Why there is no such metric.
#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    /// No metric has that name.
    #[error("unknown metric `{name}`{}; known are {}", did_you_mean(nearest), known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The known name that is most like it.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A metric without a name.
    #[error("a metric needs a name")]
    Unnamed,
    /// Another metric has the name.
    #[error("there is a metric `{0}` already")]
    Taken(String),
    /// A metric of texts for span tasks, or the other way round.
    #[error("metric `{0}` cannot judge both texts and answers; `Metric::answers` makes one for answers")]
    Kinds(String),
    /// A metric of other tasks.
    #[error("the metric `{name}` says nothing of {kind} with {classes} labels")]
    Unfit {
        /// Its name.
        name: String,
        /// The task's kind.
        kind: TaskKind,
        /// The task's labels.
        classes: usize,
    },
}

/// The metrics that tasks are scored by. The default are the built-in ones:
///
/// | name | kind of task | what it is |
/// |---|---|---|
/// | `accuracy` | classification, multi-label | share of examples with the right class, or with just the right labels |
/// | `f1` | classification with 2 classes | F1 of class 1 |
/// | `macro_f1` | classification, multi-label | unweighted mean F1 of the classes or labels that occur |
/// | `matthews` | classification | Matthews correlation |
/// | `pearson` | regression | Pearson correlation |
/// | `spearman` | regression | Spearman rank correlation |
/// | `exact_match` | span | share of answers that match exactly, after SQuAD's normalisation |
/// | `answer_f1` | span | mean F1 of the answers' words, after SQuAD's normalisation |
#[derive(Clone, Debug)]
pub struct Metrics {
    metrics: Vec<Metric>,
}

impl Default for Metrics {
    fn default() -> Self {
        use TaskKind::{Classification, MultiLabel, Regression};
        let correlation = |name, of: fn(&[f64], &[f64]) -> f64| {
            Metric::new(name, Regression, move |judged| {
                let (predicted, gold) = judged.numbers();
                of(&predicted, &gold)
            })
        };
        let metrics = vec![
            Metric::new("accuracy", Classification, accuracy).also(MultiLabel),
            Metric::new("f1", Classification, |judged| judged.confusion_matrix().f1(1)).for_classes(2),
            Metric::new("macro_f1", Classification, macro_f1).also(MultiLabel),
            Metric::new("matthews", Classification, |judged| judged.confusion_matrix().matthews()),
            correlation("pearson", pearson),
            correlation("spearman", spearman),
            Metric::answers("exact_match", |answer, golds| score_answer(answer, golds).0),
            Metric::answers("answer_f1", |answer, golds| score_answer(answer, golds).1),
        ];
        Self { metrics }
    }
}

impl Metrics {
    /// Adds a metric.
    ///
    /// # Errors
    /// If it has no name, another has its name, or it is to judge both texts and answers.
    pub fn add(&mut self, metric: Metric) -> Result<(), MetricError> {
        let judges_answers = matches!(metric.rule, Rule::Answers(_));
        if metric.name.is_empty() {
            return Err(MetricError::Unnamed);
        }
        if self.names().any(|name| name == metric.name) {
            return Err(MetricError::Taken(metric.name));
        }
        if metric.kinds.iter().any(|&kind| (kind == TaskKind::Span) != judges_answers) {
            return Err(MetricError::Kinds(metric.name));
        }
        self.metrics.push(metric);
        Ok(())
    }

    /// The metric called `name`.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn find(&self, name: &str) -> Result<&Metric, MetricError> {
        self.metrics.iter().find(|metric| metric.name == name).ok_or_else(|| {
            let nearest = nearest(name, self.names()).map(str::to_owned);
            MetricError::Unknown { name: name.to_owned(), nearest, known: self.names().map(str::to_owned).collect() }
        })
    }

    /// The metric called `name`, for tasks of this kind with so many classes or labels.
    ///
    /// # Errors
    /// If there is none, or it is for other tasks.
    pub fn find_for(&self, name: &str, kind: TaskKind, classes: usize) -> Result<&Metric, MetricError> {
        let metric = self.find(name)?;
        let unfit = || MetricError::Unfit { name: name.to_owned(), kind, classes };
        if metric.applies_to(kind, classes) { Ok(metric) } else { Err(unfit()) }
    }

    /// The names of all metrics.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(Metric::name)
    }

    /// All metrics of a kind of task for predictions of `examples`; those without a target are left out.
    ///
    /// # Panics
    /// If there are not as many predictions as examples, or a class is not below `classes`.
    pub fn evaluate(&self, kind: TaskKind, classes: usize, predictions: &[Prediction], examples: &[Example]) -> Scores {
        assert_eq!(predictions.len(), examples.len(), "one prediction for each example");
        let judged = |(prediction, example): (&Prediction, &Example)| {
            let target = example.target.as_ref()?;
            (prediction.is_of(kind) && target.is_of(kind)).then(|| (prediction.clone(), target.clone()))
        };
        let (predictions, targets): (Vec<_>, Vec<_>) = predictions.iter().zip(examples).filter_map(judged).unzip();
        let judged = Judged { kind, predictions: &predictions, targets: &targets, classes };
        self.scores(kind, classes, |rule| match rule {
            Rule::Texts(judge) => Some(judge(&judged)),
            Rule::Answers(_) => None,
        })
    }

    /// All metrics of answers to `questions`.
    ///
    /// # Panics
    /// If there are not as many answers as questions.
    pub fn evaluate_answers(&self, answers: &[String], questions: &[Question]) -> Scores {
        assert_eq!(answers.len(), questions.len(), "one answer for each question");
        self.scores(TaskKind::Span, 0, |rule| match rule {
            Rule::Texts(_) => None,
            Rule::Answers(judge) => {
                let score = |(answer, question): (&String, &Question)| {
                    let golds: Vec<&str> = question.answers.iter().map(|gold| gold.text.as_str()).collect();
                    judge(answer, &golds)
                };
                let sum = answers.iter().zip(questions).map(score).fold(0.0, |sum, score| sum + score);
                Some(sum / questions.len().max(1) as f64)
            }
        })
    }

    fn scores(&self, kind: TaskKind, classes: usize, score: impl Fn(&Rule) -> Option<f64>) -> Scores {
        let applying = self.metrics.iter().filter(|metric| metric.applies_to(kind, classes));
        applying.filter_map(|metric| Some((metric.name.clone(), score(&metric.rule)?))).collect()
    }
}

/// The share of examples with the right class, or with just the right labels.
fn accuracy(judged: &Judged<'_>) -> f64 {
    let (mut right, mut total) = (0usize, 0usize);
    for (predicted, gold) in judged.label_sets() {
        let mut gold = gold.to_vec();
        gold.sort_unstable();
        right += usize::from(predicted == gold);
        total += 1;
    }
    right as f64 / total.max(1) as f64
}

/// The mean F1 of the classes or labels that occur. Every label of several is a yes-or-no question of its own.
fn macro_f1(judged: &Judged<'_>) -> f64 {
    if judged.kind == TaskKind::Classification {
        return judged.confusion_matrix().macro_f1();
    }
    let mut counts = vec![(0usize, 0usize); judged.classes];
    for (predicted, gold) in judged.label_sets() {
        let [predicted, gold] = [predicted, gold].map(|labels| labels.iter().copied().collect::<BTreeSet<usize>>());
        predicted.iter().chain(&gold).for_each(|&label| counts[label].1 += 1);
        predicted.intersection(&gold).for_each(|&label| counts[label].0 += 1);
    }
    let occurring: Vec<_> = counts.into_iter().filter(|(_, either)| *either > 0).collect();
    let f1: f64 = occurring.iter().map(|&(common, either)| 2.0 * common as f64 / either as f64).sum();
    f1 / occurring.len().max(1) as f64
}
