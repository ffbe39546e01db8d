//! A folder of runs or an export of one, read whole.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    AblationRecord, ExperimentRecord, RunRecord, SCHEMA, StreamRecord,
    export::documents,
    files::read_file,
    folder::{ABLATION, CHECKPOINT, EXPERIMENTS, LOCK, PARAMETERS, RECORD, STEPS, STREAMS, is_run},
    parallel::shared_out,
    setup::{ACCURACY, Common, Run},
};

/// All records of a folder of runs. What cannot be read is a [`Problem`], not an error: the rest can still be shown.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// The folder, or the export.
    pub folder: PathBuf,
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) ablations: BTreeMap<String, AblationRecord>,
    pub(crate) streams: BTreeMap<String, StreamRecord>,
    /// By the name of their files.
    pub(crate) experiments: BTreeMap<String, ExperimentRecord>,
    /// Folders of runs that have no record yet.
    pub unfinished: Vec<String>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// A file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, seen from the store's folder.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
}

/// A folder that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not there.
    #[error("there is no folder {}: give --runs the folder of `run` (it makes one called `runs`), or an export", .0.display())]
    Missing(PathBuf),
    /// It is there, but cannot be read.
    #[error("cannot read {}: {reason}", folder.display())]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// Why.
        reason: io::Error,
    },
}

/// What a run leaves in its folder before its record.
const TRACES: [&str; 4] = [LOCK, STEPS, CHECKPOINT, PARAMETERS];

impl Store {
    /// Reads every record under `place`: a folder of runs, or an [export](crate::export()) of one.
    ///
    /// # Errors
    /// If it is not there or cannot be read. An empty one is no error.
    pub fn read(place: &Path) -> Result<Self, StoreError> {
        let unreadable = |reason| StoreError::Unreadable { folder: place.to_owned(), reason };
        if !place.exists() {
            return Err(StoreError::Missing(place.to_owned()));
        }
        let mut store = Store { folder: place.to_owned(), ..Store::default() };
        let documents = Documents::of(place).map_err(unreadable)?;
        let names = documents.runs().map_err(unreadable)?;
        let read = |names: &[String]| {
            let mut common = Common::default();
            names.iter().map(|name| Found::read(name, &documents, &mut common)).collect()
        };
        let found: Vec<Found> = shared_out(&names, &read);
        found.into_iter().for_each(|found| store.add(found));
        store.name_metrics();
        for file in documents.json_files(STREAMS) {
            if let Some(stream) = store.read_record::<StreamRecord>(&format!("{STREAMS}/{file}"), &documents) {
                store.streams.insert(stream.id.clone(), stream);
            }
        }
        for file in documents.json_files(EXPERIMENTS) {
            let record = store.read_record::<ExperimentRecord>(&format!("{EXPERIMENTS}/{file}"), &documents);
            if let Some(experiment) = record {
                store.experiments.insert(file, experiment);
            }
        }
        Ok(store)
    }

    fn add(&mut self, found: Found) {
        let Found { name, run, ablation, unfinished, problems } = found;
        self.problems.extend(problems);
        if unfinished {
            self.unfinished.push(name.clone());
        }
        if let Some(ablation) = ablation {
            self.ablations.insert(name.clone(), ablation);
        }
        if let Some(run) = run {
            // A run is known by its folder, as the experiments' lists name it.
            self.runs.insert(name, run);
        }
    }

    /// A run that diverged before its first evaluation is judged by the metric of its task's other runs; without any, by
    /// accuracy, or by the only metric that the trivial answer has.
    fn name_metrics(&mut self) {
        let known = self.runs.values().filter_map(|run| Some((run.task.clone(), run.metric.clone()?)));
        let known: BTreeMap<String, String> = known.collect();
        for run in self.runs.values_mut().filter(|run| run.metric.is_none() && run.is_diverged()) {
            let trivial = &run.majority;
            let alone =
                || trivial.get_key_value(ACCURACY).or_else(|| trivial.first_key_value().filter(|_| trivial.len() == 1));
            run.metric = known.get(&run.task).cloned().or_else(|| alone().map(|(metric, _)| metric.clone()));
        }
    }

    /// Changes the configurations of all runs, such as by adding defaults that records leave out.
    pub fn change_configs(&mut self, change: impl Fn(&mut Map<String, Value>)) {
        // Equal ones are kept once, before and after.
        let mut changed = HashMap::new();
        for run in self.runs.values_mut() {
            let new = changed.entry(Arc::as_ptr(&run.config)).or_insert_with(|| {
                let mut config = (*run.config).clone();
                change(&mut config);
                (run.config.clone(), Arc::new(config))
            });
            run.config = new.1.clone();
        }
    }

    /// A record, if it can be used.
    fn read_record<T: DeserializeOwned>(&mut self, file: &str, documents: &Documents<'_>) -> Option<T> {
        read_record(file, documents).map_err(|problem| self.problems.push(problem)).ok()
    }

    /// The whole records of runs, by their ids, read once more: with their curves, a store of very many runs has no room.
    /// Those that are gone are left out.
    ///
    /// # Errors
    /// If the store cannot be read any more.
    pub fn records<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeMap<&'a str, RunRecord>, StoreError> {
        let unreadable = |reason| StoreError::Unreadable { folder: self.folder.clone(), reason };
        let documents = Documents::of(&self.folder).map_err(unreadable)?;
        let record = |id: &'a str| Some((id, read_record(&format!("{id}/{RECORD}"), &documents).ok()?));
        Ok(ids.into_iter().filter_map(record).collect())
    }

    /// How many runs are finished and readable.
    pub fn finished(&self) -> usize {
        self.runs.len()
    }

    /// How many of them belong to no experiment, such as a single training or a search for one task.
    pub fn without_experiment(&self) -> usize {
        let streams = self.experiments.values().flat_map(|record| self.streams(record));
        let streams = streams.flat_map(|stream| &stream.stages).map(|stage| &stage.run);
        let listed: BTreeSet<&String> =
            self.experiments.values().flat_map(|record| &record.runs).chain(streams).collect();
        self.runs.keys().filter(|id| !listed.contains(id)).count()
    }

    /// Every experiment, by the name of its file.
    pub fn experiments(&self) -> impl Iterator<Item = &ExperimentRecord> {
        self.experiments.values()
    }

    /// The experiment of a name: a user's own one, or else a preset.
    pub fn experiment(&self, name: &str) -> Option<&ExperimentRecord> {
        self.experiments().filter(|record| record.name == name).min_by_key(|record| record.preset)
    }

    /// The preset of a name, never a user's own experiment that is called like it.
    pub fn preset(&self, name: &str) -> Option<&ExperimentRecord> {
        self.experiments().find(|record| record.preset && record.name == name)
    }

    /// The readable runs of the [experiment](Self::experiment) of a name, in its order, each once.
    pub fn runs_of(&self, experiment: &str) -> Vec<&Run> {
        self.experiment(experiment).map(|record| self.runs(record)).unwrap_or_default()
    }

    /// The readable runs of a [preset](Self::preset), in its order, each once.
    pub fn preset_runs(&self, name: &str) -> Vec<&Run> {
        self.preset(name).map(|record| self.runs(record)).unwrap_or_default()
    }

    /// The readable runs of an experiment, in its order, each once.
    pub fn runs(&self, experiment: &ExperimentRecord) -> Vec<&Run> {
        let mut seen = BTreeSet::new();
        experiment.runs.iter().filter(|id| seen.insert(id.as_str())).filter_map(|id| self.runs.get(id)).collect()
    }

    /// The ablations of an experiment's runs.
    pub fn ablations(&self, experiment: &ExperimentRecord) -> Vec<&AblationRecord> {
        experiment.runs.iter().filter_map(|id| self.ablations.get(id)).collect()
    }

    /// The runs of an experiment that have an ablation, each once.
    pub(crate) fn ablated(&self, experiment: &ExperimentRecord) -> Vec<(&Run, &AblationRecord)> {
        let mut seen = BTreeSet::new();
        let ids = experiment.runs.iter().filter(|id| seen.insert(id.as_str()));
        ids.filter_map(|id| Some((self.runs.get(id)?, self.ablations.get(id)?))).collect()
    }

    /// The streams of an experiment.
    pub fn streams(&self, experiment: &ExperimentRecord) -> Vec<&StreamRecord> {
        experiment.streams.iter().filter_map(|id| self.streams.get(id)).collect()
    }
}

/// What the folder of a run holds.
#[derive(Default)]
struct Found {
    name: String,
    run: Option<Run>,
    ablation: Option<AblationRecord>,
    unfinished: bool,
    problems: Vec<Problem>,
}

impl Found {
    fn read(name: &str, documents: &Documents<'_>, common: &mut Common) -> Self {
        let mut found = Self { name: name.to_owned(), ..Self::default() };
        let file = format!("{name}/{RECORD}");
        if !documents.has(&file) {
            found.unfinished = TRACES.iter().any(|trace| documents.has(&format!("{name}/{trace}")));
            return found;
        }
        let unusable = |key| Problem { file: file.clone(), what: format!("its configuration has no usable `{key}`") };
        match read_record(&file, documents).map(|record| Run::new(record, common).map_err(unusable)) {
            Ok(Ok(run)) => found.run = Some(run),
            Ok(Err(problem)) => found.problems.push(problem),
            Err(problem) => {
                found.problems.push(problem);
                return found;
            }
        }
        let ablation = format!("{name}/{ABLATION}");
        if documents.has(&ablation) {
            match read_record(&ablation, documents) {
                Ok(ablation) => found.ablation = Some(ablation),
                Err(problem) => found.problems.push(problem),
            }
        }
        found
    }
}

/// A record, if it can be read and is of a form that this program knows.
fn read_record<T: DeserializeOwned>(file: &str, documents: &Documents<'_>) -> Result<T, Problem> {
    let problem = |what: String| Problem { file: file.to_owned(), what };
    let bytes = documents.read(file).map_err(|error| problem(error.to_string()))?;
    let unreadable = |error: serde_json::Error| problem(format!("cannot be read: {error}"));
    // Another version's record may have any other form: its version alone is read first.
    let form = form(&bytes).map_err(unreadable)?;
    match form.cmp(&SCHEMA) {
        Ordering::Greater => Err(problem(format!(
            "written by a newer adapter-lab (form {form}; this one reads up to {SCHEMA}): use that version, or a newer one"
        ))),
        Ordering::Less => Err(problem(format!(
            "written by an older adapter-lab (form {form}; this one reads {SCHEMA}): run it again, or use that version"
        ))),
        Ordering::Equal => serde_json::from_slice(&bytes).map_err(unreadable),
    }
}

/// The version of a record.
fn form(bytes: &[u8]) -> serde_json::Result<u32> {
    #[derive(Deserialize)]
    struct Form {
        schema: u32,
    }
    // It is what our records begin with: most need not be read twice.
    let own = format!("{{\"schema\":{SCHEMA},");
    if bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).take(own.len()).eq(own.as_bytes()) {
        return Ok(SCHEMA);
    }
    Ok(serde_json::from_slice::<Form>(bytes)?.schema)
}

/// Where documents are read from.
enum Documents<'a> {
    Folder(&'a Path),
    Export(BTreeMap<String, Vec<u8>>),
}

impl<'a> Documents<'a> {
    fn of(place: &'a Path) -> io::Result<Self> {
        Ok(if place.is_file() { Documents::Export(documents(place)?) } else { Documents::Folder(place) })
    }

    /// The names of all runs, sorted; in a folder also those of whatever else is there.
    fn runs(&self) -> io::Result<Vec<String>> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        match self {
            Documents::Folder(folder) => {
                for entry in fs::read_dir(folder)? {
                    names.insert(entry?.file_name().to_string_lossy().into_owned());
                }
            }
            Documents::Export(documents) => {
                names.extend(documents.keys().filter_map(|file| Some(file.split_once('/')?.0.to_owned())));
            }
        }
        Ok(names.into_iter().filter(|name| is_run(name)).collect())
    }

    /// Names of the JSON documents in a sub-folder, which need not be there.
    fn json_files(&self, folder: &str) -> Vec<String> {
        match self {
            Documents::Folder(runs) => json_files(&runs.join(folder)),
            Documents::Export(documents) => {
                let inside = documents.keys().filter_map(|file| file.strip_prefix(folder)?.strip_prefix('/'));
                inside.map(str::to_owned).collect()
            }
        }
    }

    fn has(&self, file: &str) -> bool {
        match self {
            Documents::Folder(folder) => folder.join(file).exists(),
            Documents::Export(documents) => documents.contains_key(file),
        }
    }

    fn read(&self, file: &str) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Documents::Folder(folder) => read_file(&folder.join(file)).map(Cow::Owned),
            Documents::Export(documents) => {
                documents.get(file).map(|bytes| Cow::Borrowed(bytes.as_slice())).ok_or(io::ErrorKind::NotFound.into())
            }
        }
    }
}

/// Names of the JSON files in a folder, which need not be there.
pub(crate) fn json_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    names
}
