//! Runs on disk: each in a folder named by its id, finished once and for all, or to be continued.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use adapter_core::{TaskFile, read_file, write_atomically, write_once};
use analysis::{ExperimentRecord, Kept, Move, RunRecord, SCHEMA, Scored, Status, folder};
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::{
    FileOptions, RunConfig,
    claim::{Claim, Claimed},
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

/// A run that no other process touches while this lives.
pub struct OpenRun {
    id: String,
    folder: PathBuf,
    /// Its record, if only its trained tensors are missing.
    known: Option<Box<RunRecord>>,
    claim: Claim,
}

/// Whether an experiment's record has all runs of the one in `path`, and more.
fn goes_further(record: &[u8], path: &Path) -> Result<bool> {
    let parsed = |bytes: &[u8]| serde_json::from_slice::<ExperimentRecord>(bytes);
    let here = read_file(path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
    // One that nobody can read here is not touched: `report` says what is wrong with it.
    Ok(matches!((parsed(record), parsed(&here)), (Ok(there), Ok(here)) if there.continues(&here)))
}

/// What became of the documents of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Written.
    pub new: usize,
    /// There before, and left alone.
    pub already_there: usize,
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

    /// The record of a run, if it is finished.
    ///
    /// # Errors
    /// If there is one that cannot be used.
    pub fn finished(&self, id: &str) -> Result<Option<RunRecord>> {
        read_record(&self.folder.join(id), id)
    }

    /// Whether the trained tensors of a run are here. Records that were imported have none.
    pub fn has_trained(&self, id: &str) -> bool {
        self.folder.join(id).join(folder::PARAMETERS).is_file()
    }

    /// Takes the records of an export for those of runs that were finished here. What is here already stays as it is, but for the
    /// record of an experiment that has gone further in the export.
    ///
    /// # Errors
    /// If the export cannot be read or holds a record that is not what it says; nothing is written then. Or if a file cannot be
    /// written.
    pub fn import(&self, export: &Path) -> Result<Imported> {
        let documents = analysis::documents(export).with_context(|| format!("cannot read {}", export.display()))?;
        for (file, bytes) in &documents {
            // An experiment may be called `record`.
            if let Some((id, folder::RECORD)) = file.split_once('/').filter(|(id, _)| folder::is_run(id)) {
                parse_record(bytes, id, &format!("{}, {file}", export.display()))?;
            }
        }
        let mut imported = Imported::default();
        // Experiments last: they name runs.
        let last = |file: &str| file.starts_with(folder::EXPERIMENTS);
        let (experiments, others): (Vec<_>, Vec<_>) = documents.iter().partition(|(file, _)| last(file));
        for (file, bytes) in others.into_iter().chain(experiments) {
            let path = self.folder.join(file);
            if path.exists() && !(last(file) && goes_further(bytes, &path)?) {
                imported.already_there += 1;
                continue;
            }
            let document: serde_json::Value = serde_json::from_slice(bytes)?;
            write_json(&path, &document)?;
            imported.new += 1;
        }
        Ok(imported)
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

    /// Finds a run by its id and claims it, unless it is finished.
    ///
    /// # Errors
    /// If another process runs it, its record cannot be used, or the folder cannot be written.
    pub fn open(&self, id: &str) -> Result<StoredRun, RunError> {
        self.find(id, false)
    }

    /// As [`open`](Self::open), for whoever needs the trained tensors: a run without them is not finished.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_for_tensors(&self, id: &str) -> Result<StoredRun, RunError> {
        self.find(id, true)
    }

    fn find(&self, id: &str, needs_tensors: bool) -> Result<StoredRun, RunError> {
        let run = self.folder.join(id);
        let is_whole = |record: &RunRecord| !needs_tensors || record.status == Status::Diverged || self.has_trained(id);
        let record = read_record(&run, id)?;
        if let (Some(record), false) = (record.filter(is_whole), run.join(folder::CHECKPOINT).exists()) {
            return Ok(StoredRun::Finished(Box::new(record)));
        }
        fs::create_dir_all(&run).with_context(|| format!("cannot make {}", run.display()))?;
        let claim = match Claim::take(&run)? {
            Claimed::Ours(claim) => claim,
            Claimed::Theirs(owner) => return Err(RunError::Busy { id: id.to_owned(), owner }),
        };
        let mut open = OpenRun { id: id.to_owned(), folder: run, known: None, claim };
        open.sweep();
        // Another process may have finished between our look and our claim.
        match read_record(&open.folder, id)? {
            Some(record) if is_whole(&record) => {
                open.forget_checkpoint();
                Ok(StoredRun::Finished(Box::new(record)))
            }
            known => {
                open.known = known.map(Box::new);
                Ok(StoredRun::Open(open))
            }
        }
    }
}

/// Writes a document that appears whole or not at all, in a folder that is made if it is not there.
pub fn write_json(path: &Path, document: &impl Serialize) -> Result<()> {
    let text = self::document(document)?;
    write_atomically(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// A document as it is written.
fn document(document: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

fn read_manifest(path: &Path, id: &str) -> Result<RunManifest> {
    let bytes = read_file(path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: RunManifest = serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: not a run this program can read", path.display()))?;
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

/// The fields in which two records of a run differ, what was measured aside.
///
/// # Errors
/// If one has no written form.
pub fn differences(one: &RunRecord, other: &RunRecord) -> Result<Vec<String>> {
    let fields = |record: &RunRecord| serde_json::to_value(record).map(|value| value.as_object().cloned());
    let (one, other) = (fields(one)?.unwrap_or_default(), fields(other)?.unwrap_or_default());
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&String| *name != "measured" && *name != "software" && one.get(*name) != other.get(*name);
    Ok(names.into_iter().filter(differs).cloned().collect())
}

/// Bytes of the largest record.
const LARGEST: u64 = 256 << 20;

fn read_record(run: &Path, id: &str) -> Result<Option<RunRecord>> {
    let path = run.join(folder::RECORD);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_file(&path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
    let record = parse_record(&bytes, id, &path.display().to_string());
    record.map(Some).map_err(|error| anyhow!("{error:#}; move the folder away to run it anew"))
}

/// The record of the run `id`, which stands in `place`.
fn parse_record(bytes: &[u8], id: &str, place: &str) -> Result<RunRecord> {
    let hint = || format!("{place}: not a record this program can read");
    let schema = serde_json::from_slice::<serde_json::Value>(bytes).with_context(hint)?["schema"].as_u64();
    ensure!(schema == Some(u64::from(SCHEMA)), "{place}: schema {schema:?}, this program reads {SCHEMA}");
    let record: RunRecord = serde_json::from_slice(bytes).with_context(hint)?;
    let scored = kept_evaluation(&record).is_some_and(|kept| kept.validation.contains_key(&kept.metric));
    ensure!(scored || record.status == Status::Diverged, "{place}: it has no score");
    let found = run_id(&record.config, &record.fingerprints)?;
    ensure!(record.id == id && found == id, "{place}: this is a record of run {found}, not of {id}");
    Ok(record)
}

impl OpenRun {
    /// Says whether the run is still ours; asked before anything of it is written.
    ///
    /// # Errors
    /// If another process took it, because this one was silent for too long.
    pub fn check(&self) -> Result<()> {
        self.claim.check()
    }

    /// Where the run's state is kept.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.folder.join(folder::CHECKPOINT)
    }

    /// Keeps the run's state.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, checkpoint: &Checkpoint) -> Result<()> {
        self.check()?;
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
        self.check()?;
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
        if let Some(known) = &self.known {
            let (id, found) = (&self.id, differences(known, record)?);
            // The last bits may differ on another processor; whoever asked for the tensors must know.
            ensure!(found.is_empty(), "run {id} does not come out as its record says: {} differ", found.join(", "));
        }
        self.check()?;
        if let Some(file) = file {
            file.write(&self.folder.join(folder::PARAMETERS))?;
        }
        self.check()?;
        let path = self.folder.join(folder::RECORD);
        // A record is written once, even if another process took the run since we looked.
        write_once(&path, document(record)?.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        self.forget_checkpoint();
        Ok(())
    }

    /// Removes the checkpoint of a finished run. The run is finished even if that fails; it is tried again when the run is next
    /// looked at.
    fn forget_checkpoint(&self) {
        let _ = Checkpoint::remove(&self.checkpoint_path());
    }

    /// Removes files that a killed process was writing; while we have the claim nobody else writes.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tmp")) {
            // What cannot be removed does no harm but to the disk.
            let _ = fs::remove_file(entry.path());
        }
    }
}
