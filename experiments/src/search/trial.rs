//! One trial: a classifier of the space, trained and scored.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    time::{Instant, SystemTime},
};

use analysis::{Evaluation, Examples, Kept, Measured, MethodRecord, RunRecord, SCHEMA, Scored, Status, folder};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::Backbone;
use burn::tensor::Device;
use tasks::{Dataset, Example, Prediction, Scores, Target, TaskData, TaskKind};

use super::{
    TrialSpeed, WordVectors, embedding_file,
    features::{Embedding, Features, all_words},
    network::{Classifier, SCORED},
    space::{NO_BERT, TrialConfig},
    training::{BATCH, fit},
};
use crate::{
    device::{CpuClock, Precision, guard_on, memory, vector_bits},
    lab::Lab,
    run::{
        BURN_VERSION, FileOptions, NUMERICS, RunContext, RunStore, StoredRun, Trackers, limited, lost_is_busy, run_id,
    },
    train::{RunError, Silent, Stop, Watch},
};

/// Raised whenever a change alters what a trial computes.
const VERSION: u32 = 2;
/// Steps that are timed, after a first one that is not.
const TIMED: usize = 3;

/// Runs trials one after the other; what two of them share is read once.
pub struct TrialRunner<'a> {
    lab: &'a Lab,
    context: RunContext,
    device: Device,
    store: Option<RunStore>,
    stop: Stop,
    /// When this runner was made.
    began: SystemTime,
    /// Files of word vectors, by the name that a trial calls them by.
    files: BTreeMap<String, EmbeddingFile>,
    backbone: Option<(String, Rc<Backbone>)>,
    task: Option<(String, Rc<LoadedTask>)>,
}

struct EmbeddingFile {
    path: PathBuf,
    hash: String,
}

/// A task's data, and the vectors of its words, as soon as a trial asks for them.
struct LoadedTask {
    dataset: Dataset,
    fingerprint: String,
    vectors: RefCell<BTreeMap<String, Rc<WordVectors>>>,
}

impl<'a> TrialRunner<'a> {
    /// A runner of trials that may name these files of word vectors.
    ///
    /// # Errors
    /// If the device cannot be used, or a file cannot be read.
    pub fn new(lab: &'a Lab, context: &RunContext, stop: Stop, embeddings: &[PathBuf]) -> Result<Self> {
        let one = context.devices.names.len() == 1 && context.devices.precision == Precision::F32;
        ensure!(one, "the search takes one device, in f32");
        let device = context.devices.first()?;
        let mut files = BTreeMap::new();
        for named in embeddings {
            let (name, path) = (embedding_name(named), embedding_file(named, &context.fetcher().cache)?);
            let hash = hash(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let before = files.insert(name.clone(), EmbeddingFile { path, hash });
            ensure!(before.is_none(), "two files of word vectors are called {name}");
        }
        let store = context.runs.as_ref().map(RunStore::new);
        Ok(Self {
            lab,
            context: context.clone(),
            device,
            store,
            stop,
            files,
            backbone: None,
            task: None,
            began: SystemTime::now(),
        })
    }

    /// Runs `config`, or finds it finished; then also says whether it was so before this runner began.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, another process has the trial, or it was interrupted.
    pub fn run(
        &mut self,
        config: &TrialConfig,
        files: &FileOptions,
        watch: &mut dyn Watch,
    ) -> Result<(RunRecord, bool), RunError> {
        let devices = self.context.devices.names.clone();
        guard_on(&devices, || self.start(config, files, watch)).map_err(lost_is_busy)
    }

    fn start(
        &mut self,
        config: &TrialConfig,
        files: &FileOptions,
        watch: &mut dyn Watch,
    ) -> Result<(RunRecord, bool), RunError> {
        let task = self.task(&config.task, files, watch)?;
        let said = config;
        let (config, fingerprints) = self.named(said, &task)?;
        let keys = config.keys()?;
        let id = run_id(&keys, &fingerprints)?;
        let open = match self.store.as_ref().map(|store| store.open(&id)).transpose()? {
            Some(StoredRun::Finished(record)) => return Ok((*record, self.is_older(&id))),
            Some(StoredRun::Open(open)) => Some(open),
            None => None,
        };
        let record = self.train(said, &task)?;
        let record = RunRecord { id, config: keys, fingerprints, ..record };
        if let Some(open) = open {
            open.finish(&record, None)?;
            if let Some(runs) = &self.context.runs {
                Trackers::tell(&self.context.track, runs, &record, watch);
            }
        }
        Ok((record, false))
    }

    /// What decides a trial beside its choices: its data, its embeddings, the device.
    ///
    /// # Errors
    /// If data or embeddings cannot be used.
    pub fn fingerprints(
        &mut self,
        config: &TrialConfig,
        files: &FileOptions,
        watch: &mut dyn Watch,
    ) -> Result<BTreeMap<String, String>> {
        let task = self.task(&config.task, files, watch)?;
        Ok(self.named(config, &task)?.1)
    }

    /// A trial under the names that data and embeddings have, and what decides it beside its choices.
    fn named(&mut self, config: &TrialConfig, task: &LoadedTask) -> Result<(TrialConfig, BTreeMap<String, String>)> {
        let mut config = TrialConfig { task: task.dataset.task.clone(), ..config.clone() };
        let name: String = config.get("embeddings")?;
        if self.is_backbone(&name) {
            // The folder's own name, however the user spelled the path.
            config.chosen.insert("embeddings".to_owned(), self.backbone(&name)?.name.clone().into());
        }
        let mut fingerprints = BTreeMap::from([
            ("data".to_owned(), task.fingerprint.clone()),
            ("device".to_owned(), self.context.devices.kinds()),
            ("numerics".to_owned(), format!("{NUMERICS}, {NO_BERT} {VERSION}")),
        ]);
        if let Some(hash) = self.embedding_hash(&name)? {
            fingerprints.insert("embeddings".to_owned(), hash);
        }
        Ok((config, fingerprints))
    }

    /// The record of a trial, if it is finished.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, or the record cannot.
    pub fn finished(
        &mut self,
        config: &TrialConfig,
        files: &FileOptions,
        watch: &mut dyn Watch,
    ) -> Result<Option<RunRecord>> {
        let Some(store) = self.store.clone() else { return Ok(None) };
        let task = self.task(&config.task, files, watch)?;
        let (config, fingerprints) = self.named(config, &task)?;
        store.finished(&run_id(&config.keys()?, &fingerprints)?)
    }

    /// Takes a few steps of a trial and scores a few texts; nothing is kept.
    ///
    /// # Errors
    /// If data or embeddings cannot be used, or the device fails.
    pub fn speed(
        &mut self,
        config: &TrialConfig,
        files: &FileOptions,
        watch: &mut dyn Watch,
    ) -> Result<TrialSpeed, RunError> {
        let devices = self.context.devices.names.clone();
        guard_on(&devices, || {
            let task = self.task(&config.task, files, watch)?;
            let little = TrialConfig { samples: (1 + TIMED) * BATCH, ..config.clone() };
            let started = Instant::now();
            let Ready { features, classes, model, .. } = self.prepare(&little, &task)?;
            let prepared = started.elapsed().as_secs_f64();
            let fitted = fit(model, &little, &features.parts[0], &classes, &self.device, |step| self.may_go_on(step))?;
            let [_, validation, test] = &features.parts;
            let some = &validation[..validation.len().min(SCORED)];
            let started = Instant::now();
            fitted.model.valid().predict(some, &self.device)?;
            let scored = started.elapsed().as_secs_f64() * (validation.len() + test.len()) as f64 / some.len() as f64;
            Ok(TrialSpeed { around: prepared + scored, sample: fitted.step_seconds / BATCH as f64 })
        })
    }

    /// Whether a finished trial is older than this runner: processes that search together find each other's.
    fn is_older(&self, id: &str) -> bool {
        let written = |store: &RunStore| store.folder(id).join(folder::RECORD).metadata()?.modified();
        self.store.as_ref().is_some_and(|store| written(store).is_ok_and(|at| at < self.began))
    }

    /// A task's data, limited by each trial for itself.
    fn task(&mut self, name: &str, files: &FileOptions, watch: &mut dyn Watch) -> Result<Rc<LoadedTask>> {
        if let Some((_, task)) = self.task.as_ref().filter(|(loaded, _)| loaded == name) {
            return Ok(task.clone());
        }
        let data = self.context.load_task(self.lab, name, files, None, watch)?;
        let fingerprint = data.fingerprint();
        let TaskData::Texts(dataset) = data else {
            bail!("`{name}`: the search is for texts with classes, not for questions")
        };
        ensure!(
            dataset.kind == TaskKind::Classification,
            "`{name}` is a {} task: the search is for texts with one class each",
            dataset.kind
        );
        let empty = dataset.train.is_empty() || dataset.validation.is_empty();
        ensure!(!empty, "`{name}` has nothing to train on or to choose by");
        let task = Rc::new(LoadedTask { dataset, fingerprint, vectors: RefCell::default() });
        self.task = Some((name.to_owned(), task.clone()));
        Ok(task)
    }

    /// The vectors of a task's words in the file that a trial calls `name`; `None` if it calls none so.
    fn vectors(&self, task: &LoadedTask, name: &str) -> Result<Option<Rc<WordVectors>>> {
        let Some(EmbeddingFile { path, .. }) = self.files.get(name) else { return Ok(None) };
        if let Some(known) = task.vectors.borrow().get(name) {
            return Ok(Some(known.clone()));
        }
        let Dataset { train, validation, test, .. } = &task.dataset;
        let words = all_words([train, validation, test].into_iter().flatten());
        let vectors = Rc::new(WordVectors::read(path, &words)?);
        ensure!(!vectors.vectors.is_empty(), "{}: it has no word of {}", path.display(), task.dataset.task);
        task.vectors.borrow_mut().insert(name.to_owned(), vectors.clone());
        Ok(Some(vectors))
    }

    fn backbone(&mut self, name: &str) -> Result<Rc<Backbone>> {
        if let Some((_, backbone)) = self.backbone.as_ref().filter(|(loaded, _)| loaded == name) {
            return Ok(backbone.clone());
        }
        let backbone = Rc::new(self.context.backbone(name, &self.device, &mut Silent)?);
        self.backbone = Some((name.to_owned(), backbone.clone()));
        Ok(backbone)
    }

    /// Whether the vectors that a trial calls `name` are a backbone's.
    fn is_backbone(&self, name: &str) -> bool {
        !name.is_empty() && !self.files.contains_key(name) && random_dimensions(name).is_none()
    }

    /// What decides the vectors that a trial calls `name`, beside their name.
    fn embedding_hash(&mut self, name: &str) -> Result<Option<String>> {
        if self.is_backbone(name) {
            let backbone = self.backbone(name)?;
            return Ok(Some(format!("{} {}", backbone.id().hash, backbone.tokenizer.hash()?)));
        }
        Ok(self.files.get(name).map(|file| file.hash.clone()))
    }

    /// Makes a trial's texts and its untrained model.
    fn prepare<'t>(&mut self, config: &TrialConfig, task: &'t LoadedTask) -> Result<Ready<'t>> {
        let (dataset, embeddings): (_, String) = (&task.dataset, config.get("embeddings")?);
        let train = limited(&dataset.train, config.limit, config.limit_seed);
        let validation = limited(&dataset.validation, config.limit_validation, config.limit_seed);
        let has_test = dataset.test.iter().any(|example| example.target.is_some());
        let test: &[Example] = if has_test { &dataset.test } else { &[] };
        let backbone = if self.is_backbone(&embeddings) { Some(self.backbone(&embeddings)?) } else { None };
        let random = || random_dimensions(&embeddings).map(Embedding::Random);
        let vectors = self.vectors(task, &embeddings)?;
        let embedding = vectors.as_deref().map(Embedding::Words).or_else(random);
        let embedding = embedding.or_else(|| backbone.as_deref().map(Embedding::Pieces));
        let features = Features::new(config, embedding, [&train, &validation, test])?;
        let classes: Vec<usize> = train.iter().map(class).collect::<Result<_>>()?;
        let model = Classifier::new(config, &features, dataset.labels.len(), &self.device.clone().autodiff())?;
        Ok(Ready { validation, test, features, classes, model })
    }

    /// Trains and scores a trial; what it is called by is left to the caller.
    fn train(&mut self, config: &TrialConfig, task: &LoadedTask) -> Result<RunRecord, RunError> {
        let (started, mut cpu) = (Instant::now(), CpuClock::start());
        let Ready { validation, test, features, classes, model } = self.prepare(config, task)?;
        let (dataset, outputs) = (&task.dataset, task.dataset.labels.len());
        let metric = self.metric(dataset)?;
        let params = model.params(&features);
        let fitted = fit(model, config, &features.parts[0], &classes, &self.device, |step| self.may_go_on(step))?;
        let training_seconds = started.elapsed().as_secs_f64();

        let judge = |predictions: &[Prediction], examples: &[Example]| {
            self.lab.metrics.evaluate(dataset.kind, outputs, predictions, examples)
        };
        let majority = judge(
            &vec![Prediction::Class(most_frequent(&classes, outputs), Vec::new()); validation.len()],
            &validation,
        );
        let model = fitted.model.valid();
        let score = |part: usize, examples: &[Example]| -> Result<Option<Scores>> {
            let predictions = model.predict(&features.parts[part], &self.device)?;
            Ok(predictions.map(|predictions| judge(&predictions, examples)))
        };
        let (steps, epoch) = (fitted.steps, (fitted.steps * BATCH).div_ceil(classes.len()));
        let (mut evaluations, mut last, mut tested) = (Vec::new(), None, Scores::new());
        let scores = if fitted.diverged { None } else { score(1, &validation)? };
        let status = if scores.is_some() { Status::Finished } else { Status::Diverged };
        if let Some(scores) = scores {
            evaluations.push(Evaluation { epoch, steps, loss: fitted.mean_loss, validation: scores.clone() });
            last = Some(Scored { epoch, steps, metric, validation: scores });
            if !test.is_empty() {
                tested = score(2, test)?.unwrap_or_default();
            }
        }
        let mut measured = Measured {
            training_seconds,
            evaluation_seconds: started.elapsed().as_secs_f64() - training_seconds,
            tokens_per_second: fitted.words as f64 / training_seconds.max(1e-9),
            peak_memory_bytes: memory::peak(),
            vector_bits: vector_bits(),
            threads: self.context.devices.on_cpu().then(rayon::current_num_threads),
            ..Measured::default()
        };
        cpu.add_to(&mut measured.cpu_seconds);
        Ok(RunRecord {
            schema: SCHEMA,
            id: String::new(),
            status,
            config: Default::default(),
            method: MethodRecord {
                name: NO_BERT.to_owned(),
                label: "no BERT".to_owned(),
                family: "no BERT".to_owned(),
                ..MethodRecord::default()
            },
            fingerprints: BTreeMap::new(),
            moves: Vec::new(),
            skipped_steps: 0,
            software: BTreeMap::from([
                ("adapter-lab".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("burn".to_owned(), BURN_VERSION.to_owned()),
            ]),
            params,
            evaluations,
            best: last.clone(),
            last,
            kept: Kept::Last,
            majority,
            extra: BTreeMap::new(),
            test: tested,
            examples: Examples { train: classes.len(), validation: validation.len(), test: test.len() },
            loss_curve: fitted.loss_curve,
            network: Default::default(),
            measured,
        })
    }

    /// Whether nobody asked it to stop.
    fn may_go_on(&self, step: usize) -> Result<(), RunError> {
        match self.stop.requested() {
            true => Err(RunError::Interrupted { step, kept: self.store.is_some() }),
            false => Ok(()),
        }
    }

    /// The metric that trials are chosen by: the task's own.
    fn metric(&self, dataset: &Dataset) -> Result<String> {
        let known = self.lab.tasks.find(&dataset.task);
        let name = known.map_or_else(|_| dataset.kind.metric().to_owned(), |task| task.metric.clone());
        self.lab.metrics.find_for(&name, dataset.kind, dataset.labels.len())?;
        Ok(name)
    }
}

/// A trial that can begin.
struct Ready<'t> {
    validation: Vec<Example>,
    test: &'t [Example],
    features: Features,
    /// Of the training texts.
    classes: Vec<usize>,
    model: Classifier,
}

/// The most frequent class; of equally frequent ones the lowest.
fn most_frequent(classes: &[usize], outputs: usize) -> usize {
    let mut counts = vec![0usize; outputs];
    classes.iter().for_each(|&class| counts[class] += 1);
    (0..outputs).rev().max_by_key(|&class| counts[class]).unwrap_or_default()
}

fn class(example: &Example) -> Result<usize> {
    match example.target {
        Some(Target::Class(class)) => Ok(class),
        _ => bail!("example {} has no class", example.id),
    }
}

/// What a file of word vectors is called in a trial.
pub(super) fn embedding_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// How many random numbers a word gets in the embedding called `name`.
fn random_dimensions(name: &str) -> Option<usize> {
    name.strip_prefix("random-")?.parse().ok()
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}
