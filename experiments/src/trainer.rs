//! The training loop.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use adapter_core::{DropoutKey, Insertion, Place, Probe, TaskFile, TaskInfo};
use analysis::{Best, Epoch, Measured};
use anyhow::{Result, bail, ensure};
use bert_backbone::{BertConfig, PackedBatch};
use burn::{module::Module, tensor::Device};
use rayon::prelude::*;
use tasks::{BatchConfig, EvaluationSet, Metric, NumberedBatch, Prefetch, TaskModel, TrainingSet, epoch_batches};

use crate::{
    adam::{Adam, StepGradients},
    checkpoint::{Checkpoint, Numbers},
    memory,
    precision::Precision,
    profile::Settings,
    replicas::Replicas,
};

/// How long, how fast and in what order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// The profile's settings.
    pub settings: Settings,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Passes over the training set.
    pub epochs: usize,
    /// Examples of a step.
    pub batch_size: usize,
    /// Parts into which a step's examples are divided, to save memory; their gradients are averaged.
    pub accumulate: usize,
    /// Decides order and dropout.
    pub seed: u64,
    /// Steps between evaluations, besides those at every epoch's end.
    pub evaluate_every: Option<usize>,
    /// Evaluations without a better score after which the run ends; `None` runs to the end.
    pub patience: Option<usize>,
    /// Steps between measurements of how far each insertion is from the identity; `None` measures nothing.
    pub probe_every: Option<usize>,
    /// The numbers that the network computes with.
    pub precision: Precision,
}

impl Course {
    /// The paper's way of training: batches of 32, an evaluation at each epoch's end.
    pub fn new(settings: Settings, learning_rate: f64, epochs: usize, seed: u64) -> Self {
        Self {
            settings,
            learning_rate,
            epochs,
            batch_size: 32,
            accumulate: 1,
            seed,
            evaluate_every: None,
            patience: None,
            probe_every: None,
            precision: Precision::F32,
        }
    }
}

/// What to train on, and what to choose by.
pub struct Lessons<'a> {
    /// Examples to train on.
    pub train: &'a TrainingSet,
    /// Examples to choose by.
    pub validation: &'a EvaluationSet,
    /// The metric to choose by.
    pub metric: Metric,
    /// The shape of the network that takes them.
    pub network: &'a BertConfig,
}

/// What training brought.
pub struct Trained {
    /// v of the best evaluation.
    pub file: TaskFile,
    /// Every evaluation.
    pub epochs: Vec<Epoch>,
    /// The best one.
    pub best: Best,
    /// Steps that were not taken because their gradients overflowed half precision.
    pub skipped_steps: usize,
    /// Times and rates.
    pub measured: Measured,
}

/// How a run is kept safe. The default keeps nothing.
#[derive(Default)]
pub struct Safety<'a> {
    /// The state to go on from.
    pub resume: Option<Checkpoint>,
    /// How checkpoints are kept.
    pub keep: Option<Keep<'a>>,
    /// Set from outside to end the run after the step under way.
    pub stop: Option<&'a AtomicBool>,
}

/// How checkpoints are kept.
pub struct Keep<'a> {
    /// Time between checkpoints; there is one at every evaluation besides.
    pub every: Duration,
    /// Writes a checkpoint.
    pub write: &'a mut dyn FnMut(&Checkpoint) -> Result<()>,
}

/// A run that was stopped from outside.
#[derive(Debug, thiserror::Error)]
#[error("interrupted after step {step}; {}", if *kept { "run the same command again to go on" } else { "nothing was kept (--runs DIR would)" })]
pub struct Interrupted {
    step: usize,
    kept: bool,
}

/// A step that was taken.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// The number of all steps.
    pub of: usize,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// The number of all epochs.
    pub epochs: usize,
    /// Its loss.
    pub loss: f64,
    /// Its learning rate.
    pub rate: f64,
    /// Tokens trained on in a second.
    pub tokens_per_second: f64,
    /// How far each insertion is from the identity, ‖Δ‖/‖x‖, if this step measured it.
    pub deviations: BTreeMap<Place, f64>,
}

/// Whoever follows a run. A closure that takes a [`Step`] does.
pub trait Watch {
    /// A step was taken.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn step(&mut self, step: &Step) -> Result<()>;

    /// The model was evaluated.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn evaluation(&mut self, _evaluation: &Epoch) -> Result<()> {
        Ok(())
    }

    /// A checkpoint is about to be written: what was seen so far must not be lost.
    ///
    /// # Errors
    /// If it cannot be kept; the run ends.
    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(&Step)> Watch for F {
    fn step(&mut self, step: &Step) -> Result<()> {
        self(step);
        Ok(())
    }
}

/// Trains the tensors of `model` that require gradients, and returns v of the evaluation that scores best.
///
/// Everything random is a function of the seed and the step: the same call gives the same bits on the same kind of device,
/// and a resumed run those of one that never stopped.
///
/// # Errors
/// If there is nothing to train on, a sequence does not fit the network, the loss is not finite, or a checkpoint cannot be
/// kept.
pub fn train<I: Insertion>(
    model: TaskModel<I>,
    info: &TaskInfo,
    lessons: &Lessons<'_>,
    course: &Course,
    device: &Device,
    safety: Safety<'_>,
    watch: &mut dyn Watch,
) -> Result<Trained> {
    train_on(model, info, lessons, course, std::slice::from_ref(device), safety, watch)
}

/// [`train`] on several devices: each takes its share of every batch, and their gradients are averaged. `model` is on the
/// first, which also evaluates. It must not normalise batches: they are no longer whole, and Burn's copies of a model share
/// running statistics.
///
/// # Errors
/// As [`train`], and if there is no device.
pub fn train_on<I: Insertion>(
    model: TaskModel<I>,
    info: &TaskInfo,
    lessons: &Lessons<'_>,
    course: &Course,
    devices: &[Device],
    mut safety: Safety<'_>,
    watch: &mut dyn Watch,
) -> Result<Trained> {
    let Some((device, others)) = devices.split_first() else { bail!("there is no device to train on") };
    let Course { settings, seed, accumulate, precision, .. } = *course;
    let (set, network) = (lessons.train, lessons.network);
    ensure!(course.epochs > 0 && !set.is_empty(), "nothing to train: no epochs or no examples");
    let lengths: Vec<usize> = (0..set.len()).map(|i| set.tokens.length(i)).collect();
    let batches = BatchConfig { size: course.batch_size, seed, length_window: 0 };
    let steps_of_epoch = set.len().div_ceil(course.batch_size.max(1));
    let total = course.epochs * steps_of_epoch;
    let plain = device.clone().inner();

    let mut model = precision.of(model);
    let mut adam = Adam::new(settings.adam);
    let mut best: Option<TaskFile> = None;
    let mut run = Numbers { loss_scale: precision.loss_scale(), ..Numbers::default() };
    if let Some(checkpoint) = safety.resume {
        checkpoint.check(&model, info, total)?;
        model = precision.of(checkpoint.now.apply(model, &info.backbone)?);
        adam = Adam::restore(settings.adam, checkpoint.adam, &plain);
        (run, best) = (checkpoint.numbers, checkpoint.best);
        run.measured.resumes += 1;
    }
    let mut replicas = Replicas::new(&model, others);
    memory::forget_peak();
    let mut kept = Instant::now();
    while run.step < total && !run.patience_is_over(course.patience) {
        let epoch = run.step / steps_of_epoch;
        // A resumed run has taken some of the epoch's steps already.
        let plan = epoch_batches(&lengths, batches, epoch as u64).split_off(run.step % steps_of_epoch);
        let count = accumulate.max(1) * devices.len();
        let divided: Vec<Vec<Vec<usize>>> = plan.iter().map(|examples| parts(examples, count)).collect();
        let mut ready = Prefetch::start(set.tokens.clone(), divided.concat(), network.clone(), device.clone());
        for (examples, parts) in plan.iter().zip(&divided) {
            let started = Instant::now();
            let rate = settings.schedule.rate(course.learning_rate, run.step, total, settings.warmup);
            let mut batches = Vec::with_capacity(parts.len());
            for (part, batch) in ready.by_ref().take(parts.len()).enumerate() {
                let mut batch = batch?;
                let key = DropoutKey { seed, step: (run.step * count + part) as u64 };
                batch.packed = batch.packed.with_dropout(key);
                batches.push(batch);
            }
            let tokens = batches.iter().map(|batch| batch.packed.tokens()).sum();
            let scale = run.loss_scale.map_or(1.0, |scale| scale.factor);
            let slopes = |model: &TaskModel<I>, batches: Vec<NumberedBatch>| {
                let mut slopes = Slopes::default();
                for batch in batches {
                    let share = batch.examples.len() as f64 / examples.len() as f64;
                    slopes.add(model, set, &batch, share, scale);
                }
                slopes
            };
            let Slopes { gradients, loss } = match others.is_empty() {
                true => slopes(&model, batches),
                false => on_all(&model, &replicas, batches, accumulate.max(1), &plain, &slopes),
            };
            ensure!(loss.is_finite(), "the loss is {loss} at step {}: try a lower learning rate", run.step + 1);
            let overflow = run.loss_scale.is_some() && !gradients.are_finite();
            ensure!(
                !overflow || scale > 1.0,
                "gradients overflow {precision} whatever the loss is scaled by: use bf16 or f32"
            );
            run.loss_scale = run.loss_scale.map(|scale| scale.after(overflow));
            if !overflow {
                model = adam.update(model, &gradients, rate);
                replicas.follow(&model);
            }
            let seconds = started.elapsed().as_secs_f64();
            run.count(loss, tokens, seconds);
            run.measured.peak_memory_bytes = run.measured.peak_memory_bytes.max(memory::peak());
            let deviations = match course.probe_every {
                Some(every) if run.step == 1 || run.step.is_multiple_of(every) => {
                    deviations(&model, set, &parts[0], network, &plain)?
                }
                _ => BTreeMap::new(),
            };
            let tokens_per_second = tokens as f64 / seconds;
            let (epoch, epochs) = (epoch + 1, course.epochs);
            let step = Step { step: run.step, of: total, epoch, epochs, loss, rate, tokens_per_second, deviations };
            watch.step(&step)?;

            let due = run.step.is_multiple_of(steps_of_epoch)
                || course.evaluate_every.is_some_and(|every| run.step.is_multiple_of(every));
            if due {
                let evaluation = evaluate(&mut run, epoch, &model, lessons, 2 * course.batch_size, &plain)?;
                if run.best.as_ref().is_some_and(|best| best.steps == run.step) {
                    best = Some(TaskFile::from_model(&model, info.clone()));
                }
                watch.evaluation(&evaluation)?;
            }
            let stopped = run.step < total && safety.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            if let Some(keep) = safety.keep.as_mut().filter(|keep| due || stopped || kept.elapsed() >= keep.every) {
                watch.checkpoint()?;
                let now = TaskFile::from_model(&model, info.clone());
                (keep.write)(&Checkpoint { numbers: run.clone(), now, best: best.clone(), adam: adam.state() })?;
                kept = Instant::now();
            }
            if stopped {
                return Err(Interrupted { step: run.step, kept: safety.keep.is_some() }.into());
            }
            if due && run.patience_is_over(course.patience) {
                break;
            }
        }
    }
    let mut measured = run.measured;
    measured.tokens_per_second = run.tokens as f64 / measured.training_seconds;
    let (Some(best), Some(file)) = (run.best, best) else { bail!("the checkpoint holds no best epoch") };
    let skipped_steps = run.loss_scale.map_or(0, |scale| scale.skipped);
    Ok(Trained { file, epochs: run.epochs, best, skipped_steps, measured })
}

/// The gradients of some of a step's examples, and their part of its loss.
#[derive(Default)]
struct Slopes {
    gradients: StepGradients,
    loss: f64,
}

impl Slopes {
    /// Adds those of a batch that is this share of the step; the loss is multiplied by `scale` on its way.
    fn add<I: Insertion>(
        &mut self,
        model: &TaskModel<I>,
        set: &TrainingSet,
        batch: &NumberedBatch,
        share: f64,
        scale: f64,
    ) {
        let loss = set.loss(set.forward(model, batch), batch);
        self.loss += share * f64::from(loss.clone().into_scalar::<f32>());
        let loss = if scale == 1.0 { loss } else { loss * scale };
        self.gradients.add(model, &loss.backward(), share / scale);
    }
}

/// The gradients of a step on all devices, each of which takes `each` of its batches; the sum is on `device`, the first.
fn on_all<I: Insertion>(
    model: &TaskModel<I>,
    replicas: &Replicas<I>,
    mut batches: Vec<NumberedBatch>,
    each: usize,
    device: &Device,
    slopes: &(dyn Fn(&TaskModel<I>, Vec<NumberedBatch>) -> Slopes + Sync),
) -> Slopes {
    let mut take = || batches.drain(..each.min(batches.len())).collect::<Vec<_>>();
    let mut work = vec![(model.clone(), take())];
    for (device, copy) in replicas.copies() {
        let mine = take().into_iter().map(|batch| batch.to_device(device));
        work.push((copy.clone(), mine.collect()));
    }
    let done: Vec<Slopes> = work.into_par_iter().map(|(model, batches)| slopes(&model, batches)).collect();
    // In the order of the devices: the sum does not depend on who was first.
    done.into_iter().fold(Slopes::default(), |mut sum, part| {
        sum.gradients.merge(part.gradients, device);
        sum.loss += part.loss;
        sum
    })
}

/// A step's examples in at most `count` parts of nearly the same size.
fn parts(examples: &[usize], count: usize) -> Vec<Vec<usize>> {
    examples.chunks(examples.len().div_ceil(count.max(1))).map(<[usize]>::to_vec).collect()
}

/// Scores the model and takes the scores down.
fn evaluate<I: Insertion>(
    run: &mut Numbers,
    epoch: usize,
    model: &TaskModel<I>,
    lessons: &Lessons<'_>,
    batch_size: usize,
    device: &Device,
) -> Result<Epoch> {
    let started = Instant::now();
    let scores = lessons.validation.evaluate(&model.valid(), lessons.network, batch_size, device)?;
    run.measured.evaluation_seconds += started.elapsed().as_secs_f64();
    let Some(&score) = scores.get(&lessons.metric) else { bail!("the task has no metric `{}`", lessons.metric) };
    let finite = scores.values().all(|score| score.is_finite());
    ensure!(finite, "the scores after step {} are not numbers: try a lower learning rate", run.step);
    let validation: BTreeMap<String, f64> = scores.iter().map(|(m, &score)| (m.to_string(), score)).collect();
    let metric = lessons.metric.to_string();
    if run.best.as_ref().is_none_or(|best| score > best.validation[&metric]) {
        run.best = Some(Best { epoch, steps: run.step, metric, validation: validation.clone() });
    }
    let before = run.epochs.last().map_or(0, |evaluation| evaluation.steps);
    let loss = run.loss_sum / (run.step - before) as f64;
    run.loss_sum = 0.0;
    let evaluation = Epoch { epoch, steps: run.step, loss, validation };
    run.epochs.push(evaluation.clone());
    Ok(evaluation)
}

/// How far each insertion is from the identity on some examples, without dropout.
fn deviations<I: Insertion>(
    model: &TaskModel<I>,
    set: &TrainingSet,
    examples: &[usize],
    network: &BertConfig,
    device: &Device,
) -> Result<BTreeMap<Place, f64>> {
    let sequences: Vec<_> = examples.iter().map(|&example| set.tokens.sequence(example)).collect();
    let probe = Probe::default();
    let watched = model.valid().map_insertions(|_, insertion| probe.around(insertion));
    watched.forward(&PackedBatch::new(&sequences, network, device)?);
    Ok(probe.deviations())
}
