//! Where runs find what they need, and where they keep what they make.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bert_backbone::{Backbone, BertConfig, Checkpoint, CheckpointError, Fetcher, KnownBackbone};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use tasks::{Dataset, FileTask, HubTask, TaskData, TaskKind, TokenCache};

use super::{Tracking, keys::FILE_KEYS};
use crate::{
    device::Devices,
    lab::{Keys, Lab},
    train::Watch,
};

/// Where runs find what they need, and where they keep what they make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunContext {
    /// Folder of the known tasks' files; `None` is where `fetch` puts them.
    pub data_dir: Option<PathBuf>,
    /// Folder of fetched backbones; `None` is the user's cache.
    pub cache_dir: Option<PathBuf>,
    /// Where to compute.
    pub devices: Devices,
    /// Folder of the runs; `None` keeps nothing.
    pub runs: Option<PathBuf>,
    /// Time between two checkpoints of a run.
    pub checkpoint_every: Duration,
    /// Programs that follow runs.
    #[serde(default)]
    pub track: Vec<Tracking>,
}

impl Default for RunContext {
    fn default() -> Self {
        Self {
            data_dir: None,
            cache_dir: None,
            devices: Devices::default(),
            runs: None,
            checkpoint_every: Duration::from_secs(60),
            track: Vec::new(),
        }
    }
}

impl RunContext {
    /// The same places, wherever a process is started.
    pub fn absolute(&self) -> Self {
        let absolute = |path: &Option<PathBuf>| path.as_deref().map(absolute_path);
        let (data_dir, cache_dir, runs) = (absolute(&self.data_dir), absolute(&self.cache_dir), absolute(&self.runs));
        Self { data_dir, cache_dir, runs, ..self.clone() }
    }

    /// A fetcher for the folder of backbones.
    pub fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.cache_dir.clone().unwrap_or_else(Fetcher::default_cache))
    }

    /// The folder of the known tasks' files.
    pub fn data_folder(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| self.fetcher().cache.join("data"))
    }

    /// Where word pieces are kept: beside the fetched backbones.
    pub fn token_cache(&self) -> TokenCache {
        TokenCache::new(self.fetcher().cache.join("tokens"))
    }

    /// Loads the backbone called `name`; tensors that it has no use for are noted.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn backbone(&self, name: &str, device: &Device, watch: &mut dyn Watch) -> Result<Backbone> {
        let folder = self.fetcher().find(name)?;
        let backbone = Backbone::load(&folder, device).context("cannot load the backbone")?;
        if !backbone.unused.is_empty() {
            let names = backbone.unused.join(", ");
            watch.note(&format!("{} has tensors that BERT does not use: {names}", backbone.name));
        }
        Ok(backbone)
    }

    /// The backbone's shape and whether it has a pooler; a known name needs no weights for that.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn backbone_shape(&self, name: &str) -> Result<(BertConfig, bool)> {
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

    /// Checks that there is such a task and that its files are there, without reading them.
    ///
    /// # Errors
    /// If there is no such task, or a file is missing.
    pub fn check_task(&self, lab: &Lab, name: &str) -> Result<()> {
        if !is_own_data(name) {
            lab.tasks.find(name)?.check_files(&self.data_folder())?;
        }
        Ok(())
    }

    /// Reads the task called `name`. What a user should know of it is noted; `labels` are those of a model that is to be used on
    /// a file of the user's own.
    ///
    /// # Errors
    /// If there is no such task, or a file is missing or not as it must be.
    pub fn load_task(
        &self,
        lab: &Lab,
        name: &str,
        files: &FileOptions,
        labels: Option<&[String]>,
        watch: &mut dyn Watch,
    ) -> Result<TaskData> {
        let known_labels = labels.filter(|labels| !labels.is_empty()).map(<[String]>::to_vec);
        let own = |path: &str| FileTask { known_labels, ..files.task(Path::new(path)) };
        let data = if let Some(path) = name.strip_prefix("file:") {
            TaskData::Texts(own(path).load()?)
        } else if HubTask::is_name(name) {
            let files = HubTask::parse(name)?.files(&self.data_folder(), own(""))?;
            TaskData::Texts(Dataset { task: name.to_owned(), ..files.load()? })
        } else {
            lab.tasks.find(name)?.load(&self.data_folder())?
        };
        if let TaskData::Texts(dataset) = &data {
            dataset.notes.iter().for_each(|note| watch.note(&format!("{}: {note}", dataset.task)));
        }
        Ok(data)
    }
}

/// Whether a task's name means data that no lab knows: `file:PATH` or `hub:OWNER/NAME`.
pub fn is_own_data(task: &str) -> bool {
    task.starts_with("file:") || HubTask::is_name(task)
}

/// Which columns of which files make a task of one's own (`file:PATH`, `hub:OWNER/NAME`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileOptions {
    /// The text's column.
    pub text_column: String,
    /// The second text's column.
    pub pair_column: Option<String>,
    /// The column of labels or scores.
    pub label_column: String,
    /// What that column holds.
    pub labels: Labels,
    /// Examples to choose by; otherwise a tenth of the file.
    pub validation_file: Option<PathBuf>,
    /// Examples to report on; otherwise a tenth of the file.
    pub test_file: Option<PathBuf>,
}

/// What a label column holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Labels {
    /// One class.
    #[default]
    Class,
    /// A number.
    Score,
    /// Several labels: a JSON list, or divided by `|`.
    Several,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            text_column: "text".to_owned(),
            pair_column: None,
            label_column: "label".to_owned(),
            labels: Labels::Class,
            validation_file: None,
            test_file: None,
        }
    }
}

impl FileOptions {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses keys of files among those that were `given` for a known task: its data is its own, and nothing would read them.
    ///
    /// # Errors
    /// Which keys.
    pub fn check_given(lab: &Lab, given: &Keys, task: &str) -> Result<()> {
        let Ok(known) = lab.tasks.find(task) else { return Ok(()) };
        let keys: Vec<&str> = FILE_KEYS.iter().map(|key| key.name).filter(|key| given.contains_key(*key)).collect();
        let are = if keys.len() == 1 { "is" } else { "are" };
        let (name, listed) = (&known.name, keys.join(", "));
        ensure!(keys.is_empty(), "`{name}` has its own data: {listed} {are} for file: and hub: tasks");
        Ok(())
    }

    /// The same files, wherever this program is started.
    pub fn absolute(&self) -> Self {
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| absolute_path(path));
        let (validation_file, test_file) = (absolute(&self.validation_file), absolute(&self.test_file));
        Self { validation_file, test_file, ..self.clone() }
    }

    /// The file in `path`, read so.
    pub(crate) fn task(&self, path: &Path) -> FileTask {
        FileTask {
            text_column: self.text_column.clone(),
            pair_column: self.pair_column.clone(),
            label_column: self.label_column.clone(),
            kind: match self.labels {
                Labels::Class => TaskKind::Classification,
                Labels::Score => TaskKind::Regression,
                Labels::Several => TaskKind::MultiLabel,
            },
            validation_file: self.validation_file.clone(),
            test_file: self.test_file.clone(),
            ..FileTask::new(path)
        }
    }
}

/// How a file of one's own is read, out of all keys.
///
/// # Errors
/// If a value makes no sense.
pub fn file_options(keys: &Keys) -> Result<FileOptions> {
    let known = |key: &str| FILE_KEYS.iter().any(|known| known.name == key);
    let own = keys.iter().filter(|(key, _)| known(key)).map(|(key, value)| (key.clone(), value.clone()));
    Ok(serde_json::from_value(serde_json::Value::Object(own.collect()))?)
}

/// A path that is good from any folder.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A task's or a backbone's name as it is good from any folder.
pub(super) fn absolute_name(name: &str) -> String {
    match name.strip_prefix("file:") {
        Some(path) => format!("file:{}", absolute_path(Path::new(path)).display()),
        None if Path::new(name).is_dir() => absolute_path(Path::new(name)).display().to_string(),
        None => name.to_owned(),
    }
}
