//! What training makes small.

use bert_backbone::PackedBatch;
use burn::tensor::{Int, Tensor, TensorData, activation};

/// Softmax cross-entropy, the mean over rows. Masked language modelling uses it too, on the masked tokens' rows.
///
/// # Shapes
/// - `scores`: `[rows, classes]`
/// - `classes`: the right class of each row
/// - result: `[1]`
pub fn cross_entropy(scores: Tensor<2>, classes: &[usize]) -> Tensor<1> {
    let right: Vec<i32> = classes.iter().map(|&class| class as i32).collect();
    let right = Tensor::<2, Int>::from_data(TensorData::new(right, [classes.len(), 1]), &scores.device());
    activation::log_softmax(scores, 1).gather(1, right).mean().neg()
}

/// Squared error, the mean over rows.
///
/// # Shapes
/// - `outputs`: `[rows, 1]`
/// - result: `[1]`
pub fn squared_error(outputs: Tensor<2>, scores: &[f32]) -> Tensor<1> {
    let scores = Tensor::<2>::from_data(TensorData::new(scores.to_vec(), [scores.len(), 1]), &outputs.device());
    (outputs - scores).powf_scalar(2.0).mean()
}

/// Binary cross-entropy of every label, the mean over rows and labels.
///
/// # Shapes
/// - `scores`: `[rows, labels]`
/// - `labels`: the labels that each row has
/// - result: `[1]`
pub fn multi_label(scores: Tensor<2>, labels: &[Vec<usize>]) -> Tensor<1> {
    let [rows, count] = scores.dims();
    let mut has = vec![0.0f32; rows * count];
    for (row, labels) in labels.iter().enumerate() {
        labels.iter().for_each(|&label| has[row * count + label] = 1.0);
    }
    let has = Tensor::<2>::from_data(TensorData::new(has, [rows, count]), &scores.device());
    // log σ(x) for a label that is there, log σ(−x) for one that is not.
    activation::log_sigmoid(scores * (has * 2.0 - 1.0)).mean().neg()
}

/// Cross-entropy of the first and of the last token of an answer, each over the tokens of its own sequence; the mean
/// of both, over sequences.
///
/// # Shapes
/// - `scores`: `[tokens, 2]`
/// - `spans`: first and last token of each sequence's answer, counted within the sequence
/// - result: `[1]`
pub fn span(scores: Tensor<2>, batch: &PackedBatch, spans: &[(usize, usize)]) -> Tensor<1> {
    let by_sequence = batch.by_sequence(scores, f32::MIN);
    let right: Vec<i32> = spans.iter().flat_map(|&(first, last)| [first as i32, last as i32]).collect();
    let right = TensorData::new(right, [spans.len(), 1, 2]);
    let right = Tensor::<3, Int>::from_data(right, &by_sequence.device());
    activation::log_softmax(by_sequence, 1).gather(1, right).mean().neg()
}
