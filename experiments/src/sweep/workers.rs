//! Many runs: one after the other, or in several processes. One that fails does not stop the rest.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use analysis::RunRecord;
use anyhow::{Context, Result, bail, ensure};

use super::{
    ExperimentResult, Plan,
    queue::{Event, Heard, HeardRun, Item, Queue, Teller},
    slurm::{Array, SlurmOptions},
};
use crate::{
    lab::Lab,
    run::{BUSY_PAUSE, RunConfig, RunContext, RunStore, Runner, deliver_finished},
    search::{Search, Searched},
    train::{Ended, RunError, Stop, SweepWatch, Watch},
};

/// Who does the work.
#[derive(Clone, Debug)]
pub enum Executor {
    /// So many processes of this machine; one is this process itself.
    Local(usize),
    /// Processes that Slurm starts.
    Slurm(SlurmOptions),
}

/// Many runs, and whoever follows them.
pub struct Sweep<'a> {
    /// What the runs can name.
    pub lab: &'a Lab,
    /// Where they find what they need and keep what they make.
    pub context: &'a RunContext,
    /// Ends them all in good order.
    pub stop: &'a Stop,
    /// Who does them.
    pub executor: Executor,
    /// Who is told of them.
    pub watch: &'a mut dyn SweepWatch,
}

/// A run that is over: its record, or why it failed.
pub type RunOutcome = (RunConfig, Result<RunRecord, String>);

/// What is done with an experiment that is over.
pub type Concluded<'a> = dyn FnMut(&Plan, ExperimentResult, &mut dyn SweepWatch) -> Result<()> + 'a;

/// Exit code of a process that was asked to stop while work is left: it goes on later.
pub const LEFT_EARLY: i32 = 75;

pub(super) const INTERRUPTED: &str = "interrupted; run the same command again to continue";

/// So many processes that had no item of their own may be killed before the work is given up.
const MOST_LOST: usize = 5;

/// Time between two looks at what processes say.
const LOOK: Duration = Duration::from_millis(100);

impl Sweep<'_> {
    /// A runner for one run at a time.
    ///
    /// # Errors
    /// If its devices cannot be used.
    pub fn runner(&self) -> Result<Runner<'_>> {
        Runner::new(self.lab, self.context, self.stop.clone())
    }

    /// Runs these experiments. `concluded` is called with each as soon as it and all before it are over.
    ///
    /// # Errors
    /// If they were interrupted, what came out cannot be kept, or nobody is left to do the work. A run that fails is no error.
    pub fn execute(&mut self, plans: &[Plan], concluded: &mut Concluded<'_>) -> Result<()> {
        ensure!(self.context.runs.is_some(), "an experiment needs a folder for its runs");
        if matches!(self.executor, Executor::Local(1)) {
            for plan in plans {
                self.watch.experiment(&plan.experiment, !plan.searches.is_empty());
                let (ended, result) = self.run_all(plan.single_runs());
                match result.and_then(|()| plan.conclude(&ended, &BTreeMap::new(), self)) {
                    Ok(result) => concluded(plan, result, self.watch)?,
                    Err(error) => {
                        plan.keep_partial(&ended, self)?;
                        return Err(error);
                    }
                }
            }
            return Ok(());
        }
        let mut items = Vec::new();
        let parts: Vec<Range<usize>> = plans
            .iter()
            .map(|plan| {
                items.extend(plan.items());
                items.len() - plan.items().len()..items.len()
            })
            .collect();
        let mut crew = self.start_crew(items, name_of(plans))?;
        for (number, (plan, part)) in plans.iter().zip(&parts).enumerate() {
            self.watch.experiment(&plan.experiment, !plan.searches.is_empty());
            let result = crew.wait(part.clone(), self);
            let ended = crew.outcomes(part.clone())?;
            match result.and_then(|()| plan.conclude(&ended, &crew.failures(part.clone()), self)) {
                Ok(result) => concluded(plan, result, self.watch)?,
                Err(error) => {
                    crew.end_processes();
                    // Somebody may have begun what comes later. Why all of it ends matters more than what cannot be kept.
                    let begun = |(place, part): (usize, &Range<usize>)| place == number || crew.has_begun(part);
                    for (place, part) in parts.iter().enumerate().skip(number).filter(|found| begun(*found)) {
                        let _ = crew.outcomes(part.clone()).and_then(|ended| plans[place].keep_partial(&ended, self));
                    }
                    return Err(error);
                }
            }
        }
        crew.dismiss();
        Ok(())
    }

    /// Lets Slurm do the work of these experiments, and does not wait for it. Returns the folder of the queue, and the job.
    ///
    /// # Errors
    /// If Slurm does not take it, or is not who does the work.
    pub fn detach(&self, plans: &[Plan]) -> Result<(PathBuf, String)> {
        let crew = self.start_crew(plans.iter().flat_map(Plan::items).collect(), name_of(plans))?;
        match &crew.hands {
            Hands::Array(array) => Ok((crew.place.clone(), array.jobs().into_iter().collect())),
            Hands::Processes(_) => bail!("only jobs of a cluster go on without us"),
        }
    }

    /// Runs a search that belongs to no experiment.
    ///
    /// # Errors
    /// As for [`Search::run`]; or if no process could be started, or nobody is left to do the work.
    pub fn search(&mut self, search: &Search) -> Result<Searched> {
        if !matches!(self.executor, Executor::Local(1)) {
            let mut crew = self.start_crew(vec![Item::Search(search.clone())], "search")?;
            crew.wait(0..1, self)?;
            if let Some(reason) = crew.failures(0..1).remove(&0) {
                bail!(reason);
            }
            crew.dismiss();
            // All of it is there now.
            return search.run(self.lab, self.context, self.stop, &mut Unwatched);
        }
        search.run(self.lab, self.context, self.stop, self.watch)
    }

    /// Whoever is told of what this process does itself: `nobody`, where others did the work and told of it.
    pub(super) fn told<'w>(&'w mut self, nobody: &'w mut Unwatched) -> &'w mut dyn SweepWatch {
        match self.executor {
            Executor::Local(1) => self.watch,
            _ => nobody,
        }
    }

    /// Starts the processes that do this work.
    fn start_crew(&self, items: Vec<Item>, name: &str) -> Result<Crew> {
        // Said before any process starts, unless they have other devices than we.
        if let Executor::Local(_) = self.executor {
            self.context.devices.open()?;
        }
        let queue = Queue { context: self.context.absolute(), items };
        let place = queue.keep(name)?;
        let hands = match &self.executor {
            Executor::Local(jobs) => Hands::Processes(Processes::new(*jobs)),
            Executor::Slurm(options) => Hands::Array(Array::submit(&place, queue.items.len(), options)?),
        };
        let (heard, store) = (Heard::new(&place), RunStore::new(queue.context.runs.clone().unwrap_or_default()));
        Ok(Crew { queue, place, hands, heard, store })
    }

    /// Trains all of `runs` in this process, and returns what became of those that ended: of all of them, unless there is an error
    /// too. A run that another process has is waited for; one that fails does not stop the rest. The error says that the runs were
    /// interrupted.
    pub fn run_all(&mut self, runs: &[RunConfig]) -> (Vec<RunOutcome>, Result<()>) {
        let mut ended = BTreeMap::new();
        let result = self.run_each(runs, &mut ended);
        (ended.into_values().collect(), result)
    }

    fn run_each(&mut self, runs: &[RunConfig], ended: &mut BTreeMap<usize, RunOutcome>) -> Result<()> {
        let (lab, of) = (self.lab, runs.len());
        let mut runner = Runner::new(lab, self.context, self.stop.clone())?;
        let mut queue: VecDeque<usize> = (0..of).collect();
        while let Some(number) = queue.pop_front() {
            let config = &runs[number];
            let label = config.describe(lab);
            let mut watch = self.watch.run(&label);
            let run = runner.run(config, &mut *watch);
            drop(watch);
            let (result, before) = match run {
                Ok(run) => (Ok(run.record.clone()), run.was_finished()),
                Err(RunError::Busy { .. }) => {
                    ensure!(!self.stop.requested(), INTERRUPTED);
                    queue.push_back(number);
                    thread::sleep(BUSY_PAUSE);
                    continue;
                }
                Err(error) if error.ends_everything() => return Err(error.explained(true)),
                Err(error) => (Err(error.message()), false),
            };
            let (done, shown) = (ended.len() + 1, result.as_ref().map_err(String::as_str));
            self.watch.ended(Ended { done, of, label: &label, result: shown, before });
            ended.insert(number, (config.clone(), result));
            ensure!(!self.stop.requested() || queue.is_empty(), INTERRUPTED);
        }
        Ok(())
    }
}

/// What work is called.
fn name_of(plans: &[Plan]) -> &str {
    match plans {
        [plan] => &plan.experiment,
        _ => "experiments",
    }
}

/// Threads of each of so many processes.
pub(super) fn threads_of(jobs: usize) -> usize {
    match jobs {
        // Whoever starts us may have said how many.
        1 => rayon::current_num_threads(),
        jobs => (thread::available_parallelism().map_or(1, usize::from) / jobs).max(1),
    }
}

/// Follows nothing.
pub(super) struct Unwatched;

impl SweepWatch for Unwatched {
    fn run(&mut self, _: &str) -> Box<dyn Watch> {
        Box::new(crate::train::Silent)
    }

    fn ended(&mut self, _: Ended<'_>) {}
}

/// How many runs of some items are over, of how many: an item can have several.
struct ItemCount {
    done: usize,
    of: usize,
}

impl ItemCount {
    fn new(items: &[Item]) -> Self {
        Self { done: 0, of: items.iter().map(Item::planned).sum() }
    }

    /// A run is over.
    fn run(&mut self) -> (usize, usize) {
        self.done += 1;
        self.now()
    }

    /// An item is over, of which so many runs were counted. What `failed` counts as one of the others; the rest will not come.
    fn item(&mut self, item: &Item, counted: usize, failed: bool) -> (usize, usize) {
        let rest = item.planned().saturating_sub(counted);
        let this = usize::from(failed).min(rest);
        self.done += this;
        self.of = self.of.saturating_sub(rest - this);
        self.now()
    }

    fn now(&mut self) -> (usize, usize) {
        self.of = self.of.max(self.done);
        (self.done, self.of)
    }
}

/// Processes at work, and what they have said.
struct Crew {
    queue: Queue,
    place: PathBuf,
    hands: Hands,
    heard: Heard,
    store: RunStore,
}

/// Who does the work.
enum Hands {
    Processes(Processes),
    Array(Array),
}

impl Crew {
    /// Waits until these items are over, and tells of their runs.
    fn wait(&mut self, part: Range<usize>, sweep: &mut Sweep<'_>) -> Result<()> {
        // Of each item, how many of its runs were told; of all, those that are over.
        let (mut told, mut over) = (BTreeMap::<usize, usize>::new(), BTreeSet::new());
        let mut count = ItemCount::new(&self.queue.items[part.clone()]);
        loop {
            self.heard.listen()?;
            for item in part.clone() {
                let runs = self.heard.runs.get(&item).map(Vec::as_slice).unwrap_or_default();
                let told = told.entry(item).or_default();
                for HeardRun { label, id, before } in &runs[*told..] {
                    let record = self.record(id)?;
                    let (done, of) = count.run();
                    sweep.watch.ended(Ended { done, of, label, result: Ok(&record), before: *before });
                }
                *told = runs.len();
                let Some(failed) = self.heard.ended.get(&item).filter(|_| over.insert(item)) else { continue };
                let (work, told) = (&self.queue.items[item], *told);
                let (done, of) = count.item(work, told, failed.is_some());
                if let Some(reason) = failed {
                    let label = &work.describe(sweep.lab);
                    sweep.watch.ended(Ended { done, of, label, result: Err(reason), before: false });
                }
            }
            if over.len() == part.len() {
                sweep.watch.working(&BTreeMap::new());
                return Ok(());
            }
            sweep.watch.working(&self.heard.doing());
            if sweep.stop.requested() {
                sweep.watch.working(&BTreeMap::new());
                self.leave(sweep.watch)?;
                bail!(INTERRUPTED);
            }
            match &mut self.hands {
                Hands::Processes(processes) => processes.tend(&self.place, &self.queue, &mut self.heard)?,
                Hands::Array(array) => array.tend(&mut self.heard)?,
            }
            thread::sleep(LOOK);
        }
    }

    /// Lets processes end what they do in good order; jobs of a cluster may go on.
    fn leave(&mut self, watch: &mut dyn SweepWatch) -> Result<()> {
        match &mut self.hands {
            Hands::Processes(_) => self.end_processes(),
            Hands::Array(array) => {
                let jobs = array.jobs().into_iter().collect::<Vec<_>>().join(", ");
                if watch.cancels(&jobs) {
                    array.cancel()?;
                    bail!("interrupted, and job {jobs} cancelled; run the same command again to continue");
                }
                let place = self.place.display();
                bail!("interrupted; job {jobs} goes on: `adapter-lab runs watch {place}` follows it");
            }
        }
        Ok(())
    }

    /// Waits until processes of ours have ended what they do in good order.
    fn end_processes(&mut self) {
        if let Hands::Processes(processes) = &mut self.hands {
            processes.leave();
            // What they said last.
            let _ = self.heard.listen();
            let _ = fs::remove_dir_all(&self.place);
        }
    }

    /// Whether anybody began any of these items.
    fn has_begun(&self, part: &Range<usize>) -> bool {
        let heard = &self.heard;
        heard.begun.keys().chain(heard.ended.keys()).chain(heard.runs.keys()).any(|item| part.contains(item))
    }

    fn record(&self, id: &str) -> Result<RunRecord> {
        self.store.finished(id)?.with_context(|| format!("run {id} has no record"))
    }

    /// What became of the runs among these items.
    fn outcomes(&self, part: Range<usize>) -> Result<Vec<RunOutcome>> {
        let mut outcomes = Vec::new();
        for item in part {
            let (Item::Train(config) | Item::Ablate(config)) = &self.queue.items[item] else { continue };
            let run = self.heard.runs.get(&item).and_then(|runs| runs.first());
            let result = match (self.heard.ended.get(&item), run) {
                (Some(Some(reason)), _) => Err(reason.clone()),
                (Some(None), Some(run)) => Ok(self.record(&run.id)?),
                _ => continue,
            };
            outcomes.push((config.clone(), result));
        }
        Ok(outcomes)
    }

    /// Why items failed, by their place in `part`.
    fn failures(&self, part: Range<usize>) -> BTreeMap<usize, String> {
        let reason = |item: usize| Some((item - part.start, self.heard.ended.get(&item)?.clone()?));
        part.clone().filter_map(reason).collect()
    }

    /// The work is done: what was said about it is worth nothing any more, unless something went wrong.
    fn dismiss(self) {
        if let Hands::Array(array) = &self.hands {
            // Jobs that wait, for a node that is gone or for others that may die, wait in vain.
            let _ = array.cancel();
        }
        let alone = matches!(self.hands, Hands::Processes(_));
        drop(self.hands);
        if let (true, Some(runs)) = (alone, &self.queue.context.runs) {
            // What they could not deliver.
            let ids = self.heard.runs.values().flatten().filter(|run| !run.before).map(|run| run.id.as_str());
            deliver_finished(&self.queue.context.track, runs, ids);
        }
        if self.heard.ended.values().all(Option::is_none) {
            let _ = fs::remove_dir_all(&self.place);
        }
    }
}

/// Processes of this machine.
struct Processes {
    /// How many there are to be.
    jobs: usize,
    running: Vec<(String, Child)>,
    started: usize,
    /// How many were killed while they had no item, or one that others share, since an item last ended.
    lost: usize,
    /// How many items had ended then.
    over: usize,
}

impl Processes {
    fn new(jobs: usize) -> Self {
        Self { jobs, running: Vec::new(), started: 0, lost: 0, over: 0 }
    }

    /// Starts what is to start, and says which item a process had that died.
    fn tend(&mut self, place: &Path, queue: &Queue, heard: &mut Heard) -> Result<()> {
        let mut died = Vec::new();
        for (name, child) in &mut self.running {
            if let Some(status) = child.try_wait()? {
                died.push((name.clone(), status));
            }
        }
        if !died.is_empty() {
            // It may have said something before it went.
            heard.listen()?;
        }
        if heard.ended.len() > self.over {
            (self.lost, self.over) = (0, heard.ended.len());
        }
        self.running.retain(|(name, _)| !died.iter().any(|(gone, _)| gone == name));
        for (name, status) in died {
            let log = log_of(place, &name);
            let item = heard.at.remove(&name).filter(|item| !heard.ended.contains_key(item));
            let shared = item.is_some_and(|item| queue.items[item].is_shared());
            if shared && status.code().is_none() && self.lost < MOST_LOST {
                // It was killed, and others share what it did: another takes its place.
                self.lost += 1;
            } else if let Some(item) = item {
                let failed = Some(format!("its process ended ({status}); log: {}", log.display()));
                Teller::new(place, "parent").tell(&Event::Ended { item, failed })?;
            } else if status.code() != Some(LEFT_EARLY) && !status.success() {
                // It may be killed before it has anything to do, or between two items: another takes its place. One that ends by
                // itself would end again.
                self.lost += 1;
                if status.code().is_some() || self.lost > MOST_LOST {
                    let why = heard.left.get(&name).cloned().unwrap_or_else(|| status.to_string());
                    bail!("{why}; log: {}", log.display());
                }
            }
        }
        let free = heard.free(queue, Duration::MAX);
        // Shared work has room for all.
        let shared = free.iter().any(|item| queue.items[*item].is_shared());
        while self.running.len() < if shared { self.jobs } else { self.jobs.min(free.len()) } {
            self.start(place)?;
        }
        Ok(())
    }

    fn start(&mut self, place: &Path) -> Result<()> {
        let name = format!("local-{}-{}", std::process::id(), self.started);
        let log = log_of(place, &name);
        let log = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let threads = threads_of(self.jobs).to_string();
        let mut command = Command::new(this_program()?);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, "adapter-lab");
        let child = command
            .args(["work", "--tended", "--name", &name])
            .arg(place)
            .env("RAYON_NUM_THREADS", &threads)
            // libtorch counts its threads itself.
            .env("OMP_NUM_THREADS", &threads)
            // Its end tells the process that we are gone, however we went.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a process")?;
        self.running.push((name, child));
        self.started += 1;
        Ok(())
    }

    fn leave(&mut self) {
        for (_, child) in &mut self.running {
            drop(child.stdin.take());
        }
        for (_, child) in &mut self.running {
            let _ = child.wait();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            // Whatever it does, nobody waits for it.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// What a process prints.
fn log_of(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{name}.log"))
}

/// This very program, even if its file was replaced since it was started.
fn this_program() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe().context("cannot find this program") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{run::FileOptions, search::SearchOptions};

    /// A search of thirteen trials: nine, three that go on, and another seed.
    fn search() -> Item {
        let options = SearchOptions { trials: 9, samples: vec![1, 2], seeds: 2, ..SearchOptions::default() };
        Item::Search(Search { task: "syn-topic".to_owned(), files: FileOptions::default(), options })
    }

    #[test]
    fn work_is_counted_in_runs_and_not_in_items() {
        let items = [search(), search()];
        let mut count = ItemCount::new(&items);
        assert_eq!(
            (1..=13).map(|_| count.run()).collect::<Vec<_>>(),
            (1..=13).map(|done| (done, 26)).collect::<Vec<_>>()
        );
        assert_eq!(count.item(&items[0], 13, false), (13, 26));
        assert_eq!(count.run(), (14, 26));
        // It fails after one of its trials: eleven of the other twelve will never come.
        assert_eq!(count.item(&items[1], 1, true), (15, 15));
    }

    #[test]
    fn a_run_that_was_counted_is_not_counted_again_when_its_ablation_fails() {
        let items = [search()];
        let mut count = ItemCount::new(&items);
        for _ in 0..13 {
            count.run();
        }
        assert_eq!(count.item(&items[0], 13, true), (13, 13));
    }
}
