//! A lab of your own: a method and a task that `adapter-lab` does not have, in a program with all of its commands.
//! `cargo run --release -p experiments --example own_lab -- train --task dogs --backbone nano --tuning gated --lr 1e-2 --epochs 9`

use std::{path::Path, process::ExitCode};

use adapter_core::{Adapter, AdapterConfig, At, Init, Insertion, Key, Method, NetworkShape, Place};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor, activation::sigmoid},
};
use experiments::Lab;
use serde::{Deserialize, Serialize};
use tasks::{Dataset, Example, Target, Task, TaskKind};

/// An adapter behind a learnt gate for each feature: `y + σ(g) · Δ`.
#[derive(Module, Debug)]
struct GatedAdapter {
    adapter: Adapter,
    gate: Param<Tensor<1>>,
}

impl Insertion for GatedAdapter {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        output.clone() + self.adapter.delta(output, at) * sigmoid(self.gate.val()).unsqueeze()
    }
}

/// The method's configuration. Every field is a flag, a key of `--set` and a key of experiment files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Gated {
    adapter_size: usize,
    gate_init: f64,
}

impl Default for Gated {
    fn default() -> Self {
        Self { adapter_size: 16, gate_init: 0.0 }
    }
}

impl Method for Gated {
    type Insertion = GatedAdapter;
    const NAME: &'static str = "gated";
    const ABOUT: &'static str = "adapters, each behind a gate";
    const KEYS: &'static [Key] = &[Key::new("gate_init", "G", "Where gates start, before the sigmoid")];
    const SIZE_KEY: Option<&'static str> = Some("adapter_size");

    fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<GatedAdapter> {
        let adapter = AdapterConfig::new(self.adapter_size).init(place, network.hidden, init, device)?;
        Some(GatedAdapter { adapter, gate: init.constant(self.gate_init as f32, [network.hidden], device) })
    }
}

/// Reads the task: here it is made up; yours reads its files from the data folder.
fn dogs(_data: &Path) -> anyhow::Result<Dataset> {
    let about = |i: usize| {
        let text = format!("the {} {} the mat", ["cat", "dog"][i % 2], ["is on", "likes", "sat by"][i % 3]);
        Example::new(text, Target::Class(i % 2))
    };
    Ok(Dataset::classification("dogs", ["no", "yes"], (0..96).map(about), (0..48).map(about)))
}

fn main() -> ExitCode {
    experiments::main(Lab::paper().method::<Gated>().task(Task::new("dogs", TaskKind::Classification, dogs)))
}
