//! One of each kind of part that a lab takes: a method that changes a projection's product, a head, a metric, an optimiser, a
//! preset and a figure. `cargo run --release -p experiments --example own_parts -- run mine --backbone nano`

use std::process::ExitCode;

use adapter_core::{At, Init, Insertion, Key, Method, NetworkShape, Place, Projection, Site};
use analysis::{AxisSpec, Dot, Exhibit, Figure, Format, Look, Panel, Plot, Series, Store};
use bert_backbone::PackedBatch;
use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};
use experiments::{Lab, Optimizer, OptimizerConfig, Update};
use serde::{Deserialize, Serialize};
use tasks::{HeadInput, HeadKind, Metric, TaskKind};

/// Adds a product of low rank to attention's queries and values: `x W + x A B`.
#[derive(Module, Debug)]
struct LowRank {
    query: Vec<Linear>,
    value: Vec<Linear>,
}

impl Insertion for LowRank {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output
    }

    fn changes(&self, projection: Projection) -> bool {
        matches!(projection, Projection::Query | Projection::Value)
    }

    fn project(&self, projection: Projection, linear: &Linear, x: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        let factors = if projection == Projection::Query { &self.query } else { &self.value };
        linear.forward(x.clone()) + factors.iter().fold(x, |x, factor| factor.forward(x))
    }

    fn is_row_wise(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LowRankConfig {
    rank: usize,
}

impl Default for LowRankConfig {
    fn default() -> Self {
        Self { rank: 4 }
    }
}

impl Method for LowRankConfig {
    type Insertion = LowRank;
    const NAME: &'static str = "low-rank";
    const ABOUT: &'static str = "products of low rank beside attention's queries and values";
    const KEYS: &'static [Key] = &[Key::new("rank", "R", "Rank of the products")];
    const SIZE_KEY: Option<&'static str> = Some("rank");

    fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<LowRank> {
        let d = network.hidden;
        let factors = |name: &str| {
            let down = init.truncated_normal(format!("{place}.{name}.down"), [d, self.rank], 0.02, device);
            // B starts at 0: the network starts as it was.
            let up = init.constant(0.0, [self.rank, d], device);
            vec![Linear { weight: down, bias: None }, Linear { weight: up, bias: None }]
        };
        (place.site == Site::Attention).then(|| LowRank { query: factors("query"), value: factors("value") })
    }
}

/// Reads the largest values of all tokens instead of `[CLS]`.
#[derive(Debug)]
struct MaxHead;

impl HeadKind for MaxHead {
    fn name(&self) -> &str {
        "max"
    }

    fn input(&self) -> HeadInput {
        HeadInput::Tokens
    }

    fn per_token(&self) -> bool {
        false
    }

    fn forward(&self, _inner: &[Linear], rows: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let sequences = batch.boundaries().windows(2);
        Tensor::cat(sequences.map(|pair| rows.clone().narrow(0, pair[0], pair[1] - pair[0]).max_dim(0)).collect(), 0)
    }
}

/// Gradient descent with momentum.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sgd {
    momentum: f64,
}

impl Default for Sgd {
    fn default() -> Self {
        Self { momentum: 0.9 }
    }
}

impl Optimizer for Sgd {
    fn memory(&self) -> &'static [&'static str] {
        &["velocity"]
    }

    fn update(&self, update: Update<'_>) -> Tensor<1> {
        let velocity = &mut update.memory[0];
        *velocity = velocity.clone() * self.momentum + update.gradient;
        update.value - velocity.clone() * update.rate
    }
}

impl OptimizerConfig for Sgd {
    const NAME: &'static str = "sgd";
    const KEYS: &'static [Key] = &[Key::new("momentum", "M", "How much of the last step's direction is kept")];
}

/// The mean of the classes' own accuracies.
fn balanced_accuracy() -> Metric {
    Metric::new("balanced_accuracy", TaskKind::Classification, |judged| {
        let matrix = judged.confusion_matrix();
        let occurring = matrix.gold().iter().enumerate().filter(|(_, gold)| **gold > 0);
        let recalls: Vec<f64> =
            occurring.map(|(class, gold)| matrix.count(class, class) as f64 / *gold as f64).collect();
        recalls.iter().sum::<f64>() / recalls.len().max(1) as f64
    })
}

/// Every run's score against its loss.
fn losses(store: &Store) -> Option<Figure> {
    let runs = store.runs_of("mine");
    let records = store.records(runs.iter().map(|run| run.id.as_str())).ok()?;
    let dots = runs.iter().filter_map(|run| {
        let loss = records.get(run.id.as_str())?.evaluations.last()?.loss;
        let (x, y) = (loss, 100.0 * run.validation()?);
        Some(Dot::new(x, y, run.summary()))
    });
    let series = vec![Series::new("runs", Look { joined: false, ..Look::nth(0) }, dots.collect())];
    let x = AxisSpec { label: "training loss".to_owned(), log: false, format: Format::Exact, ticks: Vec::new() };
    let plot = Plot { title: "All runs".to_owned(), x, y: AxisSpec::score("score"), level: None, series };
    let (title, about) = ("Score against loss".to_owned(), "A dot for each run".to_owned());
    (!runs.is_empty()).then(|| Figure { title, about, keys: Vec::new(), panels: vec![Panel::Plot(plot)] })
}

const MINE: &str = r#"
about = "Products of low rank, trained by plain gradient descent"
task = "syn-acceptability"
tuning = "low-rank"
rank = [1, 4]
head = "max"
optimizer = "sgd"
metric = "balanced_accuracy"
lr = 0.1
epochs = 1
quick.limit = 200
"#;

fn main() -> ExitCode {
    let lab = Lab::paper().method::<LowRankConfig>().optimizer::<Sgd>().head(MaxHead).metric(balanced_accuracy());
    experiments::main(lab.preset("mine", MINE).exhibit(Exhibit::figure("losses", "Losses", "mine", losses)))
}
