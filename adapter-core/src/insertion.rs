//! What can be inserted into a Transformer layer, and what it is told.

use std::fmt;

use burn::{
    module::{Module, ModuleDisplay},
    nn::Linear,
    tensor::Tensor,
};

use serde::{Deserialize, Serialize};

use crate::{Activation, DropoutKey, NetworkShape, Place, Site};

/// Something inserted into a sub-layer: an adapter of this crate, or one of your own.
///
/// A sub-layer computes `LayerNorm(input + insertion(output, input))`, where `output` is what its projections
/// and dropout made of `input`. A serial adapter changes `output`; a parallel one reads `input` instead; one that needs the
/// sub-layer's own LayerNorm asks [`At::layer_norm`]. An insertion can also change the projections themselves
/// ([`project`](Self::project)), as LoRA does.
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

    /// Whether it changes this projection of its sub-layer. The network calls [`project`](Self::project) for those alone.
    fn changes(&self, _projection: Projection) -> bool {
        false
    }

    /// What it adds to `linear.forward(x)`, if that is how it changes the projection: a network may then compute the rest as
    /// fast as without it.
    ///
    /// # Shapes
    /// - `x`: `[rows, the projection's input]`
    /// - result: `[rows, the projection's output]`
    fn adds(&self, _projection: Projection, _x: Tensor<2>, _at: &At<'_>) -> Option<Tensor<2>> {
        None
    }

    /// The projection with other weights, if that is how it changes it: a network may then compute it as fast as its own.
    fn reweighted(&self, _projection: Projection, _linear: &Linear) -> Option<Linear> {
        None
    }

    /// What takes the place of `linear.forward(x)`: add to it, scale it, or compute something else altogether.
    ///
    /// # Shapes
    /// - `x`: `[rows, the projection's input]`
    /// - result: `[rows, the projection's output]`
    fn project(&self, projection: Projection, linear: &Linear, x: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        if let Some(reweighted) = self.reweighted(projection, linear) {
            return reweighted.forward(x);
        }
        match self.adds(projection, x.clone(), at) {
            Some(added) => linear.forward(x) + added,
            None => linear.forward(x),
        }
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

/// A projection of a sub-layer. An insertion at [`Site::Attention`](crate::Site) can change the first four, one at
/// [`Site::FeedForward`](crate::Site) the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// Attention's queries, `[hidden, hidden]`.
    Query,
    /// Attention's keys, `[hidden, hidden]`.
    Key,
    /// Attention's values, `[hidden, hidden]`.
    Value,
    /// Attention's output, `[hidden, hidden]`.
    AttentionOutput,
    /// The feed-forward sub-layer's first, `[hidden, intermediate]`.
    Intermediate,
    /// The feed-forward sub-layer's second, `[intermediate, hidden]`.
    Output,
}

impl Projection {
    /// Every projection, in the order in which a layer passes them.
    pub const ALL: [Projection; 6] = [
        Projection::Query,
        Projection::Key,
        Projection::Value,
        Projection::AttentionOutput,
        Projection::Intermediate,
        Projection::Output,
    ];

    /// The sub-layer that it belongs to.
    pub fn site(self) -> Site {
        match self {
            Projection::Query | Projection::Key | Projection::Value | Projection::AttentionOutput => Site::Attention,
            Projection::Intermediate | Projection::Output => Site::FeedForward,
        }
    }

    /// The widths of its input and its output.
    pub fn shape(self, network: &NetworkShape) -> [usize; 2] {
        match self {
            Projection::Intermediate => [network.hidden, network.intermediate],
            Projection::Output => [network.intermediate, network.hidden],
            _ => [network.hidden, network.hidden],
        }
    }
}

/// Where an insertion stands and what surrounds it.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The layer and its sub-layer.
    pub place: Place,
    /// Where each sequence begins, and at last the number of tokens: sequence `i` has the rows
    /// `boundaries[i]..boundaries[i + 1]`.
    pub boundaries: &'a [usize],
    /// The key of this step's dropout; `None` outside of training.
    pub dropout: Option<DropoutKey>,
    layer_norm: Option<&'a dyn Fn(Tensor<2>) -> Tensor<2>>,
}

impl<'a> At<'a> {
    /// A place outside of training, with no network around it.
    pub fn new(place: Place, boundaries: &'a [usize]) -> Self {
        Self { place, boundaries, dropout: None, layer_norm: None }
    }

    /// The same place in a training step, or outside of one.
    pub fn with_dropout(self, dropout: Option<DropoutKey>) -> Self {
        Self { dropout, ..self }
    }

    /// The same place in a sub-layer with this LayerNorm.
    pub fn with_layer_norm(self, layer_norm: &'a dyn Fn(Tensor<2>) -> Tensor<2>) -> Self {
        Self { layer_norm: Some(layer_norm), ..self }
    }

    /// The sub-layer's own LayerNorm of `x`, with the scale and shift it has in this model. Where there is no network around,
    /// `x` as it is.
    ///
    /// # Shapes
    /// - `x`, result: `[tokens, hidden]`
    pub fn layer_norm(&self, x: Tensor<2>) -> Tensor<2> {
        match self.layer_norm {
            Some(layer_norm) => layer_norm(x),
            None => x,
        }
    }
}

impl fmt::Debug for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, boundaries, dropout, .. } = self;
        write!(f, "At({place}, {boundaries:?}, {dropout:?})")
    }
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

    fn changes(&self, projection: Projection) -> bool {
        self.as_ref().is_some_and(|insertion| insertion.changes(projection))
    }

    fn reweighted(&self, projection: Projection, linear: &Linear) -> Option<Linear> {
        self.as_ref().and_then(|insertion| insertion.reweighted(projection, linear))
    }

    fn adds(&self, projection: Projection, x: Tensor<2>, at: &At<'_>) -> Option<Tensor<2>> {
        self.as_ref().and_then(|insertion| insertion.adds(projection, x, at))
    }

    fn project(&self, projection: Projection, linear: &Linear, x: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        match self {
            Some(insertion) => insertion.project(projection, linear, x, at),
            None => linear.forward(x),
        }
    }

    fn is_row_wise(&self) -> bool {
        self.as_ref().is_none_or(I::is_row_wise)
    }
}
