//! One run, from its configuration to its record.

use std::{
    collections::BTreeMap,
    rc::Rc,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_core::{Init, InnerNorm, ParamCount, TaskFile, TaskInfo};
use analysis::{Params, RunRecord, SCHEMA, Status};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::{module::Module, tensor::Device};
use serde_json::Value;
use tasks::{EvaluationSet, Head, HeadInput, Task, TaskData, TaskKind, TaskModel, TokenCache, WindowConfig};

use crate::{
    backbones::CacheArgs,
    checkpoint::Checkpoint,
    device_args::TrainingPlace,
    precision::Precision,
    prepared::{Prepared, validation},
    progress::Progress,
    run_config::{BURN_VERSION, NUMERICS, RunConfig},
    run_store::{Begun, DTYPE, Found, OpenRun, RunStore},
    step_log::StepLog,
    task_args::{TaskFiles, token_cache},
    trainer::{Course, Keep, Lessons, Safety, Step, Watch, train_on},
};

/// Runs configurations one after the other; what two of them share is loaded once.
pub struct Runner<'a> {
    files: &'a TaskFiles,
    cache: &'a CacheArgs,
    place: &'a TrainingPlace,
    /// Those of `place`; the first holds the optimiser.
    devices: Vec<Device>,
    store: Option<RunStore>,
    checkpoint_every: Duration,
    backbone: Option<(String, Rc<Backbone>)>,
    data: Option<(String, Rc<TaskData>)>,
}

/// A run that is over.
pub struct Ran {
    /// What is written of it.
    pub record: RunRecord,
    /// v, unless the run was finished before.
    file: Option<TaskFile>,
}

impl Ran {
    /// Whether there was nothing left to do.
    pub fn was_finished(&self) -> bool {
        self.file.is_none()
    }
}

/// The fingerprint that a run may change on its way.
const DEVICE: &str = "device";

/// Steps between two measurements of how far each adapter is from the identity.
const PROBE_EVERY: usize = 50;

impl<'a> Runner<'a> {
    /// A runner that keeps its runs in `store`, if there is one.
    ///
    /// # Errors
    /// If a device cannot be had.
    pub fn new(
        files: &'a TaskFiles,
        cache: &'a CacheArgs,
        place: &'a TrainingPlace,
        store: Option<RunStore>,
    ) -> Result<Self> {
        let devices = place.open()?;
        let checkpoint_every = Duration::from_secs(60);
        Ok(Self { files, cache, place, devices, store, checkpoint_every, backbone: None, data: None })
    }

    /// The same runner with another time between two checkpoints of a run.
    pub fn with_checkpoints_every(self, every: Duration) -> Self {
        Self { checkpoint_every: every, ..self }
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// How precisely it computes.
    pub fn precision(&self) -> Precision {
        self.place.compute.dtype
    }

    /// The backbone called `name`.
    pub fn backbone(&mut self, name: &str) -> Result<Rc<Backbone>> {
        match &self.backbone {
            Some((loaded, backbone)) if loaded == name => Ok(backbone.clone()),
            _ => {
                let backbone = Rc::new(self.cache.load(name, self.device())?);
                self.backbone = Some((name.to_owned(), backbone.clone()));
                Ok(backbone)
            }
        }
    }

    /// The data of the task called `name`.
    pub fn data(&mut self, name: &str) -> Result<Rc<TaskData>> {
        match &self.data {
            Some((loaded, data)) if loaded == name => Ok(data.clone()),
            _ => {
                let data = Rc::new(self.files.load(name, None)?);
                self.data = Some((name.to_owned(), data.clone()));
                Ok(data)
            }
        }
    }

    /// v of a run that is over.
    pub fn trained(&self, ran: &Ran) -> Result<TaskFile> {
        match (&ran.file, &self.store) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(store)) => store.trained(&ran.record.id),
            (None, None) => bail!("run {} was not kept", ran.record.id),
        }
    }

    /// Runs `config`, goes on with it, or finds it finished.
    ///
    /// # Errors
    /// If data or backbone cannot be used, another process has the run, or training fails.
    pub fn run(&mut self, config: &RunConfig, progress: &mut Progress) -> Result<Ran> {
        self.place.guard(self.store.is_some(), || {
            let backbone = self.backbone(&config.backbone)?;
            self.run_on(&backbone, config, progress)
        })
    }

    /// [`run`](Self::run) on a backbone that is at hand.
    pub fn run_on(&mut self, backbone: &Backbone, config: &RunConfig, progress: &mut Progress) -> Result<Ran> {
        self.place.guard(self.store.is_some(), || {
            let data = self.data(&config.task)?;
            let begun = Begun {
                config: config.clone().for_data(&data, backbone),
                backbone: config.backbone.clone(),
                task: config.task.clone(),
                fingerprints: self.fingerprints(&data, backbone, self.precision())?,
                moves: Vec::new(),
            };
            let identity = serde_json::to_vec(&(serde_json::to_value(&begun.config)?, &begun.fingerprints))?;
            let id = &blake3::hash(&identity).to_hex()[..16];
            self.go_on(id, begun, &data, backbone, progress)
        })
    }

    /// Goes on with the run `id` of the store, on whatever device it was begun.
    ///
    /// # Errors
    /// If there is no such run, or data, backbone or arithmetic are no longer what they were; and as [`run`](Self::run).
    pub fn resume(&mut self, id: &str, progress: &mut Progress) -> Result<Ran> {
        self.place.guard(self.store.is_some(), || {
            let begun = self.store.as_ref().context("a run is resumed from a store")?.begun(id)?;
            let (backbone, data) = (self.backbone(&begun.backbone)?, self.data(&begun.task)?);
            let precision = begun.precision()?;
            let said = self.precision();
            ensure!(said == Precision::F32 || said == precision, "run {id} was begun in {precision}, not in {said}");
            self.place.open_for(precision)?;
            for (name, now) in self.fingerprints(&data, &backbone, precision)? {
                let then = begun.fingerprints.get(&name).map_or("unknown", String::as_str);
                ensure!(name == DEVICE || now == then, "run {id} was begun with another {name}: {then}, now {now}");
            }
            self.go_on(id, begun, &data, &backbone, progress)
        })
    }

    /// Runs what was begun, from its last checkpoint.
    fn go_on(
        &self,
        id: &str,
        begun: Begun,
        data: &TaskData,
        backbone: &Backbone,
        progress: &mut Progress,
    ) -> Result<Ran> {
        let batch_norm = begun.config.adapter.as_ref().is_some_and(|adapter| adapter.norm == InnerNorm::Batch);
        ensure!(self.devices.len() == 1 || !batch_norm, "batch normalisation needs whole batches: use one device");
        let open = match self.store.as_ref().map(|store| store.open(id)).transpose()? {
            Some(Found::Finished(record)) => return Ok(Ran { record: *record, file: None }),
            Some(Found::Open(open)) => Some(open),
            None => None,
        };
        let resume = open.as_ref().map(OpenRun::checkpoint).transpose()?.flatten();
        let done = resume.as_ref().map_or(0, |checkpoint| checkpoint.numbers.step);
        let begun = match &open {
            Some(open) => open.begin(begun, &self.place.kinds(), done)?,
            None => begun,
        };
        let precision = begun.precision()?;
        let Begun { config, fingerprints, moves, .. } = begun;
        let Value::Object(written) = serde_json::to_value(&config)? else { bail!("a configuration is an object") };

        let mut prepared = Prepared::new(data, &config, backbone, &self.token_cache())?;
        let metric = Task::find(&config.task).map_or(prepared.kind.metric(), |task| task.metric);

        // w is shared; v is new, and only v is trained.
        let training: Vec<Device> = self.devices.iter().map(|device| device.clone().autodiff()).collect();
        let device = &training[0];
        let (init, hidden) = (Init::new(config.seed), backbone.config.hidden_size);
        let adapter = config.adapter.as_ref();
        let bert = backbone.bert.clone().train();
        let bert = bert.insert(|place| adapter.and_then(|adapter| adapter.init(place, hidden, init, device)));
        let input = match (prepared.kind, config.settings.pooler_head) {
            (TaskKind::Span, _) => HeadInput::Tokens,
            (_, true) => HeadInput::Pooler,
            (_, false) => HeadInput::Cls,
        };
        let head = Head::new(hidden, prepared.outputs, input, init, device);
        let head = head.with_dropout(config.settings.head_dropout);
        let model = precision.of(config.tuning.apply(TaskModel::new(bert, head)?));
        let count = ParamCount::of(&model, config.tuning);
        if config.cache_prefix {
            prepared = prepared.with_prefix(&model, &config, &backbone.config, self.device())?;
        }
        let info = TaskInfo {
            task: prepared.task.clone(),
            kind: prepared.kind.to_string(),
            labels: prepared.labels.clone(),
            head: input.to_string(),
            max_length: config.max_length,
            tuning: config.tuning,
            adapter: config.adapter.clone(),
            backbone: backbone.id(),
        };

        let (train_set, validation) = (&prepared.train, &prepared.validation);
        let lessons = Lessons { train: train_set, validation, metric, network: &backbone.config };
        if done > 0 {
            progress.note(&format!("run {id} goes on after step {done}"));
        }
        let log = open.as_ref().map(|open| StepLog::open(open.steps_path(), done)).transpose()?;
        // What is measured goes into the log, or onto a screen.
        let probes = config.adapter.is_some() && (log.is_some() || progress.shows_deviations());
        let course = Course { probe_every: probes.then_some(PROBE_EVERY), precision, ..config.course() };
        let mut write = |checkpoint: &Checkpoint| match &open {
            Some(open) => checkpoint.write(&open.checkpoint_path()),
            None => Ok(()),
        };
        let keep = open.as_ref().map(|_| Keep { every: self.checkpoint_every, write: &mut write });
        let safety = Safety { resume, keep, stop: Some(stop_on_ctrl_c()) };
        let mut watchers = Watchers { progress, log };
        let trained = train_on(model, &info, &lessons, &course, &training, safety, &mut watchers)?;

        let mut test = BTreeMap::new();
        if let Some(set) = &prepared.test {
            let best = precision.of(TaskModel::load(backbone, trained.file.clone(), self.device())?);
            let scores = set.evaluate(&best, &backbone.config, 2 * config.batch_size, self.device())?;
            test.extend(scores.into_iter().map(|(metric, score)| (metric.to_string(), score)));
        }
        let record = RunRecord {
            schema: SCHEMA,
            id: id.to_owned(),
            status: Status::Finished,
            config: written,
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
                groups: count.groups,
            },
            epochs: trained.epochs,
            best: Some(trained.best),
            test,
            measured: trained.measured,
        };
        if let Some(open) = open {
            open.finish(&record, &trained.file)?;
        }
        Ok(Ran { record, file: Some(trained.file) })
    }

    /// The examples that a run is judged by, as it sees them.
    pub fn validation(&mut self, config: &RunConfig, backbone: &Backbone) -> Result<EvaluationSet> {
        let data = self.data(&config.task)?;
        let config = config.clone().for_data(&data, backbone);
        validation(&data, &config, backbone, &self.token_cache())
    }

    fn token_cache(&self) -> TokenCache {
        token_cache(&self.cache.fetcher())
    }

    /// Everything that decides a run beside its configuration.
    fn fingerprints(
        &self,
        data: &TaskData,
        backbone: &Backbone,
        precision: Precision,
    ) -> Result<BTreeMap<String, String>> {
        let BertConfig { hidden_dropout_prob, attention_probs_dropout_prob, .. } = backbone.config;
        let mut fingerprints = BTreeMap::from([
            // They decide training, but not what the network computes: no part of the backbone's own hash.
            ("dropout".to_owned(), format!("{hidden_dropout_prob} {attention_probs_dropout_prob}")),
            ("backbone".to_owned(), backbone.id().hash),
            ("data".to_owned(), data.fingerprint()),
            ("tokenizer".to_owned(), backbone.tokenizer.hash()?),
            (DEVICE.to_owned(), self.place.kinds()),
            ("numerics".to_owned(), NUMERICS.to_string()),
        ]);
        // Runs in f32 are called what they were before there was anything else.
        if precision != Precision::F32 {
            fingerprints.insert(DTYPE.to_owned(), precision.to_string());
        }
        Ok(fingerprints)
    }
}

impl RunConfig {
    /// The same configuration under the names that data and backbone have, however the user spelled them.
    fn for_data(self, data: &TaskData, backbone: &Backbone) -> Self {
        let backbone_name = backbone.name.clone();
        match data {
            TaskData::Texts(dataset) => Self { task: dataset.task.clone(), backbone: backbone_name, ..self },
            TaskData::Questions(_) => {
                let max_length = WindowConfig::within(backbone.config.max_position_embeddings).max_length;
                Self { max_length, backbone: backbone_name, ..self }
            }
        }
    }

    fn course(&self) -> Course {
        Course {
            settings: self.settings,
            learning_rate: self.learning_rate,
            epochs: self.epochs,
            batch_size: self.batch_size,
            accumulate: self.accumulate,
            seed: self.seed,
            evaluate_every: self.evaluate_every,
            patience: self.patience,
            probe_every: None,
            precision: Precision::F32,
        }
    }
}

/// Whoever follows a run of ours.
struct Watchers<'a> {
    progress: &'a mut Progress,
    log: Option<StepLog>,
}

impl Watch for Watchers<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        self.progress.step(step)?;
        self.log.as_mut().map_or(Ok(()), |log| log.step(step))
    }

    fn evaluation(&mut self, evaluation: &analysis::Epoch) -> Result<()> {
        self.progress.evaluation(evaluation)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.log.as_mut().map_or(Ok(()), StepLog::checkpoint)
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Set by Ctrl-C from now on: what is under way ends in good order. A second one ends the process.
pub fn stop_on_ctrl_c() -> &'static AtomicBool {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let handler = || match STOP.swap(true, Ordering::Relaxed) {
            false => {}
            true => std::process::exit(130),
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("warning: Ctrl-C will end the run without a last checkpoint: {error}");
        }
    });
    &STOP
}

/// Whether Ctrl-C was pressed.
pub fn stopped() -> bool {
    stop_on_ctrl_c().load(Ordering::Relaxed)
}

/// What Ctrl-C does: the run under way ends after its step.
pub fn stop() {
    STOP.store(true, Ordering::Relaxed);
}
