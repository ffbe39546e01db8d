//! `runs export` and `runs import`: records in one file.

use std::path::PathBuf;

use adapter_core::write_atomically;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::list::csv;
use crate::{
    cli::output::{print, print_text},
    lab::Lab,
    run::{Imported, RunStore},
};

/// Write the records of a folder into one file, which `report --runs FILE` reads; trained tensors stay behind
///
/// With --csv the runs become a table for other programs: a line for each, with its scores and a column for every key.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Folder of the runs
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// The file: NAME.jsonl.gz, or any name with --csv
    #[arg(long, value_name = "FILE", required_unless_present = "csv")]
    out: Option<PathBuf>,
    /// Only these experiments, with their runs [default: everything]
    #[arg(long = "experiment", value_name = "NAME,…", value_delimiter = ',', conflicts_with = "csv")]
    experiments: Vec<String>,
    /// Comma-separated values instead, on standard output if --out names no file
    #[arg(long)]
    csv: bool,
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

pub fn export(args: &ExportArgs, lab: &Lab) -> Result<()> {
    let ExportArgs { runs, out, experiments, csv, json } = args;
    ensure!(runs.is_dir(), "there is no folder {}", runs.display());
    if *csv {
        return export_csv(args, lab);
    }
    let out = out.as_ref().context("give --out: a file whose name ends in .jsonl.gz")?;
    let named = out.to_string_lossy().ends_with(analysis::EXPORT);
    ensure!(named, "--out {}: its name must end in {}", out.display(), analysis::EXPORT);
    let documents = analysis::export(runs, experiments, out)
        .with_context(|| format!("cannot export {} to {}", runs.display(), out.display()))?;
    let exported = Exported { file: out.clone(), documents };
    print(&exported, *json, || format!("{documents} documents: {}\n", out.display()))
}

fn export_csv(ExportArgs { runs, out, json, .. }: &ExportArgs, lab: &Lab) -> Result<()> {
    let listed = super::list(runs, lab)?;
    let text = csv(&listed);
    let Some(out) = out else {
        ensure!(!json, "--json says what was written: give --out a file");
        return print_text(text.as_bytes());
    };
    write_atomically(out, text.as_bytes()).with_context(|| format!("cannot write {}", out.display()))?;
    let exported = Exported { file: out.clone(), documents: listed.len() };
    print(&exported, *json, || format!("{} runs: {}\n", listed.len(), out.display()))
}

pub fn import(ImportArgs { export, runs, json }: &ImportArgs) -> Result<()> {
    let imported = RunStore::new(runs).import(export)?;
    let Imported { new, already_there } = imported;
    print(&imported, *json, || {
        format!("{new} documents imported into {}, {already_there} already there\n", runs.display())
    })
}
