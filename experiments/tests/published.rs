//! Records that travel: exported, imported, and the same runs again from them.

mod common;

use std::{collections::BTreeMap, fs, io::Write};

use common::place::{Place, answer, contents, errors};
use rstest::rstest;
use serde_json::{Value, json};

const ABLATION: &str =
    "kind = \"ablate\"\ntask = \"file:task0.csv\"\nbatch_size = 8\nepochs = 1\nseed = [0, 1]\nadapter_size = 2";
const STREAM: &str = "kind = \"stream\"\ntask = [\"file:task0.csv\", \"file:task1.csv\"]\nbatch_size = 8\nepochs = 1\ntuning = [\"adapters\", \"full\"]\nadapter_size = 2";

impl Place {
    fn export(&self, runs: &str, file: &str) -> Value {
        answer(self.program(&["runs", "export", "--runs", runs, "--out", file, "--json"]))
    }

    fn import(&self, file: &str, runs: &str) -> Value {
        answer(self.program(&["runs", "import", file, "--runs", runs, "--json"]))
    }
}

/// What one machine has finished another need not do again, and both draw the same.
#[rstest]
#[case::ablation(ABLATION, 2 * 2 + 1)]
#[case::stream(STREAM, 4 + 2 + 1)]
fn imported_records_are_finished_runs(#[case] experiment: &str, #[case] documents: usize) {
    let place = Place::new(experiment);
    let first = place.run(&["--runs", "here"]);
    assert_eq!(place.export("here", "all.jsonl.gz")["documents"], documents);
    assert_eq!(place.import("all.jsonl.gz", "there"), json!({"new": documents, "already_there": 0}));
    assert_eq!(place.import("all.jsonl.gz", "there"), json!({"new": 0, "already_there": documents}));
    let again = place.run(&["--runs", "there"]);
    let without_times = |mut result: Value| {
        result["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| run["measured"] = Value::Null);
        result
    };
    assert_eq!(without_times(again), without_times(first));
    assert!(!fs::read_dir(place.path("there")).unwrap().flatten().any(|run| run.path().join("v.safetensors").exists()));
    // The same records make the same bytes.
    place.export("there", "again.jsonl.gz");
    assert_eq!(fs::read(place.path("all.jsonl.gz")).unwrap(), fs::read(place.path("again.jsonl.gz")).unwrap());
    for (runs, out) in [("here", "one"), ("all.jsonl.gz", "two")] {
        answer(place.program(&["report", "--runs", runs, "--out", out, "--json"]));
    }
    let drawn = |out: &str| {
        let files = ["figures", "tables"].map(|folder| fs::read_dir(place.path(out).join(folder)).unwrap().flatten());
        // The order of the fonts in a PDF is another one every time.
        let files =
            files.into_iter().flatten().filter(|file| file.path().extension().is_some_and(|kind| kind != "pdf"));
        files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect::<BTreeMap<_, _>>()
    };
    assert!(drawn("one") == drawn("two") && !drawn("one").is_empty(), "a folder and its export are drawn alike");
}

/// One experiment can travel alone: its runs, ablations and streams, and nothing of the others. The stream's first run is the
/// ablation's too.
#[rstest]
#[case::ablation("own", 2 * 2 + 1)]
#[case::stream("other", 4 + 1 + 2 + 1)]
fn an_experiment_travels_without_the_others(#[case] experiment: &str, #[case] documents: usize) {
    let place = Place::new(ABLATION);
    fs::write(place.path("other.toml"), STREAM).unwrap();
    for file in ["own.toml", "other.toml"] {
        answer(place.program(&["run", file, "--backbone", "tiny", "--runs", "here", "--json"]));
    }
    let export = ["runs", "export", "--runs", "here", "--out", "one.jsonl.gz", "--json", "--experiment"];
    let exported = answer(place.program(&[&export[..], &[experiment]].concat()));
    assert_eq!(exported["documents"], documents);
    assert_eq!(place.import("one.jsonl.gz", "there"), json!({"new": documents, "already_there": 0}));
    let mistyped = place.program(&[&export[..], &["owm"]].concat()).output().unwrap();
    assert!(!mistyped.status.success());
    assert!(errors(&mistyped).contains("there is no experiment `owm`; there are: other, own"), "{}", errors(&mistyped));
}

/// An experiment that has gone on elsewhere goes on here, and an older export of it takes nothing back.
#[test]
fn a_later_export_brings_the_experiment_up_to_date() {
    let place = Place::new(&ABLATION.replace("[0, 1]", "[0]"));
    place.run(&["--runs", "here"]);
    place.export("here", "earlier.jsonl.gz");
    fs::write(place.path("own.toml"), ABLATION).unwrap();
    place.run(&["--runs", "here"]);
    place.export("here", "later.jsonl.gz");
    let experiment = |runs: &str| -> Value {
        serde_json::from_slice(&fs::read(place.path(runs).join("experiments/own.json")).unwrap()).unwrap()
    };
    place.import("earlier.jsonl.gz", "there");
    assert_ne!(experiment("there"), experiment("here"));
    for (export, new) in [("later.jsonl.gz", 2 + 1), ("earlier.jsonl.gz", 0)] {
        assert_eq!(place.import(export, "there")["new"], new, "{export}");
        assert_eq!(experiment("there"), experiment("here"), "{export}");
    }
}

/// A run whose tensors stayed behind is run again where they are needed, and must come out as its record says.
#[test]
fn a_run_whose_tensors_are_needed_is_run_again_to_the_bit() {
    let place = Place::new(ABLATION);
    place.run(&["--runs", "here"]);
    place.export("here", "all.jsonl.gz");
    place.import("all.jsonl.gz", "there");
    let runs: Vec<_> = contents(&place.path("here")).into_keys().collect();
    runs.iter().for_each(|id| fs::remove_file(place.path("there").join(id).join("ablation.json")).unwrap());
    place.run(&["--runs", "there"]);
    assert_eq!(contents(&place.path("there")), contents(&place.path("here")));
    // One that does not is an error, and its record stays.
    let changed = place.path("there").join(&runs[0]);
    let record = fs::read_to_string(changed.join("record.json")).unwrap();
    let mut lie: Value = serde_json::from_str(&record).unwrap();
    lie["last"]["validation"]["accuracy"] = json!(0.123);
    fs::write(changed.join("record.json"), lie.to_string()).unwrap();
    for file in ["ablation.json", "v.safetensors"] {
        fs::remove_file(changed.join(file)).unwrap();
    }
    let output = place.command(&["--runs", "there"]).output().unwrap();
    assert!(errors(&output).contains("does not come out as its record says: last differ"), "{}", errors(&output));
}

const NAMED: &str =
    "task = \"syn-acceptability\"\nlimit = 64\nlimit_validation = 32\nepochs = 1\nadapter_size = 2\nseed = [0, 1, 2]";
const TRIALS: &str = "kind = \"search\"\ntask = \"syn-sentiment\"\ntrials = 2\nsamples = 1000\nlimit = 64\nseeds = 1\nembeddings = \"none\"";

impl Place {
    fn repeat(&self, options: &[&str]) -> std::process::Output {
        self.program(&[&["runs", "repeat", "--json"], options].concat()).output().unwrap()
    }
}

/// Whoever has the records, the data and the backbone can make them again: all that is written but for times.
#[rstest]
#[case::runs(NAMED, 3)]
#[case::trials(TRIALS, 2)]
fn runs_are_repeated_from_an_export_to_the_bit(#[case] experiment: &str, #[case] runs: usize) {
    let place = Place::new(experiment);
    answer(place.program(&["run", "own.toml", "--backbone", "nano", "--runs", "here", "--json"]));
    place.export("here", "all.jsonl.gz");
    let all = place.repeat(&["--runs", "all.jsonl.gz", "--sample", &runs.to_string()]);
    assert!(all.status.success(), "{}", errors(&all));
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert!(
        all.as_array().unwrap().len() == runs && all.as_array().unwrap().iter().all(|run| run["differ"] == json!([]))
    );
    // A run that is named is the one that is repeated.
    let ids: Vec<&str> = all.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    let one: Value = serde_json::from_slice(&place.repeat(&["--runs", "all.jsonl.gz", &ids[1][..6]]).stdout).unwrap();
    assert_eq!((one[0]["id"].as_str(), one.as_array().unwrap().len()), (Some(ids[1]), 1));
}

/// A run of one's own data is repeated where it was run: its folder remembers the file and its columns.
#[test]
fn a_repetition_says_what_differs_and_touches_nothing() {
    let place = Place::new(ABLATION);
    place.run(&["--runs", "here"]);
    let before = contents(&place.path("here"));
    let output = place.repeat(&["--runs", "here", "--sample", "2", "--keep", "again"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(contents(&place.path("again")), before, "what is kept is a run like any other");
    let id = before.keys().next().unwrap();
    let path = place.path("here").join(id).join("record.json");
    let mut lie: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    lie["last"]["validation"]["accuracy"] = json!(0.123);
    fs::write(&path, lie.to_string()).unwrap();
    let output = place.repeat(&["--runs", "here", id]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((said[0]["id"].as_str(), &said[0]["differ"]), (Some(id.as_str()), &json!(["last"])));
    assert!(!output.status.success() && errors(&output).contains("1 of 1 runs did not come out as their records say"));
    assert_eq!(fs::read_to_string(&path).unwrap(), lie.to_string());
    // Other data would be another run: that is said before any work.
    let data = fs::read_to_string(place.path("task0.csv")).unwrap();
    fs::write(place.path("task0.csv"), data.replacen("dog", "cat", 1)).unwrap();
    let output = place.repeat(&["--runs", "here", id]);
    assert!(errors(&output).contains("was made with another data"), "{}", errors(&output));
}

/// What was imported into the folder of repetitions was not computed there: for a trial that can only be said.
#[rstest]
#[case::runs(NAMED, Err("again has the record of run"))]
#[case::trials(TRIALS, Ok(true))]
fn an_imported_record_is_no_repetition(#[case] experiment: &str, #[case] expected: Result<bool, &str>) {
    let place = Place::new(experiment);
    answer(place.program(&["run", "own.toml", "--backbone", "nano", "--runs", "here", "--json"]));
    place.export("here", "all.jsonl.gz");
    place.import("all.jsonl.gz", "again");
    let output = place.repeat(&["--runs", "all.jsonl.gz", "--sample", "1", "--keep", "again"]);
    match expected {
        Ok(was_there) => {
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&said[0]["was_there"], &said[0]["differ"]), (&json!(was_there), &json!([])));
        }
        Err(message) => assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output)),
    }
    // What it computed itself, it finds again.
    for was_there in [Value::Null, json!(true)] {
        let output = place.repeat(&["--runs", "all.jsonl.gz", "--sample", "1", "--keep", "own"]);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said[0]["was_there"], &said[0]["differ"]), (&was_there, &json!([])));
    }
}

#[test]
fn an_export_does_not_say_where_a_file_is() {
    let place = Place::new(ABLATION);
    place.run(&["--runs", "here"]);
    place.export("here", "all.jsonl.gz");
    let output = place.repeat(&["--runs", "all.jsonl.gz", "--sample", "1"]);
    let message =
        "is on a file of your own, `file:task0`, and its record does not say where that is: repeat it from the folder";
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
}

#[rstest]
#[case::nothing(&[], "which runs? Give their ids, or --sample N")]
#[case::none(&["--sample", "0"], "--sample 0: there are 2 runs to draw from")]
#[case::too_many(&["--sample", "3"], "--sample 3: there are 2 runs to draw from")]
#[case::nobody(&["ffff"], "there is no run `ffff` in here")]
#[case::itself(&["--sample", "1", "--keep", "here"], "--keep here: the records are there already")]
#[case::itself_otherwise(&["--sample", "1", "--keep", "./here/../here"], "the records are there already")]
fn a_repetition_of_nothing_is_refused(#[case] options: &[&str], #[case] message: &str) {
    let place = Place::new(ABLATION);
    place.run(&["--runs", "here"]);
    let output = place.repeat(&[&["--runs", "here"], options].concat());
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
}

#[rstest]
#[case::no_archive(b"no archive".to_vec(), "cannot read bad.jsonl.gz")]
#[case::no_json(packed("not json\n"), "line 1")]
#[case::outside(
    packed("{\"file\": \"../escape/record.json\", \"document\": {}}\n"),
    "`../escape/record.json` is no document"
)]
#[case::other_file(packed("{\"file\": \"abc/v.safetensors\", \"document\": {}}\n"), "is no document")]
#[case::no_record(
    packed("{\"file\": \"abc/record.json\", \"document\": {\"schema\": 2}}\n"),
    "abc/record.json: not a record"
)]
fn an_export_that_is_none_writes_nothing(#[case] bytes: Vec<u8>, #[case] message: &str) {
    let place = Place::new("");
    fs::write(place.path("bad.jsonl.gz"), bytes).unwrap();
    let output = place.program(&["runs", "import", "bad.jsonl.gz", "--runs", "runs"]).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
    assert!(!place.path("runs").exists() && !place.path("escape").exists());
}

#[test]
fn a_changed_record_is_not_imported() {
    let place = Place::new(ABLATION);
    place.run(&["--runs", "here"]);
    let id = contents(&place.path("here")).into_keys().next().unwrap();
    let path = place.path("here").join(&id).join("record.json");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"adapter_size\": 2", "\"adapter_size\": 3")).unwrap();
    place.export("here", "all.jsonl.gz");
    let output = place.program(&["runs", "import", "all.jsonl.gz", "--runs", "there"]).output().unwrap();
    assert!(errors(&output).contains("this is a record of run"), "{}", errors(&output));
    assert!(!place.path("there").exists());
}

fn packed(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

/// What `docs/results/publish` puts there: a file of records, and beside it what was drawn of them.
fn published(records: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results").join(records)
}

/// The figures and tables of the results are what the records beside them make: whoever changes a drawing draws them anew.
#[rstest]
fn the_published_records_draw_what_is_published(
    #[values("desk.jsonl.gz", "wide/wide.jsonl.gz")] records: &str,
    #[values("figures", "tables")] folder: &str,
) {
    let (place, records) = (Place::new(""), published(records));
    answer(place.program(&["report", "--runs", &records.display().to_string(), "--out", "out", "--json"]));
    let files: Vec<_> = fs::read_dir(records.with_file_name(folder)).unwrap().flatten().collect();
    assert!(!files.is_empty());
    for file in files {
        let (name, made) = (file.file_name(), place.path("out").join(folder).join(file.file_name()));
        assert!(fs::read(file.path()).unwrap() == fs::read(made).unwrap(), "{name:?}: `report` makes another");
    }
}

/// The text says of how many runs it is.
#[rstest]
fn the_results_say_how_many_runs_are_published(#[values("desk.jsonl.gz", "wide/wide.jsonl.gz")] records: &str) {
    let documents = analysis::documents(&published(records)).unwrap();
    let runs = documents.keys().filter(|file| file.ends_with("/record.json")).count();
    let said = format!("`{records}` ({runs} runs");
    let text = fs::read_to_string(published("README.md")).unwrap();
    assert!(text.contains(&said), "the text does not say {said}");
}
