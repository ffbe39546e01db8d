//! A backbone with a task's head.

use std::{fmt, str::FromStr};

use adapter_core::{
    Adapter, AdapterConfigError, DropoutSite, Init, Insertion, Kind, Part, Place, Role, TaskFile, TaskFileError,
    Tunable, Tuning, precision,
};
use bert_backbone::{Backbone, Bert, PackedBatch, dropout, role};
use burn::{
    module::{Module, Param},
    tensor::{Device, FloatDType, Tensor},
};

use crate::{TaskKind, UnknownKind};

/// What a head reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadInput {
    /// The last layer's `[CLS]` token, as in the paper.
    #[default]
    Cls,
    /// The pre-trained pooler, as in the authors' released code.
    Pooler,
    /// Every token of the last layer, for spans.
    Tokens,
}

/// A name that is nothing a head reads.
#[derive(Debug, thiserror::Error)]
#[error("unknown head input `{0}` (known: cls, pooler, tokens)")]
pub struct UnknownHeadInput(String);

impl FromStr for HeadInput {
    type Err = UnknownHeadInput;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cls" => Ok(HeadInput::Cls),
            "pooler" => Ok(HeadInput::Pooler),
            "tokens" => Ok(HeadInput::Tokens),
            _ => Err(UnknownHeadInput(name.to_owned())),
        }
    }
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

/// A linear layer from the network's width to a task's outputs.
#[derive(Module, Debug)]
pub struct Head {
    /// `[hidden, outputs]`
    pub weight: Param<Tensor<2>>,
    /// `[outputs]`
    pub bias: Param<Tensor<1>>,
    #[module(skip)]
    input: HeadInput,
    dropout: f64,
}

impl Head {
    /// Standard deviation of a new head's weights.
    const INIT_STD: f64 = 0.02;

    /// A new head with `outputs` outputs on a network of width `hidden`.
    pub fn new(hidden: usize, outputs: usize, input: HeadInput, init: Init, device: &Device) -> Self {
        Self {
            weight: init.truncated_normal("head.weight", [hidden, outputs], Self::INIT_STD, device),
            bias: init.constant(0.0, [outputs], device),
            input,
            dropout: 0.0,
        }
    }

    /// The same head with dropout in front of it: none in the paper, 0.1 in the authors' released code.
    pub fn with_dropout(self, probability: f64) -> Self {
        Self { dropout: probability, ..self }
    }

    /// What the head reads.
    pub fn input(&self) -> HeadInput {
        self.input
    }
}

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A head that reads a pooler on a backbone without one.
    #[error("the head reads the pooler, but this backbone has none; use the `cls` head")]
    NoPooler,
    /// A per-task file that names a head this program does not know.
    #[error(transparent)]
    Head(#[from] UnknownHeadInput),
    /// A per-task file whose parts do not fit each other.
    #[error("the per-task file is at odds with itself: {0}")]
    Inconsistent(String),
    /// A per-task file that names a kind of task this program does not know.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// A per-task file whose adapters do not fit the backbone.
    #[error(transparent)]
    Adapter(#[from] AdapterConfigError),
    /// A per-task file that cannot be used with the backbone.
    #[error(transparent)]
    File(#[from] TaskFileError),
}

/// A backbone, what is inserted into it, and a task's head: ψ of the paper.
#[derive(Module, Debug)]
pub struct TaskModel<I: Insertion> {
    bert: Bert<I>,
    head: Head,
}

impl<I: Insertion> TaskModel<I> {
    /// Puts `head` on `bert`.
    ///
    /// # Errors
    /// If the head reads a pooler that the backbone does not have.
    pub fn new(bert: Bert<I>, head: Head) -> Result<Self, ModelError> {
        match head.input == HeadInput::Pooler && bert.pooler.is_none() {
            true => Err(ModelError::NoPooler),
            false => Ok(Self { bert, head }),
        }
    }

    /// The network.
    pub fn bert(&self) -> &Bert<I> {
        &self.bert
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The same model with `f` of what was inserted at each place. No weight is copied.
    pub fn map_insertions<J: Insertion>(self, f: impl FnMut(Place, I) -> J) -> TaskModel<J> {
        TaskModel { bert: self.bert.map_insertions(f), head: self.head }
    }

    /// One row of outputs for each sequence, or for each token if the head reads them all.
    ///
    /// # Shapes
    /// - result: `[sequences or tokens, outputs]`, in f32
    pub fn forward(&self, batch: &PackedBatch) -> Tensor<2> {
        self.forward_from(0, self.bert.embeddings.forward(batch), batch)
    }

    /// [`forward`](Self::forward), from what layer `first` is given.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[sequences or tokens, outputs]`
    pub fn forward_from(&self, first: usize, hidden: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let hidden = hidden.cast(precision(&self.head.weight.val()));
        let rows = match self.head.input {
            HeadInput::Tokens => self.bert.forward_from(first, hidden, batch),
            HeadInput::Cls | HeadInput::Pooler => self.bert.first_tokens_from(first, hidden, batch),
        };
        self.read(rows, batch)
    }

    /// The number of layers at the bottom, embeddings included, that train nothing: what lies below the lowest trained
    /// tensor. `None` if the embeddings are trained.
    pub fn frozen_layers(&self, tuning: Tuning) -> Option<usize> {
        let trained = tuning.trained(self);
        let layer = |name: &str| match self.role(name).part {
            Part::Layer(layer) => Some(layer),
            Part::Embeddings => None,
            Part::Pooler { .. } | Part::Head => Some(self.layers()),
        };
        trained.iter().map(|tensor| layer(&tensor.name)).min().unwrap_or(Some(self.layers()))
    }

    /// The head on the rows that it reads.
    fn read(&self, rows: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let rows = match (self.head.input, &self.bert.pooler) {
            (HeadInput::Pooler, Some(pooler)) => pooler.forward(rows),
            _ => rows,
        };
        let mask = batch.dropout.map(|key| key.mask(DropoutSite::Head, self.head.dropout));
        let outputs = dropout(rows, mask).matmul(self.head.weight.val()) + self.head.bias.val().unsqueeze();
        outputs.cast(FloatDType::F32)
    }
}

impl TaskModel<Option<Adapter>> {
    /// The model of a per-task file: its adapters and head on `backbone`.
    ///
    /// # Errors
    /// If the file was trained on another backbone or is at odds with itself.
    pub fn load(backbone: &Backbone, file: TaskFile, device: &Device) -> Result<Self, ModelError> {
        file.check_backbone(&backbone.id())?;
        let hidden = backbone.config.hidden_size;
        // Every value is replaced by the file's.
        let init = Init::new(0);
        let adapter = file.info.adapter.clone();
        if let Some(adapter) = &adapter {
            adapter.check(backbone.config.num_hidden_layers)?;
        }
        let bert = backbone.bert.clone();
        let bert = bert.insert(|place| adapter.as_ref().and_then(|a| a.init(place, hidden, init, device)));
        let outputs = file.shape("head.bias").map_or(0, |shape| shape.iter().product());
        let (kind, labels): (TaskKind, usize) = (file.info.kind.parse()?, file.info.labels.len());
        let input: HeadInput = file.info.head.parse()?;
        let expected = match kind {
            TaskKind::Classification | TaskKind::MultiLabel => labels,
            TaskKind::Regression => 1,
            TaskKind::Span => 2,
        };
        if outputs != expected || (kind == TaskKind::Span) != (input == HeadInput::Tokens) {
            let problem = format!("a {kind} head on {input} with {outputs} outputs and {labels} labels");
            return Err(ModelError::Inconsistent(problem));
        }
        let head = Head::new(hidden, outputs, input, init, device);
        Ok(file.apply(Self::new(bert, head)?, &backbone.id())?)
    }
}

impl<I: Insertion> Tunable for TaskModel<I> {
    fn layers(&self) -> usize {
        self.bert.encoder.layer.len()
    }

    fn role(&self, name: &str) -> Role {
        match name.split_once('.') {
            Some(("head", rest)) => {
                Role { part: Part::Head, kind: if rest == "bias" { Kind::Bias } else { Kind::Weight } }
            }
            Some((_, rest)) => role(rest, self.head.input == HeadInput::Pooler),
            None => role(name, self.head.input == HeadInput::Pooler),
        }
    }
}
