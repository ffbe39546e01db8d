//! Records of many runs in one file: a line for each document of a folder of runs, compressed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
};

use flate2::{Compression, GzBuilder, read::GzDecoder};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ExperimentRecord,
    files::{read_file, write_file},
    folder::{ABLATION, EXPERIMENTS, RECORD, STREAMS},
    store::json_files,
};

/// What the name of an export ends in.
pub const EXPORT: &str = ".jsonl.gz";

/// A document of a folder of runs.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    /// Its file, seen from the folder.
    file: String,
    #[serde(borrow)]
    document: &'a RawValue,
}

/// Writes the records of the folder `runs` into one file, sorted, each on a line of its own: runs, ablations, streams and
/// experiments. If any experiments are named, only these and what belongs to them. The same records make the same bytes.
/// Returns how many documents there are.
///
/// # Errors
/// If the folder cannot be read, has no such experiment, a document is not JSON, or the file cannot be written.
pub fn export(runs: &Path, experiments: &[String], to: &Path) -> io::Result<usize> {
    let files = if experiments.is_empty() { all_files(runs)? } else { files_of(runs, experiments)? };
    // Neither a name nor a date: the bytes depend on the records alone.
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    for file in &files {
        let text = read_file(&runs.join(file))?;
        let wrong = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("{file}: {error}"));
        let document: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).map_err(wrong)?;
        let document = serde_json::value::to_raw_value(&document).map_err(wrong)?;
        let line = serde_json::to_string(&Line { file: file.clone(), document: &document }).map_err(wrong)?;
        packed.write_all(line.as_bytes())?;
        packed.write_all(b"\n")?;
    }
    write_file(to, &packed.finish()?)?;
    Ok(files.len())
}

/// Every document of a folder of runs.
fn all_files(runs: &Path) -> io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(runs)? {
        files.extend(files_of_run(runs, &entry?.file_name().to_string_lossy()));
    }
    for folder in [STREAMS, EXPERIMENTS] {
        files.extend(json_files(&runs.join(folder)).into_iter().map(|file| format!("{folder}/{file}")));
    }
    Ok(files)
}

/// The documents of the experiments of these names.
fn files_of(runs: &Path, names: &[String]) -> io::Result<BTreeSet<String>> {
    let (mut files, mut known) = (BTreeSet::new(), BTreeSet::new());
    for file in json_files(&runs.join(EXPERIMENTS)) {
        let file = format!("{EXPERIMENTS}/{file}");
        let experiment: ExperimentRecord = serde_json::from_slice(&read_file(&runs.join(&file))?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{file}: {error}")))?;
        if names.contains(&experiment.name) {
            files.insert(file);
            files.extend(experiment.runs.iter().flat_map(|run| files_of_run(runs, run)));
            let streams = experiment.streams.iter().map(|stream| format!("{STREAMS}/{stream}.json"));
            files.extend(streams.filter(|file| runs.join(file).is_file()));
        }
        known.insert(experiment.name);
    }
    let Some(unknown) = names.iter().find(|name| !known.contains(*name)) else { return Ok(files) };
    let known = if known.is_empty() { "none".to_owned() } else { known.into_iter().collect::<Vec<_>>().join(", ") };
    Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no experiment `{unknown}`; there are: {known}")))
}

/// The documents of a run.
fn files_of_run(runs: &Path, run: &str) -> impl Iterator<Item = String> {
    let documents = [RECORD, ABLATION].map(|document| format!("{run}/{document}"));
    documents.into_iter().filter(|file| is_document(file) && runs.join(file).is_file())
}

/// The documents of an export, by their files.
///
/// # Errors
/// If it cannot be read, or a line is not a document of a folder of runs.
pub fn documents(export: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(fs::File::open(export)?)).take(LARGEST));
    let (mut documents, mut line, mut number) = (BTreeMap::new(), String::new(), 0);
    while lines.read_line(&mut line)? > 0 {
        number += 1;
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {what}"));
        let Line { file, document } = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        if !is_document(&file) {
            return Err(wrong(format!("`{file}` is no document of a folder of runs")));
        }
        documents.insert(file, document.get().as_bytes().to_vec());
        line.clear();
    }
    Ok(documents)
}

/// More than this is no export of ours.
const LARGEST: u64 = 4 << 30;

/// Whether `file` is the name of a document in a folder of runs, and nothing else.
fn is_document(file: &str) -> bool {
    let plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', ':']);
    match file.split_once('/') {
        Some((STREAMS | EXPERIMENTS, name)) => plain(name) && name.ends_with(".json"),
        Some((run, RECORD | ABLATION)) => plain(run),
        _ => false,
    }
}
