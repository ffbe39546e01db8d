//! Many runs: one after the other, or in several processes. One that fails does not stop the rest.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use analysis::RunRecord;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    backbones::CacheArgs,
    device_args::TrainingPlace,
    guard::{DeviceFailed, panic_text},
    progress::Progress,
    run_config::RunConfig,
    run_store::{Busy, RunStore},
    runner::{Runner, stop, stop_on_ctrl_c, stopped},
    task_args::TaskFiles,
    trainer::Interrupted,
};

/// Where and how runs are run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workplace {
    /// Where the tasks' files are.
    pub files: TaskFiles,
    /// Where backbones are kept.
    pub cache: CacheArgs,
    /// Where to compute.
    pub place: TrainingPlace,
    /// The folder of the runs.
    pub runs: PathBuf,
    /// Time between two checkpoints of a run.
    pub checkpoint_every: Duration,
    /// Whether nobody wants to see how far a run is.
    pub quiet: bool,
}

/// How an attempt at a run ended.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// It is finished.
    Finished(Box<RunRecord>),
    /// It failed, for this reason.
    Failed(String),
    /// It was stopped, and can be gone on with.
    Interrupted(String),
    /// Another process runs it.
    Busy(String),
}

/// Whoever is told that a run is over: its number, and its record or why it failed.
pub type Report<'a> = dyn FnMut(usize, Result<&RunRecord, &str>) + Send + 'a;

impl Workplace {
    /// A runner for this place.
    ///
    /// # Errors
    /// If its devices cannot be had.
    pub fn runner(&self) -> Result<Runner<'_>> {
        let runner = Runner::new(&self.files, &self.cache, &self.place, Some(RunStore::new(&self.runs)))?;
        Ok(runner.with_checkpoints_every(self.checkpoint_every))
    }

    /// Runs all of `runs` with `jobs` processes, and tells `report` of each when it is over. A run that another process has
    /// is waited for.
    ///
    /// # Errors
    /// If the runs were interrupted, or no process can be started.
    pub fn run_all(&self, runs: &[RunConfig], jobs: usize, report: &mut Report<'_>) -> Result<()> {
        stop_on_ctrl_c();
        // Said before any process begins.
        self.place.open()?;
        if jobs > 1 {
            return self.run_in_processes(runs, jobs, report);
        }
        let mut runner = self.runner()?;
        let mut queue: VecDeque<usize> = (0..runs.len()).collect();
        while let Some(number) = queue.pop_front() {
            let config = &runs[number];
            let label = format!("[{}/{}] {config}  ", runs.len() - queue.len(), runs.len());
            let outcome = attempt(&mut runner, config, &mut self.progress(&label));
            match outcome {
                Outcome::Finished(record) => report(number, Ok(&record)),
                Outcome::Failed(reason) => report(number, Err(&reason)),
                Outcome::Interrupted(reason) => bail!(reason),
                Outcome::Busy(_) => {
                    queue.push_back(number);
                    thread::sleep(PAUSE);
                }
            }
            ensure!(!stopped() || queue.is_empty(), INTERRUPTED);
        }
        Ok(())
    }

    /// Progress of a run, after `label`.
    pub fn progress(&self, label: &str) -> Progress {
        if self.quiet { Progress::Quiet } else { Progress::line(label) }
    }

    fn run_in_processes(&self, runs: &[RunConfig], jobs: usize, report: &mut Report<'_>) -> Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores / jobs).max(1);
        let logs = self.runs.join("logs");
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let queue: Mutex<VecDeque<usize>> = Mutex::new((0..runs.len()).collect());
        let report = Mutex::new(report);
        let work = |job: usize| -> Result<()> {
            // Another command may use the same folder.
            let log = logs.join(format!("{}-{job}.log", std::process::id()));
            let mut worker: Option<Worker> = None;
            loop {
                let Some(number) = lock(&queue).pop_front() else { return Ok(()) };
                let mut ready = match worker.take() {
                    Some(worker) => worker,
                    None => Worker::start(self, &log, threads)?,
                };
                let outcome = match ready.run(&runs[number]) {
                    Ok(outcome) => {
                        worker = Some(ready);
                        outcome
                    }
                    // It may end before it can answer.
                    Err(_) if stopped() => Outcome::Interrupted(INTERRUPTED.to_owned()),
                    Err(error) => Outcome::Failed(format!("its process ended ({error:#})")),
                };
                match outcome {
                    Outcome::Finished(record) => lock(&report)(number, Ok(&record)),
                    Outcome::Failed(reason) => lock(&report)(number, Err(&format!("{reason}; log: {}", log.display()))),
                    Outcome::Interrupted(reason) => {
                        // What ended this one ends them all: no further run is begun.
                        lock(&queue).clear();
                        bail!(reason)
                    }
                    Outcome::Busy(_) => {
                        lock(&queue).push_back(number);
                        thread::sleep(PAUSE);
                    }
                }
                ensure!(!stopped() || lock(&queue).is_empty(), INTERRUPTED);
            }
        };
        let work = &work;
        thread::scope(|scope| {
            let jobs: Vec<_> = (0..jobs).map(|job| scope.spawn(move || work(job))).collect();
            let ended: Vec<Result<()>> = jobs
                .into_iter()
                .map(|job| job.join().unwrap_or_else(|panic| Err(anyhow!("a job failed: {}", panic_text(&*panic)))))
                .collect();
            ended.into_iter().collect()
        })
    }
}

const INTERRUPTED: &str = "interrupted; run the same command again to go on";

/// Time between two looks at a run that another process has.
const PAUSE: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries again while another process has the run.
pub fn when_free<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match run() {
            Err(error) if error.is::<Busy>() && !stopped() => thread::sleep(PAUSE),
            ended => return ended,
        }
    }
}

/// Runs one configuration; nothing that goes wrong, a panic included, ends the process. A device that failed is not tried
/// with further runs.
fn attempt(runner: &mut Runner<'_>, config: &RunConfig, progress: &mut Progress) -> Outcome {
    match runner.run(config, progress) {
        Ok(ran) => Outcome::Finished(Box::new(ran.record)),
        Err(error) if error.is::<Interrupted>() || error.is::<DeviceFailed>() => {
            Outcome::Interrupted(format!("{error:#}"))
        }
        Err(error) if error.is::<Busy>() => Outcome::Busy(format!("{error:#}")),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// A process that runs what it is told to, one run after the other, and stops when nobody tells it any more.
struct Worker {
    child: Child,
    orders: Arc<Mutex<Option<ChildStdin>>>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(workplace: &Workplace, log: &Path, threads: usize) -> Result<Self> {
        let open = || fs::OpenOptions::new().create(true).append(true).open(log);
        let log_file = open().with_context(|| format!("cannot write {}", log.display()))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .arg("work")
            .env("RAYON_NUM_THREADS", threads.to_string())
            // libtorch counts its threads itself.
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .context("cannot start a process")?;
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).context("a process without pipes")?;
        let orders = Arc::new(Mutex::new(Some(orders)));
        let mut worker = Self { child, orders, answers: BufReader::new(answers) };
        worker.tell(workplace)?;
        worker.end_with_us();
        Ok(worker)
    }

    /// Lets the process know when we are told to stop, whether or not it was told so itself.
    fn end_with_us(&self) {
        let orders = Arc::downgrade(&self.orders);
        thread::spawn(move || {
            while let Some(orders) = orders.upgrade() {
                if stopped() {
                    return drop(lock(&orders).take());
                }
                drop(orders);
                thread::sleep(Duration::from_millis(50));
            }
        });
    }

    fn tell(&mut self, order: &impl Serialize) -> Result<()> {
        let mut orders = lock(&self.orders);
        let orders = orders.as_mut().context("it was told to stop")?;
        writeln!(orders, "{}", serde_json::to_string(order)?)?;
        Ok(orders.flush()?)
    }

    fn run(&mut self, config: &RunConfig) -> Result<Outcome> {
        let told = self.tell(config);
        let mut answer = String::new();
        let heard = told.and_then(|()| Ok(self.answers.read_line(&mut answer)?));
        match heard {
            Ok(length) if length > 0 => Ok(serde_json::from_str(&answer)?),
            _ => bail!("{}", self.child.wait()?),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has nothing to do any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the process of a [`Worker`] does: reads its orders and answers each with an [`Outcome`]. The end of its orders ends
/// it, in the middle of a run too: whoever gave them is gone.
///
/// # Errors
/// If orders cannot be read or answered.
pub fn work(orders: impl BufRead + Send + 'static, mut answers: impl Write) -> Result<()> {
    let (send, received) = channel::<String>();
    thread::spawn(move || {
        // Nobody listens any more, or nobody speaks: either way, the end.
        let _ = orders.lines().map_while(Result::ok).try_for_each(|order| send.send(order));
        stop();
    });
    let Ok(first) = received.recv() else { return Ok(()) };
    let workplace: Workplace = serde_json::from_str(&first)?;
    let mut runner = workplace.runner()?;
    stop_on_ctrl_c();
    for order in received {
        let config: RunConfig = serde_json::from_str(&order)?;
        let started = Instant::now();
        eprintln!("{config}");
        let outcome = attempt(&mut runner, &config, &mut Progress::line(""));
        match &outcome {
            Outcome::Finished(record) => {
                eprintln!("{config}: run {}, {:.1} s", record.id, started.elapsed().as_secs_f64())
            }
            Outcome::Failed(reason) | Outcome::Interrupted(reason) | Outcome::Busy(reason) => {
                eprintln!("{config}: {reason}")
            }
        }
        writeln!(answers, "{}", serde_json::to_string(&outcome)?)?;
        answers.flush()?;
    }
    Ok(())
}
