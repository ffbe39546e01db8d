//! What the program says beside its results: how much of it, in which form, and where a configuration comes from.

mod common;

use std::{fs, process::Command};

use common::place::{Place, answer, errors};
use rstest::rstest;
use serde_json::{Value, json};

const GRID: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 2
lr = 1e-3
seed = [0, 1]

[quick]
warmup = 0.5

[[series]]
tuning = "adapters"
adapter_size = [2, 4]

[[series]]
tuning = "head"

[series.quick]
lr = 1e-2
"#;

/// What a command says on standard error when all goes well.
fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    errors(&output)
}

#[test]
fn a_log_for_programs_has_a_document_on_every_line() {
    let place = Place::new(GRID);
    let log = said(place.command(&["--runs", "runs", "-v", "--jobs", "1", "--log-format", "json"]));
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["time"].is_f64() && line["message"].is_string()));
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let runs = of("run");
    assert_eq!((runs.len(), of("evaluation").len()), (6, 12));
    assert_eq!((&runs[5]["done"], &runs[5]["of"], &runs[5]["experiment"]), (&json!(6), &json!(6), &json!("own")));
    let record = fs::read(place.path("runs").join(runs[0]["id"].as_str().unwrap()).join("record.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(runs[0]["validation"], record["last"]["validation"]);
}

#[test]
fn whoever_wants_quiet_hears_only_what_went_wrong() {
    let place = Place::new(GRID);
    let run = ["run", "own.toml", "--backbone", "tiny", "--runs", "runs"];
    assert_eq!(said(place.program(&[&run[..], &["--quiet"]].concat())), "");
    assert!(said(place.program(&run)).contains("note: own is done (6 already finished)"));
    fs::write(place.path("task1.csv"), "text,label\nshe is on the mat,yes\n").unwrap();
    let output = place.program(&[&run[..], &["-q", "--set", "task=file:task1.csv"]].concat()).output().unwrap();
    let errors = errors(&output);
    assert!(
        !output.status.success()
            && errors.lines().all(|line| line.starts_with("failed: ") || line.starts_with("error: ")),
        "{errors}"
    );
}

#[rstest]
#[case::of_itself(&[], None, false)]
#[case::asked_for(&["--color", "always"], None, true)]
#[case::asked_for_in_one_word(&["--color=always"], None, true)]
#[case::not_wanted(&["--color", "never"], None, false)]
#[case::wanted_although_the_environment_does_not(&["--color", "always"], Some("1"), true)]
fn colours_are_for_terminals_or_for_those_who_ask(
    #[case] options: &[&str],
    #[case] no_color: Option<&str>,
    #[case] coloured: bool,
) {
    let place = Place::new(GRID);
    // The first error is ours, the second one of the command line.
    for wrong in [&["config", "show", "nothing"][..], &["config", "shw"]] {
        let mut command = place.program(&[wrong, options].concat());
        no_color.map(|value| command.env("NO_COLOR", value));
        let output = command.output().unwrap();
        assert!(!output.status.success());
        assert_eq!(errors(&output).contains("\u{1b}["), coloured, "{}", errors(&output));
    }
}

#[test]
fn a_configuration_says_where_each_key_comes_from() {
    let place = Place::new(GRID);
    let show = |arguments: &[&str]| {
        let mut command = place.program(&[&["config", "show", "--json", "--backbone", "tiny"], arguments].concat());
        command.env("ADAPTER_LAB_EPOCHS", "7").env("ADAPTER_LAB_CLIP", "1.5");
        answer(command)
    };
    let own = show(&["--task", "file:task0.csv", "--epochs", "5", "--set", "lr=3e-3", "--profile", "adapter-bert"]);
    let keys = &own[0]["keys"];
    let of = |key: &str| (keys[key]["value"].clone(), keys[key]["from"].as_str().unwrap().to_owned());
    assert_eq!(of("epochs"), (json!(5), "--epochs".to_owned()));
    assert_eq!(of("clip"), (json!(1.5), "ADAPTER_LAB_CLIP".to_owned()));
    assert_eq!(of("lr"), (json!(3e-3), "--set".to_owned()));
    assert_eq!(of("init_std"), (json!(1e-3), "profile adapter-bert".to_owned()));
    assert_eq!(of("adapter_size"), (json!(64), "default of adapters".to_owned()));
    assert_eq!(of("max_length").1, "default for this task and backbone");

    // What `train` would do is what is shown.
    let train = ["train", "--dry-run", "--json", "--backbone", "tiny", "--task", "file:task0.csv", "--epochs", "5"];
    let mut train = place.program(&[&train[..], &["--set", "lr=3e-3", "--profile", "adapter-bert"]].concat());
    train.env("ADAPTER_LAB_EPOCHS", "7").env("ADAPTER_LAB_CLIP", "1.5");
    let trained = answer(train);
    assert!(keys.as_object().unwrap().iter().all(|(key, shown)| match key.as_str() {
        // A backbone has a name of its own.
        "backbone" => true,
        key => trained.get(key).is_none_or(|value| *value == shown["value"]),
    }));

    let file = show(&["own.toml"]);
    let of = |series: usize, key: &str| file[series]["keys"][key]["from"].as_str().unwrap().to_owned();
    assert_eq!(file.as_array().unwrap().len(), 2);
    assert_eq!([of(0, "lr"), of(1, "lr")], ["the file", "its series, [quick]"]);
    assert_eq!([of(0, "warmup"), of(0, "epochs")], ["the file, [quick]", "ADAPTER_LAB_EPOCHS"]);
    assert_eq!(file[0]["keys"]["adapter_size"]["value"], json!([2, 4]));
}

#[test]
fn a_table_for_other_programs_has_a_line_for_each_run() {
    let place = Place::new(GRID);
    place.run(&["--runs", "runs"]);
    let export = |options: &[&str]| place.program(&[&["runs", "export", "--csv"], options].concat()).output().unwrap();
    let (printed, written) = (export(&[]), export(&["--out", "runs.csv"]));
    assert!(printed.status.success() && written.status.success());
    let table = fs::read(place.path("runs.csv")).unwrap();
    assert_eq!((printed.stdout, table.iter().filter(|byte| **byte == b'\n').count()), (table, 7));
    assert!(!place.program(&["runs", "export"]).output().unwrap().status.success());
    assert!(errors(&export(&["--json"])).contains("give --out a file"));
}
