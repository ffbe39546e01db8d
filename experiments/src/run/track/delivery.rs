//! What a tracking server is told, on a thread of its own: no run waits for it.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use analysis::Evaluation;
use anyhow::Result;

use super::{
    super::StepLine,
    mlflow::{Mlflow, MlflowError},
};
use crate::lab::Keys;

/// Something that the server is to know.
pub(super) enum News {
    /// What a run did.
    Progress { id: String, keys: Keys, steps: Vec<StepLine>, evaluations: Vec<Evaluation> },
    /// A run in this folder is over. Whatever the server did not hear of it before is sent now.
    Finished { runs: PathBuf, id: String },
}

/// News that wait at most, those of finished runs aside: these are but a name.
const WAITING: usize = 200;
/// Pauses between attempts, in seconds.
const FIRST_PAUSE: u64 = 1;
const LONGEST_PAUSE: u64 = 60;

/// The thread that speaks to the server.
pub(super) struct Delivery {
    state: Mutex<State>,
    changed: Condvar,
    uri: String,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<News>,
    /// Whether some are being sent.
    sending: bool,
    /// Attempts that ended, whatever came of them.
    attempts: usize,
    /// Whether the last attempt failed.
    fails: bool,
    /// Somebody wants another attempt now.
    hurries: bool,
    /// What the user should know, and was not told yet.
    trouble: Option<String>,
}

static DELIVERY: OnceLock<Arc<Delivery>> = OnceLock::new();

impl Delivery {
    /// The thread of this process.
    ///
    /// # Errors
    /// If no server is named.
    pub fn of_process() -> Result<&'static Self> {
        if let Some(delivery) = DELIVERY.get() {
            return Ok(delivery);
        }
        let mlflow = Mlflow::from_environment()?;
        let new = Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), uri: mlflow.uri().to_owned() });
        let delivery = DELIVERY.get_or_init(|| new.clone());
        if Arc::ptr_eq(&new, delivery) {
            thread::spawn(move || new.deliver(mlflow));
        }
        Ok(delivery)
    }

    /// Puts news on the way.
    pub fn tell(&self, news: News) {
        let mut state = self.state();
        // What is left out is in the run's folder, and goes with the news that it is finished.
        if matches!(news, News::Finished { .. }) || state.waiting.len() < WAITING {
            state.waiting.push_back(news);
            self.changed.notify_all();
        }
    }

    /// What the user should know; once.
    pub fn trouble(&self) -> Option<String> {
        self.state().trouble.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, mut mlflow: Mlflow) {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut state = self.state();
            let news = loop {
                match state.waiting.pop_front() {
                    Some(news) => break news,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            state.sending = true;
            drop(state);
            let sent = match &news {
                News::Progress { id, keys, steps, evaluations } => mlflow.progress(id, keys, steps, evaluations),
                News::Finished { runs, id } => mlflow.finished(runs, id).map(drop),
            };
            let mut state = self.state();
            (state.sending, state.attempts) = (false, state.attempts + 1);
            match sent {
                Ok(()) => (state.fails, pause) = (false, FIRST_PAUSE),
                Err(MlflowError::Refused(error)) => {
                    (state.fails, pause) = (false, FIRST_PAUSE);
                    state.trouble = Some(format!("{error:#}"));
                }
                Err(away) => {
                    state.waiting.push_front(news);
                    if !state.fails {
                        state.trouble = Some(format!("{away}; runs go on without it"));
                    }
                    state.fails = true;
                    self.changed.notify_all();
                    let until = Instant::now() + Duration::from_secs(pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                    while !state.hurries && Instant::now() < until {
                        let rest = until.saturating_duration_since(Instant::now());
                        state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
                    }
                    state.hurries = false;
                }
            }
            self.changed.notify_all();
        }
    }

    /// Waits until all was sent, as long as the server takes it, but not longer than `limit`. Returns what the user should know.
    fn settle(&self, limit: Duration) -> Vec<String> {
        let until = Instant::now() + limit;
        let mut state = self.state();
        if state.fails {
            // It may be back.
            state.hurries = true;
            self.changed.notify_all();
        }
        let before = state.attempts;
        let is_done = |state: &State| {
            let gives_up = state.fails && state.attempts > before;
            gives_up || (state.waiting.is_empty() && !state.sending)
        };
        while !is_done(&state) && Instant::now() < until {
            let rest = until.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut notes: Vec<String> = state.trouble.take().into_iter().collect();
        if state.sending || !state.waiting.is_empty() {
            notes.push(format!(
                "MLflow at {} does not have everything: `adapter-lab runs sync` sends the rest",
                self.uri
            ));
        }
        notes
    }
}

/// Gives the tracking server a last chance to take what it was not told yet, for at most `limit`. Returns what the user should know.
pub fn settle_tracking(limit: Duration) -> Vec<String> {
    DELIVERY.get().map_or(Vec::new(), |delivery| delivery.settle(limit))
}
