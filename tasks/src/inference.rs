//! A model's outputs for many sequences.

use std::sync::Arc;

use adapter_core::Insertion;
use bert_backbone::{BatchError, BertConfig, PackedBatch};
use burn::tensor::{Device, Tensor};

use crate::{FrozenPrefix, HeadKind, NumberedBatch, Prefetch, TaskModel, Tokenised, batches::in_order};

/// The outputs of `model` for every sequence, in their order: one row for each sequence, or for a head that reads tokens
/// one for each token, one after the other.
///
/// # Errors
/// If a sequence does not fit the network.
pub fn outputs<I: Insertion>(
    model: &TaskModel<I>,
    tokens: &Arc<Tokenised>,
    config: &BertConfig,
    batch_size: usize,
    device: &Device,
) -> Result<Vec<Vec<f32>>, BatchError> {
    outputs_from(None, model, tokens, config, batch_size, device)
}

/// [`outputs`], where a prefix may hold what the lowest layers say.
pub(crate) fn outputs_from<I: Insertion>(
    prefix: Option<&FrozenPrefix>,
    model: &TaskModel<I>,
    tokens: &Arc<Tokenised>,
    config: &BertConfig,
    batch_size: usize,
    device: &Device,
) -> Result<Vec<Vec<f32>>, BatchError> {
    let batches = in_order(tokens.len(), batch_size);
    let mut rows = Vec::with_capacity(tokens.len());
    for batch in Prefetch::start(tokens.clone(), batches, config.clone(), device.clone()) {
        let batch = batch?;
        rows.extend(by_sequence(forward(model, &batch, prefix), &batch.packed, model.head().kind()));
    }
    Ok(rows)
}

/// The outputs of `model` for a batch, from a prefix where there is one.
pub(crate) fn forward<I: Insertion>(
    model: &TaskModel<I>,
    batch: &NumberedBatch,
    prefix: Option<&FrozenPrefix>,
) -> Tensor<2> {
    match prefix {
        Some(prefix) => prefix.forward(model, batch),
        None => model.forward(&batch.packed),
    }
}

/// A batch's outputs, divided by sequence.
pub fn by_sequence(scores: Tensor<2>, batch: &PackedBatch, head: &dyn HeadKind) -> Vec<Vec<f32>> {
    let width = scores.dims()[1];
    let values: Vec<f32> = scores.into_data().iter::<f32>().collect();
    if head.per_token() {
        let sequences = batch.boundaries().windows(2);
        sequences.map(|pair| values[pair[0] * width..pair[1] * width].to_vec()).collect()
    } else {
        values.chunks(width).map(<[f32]>::to_vec).collect()
    }
}
