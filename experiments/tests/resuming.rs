//! A run that is interrupted, killed or damaged: nothing is lost, and it ends as if nothing had happened.

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

mod common;

#[cfg(unix)]
use common::process::signal;
use common::{Profile, Tuning, backbone, checkpoint_of, run, small_run};
use experiments::{Checkpoint, OptimizerState, RunStore, StoredRun, TrainState};
use rstest::rstest;

/// A store's run without what depends on the clock, and the bytes of its trained tensors.
fn finished(runs: &std::path::Path) -> (serde_json::Value, Vec<u8>) {
    let folders: Vec<_> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "one configuration is one run");
    let text = fs::read_to_string(folders[0].join("record.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record.as_object_mut().unwrap().remove("measured");
    assert!(!folders[0].join("checkpoint.safetensors").exists());
    (record, fs::read(folders[0].join("v.safetensors")).unwrap())
}

fn is_writing(runs: &std::path::Path) -> bool {
    let run = runs.read_dir().unwrap().next().unwrap().unwrap().path();
    run.read_dir().unwrap().flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".tmp"))
}

#[rstest]
#[case::adapters(&["--tuning", "adapters", "--adapter-size", "8"])]
#[case::full(&["--tuning", "full", "--profile", "adapter-bert"])]
#[case::half(&["--adapter-size", "8", "--dtype", "f16"])]
#[case::two_devices(&["--adapter-size", "8", "--devices", "flex,flex"])]
fn a_run_killed_again_and_again_ends_bit_for_bit_like_one_that_was_not(#[case] tuning: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let command = |runs: &str| small_run(folder.path(), runs, tuning);
    assert!(command("whole").status().unwrap().success());

    // Killed ten times: after a few more checkpoints each time, every other time in the middle of writing one.
    let log = folder.path().join("log");
    for round in 0..10usize {
        let mut child = command("killed")
            .stderr(fs::File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let (mut seen, mut last) = (0, None);
        while seen <= round % 4 && child.try_wait().unwrap().is_none() {
            let checkpoint = checkpoint_of(&folder.path().join("killed"));
            let written = checkpoint.as_ref().and_then(|path| fs::metadata(path).ok()?.modified().ok());
            seen += usize::from(written.is_some() && written != last);
            last = written.or(last);
        }
        // Not for long: where writing takes no time it is never seen.
        let since = Instant::now();
        while round % 2 == 1
            && since.elapsed() < Duration::from_millis(50)
            && !is_writing(&folder.path().join("killed"))
        {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let resumed = fs::read_to_string(&log).unwrap();
    assert!(resumed.matches("continues after step").count() >= 5, "too few runs were resumed:\n{resumed}");
    assert!(command("killed").status().unwrap().success());
    assert_eq!(finished(&folder.path().join("killed")), finished(&folder.path().join("whole")));

    // A finished run is not run again.
    let record = folder.path().join("whole").read_dir().unwrap().next().unwrap().unwrap().path().join("record.json");
    let written = fs::metadata(&record).unwrap().modified().unwrap();
    assert!(command("whole").status().unwrap().success());
    assert_eq!(fs::metadata(&record).unwrap().modified().unwrap(), written);
}

#[rstest]
#[case::record("record.json", b"{\"schema\": 2, \"id\"".as_slice(), "not a record this program can read")]
#[case::newer("record.json", br#"{"schema": 99}"#.as_slice(), "schema Some(99), this program reads 2")]
#[case::checkpoint("checkpoint.safetensors", b"half".as_slice(), "the checkpoint is damaged; remove it")]
fn a_damaged_run_is_explained_and_left_alone(#[case] file: &str, #[case] contents: &[u8], #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    fs::create_dir_all(folder.path().join("run")).unwrap();
    let path = folder.path().join("run").join(file);
    fs::write(&path, contents).unwrap();
    let error = match store.open("run") {
        Err(error) => error.to_string(),
        Ok(StoredRun::Open(open)) => format!("{:#}", open.checkpoint().unwrap_err()),
        Ok(StoredRun::Finished(_)) => panic!("a damaged run is not finished"),
    };
    assert!(error.contains(message), "{error}");
    assert_eq!(fs::read(path).unwrap(), contents);
}

#[test]
fn a_run_belongs_to_one_process_at_a_time_and_a_dead_ones_lock_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let Ok(StoredRun::Open(held)) = store.open("run") else { panic!("a new run is open") };
    let error = store.open("run").err().unwrap().to_string();
    assert!(error.contains("another process is running run"), "{error}");
    drop(held);
    assert!(folder.path().join("run/lock").exists(), "the file stays, the lock is gone");
    // A process that another test starts has our files for a moment, and with them the lock.
    let since = Instant::now();
    while !matches!(store.open("run"), Ok(StoredRun::Open(_))) {
        assert!(since.elapsed() < Duration::from_secs(30), "the lock is not free");
    }
}

#[test]
fn a_changed_number_in_a_checkpoint_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (backbone, path) = (backbone(), folder.path().join("checkpoint.safetensors"));
    let trained = run(&backbone, Tuning::Head, Profile::Paper, 0);
    let state = TrainState {
        step: 17,
        evaluations: trained.evaluations.clone(),
        best: trained.best.clone(),
        ..TrainState::default()
    };
    let memory = [("head.weight".to_owned(), vec![vec![0.5; 4], vec![0.25; 4]])].into();
    let optimizer = OptimizerState { step: 17, memory, ..OptimizerState::default() };
    let kept = Checkpoint { state, best: trained.file.clone(), now: trained.file.unwrap(), optimizer };
    kept.write(&path, "run").unwrap();
    assert_eq!(Checkpoint::read(&path, "run").unwrap(), kept);
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&whole).into_owned();
    let place = text.find("\\\"step\\\":17").unwrap() + "\\\"step\\\":".len();
    let mut changed = whole.clone();
    changed[place] = b'2';
    fs::write(&path, changed).unwrap();
    let error = format!("{:#}", Checkpoint::read(&path, "run").unwrap_err());
    assert!(error.contains("the checkpoint is damaged"), "{error}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_run_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let command = |runs: &str| small_run(folder.path(), runs, &["--adapter-size", "8"]);
    assert!(command("whole").status().unwrap().success());
    let mut child = command("stopped").stderr(Stdio::piped()).spawn().unwrap();
    while checkpoint_of(&folder.path().join("stopped")).is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be stopped");
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("run the same command again to continue"), "{errors}");
    assert!(command("stopped").status().unwrap().success());
    assert_eq!(finished(&folder.path().join("stopped")), finished(&folder.path().join("whole")));
}

#[test]
fn a_run_whose_optimiser_remembers_nothing_can_be_resumed() {
    let (folder, backbone) = (tempfile::tempdir().unwrap(), backbone());
    let trained = run(&backbone, Tuning::Head, Profile::Paper, 0);
    let state = TrainState { step: 3, ..TrainState::default() };
    let optimizer = OptimizerState { step: 3, ..OptimizerState::default() };
    let kept = Checkpoint { state, best: None, now: trained.file.unwrap(), optimizer };
    kept.write(&folder.path().join("checkpoint"), "run").unwrap();
    let read = Checkpoint::read(&folder.path().join("checkpoint"), "run").unwrap();
    let model = common::model(&backbone, &*Tuning::Head.method(1e-2), 0, 0.0);
    let selection = adapter_core::Selection { trained: model.trained().to_vec(), statistics: Vec::new() };
    read.check(&selection, 0, 10).unwrap();
    assert!(read.check(&selection, 2, 10).is_err(), "Adam would miss its memory");
}

/// Run, checkpoint and record belong together by their contents.
#[test]
fn files_of_another_run_and_edited_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let command = |runs: &str, options: &[&str]| small_run(folder.path(), runs, options);
    assert!(command("runs", &["--adapter-size", "8"]).status().unwrap().success());
    assert!(command("others", &["--adapter-size", "8", "--seed", "1"]).status().unwrap().success());
    let run = |runs: &str| folder.path().join(runs).read_dir().unwrap().next().unwrap().unwrap().path();
    let error = || {
        let output = command("runs", &["--adapter-size", "8"]).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let (ours, theirs) = (run("runs"), run("others"));
    let record = fs::read(ours.join("record.json")).unwrap();
    fs::copy(theirs.join("record.json"), ours.join("record.json")).unwrap();
    assert!(error().contains("this is a record of run"), "{}", error());
    fs::remove_file(ours.join("record.json")).unwrap();
    let manifest = fs::read_to_string(ours.join("run.json")).unwrap();
    fs::write(ours.join("run.json"), manifest.replace("\"epochs\": 3", "\"epochs\": 4")).unwrap();
    assert!(error().contains("it was changed"), "{}", error());
    fs::write(ours.join("run.json"), &manifest).unwrap();
    let mut child = command("others", &["--adapter-size", "8", "--seed", "2"]).spawn().unwrap();
    let third = loop {
        let other = |path: &std::path::PathBuf| *path != theirs;
        let runs = folder.path().join("others").read_dir().unwrap().map(|entry| entry.unwrap().path());
        let checkpoint = runs.filter(other).map(|run| run.join("checkpoint.safetensors")).find(|path| path.exists());
        if let Some(bytes) = checkpoint.and_then(|path| fs::read(path).ok()) {
            break bytes;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before its checkpoint could be taken");
    };
    child.wait().unwrap();
    fs::write(ours.join("checkpoint.safetensors"), third).unwrap();
    assert!(error().contains("this is a checkpoint of run"), "{}", error());
    fs::remove_file(ours.join("checkpoint.safetensors")).unwrap();
    fs::write(ours.join("record.json"), record).unwrap();
    assert!(command("runs", &["--adapter-size", "8"]).status().unwrap().success());
}
