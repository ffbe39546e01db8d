//! A small task on a small network.

#![allow(dead_code)] // each test takes what it needs

pub mod place;
#[cfg(unix)]
pub mod process;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use adapter_core::{Init, MethodInfo, TaskInfo};
use bert_backbone::{Backbone, BertConfig, RandomCheckpoint};
use burn::{module::Module, tensor::Device};
use experiments::{
    Adam, AnyMethod, AnyModel, CheckpointPolicy, Lab, Precision, Schedule, Step, TrainConfig, Trained, Training,
    TrainingData,
};
use serde_json::json;
use tasks::{Dataset, EvaluationSet, Example, Head, HeadInput, Target, TokenCache, TrainingSet};

/// Built-in methods, for tables of cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuning {
    Adapters,
    Full,
    Head,
}

impl Tuning {
    /// The method, with small adapters of this initial scale.
    pub fn method(self, init_std: f64) -> Box<dyn AnyMethod> {
        let (name, config) = match self {
            Tuning::Adapters => ("adapters", json!({"adapter_size": 8, "init_std": init_std})),
            Tuning::Full => ("full", json!({})),
            Tuning::Head => ("head", json!({})),
        };
        let info = MethodInfo { name: name.to_owned(), config: config.as_object().unwrap().clone() };
        Lab::paper().configure(&info).unwrap()
    }
}

/// The two profiles, as far as training goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    Paper,
    AdapterBert,
}

/// What a test may change.
pub struct Setup {
    pub config: TrainConfig,
    pub optimizer: Adam,
    pub precision: Precision,
    head_dropout: f64,
    init_std: f64,
}

impl Profile {
    pub fn setup(self, seed: u64) -> Setup {
        let config = TrainConfig { batch_size: 8, learning_rate: 1e-2, epochs: 6, seed, ..TrainConfig::default() };
        let paper =
            Setup { config, optimizer: Adam::default(), precision: Precision::F32, head_dropout: 0.0, init_std: 1e-2 };
        match self {
            Profile::Paper => paper,
            Profile::AdapterBert => Setup {
                config: TrainConfig { clip: 1.0, schedule: Schedule::AdapterBert, ..paper.config },
                optimizer: Adam { epsilon: 1e-6, bias_correction: false, weight_decay: 0.01, ..Adam::default() },
                head_dropout: 0.1,
                init_std: 1e-3,
                ..paper
            },
        }
    }
}

pub fn backbone() -> Backbone {
    written(RandomCheckpoint::tiny())
}

/// The same without dropout.
pub fn dry_backbone() -> Backbone {
    let tiny = RandomCheckpoint::tiny();
    let config = BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0, ..tiny.config };
    written(RandomCheckpoint { config, ..tiny })
}

fn written(checkpoint: RandomCheckpoint) -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    checkpoint.write(folder.path(), &Device::flex()).unwrap();
    Backbone::load(folder.path(), &Device::flex()).unwrap()
}

/// Is there a dog in the sentence?
pub fn dataset() -> Dataset {
    let example = |i: usize| {
        let (a, b) = (["the", "a", "she", "it"][i % 4], ["sat", "was", "is", "play"][i / 4 % 4]);
        let animal = ["cat", "dog"][i % 2];
        Example::new(format!("{a} {animal} {b} on the mat"), Target::Class(i % 2))
    };
    let (train, validation) = ((0..64).map(example), (64..96).map(example));
    Dataset::classification("dogs", ["cat", "dog"], train, validation)
}

/// What a file of this task says of itself.
pub fn info(backbone: &Backbone, method: &dyn AnyMethod) -> TaskInfo {
    let dataset = dataset();
    TaskInfo {
        task: dataset.task,
        kind: dataset.kind.to_string(),
        labels: dataset.labels,
        pairs: Some(false),
        head: HeadInput::Cls.to_string(),
        max_length: 32,
        method: method.info(),
        backbone: backbone.id(),
        origin: Default::default(),
    }
}

pub fn run(backbone: &Backbone, tuning: Tuning, profile: Profile, seed: u64) -> Trained {
    run_with(backbone, tuning, profile, seed, |_| {})
}

pub fn run_with(
    backbone: &Backbone,
    tuning: Tuning,
    profile: Profile,
    seed: u64,
    change: impl FnOnce(&mut Setup),
) -> Trained {
    run_on(1, backbone, tuning, profile, seed, change)
}

/// The CPU as so many devices.
pub fn run_on(
    devices: usize,
    backbone: &Backbone,
    tuning: Tuning,
    profile: Profile,
    seed: u64,
    change: impl FnOnce(&mut Setup),
) -> Trained {
    let mut setup = profile.setup(seed);
    change(&mut setup);
    let mut steps = Vec::new();
    let trained = train_on(devices, backbone, tuning, &setup, |step| steps.push(step.step)).unwrap();
    assert!(steps.into_iter().eq(1..=trained.evaluations.last().unwrap().steps));
    trained
}

/// A model for this task, on a device with gradients.
pub fn model(backbone: &Backbone, method: &dyn AnyMethod, seed: u64, dropout: f64) -> Box<dyn AnyModel> {
    let (device, init) = (Device::flex().autodiff(), Init::new(seed));
    let head = Head::new(&backbone.config.shape(), 2, HeadInput::Cls, init, &device).with_dropout(dropout);
    method.build(backbone.bert.clone().train(), head, init, &device).unwrap()
}

pub fn train_on(
    devices: usize,
    backbone: &Backbone,
    tuning: Tuning,
    setup: &Setup,
    mut watch: impl FnMut(&Step),
) -> Result<Trained, experiments::RunError> {
    let method = tuning.method(setup.init_std);
    let model = model(backbone, &*method, setup.config.seed, setup.head_dropout);
    let (dataset, cache) = (dataset(), TokenCache::none());
    let training = Training {
        info: &info(backbone, &*method),
        data: TrainingData {
            train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 32, &cache).unwrap(),
            validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap(),
            metric: "accuracy",
            network: &backbone.config,
        },
        config: &setup.config,
        optimizer: &setup.optimizer,
        devices: &vec![Device::flex().autodiff(); devices],
        precision: setup.precision,
        probe_every: None,
    };
    model.train(&training, CheckpointPolicy::default(), &mut |step: &Step| watch(step))
}

/// The examples to train on as a file, six times over.
pub fn write_dataset(path: &Path) {
    let rows: String = dataset().train.iter().enumerate().map(|(i, e)| format!("{},{}\n", e.text, i % 2)).collect();
    fs::write(path, format!("text,label\n{}", rows.repeat(6))).unwrap();
}

/// A command that trains on a small file in `folder`, and keeps the run in `runs` there.
pub fn small_run(folder: &Path, runs: &str, options: &[&str]) -> Command {
    let data = folder.join("dogs.csv");
    if !data.exists() {
        RandomCheckpoint::tiny().write(folder, &Device::flex()).unwrap();
        write_dataset(&data);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.args(["train", "--task"]).arg(format!("file:{}", data.display())).arg("--backbone").arg(folder);
    command.args(["--epochs", "3", "--batch-size", "8", "--lr", "1e-2", "--checkpoint-every", "0", "--json"]);
    command.args(options).arg("--runs").arg(folder.join(runs)).env("ADAPTER_LAB_CACHE", folder.join("cache"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub fn checkpoint_of(runs: &Path) -> Option<std::path::PathBuf> {
    let run = runs.read_dir().ok()?.next()?.ok()?.path();
    Some(run.join("checkpoint.safetensors")).filter(|path| path.exists())
}
