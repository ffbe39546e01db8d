//! Tasks as the command line names them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bert_backbone::Fetcher;
use clap::{Args, ValueEnum};
use tasks::{FileTask, SquadVersion, Task, TaskData, TaskKind, TokenCache};

/// Which task, and where its files are.
#[derive(Args, Clone, Debug)]
pub struct TaskArgs {
    /// A known task (see `list tasks`), or file:PATH with a .csv, .tsv or .jsonl file of your own
    #[arg(long, value_name = "NAME|file:PATH")]
    pub task: String,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Labels {
    /// One class
    Class,
    /// A number
    Score,
    /// Several labels: a JSON list, or divided by |
    Several,
}

/// A task's data with what is needed to use it.
pub struct LoadedTask {
    /// Texts or questions.
    pub data: TaskData,
    /// Which SQuAD, for questions.
    pub squad: SquadVersion,
}

impl TaskArgs {
    /// Reads the task's files; what a user should know of them goes to standard error.
    pub fn load(&self) -> Result<LoadedTask> {
        let (data, squad) = match self.task.strip_prefix("file:") {
            Some(path) => (TaskData::Texts(self.file(path).load()?), SquadVersion::V1),
            None => {
                let task = Task::find(&self.task)?;
                let Some(folder) = &self.data_dir else {
                    bail!("task `{}` needs --data-dir (or ADAPTER_LAB_DATA): the folder with its files", task.name);
                };
                let squad = if task.name == "squad-v2" { SquadVersion::V2 } else { SquadVersion::V1 };
                (task.load(folder).with_context(|| format!("cannot read task `{}`", task.name))?, squad)
            }
        };
        if let TaskData::Texts(dataset) = &data {
            dataset.notes.iter().for_each(|note| eprintln!("note: {}: {note}", dataset.task));
        }
        Ok(LoadedTask { data, squad })
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

/// Where word pieces are kept: beside the fetched backbones.
pub fn token_cache(fetcher: &Fetcher) -> TokenCache {
    TokenCache::new(fetcher.cache.join("tokens"))
}
