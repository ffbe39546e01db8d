//! Tasks as the command line names them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bert_backbone::Fetcher;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tasks::{Dataset, FileTask, Metric, Task, TaskData, TaskKind, TokenCache};

/// Which task, and where its files are.
#[derive(Args, Clone, Debug)]
pub struct TaskArgs {
    /// A known task (see `list tasks`), or file:PATH with a .csv, .tsv or .jsonl file of your own
    #[arg(long, value_name = "NAME|file:PATH")]
    task: Option<String>,
    #[command(flatten)]
    files: TaskFiles,
}

/// Where the files of tasks are, and what they look like.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct TaskFiles {
    /// Folder with glue_data/, additional/ and squad/
    #[arg(long, env = "ADAPTER_LAB_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// For file:PATH: the text's column
    #[arg(long, default_value = "text", value_name = "NAME")]
    pub text_column: String,
    /// For file:PATH: the second text's column
    #[arg(long, value_name = "NAME")]
    pub pair_column: Option<String>,
    /// For file:PATH: the column of labels or scores
    #[arg(long, default_value = "label", value_name = "NAME")]
    pub label_column: String,
    /// For file:PATH: what that column holds
    #[arg(long, value_enum, default_value_t = Labels::Class)]
    pub labels: Labels,
    /// For file:PATH: examples to choose by [default: a tenth of the file]
    #[arg(long, value_name = "FILE")]
    pub validation_file: Option<PathBuf>,
    /// For file:PATH: examples to report on [default: a tenth of the file]
    #[arg(long, value_name = "FILE")]
    pub test_file: Option<PathBuf>,
}

/// What a label column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Labels {
    /// One class
    Class,
    /// A number
    Score,
    /// Several labels: a JSON list, or divided by |
    Several,
}

impl TaskArgs {
    /// The task as it was named.
    pub fn name(&self) -> Result<&str> {
        self.task.as_deref().context("give --task: a name of `list tasks`, or file:PATH")
    }

    /// Reads the task's files: see [`TaskFiles::load`].
    pub fn load(&self, labels: Option<&[String]>) -> Result<TaskData> {
        self.files.load(self.name()?, labels)
    }

    /// Checks that there is such a task and a folder to look for it, without reading it.
    pub fn check(&self) -> Result<()> {
        self.files.check(self.name()?)
    }

    /// The metric the task is judged by, for a known one.
    pub fn metric(&self) -> Option<Metric> {
        Task::find(self.task.as_deref()?).ok().map(|task| task.metric)
    }
}

impl TaskFiles {
    /// Reads the files of the task called `name`; what a user should know of them goes to standard error.
    ///
    /// `labels` are those of a model that is to be used on a file of the user's own.
    pub fn load(&self, name: &str, labels: Option<&[String]>) -> Result<TaskData> {
        let data = match name.strip_prefix("file:") {
            Some(path) => {
                let known_labels = labels.filter(|labels| !labels.is_empty()).map(<[String]>::to_vec);
                TaskData::Texts(FileTask { known_labels, ..self.file(path) }.load()?)
            }
            None => {
                self.check(name)?;
                let (task, folder) = (Task::find(name)?, self.data_dir.clone().unwrap_or_default());
                task.load(&folder).with_context(|| format!("cannot read task `{}`", task.name))?
            }
        };
        if let TaskData::Texts(dataset) = &data {
            print_notes(dataset);
        }
        Ok(data)
    }

    /// Checks that there is such a task and a folder to look for it, without reading it.
    pub fn check(&self, name: &str) -> Result<()> {
        if name.starts_with("file:") {
            return Ok(());
        }
        let task = Task::find(name)?;
        match self.data_dir {
            _ if !task.needs_data() => Ok(()),
            Some(_) => Ok(()),
            None => bail!("task `{}` needs --data-dir (or ADAPTER_LAB_DATA): the folder with its files", task.name),
        }
    }

    fn file(&self, path: &str) -> FileTask {
        FileTask {
            text_column: self.text_column.clone(),
            pair_column: self.pair_column.clone(),
            label_column: self.label_column.clone(),
            kind: match self.labels {
                Labels::Class => TaskKind::Classification,
                Labels::Score => TaskKind::Regression,
                Labels::Several => TaskKind::MultiLabel,
            },
            validation_file: self.validation_file.clone(),
            test_file: self.test_file.clone(),
            ..FileTask::new(path)
        }
    }
}

/// Says on standard error what a user should know of a dataset.
pub fn print_notes(dataset: &Dataset) {
    dataset.notes.iter().for_each(|note| eprintln!("note: {}: {note}", dataset.task));
}

/// Where word pieces are kept: beside the fetched backbones.
pub fn token_cache(fetcher: &Fetcher) -> TokenCache {
    TokenCache::new(fetcher.cache.join("tokens"))
}
