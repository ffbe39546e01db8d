//! What a method makes of a backbone, its type erased.

use std::sync::Arc;

use adapter_core::{LayerSpan, Method, NoInsertion, ParamCount, Selection, TensorInfo};
use anyhow::{Context, Result};
use bert_backbone::{Bert, BertConfig};
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use tasks::{EvaluationSet, FrozenPrefix, Head, NumberedBatch, Scores, TaskModel, Tokenised, outputs};

use super::{Ablation, Traces, ablation::ablate_spans};
use crate::{
    device::Precision,
    train::{CheckpointPolicy, ModuleOptimizer, Optimizer, RunError, StepGradients, Trained, Training, Watch, train},
};

/// How a model is run over many sequences.
#[derive(Clone, Copy, Debug)]
pub struct Inference<'a> {
    /// The network's shape.
    pub network: &'a BertConfig,
    /// Sequences of a batch.
    pub batch_size: usize,
    /// Where to compute.
    pub device: &'a Device,
}

/// A tuned network, whatever was inserted into it.
pub trait AnyModel: Send {
    /// Its parameters.
    fn count(&self) -> ParamCount;
    /// Layers at the bottom that train nothing; `None` if the embeddings are trained.
    fn frozen_layers(&self) -> Option<usize>;
    /// What is trained.
    fn trained(&self) -> &[TensorInfo];
    /// Its head.
    fn head(&self) -> &Head;
    /// The backbone with the trained tensors in it and nothing inserted.
    fn bert(&self) -> Bert;
    /// Its head and what is inserted, on another backbone of the same shape.
    ///
    /// # Errors
    /// If the head reads a pooler that the backbone does not have.
    fn on(&self, bert: Bert) -> Result<Box<dyn AnyModel>>;
    /// Whether anything is inserted.
    fn has_insertions(&self) -> bool;
    /// The same model in another precision.
    fn in_precision(self: Box<Self>, precision: Precision) -> Box<dyn AnyModel>;
    /// The same model without what is inserted in a span of layers.
    fn without(&self, span: LayerSpan) -> Box<dyn AnyModel>;
    /// The same model again; no weight is copied.
    fn boxed_clone(&self) -> Box<dyn AnyModel>;

    /// Its outputs for a batch.
    ///
    /// # Shapes
    /// - result: `[sequences or tokens, outputs]`
    fn forward(&self, batch: &NumberedBatch) -> Tensor<2>;
    /// Its outputs for every sequence.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    fn outputs(&self, tokens: &Arc<Tokenised>, how: Inference<'_>) -> Result<Vec<Vec<f32>>>;
    /// Its scores.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    fn evaluate(&self, set: &EvaluationSet, how: Inference<'_>) -> Result<Scores>;
    /// Its scores without what is inserted in each span of layers.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    fn ablate(&self, set: &EvaluationSet, how: Inference<'_>) -> Result<Ablation>;
    /// What its lowest `layers` layers say of every token.
    ///
    /// # Errors
    /// If a sequence does not fit the network.
    fn prefix(&self, layers: usize, tokens: &Arc<Tokenised>, how: Inference<'_>) -> Result<FrozenPrefix>;
    /// Trains it.
    ///
    /// # Errors
    /// If training fails or is stopped.
    fn train(
        &self,
        training: &Training<'_>,
        checkpoints: CheckpointPolicy<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Trained, RunError>;
    /// One training step on a batch of texts of the given classes, again and again: what `bench` measures.
    fn stepper<'a>(
        &self,
        batch: bert_backbone::PackedBatch,
        classes: Vec<usize>,
        optimizer: &'a dyn Optimizer,
    ) -> Box<dyn FnMut() + 'a>;
    /// Everything that it computes of a few batches, number by number.
    ///
    /// # Errors
    /// If the network cannot take them.
    fn trace(&self, network: &BertConfig, optimizer: &dyn Optimizer, device: &Device) -> Result<Traces>;
}

/// What a method made, with its type.
pub(super) struct Tuned<M: Method> {
    pub method: M,
    pub model: TaskModel<Option<M::Insertion>>,
    pub selection: Selection,
}

impl<M: Method> Tuned<M> {
    fn with(&self, model: TaskModel<Option<M::Insertion>>) -> Box<dyn AnyModel> {
        Box::new(Self { method: self.method.clone(), model, selection: self.selection.clone() })
    }
}

impl<M: Method> AnyModel for Tuned<M> {
    fn count(&self) -> ParamCount {
        ParamCount::of(&self.model, &self.method)
    }

    fn frozen_layers(&self) -> Option<usize> {
        self.model.frozen_layers(&self.selection)
    }

    fn trained(&self) -> &[TensorInfo] {
        &self.selection.trained
    }

    fn head(&self) -> &Head {
        self.model.head()
    }

    fn bert(&self) -> Bert {
        self.model.bert().clone().insert(|_| NoInsertion)
    }

    fn on(&self, bert: Bert) -> Result<Box<dyn AnyModel>> {
        let mut insertions = Vec::new();
        self.model.bert().clone().map_insertions(|_, insertion| {
            insertions.push(insertion);
            NoInsertion
        });
        let mut insertions = insertions.into_iter();
        let bert = bert.insert(|_| insertions.next().flatten());
        Ok(self.with(TaskModel::new(bert, self.model.head().clone())?))
    }

    fn has_insertions(&self) -> bool {
        let mut found = false;
        self.model.bert().clone().map_insertions(|_, insertion| {
            found |= insertion.is_some();
            insertion
        });
        found
    }

    fn in_precision(self: Box<Self>, precision: Precision) -> Box<dyn AnyModel> {
        let Self { method, model, selection } = *self;
        Box::new(Self { method, model: precision.of(model), selection })
    }

    fn without(&self, span: LayerSpan) -> Box<dyn AnyModel> {
        let kept = |place: adapter_core::Place| !span.contains(place.layer);
        let model = self.model.clone();
        self.with(model.map_insertions(|place, insertion| insertion.filter(|_| kept(place))))
    }

    fn boxed_clone(&self) -> Box<dyn AnyModel> {
        self.with(self.model.clone())
    }

    fn forward(&self, batch: &NumberedBatch) -> Tensor<2> {
        self.model.forward(&batch.packed)
    }

    fn outputs(&self, tokens: &Arc<Tokenised>, how: Inference<'_>) -> Result<Vec<Vec<f32>>> {
        Ok(outputs(&self.model, tokens, how.network, how.batch_size, how.device)?)
    }

    fn evaluate(&self, set: &EvaluationSet, how: Inference<'_>) -> Result<Scores> {
        Ok(set.evaluate(&self.model, how.network, how.batch_size, how.device)?)
    }

    fn ablate(&self, set: &EvaluationSet, how: Inference<'_>) -> Result<Ablation> {
        ablate_spans(&self.model, set, how)
    }

    fn prefix(&self, layers: usize, tokens: &Arc<Tokenised>, how: Inference<'_>) -> Result<FrozenPrefix> {
        let Inference { network, batch_size, device } = how;
        Ok(FrozenPrefix::compute(&self.model.valid(), layers, tokens, network, batch_size, device)?)
    }

    fn train(
        &self,
        training: &Training<'_>,
        checkpoints: CheckpointPolicy<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Trained, RunError> {
        train(self.model.clone(), &self.selection, training, checkpoints, watch)
    }

    fn stepper<'a>(
        &self,
        batch: bert_backbone::PackedBatch,
        classes: Vec<usize>,
        optimizer: &'a dyn Optimizer,
    ) -> Box<dyn FnMut() + 'a> {
        let (mut model, mut optimizer, mut step) = (self.model.clone(), ModuleOptimizer::new(optimizer, 0.0), 0);
        Box::new(move || {
            let batch = batch.clone().with_dropout(adapter_core::DropoutKey { seed: 0, step });
            step += 1;
            let loss = tasks::loss::cross_entropy(model.forward(&batch), &classes);
            let gradients = StepGradients::of(&model, &loss.backward());
            model = optimizer.update(model.clone(), &gradients, 1e-4);
        })
    }

    fn trace(&self, network: &BertConfig, optimizer: &dyn Optimizer, device: &Device) -> Result<Traces> {
        Traces::of(&self.model, &self.selection, network, optimizer, device).context("cannot compare this model")
    }
}
