//! The search without BERT, through the binary: kept, found again, killed, shared by processes, reported.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

#[cfg(target_os = "linux")]
use common::process::{children, listen_to_ctrl_c, signal};
use serde_json::Value;

/// Runs `adapter-lab` in `place`, with a cache of its own there.
fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.args(arguments).current_dir(place).env("ADAPTER_LAB_CACHE", place.join("cache"));
    command.env_remove("ADAPTER_LAB_DATA").env_remove("ADAPTER_LAB_DEVICE");
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    let output = command(place, &[arguments, &["--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A small search; its trials have every kind of part.
const SEARCH: [&str; 15] = [
    "baseline",
    "--task",
    "syn-topic",
    "--backbone",
    "nano",
    "--trials",
    "7",
    "--samples",
    "2000,4000",
    "--limit",
    "300",
    "--seeds",
    "2",
    "--search-seed",
    "0",
];

/// Every record of a folder of runs, without what was measured.
fn records(runs: &Path) -> BTreeMap<String, Value> {
    let entries = fs::read_dir(runs).unwrap().flatten();
    let files = entries.map(|entry| entry.path().join("record.json")).filter(|path| path.is_file());
    let read = |path: std::path::PathBuf| {
        let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        record.as_object_mut().unwrap().remove("measured");
        (record["id"].as_str().unwrap().to_owned(), record)
    };
    files.map(read).collect()
}

#[test]
fn a_search_is_kept_found_again_and_the_same_in_several_processes() {
    let place = tempfile::tempdir().unwrap();
    let found = json(place.path(), &[&SEARCH[..], &["--runs", "one"]].concat());
    // Seven, the best three with more samples, and the best with another seed.
    assert_eq!(found["trials"], 11);
    let one = records(&place.path().join("one"));
    assert_eq!(one.len(), 11);
    let chosen = |key: &str| one.values().map(|record| record["config"][key].to_string()).collect::<BTreeSet<_>>();
    for (key, values) in [
        ("towers", &["\"both\"", "\"deep\"", "\"wide\""][..]),
        ("tune_embeddings", &["true", "false"]),
        ("convolution", &["true", "false"]),
    ] {
        assert!(values.iter().all(|&value| chosen(key).contains(value)), "{key}: {:?}", chosen(key));
    }
    assert_eq!((found["validation"].as_array().unwrap().len(), found["test"].as_array().unwrap().len()), (2, 2));
    let best = |record: &Value| record["last"]["validation"]["accuracy"].as_f64().unwrap();
    let highest = one.values().filter(|record| record["config"]["seed"] == 0).map(best).fold(0.0, f64::max);
    assert_eq!(found["validation"][0].as_f64().unwrap(), highest, "the best of all is chosen");
    // The second call trains nothing: its records are those of the first, what was measured too.
    let bytes = |runs: &str| records_bytes(&place.path().join(runs));
    let before = bytes("one");
    assert_eq!(json(place.path(), &[&SEARCH[..], &["--runs", "one"]].concat()), found);
    assert_eq!(bytes("one"), before);
    assert_eq!(json(place.path(), &[&SEARCH[..], &["--runs", "three", "--jobs", "3"]].concat()), found);
    assert_eq!(records(&place.path().join("three")), one, "bit for bit");
    // What went well leaves no trace of who did it.
    assert_eq!(fs::read_dir(place.path().join("three/queues")).unwrap().count(), 0);
}

/// Trials, and not searches.
#[test]
fn several_processes_say_how_many_trials_are_over() {
    let place = tempfile::tempdir().unwrap();
    let how = ["--runs", "runs", "--jobs", "2", "--log-format", "json"];
    let output = command(place.path(), &[&SEARCH[..], &how].concat()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let lines = errors(&output).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    let runs = lines.iter().filter(|line| line["event"] == "run");
    let (done, of): (Vec<_>, Vec<_>) =
        runs.map(|line| (line["done"].as_u64().unwrap(), line["of"].as_u64().unwrap())).unzip();
    // One that a process finds finished is counted, and not shown.
    assert!(!done.is_empty() && done.is_sorted() && of.iter().all(|of| *of == 11), "{done:?} of {of:?}");
}

fn records_bytes(runs: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |id: String| (id.clone(), fs::read(runs.join(id).join("record.json")).unwrap());
    records(runs).into_keys().map(read).collect()
}

#[test]
fn a_search_that_was_killed_ends_like_one_that_was_not() {
    let place = tempfile::tempdir().unwrap();
    let whole = json(place.path(), &[&SEARCH[..], &["--runs", "whole"]].concat());
    let killed = [&SEARCH[..], &["--runs", "killed", "--json"]].concat();
    let finished =
        || if place.path().join("killed").is_dir() { records(&place.path().join("killed")).len() } else { 0 };
    // Killed whenever a trial is finished, in the middle of the next.
    for _ in 0..20 {
        let mut child = command(place.path(), &killed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = finished();
        while finished() == before && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(json(place.path(), &[&SEARCH[..], &["--runs", "killed"]].concat()), whole);
    assert_eq!(records(&place.path().join("killed")), records(&place.path().join("whole")), "bit for bit");
}

/// Waits until so many trials are finished.
#[cfg(target_os = "linux")]
fn wait_for_trials(child: &mut std::process::Child, runs: &Path, count: usize) {
    while !runs.is_dir() || records(runs).len() < count {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The others go on, and another takes its place.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_killed_costs_a_search_nothing() {
    let place = tempfile::tempdir().unwrap();
    let whole = json(place.path(), &[&SEARCH[..], &["--runs", "whole"]].concat());
    let shared = [&SEARCH[..], &["--runs", "shared", "--jobs", "2", "--json"]].concat();
    let mut child = command(place.path(), &shared).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_trials(&mut child, &place.path().join("shared"), 2);
    signal(children(child.id())[0], libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), whole);
    assert_eq!(records(&place.path().join("shared")), records(&place.path().join("whole")), "bit for bit");
}

/// What is finished is on the page, and a second call that is interrupted earlier takes none of it away.
#[cfg(target_os = "linux")]
#[rstest::rstest]
fn an_interrupted_search_keeps_what_it_has(#[values("1", "2")] jobs: &str) {
    let place = tempfile::tempdir().unwrap();
    let own = "kind = \"search\"\ntask = [\"syn-topic\", \"syn-spam\"]\ntrials = 7\nsamples = [2000, 4000]\nlimit = 300\nseeds = 2\nembeddings = \"none\"";
    fs::write(place.path().join("own.toml"), own).unwrap();
    let run = ["run", "own.toml", "--backbone", "nano", "--runs", "runs", "--jobs", jobs];
    let runs = place.path().join("runs");
    let interrupted = |after: usize| {
        let mut program = command(place.path(), &run);
        listen_to_ctrl_c(&mut program);
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for_trials(&mut child, &runs, after);
        signal(child.id(), libc::SIGINT);
        assert!(!child.wait().unwrap().success());
        let record: Value = serde_json::from_slice(&fs::read(runs.join("experiments/own.json")).unwrap()).unwrap();
        assert_eq!(record["planned"], 22);
        record["runs"].as_array().unwrap().len()
    };
    // Eleven trials of the first task, and one of the second.
    let first = interrupted(12);
    assert!((12..22).contains(&first), "{first}");
    let second = interrupted(first);
    assert!((first..22).contains(&second), "{second} after {first}");
}

/// However a task is written, its trials are the same.
#[test]
fn a_task_is_known_by_its_name_however_it_is_written() {
    let place = tempfile::tempdir().unwrap();
    texts(place.path());
    let whole_path = format!("file:{}", place.path().join("texts.csv").display());
    for (one, other) in [("file:texts.csv", whole_path.as_str()), ("syn-topic", "Syn-Topic")] {
        let runs = format!("of-{one}");
        let search = |task: &str| {
            let how = ["--trials", "3", "--samples", "300", "--seeds", "1", "--runs", &runs];
            json(place.path(), &[&["baseline", "--task", task], &how[..]].concat())["best"].clone()
        };
        assert_eq!(search(one), search(other));
        assert_eq!(records(&place.path().join(&runs)).len(), 3, "nothing is run twice");
    }
}

/// One trial of a small network with a wide model beside it, on texts with capitals and marks.
const TRIAL: [(&str, &str); 22] = [
    ("towers", "both"),
    ("lower_case", "true"),
    ("strip", "true"),
    ("embeddings", "random-50"),
    ("tune_embeddings", "true"),
    ("embedding_dropout", "0.0"),
    ("convolution", "true"),
    ("max_ngram", "2"),
    ("filters", "50"),
    ("conv_activation", "relu"),
    ("conv_batch_norm", "false"),
    ("conv_dropout", "0.0"),
    ("hidden_layers", "1"),
    ("hidden_size", "64"),
    ("activation", "relu"),
    ("norm", "none"),
    ("dropout", "0.0"),
    ("lr", "0.05"),
    ("l2", "0.0"),
    ("wide_ngram", "1"),
    ("wide_lr", "0.05"),
    ("wide_l2", "0.0"),
];

/// Runs [`TRIAL`] with one choice changed, in a folder with `texts.csv`; returns its record.
fn trial(place: &Path, samples: &str, key: &str, value: &str) -> Value {
    let runs = format!("{key}-{value}-{samples}");
    let choices = TRIAL.map(|(own, usual)| format!("{own}={}", if own == key { value } else { usual }));
    let how = ["baseline", "--task", "file:texts.csv", "--trials", "1", "--seeds", "1", "--samples", samples];
    let mut arguments = [&how[..], &["--runs", &runs]].concat();
    arguments.extend(choices.iter().flat_map(|choice| ["--set", choice]));
    json(place, &arguments);
    records(&place.join(&runs)).into_values().next().unwrap()
}

/// Texts of two classes; a word tells them apart.
fn texts(place: &Path) {
    let row = |n: usize| {
        let (label, word) = if n.is_multiple_of(2) { ("cat", "meows") } else { ("dog", "Barks") };
        format!("\"Number {}, it {word}: at {}!\",{label}\n", n % 17, ["Noon", "night", "DAWN"][n % 3])
    };
    let rows: String = (0..400).map(row).collect();
    fs::write(place.join("texts.csv"), format!("text,label\n{rows}")).unwrap();
}

#[rstest::rstest]
#[case("towers", "wide")]
#[case("towers", "deep")]
#[case("tune_embeddings", "false")]
#[case("convolution", "false")]
#[case("hidden_layers", "0")]
fn a_trial_learns_what_a_word_tells(#[case] key: &str, #[case] value: &str) {
    let place = tempfile::tempdir().unwrap();
    texts(place.path());
    let record = trial(place.path(), "6400", key, value);
    let accuracy = |of: &Value| of["accuracy"].as_f64().unwrap();
    assert!(accuracy(&record["majority"]) < 0.7);
    assert!(accuracy(&record["last"]["validation"]) > 0.95 && accuracy(&record["test"]) > 0.95, "{record}");
}

/// A choice that changes nothing would be searched in vain.
#[test]
fn every_choice_changes_what_a_trial_learns() {
    let place = tempfile::tempdir().unwrap();
    texts(place.path());
    // Not ReLU6: no value comes to six here.
    let activations = ["leaky-relu", "swish", "sigmoid", "tanh"];
    let others: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("towers", &["deep", "wide"][..]),
        ("lower_case", &["false"]),
        ("strip", &["false"]),
        ("embeddings", &["random-128", "random-512"]),
        ("tune_embeddings", &["false"]),
        ("embedding_dropout", &["0.4"]),
        ("convolution", &["false"]),
        ("max_ngram", &["3"]),
        ("filters", &["75"]),
        ("conv_activation", &activations),
        ("conv_batch_norm", &["true"]),
        ("conv_dropout", &["0.4"]),
        ("hidden_layers", &["0", "2", "3", "5"]),
        ("hidden_size", &["128"]),
        ("activation", &activations),
        ("norm", &["batch", "layer"]),
        ("dropout", &["0.5"]),
        ("lr", &["0.1"]),
        ("l2", &["0.01"]),
        ("wide_ngram", &["2"]),
        ("wide_lr", &["0.1"]),
        ("wide_l2", &["0.01"]),
    ]);
    for (key, usual) in TRIAL {
        let values = others[key].iter().chain([&usual]);
        let losses: BTreeSet<String> =
            values.map(|value| trial(place.path(), "640", key, value)["epochs"][0]["loss"].to_string()).collect();
        assert_eq!(losses.len(), others[key].len() + 1, "{key}: {losses:?}");
    }
}

#[test]
fn word_vectors_of_a_file_can_be_chosen() {
    let place = tempfile::tempdir().unwrap();
    let words = ["the", "a", "of", "in", "it", "and"];
    let vectors: String = words.iter().enumerate().map(|(n, word)| format!("{word} {n}.5 -{n}.25 0.1\n")).collect();
    fs::write(place.path().join("tiny.txt"), &vectors).unwrap();
    let how = [
        "baseline",
        "--task",
        "syn-topic",
        "--trials",
        "1",
        "--samples",
        "500",
        "--seeds",
        "1",
        "--embeddings",
        "tiny.txt",
        "--set",
        "towers=deep",
        "--set",
        "embeddings=tiny",
        "--limit",
        "100",
    ];
    json(place.path(), &how);
    let records_before = records(&place.path().join("runs"));
    let record = records_before.values().next().unwrap();
    assert_eq!(record["config"]["embeddings"], "tiny");
    // Other vectors under the same name are another run.
    fs::write(place.path().join("tiny.txt"), vectors.replace("0.1", "0.2")).unwrap();
    json(place.path(), &how);
    assert_eq!(records(&place.path().join("runs")).len(), 2);
}

#[rstest::rstest]
#[case(&["--task", "syn-similarity"], "is a regression task")]
#[case(&["--task", "syn-questions"], "not for questions")]
#[case(&["--task", "syn-topic", "--embeddings", "absent.txt"], "cannot read absent.txt")]
#[case(&["--task", "syn-topic", "--embeddings", "glove-50d"], "run `adapter-lab fetch glove-50d` first")]
#[case(&["--task", "syn-topic", "--embeddings", "foreign.txt", "--set", "towers=deep", "--set", "embeddings=foreign"], "it has no word of syn-topic")]
#[case(&["--task", "syn-topic", "--set", "hidden_size=7"], "give one of 64, 128, 256")]
#[case(&["--task", "syn-topic", "--set", "hiden_size=64"], "did you mean `hidden_size`?")]
#[case(&["--task", "syn-topic", "--samples", "3000,2000"], "give rising positive numbers")]
#[case(&["--task", "syn-topic", "--samples", "many"], "give a number, or random")]
#[case(&["--task", "syn-topic", "--trials", "0"], "trials 0")]
#[case(&["--task", "syn-topic", "--limit", "0"], "a number from 1 on, or none, is needed")]
#[case(&["--task", "syn-topic", "--embeddings", "random-50.txt"], "two embeddings are called random-50")]
#[case(&["--task", "syn-topic", "--dtype", "bf16"], "unexpected argument '--dtype'")]
#[case(&["--task", "syn-topic", "--text-column", "review"], "`syn-topic` has its own data: text_column is for file: and hub: tasks")]
#[case(&["--task", "file:x.csv", "--text-column", "review"], "x.csv: No such file")]
#[case(&["--task", "cola"], "`adapter-lab fetch glue/cola` gets it")]
#[case(&[], "--task")]
fn a_wrong_search_is_answered_with_what_to_do(#[case] arguments: &[&str], #[case] message: &str) {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("foreign.txt"), "мышь 0.5 1\nкот 2 3\n").unwrap();
    let output = command(place.path(), &[&["baseline"], arguments].concat()).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
}

#[test]
fn the_space_is_printed_and_the_preset_fills_the_tables_of_the_search() {
    let place = tempfile::tempdir().unwrap();
    let options = ["--embeddings", "x.txt", "--backbone", "nano", "--limit", "none", "--limit-validation", "7"];
    let space = json(place.path(), &[&["baseline", "--explain"], &options[..]].concat());
    let keys: Vec<&str> = space.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!((keys.len(), keys.first(), keys.last()), (23, Some(&"towers"), Some(&"samples")));
    assert!(space.to_string().contains("x, nano, random-50, random-128, random-512"));

    let few = ["--set", "trials=2", "--set", "samples=500", "--set", "seeds=1", "--jobs", "1"];
    let run = ["run", "baseline", "--backbone", "nano", "--runs", "runs"];
    let result = json(place.path(), &[&run[..], &few].concat());
    assert_eq!(result["runs"].as_array().unwrap().len(), 14, "two trials of seven tasks");
    let report = command(place.path(), &["report", "--runs", "runs", "--out", "out"]).output().unwrap();
    assert!(report.status.success(), "{}", errors(&report));
    let table = |name: &str| fs::read_to_string(place.path().join(format!("out/tables/{name}.md"))).unwrap();
    assert!(table("table5").contains("random-512") && table("table6").contains("Topic"));
    assert!(table("table7").contains("| Spam |"), "{}", table("table7"));
}

/// What a search will take is said beforehand, for what is left of it.
#[test]
fn a_search_is_estimated_by_what_is_left_of_it() {
    let place = tempfile::tempdir().unwrap();
    let own = "kind = \"search\"\ntask = \"syn-topic\"\ntrials = 7\nsamples = [2000, 4000]\nlimit = 300\nseeds = 2\nembeddings = \"none\"";
    fs::write(place.path().join("own.toml"), own).unwrap();
    let run = ["run", "own.toml", "--backbone", "nano", "--runs", "runs"];
    let left = || {
        let estimate = json(place.path(), &[&run[..], &["--dry-run"]].concat())["estimate"].clone();
        (estimate["trials"].as_u64().unwrap(), estimate["by_experiment"]["own"].as_f64().unwrap())
    };
    let (trials, seconds) = left();
    assert!(trials == 11 && seconds > 0.0, "seven, three that go on, and another seed: {trials}, {seconds}");
    json(place.path(), &run);
    assert_eq!(left(), (0, 0.0));
    // One of the first seven is gone: who goes on is not known any more, and neither is what is left of that.
    let runs = place.path().join("runs");
    let first = records(&runs).into_iter().find(|(_, record)| record["config"]["samples"] == 2000).unwrap().0;
    fs::remove_dir_all(runs.join(first)).unwrap();
    assert_eq!(left().0, 1 + 3 + 1);
}
