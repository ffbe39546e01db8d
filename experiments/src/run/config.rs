//! A run's configuration, resolved.

use adapter_core::MethodInfo;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FileOptions, effective_keys};
use crate::{
    lab::{AnyMethod, Keys, Lab},
    train::{Optimizer, TrainConfig},
};

/// Raised whenever a change of the program alters results: runs of another version are other runs.
pub const NUMERICS: u32 = 3;

/// The version of Burn, which computes; a test compares it with the workspace's.
pub const BURN_VERSION: &str = "0.22.1";

/// Everything that decides what a run computes, but for the contents of its data and backbone. Written down it is flat: the
/// keys of an experiment file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// The task's name.
    pub task: String,
    /// The backbone's name.
    pub backbone: String,
    /// The method's name.
    pub tuning: String,
    /// The head's name.
    pub head: String,
    /// Dropout in front of the head.
    pub head_dropout: f64,
    /// The optimiser's name.
    pub optimizer: String,
    /// How long, how fast and in what order.
    #[serde(flatten)]
    pub train: TrainConfig,
    /// Longest sequence in tokens.
    pub max_length: usize,
    /// Training examples that are kept, after a shuffle; `None` keeps all.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Decides which examples a limit keeps: the same for every seed.
    pub limit_seed: u64,
    /// Validation examples that are kept, for quick looks; `None` keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_validation: Option<usize>,
    /// The metric to choose by; `None` is the task's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Whether the frozen layers below the lowest trained one are computed once, without dropout.
    pub cache_prefix: bool,
    /// Which columns of which files make a task of one's own. Its contents decide a run, not where they lie.
    #[serde(default, skip_serializing_if = "FileOptions::is_default")]
    pub files: FileOptions,
    /// Keys of the method and of the optimiser.
    #[serde(flatten)]
    pub own: Keys,
}

impl RunConfig {
    /// The keys that decide the run.
    ///
    /// # Errors
    /// If a value has no written form.
    pub fn keys(&self) -> Result<Keys> {
        let Value::Object(mut keys) = serde_json::to_value(self)? else { bail!("a configuration is an object") };
        keys.remove("files");
        Ok(keys)
    }

    /// Its method.
    ///
    /// # Errors
    /// If `lab` does not have it.
    pub fn method(&self, lab: &Lab) -> Result<Box<dyn AnyMethod>> {
        let defaults = lab.find_method(&self.tuning)?.defaults();
        let own = self.own.iter().filter(|(key, _)| defaults.contains_key(*key));
        let config = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        lab.configure(&MethodInfo { name: self.tuning.clone(), config })
    }

    /// Its optimiser.
    ///
    /// # Errors
    /// If `lab` does not have it.
    pub fn configure_optimizer(&self, lab: &Lab) -> Result<Box<dyn Optimizer>> {
        lab.configure_optimizer(&self.optimizer, &self.own)
    }

    /// A short name for lists and logs: the task, the method, and every key that differs from its default.
    pub fn describe(&self, lab: &Lab) -> String {
        let (Ok(method), Ok(keys)) = (self.method(lab).map(|method| method.record()), self.keys()) else {
            return format!("{} {}", self.task, self.tuning);
        };
        let chosen = ["tuning", "optimizer"].map(|key| (key.to_owned(), keys[key].clone()));
        let mut usual = effective_keys(lab, &Keys::from_iter(chosen)).unwrap_or_default();
        usual.extend([("max_length".to_owned(), 128.into()), ("optimizer".to_owned(), "adam".into())]);
        let shown = |key: &str| ["task", "backbone", "tuning", "lr", "epochs", "seed"].contains(&key);
        let differs = |(key, value): &(&String, &Value)| {
            let size = method.size_key.as_ref() == Some(*key);
            !size && !shown(key) && !value.is_null() && usual.get(*key) != Some(*value)
        };
        let written = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let others: String =
            keys.iter().filter(differs).map(|(key, value)| format!(" {key} {}", written(value))).collect();
        let TrainConfig { learning_rate, epochs, seed, .. } = self.train;
        format!("{} {}{others} lr {learning_rate} epochs {epochs} seed {seed}", self.task, method.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_version_of_burn_is_the_one_that_is_used() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("burn = {{ version = \"={BURN_VERSION}\"")));
    }
}
