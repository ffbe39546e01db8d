//! A finished run, run again: its record must come out the same.

use std::{collections::BTreeMap, path::PathBuf};

use analysis::{RunRecord, Status, folder};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::{
    lab::Lab,
    run::{FileOptions, Origin, RunConfig, RunContext, RunStore, Runner, differences},
    search::{NO_BERT, TrialConfig, TrialRunner, known_embeddings},
    train::{RunError, Stop, Watch},
};

/// What is needed to run a finished run again.
pub struct Repeat<'a> {
    /// Its method, its task and the rest by name.
    pub lab: &'a Lab,
    /// Where data and backbones are, and where to keep the repetition.
    pub context: &'a RunContext,
    /// Where the run itself found its backbone and its data, if that is known.
    pub origin: Option<Origin>,
    /// Files of word vectors that a trial of the search may name, beside those that `fetch` knows.
    pub embeddings: &'a [PathBuf],
    /// Ends the repetition in good order.
    pub stop: &'a Stop,
}

impl Repeat<'_> {
    /// Runs what `record` tells of again. Returns the fields that came out otherwise, none if the run can be repeated; and whether
    /// the repetition was there already.
    ///
    /// # Errors
    /// If it cannot be the same run (its data, its backbone or the device are others here), if what is there already is an imported
    /// record, and as [`Runner::run`].
    pub fn run(&self, record: &RunRecord, watch: &mut dyn Watch) -> Result<(Vec<String>, bool), RunError> {
        if !record.moves.is_empty() {
            return Err(anyhow!("run {} moved from one device to another: no device repeats it", record.id).into());
        }
        let (again, was_there) =
            if record.method.name == NO_BERT { self.trial(record, watch) } else { self.train(record, watch) }?;
        Ok((differences(record, &again)?, was_there))
    }

    fn train(&self, record: &RunRecord, watch: &mut dyn Watch) -> Result<(RunRecord, bool), RunError> {
        let mut config: RunConfig = read(record)?;
        let mut context = self.context.clone();
        if let Some(Origin { backbone, task, files, data_dir }) = self.origin.clone() {
            context.data_dir = context.data_dir.or(data_dir);
            config = RunConfig { backbone, task, files, ..config };
        }
        context.devices.precision =
            record.fingerprints.get("dtype").map_or("f32", String::as_str).parse().context("dtype")?;
        let mut runner = Runner::new(self.lab, &context, self.stop.clone())?;
        same(record, &runner.started_as(&config, watch)?.fingerprints)?;
        let run = runner.run(&config, watch)?;
        if run.was_finished() {
            self.computed_here(&run.record)?;
        }
        Ok((run.record.clone(), run.was_finished()))
    }

    /// Refuses a record that says nothing of this machine.
    fn computed_here(&self, record: &RunRecord) -> Result<()> {
        let Some(runs) = &self.context.runs else { return Ok(()) };
        let store = RunStore::new(runs);
        // What diverged has no tensors; how it was started is no part of an export either.
        let is_here = match record.status {
            Status::Finished => store.has_trained(&record.id),
            Status::Diverged => store.folder(&record.id).join(folder::RUN).is_file(),
        };
        let (id, place) = (&record.id, runs.display());
        ensure!(
            is_here,
            "{place} has the record of run {id}, but it was not computed there; keep repetitions elsewhere"
        );
        Ok(())
    }

    fn trial(&self, record: &RunRecord, watch: &mut dyn Watch) -> Result<(RunRecord, bool), RunError> {
        let (config, files): (TrialConfig, _) = (read(record)?, FileOptions::default());
        let named = record.config.get("embeddings").and_then(Value::as_str).unwrap_or_default();
        let mut embeddings = self.embeddings.to_vec();
        let known = known_embeddings().into_iter().filter(|known| known.name == named).map(|known| known.name.into());
        embeddings.extend(known.filter(|known| !self.embeddings.contains(known)));
        let mut runner = TrialRunner::new(self.lab, self.context, self.stop.clone(), &embeddings)?;
        same(record, &runner.fingerprints(&config, &files, watch)?)?;
        runner.run(&config, &files, watch)
    }
}

/// A configuration as a record has it.
fn read<T: serde::de::DeserializeOwned>(record: &RunRecord) -> Result<T> {
    let config = Value::Object(record.config.clone());
    serde_json::from_value(config).with_context(|| format!("the configuration of run {}", record.id))
}

/// Refuses what would be another run, before any work.
fn same(record: &RunRecord, here: &BTreeMap<String, String>) -> Result<()> {
    let then = &record.fingerprints;
    let other = then.keys().chain(here.keys()).find(|name| then.get(*name) != here.get(*name));
    other.map_or(Ok(()), |name| {
        let [then, here] = [then, here].map(|of| of.get(name).map_or("none", String::as_str));
        bail!("run {} was made with another {name}: {then}, here {here}", record.id)
    })
}
