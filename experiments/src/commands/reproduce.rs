//! `reproduce`: every experiment of the paper, and the report.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;

use super::{print, report, run::note};
use crate::{
    execution::{Plan, run_all},
    experiment::{Kind, PRESETS},
    experiment_args::ExperimentArgs,
    run_config::RunConfig,
};

/// Run every experiment of the paper and write the figures, the tables and the page: what `adapter-lab` alone does
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`) [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    preset: Vec<String>,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, default_value = "nano", value_name = "NAME|FOLDER")]
    backbone: String,
    /// Folder for the page, the figures and the tables
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
    /// Folder of the runs: finished ones are not run again, interrupted ones go on [default: runs in --out]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    how: ExperimentArgs,
}

pub fn run(args: &ReproduceArgs) -> Result<()> {
    let workplace = args.how.workplace(args.runs.clone().unwrap_or_else(|| args.out.join("runs")))?;
    let setting = args.how.setting(Some(&args.backbone), &workplace)?;
    let presets: Vec<&str> = match args.preset.is_empty() {
        true => PRESETS.iter().map(|(name, _)| *name).collect(),
        false => args.preset.iter().map(String::as_str).collect(),
    };
    let plans: Vec<Plan> = presets.into_iter().map(|name| Plan::new(name, &setting)).collect::<Result<_>>()?;
    plans.iter().for_each(|plan| note(plan, &workplace));
    // Experiments share runs; each is run once.
    let mut runs: Vec<RunConfig> = Vec::new();
    for run in plans.iter().filter(|plan| plan.kind != Kind::Stream).flat_map(|plan| &plan.runs) {
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
    let ended = run_all(&runs, &workplace, args.how.jobs(Some(&args.backbone)))?;
    let mut failed = 0;
    for plan in &plans {
        let executed = plan.conclude(&ended, &workplace)?;
        failed += executed.failed.len();
    }
    let written: report::Written = analysis::write_report(&workplace.runs, &args.out)?.into();
    print(&written, args.how.json, || report::text(&written))?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} runs failed; the page names them"),
    }
}
