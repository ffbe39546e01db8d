//! A sweep in a world that falls apart: whatever happens to it, the same command ends with the same bits. `.ci/chaos` runs this.

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use adapter_core::mix;
use common::{
    place::{Place, contents},
    process::{children, signal},
};

const GRID: &str = r#"
task = "file:task0.csv"
batch_size = 8
seed = [0, 1]
lr = 1e-2
quick.epochs = 8

[[series]]
tuning = "adapters"
adapter_size = [2, 4]

[[series]]
tuning = "top-k"
k = 1
"#;

/// What happens to a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbance {
    /// The command is killed.
    Killed,
    /// One of its processes is.
    WorkerKilled,
    /// All of them are.
    AllKilled,
    /// The disk is full for a while.
    FullDisk,
    /// The disk cannot be written to at first.
    ReadOnly,
    /// Nobody hears what it says.
    NoMessages,
    /// It may open only a few files.
    FewFiles,
}

const ALL: [Disturbance; 7] = [
    Disturbance::Killed,
    Disturbance::WorkerKilled,
    Disturbance::AllKilled,
    Disturbance::FullDisk,
    Disturbance::ReadOnly,
    Disturbance::NoMessages,
    Disturbance::FewFiles,
];

/// A small disk of its own.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn new(place: &'a Path) -> Self {
        fs::create_dir_all(place).unwrap();
        assert!(mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], place));
        Self(place)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn mount(how: &[&str], place: &Path) -> bool {
    Command::new("mount").args(how).arg(place).stderr(Stdio::null()).status().unwrap().success()
}

/// The sweep, with what the shell does before it.
fn sweep(place: &Place, before: &str, after: &str) -> Child {
    let script = format!(
        "{before} exec \"$LAB\" run own.toml --backbone tiny --runs disk/runs --jobs 2 --checkpoint-every 0.05 {after}"
    );
    let mut shell = Command::new("sh");
    shell.current_dir(place.folder.path()).args(["-c", &script]).env("LAB", env!("CARGO_BIN_EXE_adapter-lab"));
    shell.env("ADAPTER_LAB_CACHE", place.path("cache")).env("ADAPTER_LAB_STALE_AFTER", "2");
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(process: u32) {
    signal(process, libc::SIGKILL);
}

/// Waits for the command, but not for ever.
fn ended(mut child: Child, round: u64) -> bool {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        assert!(started.elapsed() < Duration::from_secs(180), "round {round}: it hangs");
        thread::sleep(Duration::from_millis(20));
    }
}

fn disturb(place: &Place, what: Disturbance, round: u64) {
    let disk = place.path("disk");
    // From before the first run to after the last.
    let moment = Duration::from_millis(50 + mix(&[round, 1]) % 2500);
    let child = match what {
        Disturbance::NoMessages => sweep(place, "", "2>&- >&-"),
        Disturbance::FewFiles => sweep(place, &format!("ulimit -n {};", 8 + mix(&[round, 2]) % 24), ""),
        Disturbance::ReadOnly => {
            assert!(mount(&["-o", "remount,ro"], &disk));
            sweep(place, "", "")
        }
        _ => sweep(place, "", ""),
    };
    thread::sleep(moment);
    match what {
        Disturbance::Killed => kill(child.id()),
        Disturbance::WorkerKilled => children(child.id()).first().into_iter().for_each(|worker| kill(*worker)),
        Disturbance::AllKilled => {
            let workers = children(child.id());
            kill(child.id());
            workers.into_iter().for_each(kill);
        }
        Disturbance::FullDisk => {
            let filler = disk.join("filler");
            // It ends when there is no room.
            let _ = fs::write(&filler, vec![0; 9 << 20]);
            thread::sleep(Duration::from_millis(mix(&[round, 3]) % 800));
            let _ = fs::remove_file(filler);
        }
        Disturbance::ReadOnly | Disturbance::NoMessages | Disturbance::FewFiles => {}
    }
    ended(child, round);
    if what == Disturbance::ReadOnly {
        assert!(mount(&["-o", "remount,rw"], &disk));
    }
}

#[test]
#[ignore = "mounts a disk, which needs root, and takes long: `.ci/chaos` runs it"]
fn whatever_happens_the_results_are_the_same() {
    let rounds = std::env::var("CHAOS_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    let place = Place::new(GRID);
    let path = place.path("disk");
    let _disk = Disk::new(&path);
    assert!(ended(sweep(&place, "", ""), 0));
    let expected = contents(&path.join("runs"));
    assert_eq!(expected.len(), 6);
    let mut interrupted = 0;
    for round in 1..=rounds {
        fs::remove_dir_all(path.join("runs")).unwrap();
        let what = ALL[(mix(&[round, 0]) % ALL.len() as u64) as usize];
        disturb(&place, what, round);
        let runs = path.join("runs");
        interrupted += u32::from(!runs.is_dir() || contents(&runs).len() < expected.len());
        assert!(ended(sweep(&place, "", ""), round), "round {round}, {what:?}: the same command fails afterwards");
        let found = contents(&runs);
        assert!(found == expected, "round {round}, {what:?}: {} of {} runs", found.len(), expected.len());
    }
    println!("{rounds} rounds, {interrupted} of them interrupted in the middle");
    assert!(4 * interrupted > rounds as u32, "hardly anything was disturbed");
}
