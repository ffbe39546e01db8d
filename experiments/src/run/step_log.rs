//! A line for every step of a run.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use adapter_core::write_atomically;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::track::unix_time;
use crate::train::{Step, Watch};

/// `steps.jsonl`: what each step did, one JSON document a line. Lines are written together with checkpoints, so that a run
/// that continues finds the log as its checkpoint knows it.
pub struct StepLog {
    path: PathBuf,
    waiting: String,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The step's number, from 1.
    pub step: usize,
    /// Its loss.
    pub loss: f64,
    /// Its learning rate.
    pub rate: f64,
    /// Tokens trained on in a second.
    pub tokens_per_second: f64,
    /// When it was taken, in seconds since 1970; 0 in logs of earlier versions.
    #[serde(default)]
    pub time: f64,
    /// How far each adapter was from the identity, ‖Δ‖/‖x‖, at the steps that measured it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, f64>,
}

impl From<&Step> for StepLine {
    fn from(step: &Step) -> Self {
        Self {
            step: step.step,
            loss: step.loss,
            rate: step.rate,
            tokens_per_second: step.tokens_per_second,
            time: unix_time(),
            deviations: step.deviations.iter().map(|(place, &value)| (place.to_string(), value)).collect(),
        }
    }
}

impl StepLine {
    /// What a program that follows runs shows of it, by name.
    pub(super) fn scalars(&self) -> impl Iterator<Item = (String, f64)> {
        let own = [("loss", self.loss), ("rate", self.rate), ("tokens_per_second", self.tokens_per_second)];
        let own = own.into_iter().map(|(name, value)| (format!("train/{name}"), value));
        own.chain(self.deviations.iter().map(|(place, value)| (format!("deviation/{place}"), *value)))
    }
}

impl StepLog {
    /// Opens the log of a run that has taken `done` steps; what it says of later ones is forgotten.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: PathBuf, done: usize) -> Result<Self> {
        let context = || format!("cannot use {}", path.display());
        let old = read_if_there(&path).with_context(context)?;
        let taken = |line: &&str| serde_json::from_str::<StepLine>(line).is_ok_and(|line| line.step <= done);
        let kept: String = old.lines().filter(taken).map(|line| format!("{line}\n")).collect();
        write_atomically(&path, kept.as_bytes()).with_context(context)?;
        Ok(Self { path, waiting: String::new() })
    }

    /// What it says.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn lines(&self) -> Result<Vec<StepLine>> {
        Self::read(&self.path)
    }

    /// What the log in this file says; nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Vec<StepLine>> {
        let text = read_if_there(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

fn read_if_there(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

impl Watch for StepLog {
    fn step(&mut self, step: &Step) -> Result<()> {
        self.waiting += &(serde_json::to_string(&StepLine::from(step))? + "\n");
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        let append = || fs::OpenOptions::new().append(true).open(&self.path)?.write_all(self.waiting.as_bytes());
        append().with_context(|| format!("cannot write {}", self.path.display()))?;
        self.waiting.clear();
        Ok(())
    }
}
