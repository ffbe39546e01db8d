//! Task files, loaded onto their backbones and put to use.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use adapter_core::{TaskFile, TaskInfo};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::Backbone;
use burn::tensor::Device;
use clap::Args;
use serde_json::Value;
use tasks::{Example, Prediction, TaskData, TaskKind, TokenCache};

use super::{
    Session,
    args::{CacheArgs, ComputeArgs, DataArgs, DeviceArgs, merged_files},
    progress::Notes,
};
use crate::{
    device::Precision,
    lab::{AnyModel, Inference, Keys},
    run::{FileOptions, Origin, RunContext, is_own_data},
};

/// Sequences of a batch, unless another number is asked for.
const BATCH: usize = 64;

/// Which task file, and how to run it.
#[derive(Args, Clone, Debug)]
pub struct SavedArgs {
    /// The task file, as `train --save` writes it
    #[arg(long, value_name = "FILE")]
    pub adapter: PathBuf,
    #[command(flatten)]
    pub how: UseArgs,
}

/// Which task file, where nothing is computed with it.
#[derive(Args, Clone, Debug)]
pub struct FileArgs {
    /// The task file, as `train --save` writes it
    #[arg(long, value_name = "FILE")]
    pub adapter: PathBuf,
    /// The backbone it was trained on: a known name or a folder [default: as the file remembers it]
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// How to run a task file.
#[derive(Args, Clone, Debug)]
pub struct UseArgs {
    /// The backbone it was trained on: a known name or a folder [default: as the file remembers it]
    #[arg(long, value_name = "NAME|FOLDER")]
    pub backbone: Option<String>,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Sequences of a batch
    #[arg(long, default_value_t = BATCH, value_name = "N")]
    pub batch_size: usize,
    /// Longest sequence in tokens [default: as in training]
    #[arg(long, value_name = "TOKENS")]
    pub max_length: Option<usize>,
    #[command(flatten)]
    pub compute: ComputeArgs,
}

/// The task that a task file is scored on.
#[derive(Args, Clone, Debug)]
pub struct ScoredTaskArgs {
    /// A known task (see `list tasks`), file:PATH or hub:OWNER/NAME [default: the task that the file was trained on]
    #[arg(long, value_name = "NAME|file:PATH|hub:NAME")]
    pub task: Option<String>,
    #[command(flatten)]
    data: DataArgs,
}

/// A model ready to predict.
pub struct Saved {
    /// The task file.
    file: PathBuf,
    /// What the file says of itself.
    pub info: TaskInfo,
    /// What the task asks for.
    pub kind: TaskKind,
    /// The backbone.
    pub backbone: Rc<Backbone>,
    /// The model.
    pub model: Box<dyn AnyModel>,
    device: Device,
    batch_size: usize,
    max_length: Option<usize>,
    context: RunContext,
}

impl ScoredTaskArgs {
    /// Refuses a mistyped task, before a backbone is loaded.
    pub fn check(&self, session: &Session<'_>) -> Result<()> {
        let known = self.task.as_deref().filter(|task| !is_own_data(task));
        known.map_or(Ok(()), |task| Ok(session.lab.tasks.find(task).map(drop)?))
    }
}

impl FileArgs {
    /// Loads the file onto its backbone: what does not fit is an error before anything is written.
    pub fn load(&self, session: &Session<'_>) -> Result<Saved> {
        let Self { adapter, backbone, cache, device } = self.clone();
        let compute = ComputeArgs { device, dtype: Precision::F32 };
        let how = UseArgs { backbone, cache, batch_size: BATCH, max_length: None, compute };
        SavedArgs { adapter, how }.load(session)
    }
}

impl SavedArgs {
    /// Loads the file onto its backbone.
    pub fn load(&self, session: &Session<'_>) -> Result<Saved> {
        let mut saved = self.how.load_all(std::slice::from_ref(&self.adapter), session)?;
        saved.pop().context("no task file")
    }
}

impl UseArgs {
    /// Loads task files onto their backbones; those of the same backbone share it.
    pub fn load_all(&self, adapters: &[PathBuf], session: &Session<'_>) -> Result<Vec<Saved>> {
        let files = adapters.iter().map(|adapter| TaskFile::read(adapter)).collect::<Result<Vec<_>, _>>()?;
        // A method that this program does not have is said before a backbone is loaded.
        for (adapter, file) in adapters.iter().zip(&files) {
            session.lab.configure(&file.info.method).with_context(|| format!("cannot use {}", adapter.display()))?;
        }
        let device = self.compute.devices().first()?;
        let mut backbones: BTreeMap<String, Rc<Backbone>> = BTreeMap::new();
        let mut load = |(adapter, file): (&PathBuf, TaskFile)| {
            let name = self.backbone_of(adapter, &file.info)?;
            let backbone = match backbones.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let loaded = self.cache.context().backbone(&name, &device, &mut Notes);
                    let backbone = Rc::new(loaded.with_context(|| remembered(adapter, &file.info))?);
                    backbones.insert(name, backbone.clone());
                    backbone
                }
            };
            let saved = self.saved(adapter, file, backbone, &device, session);
            saved.with_context(|| format!("cannot use {}", adapter.display()))
        };
        adapters.iter().zip(files).map(&mut load).collect()
    }

    /// The backbone to load: as asked for, or where the file remembers it, or by its name.
    fn backbone_of(&self, adapter: &Path, info: &TaskInfo) -> Result<String> {
        if let Some(name) = &self.backbone {
            return Ok(name.clone());
        }
        let place = info.origin.get("backbone").and_then(Value::as_str);
        let known = [place, Some(&info.backbone.name)].into_iter().flatten();
        let fetcher = self.cache.fetcher();
        let found = known.clone().find(|name| Path::new(name).is_dir() || fetcher.has(name));
        // A known name that was not fetched has an error of its own, which says how to fetch it.
        let known = known.clone().find(|name| bert_backbone::KnownBackbone::find(name).is_some());
        match found.or(known) {
            Some(name) => Ok(name.to_owned()),
            None => bail!("{}; give --backbone", remembered(adapter, info)),
        }
    }

    fn saved(
        &self,
        adapter: &Path,
        file: TaskFile,
        backbone: Rc<Backbone>,
        device: &Device,
        session: &Session<'_>,
    ) -> Result<Saved> {
        let info = file.info.clone();
        let model = session.lab.load(&backbone, file, device)?;
        Ok(Saved {
            file: adapter.to_owned(),
            kind: info.kind.parse()?,
            info,
            backbone,
            model: model.in_precision(self.compute.dtype),
            device: device.clone(),
            batch_size: self.batch_size,
            max_length: self.max_length,
            context: self.cache.context(),
        })
    }
}

/// Where a file's backbone was.
fn remembered(adapter: &Path, info: &TaskInfo) -> String {
    let (file, name) = (adapter.display(), &info.backbone.name);
    match info.origin.get("backbone").and_then(Value::as_str) {
        Some(place) if place != name => format!("{file} was trained on the backbone `{name}`, which was in {place}"),
        _ => format!("{file} was trained on the backbone `{name}`"),
    }
}

/// The task that a file is scored on: as asked for, or as the file remembers it.
pub struct ChosenTask {
    pub name: String,
    pub files: FileOptions,
    pub context: RunContext,
}

impl ChosenTask {
    /// Its data. Where the task is a file of the user's own, its labels are those of the model.
    pub fn load(&self, saved: &Saved, session: &Session<'_>) -> Result<TaskData> {
        self.context.load_task(session.lab, &self.name, &self.files, Some(&saved.info.labels), &mut Notes)
    }
}

impl Saved {
    /// Where the file's backbone and data were, if it remembers that.
    fn origin(&self) -> Option<Origin> {
        serde_json::from_value(Value::Object(self.info.origin.clone())).ok()
    }

    /// How the file's data was read, as far as it remembers that.
    pub fn files(&self) -> FileOptions {
        self.origin().map(|origin| origin.files).unwrap_or_default()
    }

    /// The task to score the file on: as asked for, or as the file remembers it.
    pub fn task(&self, args: &ScoredTaskArgs, session: &Session<'_>) -> Result<ChosenTask> {
        let asked = args.task.as_deref();
        let origin = self.origin();
        let is_same = |origin: &Origin| asked.is_none_or(|asked| asked == origin.task || asked == self.info.task);
        // Another file has the same columns, but files of its own.
        let remembered = origin.as_ref().map(|origin| {
            let files = origin.files.clone();
            if is_same(origin) { files } else { FileOptions { validation_file: None, test_file: None, ..files } }
        });
        let files = merged_files(&remembered.unwrap_or_default(), &session.keys);
        let origin = origin.filter(is_same);
        let name = match (asked, &origin) {
            (Some(asked), _) => asked.to_owned(),
            (None, Some(origin)) => origin.task.clone(),
            (None, None) => self.info.task.clone(),
        };
        let file = self.file.display();
        ensure!(
            asked.is_some() || is_own_data(&name) || session.lab.tasks.find(&name).is_ok(),
            "{file} is for the task `{name}`, which is not known here: give --task file:PATH"
        );
        FileOptions::check_given(session.lab, &session.keys, &name)?;
        self.check_places(asked, &name, &files, &session.keys)?;
        let data_dir = args.data.data_dir.clone().or(origin.and_then(|origin| origin.data_dir));
        Ok(ChosenTask { name, files, context: RunContext { data_dir, ..self.context.clone() } })
    }

    /// Refuses files that are not where the task file remembers them, unless they were `given`.
    fn check_places(&self, asked: Option<&str>, task: &str, files: &FileOptions, given: &Keys) -> Result<()> {
        let file = self.file.display();
        let held = [
            ("validation_file", "--validation-file", &files.validation_file),
            ("test_file", "--test-file", &files.test_file),
        ];
        let own = task.strip_prefix("file:").map(Path::new);
        if let Some(path) = own.filter(|path| asked.is_none() && !path.exists()) {
            // Another file has no others beside it.
            let others =
                held.iter().filter(|(.., path)| path.is_some()).map(|(_, option, _)| format!(" {option} PATH"));
            bail!(
                "{file} was trained on {}, which is not there: give --task file:PATH{}",
                path.display(),
                others.collect::<String>()
            );
        }
        for (key, option, path) in held.into_iter().filter(|_| is_own_data(task)) {
            if let Some(path) = path.as_deref().filter(|path| !given.contains_key(key) && !path.exists()) {
                bail!("{file} was trained with {}, which is not there: give {option} PATH", path.display());
            }
        }
        Ok(())
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

    /// How it is run over many texts.
    pub fn inference(&self) -> Inference<'_> {
        Inference { network: &self.backbone.config, batch_size: self.batch_size, device: &self.device }
    }

    /// The cache for texts that come again.
    pub fn token_cache(&self) -> TokenCache {
        self.context.token_cache()
    }

    /// The longest sequence: as asked for, or as in training.
    pub fn max_length(&self) -> usize {
        self.max_length.unwrap_or(self.info.max_length)
    }

    /// Predictions for texts.
    pub fn predict(&self, examples: &[Example], cache: &TokenCache) -> Result<Vec<Prediction>> {
        let tokens = cache.texts(examples, &self.backbone.tokenizer, self.max_length())?;
        let rows = self.model.outputs(&Arc::new(tokens), self.inference())?;
        let finite = rows.iter().flatten().all(|output| output.is_finite());
        ensure!(finite, "the network's outputs are not finite: there is nothing to predict with them");
        Ok(rows.iter().map(|row| Prediction::from_outputs(self.kind, row)).collect())
    }
}
