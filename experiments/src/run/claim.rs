//! Who has a run. On one machine the system's lock tells. Machines that share a folder may not see each other's locks, so there is a
//! file beside it that says who has the run and grows with every heartbeat.

use std::{
    env, fmt, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use adapter_core::create_new;
use analysis::folder;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::train::RunError;

/// The environment's word for how many seconds a process may be silent before another machine takes its runs.
pub const STALE_AFTER: &str = "ADAPTER_LAB_STALE_AFTER";

/// Heartbeats in the time after which a silent process is taken for dead.
const BEATS: u32 = 8;

/// How long a process may be silent before another machine takes its runs.
pub(crate) fn stale_after() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    let said =
        || env::var(STALE_AFTER).ok()?.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    *TIME.get_or_init(|| said().filter(|time| !time.is_zero()).unwrap_or(Duration::from_secs(120)))
}

/// A process that has a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The machine's name, for people.
    pub host: String,
    /// The one start of one machine, and the name space of its processes, in which `pid` means something.
    place: Option<String>,
    /// The process.
    pub pid: u32,
    /// When it began, as the machine counts: numbers of processes are used again.
    began: Option<String>,
    /// Which of the process's claims.
    number: usize,
    /// The cluster's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)?;
        self.job.as_ref().map_or(Ok(()), |job| write!(f, ", job {job}"))
    }
}

impl Owner {
    /// This process, with a claim of its own.
    fn new() -> Self {
        static CLAIMS: AtomicUsize = AtomicUsize::new(0);
        let read = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
        let name_space = || Some(fs::read_link("/proc/self/ns/pid").ok()?.display().to_string());
        let place = read("/proc/sys/kernel/random/boot_id").zip(name_space());
        let pid = std::process::id();
        Self {
            host: read("/proc/sys/kernel/hostname").or_else(|| env::var("HOSTNAME").ok()).unwrap_or_default(),
            place: place.map(|(boot, name_space)| format!("{boot} {name_space}")),
            pid,
            began: beginning(pid),
            number: CLAIMS.fetch_add(1, Ordering::Relaxed),
            job: cluster_job(),
        }
    }

    /// Whether the process is of this machine, and over.
    fn is_gone(&self, us: &Owner) -> bool {
        self.place.is_some() && self.place == us.place && beginning(self.pid) != self.began
    }
}

/// What Slurm calls this process's job.
pub fn cluster_job() -> Option<String> {
    let array = env::var("SLURM_ARRAY_JOB_ID").ok().zip(env::var("SLURM_ARRAY_TASK_ID").ok());
    array.map(|(job, task)| format!("{job}_{task}")).or_else(|| env::var("SLURM_JOB_ID").ok())
}

/// When a process began; nothing if there is none, or if this system does not tell.
fn beginning(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; the state comes next, and the beginning is the 20th word from there.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    words.nth(18).filter(|_| !["Z", "X"].contains(&state)).map(str::to_owned)
}

/// A claim that another process has taken over, because this one was silent for too long.
#[derive(Debug, thiserror::Error)]
#[error("another process took over run {id} ({owner})")]
pub struct ClaimLost {
    id: String,
    owner: String,
}

/// A run that was taken from us is somebody else's, like one that we never had.
pub(crate) fn lost_is_busy(error: RunError) -> RunError {
    match error {
        RunError::Other(error) => match error.downcast::<ClaimLost>() {
            Ok(ClaimLost { id, owner }) => RunError::Busy { id, owner },
            Err(error) => RunError::Other(error),
        },
        error => error,
    }
}

/// A run of ours: others leave it alone while this lives. A claim has a number, one above that of the claim before it; the highest
/// counts. Files are made so that only one process can make each.
#[derive(Debug)]
pub struct Claim {
    run: PathBuf,
    number: usize,
    /// The first line of its file.
    line: String,
    /// Its end ends the heartbeat.
    heart: Option<(Sender<()>, JoinHandle<()>)>,
    _lock: fs::File,
}

/// Whether a run could be claimed.
pub enum Claimed {
    /// It is ours.
    Ours(Claim),
    /// Somebody has it.
    Theirs(String),
}

impl Claim {
    /// Claims the run in this folder.
    ///
    /// # Errors
    /// If files cannot be made or read there.
    pub fn take(run: &Path) -> Result<Claimed> {
        let path = run.join(folder::LOCK);
        let hint = || format!("cannot write {}", path.display());
        let mut lock = open_lock(&path).with_context(hint)?;
        let theirs = |owner: Option<Owner>| {
            Ok(Claimed::Theirs(owner.map_or_else(|| path.display().to_string(), |owner| owner.to_string())))
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return theirs(owner_of(run)),
            // A file system without locks: the claim alone must do.
            Err(fs::TryLockError::Error(error)) if has_no_locks(&error) => {}
            Err(fs::TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let us = Owner::new();
        let number = match newest(run)? {
            None => 1,
            Some((number, owner)) => {
                // Both times are the file system's own: clocks of machines differ.
                lock.write_all(b"\n").with_context(hint)?;
                let now = lock.metadata()?.modified()?;
                let gone = owner.as_ref().is_some_and(|owner| owner.is_gone(&us));
                let last = match fs::metadata(claim_path(run, number)).and_then(|file| file.modified()) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return theirs(owner),
                    last => last?,
                };
                if !gone && now.duration_since(last).unwrap_or_default() < stale_after() {
                    return theirs(owner);
                }
                number.checked_add(1).with_context(|| format!("{}: no claim has a higher number", run.display()))?
            }
        };
        let (path, line) = (claim_path(run, number), serde_json::to_string(&us)? + "\n");
        // With its line in it: a claim that does not say whose it is can only be waited for.
        match create_new(&path, line.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return theirs(read_owner(&path)),
            made => made,
        }
        .with_context(|| format!("cannot write {}", path.display()))?;
        for older in claims(run)?.into_iter().filter(|older| *older < number) {
            // One that stays does no harm: the highest counts.
            let _ = fs::remove_file(claim_path(run, older));
        }
        let mut claim = Self { run: run.to_owned(), number, line, heart: None, _lock: lock };
        claim.heart = Some(claim.start_heart());
        Ok(Claimed::Ours(claim))
    }

    /// Says whether the run is still ours; asked before anything of it is written.
    ///
    /// # Errors
    /// If another process took it.
    pub fn check(&self) -> Result<()> {
        if holds(&self.run, self.number, &self.line) {
            return Ok(());
        }
        let id = self.run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let owner = owner_of(&self.run).map_or_else(|| "it is gone again".to_owned(), |owner| owner.to_string());
        Err(ClaimLost { id, owner }.into())
    }

    fn start_heart(&self) -> (Sender<()>, JoinHandle<()>) {
        let (run, number, line) = (self.run.clone(), self.number, self.line.clone());
        let (end, ended) = channel();
        let beat = move || {
            while ended.recv_timeout(stale_after() / BEATS) == Err(RecvTimeoutError::Timeout) {
                if !holds(&run, number, &line) {
                    return;
                }
                // A beat that fails (a full disk) is one that is missing: the next may do.
                let file = fs::OpenOptions::new().append(true).open(claim_path(&run, number));
                let _ = file.and_then(|mut file| file.write_all(b"."));
            }
        };
        (end, thread::spawn(beat))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((end, heart)) = self.heart.take() {
            drop(end);
            let _ = heart.join();
        }
        if holds(&self.run, self.number, &self.line) {
            let _ = fs::remove_file(claim_path(&self.run, self.number));
        }
    }
}

/// The file that is locked. A link is not followed: it could lead to a file of somebody's.
fn open_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options.open(path)
}

/// Whether the claim of this number is there, with this first line, and none above it.
fn holds(run: &Path, number: usize, line: &str) -> bool {
    let mut found = vec![0; line.len()];
    let read = fs::File::open(claim_path(run, number)).and_then(|mut file| file.read_exact(&mut found));
    read.is_ok()
        && found == line.as_bytes()
        && !number.checked_add(1).is_some_and(|next| claim_path(run, next).exists())
}

fn claim_path(run: &Path, number: usize) -> PathBuf {
    run.join(format!("{}{number}", folder::CLAIM))
}

/// The numbers of all claims of a run.
fn claims(run: &Path) -> Result<Vec<usize>> {
    let entries = fs::read_dir(run).with_context(|| format!("cannot read {}", run.display()))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(folder::CLAIM)?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

/// The claim that counts, and whose it is, if that can be read: a process may have died before it had written it.
fn newest(run: &Path) -> Result<Option<(usize, Option<Owner>)>> {
    Ok(claims(run)?.into_iter().max().map(|number| (number, read_owner(&claim_path(run, number)))))
}

fn read_owner(path: &Path) -> Option<Owner> {
    serde_json::from_str(fs::read_to_string(path).ok()?.lines().next()?).ok()
}

/// Who has the run in this folder, as far as one can tell without asking for it.
pub fn owner_of(run: &Path) -> Option<Owner> {
    newest(run).ok()??.1
}

fn has_no_locks(error: &io::Error) -> bool {
    // Lustre without `flock`, and network drives whose server keeps no locks.
    #[cfg(unix)]
    let numbers = [rustix::io::Errno::NOSYS, rustix::io::Errno::NOLCK].map(rustix::io::Errno::raw_os_error);
    #[cfg(not(unix))]
    let numbers: [i32; 0] = [];
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error().is_some_and(|code| numbers.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(run: &Path) -> Claim {
        match Claim::take(run).unwrap() {
            Claimed::Ours(claim) => claim,
            Claimed::Theirs(owner) => panic!("{owner} has it"),
        }
    }

    fn files(run: &Path) -> Vec<usize> {
        claims(run).unwrap()
    }

    /// What a process leaves behind that dies.
    fn leave(run: &Path, number: usize, owner: &Owner) {
        fs::write(claim_path(run, number), serde_json::to_string(owner).unwrap() + "\n...").unwrap();
    }

    fn age(run: &Path, number: usize, by: Duration) {
        let file = fs::File::options().append(true).open(claim_path(run, number)).unwrap();
        file.set_modified(std::time::SystemTime::now() - by).unwrap();
    }

    #[test]
    fn a_claim_is_the_only_one_and_leaves_nothing() {
        let run = tempfile::tempdir().unwrap();
        let ours = take(run.path());
        ours.check().unwrap();
        assert_eq!(owner_of(run.path()).unwrap().pid, std::process::id());
        assert!(matches!(Claim::take(run.path()).unwrap(), Claimed::Theirs(_)));
        drop(ours);
        assert_eq!(files(run.path()), [0; 0]);
        take(run.path()).check().unwrap();
    }

    #[test]
    fn a_process_of_this_machine_that_is_gone_is_followed_at_once() {
        let run = tempfile::tempdir().unwrap();
        // Its number belongs to another process now: to us.
        leave(run.path(), 3, &Owner { began: Some("1".to_owned()), ..Owner::new() });
        let ours = take(run.path());
        assert_eq!(files(run.path()), [4]);
        ours.check().unwrap();
    }

    #[test]
    fn a_process_of_another_machine_is_followed_when_it_was_silent_for_long() {
        let run = tempfile::tempdir().unwrap();
        let elsewhere = Owner { place: Some("another".to_owned()), host: "n2".to_owned(), ..Owner::new() };
        leave(run.path(), 1, &elsewhere);
        let Claimed::Theirs(owner) = Claim::take(run.path()).unwrap() else { panic!("it beats") };
        assert!(owner.contains("n2"), "{owner}");
        age(run.path(), 1, stale_after() + Duration::from_secs(1));
        take(run.path()).check().unwrap();
    }

    #[test]
    fn one_that_could_not_say_its_name_counts_as_long_as_it_is_young() {
        let run = tempfile::tempdir().unwrap();
        fs::write(claim_path(run.path(), 1), "").unwrap();
        assert!(matches!(Claim::take(run.path()).unwrap(), Claimed::Theirs(_)));
        age(run.path(), 1, stale_after() + Duration::from_secs(1));
        take(run.path()).check().unwrap();
    }

    #[test]
    fn whoever_lost_a_claim_notices_and_leaves_the_new_one_alone() {
        let run = tempfile::tempdir().unwrap();
        let ours = take(run.path());
        let elsewhere = Owner { place: Some("another".to_owned()), ..Owner::new() };
        leave(run.path(), 2, &elsewhere);
        assert!(ours.check().unwrap_err().is::<ClaimLost>());
        drop(ours);
        assert_eq!(owner_of(run.path()), Some(elsewhere));
    }
}
