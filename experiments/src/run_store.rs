//! Runs on disk: each in a folder named by its id, finished once and for all, or to be gone on with.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use adapter_core::{TaskFile, write_atomically};
use analysis::{Move, RunRecord, SCHEMA};
use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{checkpoint::Checkpoint, precision::Precision, run_config::RunConfig};

/// A folder of runs.
#[derive(Clone, Debug)]
pub struct RunStore {
    folder: PathBuf,
}

/// A run as it was begun, and where it went on. It is kept beside the checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begun {
    /// Its configuration.
    pub config: RunConfig,
    /// The backbone, as it was asked for.
    pub backbone: String,
    /// The task, as it was asked for.
    pub task: String,
    /// Everything else that decides it.
    pub fingerprints: BTreeMap<String, String>,
    /// Its moves from one device to another.
    pub moves: Vec<Move>,
}

/// The fingerprint of a precision that is not f32.
pub const DTYPE: &str = "dtype";

impl Begun {
    /// The numbers that its network computes with.
    ///
    /// # Errors
    /// If they are none of ours.
    pub fn precision(&self) -> Result<Precision> {
        let dtype = self.fingerprints.get(DTYPE).map_or(Ok(Precision::F32), |name| Precision::from_str(name, true));
        dtype.map_err(|problem| anyhow!("a run in a precision this program does not know: {problem}"))
    }
}

/// What a store knows of a run.
pub enum Found {
    /// It is finished; this is its record.
    Finished(Box<RunRecord>),
    /// It is ours to run, from the beginning or from a checkpoint.
    Open(OpenRun),
}

/// A run that another process has.
#[derive(Debug, thiserror::Error)]
#[error("run {id} is being run by another process ({})", lock.display())]
pub struct Busy {
    id: String,
    lock: PathBuf,
}

/// A run that no other process touches while this lives. The system releases the lock of a process that is killed.
pub struct OpenRun {
    folder: PathBuf,
    _lock: fs::File,
}

impl RunStore {
    /// The runs in `folder`, which is made when the first begins.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder of a run.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// The trained tensors of a finished run.
    ///
    /// # Errors
    /// If they are not there or damaged.
    pub fn trained(&self, id: &str) -> Result<TaskFile> {
        Ok(TaskFile::read(&self.folder.join(id).join("v.safetensors"))?)
    }

    /// A run as it was begun.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn begun(&self, id: &str) -> Result<Begun> {
        let (path, runs) = (self.folder.join(id).join(BEGUN), self.folder.display());
        ensure!(path.is_file(), "there is no run `{id}` in {runs} that could be gone on with");
        read_begun(&path)
    }

    /// Finds a run by its id and locks it, unless it is finished.
    ///
    /// # Errors
    /// If another process runs it, its record cannot be used, or the folder cannot be written.
    pub fn open(&self, id: &str) -> Result<Found> {
        let folder = self.folder.join(id);
        if let (Some(record), false) = (read_record(&folder)?, folder.join("checkpoint.safetensors").exists()) {
            return Ok(Found::Finished(Box::new(record)));
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join("lock");
        let lock = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Busy { id: id.to_owned(), lock: path }.into()),
            Err(fs::TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let open = OpenRun { folder, _lock: lock };
        open.sweep();
        // Another process may have finished between our look and our lock.
        match read_record(&open.folder)? {
            Some(record) => {
                open.forget_checkpoint();
                Ok(Found::Finished(Box::new(record)))
            }
            None => Ok(Found::Open(open)),
        }
    }
}

/// Writes a document that appears whole or not at all, in a folder that is made if it is not there.
pub fn write_json(path: &Path, document: &impl Serialize) -> Result<()> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let text = serde_json::to_string_pretty(document)? + "\n";
        write_atomically(path, text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// The file that says how a run was begun.
const BEGUN: &str = "run.json";

fn read_begun(path: &Path) -> Result<Begun> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: not a run this program can read", path.display()))
}

fn read_record(folder: &Path) -> Result<Option<RunRecord>> {
    let path = folder.join("record.json");
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let hint =
        || format!("{}: not a record this program can read; move the folder away to run it anew", path.display());
    let schema = serde_json::from_str::<serde_json::Value>(&text).with_context(hint)?["schema"].as_u64();
    ensure!(schema == Some(u64::from(SCHEMA)), "{}: schema {schema:?}, this program reads {SCHEMA}", path.display());
    let record: RunRecord = serde_json::from_str(&text).with_context(hint)?;
    let whole = record.best.as_ref().is_some_and(|best| best.validation.contains_key(&best.metric));
    ensure!(whole, "{}: it has no best score; move the folder away to run it anew", path.display());
    Ok(Some(record))
}

impl OpenRun {
    /// Where the run's state is kept.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.folder.join("checkpoint.safetensors")
    }

    /// Where a line for each step is kept.
    pub fn steps_path(&self) -> PathBuf {
        self.folder.join("steps.jsonl")
    }

    /// Says that the run is now on this kind of `device`, after `step`: how it was begun, with all its moves.
    ///
    /// # Errors
    /// If that cannot be kept.
    pub fn begin(&self, new: Begun, device: &str, step: usize) -> Result<Begun> {
        let path = self.folder.join(BEGUN);
        let mut begun = if path.is_file() { read_begun(&path)? } else { new };
        // Where nothing was kept, the run has not been.
        begun.moves.retain(|earlier| earlier.step < step);
        let before = begun.moves.last().map(|last| &last.to).or(begun.fingerprints.get("device"));
        if let Some(from) = before.filter(|before| *before != device).cloned() {
            begun.moves.push(Move { step, from, to: device.to_owned() });
        }
        write_json(&path, &begun)?;
        Ok(begun)
    }

    /// The state to go on from, if the run was begun before.
    ///
    /// # Errors
    /// If there is one and it is damaged.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let path = self.checkpoint_path();
        if path.is_file() { Checkpoint::read(&path).map(Some) } else { Ok(None) }
    }

    /// Writes the trained tensors and then the record, and gives up the checkpoint: from now on the run is finished.
    ///
    /// # Errors
    /// If a file cannot be written; the run can then be gone on with.
    pub fn finish(self, record: &RunRecord, file: &TaskFile) -> Result<()> {
        file.write(&self.folder.join("v.safetensors"))?;
        write_json(&self.folder.join("record.json"), record)?;
        self.forget_checkpoint();
        Ok(())
    }

    /// Removes the checkpoint of a finished run. The run is finished even if that fails.
    fn forget_checkpoint(&self) {
        if let Err(error) = Checkpoint::remove(&self.checkpoint_path()) {
            eprintln!("warning: cannot remove {}: {error}", self.checkpoint_path().display());
        }
    }

    /// Removes files that a killed process was writing; while we hold the lock nobody else writes.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tmp")) {
            // What cannot be removed does no harm but to the disk.
            let _ = fs::remove_file(entry.path());
        }
    }
}
