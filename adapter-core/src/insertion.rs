//! What can be inserted into a Transformer layer, and what it is told.

use burn::{
    module::{Module, ModuleDisplay},
    nn::Linear,
    tensor::Tensor,
};

use crate::{Activation, DropoutKey, Place};

/// Something inserted behind a sub-layer's projection: an adapter of this crate, or one of your own.
///
/// A sub-layer computes `LayerNorm(input + insertion(output, input))`, where `output` is what its projection
/// and dropout made of `input`. A serial adapter changes `output`; a parallel one reads `input` instead.
pub trait Insertion: Module + ModuleDisplay {
    /// Returns what takes the place of the sub-layer's output.
    ///
    /// # Shapes
    /// - `output`, `input`, result: `[tokens, hidden]`, the tokens of all sequences end to end
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2>;

    /// The insertion as `y + up(f(down(y)))`, if that is all it does: a network may then compute it in one go.
    fn as_bottleneck(&self) -> Option<Bottleneck<'_>> {
        None
    }

    /// Whether each row of the result depends on the same row of `output` and `input` alone, and not on the row's number:
    /// a network may then leave out rows that nobody reads.
    fn is_row_wise(&self) -> bool {
        false
    }
}

/// The paper's adapter: `y + up(f(down(y)))`.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck<'a> {
    /// `[hidden, size]`
    pub down: &'a Linear,
    /// f
    pub activation: Activation,
    /// `[size, hidden]`
    pub up: &'a Linear,
}

/// Where an insertion stands and what surrounds it.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The layer and its sub-layer.
    pub place: Place,
    /// Where each sequence begins, and at last the number of tokens: sequence `i` has the rows
    /// `boundaries[i]..boundaries[i + 1]`.
    pub boundaries: &'a [usize],
    /// The key of this step's dropout; `None` outside of training.
    pub dropout: Option<DropoutKey>,
}

/// Nothing: the network as it was pre-trained.
#[derive(Module, Debug, Default)]
pub struct NoInsertion;

impl Insertion for NoInsertion {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output
    }

    fn is_row_wise(&self) -> bool {
        true
    }
}

/// An insertion that may be absent: left out of a layer by configuration, or removed later.
impl<I: Insertion> Insertion for Option<I> {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        match self {
            Some(insertion) => insertion.forward(output, input, at),
            None => output,
        }
    }

    fn as_bottleneck(&self) -> Option<Bottleneck<'_>> {
        self.as_ref().and_then(I::as_bottleneck)
    }

    fn is_row_wise(&self) -> bool {
        self.as_ref().is_none_or(I::is_row_wise)
    }
}
