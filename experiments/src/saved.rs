//! A task's saved v, loaded onto its backbone and put to use.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Debug,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use adapter_core::{Adapter, TaskFile, TaskInfo};
use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, Fetcher};
use burn::tensor::Device;
use clap::Args;
use tasks::{Example, Prediction, TaskKind, TaskModel, TokenCache, outputs};

use crate::{backbones::CacheArgs, device_args::ComputeArgs, task_args::token_cache};

/// Which saved v, and how to run it.
#[derive(Args, Clone, Debug)]
pub struct SavedArgs {
    /// The per-task file
    #[arg(long, value_name = "FILE")]
    pub adapter: PathBuf,
    #[command(flatten)]
    pub how: UseArgs,
}

/// How to run a saved v.
#[derive(Args, Clone, Debug)]
pub struct UseArgs {
    /// The backbone it was trained on: a known name or a folder [default: the name in the file]
    #[arg(long, value_name = "NAME|FOLDER")]
    pub backbone: Option<String>,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Sequences of a batch
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub batch_size: usize,
    /// Longest sequence in tokens [default: as in training]
    #[arg(long, value_name = "TOKENS")]
    pub max_length: Option<usize>,
    #[command(flatten)]
    pub compute: ComputeArgs,
}

/// A model ready to predict.
#[derive(Clone)]
pub struct Saved {
    /// What the file says of itself.
    pub info: TaskInfo,
    /// What the task asks for.
    pub kind: TaskKind,
    /// The backbone.
    pub backbone: Rc<Backbone>,
    model: TaskModel<Option<Adapter>>,
    device: Device,
    batch_size: usize,
    max_length: Option<usize>,
    fetcher: Fetcher,
}

impl SavedArgs {
    /// Loads the file onto its backbone.
    pub fn load(&self) -> Result<Saved> {
        self.how.load(&self.adapter)
    }
}

impl UseArgs {
    /// Loads a per-task file onto its backbone.
    pub fn load(&self, adapter: &Path) -> Result<Saved> {
        self.load_all(&[adapter.to_owned()])?.pop().context("no per-task file")
    }

    /// Loads per-task files onto their backbones; those of the same backbone share it.
    pub fn load_all(&self, adapters: &[PathBuf]) -> Result<Vec<Saved>> {
        let files = adapters.iter().map(|adapter| TaskFile::read(adapter)).collect::<Result<Vec<_>, _>>()?;
        let device = self.compute.open()?;
        let mut backbones: BTreeMap<String, Rc<Backbone>> = BTreeMap::new();
        let mut load = |(adapter, file): (&PathBuf, TaskFile)| {
            let name = self.backbone.as_ref().unwrap_or(&file.info.backbone.name).clone();
            let backbone = match backbones.entry(name) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    let backbone = Rc::new(self.cache.load(new.key(), &device)?);
                    new.insert(backbone).clone()
                }
            };
            self.saved(file, backbone, &device).with_context(|| format!("cannot use {}", adapter.display()))
        };
        adapters.iter().zip(files).map(&mut load).collect()
    }

    fn saved(&self, file: TaskFile, backbone: Rc<Backbone>, device: &Device) -> Result<Saved> {
        let info = file.info.clone();
        let model = TaskModel::load(&backbone, file, device)?;
        let model = self.compute.dtype.of(model);
        Ok(Saved {
            kind: info.kind.parse()?,
            info,
            backbone,
            model,
            device: device.clone(),
            batch_size: self.batch_size,
            max_length: self.max_length,
            fetcher: self.cache.fetcher(),
        })
    }
}

impl Saved {
    /// The model.
    pub fn model(&self) -> &TaskModel<Option<Adapter>> {
        &self.model
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sequences of a batch.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Refuses a task that the file was not trained for.
    pub fn check_task(&self, task: &str, kind: TaskKind, labels: &[impl AsRef<str> + Debug]) -> Result<()> {
        let same_labels = self.info.labels.iter().map(String::as_str).eq(labels.iter().map(AsRef::as_ref));
        ensure!(
            kind == self.kind && same_labels,
            "the file was trained for {} with labels {:?}; task `{task}` is {kind} with {labels:?}",
            self.kind,
            self.info.labels,
        );
        Ok(())
    }

    /// The cache for texts that come again.
    pub fn token_cache(&self) -> TokenCache {
        token_cache(&self.fetcher)
    }

    /// The longest sequence: as asked for, or as in training.
    pub fn max_length(&self) -> usize {
        self.max_length.unwrap_or(self.info.max_length)
    }

    /// Predictions for texts.
    pub fn predict(&self, examples: &[Example], cache: &TokenCache) -> Result<Vec<Prediction>> {
        let tokens = cache.texts(examples, &self.backbone.tokenizer, self.max_length())?;
        let rows = outputs(&self.model, &Arc::new(tokens), &self.backbone.config, self.batch_size, &self.device)?;
        Ok(rows.iter().map(|row| Prediction::from_outputs(self.kind, row)).collect())
    }
}
