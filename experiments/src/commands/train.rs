//! `train`: one run.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_core::{Activation, AdapterConfig, Init, ParamCount, TaskInfo, Tuning};
use analysis::{Params, RunRecord, SCHEMA, Status};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::{Backbone, BertConfig};
use burn::{module::Module, tensor::Device};
use clap::Args;
use serde_json::Value;
use tasks::{
    EvaluationSet, Head, HeadInput, Metric, Task, TaskData, TaskKind, TaskModel, TokenCache, TrainingSet, WindowConfig,
    shuffle::{Purpose, permutation},
};

use super::print;
use crate::{
    backbones::BackboneArgs,
    checkpoint::Checkpoint,
    device::DeviceName,
    profile::{Profile, Settings},
    progress::Progress,
    run_config::{BURN_VERSION, NUMERICS, RunConfig},
    run_store::{Found, OpenRun, RunStore},
    task_args::{TaskArgs, token_cache},
    trainer::{Course, Keep, Lessons, Safety, train},
    tuning_args::TuningArgs,
};

/// Train one task and print its record
#[derive(Args, Debug)]
pub struct TrainArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    backbone: BackboneArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    /// Standard deviation of the adapters' initial weights [default: the profile's]
    #[arg(long, value_name = "SIGMA")]
    init_std: Option<f64>,
    /// Highest learning rate
    #[arg(long, default_value_t = 3e-4)]
    lr: f64,
    /// Passes over the training set
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Examples of a step
    #[arg(long, default_value_t = 32, value_name = "N")]
    batch_size: usize,
    /// Longest sequence in tokens; questions are always read in windows of up to 384
    #[arg(long, default_value_t = 128, value_name = "TOKENS")]
    max_length: usize,
    /// Decides initial values, order and dropout
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Settings of the optimiser, the schedule and the head: paper or adapter-bert
    #[arg(long, default_value_t = Profile::Paper)]
    profile: Profile,
    /// Largest norm of all gradients together; 0 clips nothing [default: the profile's]
    #[arg(long, value_name = "NORM")]
    clip: Option<f64>,
    /// Keep so many training examples, after a seeded shuffle
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// End after so many epochs without a better validation score [default: run them all]
    #[arg(long, value_name = "EPOCHS", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    patience: Option<usize>,
    /// Where to compute (see `list devices`)
    #[arg(long, env = "ADAPTER_LAB_DEVICE", default_value_t = DeviceName::Flex)]
    device: DeviceName,
    /// Keep the run in this folder: a finished one is not run again, an interrupted one goes on
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Seconds between two checkpoints of a run that is kept
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    /// Keep v of the best epoch in this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
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
    if args.explain {
        return explain(&args.settings()?, args.json);
    }
    let (network, has_pooler) = args.backbone.shape()?;
    let config = args.config(&network)?;
    args.task.check()?;
    ensure!(has_pooler || !config.settings.pooler_head, "this backbone has no pooler; use --profile paper");
    if args.dry_run {
        return print(&config, args.json, || serde_json::to_string_pretty(&config).unwrap_or_default());
    }
    let data = args.task.load(None)?;
    let device = args.device.open();
    let backbone = args.backbone.load(&device)?;
    let config = config.for_data(&data, &backbone);
    let record = run_one(args, config, &data, &backbone, &device)?;
    print(&record, args.json, || text(&record))
}

impl TrainArgs {
    /// The profile's settings, changed where the user said so.
    fn settings(&self) -> Result<Settings> {
        let mut settings = self.profile.settings();
        settings.init_std = self.init_std.unwrap_or(settings.init_std);
        settings.adam.clip = self.clip.unwrap_or(settings.adam.clip);
        let Settings { init_std, adam, .. } = settings;
        ensure!(init_std.is_finite() && init_std > 0.0, "--init-std {init_std}: a positive number is needed");
        ensure!(adam.clip.is_finite() && adam.clip >= 0.0, "--clip {}: a number from 0 up is needed", adam.clip);
        Ok(settings)
    }

    fn config(&self, network: &BertConfig) -> Result<RunConfig> {
        let mut settings = self.settings()?;
        ensure!(self.lr > 0.0 && self.lr.is_finite(), "--lr {}: a positive number is needed", self.lr);
        ensure!(self.epochs > 0 && self.batch_size > 0, "--epochs and --batch-size must be at least 1");
        ensure!(self.limit != Some(0), "--limit 0 leaves nothing to train on");
        let longest = network.max_position_embeddings;
        ensure!(self.max_length <= longest, "--max-length {}: the backbone takes {longest} at most", self.max_length);
        let tuning = self.tuning.tuning(network.num_hidden_layers)?;
        let adapter = (tuning == Tuning::Adapters).then(|| AdapterConfig {
            init_std: settings.init_std,
            activation: if settings.tanh_gelu { Activation::TanhGelu } else { Activation::Gelu },
            ..AdapterConfig::new(self.tuning.adapter_size)
        });
        if let Some(adapter) = &adapter {
            adapter.check(network.num_hidden_layers)?;
        }
        if adapter.is_none() {
            // What decides nothing must not make another run of the same.
            let paper = Profile::Paper.settings();
            (settings.init_std, settings.tanh_gelu) = (paper.init_std, paper.tanh_gelu);
        }
        let task = self.task.name()?;
        Ok(RunConfig {
            task: if task.starts_with("file:") { task.to_owned() } else { Task::find(task)?.name.to_owned() },
            backbone: self.backbone.name()?.to_owned(),
            tuning,
            adapter,
            settings,
            learning_rate: self.lr,
            epochs: self.epochs,
            batch_size: self.batch_size,
            max_length: self.max_length,
            seed: self.seed,
            limit: self.limit,
            patience: self.patience,
        })
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
}

fn run_one(
    args: &TrainArgs,
    config: RunConfig,
    data: &TaskData,
    backbone: &Backbone,
    device: &Device,
) -> Result<RunRecord> {
    let BertConfig { hidden_dropout_prob, attention_probs_dropout_prob, .. } = backbone.config;
    let fingerprints = BTreeMap::from([
        // They decide training, but not what the network computes: no part of the backbone's own hash.
        ("dropout".to_owned(), format!("{hidden_dropout_prob} {attention_probs_dropout_prob}")),
        ("backbone".to_owned(), backbone.id().hash),
        ("data".to_owned(), data.fingerprint()),
        ("tokenizer".to_owned(), backbone.tokenizer.hash()?),
        ("device".to_owned(), args.device.to_string()),
        ("numerics".to_owned(), NUMERICS.to_string()),
    ]);
    let Value::Object(written) = serde_json::to_value(&config)? else { bail!("a configuration is an object") };
    let identity = serde_json::to_vec(&(&written, &fingerprints))?;
    let id = blake3::hash(&identity).to_hex()[..16].to_owned();
    let store = args.runs.as_ref().map(RunStore::new);
    let open = match store.as_ref().map(|store| store.open(&id)).transpose()? {
        Some(Found::Finished(record)) => {
            eprintln!("note: run {id} is finished; its record is printed");
            if let Some(path) = &args.save {
                store.context("a finished run has a store")?.trained(&id)?.write(path)?;
            }
            return Ok(*record);
        }
        Some(Found::Open(open)) => Some(open),
        None => None,
    };

    let cache = token_cache(&args.backbone.cache.fetcher());
    let prepared = prepare(data, &config, backbone, &cache)?;
    let metric = args.task.metric().unwrap_or(prepared.metric);

    // w is shared; v is new, and only v is trained.
    let (init, hidden, training) = (Init::new(config.seed), backbone.config.hidden_size, device.clone().autodiff());
    let adapter = config.adapter.as_ref();
    let bert = backbone.bert.clone().train();
    let bert = bert.insert(|place| adapter.and_then(|adapter| adapter.init(place, hidden, init, &training)));
    let input = match (prepared.kind, config.settings.pooler_head) {
        (TaskKind::Span, _) => HeadInput::Tokens,
        (_, true) => HeadInput::Pooler,
        (_, false) => HeadInput::Cls,
    };
    let head = Head::new(hidden, prepared.outputs, input, init, &training).with_dropout(config.settings.head_dropout);
    let model = config.tuning.apply(TaskModel::new(bert, head)?);
    let count = ParamCount::of(&model, config.tuning);
    let info = TaskInfo {
        task: prepared.task,
        kind: prepared.kind.to_string(),
        labels: prepared.labels,
        head: input.to_string(),
        max_length: config.max_length,
        tuning: config.tuning,
        adapter: config.adapter.clone(),
        backbone: backbone.id(),
    };

    let lessons =
        Lessons { train: &prepared.train, validation: &prepared.validation, metric, network: &backbone.config };
    let course = Course {
        settings: config.settings,
        learning_rate: config.learning_rate,
        epochs: config.epochs,
        batch_size: config.batch_size,
        seed: config.seed,
        patience: config.patience,
    };
    let resume = open.as_ref().map(OpenRun::checkpoint).transpose()?.flatten();
    if let Some(checkpoint) = &resume {
        eprintln!("note: run {id} goes on after step {}", checkpoint.numbers.step);
    }
    let mut write = |checkpoint: &Checkpoint| match &open {
        Some(open) => checkpoint.write(&open.checkpoint_path()),
        None => Ok(()),
    };
    let keep = match &open {
        Some(_) => {
            let every = Duration::try_from_secs_f64(args.checkpoint_every).context("--checkpoint-every")?;
            Some(Keep { every, write: &mut write })
        }
        None => None,
    };
    let safety = Safety { resume, keep, stop: Some(stop_on_ctrl_c()) };
    let mut progress = Progress::new(args.json);
    let trained = train(model, &info, &lessons, &course, &training, safety, |step| progress.show(step))?;
    progress.clear();

    let mut test = BTreeMap::new();
    if let Some(set) = &prepared.test {
        let best = TaskModel::load(backbone, trained.file.clone(), device)?;
        let scores = set.evaluate(&best, &backbone.config, 2 * config.batch_size, device)?;
        test.extend(scores.into_iter().map(|(metric, score)| (metric.to_string(), score)));
    }
    if let Some(path) = &args.save {
        trained.file.write(path)?;
    }
    let record = RunRecord {
        schema: SCHEMA,
        id,
        status: Status::Finished,
        config: written,
        software: BTreeMap::from([
            ("adapter-lab".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("burn".to_owned(), BURN_VERSION.to_owned()),
        ]),
        fingerprints,
        params: Params { trained: count.trained, total: count.total, backbone: count.backbone, groups: count.groups },
        epochs: trained.epochs,
        best: Some(trained.best),
        test,
        measured: trained.measured,
    };
    if let Some(open) = open {
        open.finish(&record, &trained.file)?;
    }
    Ok(record)
}

/// Set by Ctrl-C from now on.
fn stop_on_ctrl_c() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
            eprintln!("warning: Ctrl-C will end the run without a last checkpoint: {error}");
        }
    });
    &STOP
}

/// A task as a run takes it.
struct Prepared {
    task: String,
    kind: TaskKind,
    labels: Vec<String>,
    outputs: usize,
    /// What to choose by where the task is not a known one.
    metric: Metric,
    train: TrainingSet,
    validation: EvaluationSet,
    test: Option<EvaluationSet>,
}

fn prepare(data: &TaskData, config: &RunConfig, backbone: &Backbone, cache: &TokenCache) -> Result<Prepared> {
    let tokenizer = &backbone.tokenizer;
    let keep = |count: usize| {
        let mut order = permutation(count, config.seed, Purpose::Limit);
        order.truncate(config.limit.unwrap_or(count));
        order
    };
    match data {
        TaskData::Texts(dataset) => {
            let all = &dataset.train;
            let kept: Vec<_> = match config.limit {
                Some(_) => keep(all.len()).into_iter().map(|example| all[example].clone()).collect(),
                None => all.clone(),
            };
            let evaluation = |examples| EvaluationSet::texts(dataset, examples, tokenizer, config.max_length, cache);
            let has_targets = dataset.test.iter().any(|example| example.target.is_some());
            Ok(Prepared {
                task: dataset.task.clone(),
                kind: dataset.kind,
                labels: dataset.labels.clone(),
                outputs: dataset.outputs(),
                metric: match dataset.kind {
                    TaskKind::Regression => Metric::Spearman,
                    TaskKind::MultiLabel => Metric::MacroF1,
                    TaskKind::Classification | TaskKind::Span => Metric::Accuracy,
                },
                train: TrainingSet::texts(dataset, &kept, tokenizer, config.max_length, cache)?,
                validation: evaluation(&dataset.validation)?,
                test: if has_targets { Some(evaluation(&dataset.test)?) } else { None },
            })
        }
        TaskData::Questions(questions) => {
            let all = &questions.train;
            let kept: Vec<_> = keep(all.len()).into_iter().map(|question| all[question].clone()).collect();
            let train = if config.limit.is_some() { &kept } else { all };
            let window = WindowConfig::within(backbone.config.max_position_embeddings);
            Ok(Prepared {
                task: config.task.clone(),
                kind: TaskKind::Span,
                labels: Vec::new(),
                outputs: 2,
                metric: Metric::AnswerF1,
                train: TrainingSet::questions(train, tokenizer, window, cache)?,
                validation: EvaluationSet::questions(
                    &questions.validation,
                    questions.version,
                    tokenizer,
                    window,
                    cache,
                )?,
                test: None,
            })
        }
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
    let mut rows = vec![["epoch", "loss"].map(str::to_owned).to_vec()];
    let metrics: Vec<&String> =
        record.epochs.first().map(|epoch| epoch.validation.keys().collect()).unwrap_or_default();
    rows[0].extend(metrics.iter().map(|metric| metric.to_string()));
    for epoch in &record.epochs {
        let mut row = vec![epoch.epoch.to_string(), format!("{:.4}", epoch.loss)];
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
    let (trained, measured) = (super::grouped(record.params.trained), &record.measured);
    text + &format!(
        "run {}: {trained} parameters trained in {:.1} s, {:.0} tokens/s\n",
        record.id, measured.training_seconds, measured.tokens_per_second
    )
}
