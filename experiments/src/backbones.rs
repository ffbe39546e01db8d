//! Backbones as the command line names them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bert_backbone::{Backbone, BertConfig, Checkpoint, CheckpointError, Fetcher, KnownBackbone};
use burn::tensor::Device;
use clap::Args;
use serde::{Deserialize, Serialize};

/// Which backbone, and where fetched ones are kept.
#[derive(Args, Clone, Debug)]
pub struct BackboneArgs {
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, value_name = "NAME|FOLDER")]
    pub backbone: Option<String>,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Where fetched backbones are kept.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct CacheArgs {
    /// Folder of fetched backbones [default: adapter-lab in the user's cache folder]
    #[arg(long, env = "ADAPTER_LAB_CACHE", value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

impl CacheArgs {
    /// A fetcher for that folder.
    pub fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.cache_dir.clone().unwrap_or_else(Fetcher::default_cache))
    }

    /// Loads the backbone called `name`; tensors that it has no use for are named on standard error.
    pub fn load(&self, name: &str, device: &Device) -> Result<Backbone> {
        let folder = self.fetcher().find(name)?;
        let backbone = Backbone::load(&folder, device).context("cannot load the backbone")?;
        if !backbone.unused.is_empty() {
            let names = backbone.unused.join(", ");
            eprintln!("warning: {} has tensors that BERT does not use: {names}", backbone.name);
        }
        Ok(backbone)
    }

    /// The backbone's shape and whether it has a pooler; a known name needs no weights for that.
    pub fn shape(&self, name: &str) -> Result<(BertConfig, bool)> {
        if let Some(known) = KnownBackbone::find(name) {
            return Ok((known.config, known.pooler));
        }
        let folder = self.fetcher().find(name)?;
        let config = BertConfig::read(&folder.join("config.json"))?;
        let pooler = match Checkpoint::open(&folder) {
            Ok(checkpoint) => checkpoint.has("pooler.dense.weight"),
            // A configuration alone is enough to count; BERT has a pooler.
            Err(CheckpointError::NoWeights { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        Ok((config, pooler))
    }
}

impl BackboneArgs {
    /// The backbone as it was named.
    pub fn name(&self) -> Result<&str> {
        self.backbone.as_deref().context("give --backbone: a name of `list backbones`, or a folder")
    }

    /// Loads the backbone: see [`CacheArgs::load`].
    pub fn load(&self, device: &Device) -> Result<Backbone> {
        self.cache.load(self.name()?, device)
    }

    /// The backbone's shape: see [`CacheArgs::shape`].
    pub fn shape(&self) -> Result<(BertConfig, bool)> {
        self.cache.shape(self.name()?)
    }
}
