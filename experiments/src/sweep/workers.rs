//! Many runs: one after the other, or in several processes. One that fails does not stop the rest.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

use analysis::{RunRecord, folder};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    device::panic_text,
    lab::Lab,
    run::{BUSY_PAUSE, RunConfig, RunContext, Runner},
    train::{Ended, RunError, Stop, SweepWatch, Watch},
};

/// Many runs, and whoever follows them.
pub struct Sweep<'a> {
    /// What the runs can name.
    pub lab: &'a Lab,
    /// Where they find what they need and keep what they make.
    pub context: &'a RunContext,
    /// Ends them all in good order.
    pub stop: &'a Stop,
    /// Processes that run at the same time.
    pub jobs: usize,
    /// Who is told of them.
    pub watch: &'a mut dyn SweepWatch,
}

/// A run that is over: its record, or why it failed.
pub type RunOutcome = (RunConfig, Result<RunRecord, String>);

/// How an attempt at a run ended.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// It is finished, and was so before if `before`.
    Finished { record: Box<RunRecord>, before: bool },
    /// It failed, for this reason.
    Failed(String),
    /// It was stopped, and so are all others.
    Interrupted(String),
    /// Another process runs it.
    Busy,
}

impl Sweep<'_> {
    /// A runner for one run at a time.
    ///
    /// # Errors
    /// If its devices cannot be used.
    pub fn runner(&self) -> Result<Runner<'_>> {
        Runner::new(self.lab, self.context, self.stop.clone())
    }

    /// Trains all of `runs`, and returns what became of those that ended: of all of them, unless there is an error too. A run that
    /// another process has is waited for; one that fails does not stop the rest. The error says that the runs were interrupted,
    /// or that no process could be started.
    pub fn run_all(&mut self, runs: &[RunConfig]) -> (Vec<RunOutcome>, Result<()>) {
        let mut ended = BTreeMap::new();
        let result = self.run_each(runs, &mut ended);
        (ended.into_values().collect(), result)
    }

    fn run_each(&mut self, runs: &[RunConfig], ended: &mut BTreeMap<usize, RunOutcome>) -> Result<()> {
        // Said before any process starts.
        self.context.devices.open()?;
        let (lab, of) = (self.lab, runs.len());
        if self.jobs > 1 {
            let Self { context, stop, jobs, watch, .. } = self;
            let mut report = |number: usize, result: Result<&RunRecord, &str>, before: bool| {
                let (done, label) = (ended.len() + 1, &runs[number].describe(lab));
                watch.ended(Ended { done, of, label, result, before });
                ended.insert(number, (runs[number].clone(), result.cloned().map_err(str::to_owned)));
            };
            return run_in_processes(context, stop, *jobs, runs, &mut report);
        }
        let mut runner = Runner::new(lab, self.context, self.stop.clone())?;
        let mut queue: VecDeque<usize> = (0..of).collect();
        while let Some(number) = queue.pop_front() {
            let config = &runs[number];
            let label = config.describe(lab);
            let mut watch = self.watch.run(&label);
            let outcome = attempt(&mut runner, config, &mut *watch);
            drop(watch);
            let (result, before) = match outcome {
                Outcome::Finished { record, before } => (Ok(*record), before),
                Outcome::Failed(reason) => (Err(reason), false),
                Outcome::Interrupted(reason) => bail!(reason),
                Outcome::Busy => {
                    ensure!(!self.stop.requested(), INTERRUPTED);
                    queue.push_back(number);
                    thread::sleep(BUSY_PAUSE);
                    continue;
                }
            };
            let (done, shown) = (ended.len() + 1, result.as_ref().map_err(String::as_str));
            self.watch.ended(Ended { done, of, label: &label, result: shown, before });
            ended.insert(number, (config.clone(), result));
            ensure!(!self.stop.requested() || queue.is_empty(), INTERRUPTED);
        }
        Ok(())
    }
}

/// Whoever is told that a run is over: its number, its record or why it failed, and whether it was finished before.
type Report<'a> = dyn FnMut(usize, Result<&RunRecord, &str>, bool) + Send + 'a;

fn run_in_processes(
    context: &RunContext,
    stop: &Stop,
    jobs: usize,
    runs: &[RunConfig],
    report: &mut Report<'_>,
) -> Result<()> {
    let threads = threads_of(jobs);
    let logs = context.runs.as_deref().context("several processes need a folder for their runs")?.join(folder::LOGS);
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
                None => Worker::start(context, stop, &log, threads)?,
            };
            let outcome = match ready.run(&runs[number]) {
                Ok(outcome) => {
                    worker = Some(ready);
                    outcome
                }
                // It may end before it can answer.
                Err(_) if stop.requested() => Outcome::Interrupted(INTERRUPTED.to_owned()),
                Err(error) => Outcome::Failed(format!("its process ended ({error:#})")),
            };
            match outcome {
                Outcome::Finished { record, before } => lock(&report)(number, Ok(&record), before),
                Outcome::Failed(reason) => {
                    lock(&report)(number, Err(&format!("{reason}; log: {}", log.display())), false)
                }
                Outcome::Interrupted(reason) => {
                    // What ended this one ends them all: no further run is started.
                    lock(&queue).clear();
                    bail!(reason)
                }
                Outcome::Busy => {
                    lock(&queue).push_back(number);
                    thread::sleep(BUSY_PAUSE);
                }
            }
            ensure!(!stop.requested() || lock(&queue).is_empty(), INTERRUPTED);
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

/// Threads of each of so many processes.
pub(super) fn threads_of(jobs: usize) -> usize {
    match jobs {
        // Whoever starts us may have said how many.
        1 => rayon::current_num_threads(),
        jobs => (thread::available_parallelism().map_or(1, usize::from) / jobs).max(1),
    }
}

pub(super) const INTERRUPTED: &str = "interrupted; run the same command again to continue";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one configuration; nothing that goes wrong ends the process. A device that failed is not tried with further runs.
fn attempt(runner: &mut Runner<'_>, config: &RunConfig, watch: &mut dyn Watch) -> Outcome {
    match runner.run(config, watch) {
        Ok(run) => Outcome::Finished { before: run.was_finished(), record: Box::new(run.record) },
        Err(RunError::Busy { .. }) => Outcome::Busy,
        Err(error) if error.ends_everything() => Outcome::Interrupted(format!("{:#}", error.explained(true))),
        Err(error) => Outcome::Failed(error.message()),
    }
}

/// A process that runs what it is told to, one run after the other, and stops when nobody tells it any more.
struct Worker {
    child: Child,
    orders: Arc<Mutex<Option<ChildStdin>>>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(context: &RunContext, stop: &Stop, log: &Path, threads: usize) -> Result<Self> {
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
        worker.tell(context)?;
        worker.end_with_us(stop.clone());
        Ok(worker)
    }

    /// Lets the process know when we are told to stop, whether or not it was told so itself.
    fn end_with_us(&self, stop: Stop) {
        let orders = Arc::downgrade(&self.orders);
        thread::spawn(move || {
            while let Some(orders) = orders.upgrade() {
                if stop.requested() {
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

/// What a process of a sweep does: reads its orders and answers each with how it ended. The end of its orders ends it, in the
/// middle of a run too: whoever gave them is gone.
///
/// # Errors
/// If orders cannot be read or answered.
pub fn work(
    lab: &Lab,
    stop: &Stop,
    orders: impl BufRead + Send + 'static,
    mut answers: impl Write,
    watch: &mut dyn SweepWatch,
) -> Result<()> {
    let (send, received) = channel::<String>();
    let ending = stop.clone();
    thread::spawn(move || {
        // Nobody listens any more, or nobody speaks: either way, the end.
        let _ = orders.lines().map_while(Result::ok).try_for_each(|order| send.send(order));
        ending.request();
    });
    let Ok(first) = received.recv() else { return Ok(()) };
    let context: RunContext = serde_json::from_str(&first)?;
    let mut runner = Runner::new(lab, &context, stop.clone())?;
    for (number, order) in received.into_iter().enumerate() {
        let config: RunConfig = serde_json::from_str(&order)?;
        let (label, started) = (config.describe(lab), Instant::now());
        let outcome = attempt(&mut runner, &config, &mut *watch.run(&label));
        let label = format!("{label}, {:.1} s", started.elapsed().as_secs_f64());
        let (result, before) = match &outcome {
            Outcome::Finished { record, before } => (Ok(&**record), *before),
            Outcome::Failed(reason) | Outcome::Interrupted(reason) => (Err(reason.as_str()), false),
            Outcome::Busy => (Err("another process is running it"), false),
        };
        watch.ended(Ended { done: number + 1, of: number + 1, label: &label, result, before });
        writeln!(answers, "{}", serde_json::to_string(&outcome)?)?;
        answers.flush()?;
    }
    Ok(())
}
