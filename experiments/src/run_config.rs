//! A run's configuration, resolved.

use std::fmt;

use adapter_core::{AdapterConfig, Tuning};
use serde::{Deserialize, Serialize};

use crate::profile::Settings;

/// Raised whenever a change of the program alters results: runs of another version are other runs.
pub const NUMERICS: u32 = 2;

/// The version of Burn, which computes; a test compares it with the workspace's.
pub const BURN_VERSION: &str = "0.22.1";

/// Everything that decides what a run computes, but for the contents of its data and backbone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The task's name.
    pub task: String,
    /// The backbone's name.
    pub backbone: String,
    /// What is trained.
    pub tuning: Tuning,
    /// The adapters, where there are any.
    pub adapter: Option<AdapterConfig>,
    /// The profile's settings, changed where the user said so.
    pub settings: Settings,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Passes over the training set.
    pub epochs: usize,
    /// Examples of a step.
    pub batch_size: usize,
    /// Parts into which a step's examples are divided.
    pub accumulate: usize,
    /// Longest sequence in tokens.
    pub max_length: usize,
    /// Decides initial values, order and dropout.
    pub seed: u64,
    /// Training examples that are kept, after a seeded shuffle; `None` keeps all.
    pub limit: Option<usize>,
    /// Steps between evaluations, besides those at every epoch's end.
    pub evaluate_every: Option<usize>,
    /// Evaluations without a better score after which the run ends; `None` runs to the end.
    pub patience: Option<usize>,
    /// Whether the frozen layers below the lowest trained one are computed once, without dropout.
    pub cache_prefix: bool,
}

/// In short: what is trained how, and what is not as usual.
impl fmt::Display for RunConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.task, self.tuning)?;
        if let Some(adapter) = &self.adapter {
            write!(f, "-{}", adapter.size)?;
            for (name, value) in adapter.variant() {
                write!(f, " {name} {value}")?;
            }
        }
        write!(f, " lr {} epochs {} seed {}", self.learning_rate, self.epochs, self.seed)?;
        let Settings { adam, pooler_head, .. } = self.settings;
        let others = [
            ("adapter-bert", String::new(), pooler_head),
            ("clip", adam.clip.to_string(), adam.clip > 0.0),
            ("batch", self.batch_size.to_string(), self.batch_size != 32),
            ("parts", self.accumulate.to_string(), self.accumulate != 1),
            ("length", self.max_length.to_string(), self.max_length != 128),
            ("limit", self.limit.unwrap_or_default().to_string(), self.limit.is_some()),
            ("patience", self.patience.unwrap_or_default().to_string(), self.patience.is_some()),
            ("evaluated every", self.evaluate_every.unwrap_or_default().to_string(), self.evaluate_every.is_some()),
            ("cached prefix", String::new(), self.cache_prefix),
        ];
        for (name, value, _) in others.iter().filter(|(_, _, differs)| *differs) {
            write!(f, "{}", format!(" {name} {value}").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_version_of_burn_is_the_one_that_is_used() {
        let manifest = include_str!("../../Cargo.toml");
        assert!(manifest.contains(&format!("burn = {{ version = \"={BURN_VERSION}\"")));
    }
}
