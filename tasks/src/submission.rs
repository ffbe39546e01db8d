//! Files for the GLUE server.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use adapter_core::write_atomically;

use crate::{
    Example, Prediction, TaskKind,
    glue::{DIAGNOSTIC, Glue, TASKS},
    source::DataError,
};

/// Why there is no submission.
#[derive(Debug, thiserror::Error)]
pub enum SubmissionError {
    /// The task is not one of GLUE's.
    #[error("task `{0}` is not one of GLUE's; the server takes no file for it")]
    NotGlue(String),
    /// The task's test file is not there.
    #[error("task `{0}` has no test examples to predict; its test file is missing")]
    NoTest(String),
    /// The test file cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file cannot be written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// A test set of the GLUE server.
#[derive(Clone, Debug)]
pub struct TestSet {
    /// The name of the server's file.
    pub file: &'static str,
    /// What is predicted.
    pub kind: TaskKind,
    /// The classes; none for scores.
    pub labels: &'static [&'static str],
    /// The examples, numbered as the server numbers them.
    pub examples: Vec<Example>,
}

impl TestSet {
    /// The test sets under `data` that a model of `task` answers: MNLI's answers both of its own and the diagnostic one.
    ///
    /// # Errors
    /// If the task is not one of GLUE's, none of its test files is there, or one cannot be read.
    pub fn of(task: &str, data: &Path) -> Result<Vec<Self>, SubmissionError> {
        let glue = Glue::find(task).ok_or_else(|| SubmissionError::NotGlue(task.to_owned()))?;
        let same_folder = TASKS.iter().map(|(_, other)| *other).filter(|other| other.folder == glue.folder);
        let diagnostic = (glue.labels == DIAGNOSTIC.labels).then_some(DIAGNOSTIC);
        let mut sets = Vec::new();
        for layout in same_folder.chain(diagnostic) {
            sets.extend(layout.test_set(data)?.filter(|set| !set.examples.is_empty()));
        }
        if sets.is_empty() {
            return Err(SubmissionError::NoTest(task.to_owned()));
        }
        Ok(sets)
    }

    /// Writes the server's file (`CoLA.tsv`, …) into `folder`: indices and predictions, classes by name.
    ///
    /// # Errors
    /// If the file cannot be written.
    ///
    /// # Panics
    /// If there are not as many predictions as examples, or they are not of the set's kind.
    pub fn write(&self, predictions: &[Prediction], folder: &Path) -> Result<PathBuf, SubmissionError> {
        assert_eq!(predictions.len(), self.examples.len(), "one prediction for each test example");
        let mut text = "index\tprediction\n".to_owned();
        for (example, prediction) in self.examples.iter().zip(predictions) {
            let value = match prediction {
                Prediction::Class(class, _) => self.labels[*class].to_owned(),
                // Only STS-B has scores, and they lie between 0 and 5.
                Prediction::Score(score) => format!("{:.3}", score.clamp(0.0, 5.0)),
                Prediction::Labels(..) => panic!("no task of GLUE has several labels"),
            };
            text.push_str(&format!("{}\t{value}\n", example.id));
        }
        let path = folder.join(self.file);
        write_atomically(&path, text.as_bytes())
            .map_err(|reason| SubmissionError::Io { path: path.clone(), reason })?;
        Ok(path)
    }
}

/// The names of all files that the server takes.
pub fn submission_files() -> impl Iterator<Item = &'static str> {
    TASKS.iter().map(|(_, glue)| glue.submission).chain([DIAGNOSTIC.submission])
}

/// Puts every submission file of `folder` into `folder/submission.zip`, as the server takes it.
///
/// # Errors
/// If a file cannot be read or the archive not be written.
pub fn zip_submission(folder: &Path) -> Result<PathBuf, SubmissionError> {
    let path = folder.join("submission.zip");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |reason: io::Error| SubmissionError::Io { path, reason }
    };
    let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for name in submission_files() {
        let file = folder.join(name);
        if file.is_file() {
            let contents = fs::read(&file).map_err(at(&file))?;
            let started = archive.start_file(name, options).map_err(io::Error::other);
            started.and_then(|()| archive.write_all(&contents)).map_err(at(&path))?;
        }
    }
    let bytes = archive.finish().map_err(io::Error::other).map_err(at(&path))?.into_inner();
    write_atomically(&path, &bytes).map_err(at(&path))?;
    Ok(path)
}
