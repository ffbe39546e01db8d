//! What can be inserted into a Transformer layer, and what it is told.

use burn::{
    module::{Module, ModuleDisplay},
    tensor::Tensor,
};

use crate::{DropoutKey, Place};

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
}

/// An insertion that may be absent: left out of a layer by configuration, or removed later.
impl<I: Insertion> Insertion for Option<I> {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        match self {
            Some(insertion) => insertion.forward(output, input, at),
            None => output,
        }
    }
}
