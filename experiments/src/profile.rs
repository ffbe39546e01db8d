//! Profiles: the paper's settings and those of the authors' released code, as data.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{adam::AdamConfig, schedule::Schedule};

/// Everything that a profile decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The optimiser.
    pub adam: AdamConfig,
    /// The learning rate over the run.
    pub schedule: Schedule,
    /// Share of the steps that are warm-up.
    pub warmup: f64,
    /// Standard deviation of the adapters' initial weights.
    pub init_std: f64,
    /// Whether the head reads the pre-trained pooler instead of the `[CLS]` token.
    pub pooler_head: bool,
    /// Dropout in front of the head.
    pub head_dropout: f64,
    /// Whether the adapters' GELU is the tanh approximation. The backbone's own is its configuration's business.
    pub tanh_gelu: bool,
}

/// A set of settings by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// What the paper says.
    Paper,
    /// What the authors' released code does.
    AdapterBert,
}

impl Profile {
    /// Its settings.
    pub fn settings(self) -> Settings {
        match self {
            Profile::Paper => Settings {
                adam: AdamConfig {
                    beta1: 0.9,
                    beta2: 0.999,
                    epsilon: 1e-8,
                    bias_correction: true,
                    weight_decay: 0.0,
                    clip: 0.0,
                },
                schedule: Schedule::Paper,
                warmup: 0.1,
                init_std: 1e-2,
                pooler_head: false,
                head_dropout: 0.0,
                tanh_gelu: false,
            },
            Profile::AdapterBert => Settings {
                adam: AdamConfig {
                    beta1: 0.9,
                    beta2: 0.999,
                    epsilon: 1e-6,
                    bias_correction: false,
                    weight_decay: 0.01,
                    clip: 1.0,
                },
                schedule: Schedule::AdapterBert,
                warmup: 0.1,
                init_std: 1e-3,
                pooler_head: true,
                head_dropout: 0.1,
                tanh_gelu: true,
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Profile::Paper => "paper",
            Profile::AdapterBert => "adapter-bert",
        })
    }
}

/// A name that is no profile.
#[derive(Debug, thiserror::Error)]
#[error("unknown profile `{0}` (known: paper, adapter-bert)")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "paper" => Ok(Profile::Paper),
            "adapter-bert" => Ok(Profile::AdapterBert),
            _ => Err(UnknownProfile(name.to_owned())),
        }
    }
}
