//! An adapter and a dataset of one's own, trained without the command line:
//! `cargo run --release -p experiments --example own_adapter`

use adapter_core::{At, Init, Insertion, TaskInfo, Tuning};
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use experiments::{Course, Lessons, Profile, Safety, Step, train};
use tasks::{
    Dataset, EvaluationSet, Example, Head, HeadInput, Metric, Target, TaskKind, TaskModel, TokenCache, TrainingSet,
};

/// Learns a scale and a shift for each feature of a sub-layer's output.
#[derive(Module, Debug)]
struct Rescale {
    scale: Param<Tensor<1>>,
    shift: Param<Tensor<1>>,
}

impl Insertion for Rescale {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output * self.scale.val().unsqueeze() + self.shift.val().unsqueeze()
    }
}

/// Is the sentence about a dog?
fn dogs() -> Dataset {
    let example = |i: usize| {
        let (animal, verb) = (["cat", "dog"][i % 2], ["sat", "was", "is", "play"][i / 2 % 4]);
        let text = format!("the {animal} {verb} on the mat {}", i % 10);
        Example { id: i.to_string(), text, pair: None, target: Some(Target::Class(i % 2)) }
    };
    Dataset {
        task: "dogs".to_owned(),
        kind: TaskKind::Classification,
        labels: vec!["no".to_owned(), "yes".to_owned()],
        train: (0..128).map(example).collect(),
        validation: (128..160).map(example).collect(),
        test: Vec::new(),
        notes: Vec::new(),
    }
}

/// Trains it, and fails if it does not learn.
pub fn main() -> anyhow::Result<()> {
    // A tiny backbone with random weights; `Backbone::load` takes any folder in Hugging Face layout.
    let (folder, device) = (tempfile::tempdir()?, Device::flex());
    RandomCheckpoint::tiny().write(folder.path(), &device)?;
    let backbone = Backbone::load(folder.path(), &device)?;
    let (hidden, init, training) = (backbone.config.hidden_size, Init::new(0), device.autodiff());

    let constant = |value| init.constant(value, [hidden], &training);
    let bert = backbone.bert.clone().train().insert(|_| Rescale { scale: constant(1.0), shift: constant(0.0) });
    let head = Head::new(hidden, 2, HeadInput::Cls, init, &training);
    let model = Tuning::Adapters.apply(TaskModel::new(bert, head)?);

    let (dataset, cache, tokenizer) = (dogs(), TokenCache::none(), &backbone.tokenizer);
    let lessons = Lessons {
        train: &TrainingSet::texts(&dataset, &dataset.train, tokenizer, 32, &cache)?,
        validation: &EvaluationSet::texts(&dataset, &dataset.validation, tokenizer, 32, &cache)?,
        metric: Metric::Accuracy,
        network: &backbone.config,
    };
    let settings = Profile::Paper.settings();
    let course = Course { batch_size: 16, ..Course::new(settings, 1e-2, 4, 0) };
    let (kind, labels, backbone) = (dataset.kind.to_string(), dataset.labels.clone(), backbone.id());
    let (task, head, tuning) = (dataset.task.clone(), HeadInput::Cls.to_string(), Tuning::Adapters);
    let info = TaskInfo { task, kind, labels, head, max_length: 32, tuning, adapter: None, backbone };
    let trained = train(model, &info, &lessons, &course, &training, Safety::default(), &mut |_: &Step| {})?;
    println!(
        "validation accuracy by epoch: {:?}",
        trained.epochs.iter().map(|e| e.validation["accuracy"]).collect::<Vec<_>>()
    );
    anyhow::ensure!(trained.best.validation["accuracy"] > 0.9, "the example did not learn");
    Ok(())
}
