//! Options of the commands that run whole experiments.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum, builder::RangedU64ValueParser};
use serde::Serialize;

use super::{
    Session,
    args::{ContextArgs, named},
    progress::Notes,
};
use crate::{
    lab::Keys,
    run::{Layers, RunContext},
    sweep::{Estimate, Executor, Plan, PlanOptions, Scale, SlurmOptions, Suite, estimate},
};

/// Which runs an experiment has.
#[derive(Args, Debug)]
pub struct GridArgs {
    /// Set a key of every run, whatever the file and the environment say; several values, separated by commas, make a grid
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// quick: a small grid on part of the data; desk: real data on a small real BERT; wide: desk with more seeds, rates, sizes, layers
    /// and tasks; paper: the paper's grid. --dry-run says how long they take
    #[arg(long, default_value_t = Scale::Quick, value_parser = named::<Scale>(&["quick", "desk", "wide", "paper"]))]
    pub scale: Scale,
    /// paper: the paper's tasks; synthetic: those over the built-in language; tuning: the same with other validation examples
    /// [default: synthetic on `nano`, else paper]
    #[arg(long, value_parser = named::<Suite>(&["paper", "synthetic", "tuning"]))]
    pub suite: Option<Suite>,
}

/// How experiments are run, and with what.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    context: ContextArgs,
    /// Processes that run at the same time, each with its share of the cores [default: one for each core for `nano` on a CPU, else 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,
    #[command(flatten)]
    pub executor: ExecutorArgs,
    /// Print the runs and how long they will take here, and do nothing else
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Who does the work.
#[derive(Args, Debug)]
pub struct ExecutorArgs {
    /// Who does the work: processes of this machine, or jobs that Slurm starts
    #[arg(long, default_value = "local", value_enum)]
    executor: ExecutorName,
    /// An option for sbatch, such as partition, time, gpus, account or cpus_per_task; or workers, or at_once. It overrides the file's
    /// [slurm] part
    #[arg(long, value_name = "KEY=VALUE")]
    slurm: Vec<String>,
    /// Submit the jobs and return; `runs watch` follows them, and the same command without this gathers what they did
    #[arg(long)]
    pub detach: bool,
    /// Cancel the jobs when interrupted, without asking
    #[arg(long)]
    pub yes: bool,
}

/// Who does the work, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExecutorName {
    /// Processes of this machine
    Local,
    /// Jobs of a cluster
    Slurm,
}

impl ExecutorArgs {
    /// What they come to: so many processes, or jobs with these options.
    pub fn executor(&self, jobs: usize, options: &Keys) -> Result<Executor> {
        if self.executor == ExecutorName::Local {
            ensure!(self.slurm.is_empty() && !self.detach, "--slurm and --detach are for --executor slurm");
            return Ok(Executor::Local(jobs));
        }
        let mut said = Keys::new();
        for text in &self.slurm {
            let (key, value) = text.split_once('=').with_context(|| format!("--slurm {text}: give KEY=VALUE"))?;
            said.insert(key.trim().replace('-', "_"), value.trim().into());
        }
        Ok(Executor::Slurm(SlurmOptions::default().with(options)?.with(&said)?))
    }
}

impl ExperimentArgs {
    /// Where runs find what they need and are kept.
    pub fn context(&self, runs: PathBuf) -> Result<RunContext> {
        self.context.context(Some(runs))
    }

    /// Whether presets choose their backbones themselves, unless one is named.
    pub fn presets_name_backbones(&self) -> bool {
        self.grid.scale != Scale::Quick
    }

    /// What experiments are planned for; `backbone` is above everything else that names one.
    pub fn plan_options(&self, backbone: Option<&str>, session: &Session<'_>) -> Result<PlanOptions> {
        let mut set = session.keys.clone();
        set.extend(Layers::new(session.lab).assignments(&self.grid.set)?);
        if let Some(name) = backbone {
            set.insert("backbone".to_owned(), name.into());
        }
        Ok(PlanOptions { scale: self.grid.scale, suite: self.grid.suite, set })
    }

    /// How long `plans` take here, or why that cannot be said.
    pub fn estimated(&self, plans: &[Plan], context: &RunContext, session: &Session<'_>) -> Estimated {
        let jobs = self.jobs(plans.iter().find_map(Plan::backbone));
        match estimate(session.lab, context, plans, jobs, &session.stop, &mut Notes) {
            Ok(estimate) => Estimated { estimate: Some(estimate), no_estimate: None },
            Err(error) => Estimated { estimate: None, no_estimate: Some(format!("{error:#}")) },
        }
    }

    /// Number of processes for runs on `backbone`: a small network does not fill two cores of a CPU, a large one does, and
    /// other devices share out their work themselves.
    pub fn jobs(&self, backbone: Option<&str>) -> usize {
        let small = backbone == Some("nano") && self.context.devices().on_cpu();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(|| if small { cores() } else { 1 })
    }
}

/// How long experiments take, as `--dry-run` says it.
#[derive(Serialize)]
pub struct Estimated {
    /// The estimate.
    pub estimate: Option<Estimate>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_estimate: Option<String>,
}

impl Estimated {
    /// In a line.
    pub fn text(&self) -> String {
        match (&self.estimate, &self.no_estimate) {
            (Some(estimate), _) => format!("{}\n", estimate.in_words()),
            (None, why) => format!("no estimate: {}\n", why.as_deref().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        how: ExperimentArgs,
    }

    #[rstest]
    #[case(&["--device", "flex"], "nano", None)]
    #[case(&["--device", "tch"], "nano", None)]
    #[case(&["--device", "flex"], "minilm-l6", Some(1))]
    #[case(&["--device", "wgpu"], "nano", Some(1))]
    #[case(&["--devices", "cuda:0,cuda:1"], "nano", Some(1))]
    #[case(&["--device", "wgpu", "--jobs", "3"], "nano", Some(3))]
    fn a_gpu_is_not_divided_unasked(#[case] options: &[&str], #[case] backbone: &str, #[case] jobs: Option<usize>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let command = Command::parse_from([&["adapter-lab"], options].concat());
        assert_eq!(command.how.jobs(Some(backbone)), jobs.unwrap_or(cores));
    }
}
