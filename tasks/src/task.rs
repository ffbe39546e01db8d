//! A task: what it asks for, and where its data comes from.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{DataError, Dataset, Home, Questions, TaskKind};

/// A task's data, by its kind.
#[derive(Clone, Debug)]
pub enum TaskData {
    /// Texts with a class, a score or labels.
    Texts(Dataset),
    /// Questions about texts.
    Questions(Questions),
}

impl TaskData {
    /// What it asks for.
    pub fn kind(&self) -> TaskKind {
        match self {
            TaskData::Texts(dataset) => dataset.kind,
            TaskData::Questions(_) => TaskKind::Span,
        }
    }
}

/// Where a task's data comes from.
pub trait TaskSource: Send + Sync {
    /// The files without which there is no data, under a data folder.
    fn files(&self, data: &Path) -> Vec<PathBuf> {
        let _ = data;
        Vec::new()
    }

    /// Where those files come from; `None` if nobody but the user knows.
    fn home(&self) -> Option<Home> {
        None
    }

    /// Reads the data of the task called `name`.
    ///
    /// # Errors
    /// If a file is missing or not as it must be.
    fn load(&self, name: &str, data: &Path) -> Result<TaskData, DataError>;
}

/// How long the paper trains on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperEpochs {
    /// Epochs of fine-tuning.
    pub fine_tuning: usize,
    /// Epochs of adapters.
    pub adapters: usize,
}

/// A task by name. [`Tasks`](crate::Tasks) holds those of the paper and takes more:
///
/// ```
/// use std::path::Path;
/// use tasks::{DataError, Dataset, FileTask, Task, TaskKind, Tasks};
///
/// let stars = Task::new("stars", TaskKind::Classification, |folder: &Path| -> Result<Dataset, DataError> {
///     FileTask { label_column: "stars".to_owned(), ..FileTask::new(folder.join("reviews.tsv")) }.load()
/// });
/// let mut tasks = Tasks::paper();
/// tasks.add(stars.suite("shop").metric("macro_f1").file("reviews.tsv")).unwrap();
/// assert_eq!(tasks.find("stars").unwrap().files(Path::new("data")), [Path::new("data/reviews.tsv")]);
/// ```
#[derive(Clone)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The group it belongs to: `glue` (§3.2), `additional` (§3.3), `squad` (§3.5), `synthetic` (over the built-in
    /// language, without data), or one of a program's own.
    pub suite: String,
    /// What it asks for.
    pub kind: TaskKind,
    /// The name of the metric it is judged by.
    pub metric: String,
    /// Number of classes, for a classification whose number is known before its data.
    pub classes: Option<usize>,
    /// The paper's epochs, where it gives them for the task.
    pub paper_epochs: Option<PaperEpochs>,
    /// The paper's task whose place a synthetic one takes.
    pub stands_for: Option<String>,
    /// Files it needs beside those that the source names, relative to the data folder.
    files: Vec<PathBuf>,
    home: Option<Home>,
    source: Arc<dyn TaskSource>,
}

impl Task {
    /// The suite of a task that names none.
    pub const OWN_SUITE: &'static str = "own";

    /// A task whose texts `read` reads from the data folder it is given.
    ///
    /// It belongs to the suite `own`, is judged by its kind's metric, and needs no data folder unless it names files.
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(
        name: impl Into<String>,
        kind: TaskKind,
        read: impl Fn(&Path) -> Result<Dataset, E> + Send + Sync + 'static,
    ) -> Self {
        Self::from_source(name, kind, Reader(read))
    }

    /// A task with a source of its own type: see [`Task::new`].
    pub fn from_source(name: impl Into<String>, kind: TaskKind, source: impl TaskSource + 'static) -> Self {
        Self {
            name: name.into(),
            suite: Self::OWN_SUITE.to_owned(),
            kind,
            metric: kind.metric().to_owned(),
            classes: None,
            paper_epochs: None,
            stands_for: None,
            files: Vec::new(),
            home: source.home(),
            source: Arc::new(source),
        }
    }

    /// The same task in another suite.
    pub fn suite(self, suite: impl Into<String>) -> Self {
        Self { suite: suite.into(), ..self }
    }

    /// The same task, judged by another metric.
    pub fn metric(self, metric: impl Into<String>) -> Self {
        Self { metric: metric.into(), ..self }
    }

    /// The same task with a known number of classes.
    pub fn classes(self, classes: usize) -> Self {
        Self { classes: Some(classes), ..self }
    }

    /// The same task with one more file that it needs, relative to the data folder.
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.push(file.into());
        self
    }

    /// The same task with a place where its files come from: `fetch NAME` then gets them.
    pub fn from_home(self, home: Home) -> Self {
        Self { home: Some(home), ..self }
    }

    /// Where its files come from, if that is known.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// What `fetch` calls it.
    pub fn fetch_name(&self) -> String {
        if self.suite == "glue" { format!("glue/{}", self.name) } else { self.name.clone() }
    }

    /// The files it cannot be run without, under a data folder.
    pub fn files(&self, data: &Path) -> Vec<PathBuf> {
        let mut files = self.source.files(data);
        files.extend(self.files.iter().map(|file| data.join(file)));
        files
    }

    /// Whether it needs a data folder at all.
    pub fn needs_data(&self) -> bool {
        !self.files(Path::new("")).is_empty()
    }

    /// Whether all its files are there.
    pub fn is_present(&self, data: &Path) -> bool {
        self.files(data).iter().all(|file| file.is_file())
    }

    /// Checks that all its files are there.
    ///
    /// # Errors
    /// If one is missing; the error says how to get it.
    pub fn check_files(&self, data: &Path) -> Result<(), DataError> {
        match self.files(data).into_iter().find(|file| !file.is_file()) {
            Some(path) => Err(DataError::Missing { task: self.name.clone(), path, how: self.how_to_get_it() }),
            None => Ok(()),
        }
    }

    /// What to do where its files are missing.
    pub fn how_to_get_it(&self) -> String {
        let folder = "give the folder that holds it with --data-dir";
        match &self.home {
            Some(Home::Fetched { .. }) => format!("`adapter-lab fetch {}` gets it, or {folder}", self.fetch_name()),
            Some(Home::ByHand { about }) => format!("{folder}; it comes from {about}"),
            None => folder.to_owned(),
        }
    }

    /// Reads its data, which then has the task's name.
    ///
    /// # Errors
    /// If a file is missing or not as it must be, the reader fails, or it gives data of another kind.
    pub fn load(&self, data: &Path) -> Result<TaskData, DataError> {
        self.check_files(data)?;
        let mut loaded = self.source.load(&self.name, data)?;
        if loaded.kind() != self.kind {
            let (expected, found) = (self.kind, loaded.kind());
            return Err(DataError::OtherKind { task: self.name.clone(), expected, found });
        }
        if let TaskData::Texts(dataset) = &mut loaded {
            dataset.task.clone_from(&self.name);
        }
        Ok(loaded)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, suite, kind, metric, classes, paper_epochs, stands_for, files, home, source: _ } = self;
        f.debug_struct("Task")
            .field("name", name)
            .field("suite", suite)
            .field("kind", kind)
            .field("metric", metric)
            .field("classes", classes)
            .field("paper_epochs", paper_epochs)
            .field("stands_for", stands_for)
            .field("files", files)
            .field("home", home)
            .finish_non_exhaustive()
    }
}

/// A function that reads texts.
struct Reader<F>(F);

impl<F, E> TaskSource for Reader<F>
where
    F: Fn(&Path) -> Result<Dataset, E> + Send + Sync,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn load(&self, _name: &str, data: &Path) -> Result<TaskData, DataError> {
        let failed = |error: E| error.into().downcast().map_or_else(DataError::Reader, |error| *error);
        (self.0)(data).map(TaskData::Texts).map_err(failed)
    }
}
