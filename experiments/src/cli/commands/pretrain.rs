//! `pretrain`: a small BERT on the built-in language.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        args::{DeviceArgs, check_folder},
        output::print,
    },
    study::{PretrainConfig, pretrain},
};

/// Pre-train a small BERT on the built-in language by masked language modelling and next-sentence prediction; the
/// defaults make `nano`
#[derive(Args, Debug)]
pub struct PretrainArgs {
    /// Folder for the backbone
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Width of the network
    #[arg(long, default_value_t = PretrainConfig::default().hidden, value_name = "D")]
    hidden: usize,
    /// Its layers
    #[arg(long, default_value_t = PretrainConfig::default().layers, value_name = "L")]
    layers: usize,
    /// Its attention heads
    #[arg(long, default_value_t = PretrainConfig::default().heads, value_name = "H")]
    heads: usize,
    /// Steps
    #[arg(long, default_value_t = PretrainConfig::default().steps, value_name = "N")]
    steps: usize,
    /// Texts of a step
    #[arg(long, default_value_t = PretrainConfig::default().batch_size, value_name = "N")]
    batch_size: usize,
    /// Highest learning rate
    #[arg(long, default_value_t = PretrainConfig::default().learning_rate)]
    lr: f64,
    /// Decides initial values and which tokens are hidden
    #[arg(long, default_value_t = PretrainConfig::default().seed)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    steps: usize,
    /// Mean loss of the last hundred steps, of both objectives together.
    loss: f64,
    seconds: f64,
}

pub fn run(args: &PretrainArgs) -> Result<()> {
    check_folder(&args.out)?;
    let &PretrainArgs { hidden, layers, heads, steps, batch_size, lr: learning_rate, seed, .. } = args;
    let config = PretrainConfig { hidden, layers, heads, steps, batch_size, learning_rate, seed };
    let (started, mut losses) = (Instant::now(), Vec::new());
    pretrain(config, &args.out, &args.device.device.open()?, |step, loss| {
        losses.push(loss);
        if !args.json && step % 100 == 0 {
            let left = started.elapsed().as_secs_f64() / step as f64 * (steps - step) as f64;
            eprintln!("step {step}/{steps}  loss {:.4}  {left:.0} s left", mean(&losses));
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let report = Report { folder: args.out.clone(), steps, loss: mean(&losses), seconds };
    print(&report, args.json, || {
        format!("{}: {steps} steps in {seconds:.0} s, loss {:.4}", report.folder.display(), report.loss)
    })
}

/// The mean of the last hundred.
fn mean(losses: &[f64]) -> f64 {
    let last = &losses[losses.len().saturating_sub(100)..];
    last.iter().sum::<f64>() / last.len() as f64
}
