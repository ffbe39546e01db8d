//! A process that works at a queue, on this machine or on another.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use analysis::Status;
use anyhow::Result;

use super::{
    plan::{ablation, learn_stream},
    queue::{Event, Heard, Item, Queue, Teller},
};
use crate::{
    lab::Lab,
    run::{BUSY_PAUSE, RunContext, Runner, stale_after},
    train::{Doing, Ended, RunError, Step, Stop, SweepWatch, Watch},
};

/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);

/// How often an item may be begun by processes that then vanish before it is taken for the reason.
const TRIES: usize = 3;

/// How a process ended its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// There was nothing left that it could do.
    Done,
    /// It was asked to stop, and something is left.
    Early {
        /// Whether it got anywhere.
        moved: bool,
    },
}

/// A process of the work in this folder.
pub struct Worker<'a> {
    /// What the runs can name.
    pub lab: &'a Lab,
    /// Ends its work in good order.
    pub stop: &'a Stop,
    /// What it is called: no other process has this name.
    pub name: String,
    /// Whether somebody looks after it, and starts another if it dies. Then it need not look after others.
    pub tended: bool,
}

impl Worker<'_> {
    /// Takes items of the queue until none is left that is not somebody else's.
    ///
    /// # Errors
    /// If the queue cannot be read or written, or its device fails.
    pub fn work(&self, place: &Path, watch: &mut dyn SweepWatch) -> Result<Left> {
        let (queue, teller) = (Queue::read(place)?, Teller::new(place, &self.name));
        let now = Arc::new(Mutex::new(Doing::default()));
        teller.beat(&Doing::default());
        let (_end, ended) = channel::<()>();
        let (signs, doing) = (teller.clone(), now.clone());
        thread::spawn(move || {
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                signs.beat(&lock(&doing).clone());
            }
        });
        let result = self.take_all(&queue, place, &teller, &now, watch);
        let why = match &result {
            Ok(Left::Done) => "it found no unclaimed work left".to_owned(),
            Ok(Left::Early { .. }) => "it was asked to stop".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        teller.tell(&Event::Left { why })?;
        result
    }

    fn take_all(
        &self,
        queue: &Queue,
        place: &Path,
        teller: &Teller,
        now: &Arc<Mutex<Doing>>,
        watch: &mut dyn SweepWatch,
    ) -> Result<Left> {
        let mut runner = Runner::new(self.lab, &queue.context, self.stop.clone())?;
        let (mut heard, mut idle) = (Heard::new(place), None::<Instant>);
        // Those that a process outside of this queue has are tried again after all others.
        let mut busy = Vec::new();
        let mut moved = false;
        loop {
            heard.listen()?;
            if heard.ended.len() == queue.items.len() {
                return Ok(Left::Done);
            }
            if self.stop.requested() {
                return Ok(Left::Early { moved });
            }
            let free = heard.free(queue, stale_after());
            let Some(number) = free.iter().find(|item| !busy.contains(*item)).copied() else {
                // Somebody has each of them. Whoever dies has been silent for long enough when we leave.
                let long = !self.tended && idle.get_or_insert_with(Instant::now).elapsed() < stale_after() + BEAT;
                if !long && free.is_empty() {
                    return Ok(Left::Done);
                }
                busy.clear();
                thread::sleep(BUSY_PAUSE);
                continue;
            };
            idle = None;
            if heard.begun.get(&number).is_some_and(|tries| *tries >= TRIES) && !queue.items[number].is_shared() {
                let failed = Some(format!("{TRIES} processes began it, and none of them was heard of again"));
                teller.tell(&Event::Ended { item: number, failed })?;
                continue;
            }
            teller.tell(&Event::Began { item: number })?;
            let mut telling = Telling { item: number, teller, now: now.clone(), watch };
            let ended = do_item(&queue.items[number], &mut runner, &queue.context, self.stop, &mut telling);
            *lock(now) = Doing::default();
            let failed = match ended {
                Ok(()) => None,
                Err(RunError::Interrupted { step, .. }) => return Ok(Left::Early { moved: moved || step > 0 }),
                Err(RunError::Busy { .. }) => {
                    teller.tell(&Event::Paused { item: number })?;
                    busy.push(number);
                    continue;
                }
                // The device is no good for anything else.
                Err(error) if error.ends_everything() => return Err(error.explained(true)),
                Err(error) => Some(error.message()),
            };
            teller.tell(&Event::Ended { item: number, failed })?;
            moved = true;
        }
    }
}

/// Does one piece of work; what comes of it is in the store.
fn do_item(
    item: &Item,
    runner: &mut Runner<'_>,
    context: &RunContext,
    stop: &Stop,
    watch: &mut Telling<'_>,
) -> Result<(), RunError> {
    match item {
        Item::Train(config) | Item::Ablate(config) => {
            let label = config.describe(runner.lab());
            let run = runner.run(config, &mut *watch.run(&label))?;
            watch.ended(Ended { done: 1, of: 1, label: &label, result: Ok(&run.record), before: run.was_finished() });
            if matches!(item, Item::Ablate(_)) && run.record.status == Status::Finished {
                ablation(runner, config, &run.record)?;
            }
        }
        Item::Stream(runs) => drop(learn_stream(runner, runs, watch)?),
        Item::Search(search) => match search.run(runner.lab(), context, stop, watch) {
            Err(_) if stop.requested() => return Err(RunError::Interrupted { step: 0, kept: true }),
            searched => drop(searched?),
        },
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the others of an item's runs, beside whoever else follows them.
struct Telling<'a> {
    item: usize,
    teller: &'a Teller,
    now: Arc<Mutex<Doing>>,
    watch: &'a mut dyn SweepWatch,
}

impl SweepWatch for Telling<'_> {
    fn run(&mut self, label: &str) -> Box<dyn Watch> {
        *lock(&self.now) = Doing { label: label.to_owned(), ..Doing::default() };
        Box::new(Following { now: self.now.clone(), watch: self.watch.run(label) })
    }

    fn ended(&mut self, ended: Ended<'_>) {
        if let Ok(record) = ended.result {
            let (item, label, id, before) = (self.item, ended.label.to_owned(), record.id.clone(), ended.before);
            // What is not told is in the store all the same.
            let _ = self.teller.tell(&Event::Run { item, label, id, before });
        }
        self.watch.ended(ended);
    }
}

/// Follows a run for those who look at what a process does now.
struct Following {
    now: Arc<Mutex<Doing>>,
    watch: Box<dyn Watch>,
}

impl Watch for Following {
    fn scored_by(&mut self, metrics: &[String]) {
        self.watch.scored_by(metrics);
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let mut now = lock(&self.now);
        (now.step, now.of) = (step.step, step.of);
        drop(now);
        self.watch.step(step)
    }

    fn evaluation(&mut self, evaluation: &analysis::Evaluation) -> Result<()> {
        self.watch.evaluation(evaluation)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.watch.checkpoint()
    }

    fn note(&mut self, text: &str) {
        self.watch.note(text);
    }

    fn shows_deviations(&self) -> bool {
        self.watch.shows_deviations()
    }
}
