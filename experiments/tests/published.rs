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

/// The figures and tables of the results are what the records beside them make: whoever changes a drawing draws them anew.
#[rstest]
fn the_published_records_draw_what_is_published(#[values("figures", "tables")] folder: &str) {
    let results = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
    let (place, records) = (Place::new(""), results.join("desk.jsonl.gz"));
    answer(place.program(&["report", "--runs", &records.display().to_string(), "--out", "out", "--json"]));
    let published: Vec<_> = fs::read_dir(results.join(folder)).unwrap().flatten().collect();
    assert!(!published.is_empty());
    for file in published {
        let (name, made) = (file.file_name(), place.path("out").join(folder).join(file.file_name()));
        assert!(fs::read(file.path()).unwrap() == fs::read(made).unwrap(), "{name:?}: `report` makes another");
    }
}
