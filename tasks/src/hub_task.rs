//! Any dataset of the Hugging Face hub with a column of texts and one of labels: `hub:OWNER/NAME`.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use bert_backbone::{FetchError, Fetched, Fetcher, RepositoryKind, Source};

use crate::{DataError, DataFetchError, FileTask};

/// A dataset of the hub, or one configuration of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubTask {
    repository: String,
    config: Option<String>,
}

/// Names of the part to choose by.
const VALIDATION: [&str; 5] = ["validation", "valid", "val", "dev", "validation_matched"];

impl HubTask {
    const PREFIX: &str = "hub:";

    /// Whether a task's name means a dataset of the hub.
    pub fn is_name(task: &str) -> bool {
        task.starts_with(Self::PREFIX)
    }

    /// What `hub:OWNER/NAME` or `hub:OWNER/NAME/CONFIG` means.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(task: &str) -> Result<Self, DataError> {
        // They become parts of paths and addresses.
        let is_plain = |part: &&str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let name = task.strip_prefix(Self::PREFIX).unwrap_or(task);
        let parts: Vec<&str> = name.split('/').collect();
        let (repository, config) = match &parts[..] {
            [owner, name] => (format!("{owner}/{name}"), None),
            [owner, name, config] => (format!("{owner}/{name}"), Some(config.to_string())),
            _ => (String::new(), None),
        };
        if repository.is_empty() || !parts.iter().all(is_plain) {
            return Err(DataError::Request(format!("`{task}` is not hub:OWNER/NAME or hub:OWNER/NAME/CONFIG")));
        }
        Ok(Self { repository, config })
    }

    /// Its files as a task: the columns are those of `how`, whose files are used where they are given.
    ///
    /// # Errors
    /// If it was not fetched, or one of several configurations must be chosen.
    pub fn files(&self, data: &Path, how: FileTask) -> Result<FileTask, DataError> {
        let folder = self.folder(data);
        let folder = match &self.config {
            Some(config) => folder.join(config),
            None => {
                let mut found = configs_in(&folder);
                if found.len() > 1 {
                    return Err(self.several(found.iter().map(String::as_str)));
                }
                folder.join(found.pop().unwrap_or_default())
            }
        };
        let part = |names: &[&str]| names.iter().map(|name| folder.join(name)).find(|path| path.is_dir());
        let Some(path) = part(&["train"]) else {
            let problem =
                format!("{} is not there: run `adapter-lab fetch {self}` first", folder.join("train").display());
            return Err(DataError::Request(problem));
        };
        Ok(FileTask {
            path,
            validation_file: how.validation_file.or_else(|| part(&VALIDATION)),
            test_file: how.test_file.or_else(|| part(&["test"])),
            ..how
        })
    }

    /// Gets its Parquet files into the folder `data`: those of the dataset itself, or those that the hub made of it.
    ///
    /// # Errors
    /// If there are none, several configurations, or they do not arrive whole.
    pub fn fetch(&self, data: &Path, fetcher: &Fetcher) -> Result<Fetched, DataFetchError> {
        let failed = |reason: FetchError| DataFetchError::Failed { name: self.to_string(), reason };
        let folder = self.folder(data);
        let mut there = configs_in(&folder);
        there.retain(|config| self.config.as_ref().is_none_or(|wanted| wanted == config));
        if let Some(config) = there.first() {
            return Ok(Fetched::AlreadyThere(folder.join(config)));
        }
        let hub = fetcher.hub();
        let mut listed = hub.repository(RepositoryKind::Dataset, &self.repository).map_err(|e| failed(e.into()))?;
        let mut parts = Parts::of(listed.files());
        if parts.0.is_empty() {
            listed = hub.converted(&self.repository).map_err(|e| failed(e.into()))?;
            parts = Parts::of(listed.files());
        }
        let config = match (&self.config, parts.0.len()) {
            (Some(config), _) if parts.0.contains_key(config) => config.clone(),
            (None, 1) => parts.0.keys().next().cloned().unwrap_or_default(),
            (_, 0) => return Err(DataError::Request(format!("{self}: the dataset has no Parquet files")).into()),
            _ => return Err(self.several(parts.0.keys().map(String::as_str)).into()),
        };
        let files = parts.0.remove(&config).unwrap_or_default();
        if !files.iter().any(|(_, here)| here.starts_with("train/")) {
            return Err(DataError::Request(format!("{self}: the dataset has no part called train")).into());
        }
        let source = Source::Dataset { repository: self.repository.clone(), files };
        fetcher.fetch_into(&folder.join(&config), &source).map_err(failed)
    }

    fn folder(&self, data: &Path) -> PathBuf {
        data.join("hub").join(self.repository.replace('/', "--"))
    }

    fn several<'a>(&self, configs: impl Iterator<Item = &'a str>) -> DataError {
        let configs: Vec<&str> = configs.collect();
        let problem =
            format!("hub:{} has several configurations: choose one of {}", self.repository, configs.join(", "));
        DataError::Request(format!("{problem}, as hub:{}/NAME", self.repository))
    }
}

impl fmt::Display for HubTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.repository)?;
        self.config.as_ref().map_or(Ok(()), |config| write!(f, "/{config}"))
    }
}

/// The folders of configurations that were fetched.
fn configs_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().join("train").is_dir());
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The Parquet files of a dataset by configuration: each one's path there, and `PART/NUMBER.parquet` here.
struct Parts(BTreeMap<String, Vec<(String, String)>>);

impl Parts {
    fn of<'a>(files: impl Iterator<Item = &'a str>) -> Self {
        let mut parts: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let mut numbers: BTreeMap<(String, String), usize> = BTreeMap::new();
        for file in files {
            let Some((config, part)) = meaning(file) else { continue };
            let number = numbers.entry((config.clone(), part.clone())).or_default();
            parts.entry(config).or_default().push((file.to_owned(), format!("{part}/{number:05}.parquet")));
            *number += 1;
        }
        Self(parts)
    }
}

/// The configuration and the part that a Parquet file belongs to: `CONFIG/PART-00000-of-00001.parquet`, `data/PART-….parquet`,
/// `CONFIG/PART/0000.parquet` or `PART.parquet`.
fn meaning(file: &str) -> Option<(String, String)> {
    let is_plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let steps: Vec<&str> = file.strip_suffix(".parquet")?.split('/').collect();
    let (name, folders) = steps.split_last()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (part, folders) = match (name.split_once('-'), folders.split_last()) {
        (Some((part, rest)), _) if rest.starts_with(|c: char| c.is_ascii_digit()) => (part, folders),
        (_, Some((part, above))) if is_number(name) => (*part, above),
        _ => (*name, folders),
    };
    let config = match folders {
        [] | ["data"] => "default",
        [config] => config,
        _ => return None,
    };
    (is_plain(config) && is_plain(part)).then(|| (config.to_owned(), part.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cola/train-00000-of-00001.parquet", Some(("cola", "train")))]
    #[case("data/test-00001-of-00002-3f2a.parquet", Some(("default", "test")))]
    #[case("plain_text/validation/0000.parquet", Some(("plain_text", "validation")))]
    #[case("train.parquet", Some(("default", "train")))]
    #[case("mnli/validation_matched-00000-of-00001.parquet", Some(("mnli", "validation_matched")))]
    #[case("README.md", None)]
    #[case("../../train.parquet", None)]
    #[case("../train/0000.parquet", None)]
    #[case("a/b/c/train/0000.parquet", None)]
    fn a_files_name_tells_its_configuration_and_part(#[case] file: &str, #[case] expected: Option<(&str, &str)>) {
        let found = meaning(file);
        assert_eq!(found.as_ref().map(|(config, part)| (config.as_str(), part.as_str())), expected);
    }

    #[rstest]
    #[case("hub:owner/name", true)]
    #[case("hub:owner/name/config", true)]
    #[case("hub:name", false)]
    #[case("hub:../name", false)]
    #[case("hub:owner/name/../x", false)]
    #[case("hub:owner//x", false)]
    fn a_name_is_an_owner_and_a_dataset(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(HubTask::parse(name).map(|task| task.to_string() == name).unwrap_or(false), expected);
    }
}
