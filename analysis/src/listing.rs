//! The runs of a store in short: enough to find one among many, and quick with very many.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Kept, SCHEMA, Scored, Status,
    export::documents,
    files::{read_file, sweep, write_file},
    folder::{CHECKPOINT, RECORD, RUN, STEPS, is_run},
    parallel::shared_out,
};

/// A run in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// How far it came.
    pub state: RunState,
    /// What was trained, such as "adapters 64"; empty if that is not known.
    pub method: String,
    /// The metric that it is judged by.
    pub metric: Option<String>,
    /// Its validation score.
    pub validation: Option<f64>,
    /// Its test score.
    pub test: Option<f64>,
    /// Trained parameters.
    pub trained: Option<usize>,
    /// How long it was trained.
    pub seconds: Option<f64>,
    /// Its configuration.
    pub config: Map<String, Value>,
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// To its end.
    Finished,
    /// Until its loss was not finite.
    Diverged,
    /// Not yet to its end.
    Unfinished,
    /// Nobody knows: its record cannot be used.
    Unreadable(String),
}

impl RunState {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            RunState::Finished => "finished",
            RunState::Diverged => "diverged",
            RunState::Unfinished => "unfinished",
            RunState::Unreadable(_) => "unreadable",
        }
    }
}

/// As much of a record as a list needs.
#[derive(Deserialize)]
struct Brief {
    schema: u32,
    status: Status,
    config: Map<String, Value>,
    method: MethodBrief,
    params: ParamsBrief,
    best: Option<Scored>,
    last: Option<Scored>,
    #[serde(default)]
    kept: Kept,
    #[serde(default)]
    test: BTreeMap<String, f64>,
    measured: MeasuredBrief,
}

#[derive(Deserialize)]
struct MethodBrief {
    label: String,
}

#[derive(Deserialize)]
struct ParamsBrief {
    trained: usize,
}

#[derive(Deserialize)]
struct MeasuredBrief {
    training_seconds: f64,
}

/// How a run was started, as far as a list needs it.
#[derive(Deserialize)]
struct Started {
    config: Map<String, Value>,
}

impl Listed {
    fn nothing(id: &str, state: RunState) -> Self {
        let id = id.to_owned();
        let (metric, validation, test, trained, seconds) = Default::default();
        Self { id, state, method: String::new(), metric, validation, test, trained, seconds, config: Map::new() }
    }

    fn of_record(id: &str, bytes: &[u8]) -> Self {
        let brief: Brief = match serde_json::from_slice(bytes) {
            Ok(brief) => brief,
            Err(error) => return Self::nothing(id, RunState::Unreadable(error.to_string())),
        };
        if brief.schema != SCHEMA {
            let what = format!("form {}; this program reads {SCHEMA}", brief.schema);
            return Self::nothing(id, RunState::Unreadable(what));
        }
        let scored = match brief.kept {
            Kept::Last => brief.last,
            Kept::Best => brief.best,
        };
        let scored = scored.filter(|_| brief.status == Status::Finished);
        let metric = scored.as_ref().map(|scored| scored.metric.clone());
        Self {
            id: id.to_owned(),
            state: if brief.status == Status::Finished { RunState::Finished } else { RunState::Diverged },
            method: brief.method.label,
            validation: scored.as_ref().and_then(|scored| scored.validation.get(&scored.metric).copied()),
            test: metric.as_ref().and_then(|metric| brief.test.get(metric).copied()),
            metric,
            trained: Some(brief.params.trained),
            seconds: Some(brief.measured.training_seconds),
            config: brief.config,
        }
    }

    fn of_folder(id: &str, folder: &Path) -> Option<Self> {
        match read_file(&folder.join(RECORD)) {
            Ok(bytes) => return Some(Self::of_record(id, &bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return None,
            Err(error) => return Some(Self::nothing(id, RunState::Unreadable(error.to_string()))),
        }
        let started =
            read_file(&folder.join(RUN)).ok().and_then(|bytes| serde_json::from_slice::<Started>(&bytes).ok());
        let traces = started.is_some() || [CHECKPOINT, STEPS].iter().any(|trace| folder.join(trace).exists());
        let mut listed = traces.then(|| Self::nothing(id, RunState::Unfinished))?;
        listed.config = started.map(|started| started.config).unwrap_or_default();
        listed.method = listed.config.get("tuning").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(listed)
    }

    /// Whether it is worth remembering. What cannot be read may be readable next time: permissions change, and programs do.
    fn is_read(&self) -> bool {
        !matches!(self.state, RunState::Unreadable(_))
    }

    /// A value by name: `id`, `state`, `method`, a score by `validation`, `test` or its metric, `trained`, `seconds`, or a key of the
    /// configuration.
    pub fn value(&self, name: &str) -> Option<Value> {
        let of_metric = || self.validation.filter(|_| self.metric.as_deref() == Some(name));
        match name {
            "id" => Some(self.id.clone().into()),
            "state" => Some(self.state.name().into()),
            "method" => Some(self.method.clone().into()),
            "metric" => self.metric.clone().map(Into::into),
            "validation" => self.validation.map(Into::into),
            "test" => self.test.map(Into::into),
            "trained" => self.trained.map(Into::into),
            "seconds" => self.seconds.map(Into::into),
            key => self.config.get(key).cloned().or_else(|| of_metric().map(Into::into)),
        }
    }
}

/// Every run of a folder or an export, by id.
///
/// # Errors
/// If the place cannot be read. A record that cannot is [listed](RunState::Unreadable) as such.
pub fn list_runs(place: &Path) -> io::Result<Vec<Listed>> {
    if place.is_file() {
        let documents = documents(place)?;
        let records = documents.iter().filter_map(|(file, bytes)| Some((file.split_once('/')?, bytes)));
        let records = records.filter(|((id, file), _)| is_run(id) && *file == RECORD);
        return Ok(records.map(|((id, _), bytes)| Listed::of_record(id, bytes)).collect());
    }
    let (ids, mut known) = (run_folders(place)?, read_index(place));
    let read = |ids: &[String]| -> Vec<(String, Option<Stamp>, Option<Listed>)> {
        let run = |id: &String| {
            let folder = place.join(id);
            let stamp = stamp(&folder.join(RECORD));
            let remembered = stamp.is_some() && known.get(id).map(|(of, _)| *of) == stamp;
            (id.clone(), stamp, if remembered { None } else { Listed::of_folder(id, &folder) })
        };
        ids.iter().map(run).collect()
    };
    let (mut listed, mut new) = (Vec::with_capacity(ids.len()), 0);
    for (id, stamp, read) in shared_out(&ids, &read) {
        let remembered = known.remove(&id).filter(|(of, _)| Some(*of) == stamp).map(|(_, run)| run);
        new += usize::from(stamp.is_some() && read.as_ref().is_some_and(Listed::is_read));
        listed.extend(read.or(remembered).map(|run| (stamp, run)));
    }
    if new >= WORTH_IT {
        // A list that cannot be kept is made anew.
        let _ = write_index(place, &listed);
    }
    Ok(listed.into_iter().map(|(_, run)| run).collect())
}

/// What tells whether a record is the one that was read: when it was written, and how long it is. A record never changes.
type Stamp = (u64, u64);

/// What was found in records, beside those records, for whoever asks again. It is never believed about a record that is not the same.
const INDEX: &str = ".listing.jsonl";

/// Records that are read once more rather than kept in the index.
const WORTH_IT: usize = 1000;

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let written = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((u64::try_from(written.as_nanos()).ok()?, found.len()))
}

fn read_index(place: &Path) -> HashMap<String, (Stamp, Listed)> {
    let bytes = read_file(&place.join(INDEX)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let parse = |lines: &[&str]| -> Vec<(Stamp, Listed)> {
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    shared_out(&lines, &parse).into_iter().map(|(stamp, run)| (run.id.clone(), (stamp, run))).collect()
}

fn write_index(place: &Path, runs: &[(Option<Stamp>, Listed)]) -> io::Result<()> {
    let lines = |runs: &[(Option<Stamp>, Listed)]| {
        let known = runs.iter().filter(|(stamp, run)| stamp.is_some() && run.is_read());
        known.map(|run| serde_json::to_string(run).map(|line| line + "\n")).collect()
    };
    let text: String = shared_out(runs, &lines).into_iter().collect::<serde_json::Result<_>>()?;
    sweep(place);
    write_file(&place.join(INDEX), text.as_bytes())
}

/// The names of all folders of runs in a folder, sorted.
///
/// # Errors
/// If it cannot be read.
pub fn run_folders(place: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    ids.retain(|id| is_run(id));
    ids.sort_unstable();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(place: &Path, id: &str, seed: usize) {
        let record = json!({
            "schema": SCHEMA, "id": id, "status": "finished", "config": {"task": "cola", "seed": seed},
            "method": {"label": "adapters 8"}, "params": {"trained": 7}, "measured": {"training_seconds": 1.5},
            "last": {"epoch": 1, "steps": 3, "metric": "accuracy", "validation": {"accuracy": 0.5}},
        });
        fs::create_dir_all(place.join(id)).unwrap();
        fs::write(place.join(id).join(RECORD), record.to_string()).unwrap();
    }

    #[test]
    fn what_was_remembered_is_not_believed_of_another_record() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let ids: Vec<String> = (0..WORTH_IT).map(|number| format!("{number:016x}")).collect();
        ids.iter().for_each(|id| write(place, id, 1));
        let first = list_runs(place).unwrap();
        assert!(first.len() == WORTH_IT && place.join(INDEX).is_file());
        assert_eq!(list_runs(place).unwrap(), first);

        // One is another, one is gone, one is new, and one cannot be read any more.
        write(place, &ids[0], 10);
        fs::remove_dir_all(place.join(&ids[1])).unwrap();
        write(place, "ffffffffffffffff", 1);
        fs::write(place.join(&ids[2]).join(RECORD), "{").unwrap();
        let second = list_runs(place).unwrap();
        assert_eq!(second.len(), WORTH_IT);
        assert_eq!(second[0].config["seed"], 10);
        assert!(second.iter().all(|run| run.id != ids[1]));
        assert!(matches!(second[1].state, RunState::Unreadable(_)));
        assert_eq!(second[WORTH_IT - 1].id, "ffffffffffffffff");

        // What cannot be read is not remembered: the same file may be readable next time.
        write_index(place, &second.iter().map(|run| (Some((1, 1)), run.clone())).collect::<Vec<_>>()).unwrap();
        assert!(!read_index(place).contains_key(&ids[2]) && read_index(place).contains_key(&ids[3]));

        // Whatever stands in the index, the records are the truth.
        fs::write(place.join(INDEX), "nonsense\n{}\n").unwrap();
        assert_eq!(list_runs(place).unwrap(), second);
    }
}
