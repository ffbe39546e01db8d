//! `train`: one run.

use std::{collections::BTreeMap, path::PathBuf};

use analysis::{Kept, Move, RunRecord, Scored, Status};
use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    cli::{
        Session,
        args::{ContextArgs, check_folder, check_writable, merged_files},
        ctrl_c::request_stop,
        log,
        output::{grouped, print, table},
        progress::{Progress, Show},
    },
    lab::{Keys, Lab},
    run::{FILE_KEYS, FinishedRun, Layers, Origin, Runner, effective_keys, foreign_keys, merge, resolve},
};

/// Train one task and print the result; --json prints the whole record
#[derive(Args, Debug)]
pub struct TrainArgs {
    /// Set a key: `--set lr=1e-3` is the same as `--lr 1e-3`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    context: ContextArgs,
    /// Keep the run in this folder: a finished one is not run again, an interrupted one continues
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Continue this run of --runs, on any device. The run remembers everything else; if its backbone or data moved, give
    /// --backbone, --task, --validation-file, --test-file or --data-dir
    #[arg(long, value_name = "ID", requires = "runs", conflicts_with_all = ["dry_run", "explain"])]
    resume: Option<String>,
    /// Write the task file here
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How progress is shown
    #[arg(long, value_enum, default_value_t = Show::Auto)]
    progress: Show,
    /// Print every key that differs from the paper's, and do nothing else
    #[arg(long)]
    explain: bool,
    /// Print the resolved configuration, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TrainArgs, session: &Session<'_>) -> Result<()> {
    let lab = session.lab;
    let mut given = session.keys.clone();
    given.extend(Layers::new(lab).assignments(&args.set)?);
    // Whatever cannot be written is said before any work.
    args.save.as_deref().map_or(Ok(()), check_writable)?;
    if let Some(id) = &args.resume {
        let is_place =
            |key: &str| ["backbone", "task"].contains(&key) || FILE_KEYS.iter().any(|known| known.name == key);
        let others: Vec<&str> = given.keys().map(String::as_str).filter(|key| !is_place(key)).collect();
        ensure!(others.is_empty(), "--resume takes every key from the run: leave out {}", others.join(", "));
        let mut runner = args.runner(session)?;
        let mut progress = Progress::of_run(args.progress, args.json, &format!("run {id}"), &session.stop)?;
        let run =
            runner.resume(id, |origin| moved(origin, &given), &mut progress).map_err(|error| error.explained(true))?;
        drop(progress);
        return args.finish(&runner, &run);
    }
    let keys = merge(&[&Layers::new(lab).environment()?, &given]);
    if args.explain {
        return explain(lab, &keys, args.json);
    }
    let foreign = foreign_keys(lab, &given, &keys)?;
    let tuning = keys.get("tuning").and_then(|name| name.as_str()).unwrap_or(lab.default_method());
    ensure!(foreign.is_empty(), "`{tuning}` has no {}: leave it out", foreign.join(", "));
    let backbone = keys.get("backbone").and_then(|name| name.as_str());
    let backbone = backbone.context("give --backbone: a name of `list backbones`, or a folder")?;
    let context = args.context.context(args.runs.clone())?;
    let (network, has_pooler) = context.backbone_shape(backbone)?;
    let config = resolve(lab, &keys, &network, has_pooler)?;
    context.check_task(lab, &config.task)?;
    if args.dry_run {
        return print(&config, args.json, || serde_json::to_string_pretty(&config).unwrap_or_default());
    }
    let mut runner = args.runner(session)?;
    let mut progress = {
        // Whatever can be wrong with data and backbone is said before a dashboard hides it.
        let notes = &mut crate::cli::progress::Notes;
        runner.backbone(&config.backbone, notes)?;
        runner.data(&config.task, &config.files, notes)?;
        Progress::of_run(args.progress, args.json, &config.describe(lab), &session.stop)?
    };
    let run = runner.run(&config, &mut progress).map_err(|error| error.explained(args.runs.is_some()))?;
    drop(progress);
    args.finish(&runner, &run)
}

/// Where a run's backbone and data are now, as far as that is given.
fn moved(origin: &mut Origin, given: &Keys) {
    let text = |key: &str| given.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    origin.backbone = text("backbone").unwrap_or_else(|| origin.backbone.clone());
    origin.task = text("task").unwrap_or_else(|| origin.task.clone());
    origin.files = merged_files(&origin.files, given);
    *origin = origin.absolute();
}

impl TrainArgs {
    fn runner<'a>(&self, session: &Session<'a>) -> Result<Runner<'a>> {
        self.runs.as_deref().map_or(Ok(()), check_folder)?;
        let runner = Runner::new(session.lab, &self.context.context(self.runs.clone())?, session.stop.clone())?;
        request_stop(&session.stop);
        Ok(runner)
    }

    fn finish(&self, runner: &Runner<'_>, run: &FinishedRun) -> Result<()> {
        if run.was_finished() {
            log::note(&format!("run {} was finished before; this is its record", run.record.id));
        }
        let saved = self.save.as_ref().map_or(Ok(()), |path| Ok(runner.trained(run)?.write(path)?));
        // Scores are not lost with a file that cannot be written.
        print(&run.record, self.json, || text(&run.record))?;
        saved
    }
}

/// Prints every key that differs from the paper's.
fn explain(lab: &Lab, keys: &Keys, json: bool) -> Result<()> {
    let same_method = keys.iter().filter(|(key, _)| ["tuning", "optimizer"].contains(&key.as_str()));
    let same_method: Keys = same_method.map(|(key, value)| (key.clone(), value.clone())).collect();
    let (ours, paper) = (effective_keys(lab, keys)?, effective_keys(lab, &same_method)?);
    let named = ["task", "backbone"];
    let differing: BTreeMap<_, _> =
        ours.iter().filter(|(key, value)| !named.contains(&key.as_str()) && paper.get(*key) != Some(value)).collect();
    print(&differing, json, || {
        let mut rows = vec![["key", "here", "paper"].map(str::to_owned).to_vec()];
        let theirs = |key: &str| paper.get(key).map_or("-".to_owned(), ToString::to_string);
        rows.extend(differing.iter().map(|(key, value)| vec![key.to_string(), value.to_string(), theirs(key)]));
        if differing.is_empty() { "every setting is the paper's".to_owned() } else { table(&rows) }
    })
}

fn text(record: &RunRecord) -> String {
    let mut rows = vec![["epoch", "steps", "loss"].map(str::to_owned).to_vec()];
    let metrics: Vec<&String> =
        record.evaluations.first().map(|epoch| epoch.validation.keys().collect()).unwrap_or_default();
    rows[0].extend(metrics.iter().map(|metric| metric.to_string()));
    for epoch in &record.evaluations {
        let mut row = vec![epoch.epoch.to_string(), epoch.steps.to_string(), format!("{:.4}", epoch.loss)];
        row.extend(metrics.iter().map(|metric| format!("{:.4}", epoch.validation[*metric])));
        rows.push(row);
    }
    let mut text = table(&rows);
    if record.status == Status::Diverged {
        text += "diverged: the loss or a score is no longer finite; try a lower learning rate\n";
    }
    let kept = if record.kept == Kept::Best { ["best, kept", "last"] } else { ["best", "last, kept"] };
    for (name, scored) in kept.into_iter().zip([&record.best, &record.last]) {
        let Some(Scored { epoch, metric, validation, .. }) = scored else { continue };
        text += &format!("{name}: {metric} {:.4} in epoch {epoch}\n", validation[metric]);
    }
    let trivial = record.last.as_ref().and_then(|last| Some((&last.metric, record.majority.get(&last.metric)?)));
    if let Some((metric, score)) = trivial {
        text += &format!("trivial answer: {metric} {score:.4}\n");
    }
    for (task, scores) in &record.extra {
        let scores: Vec<String> = scores.iter().map(|(metric, score)| format!("{metric} {score:.4}")).collect();
        text += &format!("{task}: {}\n", scores.join(", "));
    }
    for (metric, score) in &record.test {
        text += &format!("test {metric}: {score:.4}\n");
    }
    if record.skipped_steps > 0 {
        text += &format!("{} steps were left out: their gradients overflowed\n", record.skipped_steps);
    }
    for Move { step, from, to } in &record.moves {
        text += &format!("moved from {from} to {to} after step {step}\n");
    }
    let memory = record.measured.peak_memory_bytes.map(|bytes| format!(", {:.0} MB at most", bytes as f64 / 1e6));
    let memory = memory.unwrap_or_default();
    let (trained, measured) = (grouped(record.params.trained), &record.measured);
    text + &format!(
        "run {}: {trained} parameters trained in {:.1} s, {:.0} tokens/s{}\n",
        record.id, measured.training_seconds, measured.tokens_per_second, memory
    )
}
