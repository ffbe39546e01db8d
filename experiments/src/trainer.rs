//! The training loop.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use adapter_core::{DropoutKey, Insertion, TaskFile, TaskInfo};
use analysis::{Best, Epoch, Measured};
use anyhow::{Result, bail, ensure};
use bert_backbone::BertConfig;
use burn::{module::Module, tensor::Device};
use tasks::{BatchConfig, EvaluationSet, Metric, Prefetch, TaskModel, TrainingSet, epoch_batches};

use crate::{
    adam::Adam,
    checkpoint::{Checkpoint, Numbers},
    profile::Settings,
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
    /// Decides order and dropout.
    pub seed: u64,
    /// Epochs without a better validation score after which the run ends; `None` runs them all.
    pub patience: Option<usize>,
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
    /// v of the best epoch.
    pub file: TaskFile,
    /// Every epoch.
    pub epochs: Vec<Epoch>,
    /// The best one.
    pub best: Best,
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
    /// Time between checkpoints; there is one at every epoch's end besides.
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
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// The number of all steps.
    pub of: usize,
    /// Its loss.
    pub loss: f64,
    /// Its learning rate.
    pub rate: f64,
}

/// Trains the tensors of `model` that require gradients, and returns v of the epoch that scores best on validation.
///
/// Everything random is a function of the seed and the step: the same call gives the same bits on the same kind of device,
/// and a resumed run those of one that never stopped.
///
/// # Errors
/// If there is nothing to train on, a sequence does not fit the network, the loss is not finite, or a checkpoint cannot be
/// kept.
pub fn train<I: Insertion>(
    mut model: TaskModel<I>,
    info: &TaskInfo,
    lessons: &Lessons<'_>,
    course: &Course,
    device: &Device,
    mut safety: Safety<'_>,
    mut watch: impl FnMut(Step),
) -> Result<Trained> {
    let Course { settings, seed, .. } = *course;
    let network = lessons.network;
    ensure!(course.epochs > 0 && !lessons.train.is_empty(), "nothing to train: no epochs or no examples");
    let lengths: Vec<usize> = (0..lessons.train.len()).map(|i| lessons.train.tokens.length(i)).collect();
    let batches = BatchConfig { size: course.batch_size, seed, length_window: 0 };
    let total = course.epochs * lessons.train.len().div_ceil(course.batch_size.max(1));
    let plain = device.clone().inner();

    let mut adam = Adam::new(settings.adam);
    let mut best: Option<TaskFile> = None;
    let mut run = Numbers::default();
    if let Some(checkpoint) = safety.resume {
        checkpoint.check(&model, info, total)?;
        model = checkpoint.now.apply(model, &info.backbone)?;
        adam = Adam::restore(settings.adam, checkpoint.adam, &plain);
        (run, best) = (checkpoint.numbers, checkpoint.best);
    }
    let mut kept = Instant::now();
    for epoch in run.epochs.len()..course.epochs {
        let since_best = run.best.as_ref().map_or(0, |best| epoch - best.epoch);
        if course.patience.is_some_and(|patience| since_best >= patience) {
            break;
        }
        let mut started = Instant::now();
        let mut plan = epoch_batches(&lengths, batches, epoch as u64);
        let steps_of_epoch = plan.len();
        // A resumed run has taken some of the epoch's steps already.
        plan.drain(..run.step - epoch * steps_of_epoch);
        for batch in Prefetch::start(lessons.train.tokens.clone(), plan, network.clone(), device.clone()) {
            let batch = batch?;
            let packed = batch.packed.with_dropout(DropoutKey { seed, step: run.step as u64 });
            let rate = settings.schedule.rate(course.learning_rate, run.step, total, settings.warmup);
            let loss = lessons.train.loss(model.forward(&packed), &packed, &batch.examples);
            let value = f64::from(loss.clone().into_scalar::<f32>());
            ensure!(value.is_finite(), "the loss is {value} at step {}: try a lower learning rate", run.step + 1);
            model = adam.update(model, &loss.backward(), rate);
            run.step += 1;
            run.tokens += packed.tokens();
            run.loss_sum += value;
            watch(Step { step: run.step, of: total, loss: value, rate });
            let stopped = safety.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            if let Some(keep) = safety.keep.as_mut().filter(|keep| stopped || kept.elapsed() >= keep.every) {
                run.measured.training_seconds += started.elapsed().as_secs_f64();
                (keep.write)(&checkpoint(&run, &model, info, &best, &adam))?;
                (kept, started) = (Instant::now(), Instant::now());
            }
            if stopped {
                return Err(Interrupted { step: run.step, kept: safety.keep.is_some() }.into());
            }
        }
        run.measured.training_seconds += started.elapsed().as_secs_f64();

        let started = Instant::now();
        let scores = lessons.validation.evaluate(&model.valid(), network, 2 * course.batch_size, &plain)?;
        run.measured.evaluation_seconds += started.elapsed().as_secs_f64();
        let Some(&score) = scores.get(&lessons.metric) else { bail!("the task has no metric `{}`", lessons.metric) };
        let finite = scores.values().all(|score| score.is_finite());
        ensure!(finite, "the scores after epoch {} are not numbers: try a lower learning rate", epoch + 1);
        let validation: BTreeMap<String, f64> = scores.iter().map(|(m, &score)| (m.to_string(), score)).collect();
        let metric = lessons.metric.to_string();
        if run.best.as_ref().is_none_or(|best| score > best.validation[&metric]) {
            run.best = Some(Best { epoch: epoch + 1, metric, validation: validation.clone() });
            best = Some(TaskFile::from_model(&model, info.clone()));
        }
        let loss = run.loss_sum / steps_of_epoch as f64;
        run.epochs.push(Epoch { epoch: epoch + 1, steps: run.step, loss, validation });
        run.loss_sum = 0.0;
        if let Some(keep) = &mut safety.keep {
            (keep.write)(&checkpoint(&run, &model, info, &best, &adam))?;
            kept = Instant::now();
        }
    }
    let mut measured = run.measured;
    measured.tokens_per_second = run.tokens as f64 / measured.training_seconds;
    measured.peak_memory_bytes = peak_memory();
    let (Some(best), Some(file)) = (run.best, best) else { bail!("the checkpoint holds no best epoch") };
    Ok(Trained { file, epochs: run.epochs, best, measured })
}

fn checkpoint<I: Insertion>(
    run: &Numbers,
    model: &TaskModel<I>,
    info: &TaskInfo,
    best: &Option<TaskFile>,
    adam: &Adam,
) -> Checkpoint {
    Checkpoint {
        numbers: run.clone(),
        now: TaskFile::from_model(model, info.clone()),
        best: best.clone(),
        adam: adam.state(),
    }
}

/// The process's largest memory so far, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kilobytes)
}
