//! Files for the GLUE server.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use adapter_core::write_atomically;

use crate::{Dataset, Prediction, TaskKind, glue::Glue};

/// Why there is no submission.
#[derive(Debug, thiserror::Error)]
pub enum SubmissionError {
    /// The task is not one of GLUE's.
    #[error("task `{0}` is not one of GLUE's; the server takes no file for it")]
    NotGlue(String),
    /// The task's test file is not there.
    #[error("task `{0}` has no test examples to predict; its test file is missing")]
    NoTest(String),
    /// A file cannot be written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// Writes the server's file for a task (`CoLA.tsv`, …): the test examples' indices and predictions, classes by name.
///
/// # Errors
/// If the task is not one of GLUE's, has no test examples, or the file cannot be written.
///
/// # Panics
/// If there are not as many predictions as test examples.
pub fn write_submission(
    dataset: &Dataset,
    predictions: &[Prediction],
    folder: &Path,
) -> Result<PathBuf, SubmissionError> {
    let glue = Glue::find(&dataset.task).ok_or_else(|| SubmissionError::NotGlue(dataset.task.clone()))?;
    if dataset.test.is_empty() {
        return Err(SubmissionError::NoTest(dataset.task.clone()));
    }
    assert_eq!(predictions.len(), dataset.test.len(), "one prediction for each test example");
    let mut text = "index\tprediction\n".to_owned();
    for (example, prediction) in dataset.test.iter().zip(predictions) {
        let value = match prediction {
            Prediction::Class(class, _) => dataset.labels[*class].clone(),
            // STS-B's scores lie between 0 and 5.
            Prediction::Score(score) if dataset.kind == TaskKind::Regression => format!("{:.3}", score.clamp(0.0, 5.0)),
            Prediction::Score(score) => score.to_string(),
            Prediction::Labels(labels, _) => format!("{labels:?}"),
        };
        text.push_str(&format!("{}\t{value}\n", example.id));
    }
    let path = folder.join(glue.submission);
    write_atomically(&path, text.as_bytes()).map_err(|reason| SubmissionError::Io { path: path.clone(), reason })?;
    Ok(path)
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
    for (_, glue) in crate::glue::TASKS {
        let file = folder.join(glue.submission);
        if file.is_file() {
            let contents = fs::read(&file).map_err(at(&file))?;
            let started = archive.start_file(glue.submission, options).map_err(io::Error::other);
            started.and_then(|()| archive.write_all(&contents)).map_err(at(&path))?;
        }
    }
    let bytes = archive.finish().map_err(io::Error::other).map_err(at(&path))?.into_inner();
    write_atomically(&path, &bytes).map_err(at(&path))?;
    Ok(path)
}
