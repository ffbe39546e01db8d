//! Task files as libraries of Python write and read them. Nothing that is read is executed.

mod adapterhub;
mod merge;
mod peft;
mod tensors;

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use adapter_core::{AdapterConfig, Ia3, Lora, Method, MethodInfo, ParallelAdapters, Pfeiffer, TaskFile, TaskInfo};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::Backbone;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tasks::TaskKind;

pub use merge::merge;

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// AdapterHub's `adapters`.
    Adapterhub,
    /// Hugging Face's `peft`.
    Peft,
}

/// A name that is none of those.
#[derive(Debug, thiserror::Error)]
#[error("unknown format `{0}`")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "adapterhub" => Ok(Format::Adapterhub),
            "peft" => Ok(Format::Peft),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

/// How a task file is written for others.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// For which library.
    pub format: Format,
    /// What the adapter is called there.
    pub name: String,
    /// Whether trained LayerNorms are written into a file of their own, which the library does not read by itself.
    pub layer_norms: bool,
}

/// What is known of a folder of others beside what it says itself.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The task; otherwise what the adapter is called.
    pub task: Option<String>,
    /// The names of the classes, where the folder has none.
    pub labels: Vec<String>,
    /// Longest sequence in tokens.
    pub max_length: Option<usize>,
}

/// Trained LayerNorms, which are loaded by hand: AdapterHub's adapters have no place for them.
pub const LAYER_NORMS: &str = "layer_norms.safetensors";

/// Writes a task file into a folder that the library loads. Returns the names of the files.
///
/// # Errors
/// If the library has no place for something that was trained, or a file cannot be written.
pub fn export(file: &TaskFile, backbone: &Backbone, options: &ExportOptions, folder: &Path) -> Result<Vec<String>> {
    file.check_backbone(&backbone.id())?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    ensure!(
        !options.name.is_empty() && options.name.chars().all(plain),
        "--name {}: use letters, digits, - and _",
        options.name
    );
    let mut written = match options.format {
        Format::Adapterhub => adapterhub::export(file, backbone, &options.name)?,
        Format::Peft => peft::export(file, backbone)?,
    };
    let rest = written.rest(file);
    let is_norm = |name: &&String| name.contains(".LayerNorm.");
    let others: Vec<&str> = rest.iter().filter(|name| !is_norm(name)).map(|name| name.as_str()).collect();
    ensure!(
        others.is_empty(),
        "this format has no place for {} of the trained tensors, such as {}; `merge` writes a whole model",
        others.len(),
        others[0]
    );
    if !rest.is_empty() {
        ensure!(
            options.layer_norms,
            "{} LayerNorm tensors were trained, and what is written has no place for them: it would predict something else. Train with layer_norm = false, or give --layer-norms to write them into {LAYER_NORMS} beside the rest",
            rest.len()
        );
        let norms = rest.iter().map(|name| (name.clone(), file.tensors()[name.as_str()].clone())).collect();
        written.files.insert(LAYER_NORMS.to_owned(), tensors::safetensors(&norms)?);
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, bytes) in &written.files {
        let path = folder.join(name);
        adapter_core::write_atomically(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(written.files.into_keys().collect())
}

/// Reads what a library saved, for a backbone.
///
/// # Errors
/// If a file is missing or damaged, or asks for what this program does not have: the error names the field or the tensor.
pub fn import(folder: &Path, backbone: &Backbone, options: &ImportOptions) -> Result<TaskFile> {
    let path = folder.join(CONFIG);
    let config = read_json(&path)?;
    let imported = if config.get("peft_type").is_some() {
        peft::import(folder, &config, backbone)
    } else {
        adapterhub::import(folder, &config, backbone)
    };
    let Imported { name, method, kind, mut labels, head, tensors } =
        imported.with_context(|| format!("cannot import {}", folder.display()))?;
    let outputs = tensors.get("head.weight").map_or(0, |(shape, _)| shape[1]);
    if !options.labels.is_empty() {
        let (given, found) = (options.labels.len(), outputs);
        ensure!(
            kind == TaskKind::Classification && given == found,
            "{given} labels are given, the head has {found} outputs"
        );
        labels = options.labels.clone();
    }
    let longest = backbone.config.max_position_embeddings;
    let max_length = options.max_length.unwrap_or(longest.min(128));
    ensure!((1..=longest).contains(&max_length), "max_length {max_length}: the backbone takes {longest} at most");
    let info = TaskInfo {
        task: options.task.clone().unwrap_or(name),
        kind: kind.to_string(),
        labels,
        pairs: None,
        head,
        max_length,
        method,
        backbone: backbone.id(),
        origin: Default::default(),
    };
    Ok(TaskFile::new(info, tensors))
}

const CONFIG: &str = "adapter_config.json";

/// What a folder says.
struct Imported {
    name: String,
    method: MethodInfo,
    kind: TaskKind,
    labels: Vec<String>,
    head: String,
    tensors: adapter_core::Tensors,
}

/// A method that libraries know.
enum Portable {
    Bottleneck(AdapterConfig),
    Lora(Lora),
    Ia3(Ia3),
}

impl Portable {
    fn of(method: &MethodInfo) -> Result<Self> {
        fn read<M: DeserializeOwned>(method: &MethodInfo) -> Result<M> {
            Ok(serde_json::from_value(Value::Object(method.config.clone()))?)
        }
        Ok(match method.name.as_str() {
            AdapterConfig::NAME => Portable::Bottleneck(read(method)?),
            Pfeiffer::NAME => Portable::Bottleneck(read::<Pfeiffer>(method)?.adapters()),
            ParallelAdapters::NAME => Portable::Bottleneck(read::<ParallelAdapters>(method)?.adapters()),
            Lora::NAME => Portable::Lora(read(method)?),
            Ia3::NAME => Portable::Ia3(read(method)?),
            name => bail!("`{name}` is no adapter of any library; `merge` writes the whole model"),
        })
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let hint = || format!("cannot read {}", path.display());
    let bytes = adapter_core::read_file(path, 64 << 20).with_context(hint)?;
    let value: Value = serde_json::from_slice(&bytes).with_context(hint)?;
    ensure!(value.is_object(), "{}: it is no configuration", path.display());
    Ok(value)
}

/// The first of some files that is there.
fn first_of(folder: &Path, names: &[&str]) -> Result<PathBuf> {
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{}: there is none of {}", folder.display(), names.join(", ")))
}
