//! Runs as other programs see them, read by those programs themselves. `.ci/track` installs them and runs this.

mod common;

use std::{
    fs,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use common::place::{Place, answer, errors};
use serde_json::Value;

const ONE: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 60
tuning = "adapters"
adapter_size = 2
lr = 1e-2
seed = 0
"#;

/// What a script says that reads with Python.
fn python(script: &str, argument: &std::path::Path) -> Value {
    let python = std::env::var("TRACKERS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = format!("{}/tests/trackers/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(script).arg(argument);
    answer(command)
}

/// Values of a tag, with their steps.
fn series(seen: &Value, tag: &str) -> Vec<(u64, f64)> {
    let points = seen["scalars"][tag].as_array().unwrap_or_else(|| panic!("no {tag}"));
    points.iter().map(|point| (point[0].as_u64().unwrap(), point[1].as_f64().unwrap())).collect()
}

fn same(seen: &[(u64, f64)], expected: &[(u64, f64)]) {
    assert_eq!(seen.len(), expected.len());
    for ((step, value), (own_step, own_value)) in seen.iter().zip(expected) {
        assert!(step == own_step && (value - own_value).abs() <= 1e-6 * own_value.abs().max(1.0), "{step}: {value}");
    }
}

#[test]
#[ignore = "needs Python's tensorboard: `.ci/track` installs it and runs this"]
fn tensorboard_sees_every_step_once_whatever_happened() {
    let place = Place::new(ONE);
    let options = ["--runs", "runs", "--checkpoint-every", "0.05", "--track", "tensorboard"];
    for _ in 0..3 {
        let mut child = place.command(&options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(400));
        // It may be over already.
        let _ = child.kill();
        child.wait().unwrap();
    }
    let report = place.run(&options);
    let record = &report["runs"][0];
    let id = record["id"].as_str().unwrap();
    let seen = python("tensorboard_says.py", &place.path("runs").join("tensorboard").join(id));

    let log = fs::read_to_string(place.path("runs").join(id).join("steps.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| -> Vec<(u64, f64)> {
        lines.iter().map(|line| (line["step"].as_u64().unwrap(), line[name].as_f64().unwrap())).collect()
    };
    for name in ["loss", "rate", "tokens_per_second"] {
        same(&series(&seen, &format!("train/{name}")), &of(name));
    }
    let measured: Vec<&Value> = lines.iter().filter(|line| line["deviations"].is_object()).collect();
    let (place_name, _) = measured[0]["deviations"].as_object().unwrap().iter().next().unwrap();
    let deviations: Vec<(u64, f64)> = measured
        .iter()
        .map(|line| (line["step"].as_u64().unwrap(), line["deviations"][place_name].as_f64().unwrap()))
        .collect();
    same(&series(&seen, &format!("deviation/{place_name}")), &deviations);
    let evaluations: Vec<(u64, f64)> = record["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|epoch| (epoch["steps"].as_u64().unwrap(), epoch["validation"]["accuracy"].as_f64().unwrap()))
        .collect();
    same(&series(&seen, "validation/accuracy"), &evaluations);
    assert_eq!(
        (&seen["hparams"]["lr"], &seen["hparams"]["tuning"]),
        (&record["config"]["lr"], &record["config"]["tuning"])
    );
    assert_eq!(seen["succeeded"], true);
}

#[test]
fn a_place_that_cannot_be_written_costs_the_tracking_and_not_the_run() {
    let place = Place::new(ONE);
    fs::create_dir_all(place.path("runs")).unwrap();
    fs::write(place.path("runs/tensorboard"), "in the way").unwrap();
    let options = ["--runs", "runs", "--set", "epochs=1", "--track", "tensorboard"];
    let output = place.command(&options).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("this run is not tracked"), "{}", errors(&output));
}
