//! Heads: from what the network says to a task's outputs.

use std::{fmt, str::FromStr, sync::Arc};

use adapter_core::Init;
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
}

impl HeadInput {
    const ALL: [HeadInput; 3] = [HeadInput::Cls, HeadInput::Pooler, HeadInput::Tokens];
}

impl fmt::Display for HeadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HeadInput::Cls => "cls",
            HeadInput::Pooler => "pooler",
            HeadInput::Tokens => "tokens",
        })
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
///     fn inner(&self, hidden: usize) -> Vec<[usize; 2]> {
///         vec![[hidden, hidden]]
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

    /// Inputs and outputs of its linear layers before the last, on a network of width `hidden`. The last one takes what the
    /// last of these gives, or the network's width.
    fn inner(&self, _hidden: usize) -> Vec<[usize; 2]> {
        Vec::new()
    }

    /// What the last linear layer is given.
    ///
    /// # Shapes
    /// - `rows`: `[sequences, hidden]`, or `[tokens, hidden]` if it reads every token
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
        }
    }

    fn input(&self) -> HeadInput {
        *self
    }
}

/// Two linear layers with tanh between them, on the `[CLS]` token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLayerHead;

impl HeadKind for TwoLayerHead {
    fn name(&self) -> &str {
        "mlp"
    }

    fn inner(&self, hidden: usize) -> Vec<[usize; 2]> {
        vec![[hidden, hidden]]
    }

    fn forward(&self, inner: &[Linear], rows: Tensor<2>, _: &PackedBatch) -> Tensor<2> {
        inner.iter().fold(rows, |rows, layer| activation::tanh(layer.forward(rows)))
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
    /// `cls`, `pooler`, `tokens` and `mlp`.
    fn default() -> Self {
        Self(HeadInput::ALL.map(Arc::from).into_iter().chain([TwoLayerHead.into()]).collect())
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

    /// A new head with `outputs` outputs on a network of width `hidden`.
    pub fn new(hidden: usize, outputs: usize, kind: impl Into<Arc<dyn HeadKind>>, init: Init, device: &Device) -> Self {
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
        let inner = kind.inner(hidden);
        let width = inner.last().map_or(hidden, |[_, width]| *width);
        Self {
            weight: init.truncated_normal("head.weight", [width, outputs], Self::INIT_STD, device),
            bias: init.constant(0.0, [outputs], device),
            inner: inner.into_iter().enumerate().map(linear).collect(),
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
