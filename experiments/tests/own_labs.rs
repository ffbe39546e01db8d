//! Programs of a user's own, driven through their binaries: what they add has every command, run, resume and figure.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use analysis::Exhibit;
use bert_backbone::RandomCheckpoint;
use burn::tensor::Device;
use experiments::{Lab, run_command};
use rstest::rstest;
use serde_json::{Value, json};

/// A program among the examples, in a folder of its own with a small backbone.
struct Program {
    binary: PathBuf,
    folder: tempfile::TempDir,
}

impl Program {
    fn new(example: &str) -> Self {
        // `cargo test` builds examples beside the binary.
        let binary = Path::new(env!("CARGO_BIN_EXE_adapter-lab")).with_file_name("examples").join(example);
        assert!(binary.exists(), "{} is built by `cargo test` without `--test`", binary.display());
        let folder = tempfile::tempdir().unwrap();
        RandomCheckpoint::tiny().write(&folder.path().join("tiny"), &Device::flex()).unwrap();
        Self { binary, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.folder.path()).env("ADAPTER_LAB_CACHE", self.path("cache")).args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn error(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Records without what depends on the clock, and trained tensors.
fn contents(runs: &Path) -> Vec<(Value, Vec<u8>)> {
    let mut folders: Vec<PathBuf> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let finished = folders.iter().filter(|folder| folder.join("record.json").exists()).map(|folder| {
        let mut record: Value = serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap();
        record.as_object_mut().unwrap().remove("measured");
        (record, fs::read(folder.join("v.safetensors")).unwrap())
    });
    finished.collect()
}

const OWN: &str = r#"
about = "gates against the paper's adapters"
task = "dogs"
batch_size = 8
epochs = 4
lr = 1e-2
seed = [0, 1]

[[series]]
tuning = "gated"
adapter_size = 4
gate_init = [-2.0, 0.0, 2.0]

[[series]]
tuning = "adapters"
adapter_size = 4
"#;

#[test]
fn a_method_and_a_task_of_ones_own_have_everything_else_for_free() {
    let lab = Program::new("own_lab");
    fs::write(lab.path("own.toml"), OWN).unwrap();
    let run = ["run", "own.toml", "--backbone", "tiny", "--checkpoint-every", "0"];

    // Killed in the middle of its sweep, it goes on and ends as if nothing had happened.
    let whole = lab.json(&[&run[..], &["--runs", "whole"]].concat());
    assert_eq!(whole["runs"].as_array().unwrap().len(), 2 * 4);
    let killed = [&run[..], &["--runs", "killed", "--json"]].concat();
    let mut child = lab.command(&killed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let records = || fs::read_dir(lab.path("killed")).into_iter().flatten().flatten();
    while records().filter(|run| run.path().join("record.json").exists()).count() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(contents(&lab.path("killed")).len() < 8);
    lab.json(&[&run[..], &["--runs", "killed", "--jobs", "2"]].concat());
    assert_eq!(contents(&lab.path("killed")), contents(&lab.path("whole")));

    // The record says what figures ask.
    let gated = whole["runs"].as_array().unwrap().iter().find(|run| run["config"]["gate_init"] == 2.0).unwrap();
    assert_eq!(gated["method"]["label"], "gated 4");
    assert_eq!((&gated["method"]["size"], &gated["method"]["variant"]), (&json!(4.0), &json!({"gate_init": 2.0})));
    // Two adapters of 2·4·32 + 32 + 4 with a gate of 32 in each of three layers.
    assert_eq!(gated["params"]["groups"]["gated"], 6 * (2 * 4 * 32 + 32 + 4 + 32));

    // It is drawn beside the paper's adapters, first on the page.
    let report = lab.json(&["report", "--runs", "whole", "--out", "out"]);
    assert_eq!(report["runs"], 8);
    let page = fs::read_to_string(lab.path("out/report.html")).unwrap();
    let figure = fs::read_to_string(lab.path("out/figures/own.svg")).unwrap();
    assert!(figure.contains("gate init") && figure.contains("gated") && figure.contains("adapters"), "{figure}");
    assert!(lab.path("out/figures/own.png").exists() && lab.path("out/tables/own-table.md").exists());
    assert!(page.find("id=\"own\"").unwrap() < page.find("id=\"findings\"").unwrap_or(usize::MAX));
    assert!(!page.contains("of none of these experiments"), "its runs are listed under its name");

    // Every command takes its files and its keys.
    let id = gated["id"].as_str().unwrap();
    let file = format!("whole/{id}/v.safetensors");
    let predicted = lab.json(&["predict", "--adapter", &file, "--text", "the dog is on the mat"]);
    assert!(["no", "yes"].contains(&predicted[0]["label"].as_str().unwrap()));
    let scores = lab.json(&["eval", "--adapter", &file]);
    assert_eq!(scores["scores"]["accuracy"], gated["last"]["validation"]["accuracy"]);
    assert_eq!(lab.json(&["ablate", "--adapter", &file])["spans"].as_array().unwrap().len(), 6);
    let params = lab.json(&["params", "--backbone", "tiny", "--tuning", "gated", "--adapter-size", "4"]);
    assert_eq!(params["groups"]["gated"], gated["params"]["groups"]["gated"]);
    let help = String::from_utf8(lab.output(&["train", "--help"]).stdout).unwrap();
    assert!(help.contains("--gate-init <G>") && help.contains("Keys of gated"), "{help}");
    let listed = lab.json(&["list", "methods"]);
    assert!(listed.as_array().unwrap().iter().any(|method| method["name"] == "gated"));

    // And mistakes are answered as for the built-in ones.
    let wrong = ["train", "--task", "dogs", "--backbone", "tiny", "--tuning", "gated"];
    assert!(lab.error(&[&wrong[..], &["--set", "gate_inti=1"]].concat()).contains("did you mean `gate_init`?"));
    assert!(lab.error(&[&wrong[..], &["--gate-init", "high"]].concat()).contains("gate_init = \"high\""));
    assert!(lab.error(&["train", "--task", "dgos", "--backbone", "tiny"]).contains("did you mean `dogs`?"));
    // The paper's own program says whose file it is.
    let mut other = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    other.current_dir(lab.folder.path()).env("ADAPTER_LAB_CACHE", lab.path("cache"));
    let output = other.args(["predict", "--adapter", &file, "--text", "a dog"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("made by the method `gated`, which this program does not have"), "{error}");
}

#[test]
fn a_product_a_head_a_metric_an_optimiser_and_a_figure_of_ones_own_reach_runs_and_report() {
    let lab = Program::new("own_parts");
    let result = lab.json(&["run", "mine", "--backbone", "nano", "--set", "epochs=4", "--runs", "runs"]);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for (run, rank) in runs.iter().zip([1, 4]) {
        assert_eq!((&run["config"]["head"], &run["config"]["optimizer"]), (&json!("max"), &json!("sgd")));
        assert_eq!((&run["config"]["momentum"], &run["config"]["rank"]), (&json!(0.9), &json!(rank)));
        assert!(run["config"].get("beta1").is_none(), "keys of another optimiser decide nothing");
        assert_eq!(run["best"]["metric"], "balanced_accuracy");
        assert!(
            run["best"]["validation"]["balanced_accuracy"].is_f64() && run["best"]["validation"]["accuracy"].is_f64()
        );
        // Queries and values, A and B, in each of six layers of width 96.
        assert_eq!(run["params"]["groups"]["low_rank"], 6 * 2 * 2 * 96 * rank);
    }
    // The own optimiser's memory survives a kill: what it moves is what an undisturbed run moves.
    let options = [
        "run",
        "mine",
        "--backbone",
        "nano",
        "--set",
        "epochs=4",
        "--runs",
        "killed",
        "--checkpoint-every",
        "0",
        "--json",
    ];
    let mut child = lab.command(&options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = || fs::read_dir(lab.path("killed")).into_iter().flatten().flatten();
    while !started().any(|run| run.path().join("checkpoint.safetensors").exists()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    lab.json(&options[..options.len() - 1]);
    assert_eq!(contents(&lab.path("killed")), contents(&lab.path("runs")));

    let report = lab.json(&["report", "--runs", "runs", "--out", "out"]);
    assert!(!report["gaps"].as_array().unwrap().contains(&json!("losses")), "{report}");
    assert!(fs::read_to_string(lab.path("out/figures/losses.svg")).unwrap().contains("training loss"));
    let file = format!("runs/{}/v.safetensors", runs[1]["id"].as_str().unwrap());
    let predicted = lab.json(&["predict", "--adapter", &file, "--text", "anything at all"]);
    assert_eq!(predicted[0]["probabilities"].as_array().unwrap().len(), 2);
    let scores = lab.json(&["eval", "--adapter", &file]);
    assert_eq!(scores["scores"], runs[1]["last"]["validation"]);
    assert!(
        lab.error(&["train", "--task", "syn-topic", "--backbone", "nano", "--metric", "balanced"]).contains("balanced")
    );
    assert!(
        lab.error(&["train", "--task", "syn-topic", "--backbone", "nano", "--head", "maxx"])
            .contains("did you mean `max`?")
    );
}

/// Two parts of one name could not be told apart.
#[rstest]
#[case::method(Lab::paper().method::<adapter_core::Lora>(), "two methods are called `lora`")]
#[case::preset(Lab::paper().preset("fig4", "task = \"cola\""), "two presets are called `fig4`")]
#[case::table(Lab::paper().exhibit(Exhibit::table("table1", "Mine", "mine", |_| None)), "two figures or tables are called `table1`")]
#[case::part_of_the_page(
    Lab::paper().exhibit(Exhibit::table("findings", "Mine", "mine", |_| None)),
    "`findings` is a part of every report"
)]
fn names_that_clash_are_refused(#[case] lab: Lab, #[case] message: &str) {
    let error = run_command(&lab, ["list", "tasks"]).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}
