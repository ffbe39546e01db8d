//! Options of the commands that run whole experiments.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, builder::RangedU64ValueParser};

use crate::{
    backbones::CacheArgs,
    device::DeviceName,
    device_args::TrainingPlace,
    execution::Setting,
    experiment::{Scale, Tasks},
    layers,
    sweep::Workplace,
    task_args::TaskFiles,
};

/// How experiments are run, and with what.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    /// Change a key of every run, above file and environment; several values, divided by commas, make a grid
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How much of each experiment
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Whose tasks: the paper's, or those over the built-in language [default: synthetic on `nano`, else paper]
    #[arg(long, value_enum)]
    suite: Option<Tasks>,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    place: TrainingPlace,
    /// Seconds between two checkpoints of a run
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
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
    /// Where runs are run and kept.
    pub fn workplace(&self, runs: PathBuf) -> Result<Workplace> {
        Ok(Workplace {
            files: self.files.clone(),
            cache: self.cache.clone(),
            place: self.place.clone(),
            runs,
            checkpoint_every: Duration::try_from_secs_f64(self.checkpoint_every).context("--checkpoint-every")?,
            quiet: self.json,
        })
    }

    /// What experiments are planned for; `backbone` is above everything else that names one.
    pub fn setting<'a>(&self, backbone: Option<&str>, workplace: &'a Workplace) -> Result<Setting<'a>> {
        let mut set = layers::assignments(&self.set)?;
        if let Some(name) = backbone {
            set.insert("backbone".to_owned(), name.into());
        }
        Ok(Setting { scale: self.scale, suite: self.suite, set, workplace })
    }

    /// Number of processes for runs on `backbone`: a small network does not fill two cores of a CPU, a large one does, and
    /// other devices share out their work themselves.
    pub fn jobs(&self, backbone: Option<&str>) -> usize {
        let on_cpu = matches!(self.place.names()[..], [DeviceName::Flex | DeviceName::Tch]);
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
