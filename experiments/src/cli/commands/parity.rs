//! `parity`: whether devices compute the same.

use std::sync::Arc;

use adapter_core::Init;
use anyhow::{Result, bail, ensure};
use bert_backbone::{Bert, BertConfig};
use clap::Args;
use serde::Serialize;
use tasks::HeadKind;

use super::params::chosen_method;
use crate::{
    cli::{
        Session,
        args::BackboneArgs,
        output::{print, table},
    },
    device::DeviceName,
    lab::{AnyMethod, Traces},
    study::{Parity, Tolerance, parity, trace},
};

/// Compare devices number by number: forward by layer, loss, every gradient and ten steps of one tuned model
#[derive(Args, Debug)]
pub struct ParityArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    /// A small network with random weights instead of a backbone
    #[arg(long, conflicts_with = "backbone")]
    random: bool,
    /// The devices, separated by commas; each is compared with the first
    #[arg(long, value_delimiter = ',', required = true, value_name = "DEVICE,…")]
    devices: Vec<DeviceName>,
    /// Largest difference of a layer's output
    #[arg(long, default_value_t = 1e-4, value_name = "X")]
    forward: f64,
    /// Largest difference of a gradient relative to the largest of its tensor, and of a loss
    #[arg(long, default_value_t = 1e-3, value_name = "X")]
    gradient: f64,
    /// Largest norm of the difference of a trained tensor after ten steps, relative to the tensor's
    #[arg(long, default_value_t = 1e-2, value_name = "X")]
    trained: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    backbone: String,
    reference: DeviceName,
    tolerance: Tolerance,
    devices: Vec<Compared>,
}

#[derive(Serialize)]
struct Compared {
    device: DeviceName,
    #[serde(flatten)]
    parity: Parity,
}

pub fn run(args: &ParityArgs, session: &Session<'_>) -> Result<()> {
    let method = chosen_method(session.lab, &session.keys)?;
    let tolerance = Tolerance { forward: args.forward, gradient: args.gradient, trained: args.trained };
    let (reference, others) = match args.devices.split_first() {
        Some((reference, others)) if !others.is_empty() => (reference, others),
        _ => bail!("--devices: name at least two, to compare them"),
    };
    // Said before anything is computed.
    args.devices.iter().try_for_each(|name| name.open().map(drop))?;
    let head = session.lab.usual_head(&*method)?;
    let expected = args.traces(&*method, &head, *reference)?;
    let mut devices = Vec::new();
    for &device in others {
        devices.push(Compared { device, parity: parity(&expected, &args.traces(&*method, &head, device)?, tolerance) });
    }
    let backbone = if args.random { "random".to_owned() } else { args.backbone.name()?.to_owned() };
    let report = Report { backbone, reference: *reference, tolerance, devices };
    print(&report, args.json, || report.devices.iter().map(|compared| text(compared, *reference)).collect())?;
    let apart = report.devices.iter().filter(|compared| !compared.parity.within);
    let apart: Vec<String> = apart.map(|compared| compared.device.to_string()).collect();
    ensure!(apart.is_empty(), "not within the tolerance: {}", apart.join(", "));
    Ok(())
}

impl ParityArgs {
    fn traces(&self, method: &dyn AnyMethod, head: &Arc<dyn HeadKind>, device: DeviceName) -> Result<Traces> {
        let (device, head) = (device.open()?, head.clone());
        if self.random {
            let config = BertConfig { vocab_size: 1000, ..BertConfig::new(64, 4, 4) };
            return trace(method, head, Bert::random(&config, Init::new(0), &device)?, &config, &device);
        }
        let backbone = self.backbone.load(&device)?;
        trace(method, head, backbone.bert, &backbone.config, &device)
    }
}

fn text(compared: &Compared, reference: DeviceName) -> String {
    let Compared { device, parity } = compared;
    let head = ["part", "output", "relative", "gradient", "relative", "furthest gradient", "after 10 steps"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |value: f64| format!("{value:.1e}");
    rows.extend(parity.parts.iter().map(|part| {
        vec![
            part.part.clone(),
            number(part.forward_absolute),
            number(part.forward_relative),
            number(part.gradient_absolute),
            number(part.gradient_relative),
            part.gradient_of.clone(),
            number(part.trained_relative),
        ]
    }));
    let dropout = if parity.dropout_equal { "the same" } else { "not the same" };
    let verdict = if parity.within { "within the tolerance" } else { "NOT within the tolerance" };
    format!(
        "{device} against {reference}, largest differences\n{}losses of ten steps: {:.1e} apart, relative; dropout: {dropout}\n{verdict}\n",
        table(&rows),
        parity.loss_relative
    )
}
