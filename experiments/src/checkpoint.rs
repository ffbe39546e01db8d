//! A run in the middle: everything that a resumed one needs to go on as if it had never stopped.

use std::{collections::BTreeMap, io, path::Path};

use adapter_core::{Insertion, TaskFile, TaskInfo, write_atomically};
use analysis::{Best, Epoch, Measured};
use anyhow::{Context, Result, ensure};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tasks::TaskModel;

use crate::{adam::AdamState, precision::LossScale};

/// The state of a run after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Numbers.
    pub numbers: Numbers,
    /// v as it is now.
    pub now: TaskFile,
    /// v of the best evaluation so far.
    pub best: Option<TaskFile>,
    /// The optimiser's memory.
    pub adam: AdamState,
}

/// The small part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Steps taken.
    pub step: usize,
    /// Sum of the losses since the last evaluation.
    pub loss_sum: f64,
    /// Tokens trained on.
    pub tokens: usize,
    /// Evaluations so far.
    pub epochs: Vec<Epoch>,
    /// The best of them.
    pub best: Option<Best>,
    /// What the loss is multiplied by, where it is.
    pub loss_scale: Option<LossScale>,
    /// Times so far.
    pub measured: Measured,
}

impl Numbers {
    /// Counts a step.
    pub(crate) fn count(&mut self, loss: f64, tokens: usize, seconds: f64) {
        self.step += 1;
        self.loss_sum += loss;
        self.tokens += tokens;
        self.measured.training_seconds += seconds;
    }

    /// Whether there were `patience` evaluations since the best one.
    pub(crate) fn patience_is_over(&self, patience: Option<usize>) -> bool {
        let Some(best) = &self.best else { return false };
        let since = self.epochs.iter().filter(|evaluation| evaluation.steps > best.steps).count();
        patience.is_some_and(|patience| since >= patience)
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    /// Over all parts, the text of `body` included.
    checksum: String,
    body: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    numbers: Numbers,
    adam_step: i32,
    /// Names and sizes of the optimiser's tensors, in the order of their values.
    moments: Vec<(String, usize)>,
    /// The same of those whose exact values it keeps.
    #[serde(default)]
    exact: Vec<(String, usize)>,
}

const KEY: &str = "checkpoint";

impl Checkpoint {
    /// Writes the checkpoint by atomic rename: a killed run leaves the one before.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes().with_context(|| format!("{}: cannot be encoded", path.display()))?;
        write_atomically(path, &bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads and verifies a checkpoint.
    ///
    /// # Errors
    /// If the file is not whole.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let damaged = || format!("{}: the checkpoint is damaged; remove it to begin this run anew", path.display());
        Self::from_bytes(&bytes).with_context(damaged)
    }

    /// Checks that this is a state of a run of `total` steps that trains `model` as `info` says.
    ///
    /// # Errors
    /// If it is not.
    pub fn check<I: Insertion>(&self, model: &TaskModel<I>, info: &TaskInfo, total: usize) -> Result<()> {
        let trained = info.tuning.trained(model);
        let expected: BTreeMap<&str, usize> = trained.iter().map(|t| (t.name.as_str(), t.elements())).collect();
        let moments = self.adam.moments.iter();
        // A run in half precision may not have taken a step yet.
        let untouched = self.adam.step == 0 && self.adam.moments.is_empty();
        let fits = untouched || moments.map(|(name, m)| (name.as_str(), m[0].len())).eq(expected);
        let Numbers { step, epochs, best, .. } = &self.numbers;
        let counted = *step <= total && epochs.last().map_or(0, |epoch| epoch.steps) <= *step;
        let has_best = best.is_some() == self.best.is_some() && best.is_some() != epochs.is_empty();
        ensure!(fits && counted && has_best, "the checkpoint belongs to another run; remove it to begin this one anew");
        Ok(())
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let now = self.now.to_bytes()?;
        let best = self.best.as_ref().map(TaskFile::to_bytes).transpose()?.unwrap_or_default();
        let side =
            |side: usize| -> Vec<f32> { self.adam.moments.values().flat_map(|m| m[side].iter().copied()).collect() };
        let (means, squares) = (side(0), side(1));
        let exact: Vec<f32> = self.adam.exact.values().flatten().copied().collect();
        let mut parts: Vec<(&str, &[u8])> = vec![
            ("now", &now),
            ("best", &best),
            ("means", bytemuck::cast_slice(&means)),
            ("squares", bytemuck::cast_slice(&squares)),
        ];
        if !exact.is_empty() {
            parts.push(("exact", bytemuck::cast_slice(&exact)));
        }
        let body = serde_json::value::to_raw_value(&Body {
            numbers: self.numbers.clone(),
            adam_step: self.adam.step,
            moments: self.adam.moments.iter().map(|(name, m)| (name.clone(), m[0].len())).collect(),
            exact: self.adam.exact.iter().map(|(name, values)| (name.clone(), values.len())).collect(),
        })?;
        let header = Header { checksum: checksum(&body, &parts), body };
        let views: Result<Vec<_>, _> = parts
            .iter()
            .map(|(name, bytes)| TensorView::new(Dtype::U8, vec![bytes.len()], bytes).map(|view| (*name, view)))
            .collect();
        let metadata = [(KEY.to_owned(), serde_json::to_string(&header)?)].into();
        Ok(safetensors::serialize(views?, Some(metadata))?)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (_, metadata) = SafeTensors::read_metadata(bytes)?;
        let stored = SafeTensors::deserialize(bytes)?;
        let document = metadata.metadata().as_ref().and_then(|entries| entries.get(KEY));
        let header: Header = serde_json::from_str(document.context("it has no header")?)?;
        let part = |name| stored.tensor(name).map(|view| view.data());
        let (now, best, means, squares) = (part("now")?, part("best")?, part("means")?, part("squares")?);
        let mut parts = vec![("now", now), ("best", best), ("means", means), ("squares", squares)];
        let exact = part("exact").ok();
        parts.extend(exact.map(|exact| ("exact", exact)));
        ensure!(checksum(&header.body, &parts) == header.checksum, "its contents do not match their checksum");
        let body: Body = serde_json::from_str(header.body.get())?;
        let (means, squares) = (named(&body.moments, means)?, named(&body.moments, squares)?);
        let moments = means.into_iter().zip(squares.into_values());
        let moments = moments.map(|((name, mean), square)| (name, [mean, square])).collect();
        let exact = named(&body.exact, exact.unwrap_or_default())?;
        Ok(Self {
            numbers: body.numbers,
            now: TaskFile::from_bytes(now)?,
            best: if best.is_empty() { None } else { Some(TaskFile::from_bytes(best)?) },
            adam: AdamState { step: body.adam_step, moments, exact },
        })
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

/// Values by name, from names and sizes and all values end to end.
fn named(sizes: &[(String, usize)], bytes: &[u8]) -> Result<BTreeMap<String, Vec<f32>>> {
    let values: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
    let mut start = 0;
    let tensors = sizes.iter().map(|(name, size)| {
        let tensor = values.get(start..start + size)?;
        start += size;
        Some((name.clone(), tensor.to_vec()))
    });
    tensors.collect::<Option<_>>().context("it has too few values")
}

fn checksum(body: &RawValue, parts: &[(&str, &[u8])]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(body.get().as_bytes());
    for (name, bytes) in parts {
        hasher.update(name.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize().to_hex().to_string()
}
