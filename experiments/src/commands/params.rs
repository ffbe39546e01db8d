//! `params`: how much a tuning trains, counted from the tensors of the model it would train.

use adapter_core::{AdapterConfig, Init, ParamCount, Tuning};
use anyhow::Result;
use bert_backbone::Bert;
use burn::tensor::Device;
use clap::Args;
use serde::Serialize;
use tasks::{Head, HeadInput, TaskModel};

use super::{grouped, print, table};
use crate::{
    backbones::BackboneArgs,
    device::cpu,
    tuning_args::{TuningArgs, parse_tuning},
};

/// Count what a tuning trains: parameters by group, percent of the backbone, and the total for several tasks
#[derive(Args, Debug)]
pub struct ParamsArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    /// Classes of the task's head
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    classes: usize,
    /// What the head reads: cls (the paper) or pooler (the authors' released code)
    #[arg(long, default_value_t = HeadInput::Cls)]
    head: HeadInput,
    /// Number of tasks in the total (the paper's GLUE table counts 9)
    #[arg(long, default_value_t = 9, value_name = "N")]
    tasks: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    backbone_name: String,
    tuning: Tuning,
    #[serde(flatten)]
    count: ParamCount,
    percent: f64,
    tasks: usize,
    multiple_for_tasks: f64,
}

pub fn run(args: &ParamsArgs) -> Result<()> {
    let (config, pooler) = args.backbone.shape()?;
    let tuning = parse_tuning(&args.tuning.tuning, args.tuning.k, config.num_hidden_layers)?;
    let adapter = AdapterConfig::new(args.tuning.adapter_size);
    adapter.check(config.num_hidden_layers)?;

    // The model that would be trained; its tensors have shapes but no values yet.
    let (init, device): (_, Device) = (Init::new(0), cpu());
    let mut bert = Bert::random(&config, init, &device)?;
    if !pooler {
        bert.pooler = None;
    }
    let bert = bert.insert(|place| match tuning {
        Tuning::Adapters => adapter.init(place, config.hidden_size, init, &device),
        _ => None,
    });
    let head = Head::new(config.hidden_size, args.classes, args.head, init, &device);
    let count = ParamCount::of(&TaskModel::new(bert, head)?, tuning);

    let report = Report {
        backbone_name: args.backbone.name()?.to_owned(),
        tuning,
        percent: count.percent(),
        tasks: args.tasks,
        multiple_for_tasks: count.multiple_for(args.tasks),
        count,
    };
    print(&report, args.json, || text(&report))
}

fn text(report: &Report) -> String {
    let count = &report.count;
    let share = |n: usize| format!("{:.3} %", 100.0 * n as f64 / count.backbone as f64);
    let mut rows =
        vec![vec![format!("tuning: {}", report.tuning), "parameters".to_owned(), "of the backbone".to_owned()]];
    for (group, n) in &count.groups {
        rows.push(vec![format!("  {}", group.replace('_', " ")), grouped(*n), share(*n)]);
    }
    rows.push(vec!["trained".to_owned(), grouped(count.trained), share(count.trained)]);
    rows.push(vec![report.backbone_name.clone(), grouped(count.backbone), share(count.backbone)]);
    rows.push(vec!["whole model".to_owned(), grouped(count.total), share(count.total)]);
    let (tasks, multiple) = (report.tasks, report.multiple_for_tasks);
    table(&rows) + &format!("{tasks} tasks together: {multiple:.2} × the backbone\n")
}
