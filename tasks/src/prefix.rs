//! What the frozen layers at the bottom of a network say of every sequence, computed once.

use std::{fmt, sync::Arc};

use adapter_core::Insertion;
use bert_backbone::{BatchError, BertConfig};
use burn::tensor::{Device, Tensor, TensorData};

use crate::{Head, HeadInput, NumberedBatch, Prefetch, TaskModel, Tokenised, batches::in_order};

/// What a network's frozen layers say of a set, kept in memory. Where the whole network is frozen, that is what the head is given.
///
/// Training what lies above need not compute those layers again. They are computed without dropout: that is the one
/// difference to a run without the cache.
pub struct FrozenPrefix {
    depth: Depth,
    width: usize,
    /// The first row of each sequence, and at last the number of rows.
    starts: Vec<usize>,
    rows: Vec<f32>,
}

/// How far up a prefix reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// The output of so many layers for every token.
    Layers(usize),
    /// All layers: what the head is given, one row for each sequence.
    Head,
}

/// A head that reads every layer needs them all, or none.
#[derive(Debug, thiserror::Error)]
pub enum PrefixError {
    /// Some of the layers that the head reads are trained.
    #[error("the head `{0}` reads every layer, and some of them are trained: they cannot be computed once")]
    ReadsEveryLayer(String),
    /// A sequence that the network does not take.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

impl Depth {
    fn of(head: &Head, layers: usize, network: &BertConfig) -> Self {
        let whole = layers == network.num_hidden_layers && !head.kind().per_token();
        let reads_tokens = head.kind().input() == HeadInput::Tokens;
        if whole && !reads_tokens { Depth::Head } else { Depth::Layers(layers) }
    }
}

impl FrozenPrefix {
    /// Bytes that the lowest `layers` layers of a network say of `tokens`, as a model with this head needs it.
    pub fn bytes(head: &Head, layers: usize, tokens: &Tokenised, network: &BertConfig) -> u64 {
        let values = match Depth::of(head, layers, network) {
            Depth::Head => tokens.len() * head.kind().input().width(&network.shape()),
            Depth::Layers(_) => {
                (0..tokens.len()).map(|sequence| tokens.length(sequence)).sum::<usize>() * network.hidden_size
            }
        };
        (values * size_of::<f32>()) as u64
    }

    /// Runs the lowest `layers` layers of `model` over all `tokens`.
    ///
    /// # Errors
    /// If a sequence does not fit the network, or the head reads layers above these, too.
    pub fn compute<I: Insertion>(
        model: &TaskModel<I>,
        layers: usize,
        tokens: &Arc<Tokenised>,
        config: &BertConfig,
        batch_size: usize,
        device: &Device,
    ) -> Result<Self, PrefixError> {
        let (head, bert) = (model.head(), model.bert());
        let depth = Depth::of(head, layers, config);
        if head.kind().input() == HeadInput::Layers && depth != Depth::Head {
            return Err(PrefixError::ReadsEveryLayer(head.kind().name().to_owned()));
        }
        let elements = Self::bytes(head, layers, tokens, config) as usize / size_of::<f32>();
        let (mut width, mut starts, mut rows) = (config.hidden_size, vec![0], Vec::with_capacity(elements));
        let batches = in_order(tokens.len(), batch_size);
        for batch in Prefetch::start(tokens.clone(), batches, config.clone(), device.clone()) {
            let batch = batch?.packed;
            let before = starts[starts.len() - 1];
            let said = match depth {
                Depth::Layers(layers) => {
                    starts.extend(batch.boundaries()[1..].iter().map(|end| before + end));
                    bert.forward_below(layers, &batch)
                }
                Depth::Head => {
                    starts.extend((1..=batch.sequences()).map(|sequence| before + sequence));
                    model.rows_from(0, bert.embeddings.forward(&batch), &batch)
                }
            };
            width = said.dims()[1];
            rows.extend(said.into_data().iter::<f32>());
        }
        Ok(Self { depth, width, starts, rows })
    }

    /// The outputs of `model` for a batch.
    ///
    /// # Shapes
    /// - result: as [`TaskModel::forward`] returns it
    pub(crate) fn forward<I: Insertion>(&self, model: &TaskModel<I>, batch: &NumberedBatch) -> Tensor<2> {
        let rows = self.rows(batch);
        match self.depth {
            Depth::Layers(layers) => model.forward_from(layers, rows, &batch.packed),
            Depth::Head => model.read(rows, &batch.packed),
        }
    }

    /// What is kept of a batch's sequences.
    ///
    /// # Shapes
    /// - result: `[tokens or sequences, width]`
    fn rows(&self, batch: &NumberedBatch) -> Tensor<2> {
        let mut values = Vec::new();
        for &sequence in &batch.examples {
            let (start, end) = (self.starts[sequence], self.starts[sequence + 1]);
            values.extend_from_slice(&self.rows[start * self.width..end * self.width]);
        }
        let shape = [values.len() / self.width, self.width];
        Tensor::from_data(TensorData::new(values, shape), &batch.packed.input_ids.device())
    }
}

impl fmt::Debug for FrozenPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sequences = self.starts.len() - 1;
        write!(f, "FrozenPrefix({:?}, {sequences} sequences)", self.depth)
    }
}
