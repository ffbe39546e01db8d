//! `export`, `import` and `merge`: task files for libraries of Python, and theirs for us.

use std::path::PathBuf;

use adapter_core::TaskFile;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        Session,
        args::{BackboneArgs, DeviceArgs, check_writable, named},
        output::print,
        saved::FileArgs,
    },
    exchange::{ExportOptions, Format, ImportOptions, export, import, merge},
};

/// Write a task file into a folder that a library of Python loads
///
/// adapterhub: `model.load_adapter(DIR, use_safetensors=True)`; peft: `PeftModel.from_pretrained(model, DIR)`. What the library has no
/// place for is refused.
#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    saved: FileArgs,
    /// The library
    #[arg(long, value_parser = named::<Format>(&["adapterhub", "peft"]))]
    format: Format,
    /// The folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What the adapter is called there [default: the task]
    #[arg(long)]
    name: Option<String>,
    /// Write trained LayerNorms into layer_norms.safetensors, which the library does not load by itself
    #[arg(long)]
    layer_norms: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Make a task file of what a library of Python saved
///
/// The folder is one of AdapterHub's `save_adapter(DIR, NAME, with_head=True)`, or of peft's `save_pretrained(DIR)`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    backbone: BackboneArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// The task file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The task that it was trained on [default: what the adapter is called]
    #[arg(long)]
    task: Option<String>,
    /// Names of the classes, in the order of the head's outputs [default: as the folder has them]
    #[arg(long, value_delimiter = ',', value_name = "LABEL,…")]
    labels: Vec<String>,
    /// Longest sequence in tokens [default: 128, or the backbone's]
    #[arg(long, value_name = "TOKENS")]
    max_length: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Write the backbone with what was trained in it as a plain BERT in Hugging Face layout
///
/// For methods that change weights and nothing else: lora, full, top-k, bias, layer-norm; and for features and head, which change none.
/// The head is in the model where transformers has one like it (pooler: BertForSequenceClassification), and in v.safetensors, with
/// which `predict` and `eval` go on.
#[derive(Args, Debug)]
pub struct MergeArgs {
    #[command(flatten)]
    saved: FileArgs,
    /// The folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Exported {
    folder: PathBuf,
    files: Vec<String>,
}

#[derive(Serialize)]
struct ImportedFile<'a> {
    file: PathBuf,
    #[serde(flatten)]
    info: &'a adapter_core::TaskInfo,
}

pub fn run_export(args: &ExportArgs, session: &Session<'_>) -> Result<()> {
    let file = TaskFile::read(&args.saved.adapter)?;
    let saved = args.saved.load(session)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name = args.name.clone().unwrap_or_else(|| file.info.task.chars().map(plain).collect());
    let options = ExportOptions { format: args.format, name, layer_norms: args.layer_norms };
    let files = export(&file, &saved.backbone, &options, &args.out)
        .with_context(|| format!("cannot export {}", args.saved.adapter.display()))?;
    let exported = Exported { folder: args.out.clone(), files };
    print(&exported, args.json, || format!("{}: {}\n", args.out.display(), exported.files.join(", ")))
}

pub fn run_merge(args: &MergeArgs, session: &Session<'_>) -> Result<()> {
    let file = TaskFile::read(&args.saved.adapter)?;
    let saved = args.saved.load(session)?;
    let files = merge(&file, &saved.backbone, &args.out)
        .with_context(|| format!("cannot merge {}", args.saved.adapter.display()))?;
    let merged = Exported { folder: args.out.clone(), files };
    print(&merged, args.json, || format!("{}: {}\n", args.out.display(), merged.files.join(", ")))
}

pub fn run_import(args: &ImportArgs, session: &Session<'_>) -> Result<()> {
    check_writable(&args.out)?;
    let device = args.device.device.open()?;
    let backbone = args.backbone.load(&device)?;
    let options = ImportOptions { task: args.task.clone(), labels: args.labels.clone(), max_length: args.max_length };
    let file = import(&args.folder, &backbone, &options)?;
    // What cannot be loaded is said now, and not when it is needed.
    session.lab.load(&backbone, file.clone(), &device)?;
    file.write(&args.out)?;
    let imported = ImportedFile { file: args.out.clone(), info: &file.info };
    print(&imported, args.json, || {
        let info = &file.info;
        format!("{}: `{}` for {} on {}\n", args.out.display(), info.method.name, info.task, info.backbone)
    })
}
