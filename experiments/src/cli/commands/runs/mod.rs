//! `runs`: a folder of runs as its user sees it.

mod diff;
mod filter;
mod gc;
mod list;
mod repeat;
mod show;
mod sync;
mod transfer;
mod watch;

use std::path::{Path, PathBuf};

use analysis::{Listed, RunState};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use crate::{cli::Session, lab::Lab};

/// Look at runs, compare them, repeat them, tidy up, and carry their records elsewhere
#[derive(Args, Debug)]
pub struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    List(list::ListRunsArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Repeat(repeat::RepeatArgs),
    Watch(watch::WatchArgs),
    Gc(gc::GcArgs),
    Export(transfer::ExportArgs),
    Import(transfer::ImportArgs),
    Sync(sync::SyncArgs),
}

/// Where runs are.
#[derive(Args, Clone, Debug)]
struct PlaceArgs {
    /// Folder of the runs, or an export of one
    #[arg(long, default_value = "runs", value_name = "DIR|FILE")]
    runs: PathBuf,
}

impl PlaceArgs {
    /// All runs.
    fn list(&self, lab: &Lab) -> Result<Vec<Listed>> {
        let place = self.runs.display();
        ensure!(self.runs.exists(), "there is no folder {place}: give --runs the folder of `run`, or an export");
        list(&self.runs, lab)
    }

    /// The run whose id begins like this.
    fn find(&self, id: &str, lab: &Lab) -> Result<Listed> {
        let mut found: Vec<Listed> = self.list(lab)?.into_iter().filter(|run| run.id.starts_with(id)).collect();
        match (found.len(), self.runs.display()) {
            (1, _) => Ok(found.remove(0)),
            (0, place) => bail!("there is no run `{id}` in {place}; `runs list` shows them"),
            (many, place) => bail!("{many} runs in {place} begin with `{id}`: give more of it"),
        }
    }

    /// The whole record of a run.
    fn record(&self, run: &Listed) -> Result<serde_json::Value> {
        match &run.state {
            RunState::Finished | RunState::Diverged => {}
            RunState::Unfinished => bail!("run {} is not finished", run.id),
            RunState::Unreadable(why) => bail!("the record of run {} cannot be used: {why}", run.id),
        }
        let file = Path::new(&run.id).join(analysis::folder::RECORD);
        let bytes = if self.runs.is_file() {
            let file = file.display().to_string().replace('\\', "/");
            analysis::documents(&self.runs)?.remove(&file).context("it is gone")?
        } else {
            let path = self.runs.join(file);
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
        };
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// All runs of a folder or an export, with the keys that records leave out.
fn list(runs: &Path, lab: &Lab) -> Result<Vec<Listed>> {
    let mut listed = analysis::list_runs(runs).with_context(|| format!("cannot read {}", runs.display()))?;
    let complete = lab.complete();
    listed.iter_mut().for_each(|run| complete(&mut run.config));
    Ok(listed)
}

/// Adds to a record the keys that it leaves out.
fn complete(record: &mut serde_json::Value, lab: &Lab) {
    if let Some(config) = record.get_mut("config").and_then(serde_json::Value::as_object_mut) {
        lab.complete()(config);
    }
}

pub fn run(args: &RunsArgs, session: &Session<'_>) -> Result<()> {
    match &args.command {
        RunsCommand::List(args) => list::run(args, session.lab),
        RunsCommand::Show(args) => show::run(args, session.lab),
        RunsCommand::Diff(args) => diff::run(args, session.lab),
        RunsCommand::Repeat(args) => repeat::run(args, session),
        RunsCommand::Watch(args) => watch::run(args, session),
        RunsCommand::Gc(args) => gc::run(args),
        RunsCommand::Export(args) => transfer::export(args, session.lab),
        RunsCommand::Import(args) => transfer::import(args),
        RunsCommand::Sync(args) => sync::run(args, session.lab),
    }
}

/// A value as a person reads it.
fn written(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    }
}
