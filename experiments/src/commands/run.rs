//! `run`: an experiment, all its runs.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use analysis::{AblationRecord, ExperimentRecord, FailedRun, Recall, RunRecord, SCHEMA, StreamRecord};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Serialize, Serializer};
use tasks::TaskModel;

use super::{ablate, grouped, print, table};
use crate::{
    ablation::ablate_spans,
    backbones::CacheArgs,
    device::DeviceName,
    experiment::{Experiment, Grid, Kind, Scale},
    layers::{self, Keys},
    run_config::RunConfig,
    run_store::{RunStore, write_json},
    runner::stopped,
    stream::stream,
    sweep::Workplace,
    task_args::TaskFiles,
    trainer::Interrupted,
};

/// Run an experiment: a preset of the paper, or a file of your own with a grid of runs
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A preset (see `list presets`) or a .toml file of the same form
    #[arg(value_name = "FILE_OR_PRESET")]
    experiment: String,
    /// Change a key of every run, above file and environment; several values, divided by commas, make a grid
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How much of the experiment
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    cache: CacheArgs,
    /// Where to compute (see `list devices`)
    #[arg(long, env = "ADAPTER_LAB_DEVICE", default_value_t = DeviceName::Flex)]
    device: DeviceName,
    /// Folder of the runs: finished ones are not run again, interrupted ones go on
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// Seconds between two checkpoints of a run
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    /// Processes that run at the same time, each with its share of the cores
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: usize,
    /// Print the runs, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    experiment: String,
    about: String,
    scale: Scale,
    /// By the number of their configurations.
    #[serde(serialize_with = "values")]
    runs: BTreeMap<usize, RunRecord>,
    /// By the id of their runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ablations: BTreeMap<String, AblationRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<StreamRecord>,
    failed: Vec<Failure>,
}

#[derive(Serialize)]
struct Failure {
    run: String,
    config: RunConfig,
    error: String,
}

impl Failure {
    fn new(config: &RunConfig, error: &str) -> Self {
        Self { run: config.to_string(), config: config.clone(), error: error.to_owned() }
    }
}

fn values<S: Serializer>(runs: &BTreeMap<usize, RunRecord>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.values())
}

#[derive(Serialize)]
struct Plan<'a> {
    experiment: &'a str,
    kind: Kind,
    scale: Scale,
    /// Tasks whose data is not there.
    missing: &'a [&'static str],
    runs: &'a [RunConfig],
}

pub fn run(args: &RunArgs) -> Result<()> {
    let (environment, mut set) = (layers::environment(layers::variables()?)?, layers::assignments(&args.set)?);
    if let Some(name) = &args.backbone {
        set.insert("backbone".to_owned(), name.as_str().into());
    }
    let above: [&Keys; 2] = [&environment, &set];
    let experiment = Experiment::load(&args.experiment, args.scale, &above)?;
    let (network, has_pooler) = args.cache.shape(&experiment.backbone()?)?;
    let grid = experiment.grid(&network, has_pooler, args.files.data_dir.as_deref());
    let Grid { runs, missing, too_high } = grid.with_context(|| format!("experiment `{}`", experiment.name))?;
    if !missing.is_empty() {
        let place = args.files.data_dir.as_ref().map_or("--data-dir".to_owned(), |d| d.display().to_string());
        eprintln!("note: left out, their data is not in {place}: {}", missing.join(", "));
    }
    if !too_high.is_empty() {
        eprintln!("note: left out, the backbone has {} layers: k = {too_high:?}", network.num_hidden_layers);
    }
    ensure!(!runs.is_empty(), "experiment `{}` has no runs", experiment.name);
    let adapters = runs.iter().all(|run| run.adapter.is_some());
    ensure!(adapters || experiment.kind != Kind::Ablate, "without adapters there is nothing to remove");
    let mut tasks: Vec<&str> = runs.iter().map(|run| run.task.as_str()).collect();
    tasks.dedup();
    tasks.into_iter().try_for_each(|task| args.files.check(task))?;
    let (name, kind) = (experiment.name.clone(), experiment.kind);
    let plan = Plan { experiment: &name, kind, scale: args.scale, missing: &missing, runs: &runs };
    if args.dry_run {
        return print(&plan, args.json, || plan_text(&plan));
    }
    let every = Duration::try_from_secs_f64(args.checkpoint_every).context("--checkpoint-every")?;
    let workplace = Workplace {
        files: args.files.clone(),
        cache: args.cache.clone(),
        device: args.device,
        runs: args.runs.clone(),
        checkpoint_every: every,
        quiet: args.json,
    };
    let mut report = Report {
        experiment: experiment.name,
        about: experiment.about,
        scale: args.scale,
        runs: BTreeMap::new(),
        ablations: BTreeMap::new(),
        streams: Vec::new(),
        failed: Vec::new(),
    };
    match experiment.kind {
        Kind::Train => report.train(&workplace, &runs, args.jobs)?,
        Kind::Ablate => {
            report.train(&workplace, &runs, args.jobs)?;
            report.ablate(&workplace, &runs)?;
        }
        Kind::Stream => {
            if args.jobs > 1 {
                eprintln!("note: a stream is one run after the other: --jobs changes nothing");
            }
            report.stream(&workplace, &runs)?;
        }
    }
    write_json(&args.runs.join("experiments").join(format!("{}.json", report.experiment)), &report.record(&plan))?;
    print(&report, args.json, || report.text())?;
    match report.failed.len() {
        0 => Ok(()),
        failed => bail!("{failed} of {} runs failed; the others are in {}", runs.len(), args.runs.display()),
    }
}

impl Report {
    /// Trains all runs.
    fn train(&mut self, workplace: &Workplace, runs: &[RunConfig], jobs: usize) -> Result<()> {
        let mut done = 0;
        let Self { runs: records, failed, .. } = self;
        workplace.run_all(runs, jobs, &mut |number, ended| {
            done += 1;
            let (config, of) = (&runs[number], runs.len());
            match ended {
                Ok(record) => {
                    if !workplace.quiet {
                        eprintln!("[{done}/{of}] {config}: {}", score(record));
                    }
                    records.insert(number, record.clone());
                }
                Err(error) => {
                    eprintln!("[{done}/{of}] {config}: failed: {error}");
                    failed.push(Failure::new(config, error));
                }
            }
        })
    }

    /// Removes the adapters of every finished run; what was done before is read again.
    fn ablate(&mut self, workplace: &Workplace, runs: &[RunConfig]) -> Result<()> {
        let store = RunStore::new(&workplace.runs);
        let mut runner = workplace.runner();
        for (&number, record) in &self.runs {
            ensure!(!stopped(), "interrupted; run the same command again to go on");
            let (config, path) = (&runs[number], store.folder(&record.id).join("ablation.json"));
            let known = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let ablation = match known.filter(|known: &AblationRecord| known.schema == SCHEMA) {
                Some(ablation) => ablation,
                None => {
                    let backbone = runner.backbone(&config.backbone)?;
                    let file = store.trained(&record.id)?;
                    let (kind, task) = (file.info.kind.parse()?, file.info.task.clone());
                    let model = TaskModel::load(&backbone, file, runner.device())?;
                    let set = runner.validation(config, &backbone)?;
                    let batch_size = 2 * config.batch_size;
                    let ablation = ablate_spans(&model, &set, &backbone.config, batch_size, runner.device())?;
                    let ablation = ablation.record(&task, kind, set.majority_accuracy());
                    write_json(&path, &ablation)?;
                    ablation
                }
            };
            self.ablations.insert(record.id.clone(), ablation);
        }
        Ok(())
    }

    /// Learns the tasks one after the other, once for each method.
    fn stream(&mut self, workplace: &Workplace, runs: &[RunConfig]) -> Result<()> {
        let mut runner = workplace.runner();
        let method = |run: &RunConfig| RunConfig { task: String::new(), epochs: 0, ..run.clone() };
        let mut methods: Vec<RunConfig> = Vec::new();
        for run in runs {
            if !methods.contains(&method(run)) {
                methods.push(method(run));
            }
        }
        for one in methods {
            let runs: Vec<_> = runs.iter().filter(|run| method(run) == one).cloned().collect();
            match stream(&mut runner, &runs, |config| workplace.progress(&format!("{config}  "))) {
                Ok(streamed) => {
                    write_json(&workplace.runs.join("streams").join(format!("{}.json", streamed.id)), &streamed)?;
                    self.streams.push(streamed);
                }
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => self.failed.push(Failure::new(&runs[0], &format!("its stream: {error:#}"))),
            }
        }
        Ok(())
    }

    /// Which runs belong to the experiment.
    fn record(&self, plan: &Plan<'_>) -> ExperimentRecord {
        let name = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
        let streamed = self.streams.iter().flat_map(|stream| &stream.stages).map(|stage| stage.run.clone());
        let failed =
            self.failed.iter().map(|failure| FailedRun { run: failure.run.clone(), error: failure.error.clone() });
        ExperimentRecord {
            schema: SCHEMA,
            name: self.experiment.clone(),
            about: self.about.clone(),
            kind: name(&plan.kind),
            scale: name(&plan.scale),
            planned: plan.runs.len(),
            runs: self.runs.values().map(|record| record.id.clone()).chain(streamed).collect(),
            streams: self.streams.iter().map(|stream| stream.id.clone()).collect(),
            failed: failed.collect(),
            missing: plan.missing.iter().map(|task| task.to_string()).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.about);
        if !self.runs.is_empty() {
            let head = ["id", "run", "trained", "validation", "test"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(self.runs.values().filter_map(row));
            text += &table(&rows);
        }
        for (id, ablation) in &self.ablations {
            text += &format!("\nrun {id}\n{}", ablate::text(ablation));
        }
        for stream in &self.streams {
            text += &stream_text(stream);
        }
        for failure in &self.failed {
            text += &format!("\nfailed: {}\n    {}\n", failure.run, failure.error);
        }
        text
    }
}

fn score(record: &RunRecord) -> String {
    let best = record.best.as_ref().map(|best| format!("{} {:.4}", best.metric, best.validation[&best.metric]));
    format!("{}, {:.0} s", best.unwrap_or_default(), record.measured.training_seconds)
}

fn row(record: &RunRecord) -> Option<Vec<String>> {
    let config: RunConfig = serde_json::from_value(record.config.clone().into()).ok()?;
    let best = record.best.as_ref()?;
    let test = record.test.get(&best.metric).map_or("-".to_owned(), |score| format!("{score:.4}"));
    let validation = format!("{} {:.4}", best.metric, best.validation[&best.metric]);
    Some(vec![record.id.clone(), config.to_string(), grouped(record.params.trained), validation, test])
}

/// A row for each stage: the score of every task so far.
fn stream_text(stream: &StreamRecord) -> String {
    let mut rows = vec![vec!["after".to_owned(), "trained".to_owned(), "total".to_owned()]];
    rows[0].extend(stream.stages.iter().map(|stage| stage.task.clone()));
    for stage in &stream.stages {
        let mut row = vec![stage.task.clone(), grouped(stage.trained), grouped(stage.total)];
        let cell = |recall: &Recall| format!("{:.4}{}", recall.now, if recall.identical { " =" } else { "" });
        row.extend(stage.recall.iter().map(cell));
        rows.push(row);
    }
    let (tuning, backbone) = (&stream.tuning, &stream.backbone);
    format!("\n{tuning} on {backbone}: validation scores after each task (=: every output the same, bit for bit)\n")
        + &table(&rows)
}

fn plan_text(plan: &Plan<'_>) -> String {
    let runs: String = plan.runs.iter().map(|run| format!("{run}\n")).collect();
    let first = plan.runs.first().and_then(|run| serde_json::to_string_pretty(run).ok()).unwrap_or_default();
    format!("{runs}\n{} runs; the first one in full:\n{first}\n", plan.runs.len())
}
