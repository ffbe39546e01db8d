//! What the frozen layers at the bottom of a network say of every sequence, computed once.

use std::sync::Arc;

use adapter_core::Insertion;
use bert_backbone::{BatchError, Bert, BertConfig};
use burn::tensor::{Device, Tensor, TensorData};

use crate::{NumberedBatch, Prefetch, Tokenised, batches::in_order};

/// The output of a network's lowest layers for every token of a set, kept in memory.
///
/// Training what lies above need not compute those layers again. They are computed without dropout: that is the one
/// difference to a run without the cache.
pub struct FrozenPrefix {
    layers: usize,
    width: usize,
    /// The first row of each sequence, and at last the number of rows.
    starts: Vec<usize>,
    rows: Vec<f32>,
}

impl FrozenPrefix {
    /// Bytes that the rows of `tokens` take for a network of width `hidden`.
    pub fn bytes(tokens: &Tokenised, hidden: usize) -> u64 {
        let all: usize = (0..tokens.len()).map(|sequence| tokens.length(sequence)).sum();
        (all * hidden * size_of::<f32>()) as u64
    }

    /// Runs the lowest `layers` layers of `bert` over all `tokens`.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    pub fn compute<I: Insertion>(
        bert: &Bert<I>,
        layers: usize,
        tokens: &Arc<Tokenised>,
        config: &BertConfig,
        batch_size: usize,
        device: &Device,
    ) -> Result<Self, BatchError> {
        let elements = Self::bytes(tokens, config.hidden_size) as usize / size_of::<f32>();
        let (mut starts, mut rows) = (vec![0], Vec::with_capacity(elements));
        let batches = in_order(tokens.len(), batch_size);
        for batch in Prefetch::start(tokens.clone(), batches, config.clone(), device.clone()) {
            let batch = batch?.packed;
            let before = rows.len() / config.hidden_size;
            starts.extend(batch.boundaries()[1..].iter().map(|end| before + end));
            rows.extend(bert.forward_below(layers, &batch).into_data().iter::<f32>());
        }
        Ok(Self { layers, width: config.hidden_size, starts, rows })
    }

    /// The number of layers that need not be computed.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// What the layer above is given for a batch.
    ///
    /// # Shapes
    /// - result: `[tokens, hidden]`
    pub fn rows(&self, batch: &NumberedBatch) -> Tensor<2> {
        let mut values = Vec::with_capacity(batch.packed.tokens() * self.width);
        for &sequence in &batch.examples {
            let (start, end) = (self.starts[sequence], self.starts[sequence + 1]);
            values.extend_from_slice(&self.rows[start * self.width..end * self.width]);
        }
        let shape = [batch.packed.tokens(), self.width];
        Tensor::from_data(TensorData::new(values, shape), &batch.packed.input_ids.device())
    }
}

impl std::fmt::Debug for FrozenPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sequences = self.starts.len() - 1;
        write!(f, "FrozenPrefix({} layers, {sequences} sequences)", self.layers)
    }
}
