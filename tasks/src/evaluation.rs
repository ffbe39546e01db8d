//! A network's outputs made into predictions, and predictions into scores.

use crate::{Example, Metrics, Question, Scores, TaskKind};

/// What a model says of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// A class, with the probability of each.
    Class(usize, Vec<f32>),
    /// A number.
    Score(f32),
    /// Labels, with the probability of each.
    Labels(Vec<usize>, Vec<f32>),
}

impl Prediction {
    /// Reads one row of a head's outputs.
    pub fn from_outputs(kind: TaskKind, outputs: &[f32]) -> Self {
        match kind {
            TaskKind::Regression | TaskKind::Span => Prediction::Score(outputs.first().copied().unwrap_or_default()),
            TaskKind::Classification => {
                // The first of equal scores, whatever the order of comparison.
                let best = (0..outputs.len()).rev().max_by(|&a, &b| outputs[a].total_cmp(&outputs[b]));
                Prediction::Class(best.unwrap_or_default(), softmax(outputs))
            }
            TaskKind::MultiLabel => {
                let probabilities: Vec<f32> = outputs.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
                let labels = (0..outputs.len()).filter(|&label| probabilities[label] > 0.5).collect();
                Prediction::Labels(labels, probabilities)
            }
        }
    }

    /// Whether it says what a task of `kind` asks for.
    pub(crate) fn is_of(&self, kind: TaskKind) -> bool {
        match self {
            Prediction::Class(..) => kind == TaskKind::Classification,
            Prediction::Score(_) => kind == TaskKind::Regression,
            Prediction::Labels(..) => kind == TaskKind::MultiLabel,
        }
    }
}

fn softmax(scores: &[f32]) -> Vec<f32> {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f32 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / sum).collect()
}

/// All built-in metrics of a kind of task for predictions of `examples`: see [`Metrics::evaluate`].
///
/// # Panics
/// If there are not as many predictions as examples, or a class is not below `classes`.
pub fn evaluate(kind: TaskKind, classes: usize, predictions: &[Prediction], examples: &[Example]) -> Scores {
    Metrics::default().evaluate(kind, classes, predictions, examples)
}

/// Exact match and F1 of answers to `questions`: see [`Metrics::evaluate_answers`].
///
/// # Panics
/// If there are not as many answers as questions.
pub fn evaluate_answers(answers: &[String], questions: &[Question]) -> Scores {
    Metrics::default().evaluate_answers(answers, questions)
}
