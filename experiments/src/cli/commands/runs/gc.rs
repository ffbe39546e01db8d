//! `runs gc`: what nobody needs any more.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use analysis::folder;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::{
    cli::output::{print, table},
    run::{RunStore, StoredRun, owner_of},
    sweep::{Array, Heard, Queue},
    train::RunError,
};

/// Remove what nobody needs any more: leftovers of killed processes, checkpoints of finished runs, work that is over
///
/// Without --yes it only says what it would remove. Records, trained tensors, files of running processes and anything that no run
/// wrote are always kept.
#[derive(Args, Debug)]
pub struct GcArgs {
    /// Folder of the runs
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// Remove runs that were begun and not finished, too, with their checkpoints
    #[arg(long)]
    unfinished: bool,
    /// Remove it
    #[arg(long)]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Something that nobody needs.
#[derive(Serialize)]
struct Rubbish {
    path: PathBuf,
    bytes: u64,
    why: &'static str,
}

#[derive(Serialize)]
struct Collected {
    removed: bool,
    bytes: u64,
    files: Vec<Rubbish>,
}

pub fn run(args: &GcArgs) -> Result<()> {
    ensure!(args.runs.is_dir(), "there is no folder {}", args.runs.display());
    let mut files = Vec::new();
    let store = RunStore::new(&args.runs);
    for run in analysis::run_folders(&args.runs)? {
        of_run(&store, &args.runs, &run, args, &mut files)?;
    }
    for queue in fs::read_dir(args.runs.join(folder::QUEUES)).into_iter().flatten().flatten() {
        if is_over(&queue.path()) {
            files.push(Rubbish::new(queue.path(), "work that is over"));
            remove(files.last(), args.yes)?;
        }
    }
    let bytes = files.iter().map(|file| file.bytes).sum();
    let collected = Collected { removed: args.yes, bytes, files };
    print(&collected, args.json, || text(&collected))
}

/// Finds what is of no use in the folder of a run that nobody has.
fn of_run(store: &RunStore, runs: &Path, id: &str, args: &GcArgs, files: &mut Vec<Rubbish>) -> Result<()> {
    let place = runs.join(id);
    let leftover = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".tmp");
    let leftovers: Vec<PathBuf> =
        fs::read_dir(&place).into_iter().flatten().flatten().filter(leftover).map(|entry| entry.path()).collect();
    let (finished, checkpoint) = (place.join(folder::RECORD).exists(), place.join(folder::CHECKPOINT));
    let begun = place.join(folder::RUN).exists() || checkpoint.exists();
    let mut found = Vec::new();
    if !finished && !is_of_a_run(id, &place) {
        // Somebody's own folder, or one that holds runs itself.
        return Ok(());
    } else if !finished && !begun {
        found.push(Rubbish::new(place.clone(), "a run that never began"));
    } else if !finished && args.unfinished {
        found.push(Rubbish::new(place.clone(), "a run that was not finished"));
    } else {
        found.extend(leftovers.into_iter().map(|path| Rubbish::new(path, "of a process that was killed")));
        if finished && checkpoint.exists() {
            found.push(Rubbish::new(checkpoint, "the checkpoint of a finished run"));
        }
    }
    // Whoever has the run may still need it.
    if found.is_empty() || (!args.yes && owner_of(&place).is_some()) {
        return Ok(());
    }
    if !args.yes {
        files.extend(found);
        return Ok(());
    }
    // A claim of ours keeps others away while we tidy up.
    let claim = match store.open(id) {
        Err(RunError::Busy { .. }) => return Ok(()),
        Ok(StoredRun::Open(open)) => Some(open),
        Ok(StoredRun::Finished(_)) | Err(_) => None,
    };
    for file in found {
        if file.path.exists() {
            remove(Some(&file), args.yes)?;
        }
        files.push(file);
    }
    drop(claim);
    Ok(())
}

/// Whether a folder is that of a run without a record: called like one, and with nothing in it that a run does not write.
fn is_of_a_run(id: &str, place: &Path) -> bool {
    let is_id = id.len() == 16 && id.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let known = [folder::LOCK, folder::RUN, folder::STEPS, folder::CHECKPOINT, folder::PARAMETERS, folder::ABLATION];
    let is_ours = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = known.contains(&&*name) || name.starts_with(folder::CLAIM) || name.starts_with(".tmp");
        ours && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    // What cannot be looked at is somebody else's.
    is_id && fs::read_dir(place).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_ours)))
}

impl Rubbish {
    fn new(path: PathBuf, why: &'static str) -> Self {
        let bytes = size(&path);
        Self { path, bytes, why }
    }
}

fn size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
        }
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}

fn remove(file: Option<&Rubbish>, really: bool) -> Result<()> {
    let Some(Rubbish { path, .. }) = file.filter(|_| really) else { return Ok(()) };
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

/// Whether nobody works at a queue: all of it is done, or everybody has been silent for a day and no job of it waits for its turn.
fn is_over(place: &Path) -> bool {
    let Ok(queue) = Queue::read(place) else { return false };
    let mut heard = Heard::new(place);
    let done = heard.listen().is_ok() && heard.ended.len() == queue.items.len();
    let day = Duration::from_secs(24 * 3600);
    let old = fs::read_dir(place).into_iter().flatten().flatten().all(|entry| {
        let modified = entry.metadata().and_then(|found| found.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > day))
    });
    done || (old && Array::of(place).is_over())
}

fn text(Collected { removed, bytes, files }: &Collected) -> String {
    if files.is_empty() {
        return "nothing to remove\n".to_owned();
    }
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut rows = vec![["size", "file", "why"].map(str::to_owned).to_vec()];
    rows.extend(
        files
            .iter()
            .map(|Rubbish { path, bytes, why }| vec![megabytes(*bytes), path.display().to_string(), (*why).to_owned()]),
    );
    let end = if *removed { "are removed" } else { "could be removed: --yes does it" };
    format!("{}{} {end}\n", table(&rows), megabytes(*bytes))
}
