//! Heads: from what the network says to a task's outputs.

use std::{fmt, str::FromStr, sync::Arc};

use adapter_core::{Init, NetworkShape};
use bert_backbone::PackedBatch;
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Tensor, activation},
};

use crate::nearest;

/// What a head is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadInput {
    /// The last layer's `[CLS]` token, as in the paper.
    #[default]
    Cls,
    /// The pre-trained pooler, as in the authors' released code.
    Pooler,
    /// Every token of the last layer.
    Tokens,
    /// The mean of the last layer's tokens.
    Mean,
    /// The means of the tokens of every layer, the embeddings included, one after the other. A head on them learns how to mix
    /// them.
    Layers,
}

impl HeadInput {
    const ALL: [HeadInput; 5] =
        [HeadInput::Cls, HeadInput::Pooler, HeadInput::Tokens, HeadInput::Mean, HeadInput::Layers];

    /// Values of a row that a head is given.
    pub(crate) fn width(self, network: &NetworkShape) -> usize {
        if self == HeadInput::Layers { (network.layers + 1) * network.hidden } else { network.hidden }
    }
}

impl fmt::Display for HeadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HeadInput {
    type Err = UnknownHead;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|input| input.to_string() == name);
        known.ok_or_else(|| UnknownHead::new(name, Self::ALL.iter().map(HeadInput::to_string).collect()))
    }
}

/// A kind of head. A linear layer to the task's outputs is always its last step; a head of your own says what comes before.
///
/// ```
/// use adapter_core::NetworkShape;
/// use bert_backbone::PackedBatch;
/// use burn::{nn::Linear, tensor::{Tensor, activation}};
/// use tasks::HeadKind;
///
/// /// One hidden layer with tanh.
/// #[derive(Debug)]
/// struct Mlp;
///
/// impl HeadKind for Mlp {
///     fn name(&self) -> &str {
///         "mlp"
///     }
///     fn inner(&self, network: &NetworkShape) -> Vec<[usize; 2]> {
///         vec![[network.hidden, network.hidden]]
///     }
///     fn forward(&self, inner: &[Linear], rows: Tensor<2>, _batch: &PackedBatch) -> Tensor<2> {
///         activation::tanh(inner[0].forward(rows))
///     }
/// }
/// ```
pub trait HeadKind: fmt::Debug + Send + Sync {
    /// The value of the key `head` that stands for it.
    fn name(&self) -> &str;

    /// What it is given.
    fn input(&self) -> HeadInput {
        HeadInput::Cls
    }

    /// Whether it answers for every token, as span tasks need it, and not for every sequence.
    fn per_token(&self) -> bool {
        self.input() == HeadInput::Tokens
    }

    /// Inputs and outputs of its linear layers before the last.
    fn inner(&self, _network: &NetworkShape) -> Vec<[usize; 2]> {
        Vec::new()
    }

    /// Inputs of the last linear layer: what the last of the others gives, or the network's width.
    fn width(&self, network: &NetworkShape) -> usize {
        self.inner(network).last().map_or(network.hidden, |[_, width]| *width)
    }

    /// What the last linear layer is given.
    ///
    /// # Shapes
    /// - `rows`: `[sequences, hidden]`; `[tokens, hidden]` if it reads every token, `[sequences, (layers + 1) × hidden]` if every layer
    /// - result: `[sequences or tokens, width]`
    fn forward(&self, _inner: &[Linear], rows: Tensor<2>, _batch: &PackedBatch) -> Tensor<2> {
        rows
    }
}

/// The paper's head: a linear layer on what it reads.
impl HeadKind for HeadInput {
    fn name(&self) -> &str {
        match self {
            HeadInput::Cls => "cls",
            HeadInput::Pooler => "pooler",
            HeadInput::Tokens => "tokens",
            HeadInput::Mean => "mean",
            HeadInput::Layers => "mix",
        }
    }

    fn input(&self) -> HeadInput {
        *self
    }

    fn inner(&self, network: &NetworkShape) -> Vec<[usize; 2]> {
        if *self == HeadInput::Layers { vec![[network.layers + 1, 1]] } else { Vec::new() }
    }

    fn width(&self, network: &NetworkShape) -> usize {
        network.hidden
    }

    fn forward(&self, inner: &[Linear], rows: Tensor<2>, _: &PackedBatch) -> Tensor<2> {
        if *self == HeadInput::Layers { mixed(&inner[0], rows) } else { rows }
    }
}

/// γ Σ softmax(w)ₗ hₗ over the layers (Peters et al. 2018): the weights of `mix` are w, its bias is γ - 1.
///
/// # Shapes
/// - `rows`: `[sequences, layers × hidden]`
/// - result: `[sequences, hidden]`
fn mixed(mix: &Linear, rows: Tensor<2>) -> Tensor<2> {
    let ([layers, _], [sequences, width]) = (mix.weight.dims(), rows.dims());
    let shares = activation::softmax(mix.weight.val().reshape([1, layers, 1]), 1);
    let hidden = width / layers;
    let sum = (rows.reshape([sequences, layers, hidden]) * shares).sum_dim(1).reshape([sequences, hidden]);
    match &mix.bias {
        Some(bias) => sum * (bias.val().unsqueeze() + 1.0),
        None => sum,
    }
}

/// Two linear layers with tanh between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLayerHead(pub HeadInput);

impl TwoLayerHead {
    const ALL: [TwoLayerHead; 3] =
        [TwoLayerHead(HeadInput::Cls), TwoLayerHead(HeadInput::Mean), TwoLayerHead(HeadInput::Layers)];
}

impl HeadKind for TwoLayerHead {
    fn name(&self) -> &str {
        match self.0 {
            HeadInput::Cls => "mlp",
            HeadInput::Pooler => "pooler-mlp",
            HeadInput::Tokens => "tokens-mlp",
            HeadInput::Mean => "mean-mlp",
            HeadInput::Layers => "mix-mlp",
        }
    }

    fn input(&self) -> HeadInput {
        self.0
    }

    fn inner(&self, network: &NetworkShape) -> Vec<[usize; 2]> {
        let mut inner = self.0.inner(network);
        inner.push([network.hidden, network.hidden]);
        inner
    }

    fn forward(&self, inner: &[Linear], rows: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        match inner.split_last() {
            Some((hidden, below)) => activation::tanh(hidden.forward(self.0.forward(below, rows, batch))),
            None => rows,
        }
    }
}

impl From<TwoLayerHead> for Arc<dyn HeadKind> {
    fn from(head: TwoLayerHead) -> Self {
        Arc::new(head)
    }
}

impl From<HeadInput> for Arc<dyn HeadKind> {
    fn from(input: HeadInput) -> Self {
        Arc::new(input)
    }
}

/// Kinds of heads by name.
#[derive(Clone, Debug)]
pub struct Heads(Vec<Arc<dyn HeadKind>>);

impl Default for Heads {
    /// `cls`, `pooler`, `tokens`, `mean` and `mix`; `mlp`, `mean-mlp` and `mix-mlp`.
    fn default() -> Self {
        Self(HeadInput::ALL.map(Arc::from).into_iter().chain(TwoLayerHead::ALL.map(Arc::from)).collect())
    }
}

/// A name that is no head.
#[derive(Debug, thiserror::Error)]
#[error("unknown head `{name}`; {hint}")]
pub struct UnknownHead {
    name: String,
    hint: String,
}

impl UnknownHead {
    fn new(name: &str, known: Vec<String>) -> Self {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        Self { name: name.to_owned(), hint }
    }
}

impl Heads {
    /// Adds a kind; one of the same name gives way.
    pub fn add(&mut self, kind: impl HeadKind + 'static) {
        self.0.retain(|known| known.name() != kind.name());
        self.0.push(Arc::new(kind));
    }

    /// The kind called `name`.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn find(&self, name: &str) -> Result<Arc<dyn HeadKind>, UnknownHead> {
        let known = self.0.iter().find(|kind| kind.name() == name);
        known.cloned().ok_or_else(|| UnknownHead::new(name, self.names()))
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|kind| kind.name().to_owned()).collect()
    }
}

/// A task's head: what its kind computes, and a linear layer to the outputs.
#[derive(Module, Debug)]
pub struct Head {
    /// `[width, outputs]`
    pub weight: Param<Tensor<2>>,
    /// `[outputs]`
    pub bias: Param<Tensor<1>>,
    /// Linear layers before the last.
    pub inner: Vec<Linear>,
    #[module(skip)]
    kind: Arc<dyn HeadKind>,
    dropout: f64,
}

impl Head {
    /// Standard deviation of a new head's weights.
    const INIT_STD: f64 = 0.02;

    /// A new head with `outputs` outputs.
    pub fn new(
        network: &NetworkShape,
        outputs: usize,
        kind: impl Into<Arc<dyn HeadKind>>,
        init: Init,
        device: &Device,
    ) -> Self {
        let kind = kind.into();
        let linear = |(number, [d_input, d_output]): (usize, [usize; 2])| Linear {
            weight: init.truncated_normal(
                format!("head.inner.{number}.weight"),
                [d_input, d_output],
                Self::INIT_STD,
                device,
            ),
            bias: Some(init.constant(0.0, [d_output], device)),
        };
        Self {
            weight: init.truncated_normal("head.weight", [kind.width(network), outputs], Self::INIT_STD, device),
            bias: init.constant(0.0, [outputs], device),
            inner: kind.inner(network).into_iter().enumerate().map(linear).collect(),
            kind,
            dropout: 0.0,
        }
    }

    /// The same head with dropout in front of its last layer: none in the paper, 0.1 in the authors' released code.
    pub fn with_dropout(self, probability: f64) -> Self {
        Self { dropout: probability, ..self }
    }

    /// Its kind.
    pub fn kind(&self) -> &dyn HeadKind {
        &*self.kind
    }

    /// The probability of dropout in front of its last layer.
    pub(crate) fn dropout(&self) -> f64 {
        self.dropout
    }

    /// What its last layer is given.
    pub(crate) fn features(&self, rows: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        self.kind.forward(&self.inner, rows, batch)
    }
}
