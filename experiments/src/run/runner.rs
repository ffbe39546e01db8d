//! One run, from its configuration to its record.

mod prepare;

use std::{collections::BTreeMap, path::Path, rc::Rc, time::Instant};

use adapter_core::TaskFile;
use analysis::{Examples, Measured, Network, Params, RunRecord, SCHEMA, Status};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::tensor::Device;
use tasks::{EvaluationSet, Scores, TaskData};

use self::prepare::Ready;
use super::{
    BURN_VERSION, FileOptions, OpenRun, RunConfig, RunContext, RunManifest, RunStore, StepLog, StoredRun,
    claim::lost_is_busy,
    store::{Origin, run_id},
    track::Trackers,
};
use crate::{
    device::{CpuClock, Devices, Precision, guard_on, vector_bits},
    lab::{Inference, Lab},
    train::{Checkpoint, CheckpointPolicy, RunError, Silent, Step, Stop, Trained, Training, Watch},
};

/// Runs configurations one after the other; what two of them share is loaded once.
pub struct Runner<'a> {
    lab: &'a Lab,
    context: RunContext,
    /// Those of the context; the first holds the optimiser.
    devices: Vec<Device>,
    store: Option<RunStore>,
    stop: Stop,
    backbone: Option<(String, Rc<Backbone>)>,
    data: Option<((String, FileOptions), Rc<TaskData>)>,
}

/// A run that is over.
pub struct FinishedRun {
    /// What is written of it.
    pub record: RunRecord,
    was_finished: bool,
    /// v, unless the run was finished before or diverged.
    file: Option<TaskFile>,
}

impl FinishedRun {
    /// Whether there was nothing left to do.
    pub fn was_finished(&self) -> bool {
        self.was_finished
    }
}

/// The fingerprint that a run may change on its way.
const DEVICE: &str = "device";

/// Steps between two measurements of how far each insertion is from the identity.
const PROBE_EVERY: usize = 50;

impl<'a> Runner<'a> {
    /// A runner that ends its run in good order when `stop` asks for it.
    ///
    /// # Errors
    /// If a device cannot be used.
    pub fn new(lab: &'a Lab, context: &RunContext, stop: Stop) -> Result<Self> {
        let devices = context.devices.open()?;
        let store = context.runs.as_ref().map(RunStore::new);
        Ok(Self { lab, context: context.clone(), devices, store, stop, backbone: None, data: None })
    }

    /// The methods, tasks and the rest that it knows.
    pub fn lab(&self) -> &'a Lab {
        self.lab
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// What it computes on.
    pub fn devices(&self) -> &Devices {
        &self.context.devices
    }

    /// How precisely it computes.
    pub fn precision(&self) -> Precision {
        self.context.devices.precision
    }

    /// The folder of its runs, if they are kept.
    pub fn runs(&self) -> Option<&Path> {
        self.context.runs.as_deref()
    }

    /// Whether the trained tensors of a run are here. Records that were imported have none.
    pub fn has_trained(&self, id: &str) -> bool {
        self.store.as_ref().is_some_and(|store| store.has_trained(id))
    }

    /// The wish to stop that it listens to.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The backbone called `name`.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn backbone(&mut self, name: &str, watch: &mut dyn Watch) -> Result<Rc<Backbone>> {
        match &self.backbone {
            Some((loaded, backbone)) if loaded == name => Ok(backbone.clone()),
            _ => {
                let backbone = Rc::new(self.context.backbone(name, self.device(), watch)?);
                self.backbone = Some((name.to_owned(), backbone.clone()));
                Ok(backbone)
            }
        }
    }

    /// The shape of the backbone called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn shape(&self, name: &str) -> Result<BertConfig> {
        Ok(self.context.backbone_shape(name)?.0)
    }

    /// The data of a task.
    ///
    /// # Errors
    /// If there is no such task, or its files are not as they must be.
    pub fn data(&mut self, task: &str, files: &FileOptions, watch: &mut dyn Watch) -> Result<Rc<TaskData>> {
        let key = (task.to_owned(), files.clone());
        match &self.data {
            Some((loaded, data)) if *loaded == key => Ok(data.clone()),
            _ => {
                let data = Rc::new(self.context.load_task(self.lab, task, files, None, watch)?);
                self.data = Some((key, data.clone()));
                Ok(data)
            }
        }
    }

    /// v of a run that is over.
    ///
    /// # Errors
    /// If it was not kept or cannot be read.
    pub fn trained(&self, run: &FinishedRun) -> Result<TaskFile> {
        let id = &run.record.id;
        ensure!(
            run.record.status != Status::Diverged,
            "run {id} diverged: it has no weights; try a lower learning rate"
        );
        match (&run.file, &self.store) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(store)) => store.trained(&run.record.id),
            (None, None) => bail!("run {} was not kept", run.record.id),
        }
    }

    /// Runs `config`, continues it, or finds it finished.
    ///
    /// # Errors
    /// If data or backbone cannot be used, another process has the run, or training fails.
    pub fn run(&mut self, config: &RunConfig, watch: &mut dyn Watch) -> Result<FinishedRun, RunError> {
        guard_on(&self.context.devices.names.clone(), || {
            let backbone = self.backbone(&config.backbone, watch)?;
            self.start(&backbone, config, false, watch)
        })
        .map_err(lost_is_busy)
    }

    /// [`run`](Self::run) on a backbone that is loaded already. A finished run whose trained tensors are not here is run again.
    ///
    /// # Errors
    /// As [`run`](Self::run); or if a run that is run again does not come out as its record says.
    pub fn run_on(
        &mut self,
        backbone: &Backbone,
        config: &RunConfig,
        watch: &mut dyn Watch,
    ) -> Result<FinishedRun, RunError> {
        guard_on(&self.context.devices.names.clone(), || self.start(backbone, config, true, watch))
            .map_err(lost_is_busy)
    }

    fn start(
        &mut self,
        backbone: &Backbone,
        config: &RunConfig,
        needs_tensors: bool,
        watch: &mut dyn Watch,
    ) -> Result<FinishedRun, RunError> {
        let data = self.data(&config.task, &config.files, watch)?;
        let manifest = self.manifest(config, &data, backbone)?;
        let id = run_id(&manifest.config.keys()?, &manifest.fingerprints)?;
        self.continue_run(&id, manifest, &data, backbone, needs_tensors, watch)
    }

    /// Continues the run `id` of the store, on whatever device it was started. `moved` changes where its backbone and data are
    /// looked for; the run remembers that.
    ///
    /// # Errors
    /// If there is no such run, or data, backbone or arithmetic are no longer what they were; and as [`run`](Self::run).
    pub fn resume(
        &mut self,
        id: &str,
        moved: impl FnOnce(&mut Origin),
        watch: &mut dyn Watch,
    ) -> Result<FinishedRun, RunError> {
        let before = self.context.clone();
        let ended = guard_on(&before.devices.names, || {
            let mut manifest = self.store.as_ref().context("a run is resumed from a store")?.manifest(id)?;
            let (then, said) = (manifest.origin.clone(), self.precision());
            moved(&mut manifest.origin);
            let Origin { backbone, task, files, data_dir } = manifest.origin.clone();
            self.context.data_dir = self.context.data_dir.take().or(data_dir);
            let gone = |what: &str, place: &str| format!("run {id} was started with the {what} {place}");
            let backbone = self.backbone(&backbone, watch).with_context(|| gone("backbone", &then.backbone))?;
            let data = self.data(&task, &files, watch).with_context(|| gone("task", &then.task))?;
            let precision = manifest.precision()?;
            let agrees = said == Precision::F32 || said == precision;
            ensure_run(agrees, || format!("run {id} was started in {precision}, not in {said}"))?;
            self.context.devices.precision = precision;
            self.context.devices.open()?;
            for (name, now) in self.fingerprints(&data, &backbone, precision)? {
                let then = manifest.fingerprints.get(&name).map_or("unknown", String::as_str);
                let same = name == DEVICE || now == then;
                ensure_run(same, || format!("run {id} was started with another {name}: {then}, now {now}"))?;
            }
            self.continue_run(id, manifest, &data, &backbone, false, watch)
        });
        self.context = before;
        ended.map_err(lost_is_busy)
    }

    /// Runs what was started, from its last checkpoint.
    fn continue_run(
        &self,
        id: &str,
        manifest: RunManifest,
        data: &TaskData,
        backbone: &Backbone,
        needs_tensors: bool,
        watch: &mut dyn Watch,
    ) -> Result<FinishedRun, RunError> {
        let find = |store: &RunStore| if needs_tensors { store.open_for_tensors(id) } else { store.open(id) };
        let open = match self.store.as_ref().map(find).transpose()? {
            Some(StoredRun::Finished(record)) => {
                return Ok(FinishedRun { record: *record, was_finished: true, file: None });
            }
            Some(StoredRun::Open(open)) => Some(open),
            None => None,
        };
        let resume = open.as_ref().map(OpenRun::checkpoint).transpose()?.flatten();
        let done = resume.as_ref().map_or(0, |checkpoint| checkpoint.state.step);
        let manifest = match &open {
            Some(open) => open.start(manifest, &self.context.devices.kinds(), done)?,
            None => manifest,
        };
        let log = open.as_ref().map(|open| StepLog::open(open.steps_path(), done)).transpose()?;
        let mut trackers = match (&log, self.runs()) {
            (Some(log), Some(runs)) if !self.context.track.is_empty() => {
                let state = resume.as_ref().map(|checkpoint| &checkpoint.state);
                Trackers::begin(&self.context.track, runs, id, &manifest.config.keys()?, &log.lines()?, state, watch)
            }
            _ => Trackers::default(),
        };
        let precision = manifest.precision()?;
        let RunManifest { config, origin, fingerprints, moves } = manifest;
        let ready = self.prepare(&config, &origin, data, backbone, precision)?;
        let Ready { method, model, prepared, metric, .. } = &ready;
        let (count, trivial) = (model.count(), prepared.validation.trivial_scores(&prepared.train));
        let mut metrics: Vec<String> = trivial.keys().cloned().collect();
        metrics.sort_by_key(|name| name != metric);
        watch.scored_by(&metrics);
        if let Some(limit) = config.limit_validation {
            watch.note(&format!("scores are those of {limit} validation examples"));
        }
        if done > 0 {
            watch.note(&format!("run {id} continues after step {done}"));
        }
        // What is measured goes into the log, or onto a screen.
        let probes = model.has_insertions() && (log.is_some() || watch.shows_deviations());
        let mut write = |checkpoint: &Checkpoint| open.as_ref().map_or(Ok(()), |open| open.keep(checkpoint));
        let mut checkpoints = match &open {
            Some(_) => CheckpointPolicy::keeping(self.context.checkpoint_every, &mut write),
            None => CheckpointPolicy::default(),
        };
        (checkpoints.resume, checkpoints.stop) = (resume, Some(&self.stop));
        let training = Training {
            probe_every: probes.then_some(PROBE_EVERY),
            ..ready.training(&config, &backbone.config, precision)
        };
        let mut watchers = Watchers { watch: &mut *watch, log, open: open.as_ref(), trackers: &mut trackers };
        let mut trained = model.train(&training, checkpoints, &mut watchers)?;
        if let Some(note) = loss_note(&trained) {
            watch.note(&note);
        }

        // Scores of the model that is kept, on whatever was not looked at in training.
        let (started, mut cpu) = (Instant::now(), CpuClock::start());
        let (mut test, mut extra) = (BTreeMap::new(), BTreeMap::new());
        if let Some(file) = &trained.file {
            let model = self.lab.load(backbone, file.clone(), self.device())?.in_precision(precision);
            let batch_size = 2 * config.train.batch_size;
            let how = Inference { network: &backbone.config, batch_size, device: self.device() };
            if let Some(set) = &prepared.test {
                test = finite(model.evaluate(set, how)?);
            }
            for (name, set) in &prepared.extra {
                extra.insert(name.clone(), finite(model.evaluate(set, how)?));
            }
        }
        trained.measured.evaluation_seconds += started.elapsed().as_secs_f64();
        cpu.add_to(&mut trained.measured.cpu_seconds);
        let record = RunRecord {
            schema: SCHEMA,
            id: id.to_owned(),
            status: if trained.diverged.is_some() { Status::Diverged } else { Status::Finished },
            config: config.keys()?,
            method: method.record(),
            software: BTreeMap::from([
                ("adapter-lab".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("burn".to_owned(), BURN_VERSION.to_owned()),
            ]),
            fingerprints,
            moves,
            skipped_steps: trained.skipped_steps,
            params: Params {
                trained: count.trained,
                total: count.total,
                backbone: count.backbone,
                shared_backbone: count.shared_backbone,
                groups: count.groups,
            },
            evaluations: trained.evaluations,
            kept: config.train.keep,
            best: trained.best,
            last: trained.last,
            test,
            extra,
            majority: trivial,
            examples: Examples {
                train: prepared.train.len(),
                validation: prepared.validation.len(),
                test: prepared.test.as_ref().map_or(0, EvaluationSet::len),
            },
            loss_curve: trained.loss_curve,
            network: Network {
                layers: backbone.config.num_hidden_layers,
                hidden: backbone.config.hidden_size,
                heads: backbone.config.num_attention_heads,
                intermediate: backbone.config.intermediate_size,
            },
            measured: Measured {
                vector_bits: vector_bits(),
                threads: self.context.devices.on_cpu().then(rayon::current_num_threads),
                ..trained.measured
            },
        };
        if let Some(open) = open {
            open.finish(&record, trained.file.as_ref())?;
        }
        trackers.finished(&record, watch);
        Ok(FinishedRun { record, was_finished: false, file: trained.file })
    }

    /// The record of `config`, if it is finished.
    ///
    /// # Errors
    /// If data or backbone cannot be used, or the record cannot.
    pub fn finished(&mut self, config: &RunConfig) -> Result<Option<RunRecord>> {
        let Some(store) = self.store.clone() else { return Ok(None) };
        let manifest = self.started_as(config, &mut Silent)?;
        store.finished(&run_id(&manifest.config.keys()?, &manifest.fingerprints)?)
    }
}

fn ensure_run(holds: bool, problem: impl FnOnce() -> String) -> Result<(), RunError> {
    if holds { Ok(()) } else { Err(anyhow::Error::msg(problem()).into()) }
}

/// What follows a run, and its log.
struct Watchers<'a> {
    watch: &'a mut dyn Watch,
    log: Option<StepLog>,
    open: Option<&'a OpenRun>,
    trackers: &'a mut Trackers,
}

/// Scores that a record can hold: none where one is no finite number.
fn finite(scores: Scores) -> Scores {
    if scores.values().all(|score| score.is_finite()) { scores } else { Scores::new() }
}

/// What is said of a run whose loss grew beyond any sense, although it stayed a number.
fn loss_note(trained: &Trained) -> Option<String> {
    let (first, last) = (trained.loss_curve.first()?.1, trained.evaluations.last()?.loss);
    let grew = last > 1e6 || last > 20.0 * first.max(1.0);
    grew.then(|| format!("the loss ends at {last:.1e}: try a lower learning rate, or smaller scores to predict"))
}

impl Watch for Watchers<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        self.watch.step(step)?;
        self.trackers.step(step, self.watch);
        self.log.as_mut().map_or(Ok(()), |log| log.step(step))
    }

    fn evaluation(&mut self, evaluation: &analysis::Evaluation) -> Result<()> {
        self.trackers.evaluation(evaluation, self.watch);
        self.watch.evaluation(evaluation)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.open.map_or(Ok(()), OpenRun::check)?;
        self.log.as_mut().map_or(Ok(()), StepLog::checkpoint)?;
        self.trackers.checkpoint(self.watch);
        Ok(())
    }
}
