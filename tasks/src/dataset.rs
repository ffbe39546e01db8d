//! Examples of a task, divided into train, validation and test.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// What a task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// One class of several.
    Classification,
    /// A number.
    Regression,
    /// Any of several labels.
    MultiLabel,
    /// A span of a text that answers a question.
    Span,
}

impl TaskKind {
    const NAMES: [(TaskKind, &'static str); 4] = [
        (TaskKind::Classification, "classification"),
        (TaskKind::Regression, "regression"),
        (TaskKind::MultiLabel, "multi-label"),
        (TaskKind::Span, "span"),
    ];

    /// The metric to choose by where the task names no other.
    pub const fn metric(self) -> &'static str {
        match self {
            TaskKind::Classification => "accuracy",
            TaskKind::Regression => "spearman",
            TaskKind::MultiLabel => "macro_f1",
            TaskKind::Span => "answer_f1",
        }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().find(|(kind, _)| kind == self);
        f.pad(known.map_or("", |(_, name)| name))
    }
}

/// A name that is no kind of task.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind of task `{0}` (known: classification, regression, multi-label, span)")]
pub struct UnknownKind(String);

impl FromStr for TaskKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::NAMES.iter().find(|(_, known)| *known == name);
        known.map(|&(kind, _)| kind).ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// A text, or a pair of texts, and what is to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The example's name in its file: its index, or its line.
    pub id: String,
    /// The text.
    pub text: String,
    /// The second text of a pair.
    pub pair: Option<String>,
    /// What is to be found; `None` where the file does not tell (GLUE's test sets).
    pub target: Option<Target>,
}

impl Example {
    /// A text and what is to be found (`None` if that is not known). A [`Dataset`]'s constructor numbers it.
    pub fn new(text: impl Into<String>, target: impl Into<Option<Target>>) -> Self {
        Self { id: String::new(), text: text.into(), pair: None, target: target.into() }
    }

    /// A pair of texts and what is to be found: see [`Example::new`].
    pub fn pair(text: impl Into<String>, pair: impl Into<String>, target: impl Into<Option<Target>>) -> Self {
        Self { pair: Some(pair.into()), ..Self::new(text, target) }
    }
}

/// What is to be found for a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A class, as its place among the task's labels.
    Class(usize),
    /// A number.
    Score(f32),
    /// Labels, as their places among the task's labels.
    Labels(Vec<usize>),
}

impl Target {
    /// Whether it is what a task of `kind` asks for.
    pub(crate) fn is_of(&self, kind: TaskKind) -> bool {
        match self {
            Target::Class(_) => kind == TaskKind::Classification,
            Target::Score(_) => kind == TaskKind::Regression,
            Target::Labels(_) => kind == TaskKind::MultiLabel,
        }
    }

    /// Whether all its labels are below `labels`.
    pub(crate) fn is_within(&self, labels: usize) -> bool {
        match self {
            Target::Class(class) => *class < labels,
            Target::Score(_) => true,
            Target::Labels(found) => found.iter().all(|&label| label < labels),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Class(class) => write!(f, "class {class}"),
            Target::Score(score) => write!(f, "score {score}"),
            Target::Labels(labels) => write!(f, "labels {labels:?}"),
        }
    }
}

/// A task's examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The task's name.
    pub task: String,
    /// What it asks for.
    pub kind: TaskKind,
    /// The names of its classes or labels; empty for a number.
    pub labels: Vec<String>,
    /// Examples to train on.
    pub train: Vec<Example>,
    /// Examples to choose by.
    pub validation: Vec<Example>,
    /// Examples to report on; without targets, or none at all, where the source keeps them.
    pub test: Vec<Example>,
    /// Further validation sets by task name, scored but never chosen by: MNLI's mismatched one.
    pub extra: Vec<(String, Vec<Example>)>,
    /// What a user should know: rows left out, sizes that differ from the paper's.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Texts with one class of `labels` each.
    ///
    /// This and the other constructors number the examples of a part that have no id, from 0.
    pub fn classification<L: Into<String>>(
        task: impl Into<String>,
        labels: impl IntoIterator<Item = L>,
        train: impl IntoIterator<Item = Example>,
        validation: impl IntoIterator<Item = Example>,
    ) -> Self {
        let labels = labels.into_iter().map(L::into).collect();
        Self {
            task: task.into(),
            kind: TaskKind::Classification,
            labels,
            train: numbered(train),
            validation: numbered(validation),
            test: Vec::new(),
            extra: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Texts with a number each.
    pub fn regression(
        task: impl Into<String>,
        train: impl IntoIterator<Item = Example>,
        validation: impl IntoIterator<Item = Example>,
    ) -> Self {
        let none: [String; 0] = [];
        Self { kind: TaskKind::Regression, ..Self::classification(task, none, train, validation) }
    }

    /// Texts with any of `labels` each.
    pub fn multi_label<L: Into<String>>(
        task: impl Into<String>,
        labels: impl IntoIterator<Item = L>,
        train: impl IntoIterator<Item = Example>,
        validation: impl IntoIterator<Item = Example>,
    ) -> Self {
        Self { kind: TaskKind::MultiLabel, ..Self::classification(task, labels, train, validation) }
    }

    /// The same dataset with examples to report on.
    pub fn with_test(self, test: impl IntoIterator<Item = Example>) -> Self {
        Self { test: numbered(test), ..self }
    }

    /// Number of a head's outputs for this task.
    pub fn outputs(&self) -> usize {
        match self.kind {
            TaskKind::Classification | TaskKind::MultiLabel => self.labels.len(),
            TaskKind::Regression => 1,
            TaskKind::Span => 2,
        }
    }

    /// How many of `examples` have each label.
    pub fn label_counts(&self, examples: &[Example]) -> Vec<(&str, usize)> {
        let mut counts: Vec<_> = self.labels.iter().map(|label| (label.as_str(), 0)).collect();
        for example in examples {
            match &example.target {
                Some(Target::Class(class)) => counts[*class].1 += 1,
                Some(Target::Labels(labels)) => labels.iter().for_each(|&label| counts[label].1 += 1),
                Some(Target::Score(_)) | None => {}
            }
        }
        counts
    }
}

/// Examples with their place in place of an empty id.
fn numbered(examples: impl IntoIterator<Item = Example>) -> Vec<Example> {
    let number = |(place, mut example): (usize, Example)| {
        if example.id.is_empty() {
            example.id = place.to_string();
        }
        example
    };
    examples.into_iter().enumerate().map(number).collect()
}

/// The accuracy of always naming the most frequent class of `examples`: the floor of the paper's ablation (Fig. 6).
/// 0 without classes.
pub fn majority_accuracy(examples: &[Example]) -> f64 {
    let mut counts = BTreeMap::new();
    for example in examples {
        if let Some(Target::Class(class)) = example.target {
            *counts.entry(class).or_insert(0usize) += 1;
        }
    }
    let total: usize = counts.values().sum();
    counts.into_values().max().map_or(0.0, |most| most as f64 / total as f64)
}
