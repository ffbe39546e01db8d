//! Where the files of tasks come from, and how they get into a data folder.

use std::path::{Path, PathBuf};

use bert_backbone::{FetchError, Fetched, Fetcher, Source};

use crate::{DataError, HubTask, Task, Tasks, glue};

/// Where a task's files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// A place from which they can be fetched.
    Fetched {
        /// Their folder under the data folder.
        folder: PathBuf,
        /// The place.
        source: Source,
    },
    /// A place where the user gets them.
    ByHand {
        /// Which.
        about: String,
    },
}

impl Home {
    /// Files that `source` has, kept in `folder` under the data folder.
    pub fn new(folder: impl Into<PathBuf>, source: Source) -> Self {
        Self::Fetched { folder: folder.into(), source }
    }

    /// Files that the user must get.
    pub fn by_hand(about: impl Into<String>) -> Self {
        Self::ByHand { about: about.into() }
    }
}

/// What a fetch of data did, task by task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTask {
    /// The task, or the dataset of the hub.
    pub name: String,
    /// Its folder, and whether it is new.
    pub fetched: Fetched,
}

/// Why data was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum DataFetchError {
    /// It did not arrive.
    #[error("{name}: {reason}")]
    Failed {
        /// The task, or the dataset of the hub.
        name: String,
        /// Why.
        reason: FetchError,
    },
    /// It must be got by hand.
    #[error("task `{task}` cannot be fetched: {} comes from {about}; put it there", file.display())]
    ByHand {
        /// The task.
        task: String,
        /// The file that it needs.
        file: PathBuf,
        /// Where it comes from.
        about: String,
    },
    /// The dataset of the hub is not what is asked for.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl Tasks {
    /// Whether `name` is a task, a suite, `SUITE/TASK` or `hub:OWNER/NAME`: something whose data can be asked for.
    pub fn can_fetch(&self, name: &str) -> bool {
        let suite = name.split('/').next().unwrap_or_default();
        HubTask::is_name(name) || self.find(name).is_ok() || self.suites().contains(&suite)
    }

    /// Gets the data called `name` into the folder `data`: a task, all of a suite, `SUITE/TASK`, or `hub:OWNER/NAME`.
    ///
    /// # Errors
    /// If there is no such data, it must be got by hand, or it does not arrive whole. What arrived before that stays.
    pub fn fetch(&self, name: &str, data: &Path, fetcher: &Fetcher) -> Result<Vec<FetchedTask>, DataFetchError> {
        if HubTask::is_name(name) {
            let task = HubTask::parse(name)?;
            let fetched = task.fetch(data, fetcher)?;
            return Ok(vec![FetchedTask { name: task.to_string(), fetched }]);
        }
        let mut tasks = self.named(name)?;
        let diagnostic = glue::diagnostic();
        if name == "glue" {
            tasks.push(&diagnostic);
        }
        let mut fetched: Vec<FetchedTask> = Vec::new();
        for task in &tasks {
            match task.home() {
                Some(Home::Fetched { folder, source }) => fetched.push(task.fetch(folder, source, data, fetcher)?),
                Some(Home::ByHand { about }) if tasks.len() == 1 => {
                    let file = task.files(data).into_iter().next().unwrap_or_default();
                    return Err(DataFetchError::ByHand { task: task.name.clone(), file, about: about.clone() });
                }
                Some(Home::ByHand { .. }) | None => {}
            }
        }
        if fetched.is_empty() {
            return Err(DataError::Request(format!("there is nothing to fetch for `{name}`")).into());
        }
        Ok(fetched)
    }

    /// The tasks that a name of `fetch` stands for.
    fn named(&self, name: &str) -> Result<Vec<&Task>, DataError> {
        match (self.find(name), name.split_once('/')) {
            (Ok(task), _) => Ok(vec![task]),
            (Err(_), Some((suite, task))) if self.suites().contains(&suite) => {
                let task = self.find(task)?;
                let other = || DataError::Request(format!("`{}` is a task of {}", task.name, task.suite));
                if task.suite == suite { Ok(vec![task]) } else { Err(other()) }
            }
            (Err(_), None) if self.suites().contains(&name) => Ok(self.suite(name)),
            (Err(unknown), _) => Err(unknown),
        }
    }
}

impl Task {
    /// Gets its files into `folder` under `data`, unless they are there.
    fn fetch(
        &self,
        folder: &Path,
        source: &Source,
        data: &Path,
        fetcher: &Fetcher,
    ) -> Result<FetchedTask, DataFetchError> {
        let (name, folder) = (self.name.clone(), data.join(folder));
        let failed = |reason| DataFetchError::Failed { name: name.clone(), reason };
        let fetched = if self.is_present(data) {
            Fetched::AlreadyThere(folder)
        } else {
            fetcher.fetch_into(&folder, source).map_err(failed)?
        };
        // A folder of that name may be there with something else in it.
        if let Some(missing) = self.files(data).into_iter().find(|file| !file.is_file()) {
            let file = missing.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(failed(FetchError::OtherFolder { folder: fetched.folder().to_owned(), file }));
        }
        Ok(FetchedTask { name, fetched })
    }
}
