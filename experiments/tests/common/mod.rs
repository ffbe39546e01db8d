//! A small task on a small network.

#![allow(dead_code)] // each test takes what it needs

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use adapter_core::{Adapter, AdapterConfig, Init, TaskInfo, Tuning};
use bert_backbone::{Backbone, BertConfig, RandomCheckpoint};
use burn::{module::Module, tensor::Device};
use experiments::{Course, Lessons, Profile, Safety, Step, Trained, train_on};
use tasks::{
    Dataset, EvaluationSet, Example, Head, HeadInput, Metric, Target, TaskKind, TaskModel, TokenCache, TrainingSet,
};

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
        let text = format!("{a} {animal} {b} on the mat");
        Example { id: i.to_string(), text, pair: None, target: Some(Target::Class(i % 2)) }
    };
    Dataset {
        task: "dogs".to_owned(),
        kind: TaskKind::Classification,
        labels: ["cat", "dog"].map(str::to_owned).to_vec(),
        train: (0..64).map(example).collect(),
        validation: (64..96).map(example).collect(),
        test: Vec::new(),
        notes: Vec::new(),
    }
}

pub fn run(backbone: &Backbone, tuning: Tuning, profile: Profile, seed: u64) -> Trained {
    run_course(backbone, tuning, profile, seed, |course| course)
}

pub fn run_course(
    backbone: &Backbone,
    tuning: Tuning,
    profile: Profile,
    seed: u64,
    change: impl FnOnce(Course) -> Course,
) -> Trained {
    run_on(1, backbone, tuning, profile, seed, change)
}

/// What a file of this task says of itself.
pub fn info(backbone: &Backbone, tuning: Tuning, adapter: &AdapterConfig) -> TaskInfo {
    let dataset = dataset();
    TaskInfo {
        task: dataset.task,
        kind: dataset.kind.to_string(),
        labels: dataset.labels,
        head: HeadInput::Cls.to_string(),
        max_length: 32,
        tuning,
        adapter: (tuning == Tuning::Adapters).then(|| adapter.clone()),
        backbone: backbone.id(),
    }
}

/// The CPU as so many devices.
pub fn run_on(
    devices: usize,
    backbone: &Backbone,
    tuning: Tuning,
    profile: Profile,
    seed: u64,
    change: impl FnOnce(Course) -> Course,
) -> Trained {
    let device = Device::flex().autodiff();
    let devices = vec![device.clone(); devices];
    let init = Init::new(seed);
    let adapter = AdapterConfig { init_std: profile.settings().init_std, ..AdapterConfig::new(8) };
    let bert = backbone.bert.clone().train().insert(|place| match tuning {
        Tuning::Adapters => adapter.init(place, 32, init, &device),
        _ => None::<Adapter>,
    });
    let head = Head::new(32, 2, HeadInput::Cls, init, &device).with_dropout(profile.settings().head_dropout);
    let model = tuning.apply(TaskModel::new(bert, head).unwrap());
    let (dataset, cache) = (dataset(), TokenCache::none());
    let lessons = Lessons {
        train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 32, &cache).unwrap(),
        validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap(),
        metric: Metric::Accuracy,
        network: &backbone.config,
    };
    let course = change(Course { batch_size: 8, ..Course::new(profile.settings(), 1e-2, 6, seed) });
    let info = info(backbone, tuning, &adapter);
    let mut steps = Vec::new();
    let watch = &mut |step: &Step| steps.push(step.step);
    let trained = train_on(model, &info, &lessons, &course, &devices, Safety::default(), watch).unwrap();
    assert!(steps.into_iter().eq(1..=trained.epochs.last().unwrap().steps));
    trained
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
