//! Several machines that share a folder of runs: two that do not see each other's locks and processes, and a cluster.

#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use common::{
    place::{Place, answer, contents, errors},
    process::signal,
};
use experiments::owner_of;
use serde_json::Value;

/// A run that takes a while, in pieces.
const ONE: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 400
tuning = "adapters"
adapter_size = 2
lr = 1e-2
seed = 0
"#;

/// Twelve runs of some seconds each.
const TWELVE: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 400
lr = 1e-2
seed = [0, 1, 2]
tuning = "adapters"
adapter_size = [2, 4, 8, 16]

[slurm]
workers = 2
cpus_per_task = 1
"#;

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(300), "in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// The folders of runs that have this file.
fn with_file(runs: &Path, file: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|folder| folder.join(file).exists()).collect()
}

/// Lines of the log of steps.
fn steps(run: &Path) -> Vec<usize> {
    let text = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let step = |line: &str| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64().unwrap() as usize;
    text.lines().map(step).collect()
}

/// The command on a machine of its own: its processes are in a name space of their own, and the lock of `run` is one that nobody
/// else sees, as on a file system whose locks hold on one node only.
fn on_another_machine(place: &Place, options: &[&str], run: Option<&Path>) -> Command {
    let inner = place.command(options);
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--map-root-user",
        "--user",
        "sh",
        "-c",
    ]);
    let lock = place.path("lock-of-its-own");
    fs::write(&lock, "").unwrap();
    let hide = run
        .map_or("true".to_owned(), |run| format!("mount --bind '{}' '{}'", lock.display(), run.join("lock").display()));
    command.arg(format!("{hide} && exec \"$@\"")).arg("sh").arg(inner.get_program()).args(inner.get_args());
    command
        .current_dir(place.folder.path())
        .env("ADAPTER_LAB_STALE_AFTER", "4")
        .env("ADAPTER_LAB_CACHE", place.path("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The process inside the name spaces, as this machine counts.
fn inner(outer: &Child) -> u32 {
    let children = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.id())).unwrap_or_default();
    wait_until("a process in its name space", || !children().trim().is_empty());
    children().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs name spaces of its own: `cargo test --workspace --test machines two_machines -- --ignored`"]
fn two_machines_share_a_folder_and_nothing_is_written_twice() {
    let place = Place::new(ONE);
    let long = ["--set", "epochs=1500"];
    let options = [&long[..], &["--runs", "runs", "--checkpoint-every", "0.2"]].concat();
    let mut first = on_another_machine(&place, &options, None).spawn().unwrap();
    let runs = place.path("runs");
    wait_until("a checkpoint", || {
        if first.try_wait().unwrap().is_some() {
            let mut said = String::new();
            std::io::Read::read_to_string(first.stderr.as_mut().unwrap(), &mut said).unwrap();
            panic!("it ended before its first checkpoint: {said}");
        }
        !with_file(&runs, "checkpoint.safetensors").is_empty()
    });
    let run = with_file(&runs, "checkpoint.safetensors").remove(0);
    let owner = owner_of(&run).expect("somebody has it");

    // It beats: the other leaves it alone, for longer than it could be silent.
    let other = on_another_machine(&place, &options, Some(&run)).spawn().unwrap();
    sleep(Duration::from_secs(6));
    assert_eq!(owner_of(&run).as_ref(), Some(&owner), "its heart beats");

    // It stands still, as a machine does that is out of memory or cut off: the other takes its run, from the last checkpoint.
    let process = inner(&first);
    signal(process, libc::SIGSTOP);
    wait_until("a new owner", || owner_of(&run).is_some_and(|now| now != owner));
    let taken = steps(&run).len();
    wait_until("steps of the other", || steps(&run).len() > taken);

    // It goes on, as if nothing had happened, and must notice.
    signal(process, libc::SIGCONT);
    let other = other.wait_with_output().unwrap();
    assert!(other.status.success(), "{}", errors(&other));
    let first = first.wait_with_output().unwrap();
    // It waited for the run that it had lost, and found it finished.
    assert!(first.status.success(), "{}", errors(&first));

    let log = steps(&run);
    assert_eq!(log, (1..=log.len()).collect::<Vec<_>>(), "every step once, in order");
    place.run(&[&long[..], &["--runs", "alone"]].concat());
    assert_eq!(contents(&runs), contents(&place.path("alone")), "as if one machine had done it");
    assert!(owner_of(&run).is_none(), "nobody has it any more");
}

/// A Slurm of two nodes on this machine, which `.ci/slurm` has started.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    fn here() -> Self {
        let folder = std::env::var_os("SLURM_TEST_FOLDER").expect("`.ci/slurm` sets SLURM_TEST_FOLDER");
        Self { folder: folder.into() }
    }

    /// Starts the daemon of a node.
    fn start(&self, node: &str) {
        let log = fs::File::create(self.folder.join(format!("{node}.out"))).unwrap();
        let daemon = std::env::var("SLURMD").unwrap_or_else(|_| "slurmd".to_owned());
        let child = Command::new(daemon).args(["-D", "-N", node]).stdout(log.try_clone().unwrap()).stderr(log).spawn();
        drop(child.unwrap());
        let up = || {
            let states = Command::new("sinfo").args(["--noheader", "--format=%T", &format!("--nodes={node}")]).output();
            let states = String::from_utf8(states.unwrap().stdout).unwrap();
            states.lines().all(|state| ["idle", "mixed", "allocated"].contains(&state.trim()))
        };
        wait_until("a node", up);
    }

    /// The node loses its power: its daemon, and whatever runs there.
    fn cut_off(&self, node: &str, worker: u32) {
        let daemon = fs::read_to_string(self.folder.join(format!("d.{node}.pid"))).unwrap();
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
        for process in [daemon.trim().parse().unwrap(), parent, worker] {
            signal(process, libc::SIGKILL);
        }
    }

    fn jobs(&self) -> String {
        String::from_utf8(Command::new("squeue").arg("--noheader").output().unwrap().stdout).unwrap()
    }
}

/// The command with Slurm's jobs.
fn with_slurm(place: &Place, runs: &str, more: &[&str]) -> Command {
    let options = [&["--runs", runs, "--executor", "slurm", "--checkpoint-every", "0.2"], more].concat();
    let mut command = place.command(&options);
    command.env("ADAPTER_LAB_STALE_AFTER", "6").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The worker that has a run on this node, by the cluster's word for it.
fn worker_on(runs: &Path, node: &str) -> Option<u32> {
    let job_of = |job: &str| {
        let output =
            Command::new("squeue").args(["--noheader", "--format=%N", &format!("--jobs={job}")]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let owners = with_file(runs, "lock").into_iter().filter_map(|run| owner_of(&run));
    owners.filter(|owner| owner.job.as_deref().is_some_and(|job| job_of(job) == node)).map(|owner| owner.pid).next()
}

#[test]
#[ignore = "needs a Slurm of two nodes: `.ci/slurm` starts one and runs this"]
fn a_cluster_does_what_one_machine_does() {
    let (place, cluster) = (Place::new(TWELVE), Cluster::here());
    answer({
        let mut command = place.command(&["--runs", "local", "--jobs", "2"]);
        command.stderr(Stdio::inherit());
        command
    });
    let expected = contents(&place.path("local"));
    assert_eq!(expected.len(), 12);

    // One node is lost in the middle.
    let (runs, child) = (place.path("lost"), with_slurm(&place, "lost", &[]).spawn().unwrap());
    let mut worker = None;
    wait_until("a worker on n2", || {
        worker = worker_on(&runs, "n2");
        worker.is_some() && !with_file(&runs, "record.json").is_empty()
    });
    cluster.cut_off("n2", worker.unwrap());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(contents(&runs), expected, "bit for bit");
    cluster.start("n2");

    // The array is cancelled in the middle, and submitted again.
    let (runs, child) = (place.path("cancelled"), with_slurm(&place, "cancelled", &["--yes"]).spawn().unwrap());
    wait_until("a record", || !with_file(&runs, "record.json").is_empty());
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("cancelled"), "{}", errors(&output));
    wait_until("an empty queue", || cluster.jobs().trim().is_empty());
    assert!(with_file(&runs, "record.json").len() < 12, "it was in the middle");
    answer(with_slurm(&place, "cancelled", &[]));
    assert_eq!(contents(&runs), expected, "bit for bit");
}

#[test]
#[ignore = "needs a Slurm of two nodes: `.ci/slurm` starts one and runs this"]
fn a_worker_whose_time_is_up_goes_on_in_another_job() {
    let (place, cluster) = (Place::new(ONE), Cluster::here());
    let long = ["--set", "epochs=2500"];
    // A minute is the least that Slurm gives; the signal comes when half of it is over, or sooner.
    let limits = ["--slurm", "workers=1", "--slurm", "time=1", "--slurm", "signal=B:USR1@30"];
    let child = with_slurm(&place, "runs", &[&long[..], &limits].concat()).spawn().unwrap();
    let alone = place.run(&[&long[..], &["--runs", "alone"]].concat());
    let seconds = alone["runs"][0]["measured"]["training_seconds"].as_f64().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(contents(&place.path("runs")), contents(&place.path("alone")), "bit for bit");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let resumes = report["runs"][0]["measured"]["resumes"].as_u64().unwrap();
    assert!(resumes > 0, "a run of {seconds} s was never interrupted by a limit of a minute");
    wait_until("an empty queue", || cluster.jobs().trim().is_empty());
}

#[test]
#[ignore = "needs a Slurm of two nodes: `.ci/slurm` starts one and runs this"]
fn jobs_that_nobody_waits_for_are_followed_later() {
    let place = Place::new(TWELVE);
    let submitted = answer(with_slurm(&place, "runs", &["--detach"]));
    let queue = submitted["queue"].as_str().unwrap();
    let watched = answer(place.program(&["runs", "watch", queue, "--json"]));
    assert_eq!((&watched["items"], &watched["ended"], &watched["failed"]), (&12.into(), &12.into(), &0.into()));
    // Nothing is left to train: the same command gathers what they did.
    let gathered = place.run(&["--runs", "runs"]);
    assert_eq!(gathered["runs"].as_array().unwrap().len(), 12);
    place.run(&["--runs", "alone", "--jobs", "2"]);
    assert_eq!(contents(&place.path("runs")), contents(&place.path("alone")));
}

#[test]
#[ignore = "needs a Slurm of two nodes: `.ci/slurm` starts one and runs this"]
fn a_run_that_fails_there_is_reported_here() {
    let place = Place::new(TWELVE);
    answer(with_slurm(&place, "runs", &["--set", "seed=0"]));
    let run = with_file(&place.path("runs"), "record.json").remove(0);
    fs::write(run.join("record.json"), "{").unwrap();
    let output = with_slurm(&place, "runs", &["--set", "seed=0"]).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("1 of 4 runs failed"), "{}", errors(&output));
}
