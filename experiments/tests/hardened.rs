//! What an attack found: a terminal that goes away, damaged records, values that are no numbers, sizes that nothing can hold. Each was
//! once a lost sweep, a wrong answer or an abort.

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use common::place::{Place, answer, contents, errors};
#[cfg(unix)]
use common::process::{children, signal};
use rstest::rstest;
use serde_json::Value;

const GRID: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 2
seed = [0, 1, 2]
adapter_size = 2
lr = 1e-2
"#;

/// The shell runs the program in the folder, with redirections.
#[cfg(unix)]
fn shell(place: &Place, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.current_dir(place.folder.path()).arg("-c").arg(script);
    shell.env("LAB", env!("CARGO_BIN_EXE_adapter-lab")).env("ADAPTER_LAB_CACHE", place.path("cache"));
    shell.stdin(Stdio::null());
    shell
}

#[cfg(unix)]
#[rstest]
#[case::a_reader_that_leaves("\"$LAB\" run own.toml --backbone tiny --runs runs 2>&1 | head -1")]
#[case::a_full_disk("\"$LAB\" run own.toml --backbone tiny --runs runs 2>/dev/full >/dev/null")]
#[case::nowhere("\"$LAB\" run own.toml --backbone tiny --runs runs --jobs 2 2>&- >/dev/null")]
#[case::json("\"$LAB\" run own.toml --backbone tiny --runs runs --log-format json 2>&1 | head -1")]
fn messages_that_nobody_can_read_end_no_work(#[case] script: &str) {
    let place = Place::new(GRID);
    let output = shell(&place, script).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(contents(&place.path("runs")).len(), 3);
}

/// `nohup` has the signal of a closed terminal ignored, and so it stays.
#[cfg(unix)]
#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let place = Place::new(GRID);
    let script = "trap '' HUP; exec \"$LAB\" run own.toml --backbone tiny --runs runs --set epochs=60";
    let mut child = shell(&place, script).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It has set up its handlers by the time that it works on a run.
    let begun = || fs::read_dir(place.path("runs")).is_ok_and(|mut entries| entries.next().is_some());
    while !begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
    signal(child.id(), libc::SIGHUP);
    assert!(child.wait().unwrap().success());
    assert_eq!(contents(&place.path("runs")).len(), 3);
}

/// The records of a finished grid, in a folder of their own.
fn records(place: &Place) -> Vec<std::path::PathBuf> {
    place.run(&["--runs", "runs"]);
    let mut ids: Vec<String> = contents(&place.path("runs")).into_keys().collect();
    ids.sort();
    ids.into_iter().map(|id| place.path("runs").join(id).join("record.json")).collect()
}

#[rstest]
#[case::truncated(|path: &Path| fs::write(path, &fs::read(path).unwrap()[..200]).unwrap())]
#[case::a_folder(|path: &Path| { fs::remove_file(path).unwrap(); fs::create_dir(path).unwrap(); })]
#[cfg_attr(unix, case::endless(|path: &Path| { fs::remove_file(path).unwrap(); std::os::unix::fs::symlink("/dev/zero", path).unwrap(); }))]
#[cfg_attr(unix, case::a_pipe(|path: &Path| { fs::remove_file(path).unwrap(); assert!(Command::new("mkfifo").arg(path).status().unwrap().success()); }))]
fn a_report_says_which_records_it_lacks(#[case] damage: fn(&Path)) {
    let place = Place::new(GRID);
    let records = records(&place);
    damage(&records[1]);
    let name = records[1].parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let report = place.program(&["report", "--runs", "runs", "--out", "out", "--json", "-q"]).output().unwrap();
    assert!(!report.status.success());
    assert!(errors(&report).contains(&name) && errors(&report).contains("--allow-incomplete"), "{}", errors(&report));
    let told: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(told["problems"][0]["file"].as_str().unwrap().contains(&name), "{told}");
    assert!(fs::read_to_string(place.path("out/report.html")).unwrap().contains("1 record cannot be read"));
    let allowed = answer(place.program(&["report", "--runs", "runs", "--out", "out", "--json", "--allow-incomplete"]));
    assert_eq!((allowed["runs"].as_u64(), allowed["problems"].as_array().unwrap().len()), (Some(2), 1));
    // Nor does a list wait for it.
    let list = place.program(&["runs", "list", "--runs", "runs", "--json"]).output().unwrap();
    assert!(list.status.success(), "{}", errors(&list));
}

/// A step that makes weights of infinities is no finished run.
#[test]
fn a_network_without_numbers_has_diverged() {
    let place = Place::new(GRID);
    let train =
        ["train", "--task", "file:task0.csv", "--backbone", "tiny", "--limit", "8", "--epochs", "1", "--lr", "1e39"];
    let record = answer(place.program(&[&train[..], &["--runs", "runs", "--json"]].concat()));
    assert_eq!(record["status"], "diverged", "{record}");
    let output = place.program(&[&train[..], &["--save", "v.safetensors"]].concat()).output().unwrap();
    assert!(!output.status.success() && !place.path("v.safetensors").exists(), "{}", errors(&output));
}

#[test]
fn a_loss_that_grew_beyond_sense_is_mentioned() {
    let place = Place::new(GRID);
    let rows: String = (0..96).map(|i| format!("she is on the mat,{}\n", 1e9 * f64::from(i))).collect();
    fs::write(place.path("scores.csv"), format!("text,label\n{rows}")).unwrap();
    let output = place
        .program(&["train", "--task", "file:scores.csv", "--labels", "score", "--backbone", "tiny", "--epochs", "1"])
        .output()
        .unwrap();
    assert!(output.status.success() && errors(&output).contains("note: the loss ends at"), "{}", errors(&output));
}

#[cfg(unix)]
#[test]
fn a_lock_that_is_a_link_touches_nobodys_file() {
    let place = Place::new(GRID);
    let record = records(&place).remove(0);
    let run = record.parent().unwrap();
    fs::write(place.path("theirs"), "precious").unwrap();
    fs::remove_file(&record).unwrap();
    let _ = fs::remove_file(run.join("lock"));
    std::os::unix::fs::symlink(place.path("theirs"), run.join("lock")).unwrap();
    let output = place.command(&["--runs", "runs"]).output().unwrap();
    assert!(!output.status.success(), "{}", errors(&output));
    assert_eq!(fs::read_to_string(place.path("theirs")).unwrap(), "precious");
}

#[test]
fn a_cache_that_cannot_be_written_stops_no_training() {
    let place = Place::new(GRID);
    fs::write(place.path("file"), "").unwrap();
    let mut command = place.command(&["--runs", "runs"]);
    command.env("ADAPTER_LAB_CACHE", place.path("file").join("below"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(contents(&place.path("runs")).len(), 3);
}

#[rstest]
#[case::index(&["--set", "seed={\"a[99999999]\"=1}"], "seed")]
#[case::grid(&["--set", "batch_size=[8,9,10,11,12,13,14,15,16,17,18,19]", "--set", "lr=[1,2,3,4,5,6,7,8,9,10,11,12]",
    "--set", "epochs=[1,2,3,4,5,6,7,8,9,10,11,12]", "--set", "limit=[1,2,3,4,5,6,7,8,9,10,11,12]",
    "--set", "seed=[1,2,3,4,5,6,7,8,9,10,11,12]"], "100000 at most are run")]
#[case::depth(&["--set", "depth=100000"], "depth 100000: 64 at most")]
#[case::size(&["--set", "adapter_size=100000000"], "adapter_size 100000000: 65536 at most")]
#[case::rank(&["--set", "tuning=lora", "--set", "rank=100000000"], "rank 100000000")]
#[case::epochs(&["--set", "epochs=9223372036854775807"], "epochs 9223372036854775807")]
#[case::length(&["--set", "max_length=2"], "has no room beside 2 special tokens")]
#[case::negative(&["--set", "seed=-1"], "seed = -1: invalid value: integer `-1`, expected 0 or more")]
#[case::jobs(&["--jobs", "18446744073709551615"], "1024")]
#[case::negative_jobs(&["--jobs", "-1"], "invalid value '-1' for '--jobs <N>'")]
fn what_nothing_can_hold_is_refused_in_words(#[case] options: &[&str], #[case] message: &str) {
    let output = Place::new(GRID).command(options).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains(message), "{}", errors(&output));
    assert!(!errors(&output).contains("defect"), "{}", errors(&output));
}

/// A sweep goes on with the program that it is, whatever lies in its place by now.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_was_replaced_starts_its_processes_all_the_same() {
    let place = Place::new(&GRID.replace("epochs = 2", "epochs = 40"));
    // A name of its own for the program, where programs may be run.
    let lab = Path::new(env!("CARGO_BIN_EXE_adapter-lab")).with_file_name(format!("replaced-{}", std::process::id()));
    fs::hard_link(env!("CARGO_BIN_EXE_adapter-lab"), &lab).unwrap();
    let mut child = Command::new(&lab)
        .current_dir(place.folder.path())
        .args(["run", "own.toml", "--backbone", "tiny", "--runs", "runs", "--jobs", "2", "--scale", "paper"])
        .env("ADAPTER_LAB_CACHE", place.path("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while children(child.id()).len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be disturbed");
        thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(&lab).unwrap();
    fs::write(&lab, "no program").unwrap();
    signal(children(child.id())[0], libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    fs::remove_file(&lab).unwrap();
    // The run of the process that was killed is reported; the others are there.
    assert!(!errors(&output).contains("cannot start a process"), "{}", errors(&output));
    assert!(contents(&place.path("runs")).len() >= 2, "{}", errors(&output));
}

/// A table of texts that are longer than any terminal.
#[test]
fn a_prediction_of_a_long_text_is_printed() {
    let place = Place::new(GRID);
    let save = ["train", "--task", "file:task0.csv", "--backbone", "tiny", "--epochs", "1", "--save", "v.safetensors"];
    assert!(place.program(&save).output().unwrap().status.success());
    fs::write(place.path("long.txt"), format!("{}\nshe\n", "the dog ".repeat(20_000))).unwrap();
    let output = place
        .program(&["predict", "--adapter", "v.safetensors", "--backbone", "tiny", "--input", "long.txt"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn a_wrong_value_in_a_search_is_named_by_its_key() {
    let place = Place::new("kind = \"search\"\ntask = \"file:task0.csv\"\ntrials = \"many\"\n");
    let output = place.command(&[]).output().unwrap();
    assert!(
        !output.status.success()
            && errors(&output).contains("trials = \"many\": invalid type: string \"many\", expected a whole number"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_cache_that_holds_no_backbone_is_named() {
    let place = Place::new(GRID);
    fs::write(place.path("file"), "").unwrap();
    let mut command = place.program(&["encode", "--backbone", "nano", "--text", "a", "--out", "v.safetensors"]);
    command.env("ADAPTER_LAB_CACHE", place.path("file").join("below"));
    let output = command.output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("ADAPTER_LAB_CACHE"), "{}", errors(&output));
}
