//! An experiment from its plan to what became of it.

use std::{collections::BTreeMap, path::Path, thread};

use analysis::{AblationRecord, ExperimentRecord, FailedRun, RunRecord, SCHEMA, Status, StreamRecord, folder};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::KnownBackbone;
use serde::{Serialize, Serializer};

use super::{
    Experiment, ExperimentKind, Grid, RunOutcome, Scale, Suite, Sweep,
    queue::Item,
    workers::{INTERRUPTED, Unwatched},
};
use crate::{
    lab::{Inference, Keys, Lab},
    run::{BUSY_PAUSE, FileOptions, Layers, RunConfig, RunContext, RunStore, Runner, is_own_data, write_json},
    search::{Search, is_search_key},
    study::stream,
    train::{Ended, RunError, Silent, SweepWatch},
};

/// An experiment with all its runs.
#[derive(Serialize)]
pub struct Plan {
    /// Its name.
    pub experiment: String,
    /// Whether it is one of the program's own presets.
    pub preset: bool,
    /// What it shows.
    pub about: String,
    /// What is done with its runs.
    pub kind: ExperimentKind,
    /// How much of it.
    pub scale: Scale,
    /// Tasks that it asks for and whose data is not there.
    pub missing: Vec<String>,
    /// Points for which the backbone is too small, and why.
    pub too_large: Vec<String>,
    /// Options of Slurm's jobs.
    #[serde(skip_serializing_if = "Keys::is_empty")]
    pub slurm: Keys,
    /// Keys of the experiment that were changed from outside, the backbone aside.
    pub overrides: Keys,
    /// Its runs.
    pub runs: Vec<RunConfig>,
    /// Its searches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<Search>,
}

/// What became of an experiment.
#[derive(Serialize)]
pub struct ExperimentResult {
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
    pub config: Keys,
    /// Why.
    pub error: String,
}

fn values<S: Serializer>(runs: &BTreeMap<usize, RunRecord>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.values())
}

/// What a plan is made for.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// How much.
    pub scale: Scale,
    /// Whose tasks; by default those that fit the backbone.
    pub suite: Option<Suite>,
    /// Keys above the experiment's own; the backbone is one of them.
    pub set: Keys,
}

impl Plan {
    /// Plans the experiment called `name`: a preset, or a file.
    ///
    /// # Errors
    /// If there is no such experiment, a run makes no sense, or a task's data cannot be there.
    pub fn new(lab: &Lab, name: &str, options: &PlanOptions, context: &RunContext) -> Result<Self> {
        let environment = Layers::new(lab).environment()?;
        let named = options.set.get("backbone").or(environment.get("backbone")).and_then(|name| name.as_str());
        let suite = options.suite.unwrap_or(Suite::of_backbone(named.unwrap_or_default()));
        let experiment = Experiment::load(lab, name, options.scale, suite, &[&environment, &options.set])?;
        let (mut searches, mut grid) = (Vec::new(), Grid::default());
        let hint = || format!("experiment `{}`", experiment.name);
        if experiment.kind == ExperimentKind::Search {
            (searches, grid.missing) = experiment.searches(lab, &context.data_folder()).with_context(hint)?;
        } else {
            let shape = |backbone: &str| context.backbone_shape(backbone);
            grid = experiment.grid(lab, &shape, &context.data_folder()).with_context(hint)?;
        }
        let Grid { runs, missing, too_large } = grid;
        for run in runs.iter().filter(|_| experiment.kind == ExperimentKind::Ablate) {
            let inserts = run.method(lab)?.inserts(&context.backbone_shape(&run.backbone)?.0.shape());
            ensure!(inserts, "kind = \"ablate\": `{}` inserts nothing that could be removed", run.tuning);
        }
        ensure!(
            experiment.kind != ExperimentKind::Stream || are_even(&streams_of(&runs)),
            "kind = \"stream\": every task needs the same runs; `by_task` may change a value, not make a list of it"
        );
        let searched = searches.iter().map(|search| search.task.as_str());
        let mut tasks: Vec<&str> = runs.iter().map(|run| run.task.as_str()).chain(searched).collect();
        tasks.dedup();
        tasks.iter().try_for_each(|task| context.check_task(lab, task))?;
        // Another task of the grid may need them.
        if let Some(task) = tasks.first().filter(|_| !tasks.iter().any(|task| is_own_data(task))) {
            FileOptions::check_given(lab, &options.set, task)?;
        }
        let Experiment { name, preset, about, kind, slurm, .. } = experiment;
        let mut overrides = environment;
        overrides.extend(options.set.clone());
        overrides.remove("backbone");
        if kind == ExperimentKind::Search {
            // What decides nothing in a search changes nothing.
            overrides.retain(|key, _| is_search_key(key));
        }
        let scale = options.scale;
        Ok(Self { experiment: name, preset, about, kind, scale, missing, too_large, slurm, overrides, runs, searches })
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.searches.is_empty()
    }

    /// How many runs it has.
    pub fn planned(&self) -> usize {
        self.runs.len() + self.searches.iter().map(Search::planned).sum::<usize>()
    }

    /// The backbones of its runs by name, and what should be known of them.
    fn backbones(&self) -> BTreeMap<String, String> {
        let note = |name: &str| KnownBackbone::find(name).map_or("", |known| known.note).to_owned();
        let searched = self.searches.iter().filter_map(|search| search.options.backbone.clone());
        self.runs
            .iter()
            .map(|run| run.backbone.clone())
            .chain(searched)
            .map(|name| (name.clone(), note(&name)))
            .collect()
    }

    /// The backbone of its runs.
    pub fn backbone(&self) -> Option<&str> {
        let searched = || self.searches.first().and_then(|search| search.options.backbone.as_deref());
        self.runs.first().map(|run| run.backbone.as_str()).or_else(searched)
    }

    /// Its runs, if they are trained each for itself.
    pub(super) fn single_runs(&self) -> &[RunConfig] {
        match self.kind {
            ExperimentKind::Train | ExperimentKind::Ablate => &self.runs,
            ExperimentKind::Stream | ExperimentKind::Search => &[],
        }
    }

    /// Its work, in pieces that different processes can do.
    pub(crate) fn items(&self) -> Vec<Item> {
        match self.kind {
            ExperimentKind::Train => self.runs.iter().cloned().map(Item::Train).collect(),
            ExperimentKind::Ablate => self.runs.iter().cloned().map(Item::Ablate).collect(),
            ExperimentKind::Stream => streams_of(&self.runs).into_iter().map(Item::Stream).collect(),
            ExperimentKind::Search => self.searches.iter().cloned().map(Item::Search).collect(),
        }
    }

    /// Does with finished runs what the experiment asks for, as far as nobody has done it, and writes down which belong to it.
    /// `failed` says why some of its pieces are not there.
    ///
    /// # Errors
    /// If it was interrupted, or what came out cannot be kept.
    pub fn conclude(
        &self,
        ended: &[RunOutcome],
        failed: &BTreeMap<usize, String>,
        sweep: &mut Sweep<'_>,
    ) -> Result<ExperimentResult> {
        let mut result = self.collect(sweep.lab, ended);
        match self.kind {
            ExperimentKind::Train => {}
            ExperimentKind::Ablate => result.ablate(sweep, &self.runs)?,
            ExperimentKind::Stream => result.stream(sweep, &self.runs, failed)?,
            ExperimentKind::Search => {
                for (number, search) in self.searches.iter().enumerate() {
                    let run = format!("{} without BERT", search.task);
                    if let Some(error) = failed.get(&number) {
                        result.failed.push(Failure { run, config: Keys::new(), error: error.clone() });
                        continue;
                    }
                    match search.run(sweep.lab, sweep.context, sweep.stop, sweep.told(&mut Unwatched)) {
                        Ok(searched) => result.add(searched.trials),
                        Err(error) if sweep.stop.requested() => return Err(error),
                        Err(error) => {
                            let error = format!("{error:#}");
                            tell_failed(sweep, &run, &error);
                            result.failed.push(Failure { run, config: Keys::new(), error });
                        }
                    }
                }
            }
        }
        self.keep(&result, sweep)?;
        Ok(result)
    }

    /// Writes down which runs and streams of an interrupted experiment are finished, so that the report can show them: those that
    /// `ended` now, and those that were there before.
    ///
    /// # Errors
    /// If that cannot be kept.
    pub fn keep_partial(&self, ended: &[RunOutcome], sweep: &mut Sweep<'_>) -> Result<()> {
        let Some(runs) = &sweep.context.runs else { return Ok(()) };
        let (mut ended, mut streams) = (ended.to_vec(), Vec::new());
        // What cannot be looked up is not there: why, was told by whoever needed it.
        if let Ok(mut runner) = sweep.runner() {
            for run in self.single_runs() {
                if ended.iter().all(|(known, _)| known != run) {
                    ended.extend(runner.finished(run).ok().flatten().map(|record| (run.clone(), Ok(record))));
                }
            }
            if self.kind == ExperimentKind::Stream {
                let known = |stream: &Vec<RunConfig>| known_stream(&mut runner, runs, stream).ok().flatten();
                streams.extend(streams_of(&self.runs).iter().filter_map(known));
            }
        }
        let mut result = ExperimentResult { streams, ..self.collect(sweep.lab, &ended) };
        for search in &self.searches {
            result.add(search.finished(sweep.lab, sweep.context).unwrap_or_default());
        }
        let nothing = result.runs.is_empty() && result.streams.is_empty() && result.failed.is_empty();
        if nothing { Ok(()) } else { self.keep(&result, sweep) }
    }

    /// Writes down which runs belong to the experiment, in the place of what was written before. It says which runs the report
    /// loses by that; where it would lose all of them for nothing, it leaves the list as it is.
    fn keep(&self, result: &ExperimentResult, sweep: &mut Sweep<'_>) -> Result<()> {
        let runs = sweep.context.runs.as_deref().context("an experiment needs a folder for its runs")?;
        let path = runs.join(folder::EXPERIMENTS).join(format!("{}.json", self.experiment));
        let (name, record) = (&self.experiment, result.record(self));
        let known = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let known: Option<ExperimentRecord> = known.filter(|known: &ExperimentRecord| !known.runs.is_empty());
        if let Some(known) = known {
            let of = known.runs.len();
            if record.runs.is_empty() {
                let kept = if of == 1 { "run".to_owned() } else { format!("{of} runs") };
                note(sweep, name, &format!("no run of `{name}` succeeded; the report keeps the {kept} that it had"));
                return Ok(());
            }
            let lost = self.replaced(&known, &record, result, sweep);
            if lost > 0 {
                note(sweep, name, &replaces(name, lost, of, self.preset));
            }
        }
        write_json(&path, &record)
    }

    /// How many finished runs of the experiment as it is `known` belong to it no longer, because it has other settings now.
    fn replaced(
        &self,
        known: &ExperimentRecord,
        now: &ExperimentRecord,
        result: &ExperimentResult,
        sweep: &Sweep<'_>,
    ) -> usize {
        let Ok(mut runner) = sweep.runner() else { return 0 };
        let Some(store) = sweep.context.runs.as_deref().map(RunStore::new) else { return 0 };
        let is_missing = |id: &&String| !now.runs.contains(id) && matches!(store.finished(id), Ok(Some(_)));
        let mut missing: Vec<&String> = known.runs.iter().filter(is_missing).collect();
        match self.kind {
            // A stream or a search that failed has lost all that it found.
            ExperimentKind::Stream | ExperimentKind::Search if !result.failed.is_empty() => missing.clear(),
            ExperimentKind::Train | ExperimentKind::Ablate if !missing.is_empty() => {
                // A run whose ablation failed is still one of its runs.
                let failed = self.runs.iter().enumerate().filter(|(number, _)| !result.runs.contains_key(number));
                for (_, run) in failed {
                    let found = runner.finished(run).ok().flatten();
                    missing.retain(|id| found.as_ref().is_none_or(|found| found.id != **id));
                }
            }
            _ => {}
        }
        missing.len()
    }

    /// What became of the experiment's runs.
    fn collect(&self, lab: &Lab, ended: &[RunOutcome]) -> ExperimentResult {
        let mut result = ExperimentResult {
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
                Some((_, Ok(record))) => drop(result.runs.insert(number, record.clone())),
                Some((config, Err(error))) => result.failed.push(Failure::new(lab, config, error)),
                None => {}
            }
        }
        result
    }
}

/// Says which runs the report no longer draws for an experiment: `lost` of the `of` that it had.
fn replaces(name: &str, lost: usize, of: usize, preset: bool) -> String {
    let runs = |runs: usize| if runs == 1 { "run".to_owned() } else { format!("{runs} runs") };
    let which = if lost == of { format!("the {}", runs(of)) } else { format!("{lost} of the {}", runs(of)) };
    // Nobody can give a preset another name.
    let other = if preset { "another folder for the runs" } else { "a file of another name" };
    format!("the report now draws these runs instead of {which} of `{name}`; {other} keeps both")
}

/// Tells whoever follows the sweep something about an experiment.
fn note(sweep: &mut Sweep<'_>, experiment: &str, text: &str) {
    sweep.watch.run(experiment).note(text);
}

/// Tells of what failed as a whole.
fn tell_failed(sweep: &mut Sweep<'_>, label: &str, error: &str) {
    sweep.watch.ended(Ended { done: 1, of: 1, label, result: Err(error), before: false });
}

impl Failure {
    fn new(lab: &Lab, config: &RunConfig, error: &str) -> Self {
        Self { run: config.describe(lab), config: config.keys().unwrap_or_default(), error: error.to_owned() }
    }
}

/// The runs of each stream in their order: the first of every task, then the second, and so on. Tasks may have settings of their own.
pub(super) fn streams_of(runs: &[RunConfig]) -> Vec<Vec<RunConfig>> {
    let (mut streams, mut met) = (Vec::<Vec<RunConfig>>::new(), BTreeMap::<&str, usize>::new());
    for run in runs {
        let number = met.entry(&run.task).or_default();
        match streams.get_mut(*number) {
            Some(stream) => stream.push(run.clone()),
            None => streams.push(vec![run.clone()]),
        }
        *number += 1;
    }
    streams
}

/// Whether all streams have all tasks, and each of them one method and one seed.
fn are_even(streams: &[Vec<RunConfig>]) -> bool {
    let alike = |a: &RunConfig, b: &RunConfig| (&a.tuning, a.train.seed) == (&b.tuning, b.train.seed);
    streams.iter().all(|stream| stream.len() == streams[0].len() && stream.iter().all(|run| alike(run, &stream[0])))
}

/// The stream of `runs` that was learnt before, if there is one: its first run is ours, and so are the settings of the others,
/// whose backbones follow from it.
pub(super) fn known_stream(runner: &mut Runner<'_>, place: &Path, runs: &[RunConfig]) -> Result<Option<StreamRecord>> {
    let Some(first) = runs.first() else { return Ok(None) };
    let Some(record) = runner.finished(first)? else { return Ok(None) };
    let settings = |mut keys: Keys| {
        keys.retain(|key, _| !["backbone", "task"].contains(&key.as_str()));
        keys
    };
    let store = RunStore::new(place);
    for file in std::fs::read_dir(place.join(folder::STREAMS)).into_iter().flatten().flatten() {
        let read = std::fs::read(file.path()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(known) = read.filter(|known: &StreamRecord| known.schema == SCHEMA) else { continue };
        if known.stages.len() != runs.len() || known.stages[0].run != record.id {
            continue;
        }
        let mut same = true;
        for (stage, run) in known.stages.iter().zip(runs) {
            let stored = store.finished(&stage.run)?.map(|stored| settings(stored.config));
            same &= stage.task == run.task && stored == Some(settings(run.keys()?));
        }
        if same {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// What a run's insertions are worth, if that was measured.
pub(super) fn known_ablation(store: &RunStore, id: &str) -> Option<AblationRecord> {
    let bytes = std::fs::read(store.folder(id).join(folder::ABLATION)).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|known: &AblationRecord| known.schema == SCHEMA)
}

/// What a run's insertions are worth, measured unless that was done before.
pub(super) fn ablation(
    runner: &mut Runner<'_>,
    config: &RunConfig,
    record: &RunRecord,
) -> Result<AblationRecord, RunError> {
    let store = RunStore::new(runner.runs().context("an ablation needs a folder of runs")?);
    let path = store.folder(&record.id).join(folder::ABLATION);
    if let Some(ablation) = known_ablation(&store, &record.id) {
        return Ok(ablation);
    }
    let backbone = runner.backbone(&config.backbone, &mut Silent)?;
    let run = runner.run_on(&backbone, config, &mut Silent)?;
    let file = runner.trained(&run)?;
    let (kind, task) = (file.info.kind.parse().context("the task's kind")?, file.info.task.clone());
    let model = runner.lab().load(&backbone, file, runner.device())?;
    let model = model.in_precision(runner.precision());
    let set = runner.validation(config, &backbone, &mut Silent)?;
    let (network, batch_size) = (&backbone.config, 2 * config.train.batch_size);
    let ablation = model.ablate(&set, Inference { network, batch_size, device: runner.device() })?;
    let ablation = ablation.record(&task, kind, set.majority_accuracy());
    write_json(&path, &ablation)?;
    Ok(ablation)
}

/// Learns tasks one after the other, unless that was done before.
pub(super) fn learn_stream(
    runner: &mut Runner<'_>,
    runs: &[RunConfig],
    watch: &mut dyn SweepWatch,
) -> Result<StreamRecord, RunError> {
    let place = runner.runs().context("a stream needs a folder of runs")?.to_owned();
    if let Some(known) = known_stream(runner, &place, runs)? {
        return Ok(known);
    }
    let streamed = stream(runner, runs, watch)?;
    write_json(&place.join(folder::STREAMS).join(format!("{}.json", streamed.id)), &streamed)?;
    Ok(streamed)
}

impl ExperimentResult {
    /// Adds the trials of a search.
    fn add(&mut self, trials: Vec<RunRecord>) {
        let place = self.runs.len();
        self.runs.extend((place..).zip(trials));
    }

    /// Removes what was inserted from every span of layers of every run, unless that was done before. A run for which that fails
    /// is not finished.
    fn ablate(&mut self, sweep: &mut Sweep<'_>, configs: &[RunConfig]) -> Result<()> {
        let (lab, context, stop) = (sweep.lab, sweep.context, sweep.stop);
        let mut runner = None::<Runner<'_>>;
        let mut failed = Vec::new();
        for (&number, record) in self.runs.iter().filter(|(_, record)| record.status == Status::Finished) {
            ensure!(!stop.requested(), INTERRUPTED);
            let runner = match &mut runner {
                Some(runner) => runner,
                none => none.insert(Runner::new(lab, context, stop.clone())?),
            };
            let config = &configs[number];
            let measured = loop {
                match ablation(runner, config, record) {
                    // Another process trains the run again for its tensors.
                    Err(RunError::Busy { .. }) => {
                        ensure!(!stop.requested(), INTERRUPTED);
                        thread::sleep(BUSY_PAUSE);
                    }
                    measured => break measured,
                }
            };
            match measured {
                Ok(ablation) => drop(self.ablations.insert(record.id.clone(), ablation)),
                Err(error) if error.ends_everything() => return Err(error.explained(true)),
                Err(error) => {
                    let failure = Failure::new(lab, config, &error.message());
                    tell_failed(sweep, &failure.run, &failure.error);
                    self.failed.push(failure);
                    failed.push(number);
                }
            }
        }
        self.runs.retain(|number, _| !failed.contains(number));
        Ok(())
    }

    /// Learns the tasks one after the other, once for each method.
    fn stream(&mut self, sweep: &mut Sweep<'_>, runs: &[RunConfig], failed: &BTreeMap<usize, String>) -> Result<()> {
        let mut runner = Runner::new(sweep.lab, sweep.context, sweep.stop.clone())?;
        for (number, runs) in streams_of(runs).into_iter().enumerate() {
            let error = match failed.get(&number) {
                Some(reason) => reason.clone(),
                None => match learn_stream(&mut runner, &runs, sweep.told(&mut Unwatched)) {
                    Ok(streamed) => {
                        self.streams.push(streamed);
                        continue;
                    }
                    Err(error) if error.ends_everything() => return Err(error.explained(true)),
                    // It waits for other processes until it is asked to stop.
                    Err(RunError::Busy { .. }) => bail!(INTERRUPTED),
                    Err(error) => error.message(),
                },
            };
            let failure = Failure::new(sweep.lab, &runs[0], &format!("its stream: {error}"));
            if !failed.contains_key(&number) {
                tell_failed(sweep, &failure.run, &failure.error);
            }
            self.failed.push(failure);
        }
        Ok(())
    }

    /// Which runs belong to the experiment.
    fn record(&self, plan: &Plan) -> ExperimentRecord {
        let streamed = self.streams.iter().flat_map(|stream| &stream.stages).map(|stage| stage.run.clone());
        let failed =
            self.failed.iter().map(|failure| FailedRun { run: failure.run.clone(), error: failure.error.clone() });
        ExperimentRecord {
            schema: SCHEMA,
            name: self.experiment.clone(),
            preset: plan.preset,
            about: self.about.clone(),
            kind: plan.kind.to_string(),
            scale: plan.scale.to_string(),
            backbones: plan.backbones(),
            planned: plan.planned(),
            runs: self.runs.values().map(|record| record.id.clone()).chain(streamed).collect(),
            streams: self.streams.iter().map(|stream| stream.id.clone()).collect(),
            failed: failed.collect(),
            missing: plan.missing.clone(),
            overrides: plan.overrides.clone().into_iter().collect(),
            space: plan.searches.first().map(|search| search.options.space_record()).unwrap_or_default(),
        }
    }
}
