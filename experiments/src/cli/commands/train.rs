//! `train`: one run.

use std::{collections::BTreeMap, path::PathBuf};

use analysis::{Kept, Move, RunRecord, Scored, Status};
use anyhow::{Context, Result, ensure};
use bert_backbone::Backbone;
use clap::Args;
use tasks::{TaskData, TaskKind};

use crate::{
    cli::{
        Session,
        args::{ContextArgs, check_folder, check_writable, merged_files},
        ctrl_c::request_stop,
        log,
        output::{counted, grouped, print, table},
        progress::{Notes, Progress, Show},
    },
    lab::{Keys, Lab},
    run::{
        FILE_KEYS, FileOptions, FinishedRun, Layers, Origin, RunStore, Runner, effective_keys, foreign_keys, merge,
        resolve,
    },
    train::Silent,
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
        let runs = args.runs.as_ref().context("--resume continues a run of --runs")?;
        let mut origin = RunStore::new(runs).manifest(id)?.origin;
        moved(&mut origin, &given);
        FileOptions::check_given(lab, &given, &origin.task)?;
        let mut runner = args.runner(session)?;
        let mut progress = Progress::of_run(args.progress, args.json, &format!("run {id}"), &session.stop)?;
        let run =
            runner.resume(id, |origin| moved(origin, &given), &mut progress).map_err(|error| error.explained(true))?;
        drop(progress);
        let kind = runner.data(&origin.task, &origin.files, &mut Silent)?.kind();
        return args.finish(&runner, &run, kind);
    }
    let keys = merge(&[&Layers::new(lab).environment()?, &given]);
    if let Some(task) = keys.get("task").and_then(|name| name.as_str()) {
        FileOptions::check_given(lab, &given, task)?;
    }
    if args.explain {
        return explain(lab, &keys, args.json);
    }
    let foreign = foreign_keys(lab, &given, &keys)?;
    let tuning = keys.get("tuning").and_then(|name| name.as_str()).unwrap_or(lab.default_method());
    ensure!(foreign.is_empty(), "`{tuning}` has no {}: leave it out", foreign.join(", "));
    let missing: Vec<&str> = NEEDED.iter().filter(|(key, _)| !keys.contains_key(*key)).map(|(_, how)| *how).collect();
    ensure!(missing.is_empty(), "give {}", missing.join("; and "));
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
    // Whatever can be wrong with data and backbone is said before a dashboard hides it.
    let backbone = runner.backbone(&config.backbone, &mut Notes)?;
    let data = runner.data(&config.task, &config.files, &mut Notes)?;
    if let Some(note) = unknown_pieces(&backbone, &data, &config.task, config.max_length) {
        log::note(&note);
    }
    let mut progress = Progress::of_run(args.progress, args.json, &config.describe(lab), &session.stop)?;
    let run = runner.run(&config, &mut progress).map_err(|error| error.explained(args.runs.is_some()))?;
    drop(progress);
    args.finish(&runner, &run, data.kind())
}

/// Keys without which there is no run, and what to give.
const NEEDED: [(&str, &str); 2] = [
    ("task", "--task: a name of `list tasks`, file:PATH or hub:OWNER/NAME"),
    ("backbone", "--backbone: a name of `list backbones`, or a folder"),
];

/// Texts by which [`unknown_pieces`] judges all.
const JUDGED: usize = 500;
/// The share of unknown word pieces that is worth a note.
const MANY_UNKNOWN: f64 = 0.2;

/// What is said of a backbone whose vocabulary lacks many of the training texts' words; judged by some of them, spread over all.
fn unknown_pieces(backbone: &Backbone, data: &TaskData, task: &str, max_length: usize) -> Option<String> {
    let texts: Vec<(&str, Option<&str>)> = match data {
        TaskData::Texts(data) => data.train.iter().map(|example| (&*example.text, example.pair.as_deref())).collect(),
        TaskData::Questions(data) => data.train.iter().map(|asked| (&*asked.question, Some(&*asked.context))).collect(),
    };
    let unknown = backbone.tokenizer.id("[UNK]")?;
    let (mut pieces, mut of_them) = (0usize, 0usize);
    for (text, pair) in texts.iter().step_by(texts.len().div_ceil(JUDGED).max(1)) {
        // What cannot be encoded is said by the run.
        let encoded = backbone.tokenizer.encode(text, *pair, max_length).ok()?;
        let own = encoded.input_ids.iter().zip(&encoded.text_ids).filter(|(_, text)| text.is_some());
        own.for_each(|(id, _)| (pieces, of_them) = (pieces + 1, of_them + usize::from(*id == unknown)));
    }
    let share = of_them as f64 / pieces.max(1) as f64;
    (share > MANY_UNKNOWN).then(|| {
        format!(
            "{:.0} % of the word pieces of {task} are unknown to the backbone {}, which was made for other texts: `list backbones` shows more",
            100.0 * share,
            backbone.name
        )
    })
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

    fn finish(&self, runner: &Runner<'_>, run: &FinishedRun, kind: TaskKind) -> Result<()> {
        if run.was_finished() {
            log::note(&format!("run {} was finished before; this is its record", run.record.id));
        }
        let saved = self.save.as_ref().map_or(Ok(()), |path| {
            runner.trained(run)?.write(path)?;
            log::note(&format!("the task file was written to {}", path.display()));
            Ok(())
        });
        // Scores are not lost with a file that cannot be written.
        print(&run.record, self.json, || text(&run.record, kind))?;
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

/// The answer whose scores a record gives beside the model's.
fn trivial_answer(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Classification => "most frequent training class",
        TaskKind::Regression => "mean of the training scores",
        TaskKind::MultiLabel => "labels that most training texts have",
        TaskKind::Span => "no answer",
    }
}

fn text(record: &RunRecord, kind: TaskKind) -> String {
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
    let kept = match record.kept {
        Kept::Best => ["kept (best evaluation)", "last"],
        Kept::Last => ["best", "kept (last evaluation)"],
    };
    for (name, scored) in kept.into_iter().zip([&record.best, &record.last]) {
        let Some(Scored { epoch, metric, validation, .. }) = scored else { continue };
        text += &format!("{name}: {metric} {:.4} in epoch {epoch}\n", validation[metric]);
    }
    let trivial = record.last.as_ref().and_then(|last| Some((&last.metric, record.majority.get(&last.metric)?)));
    if let Some((metric, score)) = trivial {
        text += &format!("trivial answer ({}): {metric} {score:.4}\n", trivial_answer(kind));
    }
    for (task, scores) in &record.extra {
        let scores: Vec<String> = scores.iter().map(|(metric, score)| format!("{metric} {score:.4}")).collect();
        text += &format!("{task}: {}\n", scores.join(", "));
    }
    for (metric, score) in &record.test {
        text += &format!("test {metric}: {score:.4}\n");
    }
    if record.skipped_steps > 0 {
        text += &format!("{} left out: gradients overflowed\n", counted(record.skipped_steps, "step"));
    }
    for Move { step, from, to } in &record.moves {
        text += &format!("moved from {from} to {to} after step {step}\n");
    }
    let memory = record.measured.peak_memory_bytes.map(|bytes| format!(", peak memory {:.0} MB", bytes as f64 / 1e6));
    let memory = memory.unwrap_or_default();
    let (trained, measured) = (grouped(record.params.trained), &record.measured);
    text + &format!(
        "run {}: {trained} parameters trained in {:.1} s, {:.0} tokens/s{}\n",
        record.id, measured.training_seconds, measured.tokens_per_second, memory
    )
}
