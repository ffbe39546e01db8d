//! The runs of a store in short: enough to find one among many, and quick with very many.

use std::{collections::BTreeMap, fs, io, path::Path, thread};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Kept, SCHEMA, Scored, Status,
    export::documents,
    folder::{CHECKPOINT, RECORD, RUN, STEPS},
    store::is_run,
};

/// A run in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        match fs::read(folder.join(RECORD)) {
            Ok(bytes) => return Some(Self::of_record(id, &bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return None,
            Err(error) => return Some(Self::nothing(id, RunState::Unreadable(error.to_string()))),
        }
        let started = fs::read(folder.join(RUN)).ok().and_then(|bytes| serde_json::from_slice::<Started>(&bytes).ok());
        let traces = started.is_some() || [CHECKPOINT, STEPS].iter().any(|trace| folder.join(trace).exists());
        let mut listed = traces.then(|| Self::nothing(id, RunState::Unfinished))?;
        listed.config = started.map(|started| started.config).unwrap_or_default();
        listed.method = listed.config.get("tuning").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(listed)
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
    let ids = run_folders(place)?;
    // Most of the time is spent on opening files.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = ids.len().div_ceil(threads).max(1);
    let read = |ids: &[String]| -> Vec<Listed> {
        ids.iter().filter_map(|id| Listed::of_folder(id, &place.join(id))).collect()
    };
    let listed = thread::scope(|scope| {
        let shares: Vec<_> = ids.chunks(share).map(|ids| scope.spawn(|| read(ids))).collect();
        shares.into_iter().flat_map(|share| share.join().unwrap_or_default()).collect()
    });
    Ok(listed)
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
