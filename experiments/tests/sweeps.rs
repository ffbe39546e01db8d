//! Experiments through the real binary: grids, several processes, failures, streams, and disks that are full.

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use bert_backbone::{BertConfig, RandomCheckpoint};
use burn::tensor::Device;
use common::place::{Place, answer, contents, errors};
#[cfg(target_os = "linux")]
use common::process::{children, listen_to_ctrl_c, signal, signal_group};
use experiments::StepLine;
use rstest::rstest;
use serde_json::{Value, json};

const GRID: &str = r#"
about = "a grid"
task = "file:task0.csv"
batch_size = 8
epochs = 2
seed = [0, 1]
quick.epochs = 1

[[series]]
tuning = "adapters"
adapter_size = [2, 4]
lr = 1e-2

[[series]]
tuning = "top-k"
k = "all"
lr = 1e-3
quick.k = 1
"#;

#[test]
fn several_processes_do_what_one_does_and_nothing_twice() {
    let place = Place::new(GRID);
    let one = place.run(&["--runs", "one"]);
    let runs = one["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 + 2, "two sizes and one k, two seeds each");
    assert!(runs.iter().all(|run| run["config"]["epochs"] == 1), "quick is the default");
    let kept: Value = serde_json::from_slice(&fs::read(place.path("one/experiments/own.json")).unwrap()).unwrap();
    let ids: Vec<_> = runs.iter().map(|run| run["id"].clone()).collect();
    assert_eq!((&kept["runs"], &kept["planned"], &kept["kind"]), (&json!(ids), &json!(6), &json!("train")));
    place.run(&["--runs", "two", "--jobs", "2"]);
    assert_eq!(contents(&place.path("one")), contents(&place.path("two")));

    let written = |id: &str| fs::metadata(place.path("one").join(id).join("record.json")).unwrap().modified().unwrap();
    let before: Vec<_> = contents(&place.path("one")).keys().map(|id| written(id)).collect();
    place.run(&["--runs", "one", "--jobs", "2"]);
    assert_eq!(contents(&place.path("one")).keys().map(|id| written(id)).collect::<Vec<_>>(), before);

    // A larger grid shares the points it has in common.
    let more = place.run(&["--runs", "one", "--set", "seed=0,1,2"]);
    assert_eq!((more["runs"].as_array().unwrap().len(), contents(&place.path("one")).len()), (9, 9));
}

#[test]
fn layers_lie_above_each_other_and_dry_run_shows_what_they_make() {
    let place = Place::new(GRID);
    let plan = |options: &[&str], epochs: Option<&str>| -> Vec<Value> {
        let mut command = place.command(&[options, &["--dry-run"]].concat());
        epochs.map(|epochs| command.env("ADAPTER_LAB_EPOCHS", epochs));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        plan["runs"].as_array().unwrap().clone()
    };
    let epochs = |runs: Vec<Value>| runs.iter().map(|run| run["epochs"].as_u64().unwrap()).max();
    assert_eq!(epochs(plan(&[], None)), Some(1));
    assert_eq!(epochs(plan(&["--scale", "paper"], None)), Some(2));
    assert_eq!(epochs(plan(&["--scale", "paper"], Some("3"))), Some(3));
    assert_eq!(epochs(plan(&["--set", "epochs=4"], Some("3"))), Some(4));
    assert_eq!(plan(&["--scale", "paper"], None).len(), 4 + 2 * 3, "k = all is every layer of the backbone");
    assert_eq!(plan(&["--set", "adapter_size=8"], None).len(), 4, "the same run is there once");
    assert!(!place.path("runs").exists(), "nothing was run");
}

#[test]
fn a_run_that_diverges_is_a_result_and_a_failed_one_is_reported_at_the_end() {
    let place = Place::new(GRID);
    for jobs in ["1", "2"] {
        let runs = format!("runs{jobs}");
        let options = ["--runs", &runs, "--set", "lr=1e38,1e-2", "--set", "seed=0", "--jobs", jobs];
        let report = place.run(&options);
        let records = report["runs"].as_array().unwrap();
        let diverged: Vec<&Value> = records.iter().filter(|run| run["status"] == "diverged").collect();
        assert!(records.len() == 6 && !diverged.is_empty() && report["failed"] == json!([]), "{report}");
        assert!(diverged.iter().all(|run| run["majority"]["accuracy"].is_f64()));

        // A record that cannot be read fails its run alone.
        let id = records[0]["id"].as_str().unwrap();
        fs::write(place.path(&runs).join(id).join("record.json"), "{").unwrap();
        let output = place.command(&options).output().unwrap();
        assert!(!output.status.success() && errors(&output).contains("1 of 6 runs failed"), "{}", errors(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["runs"].as_array().unwrap().len(), 5);
        let error = report["failed"][0]["error"].as_str().unwrap();
        assert!(error.contains("not a record this program can read"), "{error}");
    }
}

#[test]
fn each_failure_is_said_once_and_nothing_is_said_to_be_done() {
    let place = Place::new(GRID);
    let run = ["run", "own.toml", "--backbone", "tiny", "--runs", "runs", "--set", "seed=0", "--jobs", "1"];
    let output = place.program(&[&run[..], &["--set", "label_column=stars"]].concat()).output().unwrap();
    assert!(
        !output.status.success() && errors(&output).ends_with("error: 3 of 3 runs failed\n"),
        "{}",
        errors(&output)
    );
    let said = errors(&output) + &String::from_utf8_lossy(&output.stdout);
    assert_eq!((said.matches("failed: ").count(), said.matches("is done").count()), (3, 0), "{said}");
}

/// An experiment as it is listed for the report.
fn listed(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("runs/experiments/own.json")).unwrap()).unwrap()
}

#[test]
fn what_fails_altogether_takes_nothing_out_of_the_report() {
    let place = Place::new(GRID);
    place.run(&["--runs", "runs"]);
    let before = listed(&place);
    let output = place.command(&["--runs", "runs", "--set", "label_column=stars"]).output().unwrap();
    let kept = "no run of `own` succeeded; the report keeps the 6 runs that it had";
    assert!(!output.status.success() && errors(&output).contains(kept), "{}", errors(&output));
    assert_eq!(listed(&place), before);
}

#[rstest]
#[case::the_same(&[], None)]
#[case::more_seeds(&["--set", "seed=0,1,2"], None)]
#[case::fewer_seeds(&["--set", "seed=1"], Some("instead of 3 of the 6 runs of `own`"))]
#[case::another_rate(&["--set", "lr=0.1"], Some("instead of the 6 runs of `own`; a file of another name keeps"))]
fn whoever_replaces_runs_in_the_report_is_told(#[case] changed: &[&str], #[case] message: Option<&str>) {
    let place = Place::new(GRID);
    place.run(&["--runs", "runs"]);
    let said = errors(&place.command(&[&["--runs", "runs"], changed].concat()).output().unwrap());
    assert_eq!(message.is_some(), said.contains(" instead of "), "{said}");
    assert!(said.contains(message.unwrap_or_default()), "{said}");
}

#[test]
fn limits_are_recorded_with_the_examples_they_leave() {
    let place = Place::new("task = \"file:task0.csv\"\nbatch_size = 8\nepochs = 1\nlimit = 16\nlimit_validation = 5");
    let output = place.command(&["--runs", "runs"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &report["runs"][0];
    assert_eq!((&run["examples"]["train"], &run["examples"]["validation"]), (&json!(16), &json!(5)));
    assert!(errors(&output).contains("scores are those of 5 validation examples"), "{}", errors(&output));
}

/// A grid that takes a while.
const LONG: [&str; 4] = ["--set", "epochs=30", "--set", "seed=0"];

#[cfg(target_os = "linux")]
fn wait_for_checkpoints(child: &mut Child, runs: &Path, count: usize) {
    let checkpoints = || {
        let folders = fs::read_dir(runs).into_iter().flatten().flatten();
        folders.filter(|folder| folder.path().join("checkpoint.safetensors").exists()).count()
    };
    while checkpoints() < count {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_process_costs_its_run_alone() {
    let place = Place::new(GRID);
    let options = [&LONG[..], &["--runs", "runs", "--jobs", "2", "--checkpoint-every", "0"]].concat();
    let mut child = place.command(&options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_checkpoints(&mut child, &place.path("runs"), 2);
    signal(children(child.id())[0], libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = report["failed"].as_array().unwrap();
    assert_eq!((failed.len(), report["runs"].as_array().unwrap().len()), (1, 2), "{}", errors(&output));
    let error = failed[0]["error"].as_str().unwrap();
    assert!(error.contains("signal: 9") && error.contains("runs/queues/own-1/"), "{error}");
    // What it had done is not lost.
    let again = place.run(&options);
    assert_eq!(again["runs"].as_array().unwrap().len(), 3);
    place.run(&[&LONG[..], &["--runs", "whole"]].concat());
    assert_eq!(contents(&place.path("runs")), contents(&place.path("whole")));
}

/// What was finished before belongs to an experiment that is interrupted before it gets there.
#[cfg(target_os = "linux")]
#[rstest]
fn an_interruption_takes_no_finished_run_away(#[values("1", "2")] jobs: &str) {
    let place = Place::new(GRID);
    let options = [&LONG[..], &["--runs", "runs", "--jobs", jobs, "--checkpoint-every", "0"]].concat();
    let whole = place.run(&options);
    let ids: Vec<&str> = whole["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    fs::remove_dir_all(place.path("runs").join(ids[0])).unwrap();
    let mut child = place.command(&options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_checkpoints(&mut child, &place.path("runs"), 1);
    signal(child.id(), libc::SIGINT);
    assert!(!child.wait().unwrap().success());
    let kept: Value = serde_json::from_slice(&fs::read(place.path("runs/experiments/own.json")).unwrap()).unwrap();
    assert_eq!((&kept["runs"], &kept["planned"]), (&json!(ids[1..]), &json!(ids.len())));
}

/// Whoever started them is gone, or was told to stop alone: processes do not go on by themselves.
#[cfg(target_os = "linux")]
#[rstest]
fn processes_end_with_the_one_that_started_them(#[values(libc::SIGKILL, libc::SIGINT, libc::SIGTERM)] sent: i32) {
    let place = Place::new(GRID);
    let options = [&LONG[..], &["--runs", "runs", "--jobs", "2", "--checkpoint-every", "0"]].concat();
    let mut child = place.command(&options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_checkpoints(&mut child, &place.path("runs"), 2);
    let workers = children(child.id());
    assert_eq!(workers.len(), 2);
    signal(child.id(), sent);
    assert!(!child.wait().unwrap().success());
    let alive = |worker: &u32| {
        let status = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    let since = std::time::Instant::now();
    while workers.iter().any(alive) {
        assert!(since.elapsed().as_secs() < 60, "a process goes on without its parent");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(contents(&place.path("runs")).len() < 3);
}

#[cfg(target_os = "linux")]
#[rstest]
fn ctrl_c_stops_all_processes_and_the_same_command_goes_on(#[values("1", "2")] jobs: &str) {
    use std::os::unix::process::CommandExt;
    let place = Place::new(GRID);
    let options = [&LONG[..], &["--runs", "runs", "--jobs", jobs, "--checkpoint-every", "0"]].concat();
    let mut child = place.command(&options).process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_checkpoints(&mut child, &place.path("runs"), 1);
    signal_group(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "it was stopped");
    assert!(errors(&output).contains("run the same command again to continue"), "{}", errors(&output));
    assert!(contents(&place.path("runs")).len() < 3, "not all runs are over");
    place.run(&options);
    place.run(&[&LONG[..], &["--runs", "whole"]].concat());
    assert_eq!(contents(&place.path("runs")), contents(&place.path("whole")));
}

/// Every step once, whatever happened in between.
#[cfg(target_os = "linux")]
#[test]
fn the_log_of_a_run_that_was_killed_has_every_step_once() {
    let place = Place::new(GRID);
    let options = [
        "--runs",
        "runs",
        "--set",
        "epochs=20",
        "--set",
        "seed=0",
        "--set",
        "adapter_size=2",
        "--set",
        "k=1",
        "--checkpoint-every",
        "0.05",
    ];
    for _ in 0..3 {
        let mut child = place.command(&options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(400));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let report = place.run(&options);
    for run in report["runs"].as_array().unwrap() {
        let text =
            fs::read_to_string(place.path("runs").join(run["id"].as_str().unwrap()).join("steps.jsonl")).unwrap();
        let lines: Vec<StepLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let steps = run["epochs"].as_array().unwrap().last().unwrap()["steps"].as_u64().unwrap() as usize;
        assert!(lines.iter().map(|line| line.step).eq(1..=steps));
        let adapters = run["config"]["tuning"] == "adapters";
        let measured = lines.iter().filter(|line| !line.deviations.is_empty()).count();
        assert_eq!(measured, if adapters { 1 + steps / 50 } else { 0 });
        assert!(lines.iter().flat_map(|line| line.deviations.values()).all(|value| (1e-6..10.0).contains(value)));
    }
}

/// Nothing but dropout below the trained layers tells a run with the cache from one without.
#[rstest]
#[case::top(&["--set", "tuning=top-k", "--set", "k=1"])]
#[case::two(&["--set", "tuning=top-k", "--set", "k=2"])]
#[case::head(&["--set", "tuning=head"])]
#[case::mean(&["--set", "tuning=head", "--set", "head=mean"])]
#[case::mix(&["--set", "tuning=head", "--set", "head=mix"])]
#[case::pooler(&["--set", "tuning=head", "--set", "head=pooler"])]
#[case::two_mean(&["--set", "tuning=top-k", "--set", "k=2", "--set", "head=mean-mlp"])]
fn a_cached_prefix_trains_the_same_without_dropout(#[case] tuning: &[&str]) {
    let place = Place::new("task = \"file:task0.csv\"\nbatch_size = 8\nlr = 1e-2\nseed = 3");
    let losses = |cached: &str| -> Vec<f64> {
        let report = place.run(&[tuning, &["--runs", "runs", "--set", cached]].concat());
        let run = &report["runs"][0];
        assert_eq!(format!("cache_prefix={}", run["config"]["cache_prefix"]), cached, "the record says so");
        run["epochs"].as_array().unwrap().iter().map(|epoch| epoch["loss"].as_f64().unwrap()).collect()
    };
    let far = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far(losses("cache_prefix=false"), losses("cache_prefix=true")) > 1e-4, "dropout is missing below");
    let tiny = RandomCheckpoint::tiny();
    let config = BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0, ..tiny.config.clone() };
    RandomCheckpoint { config, ..tiny }.write(&place.path("tiny"), &Device::flex()).unwrap();
    assert!(far(losses("cache_prefix=false"), losses("cache_prefix=true")) < 1e-5);
}

/// Features bring their head, are computed once, and are used like any other method.
#[test]
fn features_are_swept_by_how_a_text_is_described() {
    let place = Place::new(
        "task = \"file:task0.csv\"\ntuning = \"features\"\npool = [\"cls\", \"mean\", \"mix\"]\nbatch_size = 8\nepochs = 30\nlr = 1e-2\nseed = 3\nquick.epochs = 30",
    );
    let report = place.run(&["--runs", "runs"]);
    let runs = report["runs"].as_array().unwrap();
    let heads: Vec<&str> = runs.iter().map(|run| run["config"]["head"].as_str().unwrap()).collect();
    assert_eq!(heads, ["mlp", "mean-mlp", "mix-mlp"]);
    for run in runs {
        assert_eq!(run["config"]["cache_prefix"], true);
        let losses: Vec<f64> = run["epochs"].as_array().unwrap().iter().map(|e| e["loss"].as_f64().unwrap()).collect();
        assert!(losses.last() < losses.first(), "it learns: {losses:?}");
        let file = format!("runs/{}/v.safetensors", run["id"].as_str().unwrap());
        let mut eval = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        eval.current_dir(place.path(".")).args(["eval", "--adapter", &file, "--json"]);
        assert_eq!(answer(eval)["scores"], run["last"]["validation"], "without the cache, too");
    }
}

#[test]
fn adapters_of_a_file_task_on_a_backbone_elsewhere_are_removed_and_that_is_kept() {
    let place =
        Place::new("kind = \"ablate\"\ntask = \"file:../task0.csv\"\nadapter_size = 4\nbatch_size = 8\nseed = [0, 1]");
    fs::create_dir(place.path("below")).unwrap();
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        command.current_dir(place.path("below")).env("ADAPTER_LAB_CACHE", place.path("cache"));
        command.args(["run", "../own.toml", "--json", "--backbone", "../tiny", "--runs", "../runs"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = run();
    let ablations = report["ablations"].as_object().unwrap();
    assert_eq!(ablations.len(), 2);
    for (id, ablation) in ablations {
        assert_eq!((ablation["layers"].as_u64(), ablation["spans"].as_array().unwrap().len()), (Some(3), 6));
        let kept: Value =
            serde_json::from_slice(&fs::read(place.path("runs").join(id).join("ablation.json")).unwrap()).unwrap();
        assert_eq!(kept, *ablation);
    }
    assert_eq!(run()["ablations"], report["ablations"]);
}

/// Three runs whose adapters are removed.
const ABLATION: &str =
    "kind = \"ablate\"\ntask = \"file:task0.csv\"\nadapter_size = 4\nbatch_size = 8\nepochs = 1\nseed = [0, 1, 2]";

#[rstest]
fn an_ablation_that_fails_costs_its_run_alone(#[values("1", "2")] jobs: &str) {
    let place = Place::new(ABLATION);
    let options = ["--runs", "runs", "--jobs", jobs];
    let whole = place.run(&options);
    let run = place.path("runs").join(whole["runs"][1]["id"].as_str().unwrap());
    fs::remove_file(run.join("ablation.json")).unwrap();
    fs::write(run.join("v.safetensors"), "damaged").unwrap();
    let output = place.command(&options).output().unwrap();
    let said = errors(&output);
    assert!(!output.status.success() && said.contains("1 of 3 runs failed; the others are in runs"), "{said}");
    assert!(!said.contains(" instead of "), "a run that fails is no run of other settings: {said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |report: &Value, key: &str| report[key].as_array().unwrap().len();
    assert_eq!((of(&report, "runs"), of(&report, "failed"), report["ablations"].as_object().unwrap().len()), (2, 1, 2));
    let listed = listed(&place);
    assert_eq!((of(&listed, "runs"), of(&listed, "failed"), &listed["planned"]), (2, 1, &json!(3)), "it is not whole");
}

/// The lock of a run that another process seems to have, which has everything still to do that `gone` names.
#[cfg(target_os = "linux")]
fn held(run: &Path, gone: &[&str]) -> fs::File {
    gone.iter().for_each(|file| fs::remove_file(run.join(file)).unwrap());
    let lock = fs::File::create(run.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Interrupts the command when a file is there.
#[cfg(target_os = "linux")]
fn interrupt_when_there(mut command: Command, file: &Path) {
    listen_to_ctrl_c(&mut command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("interrupted"), "{}", errors(&output));
}

#[cfg(target_os = "linux")]
#[rstest]
fn an_interruption_between_ablations_takes_no_run_away(#[values("1", "2")] jobs: &str) {
    let place = Place::new(ABLATION);
    let options = ["--runs", "runs", "--jobs", jobs];
    place.run(&options);
    let before = listed(&place);
    fs::remove_file(place.path("runs/experiments/own.json")).unwrap();
    let run = |number: usize| place.path("runs").join(before["runs"][number].as_str().unwrap());
    let _lock = held(&run(1), &["ablation.json", "v.safetensors"]);
    fs::remove_file(run(0).join("ablation.json")).unwrap();
    interrupt_when_there(place.command(&options), &run(0).join("ablation.json"));
    assert_eq!(listed(&place), before);
}

#[cfg(target_os = "linux")]
#[rstest]
fn an_interruption_takes_no_finished_stream_away(#[values("1", "2")] jobs: &str) {
    let place = Place::new(STREAM);
    let options = ["--runs", "runs", "--set", "epochs=1", "--jobs", jobs];
    let whole = place.run(&options);
    fs::remove_file(place.path("runs/experiments/own.json")).unwrap();
    let [known, learnt] = [0, 1].map(|number| &whole["streams"][number]);
    fs::remove_file(place.path(&format!("runs/streams/{}.json", learnt["id"].as_str().unwrap()))).unwrap();
    let run = |stage: usize| place.path("runs").join(learnt["stages"][stage]["run"].as_str().unwrap());
    fs::remove_file(run(0).join("record.json")).unwrap();
    let _lock = held(&run(1), &["record.json"]);
    interrupt_when_there(place.command(&options), &run(0).join("record.json"));
    let listed = listed(&place);
    let runs = known["stages"].as_array().unwrap().iter().map(|stage| stage["run"].clone()).collect::<Vec<_>>();
    assert_eq!((&listed["streams"], &listed["runs"]), (&json!([known["id"]]), &json!(runs)));
}

const STREAM: &str = r#"
kind = "stream"
task = ["file:task0.csv", "file:task1.csv", "file:task2.csv", "file:task3.csv", "file:task4.csv"]
adapter_size = 4
batch_size = 8
lr = 1e-2
epochs = 3
tuning = ["adapters", "full"]
by_task."file:task1.csv" = { limit = 40, epochs = 4 }
"#;

#[test]
fn a_stream_needs_the_same_runs_of_every_task() {
    let place = Place::new(&STREAM.replace("epochs = 4", "epochs = [3, 4]"));
    let output = place.command(&["--runs", "runs", "--dry-run"]).output().unwrap();
    assert!(
        !output.status.success() && errors(&output).contains("every task needs the same runs"),
        "{}",
        errors(&output)
    );
}

#[test]
fn adapters_forget_nothing_and_full_fine_tuning_does() {
    let place = Place::new(STREAM);
    let report = place.run(&["--runs", "runs"]);
    let [adapters, full] = report["streams"].as_array().unwrap().as_slice() else { panic!("two streams") };
    let stages = |stream: &Value| stream["stages"].as_array().unwrap().clone();
    let recalls = |stage: &Value| stage["recall"].as_array().unwrap().clone();
    assert_eq!((adapters["tuning"].as_str(), stages(adapters).len()), (Some("adapters"), 5));

    let trained = |stage: &Value| stage["trained"].as_u64().unwrap();
    let shape = RandomCheckpoint::tiny().config;
    let backbone = {
        let first = &stages(adapters)[0];
        first["total"].as_u64().unwrap() - trained(first)
    };
    for (number, stage) in stages(adapters).iter().enumerate() {
        assert_eq!(recalls(stage).len(), number + 1);
        for recall in recalls(stage) {
            assert_eq!((&recall["identical"], &recall["now"]), (&json!(true), &recall["then"]), "{recall}");
        }
        let all: u64 = stages(adapters)[..=number].iter().map(trained).sum();
        assert_eq!(stage["total"].as_u64().unwrap(), backbone + all, "the backbone once, v for each task");
    }
    // One network for all tasks, and a head of two classes for each.
    let head = 2 * shape.hidden_size as u64 + 2;
    let mut forgotten = 0;
    for (number, stage) in stages(full).iter().enumerate() {
        assert_eq!(stage["total"].as_u64().unwrap(), backbone + (number as u64 + 1) * head);
        let recalls = recalls(stage);
        assert_eq!(recalls[number]["identical"], true, "the newest task is as it was learnt");
        for recall in &recalls[..number] {
            assert_eq!(recall["identical"], false, "{recall}");
            forgotten += usize::from(recall["now"].as_f64() < recall["then"].as_f64());
        }
    }
    assert!(forgotten >= 3, "{full}");
    assert_eq!(place.run(&["--runs", "runs"])["streams"], report["streams"], "a stream is found again");
    assert_eq!(fs::read_dir(place.path("runs/streams")).unwrap().count(), 2);
}

/// Processes that wait for a run of the first experiment go on with the second.
#[cfg(target_os = "linux")]
#[test]
fn an_interruption_keeps_what_was_done_for_later_experiments() {
    let place = Place::new("");
    let small = ["--backbone", "nano", "--runs", "runs", "--jobs", "2", "--set", "seed=0", "--set", "epochs=1"];
    let small = [&small[..], &["--set", "limit=32", "--set", "limit_validation=16", "--json"]].concat();
    let whole = answer(place.program(&[&["run", "fig6-spans"], &small[..]].concat()));
    let ids: Vec<&str> = whole["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    let _lock = held(&place.path("runs").join(ids[0]), &["record.json"]);
    let mut command = place.program(&[&["reproduce", "--preset", "fig6-spans,fig6-init"], &small[..]].concat());
    listen_to_ctrl_c(&mut command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let finished = || contents(&place.path("runs")).len();
    while finished() < ids.len() + 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("interrupted"), "{}", errors(&output));
    let listed = |name: &str| -> Vec<Value> {
        let record = fs::read(place.path(&format!("runs/experiments/{name}.json"))).unwrap();
        serde_json::from_slice::<Value>(&record).unwrap()["runs"].as_array().unwrap().clone()
    };
    assert_eq!(listed("fig6-spans"), ids[1..]);
    // All that is finished belongs to one of them.
    assert!(listed("fig6-init").len() >= 3, "{:?}", listed("fig6-init"));
}

#[rstest]
fn stages_are_counted_and_not_streams(#[values("1", "2")] jobs: &str) {
    let place = Place::new(STREAM);
    let options = ["--runs", "runs", "--set", "epochs=1", "--jobs", jobs, "--log-format", "json"];
    let output = place.command(&options).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let lines = errors(&output).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    let counts: Vec<_> =
        lines.iter().filter(|line| line["event"] == "run").map(|line| [&line["done"], &line["of"]]).collect();
    // In one process each stream is counted for itself.
    let expected: Vec<_> = match jobs {
        "1" => (1..=5).chain(1..=5).map(|done| [json!(done), json!(5)]).collect(),
        _ => (1..=10).map(|done| [json!(done), json!(10)]).collect(),
    };
    assert_eq!(counts, expected.iter().map(|[done, of]| [done, of]).collect::<Vec<_>>());
}

#[rstest]
#[case::unwritable(&["--runs", "own.toml/runs"], "cannot write own.toml/runs")]
#[case::unknown_key(&["--set", "adapter_sise=2"], "did you mean `adapter_size`?")]
#[case::wrong_value(&["--set", "epochs=few"], "epochs = \"few\"")]
#[case::no_task(&["--set", "task=colla"], "did you mean `cola`?")]
#[case::no_data(&["--set", "task=cola"], "`adapter-lab fetch glue/cola` gets it")]
#[case::no_suite(&["--set", "task=glue"], "cache/data: cola, sst-2")]
#[case::too_high(&["--set", "tuning=top-k", "--set", "k=9"], "the backbone has 3")]
#[case::adapters(&["--set", "norm=both"], "expected one of `none`, `layer`, `batch`")]
#[case::empty(&["--set", "seed=[]"], "seed = [] leaves nothing to run")]
#[case::no_limit(&["--set", "limit=all"], "limit = \"all\": write \"none\" to keep all examples")]
#[case::no_validation_limit(&["--set", "limit_validation=all"], "write \"none\" to keep all examples")]
#[case::not_finite(&["--set", "lr=nan"], "lr needs finite numbers")]
#[case::all_too_high(&["--set", "tuning=top-k", "--set", "k=8,9"], "k 8: the backbone has 3 layers")]
#[case::prefix(&["--set", "cache_prefix=true"], "cache_prefix: `adapters` trains from the bottom up")]
#[case::mixed_prefix(
    &["--set", "tuning=top-k", "--set", "k=1", "--set", "cache_prefix=true", "--set", "head=mix"],
    "the head `mix` reads every layer, and some of them are trained"
)]
#[case::features(&["--set", "tuning=features", "--set", "pool=mean", "--set", "head=cls"], "`features` needs head = \"mean-mlp\"")]
#[case::not_once(&["--set", "tuning=features", "--set", "cache_prefix=false"], "`features` needs cache_prefix = true")]
#[case::no_pool(&["--set", "tuning=features", "--set", "pool=max"], "expected one of `cls`, `mean`, `mix`")]
fn what_cannot_be_run_is_explained(#[case] options: &[&str], #[case] message: &str) {
    let output = Place::new(GRID).command(options).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
}

#[rstest]
#[case("series = 5", "series = 5: invalid type")]
#[case("series = [3]", "series = [3]: invalid type")]
#[case("kind = 3", "kind = 3: invalid type")]
#[case("about = false", "about = false: invalid type")]
#[case("quick = 3", "quick = 3: it needs keys")]
fn a_wrong_value_in_a_file_is_named_by_its_key(#[case] line: &str, #[case] message: &str) {
    let output = Place::new(&format!("{line}\ntask = \"file:task0.csv\"")).command(&[]).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
}

#[test]
fn an_estimate_counts_what_is_left_and_learns_from_finished_runs() {
    let place = Place::new(GRID);
    let estimate = || place.run(&["--runs", "runs", "--dry-run"])["estimate"].clone();
    let before = estimate();
    assert!(before["seconds"].as_f64().unwrap() > 0.0, "{before}");
    assert_eq!((&before["runs"], &before["finished"], &before["speeds_of_runs"]), (&json!(6), &json!(0), &json!(0)));
    assert_eq!(before["speeds_measured"], 3, "two sizes and one k");
    assert!(!place.path("runs").exists(), "nothing is kept");
    place.run(&["--runs", "runs", "--set", "seed=0"]);
    let half = estimate();
    assert_eq!((&half["runs"], &half["finished"], &half["speeds_measured"]), (&json!(3), &json!(3), &json!(0)));
    // Elsewhere these records are finished runs too, but the speed is another machine's.
    answer(place.program(&["runs", "export", "--runs", "runs", "--out", "half.jsonl.gz", "--json"]));
    answer(place.program(&["runs", "import", "half.jsonl.gz", "--runs", "there", "--json"]));
    let there = place.run(&["--runs", "there", "--dry-run"])["estimate"].clone();
    assert_eq!(
        (&there["finished"], &there["speeds_of_runs"], &there["speeds_measured"]),
        (&json!(3), &json!(0), &json!(3))
    );
    place.run(&["--runs", "runs"]);
    assert_eq!((&estimate()["runs"], &estimate()["seconds"]), (&json!(0), &json!(0.0)));
}

/// Another experiment trained its runs: what is left is to remove their adapters, and where their tensors are not, to train them
/// for that.
#[test]
fn an_estimate_counts_ablations_of_finished_runs() {
    let place = Place::new(&ABLATION.replace("epochs = 1", "epochs = 30").replace("kind = \"ablate\"\n", ""));
    fs::write(place.path("other.toml"), ABLATION.replace("epochs = 1", "epochs = 30")).unwrap();
    place.run(&["--runs", "here"]);
    let estimate = |runs: &str| {
        let command = ["run", "other.toml", "--backbone", "tiny", "--json", "--runs", runs, "--dry-run"];
        let estimate = answer(place.program(&command))["estimate"].clone();
        let counts = ["runs", "ablations", "finished"].map(|key| estimate[key].as_u64().unwrap());
        (counts, estimate["seconds"].as_f64().unwrap())
    };
    let (counts, ablated) = estimate("here");
    assert!(counts == [0, 3, 3] && ablated > 0.0, "{counts:?}, {ablated} s");
    answer(place.program(&["runs", "export", "--runs", "here", "--out", "all.jsonl.gz", "--json"]));
    answer(place.program(&["runs", "import", "all.jsonl.gz", "--runs", "there", "--json"]));
    let (counts, trained_again) = estimate("there");
    assert!(counts == [0, 3, 3] && trained_again > 3.0 * ablated, "{counts:?}, {trained_again} s after {ablated} s");
    answer(place.program(&["run", "other.toml", "--backbone", "tiny", "--json", "--runs", "here"]));
    assert_eq!(estimate("here"), ([0, 0, 3], 0.0));
}

#[test]
fn no_more_processes_than_runs_make_an_estimate_shorter() {
    let place = Place::new("task = \"file:task0.csv\"\nadapter_size = 4\nbatch_size = 8\nepochs = 3\nseed = [0, 1]");
    // A finished run tells how fast a process with one thread is.
    let cores = std::thread::available_parallelism().unwrap().get();
    let [few, many] = [cores, 8 * cores].map(|jobs| jobs.to_string());
    place.run(&["--jobs", &few, "--set", "seed=0"]);
    let [few, many] = [few, many].map(|jobs| place.run(&["--dry-run", "--jobs", &jobs])["estimate"].clone());
    assert_eq!((&few["runs"], &few["speeds_measured"]), (&json!(1), &json!(0)));
    assert_eq!(few["seconds"], many["seconds"]);
}

#[test]
fn a_dry_run_ends_with_how_long_it_takes() {
    let place = Place::new(GRID);
    let output = place.program(&["run", "own.toml", "--backbone", "tiny", "--dry-run"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 6 + 3 && lines[7].starts_with("6 runs; `config show own.toml`, with"), "{said}");
    assert!(lines[8].starts_with("About ") && lines[8].contains("6 runs to do, 0 finished"), "{said}");
    assert!(place.program(&["config", "show", "own.toml"]).output().unwrap().status.success());
}

/// What a finished run waited for, others need not wait for.
#[test]
fn an_estimate_does_not_count_what_runs_waited_for_other_work() {
    let place = Place::new(GRID);
    // A process for each core: each has one thread.
    let jobs = std::thread::available_parallelism().unwrap().to_string();
    place.run(&["--runs", "runs", "--set", "seed=0", "--jobs", &jobs]);
    let estimate = || {
        let estimate = place.run(&["--runs", "runs", "--dry-run", "--jobs", &jobs])["estimate"].clone();
        assert_eq!(estimate["speeds_measured"], 0, "{estimate}");
        estimate["seconds"].as_f64().unwrap()
    };
    let before = estimate();
    for id in contents(&place.path("runs")).keys() {
        let path = place.path("runs").join(id).join("record.json");
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for key in ["training_seconds", "evaluation_seconds"] {
            record["measured"][key] = json!(1e4 * record["measured"][key].as_f64().unwrap());
        }
        fs::write(&path, record.to_string()).unwrap();
    }
    let (before, after) = (before.max(1e-3), estimate());
    assert!(after < 100.0 * before, "{after} s, before {before} s");
}

/// A backbone whose shape is known can be planned without its weights, only not timed.
#[test]
fn without_weights_there_is_a_plan_and_no_estimate() {
    let place = Place::new(GRID);
    let plan = place.program(&["run", "own.toml", "--backbone", "bert-base-uncased", "--dry-run", "--json"]);
    let plan = answer(plan);
    assert_eq!((plan["runs"].as_array().unwrap().len(), &plan["estimate"]), (6, &Value::Null));
    assert!(plan["no_estimate"].as_str().unwrap().contains("fetch bert-base-uncased"), "{plan}");
}

#[test]
fn a_file_with_the_name_of_a_preset_does_not_take_its_place() {
    let place = Place::new("");
    fs::write(place.path("fig4.toml"), "task = \"file:task0.csv\"\nbatch_size = 8\nepochs = 1\nseed = [0, 1]").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.current_dir(place.folder.path()).env("ADAPTER_LAB_CACHE", place.path("cache"));
    let output = command.args(["run", "./fig4.toml", "--backbone", "tiny", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let record: Value =
        serde_json::from_slice(&fs::read(place.path("runs/experiments/own-fig4.json")).unwrap()).unwrap();
    assert_eq!((&record["name"], &record["preset"]), (&json!("own-fig4"), &json!(false)));
}

#[test]
fn an_ablation_without_adapters_is_refused_before_anything_is_trained() {
    let place = Place::new("kind = \"ablate\"\ntask = \"file:task0.csv\"\ntuning = \"full\"");
    let output = place.command(&["--dry-run"]).output().unwrap();
    assert!(errors(&output).contains("`full` inserts nothing that could be removed"), "{}", errors(&output));
}

#[test]
fn an_error_is_said_once() {
    let place = Place::new("");
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.current_dir(place.folder.path()).env("ADAPTER_LAB_CACHE", place.path("cache"));
    command.args(["train", "--task", "file:task0.csv", "--backbone", "tiny", "--metric", "pearson"]);
    let said = errors(&command.output().unwrap());
    assert_eq!(said.matches("the metric `pearson` says nothing of classification").count(), 1, "{said}");
}

/// Whoever waits for a run that another process has can still be stopped.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_sweep_that_waits_for_another_process() {
    let place = Place::new(GRID);
    let options = ["--set", "seed=0", "--set", "adapter_size=2", "--set", "k=1", "--runs", "runs"];
    place.run(&options);
    // None is finished, and another process holds the lock of one.
    let folders = fs::read_dir(place.path("runs")).unwrap().map(|entry| entry.unwrap().path());
    let records: Vec<_> = folders.map(|run| run.join("record.json")).filter(|record| record.exists()).collect();
    let [theirs, ours] = &records[..] else { panic!("{records:?}") };
    records.iter().for_each(|record| fs::remove_file(record).unwrap());
    let lock = fs::File::create(theirs.with_file_name("lock")).unwrap();
    lock.lock().unwrap();
    let mut child = place.command(&options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !ours.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it does not wait");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("interrupted"), "{}", errors(&output));
    // What was finished before is in the experiment's record.
    let record: Value = serde_json::from_slice(&fs::read(place.path("runs/experiments/own.json")).unwrap()).unwrap();
    assert_eq!((&record["planned"], record["runs"].as_array().unwrap().len()), (&json!(2), 1));
}

/// What is trained of a backbone that is shared is put on for its task and taken off again.
#[test]
fn layer_norms_of_one_task_leave_the_others_alone() {
    let place = Place::new(&STREAM.replace("tuning = [\"adapters\", \"full\"]", "tuning = \"layer-norm\""));
    let report = place.run(&["--runs", "runs", "--set", "epochs=1"]);
    let stages = report["streams"][0]["stages"].as_array().unwrap();
    let recalls = stages.iter().flat_map(|stage| stage["recall"].as_array().unwrap());
    assert!(recalls.into_iter().all(|recall| recall["identical"] == true));
}

/// Columns are keys like any other: a file can hold them, and the run remembers them.
#[test]
fn a_file_names_columns_and_a_run_remembers_where_its_data_is() {
    let place = Place::new(
        "task = \"file:mine.csv\"\ntext_column = \"review\"\nlabel_column = \"stars\"\nbatch_size = 8\nepochs = 1",
    );
    let rows: String = (0..60).map(|i| format!("the {} sat,{}\n", ["cat", "dog"][i % 2], i % 2)).collect();
    fs::write(place.path("mine.csv"), format!("review,stars\n{rows}")).unwrap();
    let id = place.run(&["--runs", "runs"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let manifest: Value =
        serde_json::from_slice(&fs::read(place.path("runs").join(&id).join("run.json")).unwrap()).unwrap();
    assert_eq!(manifest["origin"]["files"]["text_column"], "review");
    let file = fs::canonicalize(place.path("mine.csv")).unwrap();
    assert_eq!(manifest["origin"]["task"], format!("file:{}", file.display()));
    // From another folder, with nothing said but the file: it knows its backbone, its task and its columns.
    fs::create_dir(place.path("elsewhere")).unwrap();
    let eval = |folder: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        command.current_dir(place.path(folder)).env("ADAPTER_LAB_CACHE", place.path("cache"));
        let file = place.path("runs").join(&id).join("v.safetensors");
        command.args(["eval", "--json", "--adapter"]).arg(file).output().unwrap()
    };
    let output = eval("elsewhere");
    assert!(output.status.success(), "{}", errors(&output));
    // What is gone is named.
    fs::rename(place.path("tiny"), place.path("moved")).unwrap();
    let gone = errors(&eval("elsewhere"));
    assert!(
        gone.contains("was trained on the backbone `tiny`, which was in") && gone.contains("give --backbone"),
        "{gone}"
    );
}

/// Needs root, to mount a small file system:
/// `cargo test -p experiments --test sweeps -- --ignored full_disk`
#[cfg(target_os = "linux")]
#[test]
#[ignore = "mounts a tmpfs, which needs root"]
fn a_full_disk_is_explained_and_costs_no_finished_run() {
    let place = Place::new(GRID);
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        assert!(Command::new(arguments[0]).args(&arguments[1..]).arg(&disk).status().unwrap().success())
    };
    // Room for the first runs, not for all.
    mount(&["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs"]);
    let output = place.command(&["--runs", "disk/runs"]).output().unwrap();
    let finished = contents(&place.path("disk/runs"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    mount(&["mount", "-o", "remount,size=50m"]);
    let again = place.command(&["--runs", "disk/runs"]).output().unwrap();
    let all = contents(&place.path("disk/runs"));
    mount(&["umount"]);
    assert!(!output.status.success());
    let failed = report["failed"].as_array().unwrap();
    assert!(
        failed.iter().all(|failure| failure["error"].as_str().unwrap().contains("No space left on device")),
        "{failed:?}"
    );
    assert_eq!((finished.len() + failed.len(), failed.is_empty(), finished.is_empty()), (6, false, false));
    assert!(again.status.success() && all.len() == 6, "{}", errors(&again));
    assert!(finished.iter().all(|(id, run)| all[id] == *run), "finished runs are as they were");
}
