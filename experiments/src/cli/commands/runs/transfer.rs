//! `runs export` and `runs import`: records in one file.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::{
    cli::output::print,
    run::{Imported, RunStore},
};

/// Write all records of a folder into one file, which `report --runs FILE` reads; trained tensors stay behind
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Folder of the runs
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// The file; its name ends in .jsonl.gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Take the records of such a file for finished runs: they are not run again
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    export: PathBuf,
    /// Folder of the runs
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Exported {
    file: PathBuf,
    documents: usize,
}

pub fn export(ExportArgs { runs, out, json }: &ExportArgs) -> Result<()> {
    let named = out.to_string_lossy().ends_with(analysis::EXPORT);
    ensure!(named, "--out {}: its name must end in {}", out.display(), analysis::EXPORT);
    ensure!(runs.is_dir(), "there is no folder {}", runs.display());
    let documents = analysis::export(runs, out)
        .with_context(|| format!("cannot export {} to {}", runs.display(), out.display()))?;
    let exported = Exported { file: out.clone(), documents };
    print(&exported, *json, || format!("{documents} documents: {}\n", out.display()))
}

pub fn import(ImportArgs { export, runs, json }: &ImportArgs) -> Result<()> {
    let imported = RunStore::new(runs).import(export)?;
    let Imported { new, already_there } = imported;
    print(&imported, *json, || format!("{new} documents are new in {}, {already_there} were there\n", runs.display()))
}
