//! Padding-free batches: the tokens of all sequences end to end.

use std::sync::Arc;

use adapter_core::DropoutKey;
use burn::tensor::{Bool, Device, FloatDType, Int, Tensor, TensorData};

use crate::{BertConfig, Encoded};

/// Sequences packed for a forward pass.
///
/// Every token-wise operation runs on `[tokens, …]`; attention alone unpacks to `[batch, heads, length, …]`.
#[derive(Clone, Debug)]
pub struct PackedBatch {
    /// Word pieces, `[tokens]`.
    pub input_ids: Tensor<1, Int>,
    /// Segments: 0, and 1 for the second text of a pair, `[tokens]`.
    pub token_type_ids: Tensor<1, Int>,
    /// Places in their own sequences, `[tokens]`.
    pub position_ids: Tensor<1, Int>,
    /// The key of this step's dropout; `None` outside of training.
    pub dropout: Option<DropoutKey>,
    boundaries: Arc<[usize]>,
    longest: usize,
    padding: Option<Padding>,
}

/// How packed rows and padded places correspond, where lengths differ.
#[derive(Clone, Debug)]
struct Padding {
    /// The row that fills each padded place, `[batch × longest]`; any row where there is no token.
    rows: Tensor<1, Int>,
    /// The padded place of each row, `[tokens]`.
    places: Tensor<1, Int>,
    /// Places without a token, `[batch, 1, 1, longest]`.
    empty: Tensor<4, Bool>,
}

/// Why sequences make no batch.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BatchError {
    /// There is no sequence.
    #[error("a batch needs at least one sequence")]
    Empty,
    /// A sequence has no token.
    #[error("sequence {sequence} of the batch has no tokens")]
    EmptySequence {
        /// Its place in the batch.
        sequence: usize,
    },
    /// A sequence has not one segment for each token.
    #[error("sequence {sequence} of the batch has {tokens} tokens and {segments} segments")]
    Uneven {
        /// Its place in the batch.
        sequence: usize,
        /// Its tokens.
        tokens: usize,
        /// Its segments.
        segments: usize,
    },
    /// A sequence is longer than the network can take.
    #[error("sequence {sequence} of the batch has {length} tokens, the backbone takes {limit} at most")]
    TooLong {
        /// Its place in the batch.
        sequence: usize,
        /// Its length.
        length: usize,
        /// The longest possible.
        limit: usize,
    },
    /// A token or segment that the network does not know.
    #[error("sequence {sequence} of the batch has {what} {id}, the backbone knows {limit}: is this its own tokenizer?")]
    Unknown {
        /// Its place in the batch.
        sequence: usize,
        /// `token` or `segment`.
        what: &'static str,
        /// Its number.
        id: u32,
        /// How many there are.
        limit: usize,
    },
}

impl PackedBatch {
    /// Packs `sequences` for a network with `config`.
    ///
    /// # Errors
    /// If there is nothing to pack, or a sequence does not fit the network.
    pub fn new(sequences: &[Encoded], config: &BertConfig, device: &Device) -> Result<Self, BatchError> {
        check(sequences, config)?;
        let mut boundaries = vec![0];
        let mut tokens = 0;
        for sequence in sequences {
            tokens += sequence.input_ids.len();
            boundaries.push(tokens);
        }
        let ids = |of: fn(&Encoded) -> &[u32]| {
            let ids = sequences.iter().flat_map(of).map(|&id| id as i32).collect();
            ints(ids, device)
        };
        let longest = sequences.iter().map(|s| s.input_ids.len()).max().unwrap_or(0);
        let positions = sequences.iter().flat_map(|s| 0..s.input_ids.len() as i32).collect();
        Ok(Self {
            input_ids: ids(|sequence| &sequence.input_ids),
            token_type_ids: ids(|sequence| &sequence.token_type_ids),
            position_ids: ints(positions, device),
            dropout: None,
            padding: Padding::new(&boundaries, longest, device),
            boundaries: boundaries.into(),
            longest,
        })
    }

    /// The same batch as training step `key.step` of a run with seed `key.seed`: dropout is on.
    pub fn with_dropout(mut self, key: DropoutKey) -> Self {
        self.dropout = Some(key);
        self
    }

    /// The same batch on another device.
    pub fn to_device(self, device: &Device) -> Self {
        let padding = self.padding.map(|Padding { rows, places, empty }| Padding {
            rows: rows.to_device(device),
            places: places.to_device(device),
            empty: empty.to_device(device),
        });
        Self {
            input_ids: self.input_ids.to_device(device),
            token_type_ids: self.token_type_ids.to_device(device),
            position_ids: self.position_ids.to_device(device),
            padding,
            ..self
        }
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.boundaries.len() - 1
    }

    /// Number of tokens of all sequences.
    pub fn tokens(&self) -> usize {
        self.boundaries[self.sequences()]
    }

    /// Where each sequence begins, and at last the number of tokens.
    pub fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    /// The same, to keep.
    pub(crate) fn shared_boundaries(&self) -> Arc<[usize]> {
        self.boundaries.clone()
    }

    /// The first row of each sequence: its `[CLS]` token.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, d]`
    /// - result: `[sequences, d]`
    pub fn first_tokens(&self, hidden: Tensor<2>) -> Tensor<2> {
        let first: Vec<i32> = self.boundaries[..self.sequences()].iter().map(|&row| row as i32).collect();
        let device = hidden.device();
        hidden.select(0, ints(first, &device))
    }

    /// The mean of the rows of each sequence, in f32.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, d]`
    /// - result: `[sequences, d]`
    pub fn means(&self, hidden: Tensor<2>) -> Tensor<2> {
        let mut shares = vec![0.0f32; self.sequences() * self.tokens()];
        for (row, ends) in shares.chunks_mut(self.tokens()).zip(self.boundaries.windows(2)) {
            row[ends[0]..ends[1]].fill(1.0 / (ends[1] - ends[0]) as f32);
        }
        let shares = TensorData::new(shares, [self.sequences(), self.tokens()]);
        let shares = Tensor::<2>::from_data(shares, &hidden.device());
        shares.matmul(hidden.cast(FloatDType::F32))
    }

    /// Lays packed rows out by sequence.
    ///
    /// # Shapes
    /// - `rows`: `[tokens, width]`
    /// - result: `[sequences, longest, width]`; places without a token hold `empty`
    pub fn by_sequence(&self, rows: Tensor<2>, empty: f32) -> Tensor<3> {
        let [_, width] = rows.dims();
        let shape = [self.sequences(), self.longest, width];
        match &self.padding {
            Some(padding) => {
                let mask = padding.empty.clone().reshape([self.sequences(), self.longest, 1]).expand(shape);
                rows.select(0, padding.rows.clone()).reshape(shape).mask_fill(mask, empty)
            }
            None => rows.reshape(shape),
        }
    }

    /// Lays packed rows out by sequence and head, for attention.
    ///
    /// # Shapes
    /// - `rows`: `[tokens, heads × width]`
    /// - result: `[sequences, heads, longest, width]`; places without a token hold some row's values
    pub(crate) fn unpack(&self, rows: Tensor<2>, heads: usize) -> Tensor<4> {
        let [_, d] = rows.dims();
        let padded = match &self.padding {
            Some(padding) => rows.select(0, padding.rows.clone()),
            None => rows,
        };
        padded.reshape([self.sequences(), self.longest, heads, d / heads]).swap_dims(1, 2)
    }

    /// The inverse of [`unpack`](Self::unpack).
    pub(crate) fn pack(&self, padded: Tensor<4>) -> Tensor<2> {
        let [batch, heads, longest, width] = padded.dims();
        let rows = padded.swap_dims(1, 2).reshape([batch * longest, heads * width]);
        match &self.padding {
            Some(padding) => rows.select(0, padding.places.clone()),
            None => rows,
        }
    }

    /// Makes attention scores to places without a token vanish in a softmax.
    ///
    /// # Shapes
    /// - `scores`, result: `[sequences, heads, asking, longest]`
    pub(crate) fn mask(&self, scores: Tensor<4>) -> Tensor<4> {
        match &self.padding {
            Some(padding) => {
                let empty = padding.empty.clone().expand(scores.shape());
                scores.mask_fill(empty, f32::MIN)
            }
            None => scores,
        }
    }
}

impl Padding {
    fn new(boundaries: &[usize], longest: usize, device: &Device) -> Option<Self> {
        let sequences: Vec<_> = boundaries.windows(2).map(|pair| pair[0]..pair[1]).collect();
        if sequences.iter().all(|rows| rows.len() == longest) {
            return None;
        }
        let mut rows = Vec::with_capacity(sequences.len() * longest);
        let mut places = Vec::new();
        let mut empty = Vec::with_capacity(sequences.len() * longest);
        for sequence in &sequences {
            for place in 0..longest {
                let row = sequence.start + place;
                if row < sequence.end {
                    places.push(rows.len() as i32);
                }
                rows.push(row.min(sequence.end - 1) as i32);
                empty.push(row >= sequence.end);
            }
        }
        let empty = TensorData::new(empty, [sequences.len(), 1, 1, longest]);
        Some(Self { rows: ints(rows, device), places: ints(places, device), empty: Tensor::from_data(empty, device) })
    }
}

fn ints(values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

fn check(sequences: &[Encoded], config: &BertConfig) -> Result<(), BatchError> {
    if sequences.is_empty() {
        return Err(BatchError::Empty);
    }
    for (sequence, encoded) in sequences.iter().enumerate() {
        let length = encoded.input_ids.len();
        let limit = config.max_position_embeddings;
        if length == 0 {
            return Err(BatchError::EmptySequence { sequence });
        }
        if length > limit {
            return Err(BatchError::TooLong { sequence, length, limit });
        }
        let segments = encoded.token_type_ids.len();
        if segments != length {
            return Err(BatchError::Uneven { sequence, tokens: length, segments });
        }
        let unknown = |what, ids: &[u32], limit: usize| match ids.iter().find(|&&id| id as usize >= limit) {
            Some(&id) => Err(BatchError::Unknown { sequence, what, id, limit }),
            None => Ok(()),
        };
        unknown("token", &encoded.input_ids, config.vocab_size)?;
        unknown("segment", &encoded.token_type_ids, config.type_vocab_size)?;
    }
    Ok(())
}
