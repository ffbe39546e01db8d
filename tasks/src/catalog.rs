//! Tasks by name: every one of the paper, and a program's own beside them.

use std::{path::Path, slice};

use adapter_core::nearest;

use crate::{DataError, FileTask, HubTask, PaperEpochs, SquadVersion, Task, TaskKind, additional, glue, synthetic};

/// The known tasks. The default are those of the paper and their stand-ins over the built-in language.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<Task>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::paper()
    }
}

impl Tasks {
    /// Every task of the paper, and the synthetic ones.
    pub fn paper() -> Self {
        let classes = |labels: &[&str]| (!labels.is_empty()).then_some(labels.len());
        let glue = glue::TASKS.iter().map(|&(name, glue)| {
            let metric = match name {
                "cola" => "matthews",
                "mrpc" | "qqp" => "f1",
                "sts-b" => "spearman",
                _ => "accuracy",
            };
            let mut task = Task::from_source(name, glue.kind(), glue).suite("glue").metric(metric);
            task.classes = classes(glue.labels);
            task
        });
        let additional = additional::TASKS.iter().map(|&(name, additional)| {
            let [fine_tuning, adapters] = additional.epochs;
            let task = Task::from_source(name, TaskKind::Classification, additional).suite("additional");
            let mut task = task.classes(additional.classes);
            task.paper_epochs = Some(PaperEpochs { fine_tuning, adapters });
            task
        });
        let squad = [("squad", SquadVersion::V1), ("squad-v2", SquadVersion::V2)]
            .map(|(name, version)| Task::from_source(name, TaskKind::Span, version).suite("squad"));
        let built_in = |name: String, suite, synthetic: synthetic::Synthetic| {
            let task = Task::from_source(name, synthetic.kind, synthetic).suite(suite);
            let mut task = task.metric(synthetic.metric);
            task.classes = classes(synthetic.labels);
            task.stands_for = Some(synthetic.stands_for.to_owned());
            task
        };
        let all = synthetic::TASKS.iter();
        let tuning =
            all.clone().map(|(name, synthetic)| built_in(format!("{name}-tuning"), "tuning", synthetic.tuning()));
        let synthetic = all.map(|&(name, synthetic)| built_in(name.to_owned(), "synthetic", synthetic));
        Self { tasks: glue.chain(additional).chain(squad).chain(synthetic).chain(tuning).collect() }
    }

    /// Adds a task.
    ///
    /// # Errors
    /// If it has no name, a name that starts with `file:`, or one that another task has, in upper or lower case.
    pub fn add(&mut self, task: Task) -> Result<(), DataError> {
        let problem = if task.name.is_empty() {
            "it needs a name"
        } else if lower(&task.name).starts_with("file:") {
            "`file:` stands before the path of a file"
        } else if HubTask::is_name(&lower(&task.name)) {
            "`hub:` stands before the name of a dataset"
        } else if self.get(&task.name).is_some() {
            "another task has that name"
        } else {
            self.tasks.push(task);
            return Ok(());
        };
        Err(DataError::TaskName { name: task.name, problem })
    }

    /// The task called `name`, in upper or lower case.
    ///
    /// # Errors
    /// If there is none; the error names the nearest, or `file:PATH` where a table is called so.
    pub fn find(&self, name: &str) -> Result<&Task, DataError> {
        self.get(name).ok_or_else(|| {
            let path = Path::new(name);
            let file = (FileTask::is_table(path) && path.is_file()).then(|| format!("file:{name}"));
            let known = || nearest(&lower(name), self.iter().map(|task| task.name.as_str())).map(str::to_owned);
            let nearest = file.or_else(known);
            DataError::UnknownTask { name: name.to_owned(), nearest }
        })
    }

    /// All tasks: the paper's first, then those that were added.
    pub fn iter(&self) -> slice::Iter<'_, Task> {
        self.tasks.iter()
    }

    /// The tasks of a suite; none if there is no such suite.
    pub fn suite(&self, name: &str) -> Vec<&Task> {
        self.iter().filter(|task| task.suite == name).collect()
    }

    /// The names of all suites, each once.
    pub fn suites(&self) -> Vec<&str> {
        let mut suites: Vec<&str> = Vec::new();
        for task in self {
            if !suites.contains(&task.suite.as_str()) {
                suites.push(&task.suite);
            }
        }
        suites
    }

    /// The task of `suite` that takes the place of `task` where its data is not there.
    pub fn stand_in(&self, task: &Task, suite: &str) -> Option<&Task> {
        self.suite(suite).into_iter().find(|other| other.stands_for.as_ref() == Some(&task.name))
    }

    fn get(&self, name: &str) -> Option<&Task> {
        self.iter().find(|task| lower(&task.name) == lower(name))
    }
}

impl<'a> IntoIterator for &'a Tasks {
    type Item = &'a Task;
    type IntoIter = slice::Iter<'a, Task>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn lower(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let tasks = Tasks::paper();
        let names: BTreeSet<_> = tasks.iter().map(|task| &task.name).collect();
        assert_eq!(names.len(), 10 + 17 + 2 + 2 * 16);
        assert_eq!(tasks.find("CoLA").unwrap().name, "cola");
        assert_eq!(tasks.find("SST-2").unwrap().name, "sst-2");
    }

    #[test]
    fn suites_have_the_papers_tasks() {
        let tasks = Tasks::paper();
        assert_eq!(tasks.suites(), ["glue", "additional", "squad", "synthetic", "tuning"]);
        let sizes: Vec<_> = tasks.suites().into_iter().map(|suite| tasks.suite(suite).len()).collect();
        assert_eq!(sizes, [10, 17, 2, 16, 16]);
        assert!(tasks.iter().all(|task| task.needs_data() != ["synthetic", "tuning"].contains(&task.suite.as_str())));
        assert!(tasks.iter().all(|task| task.paper_epochs.is_some() == (task.suite == "additional")));
        let stand_in = tasks.stand_in(tasks.find("cola").unwrap(), "synthetic").unwrap();
        assert_eq!((stand_in.name.as_str(), stand_in.stands_for.as_deref()), ("syn-acceptability", Some("cola")));
        assert!(tasks.stand_in(stand_in, "synthetic").is_none());
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_or_none() {
        let message = |name| Tasks::paper().find(name).unwrap_err().to_string();
        assert!(message("colla").contains("did you mean `cola`?"), "{}", message("colla"));
        assert!(message("sms_spam").contains("did you mean `sms-spam`?"));
        assert!(!message("translation-to-french").contains("did you mean"));
    }

    #[test]
    fn a_file_that_is_there_is_taken_for_what_was_meant() {
        let folder = tempfile::tempdir().unwrap();
        let [table, text] = ["cola.csv", "cola.txt"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "text,label\n").unwrap();
            path.display().to_string()
        });
        let message = |name: &str| Tasks::paper().find(name).unwrap_err().to_string();
        assert!(message(&table).contains(&format!("did you mean `file:{table}`?")), "{}", message(&table));
        assert!(!message(&text).contains("file:/"), "{}", message(&text));
    }
}
