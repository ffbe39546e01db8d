//! A hub on a local port, which may do everything wrong that a server can.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use bert_backbone::{Downloader, Fetcher};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Files of a repository by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A hub that serves repositories on a local port.
pub struct Hub {
    /// Its address.
    pub endpoint: String,
    requests: Arc<AtomicUsize>,
}

/// What a server does wrong. Only large files (weights, data) are touched, and only where they are asked for from the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code)]
pub enum Fault {
    None,
    /// The published hash is another file's.
    WrongHash,
    /// The connection ends in the middle of a large file.
    CutOff,
    /// A large file ends in the middle, and its published size and hash are those of the part.
    Truncated,
    /// The repository has no large files.
    NoLargeFiles,
    /// A file's tag is a path.
    TagIsPath,
    /// Every file leads to itself.
    RedirectLoop,
    /// A large file stops in the middle, and the connection stays.
    Stalled,
    /// A large file never ends.
    Endless,
    /// A large file never ends, and its size is not published.
    EndlessUnpublished,
    /// A large file is published as larger than anything that is taken.
    Huge,
    /// Nothing is found.
    NotFound,
    /// The revision is a path.
    RevisionIsPath,
    /// The list of files is not one.
    NoJson,
}

fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".parquet")
}

#[allow(dead_code)]
impl Hub {
    /// Serves a folder's files as whatever repository is asked for.
    pub fn serve(folder: &Path, fault: Fault) -> Self {
        let files = files_in(folder);
        Self::serve_all(move |_| files.clone(), fault)
    }

    /// Serves the folders `OWNER/NAME` of a folder as repositories.
    pub fn serve_repositories(folder: &Path, fault: Fault) -> Self {
        let folder = folder.to_owned();
        Self::serve_all(move |repository| files_in(&folder.join(repository)), fault)
    }

    /// Serves what `list` says a repository has. Any other address is a file of the repository `web`.
    pub fn serve_all(list: impl Fn(&str) -> Files + Send + Sync + 'static, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let (counter, list) = (requests.clone(), Arc::new(list));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::SeqCst);
                let list = list.clone();
                // A client that hangs up early is part of the tests.
                thread::spawn(move || drop(answer(stream, &*list, fault)));
            }
        });
        Self { endpoint, requests }
    }

    /// A fetcher that asks this hub, without much patience.
    pub fn fetcher(&self, cache: &Path) -> Fetcher {
        let downloader = Downloader {
            allow_http: true,
            patience: Duration::from_secs(1),
            slowest: 1 << 22,
            ..Downloader::default()
        };
        let endpoint = Some(self.endpoint.clone());
        Fetcher { mirror: endpoint.clone(), endpoint, downloader, ..Fetcher::new(cache) }
    }

    /// How often it was asked for anything.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// All files below a folder, by their paths from there.
fn files_in(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files.extend(files_in(&entry.path()).into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

fn answer(mut stream: TcpStream, list: &dyn Fn(&str) -> Files, fault: Fault) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let address = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let path = address.split('?').next().unwrap_or_default().trim_start_matches('/');
    let mut from = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().trim().strip_prefix("range: bytes=") {
            from = value.trim_end_matches('-').parse().unwrap_or(0);
        }
    }
    let missing = |mut stream: TcpStream| {
        write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    if fault == Fault::NotFound {
        return missing(stream);
    }
    let asked = path.strip_prefix("api/models/").or_else(|| path.strip_prefix("api/datasets/"));
    if let Some(repository) = asked {
        // The hub keeps what it converted itself on a branch.
        let repository = repository.replace("/revision/refs%2Fconvert%2Fparquet", "@converted");
        let files = published(list(&repository), fault);
        if files.is_empty() {
            return missing(stream);
        }
        let sibling = |(name, contents): (&String, &Vec<u8>)| {
            let hash = sha256(if fault == Fault::WrongHash { b"something else" } else { contents });
            let size = if fault == Fault::Huge && is_large(name) { 1 << 50 } else { contents.len() };
            match (is_large(name), fault) {
                (true, Fault::EndlessUnpublished) => json!({"rfilename": name}),
                (true, _) => json!({"rfilename": name, "size": size, "lfs": {"sha256": hash, "size": size}}),
                (false, _) => json!({"rfilename": name, "size": size, "lfs": Value::Null}),
            }
        };
        let revision = match (fault, repository.contains('@')) {
            (Fault::RevisionIsPath, _) => "../../x",
            (_, false) => "0123456789abcdef",
            (_, true) => "c0417e47ed",
        };
        let info = json!({"sha": revision, "siblings": files.iter().map(sibling).collect::<Vec<_>>()});
        let body = if fault == Fault::NoJson { "<html>".to_owned() } else { info.to_string() };
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    }
    let (repository, name) = match path.split_once("/resolve/") {
        Some((repository, file)) => {
            let (revision, name) = file.split_once('/').unwrap_or_default();
            let branch = if revision == "c0417e47ed" { "@converted" } else { "" };
            (repository.trim_start_matches("datasets/").to_owned() + branch, name)
        }
        None => ("web".to_owned(), path),
    };
    let files = published(list(&repository), fault);
    let Some(contents) = files.get(name) else { return missing(stream) };
    if fault == Fault::RedirectLoop {
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let tag = if fault == Fault::TagIsPath { "../../../escape".to_owned() } else { sha256(contents) };
    let (status, sent) = (if from > 0 { "206 Partial Content" } else { "200 OK" }, &contents[from..]);
    write!(stream, "HTTP/1.1 {status}\r\netag: \"{tag}\"\r\nx-repo-commit: ../../escape\r\nConnection: close\r\n")?;
    if from > 0 {
        write!(stream, "Content-Range: bytes {from}-{}/{}\r\n", contents.len() - 1, contents.len())?;
    }
    let breaks = (is_large(name) || repository == "web") && from == 0;
    if [Fault::Endless, Fault::EndlessUnpublished].contains(&fault) && breaks {
        write!(stream, "\r\n")?;
        // Not for ever: a client that takes all of it must fail, not hang.
        return (0..1 << 15).try_for_each(|_| stream.write_all(&[0; 1 << 12]));
    }
    write!(stream, "Content-Length: {}\r\n\r\n", sent.len())?;
    if [Fault::CutOff, Fault::Stalled].contains(&fault) && breaks {
        stream.write_all(&sent[..sent.len() / 2])?;
        if fault == Fault::Stalled {
            thread::sleep(Duration::from_secs(60));
        }
        return Ok(());
    }
    stream.write_all(sent)
}

/// What a hub with this fault has of a repository's files.
fn published(mut files: Files, fault: Fault) -> Files {
    if fault == Fault::NoLargeFiles {
        files.retain(|name, _| !is_large(name));
    }
    if fault == Fault::Truncated {
        let large = files.iter_mut().filter(|(name, _)| is_large(name));
        large.for_each(|(_, contents)| contents.truncate(contents.len() / 2));
    }
    files
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
