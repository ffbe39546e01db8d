//! Options that several commands share.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, BertConfig, Fetcher};
use burn::tensor::Device;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::progress::Notes;
use crate::{
    device::{DeviceName, Devices, Precision},
    run::{FileOptions, RunContext, Tracking},
};

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
#[derive(Args, Clone, Debug)]
pub struct CacheArgs {
    /// Folder of fetched backbones and data [default: adapter-lab in the user's cache folder]
    #[arg(long, env = "ADAPTER_LAB_CACHE", value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

impl CacheArgs {
    /// A fetcher for that folder.
    pub fn fetcher(&self) -> Fetcher {
        self.context().fetcher()
    }

    /// Where a command without runs finds what it needs.
    pub fn context(&self) -> RunContext {
        RunContext { cache_dir: self.cache_dir.clone(), ..RunContext::default() }
    }
}

impl BackboneArgs {
    /// The backbone as it was named.
    pub fn name(&self) -> Result<&str> {
        self.backbone.as_deref().context("give --backbone: a name of `list backbones`, or a folder")
    }

    /// Loads the backbone.
    pub fn load(&self, device: &Device) -> Result<Backbone> {
        self.cache.context().backbone(self.name()?, device, &mut Notes)
    }

    /// The backbone's shape and whether it has a pooler.
    pub fn shape(&self) -> Result<(BertConfig, bool)> {
        self.cache.context().backbone_shape(self.name()?)
    }
}

/// Where the files of known tasks are.
#[derive(Args, Clone, Debug)]
pub struct DataArgs {
    /// Folder with glue_data/, additional/, squad/ and hub/ [default: where `fetch` puts data]
    #[arg(long, env = "ADAPTER_LAB_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl DataArgs {
    /// The folder, beside the backbones if nothing else is said.
    pub fn folder(&self, cache: &CacheArgs) -> PathBuf {
        RunContext { data_dir: self.data_dir.clone(), ..cache.context() }.data_folder()
    }
}

/// Where to compute.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Where to compute (see `list devices`)
    #[arg(long, env = "ADAPTER_LAB_DEVICE", default_value_t = DeviceName::Flex)]
    pub device: DeviceName,
}

/// Where to compute, and how precisely.
#[derive(Args, Clone, Debug)]
pub struct ComputeArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Precision of the network; normalisations, softmax, loss and optimiser are in f32
    #[arg(long, default_value_t = Precision::F32, value_parser = named::<Precision>(&["f32", "f16", "bf16"]))]
    pub dtype: Precision,
}

impl ComputeArgs {
    /// What they come to.
    pub fn devices(&self) -> Devices {
        Devices { precision: self.dtype, ..Devices::from(self.device.device) }
    }
}

/// Where to train, and how precisely.
#[derive(Args, Clone, Debug)]
struct TrainingPlaceArgs {
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// Several devices instead of --device, separated by commas: each takes its share of every batch, gradients are averaged
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…")]
    pub devices: Vec<DeviceName>,
}

impl TrainingPlaceArgs {
    fn devices(&self) -> Devices {
        let one = self.compute.devices();
        if self.devices.is_empty() { one } else { Devices { names: self.devices.clone(), ..one } }
    }
}

/// Where runs find what they need and how they are kept.
#[derive(Args, Clone, Debug)]
pub struct ContextArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    place: TrainingPlaceArgs,
    /// Seconds between two checkpoints of a run that is kept
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    checkpoint_every: f64,
    #[command(flatten)]
    track: TrackArgs,
}

/// Who follows runs.
#[derive(Args, Clone, Debug)]
struct TrackArgs {
    /// Programs that follow the runs that are kept: tensorboard (`tensorboard --logdir RUNS/tensorboard`), mlflow (the server of
    /// MLFLOW_TRACKING_URI)
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = named::<Tracking>(&["tensorboard", "mlflow"]))]
    track: Vec<Tracking>,
}

/// Where runs on one device, in f32, find what they need.
#[derive(Args, Clone, Debug)]
pub struct OneDeviceArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The same for the trials of a search, which have no checkpoints.
#[derive(Args, Clone, Debug)]
pub struct TrialContextArgs {
    #[command(flatten)]
    place: OneDeviceArgs,
    #[command(flatten)]
    track: TrackArgs,
}

impl ContextArgs {
    /// What they come to, with runs in this folder.
    pub fn context(&self, runs: Option<PathBuf>) -> Result<RunContext> {
        ensure!(runs.is_some() || self.track.track.is_empty(), "--track follows runs that are kept: give --runs");
        Ok(RunContext {
            data_dir: self.data.data_dir.clone(),
            cache_dir: self.cache.cache_dir.clone(),
            devices: self.devices(),
            runs,
            checkpoint_every: Duration::try_from_secs_f64(self.checkpoint_every).context("--checkpoint-every")?,
            track: self.track.checked()?,
        })
    }

    /// The devices.
    pub fn devices(&self) -> Devices {
        self.place.devices()
    }
}

impl TrackArgs {
    fn checked(&self) -> Result<Vec<Tracking>> {
        self.track.iter().try_for_each(|tracking| tracking.check())?;
        Ok(self.track.clone())
    }
}

impl OneDeviceArgs {
    /// What they come to, with runs in this folder.
    pub fn context(&self, runs: Option<PathBuf>) -> RunContext {
        RunContext {
            data_dir: self.data.data_dir.clone(),
            devices: Devices::from(self.device.device),
            runs,
            ..self.cache.context()
        }
    }
}

impl TrialContextArgs {
    /// What they come to, with trials in this folder.
    pub fn context(&self, runs: PathBuf) -> Result<RunContext> {
        Ok(RunContext { track: self.track.checked()?, ..self.place.context(Some(runs)) })
    }
}

/// Reads one of some names.
pub fn named<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// `remembered` with what flags change of it, key by key.
pub fn merged_files(remembered: &FileOptions, given: &crate::lab::Keys) -> FileOptions {
    let mut files = serde_json::to_value(remembered).unwrap_or_default();
    let known = given.iter().filter(|(key, _)| crate::run::FILE_KEYS.iter().any(|known| known.name == *key));
    known.for_each(|(key, value)| files[key.as_str()] = value.clone());
    serde_json::from_value(files).unwrap_or_else(|_| remembered.clone())
}

/// Refuses a place that cannot be written, before the work whose result goes there.
pub fn check_writable(path: &Path) -> Result<()> {
    check_place(path, path)
}

/// The same for a folder.
pub fn check_folder(folder: &Path) -> Result<()> {
    check_place(&folder.join(".adapter-lab"), folder)
}

/// Tries to write `path`; an error names `shown`.
fn check_place(path: &Path, shown: &Path) -> Result<()> {
    adapter_core::check_writable(path).with_context(|| format!("cannot write {}", shown.display()))
}
