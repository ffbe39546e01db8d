//! The training loop.

use std::{collections::BTreeMap, time::Instant};

use adapter_core::{DropoutKey, Insertion, Place, Selection, TaskFile, TaskInfo};
use analysis::{Evaluation, Kept, Measured, Scored};
use anyhow::{Context, Result, ensure};
use bert_backbone::BertConfig;
use burn::tensor::Device;
use tasks::{BatchConfig, EvaluationSet, Prefetch, TaskModel, TrainingSet, epoch_batches};

use super::{
    Checkpoint, CheckpointPolicy, Evaluate, LossScale, ModuleOptimizer, Optimizer, RunError, Step, StepGradients,
    TrainConfig, TrainState, Watch,
    evaluate::{deviations, evaluate},
    gradients::StepBatches,
    replicas::Replicas,
};
use crate::device::{CpuClock, Precision, memory};

/// Everything that a model is trained with.
#[derive(Clone, Copy)]
pub struct Training<'a> {
    /// What the trained file will say of itself.
    pub info: &'a TaskInfo,
    /// What to train on, and what to choose by.
    pub data: TrainingData<'a>,
    /// How long, how fast and in what order.
    pub config: &'a TrainConfig,
    /// What moves the tensors.
    pub optimizer: &'a dyn Optimizer,
    /// Devices with gradients. The first has the model and evaluates; each takes its share of every batch.
    pub devices: &'a [Device],
    /// The numbers that the network computes with.
    pub precision: Precision,
    /// Steps between measurements of how far each insertion is from the identity; `None` measures nothing.
    pub probe_every: Option<usize>,
}

/// What to train on, and what to choose by.
#[derive(Clone, Copy)]
pub struct TrainingData<'a> {
    /// Examples to train on.
    pub train: &'a TrainingSet,
    /// Examples to choose by.
    pub validation: &'a EvaluationSet,
    /// The metric to choose by.
    pub metric: &'a str,
    /// The shape of the network that takes them.
    pub network: &'a BertConfig,
}

/// What training brought.
#[derive(Clone, Debug)]
pub struct Trained {
    /// v of the evaluation that is kept; nothing if the run diverged.
    pub file: Option<TaskFile>,
    /// The step at which the loss or the scores were no longer finite, if they were not.
    pub diverged: Option<usize>,
    /// Every evaluation.
    pub evaluations: Vec<Evaluation>,
    /// The best one.
    pub best: Option<Scored>,
    /// The last one.
    pub last: Option<Scored>,
    /// Steps with the mean loss since the one before, at most about a hundred of them.
    pub loss_curve: Vec<(usize, f64)>,
    /// Steps that were not taken because their gradients overflowed half precision.
    pub skipped_steps: usize,
    /// Times and rates.
    pub measured: Measured,
}

impl Trained {
    /// The evaluation that is kept.
    pub fn kept(&self, keep: Kept) -> Option<&Scored> {
        match keep {
            Kept::Last => self.last.as_ref(),
            Kept::Best => self.best.as_ref(),
        }
    }
}

/// Points of a loss curve.
const POINTS: usize = 100;

/// Trains the tensors of `model` that are in `selection`, and returns v of the evaluation that is kept. A loss that is no longer finite
/// ends the run: that is a result.
///
/// Everything random is a function of the seed and the step: the same call gives the same bits on the same kind of device,
/// and a resumed run those of one that never stopped.
///
/// # Errors
/// If there is nothing to train on, a sequence does not fit the network, a checkpoint cannot be kept, or the run is stopped.
pub fn train<I: Insertion>(
    model: TaskModel<I>,
    selection: &Selection,
    training: &Training<'_>,
    mut checkpoints: CheckpointPolicy<'_>,
    watch: &mut dyn Watch,
) -> Result<Trained, RunError> {
    let config = training.config;
    let plan = StepPlan::new(training)?;
    let mut run = Run::start(model, selection, training, &plan, checkpoints.resume.take())?;
    checkpoints.begin();
    while run.state.step < plan.steps && !run.state.patience_is_over(config.patience) {
        let epoch = run.state.step / plan.steps_per_epoch;
        let mut started = Instant::now();
        for batches in plan.epoch(epoch, run.state.step, training) {
            let batches = batches?;
            let (tokens, first_part) = (batches.tokens(), batches.first_part());
            let rate = config.schedule.rate(config.learning_rate, run.state.step, plan.steps, config.warmup);
            let (loss, gradients) = run.gradients(batches);
            if !loss.is_finite() {
                return Ok(run.diverged());
            }
            run.update(&gradients, rate)?;
            let seconds = started.elapsed().as_secs_f64();
            run.state.count(loss, tokens, seconds, plan.steps.div_ceil(POINTS));
            run.cpu.add_to(&mut run.state.measured.cpu_seconds);
            watch.step(&Step {
                step: run.state.step,
                of: plan.steps,
                epoch: epoch + 1,
                epochs: config.epochs,
                loss,
                rate,
                tokens_per_second: tokens as f64 / seconds,
                deviations: run.deviations(&first_part)?,
            })?;

            let evaluates = plan.evaluates(run.state.step, config);
            if evaluates {
                let Some(evaluation) = run.evaluate(epoch + 1)? else { return Ok(run.diverged()) };
                watch.evaluation(&evaluation)?;
            }
            let stops = run.state.step < plan.steps && checkpoints.stops();
            if checkpoints.is_due(evaluates || stops) {
                watch.checkpoint()?;
                checkpoints.keep(&run.checkpoint())?;
            }
            if stops {
                return Err(RunError::Interrupted { step: run.state.step, kept: checkpoints.write.is_some() });
            }
            if evaluates && run.state.patience_is_over(config.patience) {
                break;
            }
            started = Instant::now();
        }
    }
    Ok(run.finish()?)
}

/// The order of the examples and the number of steps.
struct StepPlan {
    steps: usize,
    steps_per_epoch: usize,
    /// Parts of a step: those that gradients are accumulated over, on each device.
    parts: usize,
    lengths: Vec<usize>,
}

impl StepPlan {
    fn new(training: &Training<'_>) -> Result<Self> {
        let Training { config, data, devices, .. } = training;
        ensure!(!devices.is_empty(), "there is no device to train on");
        ensure!(config.epochs > 0 && !data.train.is_empty(), "nothing to train: no epochs or no examples");
        let steps_per_epoch = data.train.len().div_ceil(config.batch_size.max(1));
        Ok(Self {
            steps: config.epochs * steps_per_epoch,
            steps_per_epoch,
            parts: config.accumulate.max(1) * devices.len(),
            lengths: (0..data.train.len()).map(|i| data.train.tokens.length(i)).collect(),
        })
    }

    /// The steps of an epoch that are left when `done` steps of the run are taken, packed ahead on a thread.
    fn epoch<'a>(
        &'a self,
        epoch: usize,
        done: usize,
        training: &'a Training<'_>,
    ) -> impl Iterator<Item = Result<StepBatches>> + 'a {
        let Training { config, data, devices, .. } = training;
        let order = BatchConfig { size: config.batch_size, seed: config.seed, length_window: 0 };
        // A resumed run has taken some of the epoch's steps already.
        let steps = epoch_batches(&self.lengths, order, epoch as u64).split_off(done % self.steps_per_epoch);
        let divided: Vec<Vec<Vec<usize>>> = steps.iter().map(|examples| parts(examples, self.parts)).collect();
        let network = data.network.clone();
        let mut ready = Prefetch::start(data.train.tokens.clone(), divided.concat(), network, devices[0].clone());
        steps.into_iter().zip(divided).enumerate().map(move |(number, (examples, parts))| {
            let mut batches = Vec::with_capacity(parts.len());
            for part in 0..parts.len() {
                let mut batch = ready.next().context("a batch is missing")??;
                let key = DropoutKey { seed: config.seed, step: ((done + number) * self.parts + part) as u64 };
                batch.packed = batch.packed.with_dropout(key);
                batches.push(batch);
            }
            Ok(StepBatches { batches, examples: examples.len(), per_device: config.accumulate.max(1) })
        })
    }

    /// Whether the model is evaluated after `step`.
    fn evaluates(&self, step: usize, config: &TrainConfig) -> bool {
        step == self.steps
            || (config.evaluate == Evaluate::Epoch && step.is_multiple_of(self.steps_per_epoch))
            || config.evaluate_every.is_some_and(|every| step.is_multiple_of(every))
    }
}

/// A step's examples in at most `count` parts of nearly the same size.
fn parts(examples: &[usize], count: usize) -> Vec<Vec<usize>> {
    examples.chunks(examples.len().div_ceil(count.max(1))).map(<[usize]>::to_vec).collect()
}

/// A run under way.
struct Run<'a, I: Insertion> {
    selection: &'a Selection,
    training: &'a Training<'a>,
    model: TaskModel<I>,
    replicas: Replicas<I>,
    optimizer: ModuleOptimizer<'a>,
    best: Option<TaskFile>,
    state: TrainState,
    cpu: CpuClock,
    /// The first device, without gradients.
    device: Device,
}

impl<'a, I: Insertion> Run<'a, I> {
    fn start(
        model: TaskModel<I>,
        selection: &'a Selection,
        training: &'a Training<'a>,
        plan: &StepPlan,
        resume: Option<Checkpoint>,
    ) -> Result<Self> {
        let Training { precision, info, .. } = training;
        let device = training.devices[0].clone().inner();
        let mut model = precision.of(model);
        let mut optimizer = ModuleOptimizer::new(training.optimizer, training.config.clip);
        let mut state = TrainState { loss_scale: LossScale::of(*precision), ..TrainState::default() };
        let mut best = None;
        if let Some(checkpoint) = resume {
            checkpoint.check(selection, training.optimizer.memory().len(), plan.steps)?;
            model = precision.of(checkpoint.now.apply(model, selection, &info.backbone)?);
            optimizer = optimizer.restore(checkpoint.optimizer, &device);
            (state, best) = (checkpoint.state, checkpoint.best);
            state.measured.resumes += 1;
        }
        let replicas = Replicas::new(&model, &training.devices[1..]);
        memory::forget_peak();
        let cpu = CpuClock::start();
        Ok(Self { selection, training, model, replicas, optimizer, best, state, cpu, device })
    }

    fn gradients(&self, batches: StepBatches) -> (f64, StepGradients) {
        let scale = self.state.loss_scale.map_or(1.0, |scale| scale.factor);
        batches.gradients(&self.model, &self.replicas, self.training.data.train, scale, &self.device)
    }

    /// Moves the model, unless its gradients overflowed half precision.
    fn update(&mut self, gradients: &StepGradients, rate: f64) -> Result<()> {
        let precision = self.training.precision;
        let scale = self.state.loss_scale;
        let overflow = scale.is_some() && !gradients.are_finite();
        ensure!(
            !overflow || scale.is_some_and(|scale| scale.factor > 1.0),
            "gradients overflow {precision} at every scale of the loss: use bf16 or f32"
        );
        self.state.loss_scale = scale.map(|scale| scale.after(overflow));
        if !overflow {
            self.model = self.optimizer.update(self.model.clone(), gradients, rate);
            self.replicas.follow(&self.model);
        }
        Ok(())
    }

    /// How far each insertion is from the identity on some examples, at the steps that measure it.
    fn deviations(&self, examples: &[usize]) -> Result<BTreeMap<Place, f64>> {
        let step = self.state.step;
        match self.training.probe_every {
            Some(every) if step == 1 || step.is_multiple_of(every) => {
                deviations(&self.model, &self.training.data, examples, &self.device)
            }
            _ => Ok(BTreeMap::new()),
        }
    }

    /// Evaluates the model, and keeps it if it is the best so far and that is asked for; `None` if its scores are not numbers.
    fn evaluate(&mut self, epoch: usize) -> Result<Option<Evaluation>> {
        let Training { config, data, .. } = self.training;
        let batch_size = 2 * config.batch_size;
        let evaluation = evaluate(&mut self.state, epoch, &self.model, data, batch_size, &self.device)?;
        self.cpu.add_to(&mut self.state.measured.cpu_seconds);
        let is_best = self.state.best.as_ref().is_some_and(|best| best.steps == self.state.step);
        if config.keep == Kept::Best && is_best && evaluation.is_some() {
            self.best = Some(self.file());
        }
        Ok(evaluation)
    }

    fn file(&self) -> TaskFile {
        TaskFile::from_model(&self.model, self.selection, self.training.info.clone())
    }

    fn checkpoint(&self) -> Checkpoint {
        let (state, best) = (self.state.clone(), self.best.clone());
        Checkpoint { state, now: self.file(), best, optimizer: self.optimizer.state() }
    }

    /// The run ends here: its loss or its scores are no longer finite.
    fn diverged(self) -> Trained {
        let step = self.state.step + 1;
        Trained { diverged: Some(step), ..self.trained(None) }
    }

    fn finish(self) -> Result<Trained> {
        let file = match self.training.config.keep {
            Kept::Last => self.file(),
            Kept::Best => self.best.clone().context("the checkpoint holds no best evaluation")?,
        };
        Ok(self.trained(Some(file)))
    }

    fn trained(self, file: Option<TaskFile>) -> Trained {
        let TrainState { mut measured, evaluations, best, tokens, loss_scale, loss_curve, .. } = self.state;
        measured.tokens_per_second = tokens as f64 / measured.training_seconds.max(f64::MIN_POSITIVE);
        let metric = self.training.data.metric.to_owned();
        let last = evaluations.last().cloned();
        let last = last.map(|Evaluation { epoch, steps, validation, .. }| Scored { epoch, steps, metric, validation });
        let skipped_steps = loss_scale.map_or(0, |scale| scale.skipped);
        Trained { file, diverged: None, evaluations, best, last, loss_curve, skipped_steps, measured }
    }
}
