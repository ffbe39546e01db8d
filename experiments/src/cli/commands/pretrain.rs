//! `pretrain`: a small BERT on the built-in language.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        Session,
        args::{DeviceArgs, check_folder},
        ctrl_c::request_stop,
        log,
        output::print,
    },
    study::{PretrainConfig, Pretraining},
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
    /// Seconds between checkpoints, from which the same command goes on
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    config: PretrainConfig,
    /// Mean loss of both objectives together, of every hundred steps.
    loss_curve: Vec<f64>,
    /// Time of this call.
    seconds: f64,
}

pub fn run(args: &PretrainArgs, session: &Session<'_>) -> Result<()> {
    check_folder(&args.out)?;
    let &PretrainArgs { hidden, layers, heads, steps, batch_size, lr: learning_rate, seed, .. } = args;
    let config = PretrainConfig { hidden, layers, heads, steps, batch_size, learning_rate, seed };
    let every = Duration::try_from_secs_f64(args.checkpoint_every).context("--checkpoint-every")?;
    request_stop(&session.stop);
    let pretraining = Pretraining::open(config, &args.out, &args.device.device.open()?)?;
    let (started, begun) = (Instant::now(), pretraining.state().step);
    if begun > 0 {
        log::note(&format!("going on after step {begun}"));
    } else if args.out.join("model.safetensors").exists() {
        log::note(&format!("{} has a backbone; it is replaced in the end", args.out.display()));
    }
    let state = pretraining.finish(every, &session.stop, |state, loss| {
        if !args.json && state.step % 100 == 0 {
            let left = started.elapsed().as_secs_f64() / (state.step - begun) as f64 * (steps - state.step) as f64;
            let loss = state.loss_curve.last().unwrap_or(&loss);
            log::progress(&format!("step {}/{steps}  loss {loss:.4}  {left:.0} s left", state.step));
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let report = Report { folder: args.out.clone(), config, loss_curve: state.loss_curve, seconds };
    print(&report, args.json, || format!("{}: {steps} steps in {seconds:.0} s", report.folder.display()))
}
