//! Data from a hub of our own making: the rows of the official files, and an error for everything that a server does wrong.
//!
//! The files it serves are made by `golden/hub/make.py` with pyarrow.

#![cfg(feature = "parquet")]

#[path = "../../bert-backbone/tests/support/hub.rs"]
mod hub;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bert_backbone::Fetched;
use hub::{Fault, Files, Hub};
use rstest::rstest;
use tasks::{Dataset, FileTask, HubTask, Target, Task, TaskData, Tasks};
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hub").join(name)
}

/// A folder with what `fetch NAME` brings from the golden files.
fn fetched(name: &str) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    Tasks::paper().fetch(name, data.path(), &hub.fetcher(data.path())).unwrap();
    data
}

fn load(task: &str, data: &Path) -> TaskData {
    Tasks::paper().find(task).unwrap().load(data).unwrap()
}

#[test]
fn the_hubs_glue_is_the_official_one() {
    let data = fetched("glue");
    let tasks = Tasks::paper();
    for task in tasks.suite("glue") {
        let (hub, official) = (task.load(data.path()).unwrap(), task.load(&golden("official")).unwrap());
        let (TaskData::Texts(hub_data), TaskData::Texts(official_data)) = (&hub, &official) else {
            panic!("{} has texts", task.name)
        };
        // The official download has a broken row in QQP, and says so.
        let notes = official_data.notes.clone();
        assert_eq!(Dataset { notes, ..hub_data.clone() }, *official_data, "{}", task.name);
        // A run's id knows the data by this.
        assert_eq!(hub.fingerprint(), official.fingerprint(), "{}", task.name);
    }
    let sets = |data: &Path| tasks::TestSet::of("mnli", data).unwrap();
    let examples = |data: &Path| sets(data).into_iter().map(|set| (set.file, set.examples)).collect::<Vec<_>>();
    assert_eq!(examples(data.path()), examples(&golden("official")), "with the diagnostic set");
    assert_eq!(examples(data.path()).len(), 3);
}

#[rstest]
#[case("squad")]
#[case("squad-v2")]
fn the_hubs_squad_is_the_official_one(#[case] task: &str) {
    let data = fetched(task);
    let (TaskData::Questions(hub), TaskData::Questions(official)) =
        (load(task, data.path()), load(task, &golden("official")))
    else {
        panic!("{task} has questions")
    };
    assert_eq!((&hub.train, &hub.validation), (&official.train, &official.validation));
    assert_eq!(TaskData::Questions(hub).fingerprint(), TaskData::Questions(official).fingerprint());
}

#[test]
fn a_task_is_fetched_once_with_its_provenance() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    let (tasks, fetcher) = (Tasks::paper(), hub.fetcher(data.path()));
    let folder = data.path().join("glue_data/RTE");
    let first = tasks.fetch("glue/rte", data.path(), &fetcher).unwrap();
    assert_eq!(first.iter().map(|task| &task.fetched).collect::<Vec<_>>(), [&Fetched::New(folder.clone())]);
    let source: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("source.json")).unwrap()).unwrap();
    assert_eq!((&source["source"], &source["revision"]), (&"nyu-mll/glue".into(), &"0123456789abcdef".into()));
    assert_eq!(source["files"].as_object().unwrap().len(), 3);
    assert_eq!(fs::read_dir(data.path().join("glue_data")).unwrap().count(), 1, "nothing else is left");

    let requests = hub.requests();
    let again = tasks.fetch("rte", data.path(), &fetcher).unwrap();
    assert_eq!(again[0].fetched, Fetched::AlreadyThere(folder));
    assert_eq!(hub.requests(), requests, "the second fetch asks nobody");
    // MNLI's two tasks share a folder.
    assert_eq!(tasks.fetch("mnli-mm", data.path(), &fetcher).unwrap().len(), 1);
    assert!(tasks.find("mnli").unwrap().is_present(data.path()));
}

#[test]
fn official_files_that_are_there_stay_and_count() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    let (tasks, fetcher) = (Tasks::paper(), hub.fetcher(data.path()));
    let folder = data.path().join("glue_data/RTE");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("train.tsv"), "mine").unwrap();
    let error = tasks.fetch("rte", data.path(), &fetcher).unwrap_err().to_string();
    assert!(error.contains("is there, but has no dev.tsv"), "{error}");
    fs::copy(golden("official/glue_data/RTE/dev.tsv"), folder.join("dev.tsv")).unwrap();
    assert!(matches!(tasks.fetch("rte", data.path(), &fetcher).unwrap()[0].fetched, Fetched::AlreadyThere(_)));
    assert_eq!(fs::read_to_string(folder.join("train.tsv")).unwrap(), "mine");
}

/// Whatever a server does, there is one message in good time, nothing is kept, and nothing outside is touched.
#[rstest]
#[case(Fault::WrongHash, "SHA-256")]
#[case(Fault::NoLargeFiles, "404 Not Found")]
#[case(Fault::RedirectLoop, "more than 5 redirections")]
#[case(Fault::Huge, "more than")]
#[case(Fault::Endless, "more than")]
#[case(Fault::EndlessUnpublished, "more than 67108864 bytes")]
#[case(Fault::NotFound, "the server answers 404 Not Found")]
#[case(Fault::RevisionIsPath, "not a revision")]
#[case(Fault::NoJson, "not what a hub answers")]
fn a_hostile_hub_gets_an_error_and_nothing_else(#[case] fault: Fault, #[case] message: &str) {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("deep/er/data");
    let hub = Hub::serve_repositories(&golden("hub"), fault);
    let started = Instant::now();
    let error = Tasks::paper().fetch("glue/rte", &data, &hub.fetcher(&data)).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30) && hub.requests() < 20);
    assert!(files(&data).iter().all(|file| file.extension().is_some_and(|e| e == "lock")), "{:?}", files(&data));
    assert_eq!(files(place.path()), files(&data), "nothing outside is touched");
    let honest = Hub::serve_repositories(&golden("hub"), Fault::None);
    Tasks::paper().fetch("glue/rte", &data, &honest.fetcher(&data)).unwrap();
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

#[test]
fn what_a_server_calls_its_files_decides_no_path() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("deep/er/data");
    let hub = Hub::serve_repositories(&golden("hub"), Fault::TagIsPath);
    Tasks::paper().fetch("glue/rte", &data, &hub.fetcher(&data)).unwrap();
    let names: Vec<_> =
        files(place.path()).into_iter().map(|file| file.strip_prefix(&data).unwrap().to_owned()).collect();
    let expected = ["source.json", "test.parquet", "train.parquet", "validation.parquet"];
    assert_eq!(names, expected.map(|name| Path::new("glue_data/RTE").join(name)));
}

/// A connection that ends, or a server that falls silent, costs what was not received yet.
#[rstest]
#[case(Fault::CutOff)]
#[case(Fault::Stalled)]
fn a_download_that_was_cut_off_continues(#[case] fault: Fault) {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), fault);
    let (tasks, fetcher) = (Tasks::paper(), hub.fetcher(data.path()));
    // Each of the three files is cut off once.
    for _ in 0..3 {
        let started = Instant::now();
        tasks.fetch("glue/rte", data.path(), &fetcher).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(!tasks.find("rte").unwrap().is_present(data.path()), "a part is not taken for the whole");
    }
    tasks.fetch("glue/rte", data.path(), &fetcher).unwrap();
    assert_eq!(load("rte", data.path()).fingerprint(), load("rte", &golden("official")).fingerprint());
}

#[test]
fn a_truncated_file_is_an_error_that_names_it() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::Truncated);
    Tasks::paper().fetch("glue/rte", data.path(), &hub.fetcher(data.path())).unwrap();
    let error = Tasks::paper().find("rte").unwrap().load(data.path()).unwrap_err().to_string();
    assert!(error.contains("train.parquet: not a readable Parquet file"), "{error}");
}

#[rstest]
#[case("airline", "comes from CrowdFlower")]
#[case("syn-acceptability", "nothing to fetch")]
fn what_cannot_be_fetched_says_why(#[case] name: &str, #[case] message: &str) {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    let error = Tasks::paper().fetch(name, data.path(), &hub.fetcher(data.path())).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert_eq!(hub.requests(), 0);
}

/// The additional tasks that have a public home, from a server that stands for theirs.
#[test]
fn additional_tasks_come_from_the_web() {
    let data = tempfile::tempdir().unwrap();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("SMSSpamCollection", zip::write::SimpleFileOptions::default()).unwrap();
    let rows: String = (0..20).map(|row| format!("{}\ttext {row}\n", ["ham", "spam"][row % 2])).collect();
    std::io::Write::write_all(&mut archive, rows.as_bytes()).unwrap();
    let zip = archive.finish().unwrap().into_inner();
    let web = Files::from([("archive.ics.uci.edu/static/public/228/sms+spam+collection.zip".to_owned(), zip)]);
    let hub = Hub::serve_all(move |_| web.clone(), Fault::None);
    Tasks::paper().fetch("sms-spam", data.path(), &hub.fetcher(data.path())).unwrap();
    let TaskData::Texts(sms) = load("sms-spam", data.path()) else { panic!("texts") };
    assert_eq!((sms.labels.len(), sms.train.len()), (2, 16));
    // The hash of this one is known.
    let error = Tasks::paper().fetch("20-newsgroups", data.path(), &hub.fetcher(data.path())).unwrap_err().to_string();
    assert!(error.contains("20-newsgroups") && error.contains("404"), "{error}");
}

fn hub_task(name: &str, data: &Path, columns: FileTask) -> Result<Dataset, String> {
    let files = HubTask::parse(name).unwrap().files(data, columns).map_err(|error| error.to_string())?;
    files.load().map_err(|error| error.to_string())
}

#[test]
fn any_dataset_of_the_hub_is_a_task() {
    let data = fetched("hub:someone/reviews");
    let reviews = hub_task("hub:someone/reviews", data.path(), FileTask::new("")).unwrap();
    assert_eq!(reviews.labels, ["bad", "good"], "classes have their names");
    let texts: Vec<&str> = reviews.train.iter().map(|example| example.text.as_str()).collect();
    assert_eq!(texts, ["Never again", "I would buy it", "It broke", "Lovely"], "both files, in order");
    assert_eq!(reviews.notes, ["1 row without a label left out"]);
    assert_eq!(reviews.validation[0].target, Some(Target::Class(1)));
    assert_eq!(reviews.test[0].target, None);
}

#[test]
fn a_dataset_that_was_cut_off_is_not_taken_for_fetched() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::CutOff);
    let (tasks, fetcher) = (Tasks::paper(), hub.fetcher(data.path()));
    for _ in 0..4 {
        tasks.fetch("hub:someone/reviews", data.path(), &fetcher).unwrap_err();
    }
    assert!(matches!(tasks.fetch("hub:someone/reviews", data.path(), &fetcher).unwrap()[0].fetched, Fetched::New(_)));
    assert!(hub_task("hub:someone/reviews", data.path(), FileTask::new("")).is_ok());
}

#[test]
fn what_an_earlier_attempt_left_of_another_revision_goes() {
    let data = tempfile::tempdir().unwrap();
    let cut_off = Hub::serve_repositories(&golden("hub"), Fault::CutOff);
    for _ in 0..3 {
        Tasks::paper().fetch("hub:someone/reviews", data.path(), &cut_off.fetcher(data.path())).unwrap_err();
    }
    // The next revision has fewer files.
    let part = fs::read(golden("hub/someone/many/en/train-00000-of-00001.parquet")).unwrap();
    let list = move |_: &str| Files::from([("data/train-00000-of-00001.parquet".to_owned(), part.clone())]);
    let hub = Hub::serve_all(list, Fault::None);
    Tasks::paper().fetch("hub:someone/reviews", data.path(), &hub.fetcher(data.path())).unwrap();
    assert_eq!(hub_task("hub:someone/reviews", data.path(), FileTask::new("")).unwrap().labels, ["a", "b"]);
}

#[test]
fn one_of_several_configurations_is_chosen() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    let (tasks, fetcher) = (Tasks::paper(), hub.fetcher(data.path()));
    let fetch = |name: &str| tasks.fetch(name, data.path(), &fetcher).map_err(|error| error.to_string());
    let error = fetch("hub:someone/many").unwrap_err();
    assert!(error.contains("choose one of de, en, as hub:someone/many/NAME"), "{error}");
    assert!(fetch("hub:someone/many/fr").unwrap_err().contains("choose one of"));
    let error = hub_task("hub:someone/many/de", data.path(), FileTask::new("")).unwrap_err();
    assert!(error.contains("run `adapter-lab fetch hub:someone/many/de` first"), "{error}");
    fetch("hub:someone/many/de").unwrap();
    // The only one that is there need not be named.
    assert_eq!(hub_task("hub:someone/many", data.path(), FileTask::new("")).unwrap().labels, ["a", "b"]);
    let tags = FileTask { label_column: "tags".into(), kind: tasks::TaskKind::MultiLabel, ..FileTask::new("") };
    assert_eq!(hub_task("hub:someone/many", data.path(), tags).unwrap().labels, ["x", "y"], "lists are labels");
    let stars = FileTask { label_column: "stars".into(), kind: tasks::TaskKind::Regression, ..FileTask::new("") };
    assert!(hub_task("hub:someone/many", data.path(), stars).unwrap_err().contains("row 2: no value for `stars`"));
    let wrong = FileTask { text_column: "sentence".into(), ..FileTask::new("") };
    let error = hub_task("hub:someone/many", data.path(), wrong).unwrap_err();
    assert!(error.contains("no column `sentence`; there are: text, label, tags, stars"), "{error}");
    fetch("hub:someone/many/en").unwrap();
    assert!(hub_task("hub:someone/many", data.path(), FileTask::new("")).unwrap_err().contains("choose one of de, en"));
}

#[test]
fn what_the_hub_converted_itself_is_taken_too() {
    let data = tempfile::tempdir().unwrap();
    let parquet = fs::read(golden("hub/someone/many/en/train-00000-of-00001.parquet")).unwrap();
    let list = move |repository: &str| match repository {
        "someone/csv" => Files::from([("train.csv".to_owned(), b"text,label".to_vec())]),
        "someone/csv@converted" => Files::from([("default/train/0000.parquet".to_owned(), parquet.clone())]),
        _ => Files::new(),
    };
    let hub = Hub::serve_all(list, Fault::None);
    Tasks::paper().fetch("hub:someone/csv", data.path(), &hub.fetcher(data.path())).unwrap();
    assert_eq!(hub_task("hub:someone/csv", data.path(), FileTask::new("")).unwrap().labels, ["a", "b"]);
}

#[test]
fn a_programs_own_task_can_have_a_home() {
    let data = tempfile::tempdir().unwrap();
    let source = bert_backbone::Source::Dataset {
        repository: "someone/many".to_owned(),
        files: vec![("en/train-00000-of-00001.parquet".to_owned(), "train.parquet".to_owned())],
    };
    let task = Task::new("words", tasks::TaskKind::Classification, |data: &Path| {
        FileTask::new(data.join("words/train.parquet")).load()
    });
    let mut tasks = Tasks::paper();
    tasks.add(task.file("words/train.parquet").from_home(tasks::Home::new("words", source))).unwrap();
    let hub = Hub::serve_repositories(&golden("hub"), Fault::None);
    let missing = tasks.find("words").unwrap().load(data.path()).unwrap_err().to_string();
    assert!(missing.contains("`adapter-lab fetch words` gets it"), "{missing}");
    tasks.fetch("words", data.path(), &hub.fetcher(data.path())).unwrap();
    assert!(tasks.find("words").unwrap().load(data.path()).is_ok());
}
