//! Every task of the paper by name.

use std::path::{Path, PathBuf};

use crate::{
    Dataset, Metric, Questions, SquadVersion, TaskKind,
    additional::{self, Additional},
    glue::{self, Glue},
    source::DataError,
    synthetic::{self, Synthetic},
};

/// Which of the paper's experiments a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// GLUE (§3.2).
    Glue,
    /// The 17 additional classification tasks (§3.3).
    Additional,
    /// Question answering (§3.5).
    Squad,
    /// Tasks over the built-in language, which need no data.
    Synthetic,
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Suite::Glue => "glue",
            Suite::Additional => "additional",
            Suite::Squad => "squad",
            Suite::Synthetic => "synthetic",
        })
    }
}

/// A known task.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Its name.
    pub name: &'static str,
    /// Where it belongs.
    pub suite: Suite,
    /// What it asks for.
    pub kind: TaskKind,
    /// The metric it is judged by.
    pub metric: Metric,
    /// Number of classes, for a classification.
    pub classes: Option<usize>,
    /// The paper's epochs of fine-tuning and of adapters, where it gives them for the task.
    pub paper_epochs: Option<[usize; 2]>,
    /// The paper's task whose place a synthetic one takes.
    pub stands_for: Option<&'static str>,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Glue(Glue),
    Additional(Additional),
    Squad(SquadVersion),
    Synthetic(Synthetic),
}

/// A task's data, by its kind.
#[derive(Clone, Debug)]
pub enum TaskData {
    /// Texts with a class, a score or labels.
    Texts(Dataset),
    /// Questions about texts.
    Questions(Questions),
}

impl TaskData {
    /// A hash of every example and label.
    pub fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        fn add<T: std::fmt::Debug>(hasher: &mut blake3::Hasher, part: &[T]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            for example in part {
                hasher.update(format!("{example:?}").as_bytes());
            }
        }
        match self {
            TaskData::Texts(dataset) => {
                add(&mut hasher, &dataset.labels);
                for part in [&dataset.train, &dataset.validation, &dataset.test] {
                    add(&mut hasher, part);
                }
            }
            TaskData::Questions(questions) => {
                add(&mut hasher, &questions.train);
                add(&mut hasher, &questions.validation);
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Every known task.
pub fn tasks() -> Vec<Task> {
    let glue = glue::TASKS.iter().map(|&(name, glue)| Task {
        name,
        suite: Suite::Glue,
        kind: glue.kind(),
        metric: match name {
            "cola" => Metric::Matthews,
            "mrpc" | "qqp" => Metric::F1,
            "sts-b" => Metric::Spearman,
            _ => Metric::Accuracy,
        },
        classes: (!glue.labels.is_empty()).then_some(glue.labels.len()),
        paper_epochs: None,
        stands_for: None,
        source: Source::Glue(glue),
    });
    let additional = additional::TASKS.iter().map(|&(name, additional)| Task {
        name,
        suite: Suite::Additional,
        kind: TaskKind::Classification,
        metric: Metric::Accuracy,
        classes: Some(additional.classes),
        paper_epochs: Some(additional.epochs),
        stands_for: None,
        source: Source::Additional(additional),
    });
    let squad = [("squad", SquadVersion::V1), ("squad-v2", SquadVersion::V2)].map(|(name, version)| Task {
        name,
        suite: Suite::Squad,
        kind: TaskKind::Span,
        metric: Metric::AnswerF1,
        classes: None,
        paper_epochs: None,
        stands_for: None,
        source: Source::Squad(version),
    });
    let synthetic = synthetic::TASKS.iter().map(|&(name, task)| Task {
        name,
        suite: Suite::Synthetic,
        kind: task.kind,
        metric: task.metric,
        classes: (!task.labels.is_empty()).then_some(task.labels.len()),
        paper_epochs: None,
        stands_for: Some(task.stands_for),
        source: Source::Synthetic(task),
    });
    glue.chain(additional).chain(squad).chain(synthetic).collect()
}

impl Task {
    /// The task called `name`, in upper or lower case.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn find(name: &str) -> Result<Self, DataError> {
        let lower = name.to_lowercase();
        if let Some(task) = tasks().into_iter().find(|task| task.name == lower) {
            return Ok(task);
        }
        let nearest = nearest(&lower, tasks().iter().map(|task| task.name)).map(str::to_owned);
        Err(DataError::UnknownTask { name: name.to_owned(), nearest })
    }

    /// The files it cannot be run without, under a data folder.
    pub fn files(&self, data: &Path) -> Vec<PathBuf> {
        match self.source {
            Source::Glue(glue) => glue.files(data),
            Source::Additional(additional) => additional.files(data),
            Source::Squad(version) => version.files(data).into(),
            Source::Synthetic(_) => Vec::new(),
        }
    }

    /// Whether it needs a data folder at all.
    pub fn needs_data(&self) -> bool {
        self.suite != Suite::Synthetic
    }

    /// The task over the built-in language that takes its place.
    pub fn stand_in(&self) -> Option<Task> {
        tasks().into_iter().find(|task| task.stands_for == Some(self.name))
    }

    /// Whether all its files are there.
    pub fn is_present(&self, data: &Path) -> bool {
        self.files(data).iter().all(|file| file.is_file())
    }

    /// Reads its files.
    ///
    /// # Errors
    /// If a file is missing or not as it must be.
    pub fn load(&self, data: &Path) -> Result<TaskData, DataError> {
        if let Some(missing) = self.files(data).into_iter().find(|file| !file.is_file()) {
            return Err(DataError::Missing { task: self.name.to_owned(), path: missing });
        }
        match self.source {
            Source::Glue(glue) => glue.load(self.name, data).map(TaskData::Texts),
            Source::Additional(additional) => additional.load(self.name, data).map(TaskData::Texts),
            Source::Squad(version) => Questions::load(version, data).map(TaskData::Questions),
            Source::Synthetic(task) => Ok(task.load(self.name)),
        }
    }
}

/// The known name that is nearest to a mistyped one, if any is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|known| (strsim::levenshtein(name, known), known));
    distances.min().filter(|(distance, known)| 2 * distance <= known.len()).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let names: BTreeSet<_> = tasks().iter().map(|task| task.name).collect();
        assert_eq!(names.len(), 10 + 17 + 2 + 12);
        assert_eq!(Task::find("CoLA").unwrap().name, "cola");
        assert_eq!(Task::find("SST-2").unwrap().name, "sst-2");
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_or_none() {
        let message = |name| Task::find(name).unwrap_err().to_string();
        assert!(message("colla").contains("did you mean `cola`?"), "{}", message("colla"));
        assert!(message("sms_spam").contains("did you mean `sms-spam`?"));
        assert!(!message("translation-to-french").contains("did you mean"));
    }
}
