//! `reproduce`: every experiment of the paper, and the report.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::{report, run::note};
use crate::{
    cli::{
        Session,
        args::check_folder,
        ctrl_c::request_stop,
        experiment_args::{Estimated, ExperimentArgs},
        output::print,
        progress::SweepProgress,
    },
    sweep::{Plan, Sweep, duration},
};

/// Run every experiment of the paper and write the figures, the tables and the page: also what the program does without a command
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`), in this order [default: all]
    #[arg(long, value_name = "NAME,…", num_args = 1.., value_delimiter = ',')]
    preset: Vec<String>,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout [default: nano at quick scale, else what each preset names]
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    /// Folder for the page, the figures and the tables
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
    /// Folder of the runs: finished ones are not run again, interrupted ones continue [default: runs in --out]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    how: ExperimentArgs,
}

/// What `--dry-run` prints.
#[derive(Serialize)]
struct Planned<'a> {
    experiments: &'a [Plan],
    #[serde(flatten)]
    estimated: Estimated,
}

fn text(planned: &Planned<'_>) -> String {
    let seconds = |name: &str| planned.estimated.estimate.as_ref()?.by_experiment.get(name).copied();
    let line = |plan: &Plan| {
        let (name, runs) = (&plan.experiment, plan.planned());
        let time = seconds(name).map_or(String::new(), |seconds| format!(", {}", duration(seconds)));
        format!("{name}: {runs} runs{time}\n")
    };
    let lines: String = planned.experiments.iter().map(line).collect();
    lines + &planned.estimated.text()
}

pub fn run(args: &ReproduceArgs, session: &Session<'_>) -> Result<()> {
    let lab = session.lab;
    let runs_folder = args.runs.clone().unwrap_or_else(|| args.out.join("runs"));
    let context = args.how.context(runs_folder.clone())?;
    let nano = || (!args.how.presets_name_backbones()).then_some("nano");
    let backbone = args.backbone.as_deref().or_else(nano);
    let options = args.how.plan_options(backbone, session)?;
    let presets: Vec<&str> = if args.preset.is_empty() {
        lab.presets().iter().map(|preset| preset.name.as_str()).collect()
    } else {
        args.preset.iter().map(String::as_str).collect()
    };
    let plan = |name| Plan::new(lab, name, &options, &context);
    let mut plans: Vec<Plan> = presets.into_iter().map(plan).collect::<Result<_>>()?;
    plans.iter().for_each(|plan| note(plan, &context));
    plans.retain(|plan| !plan.is_empty());
    ensure!(!plans.is_empty(), "there is nothing to run");
    if args.how.dry_run {
        let estimated = args.how.estimated(&plans, &context, session);
        let planned = Planned { experiments: &plans, estimated };
        return print(&planned, args.how.json, || text(&planned));
    }
    [&args.out, &runs_folder].into_iter().try_for_each(|folder| check_folder(folder))?;
    request_stop(&session.stop);
    let mut sweep = Sweep {
        lab,
        context: &context,
        stop: &session.stop,
        jobs: args.how.jobs(backbone),
        watch: &mut SweepProgress::new(args.how.json),
    };
    // One after the other, so that each is whole as soon as it can be. What they share is run once.
    let mut failed = 0;
    let mut report = None;
    for plan in &plans {
        failed += plan.execute(&mut sweep)?.failed.len();
        report = Some(analysis::write_report(&runs_folder, &args.out, lab.exhibits())?);
    }
    let written: report::Written = report.context("there is nothing to run")?.into();
    print(&written, args.how.json, || report::text(&written))?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} runs failed; the page names them"),
    }
}
