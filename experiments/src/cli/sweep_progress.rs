//! How far a sweep is: a line for each run that is over, and how long the rest will take.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use analysis::{RunRecord, Status};
use serde_json::{Value, json};

use super::{
    bars::Bars,
    log::{self, Level},
    progress::{Progress, fitted},
};
use crate::{
    run::kept_evaluation,
    search::SearchLeft,
    sweep::{Estimate, duration},
    train::{Doing, Ended, SweepWatch, Watch},
};

/// A line on standard error for each run of a sweep that is trained: what came out, and how long the rest will take.
pub struct SweepProgress {
    quiet: bool,
    pace: Pace,
    count: Count,
    /// The experiment under way.
    experiment: String,
    /// Whether a cluster's jobs are cancelled without asking.
    cancels: bool,
    /// What other processes do, on a terminal.
    bars: Bars,
    /// Elsewhere: when that was last said.
    said: Instant,
}

/// How many runs are over.
#[derive(Default)]
struct Count {
    /// Runs of the experiment under way that were finished before.
    before: usize,
    /// Of several experiments: runs that were trained, and all that are to be.
    all: Option<(usize, usize)>,
    /// Whether what was finished before is among these: nobody knows a search's trials beforehand.
    holds_finished: bool,
}

impl Count {
    /// Counts a run that is over; `None` if it was so before, else how many are over and how many there are.
    fn over(&mut self, ended: &Ended<'_>) -> Option<(usize, usize)> {
        if ended.before {
            self.before += 1;
            if let (Some((done, of)), true) = (&mut self.all, self.holds_finished) {
                *of = of.saturating_sub(1).max(*done);
            }
            return None;
        }
        let Some((done, of)) = &mut self.all else { return Some((ended.done, ended.of)) };
        *done += 1;
        *of = (*of).max(*done);
        Some((*done, *of))
    }
}

impl SweepProgress {
    /// Shows nothing but failures if `quiet`; a log for programs is not for the terminal that a result goes to.
    pub fn new(quiet: bool) -> Self {
        let quiet = quiet && !log::is_json();
        let (pace, count, experiment, bars) = Default::default();
        Self { quiet, pace, count, experiment, cancels: false, bars, said: Instant::now() }
    }

    /// Cancels a cluster's jobs without asking, when it is interrupted.
    pub fn cancelling(mut self, unasked: bool) -> Self {
        self.cancels = unasked;
        self
    }

    /// Counts towards all runs of several experiments, and knows how long they are expected to take.
    pub fn of_all(mut self, estimate: &Estimate) -> Self {
        self.count.all = Some((0, estimate.runs + estimate.trials));
        self.pace.expected = Some(Expected::new(estimate));
        self
    }

    /// How many runs of the last experiment were finished before, as a part of a sentence.
    pub fn before(&self) -> String {
        match self.count.before {
            0 => String::new(),
            runs => format!(" ({runs} already finished)"),
        }
    }
}

impl SweepWatch for SweepProgress {
    fn run(&mut self, label: &str) -> Box<dyn Watch> {
        Box::new(if self.quiet { Progress::Quiet } else { Progress::line(&format!("{label}  ")) })
    }

    fn experiment(&mut self, name: &str, search: bool) {
        (self.experiment, self.count.before, self.count.holds_finished) = (format!("{name}  "), 0, search);
    }

    fn concluded(&mut self, name: &str, said: &str) {
        if let Some(expected) = &mut self.pace.expected {
            expected.by_search.remove(name);
        }
        if !self.quiet {
            let text = format!("{name} is done{}{said}", self.before());
            self.bars.say(Level::Progress, "experiment", &text, || json!({ "experiment": name }));
        }
    }

    fn cancels(&mut self, jobs: &str) -> bool {
        if self.cancels || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return self.cancels;
        }
        self.bars.clear();
        let _ = write!(io::stderr(), "cancel job {jobs}? [y/N] ").and_then(|()| io::stderr().flush());
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
    }

    fn ended(&mut self, ended: Ended<'_>) {
        let Some((done, of)) = self.count.over(&ended) else {
            self.pace.was_there(ended.label);
            return;
        };
        let Ended { label, result, .. } = ended;
        let left = self.pace.left(self.experiment.trim(), label, (done, of));
        self.bars.whole(done, of, left.trim_start_matches(", "));
        let experiment = self.experiment.trim();
        let about = |own: Value| {
            let mut about = json!({ "experiment": experiment, "run": label, "done": done, "of": of });
            if let (Value::Object(all), Value::Object(own)) = (&mut about, own) {
                all.extend(own);
            }
            about
        };
        let begin = format!("[{done}/{of}{left}] {}", self.experiment);
        match result {
            Ok(_) if self.quiet => {}
            Ok(record) => self.bars.say(Level::Progress, "run", &fitted(&format!("{begin}{}: {label}", score(record))), || {
                let kept = kept_evaluation(record);
                about(json!({ "id": record.id, "status": record.status, "validation": kept.map(|kept| &kept.validation) }))
            }),
            // What failed is said in full.
            Err(error) => {
                self.bars.say(Level::Failure, "failed", &format!("{begin}{label}: {error}"), || about(json!({ "error": error })));
            }
        }
    }

    fn working(&mut self, doing: &BTreeMap<String, Doing>) {
        if self.quiet {
            return;
        }
        if log::on_terminal() {
            return self.bars.show(doing);
        }
        if self.said.elapsed() < SELDOM {
            return;
        }
        self.said = Instant::now();
        for Doing { label, step, of } in doing.values().filter(|doing| doing.of > 0) {
            log::say(
                Level::Progress,
                "step",
                &format!("step {step}/{of}: {label}"),
                || json!({ "run": label, "step": step, "of": of }),
            );
        }
    }
}

/// Time between two lines about runs that take long, in a log.
const SELDOM: Duration = Duration::from_secs(60);

/// What a process of a sweep says in its log.
pub struct WorkerLog;

impl SweepWatch for WorkerLog {
    fn run(&mut self, label: &str) -> Box<dyn Watch> {
        log::progress(label);
        Box::new(Progress::line(""))
    }

    fn ended(&mut self, Ended { label, result, .. }: Ended<'_>) {
        log::progress(&match result {
            Ok(record) => format!("{label}: run {}", record.id),
            Err(reason) => format!("{label}: {reason}"),
        });
    }
}

/// How fast runs end.
#[derive(Default)]
struct Pace {
    /// How many were over when the last ones ended, and when that was.
    ends: VecDeque<(usize, Instant)>,
    /// How long all were expected to take, if anybody knew.
    expected: Option<Expected>,
}

impl Pace {
    const RUNS: usize = 24;

    /// A run was finished already; what else was to be done with it, such as an ablation, is over too.
    fn was_there(&mut self, label: &str) {
        if let Some(seconds) = self.expected.as_mut().and_then(|expected| expected.by_run.get_mut(label)) {
            seconds.pop();
        }
    }

    /// A run of `experiment` ended, and so many are over, of how many: how long the rest will take, as a part of a sentence.
    fn left(&mut self, experiment: &str, label: &str, (done, of): (usize, usize)) -> String {
        let elapsed = self.expected.as_ref().map(|expected| expected.since.elapsed()).unwrap_or_default();
        let expected = self.expected.as_mut().and_then(|expected| expected.left(experiment, label, elapsed));
        let seconds = self.by_number(done, of);
        let seconds = expected.or(seconds).filter(|_| done < of);
        seconds.map_or(String::new(), |seconds| format!(", {} left", duration(seconds)))
    }

    /// As if each took as long as the last ones; a few, because runs of different experiments take different times.
    fn by_number(&mut self, done: usize, of: usize) -> Option<f64> {
        // `runs watch` counts pieces of work, but is told of every run in them.
        if self.ends.back().is_none_or(|(last, _)| *last != done) {
            self.ends.push_back((done, Instant::now()));
        }
        if self.ends.len() > Self::RUNS {
            self.ends.pop_front();
        }
        let ends = self.ends.len() - 1;
        let since = || self.ends[0].1.elapsed().as_secs_f64();
        (ends >= Self::RUNS / 4).then(|| since() / ends as f64 * of.saturating_sub(done) as f64)
    }
}

/// What runs were expected to take, in seconds of one process.
struct Expected {
    since: Instant,
    jobs: f64,
    /// Those that are not over; some are called the same.
    by_run: BTreeMap<String, Vec<f64>>,
    /// What is left of searches, by experiment.
    by_search: BTreeMap<String, SearchLeft>,
    whole: f64,
}

impl Expected {
    /// This part of the whole counts as if it had taken what was expected: the first runs say little.
    const TRUST: f64 = 0.1;

    fn new(estimate: &Estimate) -> Self {
        let Estimate { by_run, by_search, jobs, .. } = estimate.clone();
        let mut expected = Self { since: Instant::now(), jobs: jobs as f64, whole: 0.0, by_run, by_search };
        expected.whole = expected.rest();
        expected
    }

    /// Seconds of what is not over.
    fn rest(&self) -> f64 {
        let searches: f64 = self.by_search.values().map(|left| left.seconds).sum();
        self.by_run.values().flatten().sum::<f64>() + searches
    }

    /// A run of `experiment` ended, so long after the beginning: seconds until all are over. `None` if no more are expected.
    fn left(&mut self, experiment: &str, label: &str, elapsed: Duration) -> Option<f64> {
        if let Some(search) = self.by_search.get_mut(experiment) {
            // Nobody knows which trials come: each counts the same.
            search.seconds -= search.seconds / search.trials.max(1) as f64;
            search.trials = search.trials.saturating_sub(1);
        } else if let Some(runs) = self.by_run.get_mut(label) {
            runs.pop();
        }
        let rest = self.rest();
        let trusted = Self::TRUST * self.whole;
        let slower = (trusted + self.jobs * elapsed.as_secs_f64()) / (trusted + self.whole - rest);
        (rest > 0.0).then_some(rest / self.jobs * slower)
    }
}

fn score(record: &RunRecord) -> String {
    let kept = kept_evaluation(record).map(|kept| format!("{} {:.4}", kept.metric, kept.validation[&kept.metric]));
    let text = kept.filter(|_| record.status == Status::Finished).unwrap_or_else(|| "diverged".to_owned());
    format!("{text} ({:.0} s)", record.measured.training_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_was_expected_and_how_it_goes() {
        let by_run = BTreeMap::from([("short".to_owned(), vec![100.0]), ("long".to_owned(), vec![900.0])]);
        let mut expected =
            Expected { since: Instant::now(), jobs: 2.0, by_run, by_search: BTreeMap::new(), whole: 1000.0 };
        let mut left = |label: &str, seconds| expected.left("fig4", label, Duration::from_secs(seconds));
        // As expected: two processes took 50 s for 100 s of work.
        assert!((left("short", 50).unwrap() - 450.0).abs() < 1e-9);
        // Twice as slow as expected.
        assert!((left("unknown", 150).unwrap() - 900.0).abs() < 1e-9);
        assert_eq!(left("long", 600), None);
    }

    #[test]
    fn what_is_left_holds_searches_and_every_run_that_is_called_the_same() {
        let by_run = BTreeMap::from([("a run".to_owned(), vec![100.0, 100.0])]);
        let by_search = BTreeMap::from([("baseline".to_owned(), SearchLeft { trials: 4, seconds: 80.0 })]);
        let mut expected = Expected { since: Instant::now(), jobs: 1.0, by_run, by_search, whole: 280.0 };
        // Each ends when it was expected to.
        for (experiment, label, elapsed, rest) in
            [("fig4", "a run", 100, 180.0), ("baseline", "a trial", 120, 160.0), ("fig5", "a run", 220, 60.0)]
        {
            let left = expected.left(experiment, label, Duration::from_secs(elapsed)).unwrap();
            assert!((left - rest).abs() < 1e-9, "{label} of {experiment}: {left}");
        }
    }

    /// `runs watch` counts searches, and is told of every trial.
    #[test]
    fn what_is_left_is_counted_in_what_is_counted() {
        let mut pace = Pace::default();
        let told = |pace: &mut Pace, done| (0..20).filter_map(|_| pace.by_number(done, 9)).last();
        assert_eq!(told(&mut pace, 1), None, "twenty trials of the first search");
        let left = (2..=8).filter_map(|done| told(&mut pace, done)).last();
        assert!(left.is_some() && pace.ends.len() == 8);
    }

    fn ended(done: usize, before: bool) -> Ended<'static> {
        Ended { done, of: 9, label: "a run", result: Err("it failed"), before }
    }

    #[test]
    fn one_experiment_counts_as_it_is_told() {
        let mut count = Count::default();
        assert_eq!(
            [false, true, false].map(|before| count.over(&ended(5, before))),
            [Some((5, 9)), None, Some((5, 9))]
        );
        assert_eq!(count.before, 1);
    }

    #[test]
    fn several_experiments_count_what_is_trained_and_end_where_they_said() {
        let mut count = Count { all: Some((0, 3)), ..Count::default() };
        let counted = [false, true, false, false].map(|before| count.over(&ended(1, before)));
        assert_eq!(counted, [Some((1, 3)), None, Some((2, 3)), Some((3, 3))]);
        // More than was counted: the whole grows with it.
        assert_eq!(count.over(&ended(1, false)), Some((4, 4)));
    }

    #[test]
    fn trials_that_were_there_are_taken_off_the_whole() {
        let mut count = Count { all: Some((2, 6)), holds_finished: true, ..Count::default() };
        let counted = [true, true, false, false].map(|before| count.over(&ended(1, before)));
        assert_eq!(counted, [None, None, Some((3, 4)), Some((4, 4))]);
    }
}
