//! The folder of runs as its user sees it: `runs list`, `show`, `diff`, `gc`.

mod common;

use std::fs;

use common::place::{Place, answer, contents, errors};
use rstest::rstest;
use serde_json::{Value, json};

const GRID: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 1
lr = [1e-3, 1e-2]
seed = [0, 1]

[[series]]
tuning = "adapters"
adapter_size = [2, 4]

[[series]]
tuning = "head"
"#;

fn place() -> Place {
    let place = Place::new(GRID);
    place.run(&["--runs", "runs"]);
    place
}

fn text(place: &Place, arguments: &[&str]) -> String {
    let output = place.program(arguments).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn ids(list: &Value) -> Vec<String> {
    list["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn runs_are_found_ordered_and_written_for_others() {
    let place = place();
    let list = |options: &[&str]| answer(place.program(&[&["runs", "list", "--json"], options].concat()));
    let all = list(&[]);
    assert_eq!((ids(&all).len(), &all["of"]), (12, &json!(12)));
    let some = list(&["--where", "method=adapters,lr>5e-3", "--where", "seed!=1"]);
    assert_eq!((ids(&some).len(), &some["of"]), (2, &json!(12)));
    assert!(some["runs"].as_array().unwrap().iter().all(|run| run["config"]["tuning"] == "adapters"));

    let best = list(&["--sort", "accuracy", "--reverse", "--limit", "5"]);
    let scores = |list: &Value| -> Vec<f64> {
        list["runs"].as_array().unwrap().iter().map(|run| run["validation"].as_f64().unwrap()).collect()
    };
    let mut expected = scores(&all);
    expected.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(scores(&best), expected[..5]);

    // An export is listed like the folder that it was made of.
    text(&place, &["runs", "export", "--out", "all.jsonl.gz"]);
    assert_eq!(list(&["--runs", "all.jsonl.gz"]), all);

    let csv = text(&place, &["runs", "list", "--csv", "--sort", "lr"]);
    let lines: Vec<&str> = csv.lines().collect();
    let column = lines[0].split(',').position(|name| name == "lr").unwrap();
    let rates: Vec<f64> = lines[1..].iter().map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect();
    assert!(rates.len() == 12 && rates.is_sorted(), "{rates:?}");

    let table = text(&place, &["runs", "list", "--where", "method=head"]);
    let head = table.lines().next().unwrap();
    assert!(head.contains("lr") && head.contains("seed") && !head.contains("batch_size"), "{head}");
    assert!(table.contains("4 of 12 runs"), "{table}");
}

#[test]
fn a_run_is_shown_and_two_are_compared() {
    let place = place();
    let all = answer(place.program(&["runs", "list", "--json", "--where", "method=head,seed=0"]));
    let ids = ids(&all);
    let shown = text(&place, &["runs", "show", &ids[0][..8]]);
    assert!(shown.contains(&ids[0]) && shown.contains("lr") && shown.contains("accuracy"), "{shown}");
    let record = answer(place.program(&["runs", "show", &ids[0], "--json"]));
    assert_eq!(
        record,
        serde_json::from_slice::<Value>(&fs::read(place.path("runs").join(&ids[0]).join("record.json")).unwrap())
            .unwrap()
    );

    let differences = answer(place.program(&["runs", "diff", &ids[0], &ids[1], "--json"]));
    let keys: Vec<&str> = differences.as_array().unwrap().iter().map(|found| found["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"config.lr") && !keys.contains(&"config.seed") && !keys.contains(&"id"), "{keys:?}");
    assert!(text(&place, &["runs", "diff", &ids[0], &ids[0]]).contains("are the same"));
}

#[test]
fn only_what_nobody_needs_is_removed_and_only_when_asked() {
    let place = place();
    let runs = place.path("runs");
    let before = contents(&runs);
    let finished = runs.join(before.keys().next().unwrap());
    fs::write(finished.join("checkpoint.safetensors"), [0; 1000]).unwrap();
    fs::write(finished.join(".tmp123"), [0; 100]).unwrap();
    fs::create_dir(runs.join("0123456789abcdef")).unwrap();
    fs::write(runs.join("0123456789abcdef/lock"), "").unwrap();
    // A run that can go on.
    let begun = runs.join("fedcba9876543210");
    fs::create_dir(&begun).unwrap();
    for file in ["run.json", "checkpoint.safetensors"] {
        fs::write(begun.join(file), "{}").unwrap();
    }
    let dry = answer(place.program(&["runs", "gc", "--json"]));
    assert_eq!((&dry["removed"], dry["files"].as_array().unwrap().len()), (&json!(false), 3), "{dry}");
    assert!(finished.join("checkpoint.safetensors").exists(), "nothing is removed unasked");

    let said = text(&place, &["runs", "gc", "--yes"]);
    assert!(said.contains("are removed"), "{said}");
    assert!(!finished.join("checkpoint.safetensors").exists() && !finished.join(".tmp123").exists());
    assert!(!runs.join("0123456789abcdef").exists() && begun.exists());
    assert_eq!(contents(&runs), before);

    assert!(text(&place, &["runs", "gc"]).contains("nothing to remove"));
    text(&place, &["runs", "gc", "--unfinished", "--yes"]);
    assert!(!begun.exists());
    assert_eq!(contents(&runs), before);
}

#[test]
fn a_key_that_came_later_is_known_at_its_default() {
    let place = Place::new(
        r#"
        task = "file:task0.csv"
        batch_size = 8
        epochs = 1
        series = [{ tuning = "adapters", adapter_size = 2, layer_norm = [true, false] }, { tuning = "head" }]
        "#,
    );
    place.run(&["--runs", "runs"]);
    let found = |condition: &str| ids(&answer(place.program(&["runs", "list", "--json", "--where", condition])));
    let (with, without) = (found("layer_norm=true"), found("layer_norm=false"));
    assert_eq!((with.len(), without.len(), found("layer_norm!=true").len()), (1, 1, 2));
    assert!(text(&place, &["runs", "list"]).contains("layer_norm"));
    assert!(text(&place, &["runs", "list", "--csv"]).lines().next().unwrap().contains("layer_norm"));
    assert!(text(&place, &["runs", "show", &with[0]]).contains("layer_norm"));
    let differences = text(&place, &["runs", "diff", &with[0], &without[0]]);
    assert!(differences.contains("config.layer_norm") && !differences.contains("config.scaling"), "{differences}");
    // The record itself stays as it is: its id follows from it.
    let record = &contents(&place.path("runs"))[&with[0]].0;
    assert!(record["config"].get("layer_norm").is_none(), "{record}");

    let said = text(&place, &["report"]);
    assert!(said.contains("your own experiments: own, own-table"), "{said}");
    let figure = fs::read_to_string(place.path("out/figures/own.svg")).unwrap();
    assert!(figure.contains("layer norm yes") && figure.contains("layer norm no<"), "{figure}");
    assert!(!figure.contains("layer norm none"), "{figure}");
}

#[test]
fn a_run_under_way_is_shown_with_how_to_continue() {
    let place = place();
    let runs = place.path("runs");
    let id = contents(&runs).keys().next().unwrap().clone();
    fs::remove_file(runs.join(&id).join("record.json")).unwrap();
    let said = text(&place, &["runs", "show", &id]);
    assert!(said.contains(&format!("`train --resume {id} --runs runs`")), "{said}");
    assert!(said.contains("batch_size"), "{said}");
    assert_eq!(answer(place.program(&["runs", "show", &id, "--json"]))["state"], "unfinished");
}

#[test]
fn an_experiment_may_be_called_like_a_file_of_ours() {
    let place = place();
    fs::rename(place.path("own.toml"), place.path("record.toml")).unwrap();
    text(&place, &["run", "record.toml", "--backbone", "tiny"]);
    text(&place, &["runs", "export", "--out", "all.jsonl.gz"]);
    text(&place, &["runs", "import", "all.jsonl.gz", "--runs", "others"]);
    assert!(place.path("others/experiments/record.json").is_file());
}

#[test]
fn folders_that_are_no_runs_are_never_removed() {
    let place = place();
    let runs = place.path("runs");
    // Somebody's own files, and a folder that is only called like a run.
    let own = [".git/config", "notes/lock", "0123456789abcdef/thesis.txt"].map(|file| runs.join(file));
    for file in &own {
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, "mine").unwrap();
    }
    fs::create_dir(runs.join("empty")).unwrap();
    let before = contents(&runs);
    // The folder above the runs is easily named by mistake.
    for folder in ["runs", "."] {
        let said = text(&place, &["runs", "gc", "--runs", folder, "--unfinished", "--yes"]);
        assert!(said.contains("nothing to remove"), "{said}");
    }
    assert_eq!(contents(&runs), before);
    assert!(own.iter().all(|file| file.is_file()) && runs.join("empty").is_dir());
}

#[test]
fn a_run_that_cannot_be_read_is_listed_as_such() {
    let place = place();
    let run = place.path("runs").join(contents(&place.path("runs")).keys().next().unwrap());
    fs::write(run.join("record.json"), "{").unwrap();
    let list = answer(place.program(&["runs", "list", "--json", "--where", "state=unreadable"]));
    assert_eq!(ids(&list).len(), 1);
    let output = place.program(&["runs", "show", &ids(&list)[0]]).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("cannot be used"), "{}", errors(&output));
}

#[rstest]
#[case(&["runs", "list", "--where", "taks=a"], "did you mean `task`")]
#[case(&["runs", "list", "--where", "task"], "give KEY=VALUE")]
#[case(&["runs", "list", "--sort", "nothing"], "no run has a `nothing`")]
#[case(&["runs", "list", "--runs", "elsewhere"], "there is no folder elsewhere")]
#[case(&["runs", "show", "zz"], "there is no run `zz`")]
#[case(&["runs", "show", ""], "12 runs in runs begin with")]
#[case(&["runs", "diff", "zz", "zz"], "there is no run `zz`")]
#[case(&["runs", "gc", "--runs", "elsewhere"], "there is no folder elsewhere")]
#[case(&["runs", "watch"], "nobody works at anything in runs")]
#[case(&["runs", "watch", "elsewhere"], "cannot read elsewhere")]
#[case(&["run", "own.toml", "--backbone", "tiny", "--detach"], "--detach are for --executor slurm")]
#[case(&["run", "own.toml", "--backbone", "tiny", "--executor", "slurm", "--slurm", "workers=0"], "give a number above 0")]
#[case(&["run", "own.toml", "--backbone", "tiny", "--executor", "slurm", "--slurm", "array=1"], "is not for you to say")]
fn wrong_words_are_answered(#[case] arguments: &[&str], #[case] says: &str) {
    let place = place();
    let output = place.program(arguments).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(says), "{}", errors(&output));
}

#[test]
fn without_slurm_a_cluster_is_refused() {
    let place = Place::new(GRID);
    let mut command = place.command(&["--runs", "runs", "--executor", "slurm"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert!(errors(&output).contains("is Slurm installed here?"), "{}", errors(&output));
}
