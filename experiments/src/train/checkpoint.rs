//! A run in the middle: everything that a resumed one needs to continue as if it had never stopped.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    time::{Duration, Instant},
};

use adapter_core::{Container, Selection, Stored, TaskFile};
use analysis::{Evaluation, Measured, Scored};
use anyhow::{Context, Result, ensure};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use super::{LossScale, OptimizerState, Stop};
use crate::device::memory;

/// The state of a run after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Counts and scores.
    pub state: TrainState,
    /// v as it is now.
    pub now: TaskFile,
    /// v of the best evaluation so far.
    pub best: Option<TaskFile>,
    /// The optimiser's memory.
    pub optimizer: OptimizerState,
}

/// How far a run is: counts and scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Steps taken.
    pub step: usize,
    /// Sum of the losses since the last evaluation.
    pub loss_sum: f64,
    /// Tokens trained on.
    pub tokens: usize,
    /// Evaluations so far.
    pub evaluations: Vec<Evaluation>,
    /// The best of them.
    pub best: Option<Scored>,
    /// Steps with the mean loss since the one before.
    pub loss_curve: Vec<(usize, f64)>,
    /// Sum of the losses since the last point of the curve.
    pub curve_sum: f64,
    /// What the loss is multiplied by, where it is.
    pub loss_scale: Option<LossScale>,
    /// Times so far.
    pub measured: Measured,
}

impl TrainState {
    /// Counts a step; the loss curve gets a point every so many.
    pub(super) fn count(&mut self, loss: f64, tokens: usize, seconds: f64, curve_every: usize) {
        self.step += 1;
        self.loss_sum += loss;
        self.curve_sum += loss;
        if self.step.is_multiple_of(curve_every.max(1)) {
            self.loss_curve.push((self.step, self.curve_sum / curve_every.max(1) as f64));
            self.curve_sum = 0.0;
        }
        self.tokens += tokens;
        self.measured.training_seconds += seconds;
        self.measured.peak_memory_bytes = self.measured.peak_memory_bytes.max(memory::peak());
    }

    /// Whether there were `patience` evaluations since the best one.
    pub(super) fn patience_is_over(&self, patience: Option<usize>) -> bool {
        let Some(best) = &self.best else { return false };
        let since = self.evaluations.iter().filter(|evaluation| evaluation.steps > best.steps).count();
        patience.is_some_and(|patience| since >= patience)
    }
}

/// Keeps a checkpoint.
pub type WriteCheckpoint<'a> = dyn FnMut(&Checkpoint) -> Result<()> + 'a;

/// When checkpoints are written, where a run starts from, and who may stop it. The default keeps nothing.
#[derive(Default)]
pub struct CheckpointPolicy<'a> {
    /// The state to continue from.
    pub resume: Option<Checkpoint>,
    /// Writes a checkpoint: at every evaluation, and when this time has passed since the last.
    pub write: Option<(Duration, &'a mut WriteCheckpoint<'a>)>,
    /// Ends the run after the step under way.
    pub stop: Option<&'a Stop>,
    last: Option<Instant>,
}

impl<'a> CheckpointPolicy<'a> {
    /// Keeps checkpoints with `write`.
    pub fn keeping(every: Duration, write: &'a mut WriteCheckpoint<'a>) -> Self {
        Self { write: Some((every, write)), ..Self::default() }
    }

    /// The time since the last checkpoint counts from now.
    pub(super) fn begin(&mut self) {
        self.last = Some(Instant::now());
    }

    /// Whether somebody wants the run to stop.
    pub(super) fn stops(&self) -> bool {
        self.stop.is_some_and(Stop::requested)
    }

    /// Whether a checkpoint is due: now that `something` happened, or because of the time.
    pub(super) fn is_due(&self, something: bool) -> bool {
        let Some((every, _)) = &self.write else { return false };
        something || self.last.is_none_or(|last| last.elapsed() >= *every)
    }

    pub(super) fn keep(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        if let Some((_, write)) = &mut self.write {
            write(checkpoint)?;
            self.last = Some(Instant::now());
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    run: String,
    state: TrainState,
    optimizer_step: i32,
}

/// The form of the file.
const FORM: Container = Container { key: "adapter_lab_checkpoint", version: 1 };

impl Checkpoint {
    /// Writes the checkpoint of the run called `run` by atomic rename: a killed run leaves the one before.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path, run: &str) -> Result<()> {
        let write = || {
            let header = Header { run: run.to_owned(), state: self.state.clone(), optimizer_step: self.optimizer.step };
            FORM.write(path, &header, &self.stored()?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads and verifies a checkpoint of the run called `run`.
    ///
    /// # Errors
    /// If the file is not whole, or belongs to another run.
    pub fn read(path: &Path, run: &str) -> Result<Self> {
        let damaged = || format!("{}: the checkpoint is damaged; remove it to start this run anew", path.display());
        let (header, stored) = FORM.read::<Header>(path).with_context(damaged)?;
        let (file, of) = (path.display(), &header.run);
        ensure!(of == run, "{file}: this is a checkpoint of run {of}, not of {run}; remove it to start this run anew");
        Self::from_stored(header, stored).with_context(damaged)
    }

    /// Checks that this is a state of a run of `total` steps that trains `selection`, with an optimiser that has so many
    /// `slots` for each tensor.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self, selection: &Selection, slots: usize, total: usize) -> Result<()> {
        // An optimiser that remembers nothing has no entries.
        let remembered = selection.trained.iter().filter(|_| slots > 0);
        let expected: BTreeMap<&str, Vec<usize>> =
            remembered.map(|t| (t.name.as_str(), vec![t.elements(); slots])).collect();
        let memory = self.optimizer.memory.iter();
        let memory = memory.map(|(name, m)| (name.as_str(), m.iter().map(Vec::len).collect::<Vec<_>>()));
        // A run in half precision may not have taken a step yet.
        let untouched = self.optimizer.step == 0 && self.optimizer.memory.is_empty();
        let fits = untouched || memory.eq(expected);
        let TrainState { step, evaluations, best, .. } = &self.state;
        let counted = *step <= total && evaluations.last().map_or(0, |evaluation| evaluation.steps) <= *step;
        // The best model is kept only by runs that report it.
        let has_best = (self.best.is_none() || best.is_some()) && best.is_some() != evaluations.is_empty();
        ensure!(fits && counted && has_best, "the checkpoint belongs to another run; remove it to start this one anew");
        Ok(())
    }

    fn stored(&self) -> io::Result<BTreeMap<String, Stored>> {
        let mut stored = BTreeMap::from([(NOW.to_owned(), Stored::u8(&self.now.to_bytes()?))]);
        if let Some(best) = &self.best {
            stored.insert(BEST.to_owned(), Stored::u8(&best.to_bytes()?));
        }
        stored.extend(self.optimizer.stored());
        Ok(stored)
    }

    fn from_stored(header: Header, mut stored: BTreeMap<String, Stored>) -> Result<Self> {
        let file = |stored: Stored| -> Result<TaskFile> { Ok(TaskFile::from_bytes(&stored.bytes)?) };
        let now = file(stored.remove(NOW).context("it has no trained tensors")?)?;
        let best = stored.remove(BEST).map(file).transpose()?;
        let mut optimizer = OptimizerState { step: header.optimizer_step, ..OptimizerState::default() };
        for (name, stored) in stored {
            optimizer.put(&name, &stored)?;
        }
        Ok(Self { state: header.state, now, best, optimizer })
    }

    /// Removes a checkpoint that is no longer needed.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn remove(path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

impl OptimizerState {
    /// Its tensors as a file has them.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (String, Stored)> {
        let floats = |values: &Vec<f32>| Stored::f32(vec![values.len()], values);
        let slots = self.memory.iter().flat_map(move |(name, slots)| {
            slots.iter().enumerate().map(move |(slot, values)| (format!("{slot:04}/{name}"), floats(values)))
        });
        let exact = self.exact.iter().map(move |(name, values)| (format!("{EXACT}/{name}"), floats(values)));
        slots.chain(exact)
    }

    /// Takes the next tensor of a file; they come sorted by name, and so slots in their order.
    pub(crate) fn put(&mut self, name: &str, stored: &Stored) -> Result<()> {
        let (slot, tensor) = name.split_once('/').context("it has a tensor without a name")?;
        let values = stored.values(Dtype::F32).context("it has a tensor of the wrong type")?;
        if slot == EXACT {
            self.exact.insert(tensor.to_owned(), values);
        } else {
            self.memory.entry(tensor.to_owned()).or_default().push(values);
        }
        Ok(())
    }
}

const NOW: &str = "now";
const BEST: &str = "best";
const EXACT: &str = "exact";
