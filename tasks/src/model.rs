//! A backbone with a task's head.

use adapter_core::{
    DropoutSite, Init, Insertion, Method, MethodError, NetworkShape, Part, Place, Role, Selection, TaskFile,
    TaskFileError, TensorInfo, Tunable, precision,
};
use bert_backbone::{Backbone, Bert, PackedBatch, dropout, role};
use burn::{
    module::Module,
    tensor::{Device, FloatDType, Tensor},
};

use crate::{Head, HeadInput, Heads, TaskKind, UnknownHead, UnknownKind};

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A head that reads a pooler on a backbone without one.
    #[error("the head reads the pooler, but this backbone has none; use the `cls` head")]
    NoPooler,
    /// A task file that names a head this program does not know.
    #[error(transparent)]
    Head(#[from] UnknownHead),
    /// A task file whose parts do not fit each other.
    #[error("the task file contradicts itself: {0}")]
    Inconsistent(String),
    /// A task file that names a kind of task this program does not know.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// A method whose configuration does not fit the backbone.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// A task file that cannot be used with the backbone.
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
        if head.kind().input() == HeadInput::Pooler && bert.pooler.is_none() {
            return Err(ModelError::NoPooler);
        }
        Ok(Self { bert, head })
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

    /// One row of outputs for each sequence, or for each token if the head answers for them.
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
        self.read(self.rows_from(first, hidden, batch), batch)
    }

    /// What the head is given, from what layer `first` is given. A head that reads every layer needs them all: `first` is 0.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[sequences or tokens, what the head reads]`
    pub(crate) fn rows_from(&self, first: usize, hidden: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let hidden = hidden.cast(precision(&self.head.weight.val()));
        match self.head.kind().input() {
            HeadInput::Tokens => self.bert.forward_from(first, hidden, batch),
            HeadInput::Cls | HeadInput::Pooler => self.bert.first_tokens_from(first, hidden, batch),
            HeadInput::Mean => batch.means(self.bert.forward_from(first, hidden, batch)),
            HeadInput::Layers => {
                let (mut hidden, mut means) = (hidden.clone(), vec![batch.means(hidden)]);
                for (number, layer) in self.bert.encoder.layer.iter().enumerate().skip(first) {
                    hidden = layer.forward(hidden, batch, number);
                    means.push(batch.means(hidden.clone()));
                }
                Tensor::cat(means, 1)
            }
        }
    }

    /// The number of layers at the bottom, embeddings included, that train nothing: what lies below the lowest trained
    /// tensor. `None` if the embeddings are trained.
    pub fn frozen_layers(&self, selection: &Selection) -> Option<usize> {
        let layers = self.bert.encoder.layer.len();
        let layer = |tensor: &TensorInfo| match self.role(tensor).part {
            Part::Layer(layer) => Some(layer),
            Part::Embeddings => None,
            Part::Pooler { .. } | Part::Head => Some(layers),
        };
        selection.trained.iter().map(layer).min().unwrap_or(Some(layers))
    }

    /// The head on the rows that it is given.
    pub(crate) fn read(&self, rows: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let rows = rows.cast(precision(&self.head.weight.val()));
        let rows = match (self.head.kind().input(), &self.bert.pooler) {
            (HeadInput::Pooler, Some(pooler)) => pooler.forward(rows),
            _ => rows,
        };
        let rows = self.head.features(rows, batch);
        let mask = batch.dropout.map(|key| key.mask(DropoutSite::Head, self.head.dropout()));
        let outputs = dropout(rows, mask).matmul(self.head.weight.val()) + self.head.bias.val().unsqueeze();
        outputs.cast(FloatDType::F32)
    }
}

impl<I: Insertion> TaskModel<Option<I>> {
    /// What `method` makes of `bert`, with `head`. No weight is copied, and nothing is trained yet.
    ///
    /// # Errors
    /// If the method does not fit the network, or the head reads a pooler that it does not have.
    pub fn tuned<J: Insertion, M: Method<Insertion = I>>(
        method: &M,
        bert: Bert<J>,
        head: Head,
        init: Init,
        device: &Device,
    ) -> Result<Self, ModelError> {
        let network = bert.shape();
        method.check(&network)?;
        Self::new(bert.insert(|place| method.insertion(place, &network, init, device)), head)
    }

    /// The model of a task file: what its method inserts and its head, on `backbone`.
    ///
    /// # Errors
    /// If the file was trained on another backbone or contradicts itself.
    pub fn load<M: Method<Insertion = I>>(
        method: &M,
        backbone: &Backbone,
        file: TaskFile,
        heads: &Heads,
        device: &Device,
    ) -> Result<Self, ModelError> {
        file.check_backbone(&backbone.id())?;
        let outputs = file.shape("head.bias").map_or(0, |shape| shape.iter().product());
        let (kind, labels): (TaskKind, usize) = (file.info.kind.parse()?, file.info.labels.len());
        let head_kind = heads.find(&file.info.head)?;
        let expected = match kind {
            TaskKind::Classification | TaskKind::MultiLabel => labels,
            TaskKind::Regression => 1,
            TaskKind::Span => 2,
        };
        if outputs != expected || (kind == TaskKind::Span) != head_kind.per_token() {
            let head = &file.info.head;
            let problem = format!("a {kind} head on {head} with {outputs} outputs and {labels} labels");
            return Err(ModelError::Inconsistent(problem));
        }
        // Every value is replaced by the file's.
        let init = Init::new(0);
        let head = Head::new(&backbone.config.shape(), outputs, head_kind, init, device);
        let model = Self::tuned(method, backbone.bert.clone(), head, init, device)?;
        let selection = method.select(&model);
        Ok(file.apply(model, &selection, &backbone.id())?)
    }
}

impl<I: Insertion> Tunable for TaskModel<I> {
    fn network(&self) -> NetworkShape {
        self.bert.shape()
    }

    fn role(&self, tensor: &TensorInfo) -> Role {
        match tensor.name.split_once('.') {
            Some(("head", _)) => Role { part: Part::Head, kind: adapter_core::Kind::of(tensor), inserted: false },
            Some((_, rest)) => role(rest, tensor, self.head.kind().input() == HeadInput::Pooler),
            None => role(&tensor.name, tensor, false),
        }
    }
}
