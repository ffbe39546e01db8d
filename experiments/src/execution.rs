//! An experiment from its plan to what became of it.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Instant,
};

use analysis::{AblationRecord, ExperimentRecord, FailedRun, RunRecord, SCHEMA, StreamRecord};
use anyhow::{Context, Result, ensure};
use serde::{Serialize, Serializer};
use tasks::TaskModel;

use crate::{
    ablation::ablate_spans,
    experiment::{Experiment, Grid, Kind, Scale, Tasks},
    guard::DeviceFailed,
    layers::{self, Keys},
    run_config::RunConfig,
    run_store::{RunStore, write_json},
    runner::stopped,
    stream::stream,
    sweep::Workplace,
    trainer::Interrupted,
};

/// An experiment with all its runs.
#[derive(Serialize)]
pub struct Plan {
    /// Its name.
    pub experiment: String,
    /// What it shows.
    pub about: String,
    /// What is done with its runs.
    pub kind: Kind,
    /// How much of it.
    pub scale: Scale,
    /// Tasks that it asks for and whose data is not there.
    pub missing: Vec<&'static str>,
    /// Values of `k` that are more than the backbone's layers.
    pub too_high: Vec<u64>,
    /// Its runs.
    pub runs: Vec<RunConfig>,
}

/// What became of an experiment.
#[derive(Serialize)]
pub struct Executed {
    experiment: String,
    /// What it shows.
    pub about: String,
    scale: Scale,
    /// Its records, by the number of their configurations.
    #[serde(serialize_with = "values")]
    pub runs: BTreeMap<usize, RunRecord>,
    /// By the id of their runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ablations: BTreeMap<String, AblationRecord>,
    /// One for each method.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// Runs that failed.
    pub failed: Vec<Failure>,
}

/// A run that failed.
#[derive(Serialize)]
pub struct Failure {
    /// Which, in short.
    pub run: String,
    /// Which.
    pub config: RunConfig,
    /// Why.
    pub error: String,
}

fn values<S: Serializer>(runs: &BTreeMap<usize, RunRecord>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.values())
}

/// What a plan is made for.
pub struct Setting<'a> {
    /// How much.
    pub scale: Scale,
    /// Whose tasks; by default those that fit the backbone.
    pub suite: Option<Tasks>,
    /// Keys above the experiment's own; the backbone is one of them.
    pub set: Keys,
    /// Where it is to be run.
    pub workplace: &'a Workplace,
}

impl Plan {
    /// Plans the experiment called `name`.
    ///
    /// # Errors
    /// If there is no such experiment, a run makes no sense, or a task's data cannot be there.
    pub fn new(name: &str, setting: &Setting<'_>) -> Result<Self> {
        let environment = layers::environment(layers::variables()?)?;
        let named = setting.set.get("backbone").or(environment.get("backbone")).and_then(|name| name.as_str());
        let tasks = setting.suite.unwrap_or(Tasks::of_backbone(named.unwrap_or_default()));
        let experiment = Experiment::load(name, setting.scale, tasks, &[&environment, &setting.set])?;
        let Workplace { files, cache, .. } = setting.workplace;
        let (network, has_pooler) = cache.shape(&experiment.backbone()?)?;
        let grid = experiment.grid(&network, has_pooler, files.data_dir.as_deref());
        let Grid { runs, missing, too_high } = grid.with_context(|| format!("experiment `{}`", experiment.name))?;
        let adapters = runs.iter().all(|run| run.adapter.is_some());
        ensure!(adapters || experiment.kind != Kind::Ablate, "without adapters there is nothing to remove");
        let mut tasks: Vec<&str> = runs.iter().map(|run| run.task.as_str()).collect();
        tasks.dedup();
        tasks.into_iter().try_for_each(|task| files.check(task))?;
        let Experiment { name, about, kind, .. } = experiment;
        Ok(Self { experiment: name, about, kind, scale: setting.scale, missing, too_high, runs })
    }

    /// The backbone of its runs.
    pub fn backbone(&self) -> Option<&str> {
        self.runs.first().map(|run| run.backbone.as_str())
    }

    /// Runs all runs, one after the other or with several processes, and does with them what the experiment asks for.
    ///
    /// # Errors
    /// If it was interrupted, or what came out cannot be kept. A run that fails is no error.
    pub fn execute(&self, workplace: &Workplace, jobs: usize) -> Result<Executed> {
        let ended = match self.kind {
            Kind::Stream => Vec::new(),
            Kind::Train | Kind::Ablate => run_all(&self.runs, workplace, jobs)?,
        };
        self.conclude(&ended, workplace)
    }

    /// Does with finished runs what the experiment asks for, and writes down which belong to it.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn conclude(&self, ended: &[Ended], workplace: &Workplace) -> Result<Executed> {
        let mut executed = Executed {
            experiment: self.experiment.clone(),
            about: self.about.clone(),
            scale: self.scale,
            runs: BTreeMap::new(),
            ablations: BTreeMap::new(),
            streams: Vec::new(),
            failed: Vec::new(),
        };
        for (number, run) in self.runs.iter().enumerate() {
            match ended.iter().find(|(config, _)| config == run) {
                Some((_, Ok(record))) => drop(executed.runs.insert(number, record.clone())),
                Some((config, Err(error))) => executed.failed.push(Failure::new(config, error)),
                None => {}
            }
        }
        match self.kind {
            Kind::Train => {}
            Kind::Ablate => workplace.place.guard(true, || executed.ablate(workplace, &self.runs))?,
            Kind::Stream => workplace.place.guard(true, || executed.stream(workplace, &self.runs))?,
        }
        let path = workplace.runs.join("experiments").join(format!("{}.json", self.experiment));
        write_json(&path, &executed.record(self))?;
        Ok(executed)
    }
}

/// A run that is over: its record, or why it failed.
pub type Ended = (RunConfig, Result<RunRecord, String>);

/// Trains all runs; a line on standard error says what came out of each, and how long the rest will take.
///
/// # Errors
/// If they were interrupted.
pub fn run_all(runs: &[RunConfig], workplace: &Workplace, jobs: usize) -> Result<Vec<Ended>> {
    let mut ended = BTreeMap::new();
    let mut pace = Pace::default();
    workplace.run_all(runs, jobs, &mut |number, result| {
        let (config, done, of) = (&runs[number], ended.len() + 1, runs.len());
        let left = pace.left(of - done);
        match result {
            Ok(record) if !workplace.quiet => eprintln!("[{done}/{of}{left}] {config}: {}", score(record)),
            Ok(_) => {}
            Err(error) => eprintln!("[{done}/{of}{left}] {config}: failed: {error}"),
        }
        ended.insert(number, (config.clone(), result.cloned().map_err(str::to_owned)));
    })?;
    Ok(ended.into_values().collect())
}

/// When the last runs ended: a few, because those that were finished before take no time.
#[derive(Default)]
struct Pace(VecDeque<Instant>);

impl Pace {
    const RUNS: usize = 24;

    /// A run ended, and `rest` are left: how long they will take, as a part of a sentence.
    fn left(&mut self, rest: usize) -> String {
        self.0.push_back(Instant::now());
        if self.0.len() > Self::RUNS {
            self.0.pop_front();
        }
        let runs = self.0.len() - 1;
        if runs < Self::RUNS / 4 || rest == 0 {
            return String::new();
        }
        let seconds = self.0[0].elapsed().as_secs_f64() / runs as f64 * rest as f64;
        match seconds {
            ..90.0 => format!(", {seconds:.0} s left"),
            _ => format!(", {:.0} min left", seconds / 60.0),
        }
    }
}

fn score(record: &RunRecord) -> String {
    let best = record.best.as_ref().map(|best| format!("{} {:.4}", best.metric, best.validation[&best.metric]));
    format!("{}, {:.0} s", best.unwrap_or_default(), record.measured.training_seconds)
}

impl Failure {
    fn new(config: &RunConfig, error: &str) -> Self {
        Self { run: config.to_string(), config: config.clone(), error: error.to_owned() }
    }
}

impl Executed {
    /// Removes the adapters of every finished run; what was done before is read again.
    fn ablate(&mut self, workplace: &Workplace, runs: &[RunConfig]) -> Result<()> {
        let store = RunStore::new(&workplace.runs);
        let mut runner = workplace.runner()?;
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
                    let model = runner.precision().of(TaskModel::load(&backbone, file, runner.device())?);
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
        let mut runner = workplace.runner()?;
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
                Err(error) if error.is::<Interrupted>() || error.is::<DeviceFailed>() => return Err(error),
                Err(error) => self.failed.push(Failure::new(&runs[0], &format!("its stream: {error:#}"))),
            }
        }
        Ok(())
    }

    /// Which runs belong to the experiment.
    fn record(&self, plan: &Plan) -> ExperimentRecord {
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
}
