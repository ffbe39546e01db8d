//! `bench`: how fast this build is on this machine.

use std::time::Instant;

use adapter_core::{AdapterConfig, DropoutKey, Init, ParamCount, Tuning};
use anyhow::{Result, ensure};
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch};
use clap::{Args, Subcommand};
use serde::Serialize;
use tasks::{Head, HeadInput, TaskModel, loss::cross_entropy};

use super::{grouped, print};
use crate::{
    adam::{Adam, StepGradients},
    device::DeviceName,
    memory,
    profile::Profile,
    tuning_args::{TuningArgs, parse_tuning},
};

/// Measure how fast this build is on this machine
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Step(StepArgs),
}

pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.bench {
        Bench::Step(args) => step(args),
    }
}

/// What every measurement takes.
#[derive(Args, Debug)]
struct Repeats {
    /// Measurements, after one that is not counted; the median is given
    #[arg(long, default_value_t = 7, value_name = "N")]
    repeats: usize,
    /// Where to compute
    #[arg(long, default_value = "flex", env = "ADAPTER_LAB_DEVICE")]
    device: DeviceName,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Serialize)]
struct Measurement<D> {
    bench: &'static str,
    #[serde(flatten)]
    details: D,
    device: DeviceName,
    threads: usize,
    median_seconds: f64,
    seconds: Vec<f64>,
    peak_memory_bytes: Option<u64>,
}

impl Repeats {
    /// Times `f`, which was not yet called.
    fn measure<D: Serialize>(
        &self,
        bench: &'static str,
        details: D,
        mut f: impl FnMut() -> Result<()>,
    ) -> Result<Measurement<D>> {
        ensure!(self.repeats > 0, "--repeats 0: there is nothing to measure");
        f()?;
        memory::forget_peak();
        let mut seconds = Vec::with_capacity(self.repeats);
        for _ in 0..self.repeats {
            let started = Instant::now();
            f()?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        Ok(Measurement {
            bench,
            details,
            device: self.device,
            threads: rayon::current_num_threads(),
            median_seconds: seconds[seconds.len() / 2],
            seconds,
            peak_memory_bytes: memory::peak(),
        })
    }
}

/// One training step: forward, loss, backward and Adam, on a network with random weights
#[derive(Args, Debug)]
struct StepArgs {
    /// Number of layers
    #[arg(long, default_value_t = 6)]
    layers: usize,
    /// Width of the network
    #[arg(long, default_value_t = 384)]
    hidden: usize,
    /// Number of attention heads
    #[arg(long, default_value_t = 12)]
    heads: usize,
    /// Sequences of a step
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 128)]
    length: usize,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    repeats: Repeats,
}

#[derive(Serialize)]
struct StepDetails {
    layers: usize,
    hidden: usize,
    heads: usize,
    batch_size: usize,
    length: usize,
    tuning: String,
    trained: usize,
    dropout: f64,
}

fn step(args: &StepArgs) -> Result<()> {
    let StepArgs { layers, hidden, heads, batch_size, length, .. } = *args;
    let device = args.repeats.device.open().autodiff();
    let config = BertConfig { vocab_size: 30_522, ..BertConfig::new(hidden, layers, heads) };
    let tuning = parse_tuning(&args.tuning.tuning, args.tuning.k, layers)?;
    let adapter = (tuning == Tuning::Adapters).then(|| AdapterConfig::new(args.tuning.adapter_size));
    let init = Init::new(0);
    let bert = Bert::random(&config, init, &device)?;
    let bert = bert.insert(|place| adapter.as_ref().and_then(|adapter| adapter.init(place, hidden, init, &device)));
    let head = Head::new(hidden, 2, HeadInput::Cls, init, &device);
    let mut model = tuning.apply(TaskModel::new(bert, head)?);
    let trained = ParamCount::of(&model, tuning).trained;

    // Any word pieces will do; these are not all the same.
    let sequence = |row: usize| Encoded {
        input_ids: (0..length).map(|place| ((row * 7919 + place * 104_729) % config.vocab_size) as u32).collect(),
        token_type_ids: vec![0; length],
        ..Encoded::default()
    };
    let sequences: Vec<_> = (0..batch_size).map(sequence).collect();
    let batch = PackedBatch::new(&sequences, &config, &device)?;
    let classes = vec![0; batch_size];

    let mut adam = Adam::new(Profile::Paper.settings().adam);
    let details = StepDetails {
        layers,
        hidden,
        heads,
        batch_size,
        length,
        tuning: tuning.to_string(),
        trained,
        dropout: config.hidden_dropout_prob,
    };
    let mut number = 0;
    let measured = args.repeats.measure("step", details, || {
        let batch = batch.clone().with_dropout(DropoutKey { seed: 0, step: number });
        number += 1;
        let loss = cross_entropy(model.forward(&batch), &classes);
        let gradients = StepGradients::of(&model, &loss.backward());
        model = adam.update(model.clone(), &gradients, 1e-4);
        Ok(())
    })?;
    print(&measured, args.repeats.json, || {
        let tokens = (batch_size * length) as f64 / measured.median_seconds;
        format!(
            "step: {:.4} s (median of {}), {:.0} tokens/s, {} trained values, {} threads\n",
            measured.median_seconds,
            measured.seconds.len(),
            tokens,
            grouped(trained),
            measured.threads
        )
    })
}
