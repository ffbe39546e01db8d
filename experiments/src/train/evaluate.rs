//! Looking at a model in the middle of its training.

use std::{collections::BTreeMap, time::Instant};

use adapter_core::{Insertion, Place, Probe};
use analysis::{Evaluation, Scored};
use anyhow::{Result, bail};
use bert_backbone::PackedBatch;
use burn::{module::Module, tensor::Device};
use tasks::TaskModel;

use super::{TrainState, TrainingData};

/// Scores the model and takes the scores down; the best evaluation so far is the state's. `None` if a score is no number.
pub(super) fn evaluate<I: Insertion>(
    state: &mut TrainState,
    epoch: usize,
    model: &TaskModel<I>,
    data: &TrainingData<'_>,
    batch_size: usize,
    device: &Device,
) -> Result<Option<Evaluation>> {
    let started = Instant::now();
    let validation = data.validation.evaluate(&model.valid(), data.network, batch_size, device)?;
    state.measured.evaluation_seconds += started.elapsed().as_secs_f64();
    let metric = data.metric;
    let Some(&score) = validation.get(metric) else { bail!("the task has no metric `{metric}`") };
    if !validation.values().all(|score| score.is_finite()) {
        return Ok(None);
    }
    if state.best.as_ref().is_none_or(|best| score > best.validation[metric]) {
        let (metric, validation) = (metric.to_owned(), validation.clone());
        state.best = Some(Scored { epoch, steps: state.step, metric, validation });
    }
    let before = state.evaluations.last().map_or(0, |evaluation| evaluation.steps);
    let loss = state.loss_sum / (state.step - before) as f64;
    state.loss_sum = 0.0;
    let evaluation = Evaluation { epoch, steps: state.step, loss, validation };
    state.evaluations.push(evaluation.clone());
    Ok(Some(evaluation))
}

/// How far each insertion is from the identity on some examples, without dropout.
pub(super) fn deviations<I: Insertion>(
    model: &TaskModel<I>,
    data: &TrainingData<'_>,
    examples: &[usize],
    device: &Device,
) -> Result<BTreeMap<Place, f64>> {
    let sequences: Vec<_> = examples.iter().map(|&example| data.train.tokens.sequence(example)).collect();
    let probe = Probe::default();
    let watched = model.valid().map_insertions(|_, insertion| probe.around(insertion));
    watched.forward(&PackedBatch::new(&sequences, data.network, device)?);
    Ok(probe.deviations())
}
