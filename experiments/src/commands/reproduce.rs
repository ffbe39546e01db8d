//! `reproduce`: every experiment of the paper, and the report.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::{print, report, run::note};
use crate::{
    backbones::CacheArgs,
    device::DeviceName,
    execution::{Plan, Setting, run_all},
    experiment::{Kind, PRESETS, Scale, Tasks},
    layers::{self, Keys},
    run_config::RunConfig,
    sweep::Workplace,
    task_args::TaskFiles,
};

/// Run every experiment of the paper and write the figures, the tables and the page: what `adapter-lab` alone does
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`) [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    preset: Vec<String>,
    /// Whose tasks: the paper's, or those over the built-in language [default: synthetic on `nano`, else paper]
    #[arg(long, value_enum)]
    suite: Option<Tasks>,
    /// How much of each experiment
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, default_value = "nano", value_name = "NAME|FOLDER")]
    backbone: String,
    /// Change a key of every run; several values, divided by commas, make a grid
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    cache: CacheArgs,
    /// Where to compute (see `list devices`)
    #[arg(long, env = "ADAPTER_LAB_DEVICE", default_value_t = DeviceName::Flex)]
    device: DeviceName,
    /// Folder for the page, the figures and the tables
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
    /// Folder of the runs: finished ones are not run again, interrupted ones go on [default: runs in --out]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Seconds between two checkpoints of a run
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    /// Processes that run at the same time, each with its share of the cores [default: one for each core on `nano`, else 1]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: Option<usize>,
    /// Print the runs, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ReproduceArgs) -> Result<()> {
    let mut set: Keys = layers::assignments(&args.set)?;
    set.insert("backbone".to_owned(), args.backbone.as_str().into());
    let workplace = Workplace {
        files: args.files.clone(),
        cache: args.cache.clone(),
        device: args.device,
        runs: args.runs.clone().unwrap_or_else(|| args.out.join("runs")),
        checkpoint_every: Duration::try_from_secs_f64(args.checkpoint_every).context("--checkpoint-every")?,
        quiet: args.json,
    };
    let setting = Setting { scale: args.scale, suite: args.suite, set, workplace: &workplace };
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
    if args.dry_run {
        return print(&plans, args.json, || {
            let lines = plans.iter().map(|plan| format!("{}: {} runs\n", plan.experiment, plan.runs.len()));
            lines.collect::<String>() + &format!("{} different runs, and the streams\n", runs.len())
        });
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(if args.backbone == "nano" { cores } else { 1 });
    let ended = run_all(&runs, &workplace, jobs)?;
    let mut failed = 0;
    for plan in &plans {
        let executed = plan.conclude(&ended, &workplace)?;
        failed += executed.failed.len();
    }
    let written: report::Written = analysis::write_report(&workplace.runs, &args.out)?.into();
    print(&written, args.json, || report::text(&written))?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} runs failed; the page names them"),
    }
}
