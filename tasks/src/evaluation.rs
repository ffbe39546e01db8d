//! A network's outputs made into predictions, and predictions into scores.

use std::collections::BTreeMap;

use crate::{
    ConfusionMatrix, Example, Metric, Question, Target, TaskKind,
    metrics::{pearson, spearman},
    score_answer,
};

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
}

fn softmax(scores: &[f32]) -> Vec<f32> {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f32 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / sum).collect()
}

/// All metrics of a kind of task for predictions of `examples`; those without a target are left out.
///
/// # Panics
/// If there are not as many predictions as examples.
pub fn evaluate(
    kind: TaskKind,
    classes: usize,
    predictions: &[Prediction],
    examples: &[Example],
) -> BTreeMap<Metric, f64> {
    assert_eq!(predictions.len(), examples.len(), "one prediction for each example");
    let pairs = predictions.iter().zip(examples);
    match kind {
        TaskKind::Classification => {
            let (predicted, gold): (Vec<_>, Vec<_>) = pairs
                .filter_map(|pair| match (pair.0, &pair.1.target) {
                    (Prediction::Class(predicted, _), Some(Target::Class(gold))) => Some((*predicted, *gold)),
                    _ => None,
                })
                .unzip();
            let matrix = ConfusionMatrix::new(&predicted, &gold, classes);
            let mut scores = BTreeMap::from([
                (Metric::Accuracy, matrix.accuracy()),
                (Metric::MacroF1, matrix.macro_f1()),
                (Metric::Matthews, matrix.matthews()),
            ]);
            if classes == 2 {
                scores.insert(Metric::F1, matrix.f1(1));
            }
            scores
        }
        TaskKind::Regression => {
            let (predicted, gold): (Vec<_>, Vec<_>) = pairs
                .filter_map(|pair| match (pair.0, &pair.1.target) {
                    (Prediction::Score(predicted), Some(Target::Score(gold))) => {
                        Some((f64::from(*predicted), f64::from(*gold)))
                    }
                    _ => None,
                })
                .unzip();
            BTreeMap::from([
                (Metric::Pearson, pearson(&predicted, &gold)),
                (Metric::Spearman, spearman(&predicted, &gold)),
            ])
        }
        TaskKind::MultiLabel => {
            // Every label is a yes-or-no question of its own; accuracy is that of the whole set.
            let mut label_f1 = vec![(0usize, 0usize); classes];
            let (mut right, mut total) = (0usize, 0usize);
            for pair in pairs {
                if let (Prediction::Labels(predicted, _), Some(Target::Labels(gold))) = (pair.0, &pair.1.target) {
                    let mut gold = gold.clone();
                    gold.sort_unstable();
                    right += usize::from(*predicted == gold);
                    total += 1;
                    for (label, (common, either)) in label_f1.iter_mut().enumerate() {
                        let (p, g) = (predicted.contains(&label), gold.contains(&label));
                        *common += usize::from(p && g);
                        *either += usize::from(p) + usize::from(g);
                    }
                }
            }
            let occurring: Vec<_> = label_f1.into_iter().filter(|(_, either)| *either > 0).collect();
            let f1: f64 = occurring.iter().map(|&(common, either)| 2.0 * common as f64 / either as f64).sum();
            BTreeMap::from([
                (Metric::Accuracy, right as f64 / total.max(1) as f64),
                (Metric::MacroF1, f1 / occurring.len().max(1) as f64),
            ])
        }
        TaskKind::Span => BTreeMap::new(),
    }
}

/// Exact match and F1 of answers to `questions`.
///
/// # Panics
/// If there are not as many answers as questions.
pub fn evaluate_answers(answers: &[String], questions: &[Question]) -> BTreeMap<Metric, f64> {
    assert_eq!(answers.len(), questions.len(), "one answer for each question");
    let (mut exact, mut f1) = (0.0, 0.0);
    for (answer, question) in answers.iter().zip(questions) {
        let golds: Vec<&str> = question.answers.iter().map(|gold| gold.text.as_str()).collect();
        let scores = score_answer(answer, &golds);
        exact += scores.0;
        f1 += scores.1;
    }
    let count = questions.len().max(1) as f64;
    BTreeMap::from([(Metric::ExactMatch, exact / count), (Metric::AnswerF1, f1 / count)])
}
