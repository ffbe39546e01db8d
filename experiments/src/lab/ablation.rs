//! Removal of trained adapters from every span of layers (Fig. 6), without computing anything twice.

use std::collections::BTreeMap;

use adapter_core::{Insertion, LayerSpan, Place};
use analysis::{AblationRecord, SCHEMA, SpanScore};
use anyhow::Result;
use bert_backbone::PackedBatch;
use burn::tensor::Tensor;
use tasks::{EvaluationSet, HeadInput, Prefetch, Scores, TaskKind, TaskModel, by_sequence, in_order, outputs};

use super::Inference;

/// Scores of a model whole and with the insertions of every span removed; tuned LayerNorms and the head stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Ablation {
    /// Scores of the whole model.
    pub whole: Scores,
    /// Scores without each span's insertions.
    pub without: BTreeMap<LayerSpan, Scores>,
    /// Passes of one layer over the whole set.
    pub layer_passes: usize,
}

impl Ablation {
    /// What is written of it. Changes are those of accuracy, as in the paper, where the task has one; `majority` is the
    /// accuracy of the most frequent class.
    pub fn record(&self, task: &str, kind: TaskKind, majority: Option<f64>) -> AblationRecord {
        let metric = match kind {
            TaskKind::Regression => "spearman",
            TaskKind::Span => "answer_f1",
            TaskKind::Classification | TaskKind::MultiLabel => "accuracy",
        };
        let score = |scores: &Scores| scores.get(metric).copied().unwrap_or_default();
        let whole = score(&self.whole);
        let spans = self.without.iter().map(|(span, scores)| SpanScore {
            first: span.first(),
            last: span.last(),
            scores: scores.clone(),
            relative_change: if whole == 0.0 { 0.0 } else { (score(scores) - whole) / whole.abs() },
        });
        AblationRecord {
            schema: SCHEMA,
            task: task.to_owned(),
            metric: metric.to_owned(),
            // Every layer is the first of a span that is the layer alone.
            layers: self.without.keys().filter(|span| span.first() == span.last()).count(),
            majority,
            whole: self.whole.clone(),
            spans: spans.collect(),
            layer_passes: self.layer_passes,
        }
    }
}

/// Evaluates `model` without the insertions of every span of layers.
///
/// Exact: every output is that of the model with the span removed. Spans with the same first layer share what lies below
/// it, and the layers removed so far; 12 layers take 376 passes instead of 948.
///
/// # Errors
/// If a sequence does not fit the network.
pub(super) fn ablate_spans<I: Insertion>(
    model: &TaskModel<Option<I>>,
    set: &EvaluationSet,
    how: Inference<'_>,
) -> Result<Ablation> {
    if model.head().kind().input() == HeadInput::Layers {
        return ablate_one_by_one(model, set, how);
    }
    let bare = model.clone().map_insertions(|_, _| None::<I>);
    let mut whole = Vec::new();
    let mut without: BTreeMap<LayerSpan, Vec<Vec<f32>>> = BTreeMap::new();
    let mut layer_passes = 0;
    let batches = in_order(set.tokens().len(), how.batch_size);
    for batch in Prefetch::start(set.tokens().clone(), batches, how.network.clone(), how.device.clone()) {
        let batch = batch?.packed;
        let rows = |outputs| by_sequence(outputs, &batch, model.head().kind());
        let mut spans = Spans { with: model, bare: &bare, batch: &batch, passes: 0 };
        whole.extend(rows(spans.every_span(|span, outputs| without.entry(span).or_default().extend(rows(outputs)))));
        layer_passes = spans.passes;
    }
    Ok(Ablation {
        whole: set.score(&whole),
        without: without.into_iter().map(|(span, rows)| (span, set.score(&rows))).collect(),
        layer_passes,
    })
}

/// The same for a head that reads every layer: what lies below a span is no longer at hand when the head needs it.
fn ablate_one_by_one<I: Insertion>(
    model: &TaskModel<Option<I>>,
    set: &EvaluationSet,
    how: Inference<'_>,
) -> Result<Ablation> {
    let score = |model: &TaskModel<Option<I>>| -> Result<Scores> {
        Ok(set.score(&outputs(model, set.tokens(), how.network, how.batch_size, how.device)?))
    };
    let without = |span: LayerSpan| {
        let kept = |place: Place, insertion: Option<I>| insertion.filter(|_| !span.contains(place.layer));
        Ok((span, score(&model.clone().map_insertions(kept))?))
    };
    let layers = model.bert().encoder.layer.len();
    let without: BTreeMap<LayerSpan, Scores> = LayerSpan::all(layers).map(without).collect::<Result<_>>()?;
    Ok(Ablation { whole: score(model)?, layer_passes: layers * (1 + without.len()), without })
}

/// One batch's way through the network and all its ablations.
struct Spans<'a, I: Insertion> {
    with: &'a TaskModel<Option<I>>,
    bare: &'a TaskModel<Option<I>>,
    batch: &'a PackedBatch,
    passes: usize,
}

impl<I: Insertion> Spans<'_, I> {
    /// Calls `f` with the outputs for every span, and returns those of the whole model.
    fn every_span(&mut self, mut f: impl FnMut(LayerSpan, Tensor<2>)) -> Tensor<2> {
        let top = self.with.bert().encoder.layer.len() - 1;
        let mut below = self.with.bert().embeddings.forward(self.batch);
        for first in 0..=top {
            let mut removed = below.clone();
            for last in first..=top {
                let outputs = if last == top {
                    self.end(self.bare, removed.clone())
                } else {
                    removed = self.pass(self.bare, removed, last);
                    let above =
                        (last + 1..top).fold(removed.clone(), |hidden, layer| self.pass(self.with, hidden, layer));
                    self.end(self.with, above)
                };
                if let Ok(span) = LayerSpan::new(first, last) {
                    f(span, outputs);
                }
            }
            if first < top {
                below = self.pass(self.with, below, first);
            }
        }
        self.end(self.with, below)
    }

    fn pass(&mut self, model: &TaskModel<Option<I>>, hidden: Tensor<2>, layer: usize) -> Tensor<2> {
        self.passes += 1;
        model.bert().encoder.layer[layer].forward(hidden, self.batch, layer)
    }

    /// The top layer and the head.
    fn end(&mut self, model: &TaskModel<Option<I>>, hidden: Tensor<2>) -> Tensor<2> {
        self.passes += 1;
        model.forward_from(model.bert().encoder.layer.len() - 1, hidden, self.batch)
    }
}
