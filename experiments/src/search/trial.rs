//! One trial: a classifier of the space, trained and scored.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    time::{Instant, SystemTime},
};

use adapter_core::{DropoutKey, Kind, TensorInfo, tensors};
use analysis::{Evaluation, Examples, Kept, Measured, MethodRecord, Params, RunRecord, SCHEMA, Scored, Status, folder};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::Backbone;
use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use tasks::{
    Dataset, Example, Prediction, Scores, Target, TaskData, TaskKind, loss,
    shuffle::{Purpose, permutation},
};

use super::{
    TrialSpeed, WordVectors, embedding_file,
    features::{Batch, Embedding, Features, Text, all_words},
    network::{Deep, Wide},
    space::{NO_BERT, TrialConfig},
};
use crate::{
    device::{CpuClock, Precision, guard_on, memory, vector_bits},
    lab::Lab,
    run::{
        BURN_VERSION, FileOptions, NUMERICS, RunContext, RunStore, StoredRun, Trackers, limited, lost_is_busy, run_id,
    },
    train::{ModuleOptimizer, Optimizer, RunError, Silent, StepGradients, Stop, Update, Watch},
};

/// Examples of a step.
const BATCH: usize = 128;
/// Raised whenever a change alters what a trial computes.
const VERSION: u32 = 2;
/// Points of a loss curve.
const CURVE: usize = 50;
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

/// Adagrad with a penalty on large weights.
#[derive(Clone, Copy, Debug)]
struct Adagrad {
    l2: f64,
}

impl Optimizer for Adagrad {
    fn memory(&self) -> &'static [&'static str] {
        &["squares"]
    }

    fn update(&self, update: Update<'_>) -> Tensor<1> {
        let Update { value, gradient, memory, rate, decays, .. } = update;
        let gradient = if decays && self.l2 > 0.0 { gradient + value.clone() * self.l2 } else { gradient };
        let [squares] = memory else { unreachable!("Adagrad remembers one tensor") };
        *squares = squares.clone() + gradient.clone() * gradient.clone();
        // TensorFlow's first value of the sum.
        value - gradient * rate / (squares.clone() + 0.1).sqrt()
    }
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
            let fitted = self.fit(model, &little, &features.parts[0], &classes)?;
            let [_, validation, test] = &features.parts;
            let some = &validation[..validation.len().min(2 * BATCH)];
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
        let model = Model::new(config, &features, dataset.labels.len(), &self.device.clone().autodiff())?;
        Ok(Ready { validation, test, features, classes, model })
    }

    /// Trains and scores a trial; what it is called by is left to the caller.
    fn train(&mut self, config: &TrialConfig, task: &LoadedTask) -> Result<RunRecord, RunError> {
        let (started, mut cpu) = (Instant::now(), CpuClock::start());
        let Ready { validation, test, features, classes, model } = self.prepare(config, task)?;
        let (dataset, outputs) = (&task.dataset, task.dataset.labels.len());
        let metric = self.metric(dataset)?;
        let params = model.params(&features);
        let fitted = self.fit(model, config, &features.parts[0], &classes)?;
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

    /// The metric that trials are chosen by: the task's own.
    fn metric(&self, dataset: &Dataset) -> Result<String> {
        let known = self.lab.tasks.find(&dataset.task);
        let name = known.map_or_else(|_| dataset.kind.metric().to_owned(), |task| task.metric.clone());
        self.lab.metrics.find_for(&name, dataset.kind, dataset.labels.len())?;
        Ok(name)
    }

    /// The training loop. Order, initial values and dropout are functions of the seed and the step.
    fn fit(
        &self,
        mut model: Model,
        config: &TrialConfig,
        texts: &[Text],
        classes: &[usize],
    ) -> Result<Fitted, RunError> {
        let device = self.device.clone().autodiff();
        let (deep_rule, wide_rule) = (Adagrad { l2: config.get("l2")? }, Adagrad { l2: config.get("wide_l2")? });
        let mut deep_optimizer = ModuleOptimizer::new(&deep_rule, 0.0);
        let mut wide_optimizer = ModuleOptimizer::new(&wide_rule, 0.0);
        let (deep_rate, wide_rate): (f64, f64) = (config.get("lr")?, config.get("wide_lr")?);
        let (steps, mut order) = (config.samples.div_ceil(BATCH), Order::new(texts.len(), config.seed));
        let curve_every = steps.div_ceil(CURVE);
        let (mut loss_sum, mut curve_sum, mut loss_curve, mut words) = (0.0, 0.0, Vec::new(), 0);
        let mut after_first = Instant::now();
        for step in 0..steps {
            if self.stop.requested() {
                return Err(RunError::Interrupted { step, kept: self.store.is_some() });
            }
            let chosen: Vec<usize> = (step * BATCH..(step + 1) * BATCH).map(|place| order.example(place)).collect();
            let batch: Vec<&Text> = chosen.iter().map(|&example| &texts[example]).collect();
            words += batch.iter().map(|text| text.words.len()).sum::<usize>();
            let right: Vec<usize> = chosen.iter().map(|&example| classes[example]).collect();
            let batch = Batch::new(&batch, &device);
            let key = DropoutKey { seed: config.seed, step: step as u64 };
            let loss = loss::cross_entropy(model.forward(&batch, Some(key))?, &right);
            let value = f64::from(loss.clone().into_scalar::<f32>());
            if !value.is_finite() {
                let (mean_loss, step_seconds) = (value, after_first.elapsed().as_secs_f64() / step.max(1) as f64);
                return Ok(Fitted { model, steps: step, diverged: true, mean_loss, loss_curve, words, step_seconds });
            }
            (loss_sum, curve_sum) = (loss_sum + value, curve_sum + value);
            if (step + 1).is_multiple_of(curve_every) {
                loss_curve.push((step + 1, curve_sum / curve_every as f64));
                curve_sum = 0.0;
            }
            // Of the sum over the batch: with the mean, Adagrad's sums would stay below their first value.
            let gradients = (loss * BATCH as f64).backward();
            model.deep = model.deep.map(|deep| {
                let gradients = StepGradients::of(&deep, &gradients);
                deep_optimizer.update(deep, &gradients, deep_rate)
            });
            model.wide = model.wide.map(|wide| {
                let gradients = StepGradients::of(&wide, &gradients);
                wide_optimizer.update(wide, &gradients, wide_rate)
            });
            if step == 0 {
                after_first = Instant::now();
            }
        }
        let step_seconds = after_first.elapsed().as_secs_f64() / (steps.max(2) - 1) as f64;
        let mean_loss = loss_sum / steps as f64;
        Ok(Fitted { model, steps, diverged: false, mean_loss, loss_curve, words, step_seconds })
    }
}

/// A trial that can begin.
struct Ready<'t> {
    validation: Vec<Example>,
    test: &'t [Example],
    features: Features,
    /// Of the training texts.
    classes: Vec<usize>,
    model: Model,
}

/// A trial after its training.
struct Fitted {
    model: Model,
    steps: usize,
    diverged: bool,
    mean_loss: f64,
    loss_curve: Vec<(usize, f64)>,
    words: usize,
    /// Seconds of a step, but for the first: it also pays for what is made once.
    step_seconds: f64,
}

/// The order of training examples, epoch after epoch.
struct Order {
    seed: u64,
    epoch: u64,
    order: Vec<usize>,
}

impl Order {
    fn new(examples: usize, seed: u64) -> Self {
        Self { seed, epoch: 0, order: permutation(examples, seed, Purpose::Epoch(0)) }
    }

    /// The example at a place of all epochs together.
    fn example(&mut self, place: usize) -> usize {
        let (examples, epoch) = (self.order.len(), (place / self.order.len()) as u64);
        if epoch != self.epoch {
            *self = Self { epoch, order: permutation(examples, self.seed, Purpose::Epoch(epoch)), ..*self };
        }
        self.order[place % examples]
    }
}

/// What a trial trains.
struct Model {
    deep: Option<Deep>,
    wide: Option<Wide>,
}

impl Model {
    fn new(config: &TrialConfig, features: &Features, classes: usize, device: &Device) -> Result<Self> {
        let towers: String = config.get("towers")?;
        let deep = features.table.as_ref().map(|table| Deep::new(config, table, classes, device));
        Ok(Self {
            deep: deep.transpose()?,
            wide: (towers != "deep").then(|| Wide::new(features.grams, classes, device)),
        })
    }

    fn forward(&self, batch: &Batch, dropout: Option<DropoutKey>) -> Result<Tensor<2>> {
        let deep = self.deep.as_ref().map(|deep| deep.forward(batch, dropout)).transpose()?;
        match (deep, self.wide.as_ref().map(|wide| wide.forward(batch))) {
            (Some(deep), Some(wide)) => Ok(deep + wide),
            (Some(one), None) | (None, Some(one)) => Ok(one),
            (None, None) => bail!("a trial without a network"),
        }
    }

    fn params(&self, features: &Features) -> Params {
        // Running statistics are no parameters.
        let trained = |info: &&TensorInfo| Kind::of(info) != Kind::Statistic;
        let elements = |all: Vec<TensorInfo>| all.iter().filter(trained).map(TensorInfo::elements).sum::<usize>();
        let deep = self.deep.as_ref().map_or(0, |deep| elements(tensors(deep)));
        let trained = deep + self.wide.as_ref().map_or(0, |wide| elements(tensors(wide)));
        let table = features.table.as_ref().map_or(0, |(values, _)| values.len());
        let frozen = if self.deep.as_ref().is_some_and(Deep::is_frozen) { table } else { 0 };
        Params {
            trained,
            total: trained + frozen,
            backbone: frozen,
            shared_backbone: true,
            groups: BTreeMap::from([(NO_BERT.to_owned(), trained)]),
        }
    }

    fn valid(self) -> Self {
        Self { deep: self.deep.map(|deep| deep.valid()), wide: self.wide.map(|wide| wide.valid()) }
    }

    /// What it says of texts; `None` if an output is no number.
    fn predict(&self, texts: &[Text], device: &Device) -> Result<Option<Vec<Prediction>>> {
        let mut predictions = Vec::new();
        for part in texts.chunks(2 * BATCH) {
            let batch = Batch::new(&part.iter().collect::<Vec<_>>(), device);
            let outputs = self.forward(&batch, None)?;
            let [_, classes] = outputs.dims();
            let values: Vec<f32> = outputs.into_data().iter::<f32>().collect();
            if !values.iter().all(|value| value.is_finite()) {
                return Ok(None);
            }
            predictions
                .extend(values.chunks(classes).map(|row| Prediction::from_outputs(TaskKind::Classification, row)));
        }
        Ok(Some(predictions))
    }
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
