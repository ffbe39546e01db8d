//! How much a run has to compute, and how fast that goes here.

use std::time::Instant;

use analysis::RunRecord;
use anyhow::Result;
use tasks::{EvaluationSet, Tokenised};

use super::{PreparedData, RunConfig, Runner};
use crate::{
    device::guard_on,
    train::{CheckpointPolicy, Evaluate, RunError, Silent, Step, Watch},
};

/// How much a run has to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Workload {
    /// Training steps.
    pub steps: f64,
    /// Tokens of a step, on average.
    pub step_tokens: f64,
    /// Evaluations on the validation set.
    pub evaluations: f64,
    /// Tokens of one of them.
    pub validation_tokens: f64,
    /// Tokens of the sets that are scored once, when training is over.
    pub final_tokens: f64,
}

/// How long a training step and an evaluation take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Tokens of the steps that were timed, on average.
    pub step_tokens: f64,
    /// Seconds of such a step.
    pub step_seconds: f64,
    /// Seconds for each token that is evaluated.
    pub evaluation_seconds: f64,
}

/// Steps that are timed, after a first one that is not.
const TIMED: usize = 2;

fn tokens(of: &Tokenised) -> f64 {
    (0..of.len()).map(|sequence| of.length(sequence)).sum::<usize>() as f64
}

impl Workload {
    fn of(config: &RunConfig, prepared: &PreparedData) -> Self {
        let train = &config.train;
        let per_epoch = prepared.train.len().div_ceil(train.batch_size) as f64;
        let steps = per_epoch * train.epochs as f64;
        let regular = if train.evaluate == Evaluate::Epoch { train.epochs as f64 } else { 1.0 };
        let final_sets = prepared.test.iter().chain(prepared.extra.iter().map(|(_, set)| set));
        // A prefix is computed by a pass over everything.
        let prefix = if config.cache_prefix { tokens(&prepared.train.tokens) } else { 0.0 };
        Self {
            steps,
            step_tokens: tokens(&prepared.train.tokens) / per_epoch.max(1.0),
            evaluations: regular + train.evaluate_every.map_or(0.0, |every| (steps / every as f64).floor()),
            validation_tokens: tokens(prepared.validation.tokens()),
            final_tokens: prefix + final_sets.map(|set: &EvaluationSet| tokens(set.tokens())).sum::<f64>(),
        }
    }

    /// Seconds that it takes at a speed.
    pub fn seconds(&self, speed: &Speed) -> f64 {
        let evaluated = self.evaluations * self.validation_tokens + self.final_tokens;
        self.steps * speed.step_seconds * self.step_tokens / speed.step_tokens + evaluated * speed.evaluation_seconds
    }
}

impl Speed {
    /// What a finished run says; `None` if it does not tell enough, or ended before its last step.
    ///
    /// A run that shared its core with other work took longer than it would have alone.
    pub fn of_record(record: &RunRecord, work: &Workload) -> Option<Self> {
        let measured = &record.measured;
        let share = measured.computing_share();
        let evaluated = work.evaluations * work.validation_tokens + work.final_tokens;
        let is_whole = record.evaluations.last().is_some_and(|last| last.steps as f64 == work.steps);
        let known = is_whole && work.steps > 0.0 && evaluated > 0.0 && measured.training_seconds > 0.0;
        known.then(|| Self {
            step_tokens: work.step_tokens,
            step_seconds: share * measured.training_seconds / work.steps,
            evaluation_seconds: share * measured.evaluation_seconds / evaluated,
        })
    }
}

impl Runner<'_> {
    /// How much `config` has to compute, and its record if it is finished.
    ///
    /// # Errors
    /// If data or backbone cannot be used.
    pub fn workload(&mut self, config: &RunConfig) -> Result<(Workload, Option<RunRecord>)> {
        let backbone = self.backbone(&config.backbone, &mut Silent)?;
        let data = self.data(&config.task, &config.files, &mut Silent)?;
        let prepared = self.tokenise(config, &data, &backbone)?;
        Ok((Workload::of(config, &prepared), self.finished(config)?))
    }

    /// Takes a few steps and evaluates a little, as `config` does it; nothing is kept.
    ///
    /// # Errors
    /// If data or backbone cannot be used, or the device fails.
    pub fn speed(&mut self, config: &RunConfig) -> Result<Speed, RunError> {
        let mut little = config.clone();
        let batch_size = config.train.batch_size;
        little.train.epochs = 1;
        (little.train.evaluate, little.train.evaluate_every) = (Evaluate::End, None);
        (little.limit, little.limit_validation) = (Some((1 + TIMED) * batch_size), Some(2 * batch_size));
        guard_on(&self.devices().names.clone(), || {
            let backbone = self.backbone(&config.backbone, &mut Silent)?;
            let data = self.data(&config.task, &config.files, &mut Silent)?;
            let manifest = self.manifest(&little, &data, &backbone)?;
            let ready = self.prepare(&little, &manifest.origin, &data, &backbone, self.precision())?;
            let training = ready.training(&little, &backbone.config, self.precision());
            let mut times = StepTimes::default();
            let trained = ready.model.train(&training, CheckpointPolicy::default(), &mut times)?;
            let evaluated = tokens(ready.prepared.validation.tokens());
            Ok(Speed {
                step_tokens: Workload::of(&little, &ready.prepared).step_tokens,
                step_seconds: times.seconds / times.steps.max(1.0),
                evaluation_seconds: trained.measured.evaluation_seconds / evaluated.max(1.0),
            })
        })
    }
}

/// Times steps, all but the first: it also pays for what is made once.
#[derive(Default)]
struct StepTimes {
    last: Option<Instant>,
    steps: f64,
    seconds: f64,
}

impl Watch for StepTimes {
    fn step(&mut self, _: &Step) -> Result<()> {
        if let Some(last) = self.last {
            self.steps += 1.0;
            self.seconds += last.elapsed().as_secs_f64();
        }
        self.last = Some(Instant::now());
        Ok(())
    }
}
