//! `fetch` as a user meets it: from a hub on a local port to a run that needs no --data-dir.
//!
//! The hub's files are made by `tasks/tests/golden/hub/make.py` with pyarrow.

#![cfg(feature = "parquet")]

#[path = "../../bert-backbone/tests/support/hub.rs"]
mod hub;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use bert_backbone::RandomCheckpoint;
use burn::tensor::Device;
use hub::{Fault, Hub};
use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tasks/tests/golden/hub").join(name)
}

/// A user with an empty cache, a small backbone and a hub.
struct User {
    place: TempDir,
    hub: Hub,
}

impl User {
    fn new(fault: Fault) -> Self {
        let place = tempfile::tempdir().unwrap();
        RandomCheckpoint::tiny().write(&place.path().join("tiny"), &Device::flex()).unwrap();
        Self { place, hub: Hub::serve_repositories(&golden("hub"), fault) }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        command.args(arguments).current_dir(self.place.path());
        command.env("ADAPTER_LAB_CACHE", self.place.path().join("cache")).env("HF_ENDPOINT", &self.hub.endpoint);
        command.env_remove("ADAPTER_LAB_DATA").env_remove("ADAPTER_LAB_DEVICE").env_remove("HF_TOKEN");
        command.output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    }

    /// The id of a run that really runs, with more options.
    fn id(&self, task: &str, more: &[&str]) -> Value {
        let how = ["train", "--task", task, "--backbone", "tiny", "--epochs", "1", "--max-length", "32"];
        self.json(&[&how, more].concat())["id"].take()
    }

    fn tasks(&self) -> Vec<Value> {
        self.json(&["list", "tasks"]).as_array().unwrap().clone()
    }
}

#[test]
fn what_was_fetched_needs_no_data_folder_and_is_the_same_run() {
    let user = User::new(Fault::None);
    let error = user.error(&["train", "--task", "rte", "--backbone", "tiny"]);
    assert!(error.contains("`adapter-lab fetch glue/rte` gets it"), "{error}");

    let fetched = user.json(&["fetch", "glue", "--allow-http"]);
    assert_eq!(fetched.as_array().unwrap().len(), 11, "ten tasks and the diagnostic set");
    let tasks = user.tasks();
    let present = |suite: &str| tasks.iter().filter(|task| task["suite"] == suite).all(|task| task["present"] == true);
    assert!(present("glue") && !present("squad"));
    let official = golden("official").display().to_string();
    for task in ["rte", "sts-b", "qqp"] {
        assert_eq!(user.id(task, &[]), user.id(task, &["--data-dir", &official]), "{task}");
    }
    user.json(&["fetch", "squad", "--allow-http"]);
    assert_eq!(user.id("squad", &[]), user.id("squad", &["--data-dir", &official]));
}

#[test]
fn a_dataset_of_the_hub_is_trained_scored_and_remembered() {
    let user = User::new(Fault::None);
    let error = user.error(&["train", "--task", "hub:someone/reviews", "--backbone", "tiny"]);
    assert!(error.contains("run `adapter-lab fetch hub:someone/reviews` first"), "{error}");
    user.json(&["fetch", "hub:someone/reviews", "--allow-http"]);
    user.id("hub:someone/reviews", &["--save", "reviews.safetensors"]);
    let scores = user.json(&["eval", "--adapter", "reviews.safetensors"]);
    assert_eq!(scores["task"], "hub:someone/reviews");
    let predicted = user.json(&["predict", "--adapter", "reviews.safetensors", "--text", "Lovely"]);
    assert!(["bad", "good"].contains(&predicted[0]["label"].as_str().unwrap()));
}

/// A table of one's own, in each of its forms, is the same data.
#[test]
fn files_are_the_same_in_every_form() {
    let user = User::new(Fault::None);
    let parquet = golden("hub/someone/many/en/train-00000-of-00001.parquet").display().to_string();
    let pairs = [("one", "a"), ("two", "b")].into_iter().cycle().take(20);
    let objects: Vec<Value> = pairs.map(|(text, label)| serde_json::json!({"text": text, "label": label})).collect();
    let write = |name: &str, text: String| std::fs::write(user.place.path().join(name), text).unwrap();
    write("table.json", Value::from(objects.clone()).to_string());
    write("data.json", serde_json::json!({"version": 1, "data": objects}).to_string());
    write("table.jsonl", objects.iter().map(|object| format!("{object}\n")).collect());
    let data = |task: &str| {
        let mut record = user.json(&["train", "--task", task, "--backbone", "tiny", "--epochs", "1"]);
        record["fingerprints"]["data"].take()
    };
    let fingerprint = data(&format!("file:{parquet}"));
    assert!(fingerprint.is_string());
    for file in ["file:table.json", "file:data.json", "file:table.jsonl"] {
        assert_eq!(data(file), fingerprint, "{file}");
    }
    write("broken.json", "[{\"text\": \"a\"},\n{]".to_owned());
    let error = user.error(&["train", "--task", "file:broken.json", "--backbone", "tiny"]);
    assert!(error.contains("broken.json:2: not JSON"), "{error}");
    write("number.json", "7".to_owned());
    let error = user.error(&["train", "--task", "file:number.json", "--backbone", "tiny"]);
    assert!(error.contains("not a list of objects"), "{error}");
}

#[rstest]
#[case(Fault::None, &["fetch", "glue/rte"], "--allow-http")]
#[case(Fault::None, &["fetch", "glue/rtee", "--allow-http"], "did you mean `rte`?")]
#[case(Fault::None, &["fetch", "airline"], "comes from CrowdFlower's Data for Everyone")]
#[case(Fault::None, &["fetch", "colla"], "nothing is called `colla` (did you mean `cola`?)")]
#[case(Fault::None, &["fetch", "hub:nobody/nothing", "--allow-http"], "404 Not Found")]
#[case(Fault::None, &["fetch", "hub:../escape", "--allow-http"], "is not hub:OWNER/NAME")]
#[case(Fault::WrongHash, &["fetch", "rte", "--allow-http"], "nothing was kept, fetch again")]
fn a_failed_fetch_says_what_to_do(#[case] fault: Fault, #[case] arguments: &[&str], #[case] message: &str) {
    let error = User::new(fault).error(arguments);
    assert!(error.contains(message), "{error}");
    assert!(error.lines().count() <= 2, "{error}");
}

#[test]
fn list_tasks_says_how_to_get_what_is_missing() {
    let user = User::new(Fault::None);
    let output = user.run(&["list", "tasks"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["fetch glue/cola", "fetch squad-v2", "fetch 20-newsgroups", "built in"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let by_hand = "By hand, from CrowdFlower's Data for Everyone (data.world/crowdflower):\n  \
                   additional/crowdflower_airline/Airline-Sentiment-2-w-AA.csv\n";
    assert!(text.contains(by_hand), "{text}");
    assert_eq!(text.matches("political_media_full.csv").count(), 1, "one file of three tasks");
}

/// A disk that is full in the middle of a download: a message that says so, and nothing that looks like data.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs to mount a small disk: `cargo test --workspace --test fetching -- --ignored`, where `unshare -rm` works"]
fn a_full_disk_is_said_and_leaves_nothing() {
    let user = User::new(Fault::None);
    let cache = user.place.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    // Two pages: enough for two of three files. What is left afterwards is shown before the disk is gone.
    let script = "mount -t tmpfs -o size=8k none \"$1\"; \"$2\" fetch glue/rte --allow-http; echo \"exit $?\"; find \"$1\" -type f";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(&cache).arg(env!("CARGO_BIN_EXE_adapter-lab"));
    command.env("ADAPTER_LAB_CACHE", &cache).env("HF_ENDPOINT", &user.hub.endpoint).env_remove("ADAPTER_LAB_DATA");
    let output = command.output().unwrap();
    let (errors, rest) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(errors.contains("No space left on device") && errors.lines().count() == 1, "{errors}");
    assert!(rest.starts_with("exit 1\n"), "{rest}");
    let left: Vec<&str> = rest.lines().skip(1).filter(|file| !file.ends_with(".lock")).collect();
    assert!(left.is_empty(), "{left:?}");
}
