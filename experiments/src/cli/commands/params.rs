//! `params`: how much a method trains, counted from the tensors of the model it would train.

use adapter_core::{Init, MethodInfo, ParamCount};
use anyhow::Result;
use bert_backbone::Bert;
use clap::Args;
use serde::Serialize;
use tasks::Head;

use crate::{
    cli::{
        Session,
        args::BackboneArgs,
        output::{grouped, print, table},
        progress::Notes,
    },
    device::cpu,
    lab::{AnyMethod, Keys, Lab},
    run::foreign_keys,
    train::Watch,
};

/// Count what a method trains: parameters by group, percent of the backbone, and the total for several tasks
#[derive(Args, Debug)]
pub struct ParamsArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    /// Classes of the task's head
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    classes: usize,
    /// The head, such as cls (the paper) or pooler (the authors' released code) [default: the method's, or cls]
    #[arg(long, value_name = "NAME")]
    head: Option<String>,
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
    tuning: String,
    method: MethodInfo,
    #[serde(flatten)]
    count: ParamCount,
    percent: f64,
    tasks: usize,
    multiple_for_tasks: f64,
}

pub fn run(args: &ParamsArgs, session: &Session<'_>) -> Result<()> {
    let (config, pooler) = args.backbone.shape()?;
    let method = chosen_method(session.lab, &session.keys)?;
    // The model that would be trained; its tensors have shapes but no values yet.
    let (init, device) = (Init::new(0), cpu());
    let mut bert = Bert::random(&config, init, &device)?;
    if !pooler {
        bert.pooler = None;
    }
    let kind = match &args.head {
        Some(name) => session.lab.heads.find(name)?,
        None => session.lab.usual_head(&*method)?,
    };
    let head = Head::new(&config.shape(), args.classes, kind, init, &device);
    let count = method.count(bert, head, init, &device)?;

    let report = Report {
        backbone_name: args.backbone.name()?.to_owned(),
        tuning: method.record().label,
        method: method.info(),
        percent: count.percent(),
        tasks: args.tasks,
        multiple_for_tasks: count.multiple_for(args.tasks),
        count,
    };
    print(&report, args.json, || text(&report))
}

/// The method that flags name, with its keys.
pub(super) fn chosen_method(lab: &Lab, keys: &Keys) -> Result<Box<dyn AnyMethod>> {
    let tuning = keys.get("tuning").and_then(|name| name.as_str()).unwrap_or(lab.default_method());
    let kind = lab.find_method(tuning)?;
    let foreign = foreign_keys(lab, keys, keys)?;
    if !foreign.is_empty() {
        Notes.note(&format!("`{tuning}` has no {}; that changes nothing here", foreign.join(", ")));
    }
    let defaults = kind.defaults();
    let own = keys.iter().filter(|(key, _)| defaults.contains_key(*key));
    kind.configure(own.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn text(report: &Report) -> String {
    let count = &report.count;
    let share = |n: usize| format!("{:.3} %", 100.0 * n as f64 / count.backbone as f64);
    let mut rows = vec![vec![report.tuning.clone(), "parameters".to_owned(), "of the backbone".to_owned()]];
    for (group, n) in &count.groups {
        rows.push(vec![format!("  {}", group.replace('_', " ")), grouped(*n), share(*n)]);
    }
    rows.push(vec!["trained".to_owned(), grouped(count.trained), share(count.trained)]);
    rows.push(vec![report.backbone_name.clone(), grouped(count.backbone), share(count.backbone)]);
    rows.push(vec!["whole model".to_owned(), grouped(count.total), share(count.total)]);
    let (tasks, multiple) = (report.tasks, report.multiple_for_tasks);
    let tasks = if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks together") };
    table(&rows) + &format!("{tasks}: {multiple:.2} × the backbone\n")
}
