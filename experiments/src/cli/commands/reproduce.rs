//! `reproduce`: every experiment of the paper, and the report.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;

use super::{report, run::note};
use crate::{
    cli::{
        Session, args::check_folder, ctrl_c::request_stop, experiment_args::ExperimentArgs, output::print,
        progress::SweepProgress,
    },
    run::RunConfig,
    sweep::{ExperimentKind, Plan, Sweep},
};

/// Run every experiment of the paper and write the figures, the tables and the page: also what the program does without a command
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`) [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    preset: Vec<String>,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout [default: nano; at paper scale those of the paper]
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

pub fn run(args: &ReproduceArgs, session: &Session<'_>) -> Result<()> {
    let lab = session.lab;
    let runs_folder = args.runs.clone().unwrap_or_else(|| args.out.join("runs"));
    let context = args.how.context(runs_folder.clone())?;
    let nano = || (!args.how.is_paper_scale()).then_some("nano");
    let backbone = args.backbone.as_deref().or_else(nano);
    let options = args.how.plan_options(backbone, session)?;
    let presets: Vec<&str> = if args.preset.is_empty() {
        lab.presets().iter().map(|preset| preset.name.as_str()).collect()
    } else {
        args.preset.iter().map(String::as_str).collect()
    };
    let plan = |name| Plan::new(lab, name, &options, &context);
    let plans: Vec<Plan> = presets.into_iter().map(plan).collect::<Result<_>>()?;
    plans.iter().for_each(|plan| note(plan, &context));
    // Experiments share runs; each is run once.
    let mut runs: Vec<RunConfig> = Vec::new();
    for run in plans.iter().filter(|plan| plan.kind != ExperimentKind::Stream).flat_map(|plan| &plan.runs) {
        if !runs.contains(run) {
            runs.push(run.clone());
        }
    }
    ensure!(plans.iter().any(|plan| !plan.runs.is_empty()), "there is nothing to run");
    if args.how.dry_run {
        return print(&plans, args.how.json, || {
            let lines = plans.iter().map(|plan| format!("{}: {} runs\n", plan.experiment, plan.runs.len()));
            lines.collect::<String>() + &format!("{} different runs, and the streams\n", runs.len())
        });
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
    let (ended, result) = sweep.run_all(&runs);
    if let Err(error) = result {
        let trained = plans.iter().filter(|plan| plan.kind != ExperimentKind::Stream);
        trained.into_iter().try_for_each(|plan| plan.keep_partial(&ended, &sweep))?;
        return Err(error);
    }
    let mut failed = 0;
    for plan in &plans {
        failed += plan.conclude(&ended, &mut sweep)?.failed.len();
    }
    let written: report::Written = analysis::write_report(&runs_folder, &args.out, lab.exhibits())?.into();
    print(&written, args.how.json, || report::text(&written))?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} runs failed; the page names them"),
    }
}
