//! `train`: one run.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use analysis::{Move, RunRecord};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::print;
use crate::{
    backbones::CacheArgs,
    device_args::TrainingPlace,
    layers,
    options::Options,
    profile::{Profile, Settings},
    progress::{Progress, Show},
    run_store::RunStore,
    runner::{Ran, Runner},
    task_args::TaskFiles,
};

/// Train one task and print its record
#[derive(Args, Debug)]
pub struct TrainArgs {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    place: TrainingPlace,
    /// Keep the run in this folder: a finished one is not run again, an interrupted one goes on
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Go on with this run of --runs, whatever device it was begun on; what it trains is taken from the run, where its data
    /// and backbone are must be said again
    #[arg(long, value_name = "ID", requires = "runs", conflicts_with_all = ["dry_run", "explain"])]
    resume: Option<String>,
    /// Seconds between two checkpoints of a run that is kept
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    /// Keep v of the best evaluation in this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How progress is shown
    #[arg(long, value_enum, default_value_t = Show::Auto)]
    progress: Show,
    /// Print every setting that differs from the paper's, and do nothing else
    #[arg(long)]
    explain: bool,
    /// Print the resolved configuration, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TrainArgs) -> Result<()> {
    if let Some(id) = &args.resume {
        let flags = layers::flags(&args.options)?;
        let given: Vec<_> = flags.keys().map(String::as_str).collect();
        ensure!(given.is_empty(), "--resume takes everything from the run: leave out {}", given.join(", "));
        let mut runner = args.runner()?;
        let mut progress = Progress::of_run(args.progress, args.json, &format!("run {id}"))?;
        let ran = runner.resume(id, &mut progress)?;
        drop(progress);
        return args.finish(&runner, &ran);
    }
    let (defaults, environment) = (layers::defaults()?, layers::environment(layers::variables()?)?);
    let options = layers::options(&layers::merge(&[&defaults, &environment, &layers::flags(&args.options)?])?)?;
    if args.explain {
        return explain(&options.settings()?, args.json);
    }
    let (network, has_pooler) = args.cache.shape(options.backbone_name()?)?;
    let config = options.resolve(&network, has_pooler)?;
    ensure!(
        config.adapter.is_some() || !args.options.describes_adapters(),
        "`{}` has no adapters: leave out what describes them",
        config.tuning
    );
    args.files.check(&config.task)?;
    if args.dry_run {
        return print(&config, args.json, || serde_json::to_string_pretty(&config).unwrap_or_default());
    }
    let mut runner = args.runner()?;
    // Whatever can be wrong with data and backbone is said before a dashboard hides it.
    runner.backbone(&config.backbone)?;
    runner.data(&config.task)?;
    let mut progress = Progress::of_run(args.progress, args.json, &config.to_string())?;
    let ran = runner.run(&config, &mut progress)?;
    drop(progress);
    args.finish(&runner, &ran)
}

impl TrainArgs {
    fn runner(&self) -> Result<Runner<'_>> {
        let every = Duration::try_from_secs_f64(self.checkpoint_every).context("--checkpoint-every")?;
        let store = self.runs.as_ref().map(RunStore::new);
        Ok(Runner::new(&self.files, &self.cache, &self.place, store)?.with_checkpoints_every(every))
    }

    fn finish(&self, runner: &Runner<'_>, ran: &Ran) -> Result<()> {
        if ran.was_finished() {
            eprintln!("note: run {} is finished; its record is printed", ran.record.id);
        }
        if let Some(path) = &self.save {
            runner.trained(ran)?.write(path)?;
        }
        print(&ran.record, self.json, || text(&ran.record))
    }
}

/// Prints every setting that differs from the paper's.
fn explain(settings: &Settings, json: bool) -> Result<()> {
    let flat = |settings: &Settings| -> Result<BTreeMap<String, Value>> {
        let mut values = BTreeMap::new();
        let Value::Object(outer) = serde_json::to_value(settings)? else { return Ok(values) };
        for (name, value) in outer {
            match value {
                Value::Object(inner) => {
                    values.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)))
                }
                value => drop(values.insert(name, value)),
            }
        }
        Ok(values)
    };
    let (ours, paper) = (flat(settings)?, flat(&Profile::Paper.settings())?);
    let differing: BTreeMap<_, _> = ours.iter().filter(|(name, value)| paper[*name] != **value).collect();
    print(&differing, json, || {
        let mut rows = vec![["setting", "here", "paper"].map(str::to_owned).to_vec()];
        rows.extend(
            differing.iter().map(|(name, value)| vec![name.to_string(), value.to_string(), paper[*name].to_string()]),
        );
        match differing.is_empty() {
            true => "every setting is the paper's".to_owned(),
            false => super::table(&rows),
        }
    })
}

fn text(record: &RunRecord) -> String {
    let mut rows = vec![["epoch", "steps", "loss"].map(str::to_owned).to_vec()];
    let metrics: Vec<&String> =
        record.epochs.first().map(|epoch| epoch.validation.keys().collect()).unwrap_or_default();
    rows[0].extend(metrics.iter().map(|metric| metric.to_string()));
    for epoch in &record.epochs {
        let mut row = vec![epoch.epoch.to_string(), epoch.steps.to_string(), format!("{:.4}", epoch.loss)];
        row.extend(metrics.iter().map(|metric| format!("{:.4}", epoch.validation[*metric])));
        rows.push(row);
    }
    let mut text = super::table(&rows);
    if let Some(best) = &record.best {
        text += &format!("best {}: {:.4} in epoch {}\n", best.metric, best.validation[&best.metric], best.epoch);
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
    let (trained, measured) = (super::grouped(record.params.trained), &record.measured);
    text + &format!(
        "run {}: {trained} parameters trained in {:.1} s, {:.0} tokens/s{}\n",
        record.id, measured.training_seconds, measured.tokens_per_second, memory
    )
}
