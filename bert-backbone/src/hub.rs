//! The Hugging Face hub: what a repository holds, and its files.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{DownloadError, Downloader, Expected};

/// The hub itself.
pub const HUGGING_FACE: &str = "https://huggingface.co";

/// A hub, asked in its own way.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Its address.
    pub endpoint: String,
    /// How files are got.
    pub downloader: Downloader,
}

/// What a repository holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryKind {
    /// Weights.
    Model,
    /// Data.
    Dataset,
}

/// A repository at one revision.
#[derive(Clone, Debug)]
pub struct Repository {
    /// `owner/name`.
    pub name: String,
    /// Which version of it.
    pub revision: String,
    kind: RepositoryKind,
    files: BTreeMap<String, Published>,
}

/// What is published of a file.
#[derive(Clone, Debug, Default)]
struct Published {
    size: Option<u64>,
    sha256: Option<String>,
}

/// Where files came from: kept beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// `owner/name` of the hub, or an address.
    pub source: String,
    /// Which version of it, if it has versions.
    pub revision: Option<String>,
    /// SHA-256 of each file as it arrived, by its name here.
    pub files: BTreeMap<String, String>,
}

impl Provenance {
    /// Its file.
    pub const FILE: &'static str = "source.json";

    /// Writes it into `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), DownloadError> {
        let path = folder.join(Self::FILE);
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        fs::write(&path, text).map_err(|reason| DownloadError::Io { path, reason })
    }
}

/// What the hub says of a repository.
#[derive(Deserialize)]
struct Info {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: Option<String>,
    size: Option<u64>,
}

/// More than this is no list of files.
const LARGEST_INFO: u64 = 32 << 20;
/// The most bytes of a file whose size is published, and of another.
const LARGEST_FILE: u64 = 32 << 30;
const LARGEST_UNPUBLISHED: u64 = 64 << 20;

impl Hub {
    /// The repository called `name`, at its newest revision.
    ///
    /// # Errors
    /// If the hub does not know it, or answers what makes no sense.
    pub fn repository(&self, kind: RepositoryKind, name: &str) -> Result<Repository, DownloadError> {
        self.repository_at(kind, name, "")
    }

    /// A dataset as the hub itself converted it to Parquet.
    ///
    /// # Errors
    /// If there is none, or the hub answers what makes no sense.
    pub fn converted(&self, name: &str) -> Result<Repository, DownloadError> {
        self.repository_at(RepositoryKind::Dataset, name, "/revision/refs%2Fconvert%2Fparquet")
    }

    fn repository_at(&self, kind: RepositoryKind, name: &str, branch: &str) -> Result<Repository, DownloadError> {
        let what = match kind {
            RepositoryKind::Model => "models",
            RepositoryKind::Dataset => "datasets",
        };
        let url = format!("{}/api/{what}/{name}{branch}?blobs=true", self.address());
        let bytes = self.downloader.document(&url, LARGEST_INFO)?;
        let strange = |reason: String| DownloadError::Answer { url: url.clone(), reason };
        let info: Info =
            serde_json::from_slice(&bytes).map_err(|error| strange(format!("not what a hub answers ({error})")))?;
        // It becomes a part of addresses, and is written down.
        let plain = |sha: &str| (1..=64).contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !plain(&info.sha) {
            return Err(strange("not a revision".to_owned()));
        }
        let files = info.siblings.into_iter().map(|Sibling { rfilename, size, lfs }| {
            let (large, sha256) = lfs.map_or((None, None), |lfs| (lfs.size, lfs.sha256));
            let sha256 = sha256.filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            (rfilename, Published { size: large.or(size), sha256 })
        });
        Ok(Repository { name: name.to_owned(), revision: info.sha, kind, files: files.collect() })
    }

    /// Gets a file of a repository, checked against what is published of it. Returns its SHA-256.
    ///
    /// # Errors
    /// If it does not arrive whole and as published, or is too large.
    pub fn download(&self, of: &Repository, file: &str, to: &Path) -> Result<String, DownloadError> {
        let kind = match of.kind {
            RepositoryKind::Model => "",
            RepositoryKind::Dataset => "datasets/",
        };
        let url = format!("{}/{kind}{}/resolve/{}/{file}", self.address(), of.name, of.revision);
        let published = of.files.get(file).cloned().unwrap_or_default();
        let limit = if published.size.is_some() { LARGEST_FILE } else { LARGEST_UNPUBLISHED };
        let expected = Expected { size: published.size, sha256: published.sha256.as_deref(), limit };
        if published.size.is_some_and(|size| size > limit) {
            return Err(DownloadError::TooLarge { url, limit });
        }
        self.downloader.file(&url, to, expected)
    }

    fn address(&self) -> &str {
        self.endpoint.trim_end_matches('/')
    }
}

impl Repository {
    /// Whether it has a file.
    pub fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}
