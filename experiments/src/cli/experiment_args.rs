//! Options of the commands that run whole experiments.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, builder::RangedU64ValueParser};

use super::{
    Session,
    args::{ContextArgs, named},
};
use crate::{
    device::DeviceName,
    run::{Layers, RunContext},
    sweep::{PlanOptions, Scale, Suite},
};

/// How experiments are run, and with what.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    /// Change a key of every run, above file and environment; several values, separated by commas, make a grid
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How much of each experiment
    #[arg(long, default_value_t = Scale::Quick, value_parser = named::<Scale>(&["quick", "paper"]))]
    scale: Scale,
    /// Whose tasks: the paper's, or those over the built-in language [default: synthetic on `nano`, else paper]
    #[arg(long, value_parser = named::<Suite>(&["paper", "synthetic"]))]
    suite: Option<Suite>,
    #[command(flatten)]
    context: ContextArgs,
    /// Processes that run at the same time, each with its share of the cores [default: one for each core for `nano` on a CPU, else 1]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: Option<usize>,
    /// Print the runs, and do nothing else
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl ExperimentArgs {
    /// Where runs find what they need and are kept.
    pub fn context(&self, runs: PathBuf) -> Result<RunContext> {
        self.context.context(Some(runs))
    }

    /// Whether the paper's own grid is asked for.
    pub fn is_paper_scale(&self) -> bool {
        self.scale == Scale::Paper
    }

    /// What experiments are planned for; `backbone` is above everything else that names one.
    pub fn plan_options(&self, backbone: Option<&str>, session: &Session<'_>) -> Result<PlanOptions> {
        let mut set = session.keys.clone();
        set.extend(Layers::new(session.lab).assignments(&self.set)?);
        if let Some(name) = backbone {
            set.insert("backbone".to_owned(), name.into());
        }
        Ok(PlanOptions { scale: self.scale, suite: self.suite, set })
    }

    /// Number of processes for runs on `backbone`: a small network does not fill two cores of a CPU, a large one does, and
    /// other devices share out their work themselves.
    pub fn jobs(&self, backbone: Option<&str>) -> usize {
        let on_cpu = matches!(self.context.devices().names[..], [DeviceName::Flex | DeviceName::Tch]);
        let small = backbone == Some("nano") && on_cpu;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(|| if small { cores() } else { 1 })
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
