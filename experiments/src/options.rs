//! What a user can say of a run, on the command line, in a file, in the environment.

use adapter_core::{Activation, AdapterConfig, InnerNorm, Interaction, Placement, Site, Tuning};
use anyhow::{Context, Result, ensure};
use bert_backbone::BertConfig;
use clap::Args;
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value::Error as NameError},
};
use tasks::Task;

use crate::{
    profile::{Profile, Settings},
    run_config::RunConfig,
    tuning_args::parse_tuning,
};

/// The options of a run. Each is a flag of `train` (`--batch-size 16`), a key of an experiment's file (`batch_size = 16`),
/// an environment variable (`ADAPTER_LAB_BATCH_SIZE=16`) and a key of `--set`.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A known task (see `list tasks`), or file:PATH with a .csv, .tsv or .jsonl file of your own
    #[arg(long, value_name = "NAME|file:PATH")]
    pub task: Option<String>,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, value_name = "NAME|FOLDER")]
    pub backbone: Option<String>,
    /// What is trained: adapters, full, top-k (with --k), layer-norm, head or bias [default: adapters]
    #[arg(long)]
    pub tuning: Option<String>,
    /// Number of top layers, for --tuning top-k
    #[arg(long)]
    pub k: Option<usize>,
    /// Width of the adapters' bottleneck [default: 64]
    #[arg(long, value_name = "M")]
    pub adapter_size: Option<usize>,
    /// Standard deviation of the adapters' initial weights [default: the profile's]
    #[arg(long, value_name = "SIGMA")]
    pub init_std: Option<f64>,
    /// The adapters' non-linearity: gelu, tanh-gelu, relu, tanh, swish, … [default: the profile's GELU]
    #[arg(long, value_name = "NAME", help_heading = "Adapter variants")]
    pub activation: Option<Activation>,
    /// Normalisation inside the adapters: none, layer or batch [default: none]
    #[arg(long, value_name = "NAME", value_parser = named::<InnerNorm>, help_heading = "Adapter variants")]
    pub norm: Option<InnerNorm>,
    /// Projections of an adapter before its last [default: 1]
    #[arg(long, value_name = "N", help_heading = "Adapter variants")]
    pub depth: Option<usize>,
    /// Where adapters stand: attention, feed-forward or both [default: both]
    #[arg(long, value_name = "NAME", value_parser = named::<Sites>, help_heading = "Adapter variants")]
    pub sites: Option<Sites>,
    /// Whether adapters read the sub-layer's output (serial) or its input (parallel) [default: serial]
    #[arg(long, value_name = "NAME", value_parser = named::<Placement>, help_heading = "Adapter variants")]
    pub placement: Option<Placement>,
    /// How adapters change the sub-layer's output: additive or multiplicative [default: additive]
    #[arg(long, value_name = "NAME", value_parser = named::<Interaction>, help_heading = "Adapter variants")]
    pub interaction: Option<Interaction>,
    /// Settings of the optimiser, the schedule and the head: paper or adapter-bert [default: paper]
    #[arg(long)]
    pub profile: Option<String>,
    /// Highest learning rate [default: 3e-4]
    #[arg(long)]
    pub lr: Option<f64>,
    /// Passes over the training set [default: 3]
    #[arg(long)]
    pub epochs: Option<usize>,
    /// Examples of a step [default: 32]
    #[arg(long, value_name = "N")]
    pub batch_size: Option<usize>,
    /// Take each step's examples in so many parts, to save memory; their gradients are averaged [default: 1]
    #[arg(long, value_name = "PARTS")]
    pub accumulate: Option<usize>,
    /// Longest sequence in tokens; questions are always read in windows of up to 384 [default: 128, or
    /// what the backbone takes]
    #[arg(long, value_name = "TOKENS")]
    pub max_length: Option<usize>,
    /// Decides initial values, order and dropout [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Largest norm of all gradients together; 0 clips nothing [default: the profile's]
    #[arg(long, value_name = "NORM")]
    pub clip: Option<f64>,
    /// Keep so many training examples, after a seeded shuffle
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Evaluate every so many steps too, not only at each epoch's end
    #[arg(long, value_name = "STEPS")]
    pub evaluate_every: Option<usize>,
    /// End after so many evaluations without a better score [default: run to the end]
    #[arg(long, value_name = "N")]
    pub patience: Option<usize>,
    /// Compute the frozen layers below the lowest trained one only once, without dropout (top-k and head)
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub cache_prefix: Option<bool>,
}

/// Where adapters stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sites {
    /// After the attention sub-layer.
    Attention,
    /// After the feed-forward sub-layer.
    FeedForward,
    /// After both, as in the paper's main experiments.
    Both,
}

/// Reads a name of one of an enum's variants.
fn named<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(name.into_deserializer())
}

impl Options {
    /// The profile's settings, changed where the user said so.
    pub fn settings(&self) -> Result<Settings> {
        let profile: Profile = self.profile.as_deref().context("`profile` is not set")?.parse()?;
        let mut settings = profile.settings();
        settings.init_std = self.init_std.unwrap_or(settings.init_std);
        settings.adam.clip = self.clip.unwrap_or(settings.adam.clip);
        let Settings { init_std, adam, .. } = settings;
        ensure!(init_std.is_finite() && init_std > 0.0, "init_std {init_std}: a positive number is needed");
        ensure!(adam.clip.is_finite() && adam.clip >= 0.0, "clip {}: a number from 0 up is needed", adam.clip);
        Ok(settings)
    }

    /// The run that these options describe, on a network with this shape.
    ///
    /// # Errors
    /// If an option is missing or makes no sense.
    pub fn resolve(&self, network: &BertConfig, has_pooler: bool) -> Result<RunConfig> {
        let mut settings = self.settings()?;
        ensure!(has_pooler || !settings.pooler_head, "this backbone has no pooler; use the profile `paper`");
        let number = |name: &str, value: Option<usize>| {
            let value = value.with_context(|| format!("`{name}` is not set"))?;
            ensure!(value > 0, "{name} 0: at least 1 is needed");
            Ok(value)
        };
        let lr = self.lr.context("`lr` is not set")?;
        ensure!(lr > 0.0 && lr.is_finite(), "lr {lr}: a positive number is needed");
        for (name, value) in
            [("limit", self.limit), ("evaluate_every", self.evaluate_every), ("patience", self.patience)]
        {
            ensure!(value != Some(0), "{name} 0: at least 1 is needed");
        }
        let longest = network.max_position_embeddings;
        let max_length = number("max_length", Some(self.max_length.unwrap_or(longest.min(128))))?;
        ensure!(max_length <= longest, "max_length {max_length}: the backbone takes {longest} at most");

        let name = self.tuning.as_deref().context("`tuning` is not set")?;
        let tuning = parse_tuning(name, self.k, network.num_hidden_layers)?;
        let adapter = match tuning {
            Tuning::Adapters => Some(self.adapter(&settings, network.num_hidden_layers)?),
            _ => {
                // What decides nothing must not make another run of the same.
                let paper = Profile::Paper.settings();
                (settings.init_std, settings.tanh_gelu) = (paper.init_std, paper.tanh_gelu);
                None
            }
        };
        let cache_prefix = self.cache_prefix.unwrap_or_default();
        let frozen_below = matches!(tuning, Tuning::TopLayers(_) | Tuning::HeadOnly);
        ensure!(
            frozen_below || !cache_prefix,
            "cache_prefix: `{tuning}` trains from the bottom up; top-k and head do not"
        );
        let task = self.task.as_deref().context("give --task: a name of `list tasks`, or file:PATH")?;
        Ok(RunConfig {
            task: if task.starts_with("file:") { task.to_owned() } else { Task::find(task)?.name.to_owned() },
            backbone: self.backbone_name()?.to_owned(),
            tuning,
            adapter,
            settings,
            learning_rate: lr,
            epochs: number("epochs", self.epochs)?,
            batch_size: number("batch_size", self.batch_size)?,
            accumulate: number("accumulate", self.accumulate)?,
            max_length,
            seed: self.seed.context("`seed` is not set")?,
            limit: self.limit,
            evaluate_every: self.evaluate_every,
            patience: self.patience,
            cache_prefix,
        })
    }

    /// Whether anything is said of adapters.
    pub fn describes_adapters(&self) -> bool {
        let Self { adapter_size, init_std, activation, norm, depth, sites, placement, interaction, .. } = self;
        adapter_size.is_some()
            || init_std.is_some()
            || activation.is_some()
            || norm.is_some()
            || depth.is_some()
            || sites.is_some()
            || placement.is_some()
            || interaction.is_some()
    }

    /// The backbone as it was named.
    pub fn backbone_name(&self) -> Result<&str> {
        self.backbone.as_deref().context("give --backbone: a name of `list backbones`, or a folder")
    }

    fn adapter(&self, settings: &Settings, layers: usize) -> Result<AdapterConfig> {
        let gelu = if settings.tanh_gelu { Activation::TanhGelu } else { Activation::Gelu };
        let mut adapter = AdapterConfig {
            init_std: settings.init_std,
            activation: self.activation.unwrap_or(gelu),
            ..AdapterConfig::new(self.adapter_size.context("`adapter_size` is not set")?)
        };
        adapter.norm = self.norm.unwrap_or(adapter.norm);
        adapter.depth = self.depth.unwrap_or(adapter.depth);
        adapter.placement = self.placement.unwrap_or(adapter.placement);
        adapter.interaction = self.interaction.unwrap_or(adapter.interaction);
        adapter.sites = match self.sites {
            Some(Sites::Attention) => vec![Site::Attention],
            Some(Sites::FeedForward) => vec![Site::FeedForward],
            Some(Sites::Both) | None => Site::ALL.to_vec(),
        };
        adapter.check(layers)?;
        Ok(adapter)
    }
}
