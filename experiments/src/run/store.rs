//! Runs on disk: each in a folder named by its id, finished once and for all, or to be continued.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use adapter_core::{TaskFile, write_atomically};
use analysis::{Kept, Move, RunRecord, SCHEMA, Scored, Status, folder};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{
    FileOptions, RunConfig,
    context::{absolute_name, absolute_path},
};
use crate::{
    device::Precision,
    lab::Keys,
    train::{Checkpoint, RunError},
};

/// A folder of runs.
#[derive(Clone, Debug)]
pub struct RunStore {
    folder: PathBuf,
}

/// How a run was started, and where it continued. It is kept beside the checkpoint, so that `--resume ID` needs nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunManifest {
    /// Its configuration.
    pub config: RunConfig,
    /// Where to find its backbone and its data again; no part of its id.
    pub origin: Origin,
    /// Everything else that decides it.
    pub fingerprints: BTreeMap<String, String>,
    /// Its moves from one device to another.
    pub moves: Vec<Move>,
}

/// Where a run's backbone and data were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The backbone: a name, or a folder.
    pub backbone: String,
    /// The task: a name, or `file:PATH`.
    pub task: String,
    /// How its file is read.
    #[serde(default, skip_serializing_if = "FileOptions::is_default")]
    pub files: FileOptions,
    /// The folder of the known tasks' files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
}

impl Origin {
    /// The same places, wherever this program is started.
    pub fn absolute(&self) -> Self {
        Self {
            backbone: absolute_name(&self.backbone),
            task: absolute_name(&self.task),
            files: self.files.absolute(),
            data_dir: self.data_dir.as_deref().map(absolute_path),
        }
    }
}

/// The fingerprint of a precision that is not f32.
pub(super) const DTYPE: &str = "dtype";

impl RunManifest {
    /// The numbers that its network computes with.
    ///
    /// # Errors
    /// If they are none of ours.
    pub fn precision(&self) -> Result<Precision> {
        let name = self.fingerprints.get(DTYPE).map_or("f32", String::as_str);
        name.parse().context("a run in a precision this program does not know")
    }
}

/// Time between two looks at a run that another process has.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// What a store knows of a run.
pub enum StoredRun {
    /// It is finished; this is its record.
    Finished(Box<RunRecord>),
    /// It is ours to run, from the start or from a checkpoint.
    Open(OpenRun),
}

/// A run that no other process touches while this lives. The system releases the lock of a process that is killed.
pub struct OpenRun {
    id: String,
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
        Ok(TaskFile::read(&self.folder.join(id).join(folder::PARAMETERS))?)
    }

    /// How a run was started.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn manifest(&self, id: &str) -> Result<RunManifest> {
        let (path, runs) = (self.folder.join(id).join(folder::RUN), self.folder.display());
        ensure!(path.is_file(), "there is no run `{id}` in {runs} that could continue");
        read_manifest(&path, id)
    }

    /// Finds a run by its id and locks it, unless it is finished.
    ///
    /// # Errors
    /// If another process runs it, its record cannot be used, or the folder cannot be written.
    pub fn open(&self, id: &str) -> Result<StoredRun, RunError> {
        let run = self.folder.join(id);
        if let (Some(record), false) = (read_record(&run, id)?, run.join(folder::CHECKPOINT).exists()) {
            return Ok(StoredRun::Finished(Box::new(record)));
        }
        fs::create_dir_all(&run).with_context(|| format!("cannot make {}", run.display()))?;
        let path = run.join(folder::LOCK);
        let lock = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(RunError::Busy { id: id.to_owned(), lock: path }),
            Err(fs::TryLockError::Error(error)) => {
                return Err(anyhow::Error::new(error).context(format!("cannot lock {}", path.display())).into());
            }
        }
        let open = OpenRun { id: id.to_owned(), folder: run, _lock: lock };
        open.sweep();
        // Another process may have finished between our look and our lock.
        match read_record(&open.folder, id)? {
            Some(record) => {
                open.forget_checkpoint();
                Ok(StoredRun::Finished(Box::new(record)))
            }
            None => Ok(StoredRun::Open(open)),
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

fn read_manifest(path: &Path, id: &str) -> Result<RunManifest> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: RunManifest =
        serde_json::from_str(&text).with_context(|| format!("{}: not a run this program can read", path.display()))?;
    let found = run_id(&manifest.config.keys()?, &manifest.fingerprints)?;
    let file = path.display();
    ensure!(found == id, "{file}: it was changed (its contents are those of run {found}); move the folder away");
    Ok(manifest)
}

/// The evaluation that a run reports.
pub fn kept_evaluation(record: &RunRecord) -> Option<&Scored> {
    match record.kept {
        Kept::Last => record.last.as_ref(),
        Kept::Best => record.best.as_ref(),
    }
}

/// A run's id: a hash of everything that decides it.
///
/// # Errors
/// If a value has no written form.
pub fn run_id(config: &Keys, fingerprints: &BTreeMap<String, String>) -> Result<String> {
    let identity = serde_json::to_vec(&(config, fingerprints))?;
    Ok(blake3::hash(&identity).to_hex()[..16].to_owned())
}

fn read_record(run: &Path, id: &str) -> Result<Option<RunRecord>> {
    let path = run.join(folder::RECORD);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let hint =
        || format!("{}: not a record this program can read; move the folder away to run it anew", path.display());
    let schema = serde_json::from_str::<serde_json::Value>(&text).with_context(hint)?["schema"].as_u64();
    ensure!(schema == Some(u64::from(SCHEMA)), "{}: schema {schema:?}, this program reads {SCHEMA}", path.display());
    let record: RunRecord = serde_json::from_str(&text).with_context(hint)?;
    let scored = record.last.as_ref().is_some_and(|last| last.validation.contains_key(&last.metric));
    let whole = scored || record.status == Status::Diverged;
    ensure!(whole, "{}: it has no score; move the folder away to run it anew", path.display());
    let found = run_id(&record.config, &record.fingerprints)?;
    let same = record.id == id && found == id;
    ensure!(same, "{}: this is a record of run {found}, not of {id}; move the folder away", path.display());
    Ok(Some(record))
}

impl OpenRun {
    /// Where the run's state is kept.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.folder.join(folder::CHECKPOINT)
    }

    /// Keeps the run's state.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.write(&self.checkpoint_path(), &self.id)
    }

    /// Where a line for each step is kept.
    pub fn steps_path(&self) -> PathBuf {
        self.folder.join(folder::STEPS)
    }

    /// Says that the run is now on this kind of `device`, after `step`: how it was started, with all its moves.
    ///
    /// # Errors
    /// If that cannot be kept.
    pub fn start(&self, new: RunManifest, device: &str, step: usize) -> Result<RunManifest> {
        let path = self.folder.join(folder::RUN);
        let mut manifest = if path.is_file() {
            // Backbone and data may lie elsewhere now.
            RunManifest { origin: new.origin, ..read_manifest(&path, &self.id)? }
        } else {
            new
        };
        // Where nothing was kept, the run has not been.
        manifest.moves.retain(|earlier| earlier.step < step);
        let before = manifest.moves.last().map(|last| &last.to).or(manifest.fingerprints.get("device"));
        if let Some(from) = before.filter(|before| *before != device).cloned() {
            manifest.moves.push(Move { step, from, to: device.to_owned() });
        }
        write_json(&path, &manifest)?;
        Ok(manifest)
    }

    /// The state to continue from, if the run was started before.
    ///
    /// # Errors
    /// If there is one and it is damaged.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let path = self.checkpoint_path();
        if path.is_file() { Checkpoint::read(&path, &self.id).map(Some) } else { Ok(None) }
    }

    /// Writes the trained tensors, if the run has any, and then the record, and removes the checkpoint: from now on the run is finished.
    ///
    /// # Errors
    /// If a file cannot be written; the run can then continue.
    pub fn finish(self, record: &RunRecord, file: Option<&TaskFile>) -> Result<()> {
        if let Some(file) = file {
            file.write(&self.folder.join(folder::PARAMETERS))?;
        }
        write_json(&self.folder.join(folder::RECORD), record)?;
        self.forget_checkpoint();
        Ok(())
    }

    /// Removes the checkpoint of a finished run. The run is finished even if that fails; it is tried again when the run is next
    /// looked at.
    fn forget_checkpoint(&self) {
        let _ = Checkpoint::remove(&self.checkpoint_path());
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
