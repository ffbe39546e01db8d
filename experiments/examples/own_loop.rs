//! From a backbone and a dataset to a saved file and a prediction, without a command line:
//! `cargo run --release -p experiments --example own_loop`

use adapter_core::AdapterConfig;
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::tensor::Device;
use experiments::Trainer;
use tasks::{Dataset, Example, Target};

/// Trains, saves and predicts.
pub fn main() -> anyhow::Result<()> {
    // A tiny backbone with random weights; `Backbone::load` takes any folder in Hugging Face layout.
    let folder = tempfile::tempdir()?;
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex())?;
    let backbone = Backbone::load(folder.path(), &Device::flex())?;

    let about = |i: usize| Example::new(format!("the {} is on the mat", ["cat", "dog"][i % 2]), Target::Class(i % 2));
    let dogs = Dataset::classification("dogs", ["no", "yes"], (0..128).map(about), (0..32).map(about));

    let trainer = Trainer::new(&backbone, &dogs, AdapterConfig::new(8)).learning_rate(1e-2).epochs(4);
    let model = trainer.batch_size(16).train()?;
    model.save(&folder.path().join("dogs.safetensors"))?;
    println!("{} parameters trained, scores: {:?}", model.params().trained, model.scores());
    println!("a dog? {}", model.predict(&["the dog sat on the mat"])?[0].label);
    Ok(())
}
