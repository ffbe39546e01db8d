//! How far a run is, for whoever watches.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use analysis::{Evaluation, RunRecord, Status};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

#[cfg(feature = "dashboard")]
use super::dashboard::Dashboard;
use super::log::{self, Level};
use crate::{
    run::kept_evaluation,
    sweep::{Estimate, duration},
    train::{Doing, Ended, Step, Stop, SweepWatch, Watch},
};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// A dashboard on a terminal if it was built in, else a line; nothing with --json
    Auto,
    /// Burn's dashboard: curves of loss, scores and adapters (build with `--features dashboard`)
    Dashboard,
    /// One line: how far, how fast, how long still
    Line,
    /// Nothing
    None,
}

/// Progress as it is shown.
pub enum Progress {
    /// Not at all.
    Quiet,
    /// On one line of standard error.
    Line(ProgressLine),
    /// On the whole terminal.
    #[cfg(feature = "dashboard")]
    Dashboard(Box<Dashboard>),
}

/// One line on standard error: how far, how fast, how long still.
pub struct ProgressLine {
    label: String,
    /// The first step of this process, and when it was taken.
    first: Option<(usize, Instant)>,
    shown: Option<Instant>,
}

impl Progress {
    /// Progress of one run.
    ///
    /// # Errors
    /// If there is no terminal for a dashboard, or JSON is to be printed on it.
    pub fn of_run(show: Show, json: bool, label: &str, stop: &Stop) -> Result<Self> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
        let room = terminal && !json;
        Ok(match show {
            Show::None => Progress::Quiet,
            Show::Auto if json => Progress::Quiet,
            Show::Auto if room => Self::dashboard(label, stop).unwrap_or_else(|| Progress::line("")),
            Show::Auto | Show::Line => Progress::line(""),
            Show::Dashboard if !room => bail!("--progress dashboard needs a terminal, and goes without --json"),
            Show::Dashboard => Self::dashboard(label, stop)
                .context("--progress dashboard: this program was built without it; add `--features dashboard`")?,
        })
    }

    /// Burn's dashboard, if it is built in.
    #[cfg(feature = "dashboard")]
    fn dashboard(label: &str, stop: &Stop) -> Option<Self> {
        Some(Progress::Dashboard(Box::new(Dashboard::new(label, stop.clone()))))
    }

    /// Burn's dashboard, if it is built in.
    #[cfg(not(feature = "dashboard"))]
    fn dashboard(_: &str, _: &Stop) -> Option<Self> {
        None
    }

    /// A line that begins with `label`.
    pub fn line(label: &str) -> Self {
        Progress::Line(ProgressLine { label: label.to_owned(), first: None, shown: None })
    }
}

impl Watch for Progress {
    fn scored_by(&mut self, _metrics: &[String]) {
        match self {
            #[cfg(feature = "dashboard")]
            Progress::Dashboard(dashboard) => dashboard.scored_by(_metrics),
            Progress::Quiet | Progress::Line(_) => {}
        }
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match self {
            Progress::Quiet => Ok(()),
            Progress::Line(line) => line.step(step),
            #[cfg(feature = "dashboard")]
            Progress::Dashboard(dashboard) => dashboard.step(step),
        }
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        match self {
            #[cfg(feature = "dashboard")]
            Progress::Dashboard(dashboard) => return dashboard.evaluation(evaluation),
            Progress::Quiet => say_evaluation("", evaluation),
            Progress::Line(line) => say_evaluation(&line.label, evaluation),
        }
        Ok(())
    }

    fn note(&mut self, text: &str) {
        match self {
            #[cfg(feature = "dashboard")]
            Progress::Dashboard(dashboard) => dashboard.note(text),
            Progress::Quiet | Progress::Line(_) => Notes.note(text),
        }
    }

    fn shows_deviations(&self) -> bool {
        match self {
            #[cfg(feature = "dashboard")]
            Progress::Dashboard(_) => true,
            Progress::Quiet | Progress::Line(_) => false,
        }
    }
}

fn say_evaluation(label: &str, evaluation: &Evaluation) {
    let Evaluation { epoch, steps, loss, validation } = evaluation;
    let scores: Vec<String> = validation.iter().map(|(metric, score)| format!("{metric} {score:.4}")).collect();
    let text = format!("{label}epoch {epoch}  step {steps}  loss {loss:.4}  {}", scores.join("  "));
    log::say(
        Level::Detail,
        "evaluation",
        &text,
        || json!({ "run": label.trim(), "epoch": epoch, "step": steps, "loss": loss, "validation": validation }),
    );
}

/// Says what a user should know on standard error, and nothing else.
pub struct Notes;

impl Watch for Notes {
    fn step(&mut self, _: &Step) -> Result<()> {
        Ok(())
    }

    fn note(&mut self, text: &str) {
        log::note(text);
    }
}

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
            1 => " (1 run was there)".to_owned(),
            runs => format!(" ({runs} runs were there)"),
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
        let Some((done, of)) = self.count.over(&ended) else { return };
        let Ended { label, result, .. } = ended;
        let left = self.pace.left(label, of - done);
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

/// A bar for each process and one for the whole, below what is said. Without a terminal there are none.
#[derive(Default)]
struct Bars {
    shown: Option<MultiProgress>,
    whole: Option<ProgressBar>,
    processes: BTreeMap<String, ProgressBar>,
}

impl Bars {
    fn show(&mut self, doing: &BTreeMap<String, Doing>) {
        if doing.is_empty() || !log::says(Level::Progress) {
            return self.clear();
        }
        let shown = self.shown.get_or_insert_with(MultiProgress::new);
        for (name, Doing { label, step, of }) in doing {
            let bar = self.processes.entry(name.clone()).or_insert_with(|| shown.insert(0, bar("steps")));
            bar.set_length((*of).max(1) as u64);
            bar.set_position(*step as u64);
            bar.set_message(label.clone());
        }
        self.processes.retain(|name, bar| {
            let stays = doing.contains_key(name);
            if !stays {
                shown.remove(bar);
            }
            stays
        });
    }

    fn whole(&mut self, done: usize, of: usize, left: &str) {
        let Some(shown) = &self.shown else { return };
        let bar = self.whole.get_or_insert_with(|| shown.add(bar("runs")));
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(left.to_owned());
    }

    /// Says something above the bars.
    fn say(&self, level: Level, event: &str, text: &str, about: impl FnOnce() -> Value) {
        match &self.shown {
            Some(shown) => {
                // They are drawn again with the next step. `suspend` would panic on a terminal that is gone.
                let _ = shown.clear();
                log::say(level, event, text, about);
            }
            None => log::say(level, event, text, about),
        }
    }

    fn clear(&mut self) {
        if let Some(shown) = self.shown.take() {
            let _ = shown.clear();
        }
        (self.whole, self.processes) = Default::default();
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(unit: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{bar:20}} {{pos:>6}}/{{len}} {unit}  {{wide_msg}}"));
    ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The line, cut to the width of the terminal that it goes to.
fn fitted(line: &str) -> String {
    match terminal_width() {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

/// How many characters a line of standard error has, if that is a terminal.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// How many characters a line of standard error has, if that is a terminal.
#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    io::stderr().is_terminal().then_some(80)
}

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

impl Watch for ProgressLine {
    fn step(&mut self, step: &Step) -> Result<()> {
        let (first, since) = *self.first.get_or_insert((step.step, Instant::now()));
        // Often enough to watch, seldom enough for a log.
        let on_terminal = log::on_terminal();
        let pause = Duration::from_secs_f64(if on_terminal { 0.2 } else { 30.0 });
        let taken = step.step - first;
        if taken == 0 || self.shown.unwrap_or(since).elapsed() < pause {
            return Ok(());
        }
        self.shown = Some(Instant::now());
        let each = since.elapsed().as_secs_f64() / taken as f64;
        let left = each * (step.of - step.step) as f64;
        let Step { step, of, loss, rate, tokens_per_second, .. } = step;
        let line = format!(
            "{}step {step}/{of}  loss {loss:.4}  rate {rate:.2e}  {tokens_per_second:.0} tokens/s  {left:.0} s left",
            self.label
        );
        if on_terminal {
            log::show_line(&fitted(&line));
        } else {
            log::say(Level::Progress, "step", &line, || {
                let run = self.label.trim();
                json!({ "run": run, "step": step, "of": of, "loss": loss, "rate": rate, "tokens_per_second": tokens_per_second })
            });
        }
        Ok(())
    }
}

impl Drop for ProgressLine {
    /// Takes the line away.
    fn drop(&mut self) {
        log::clear_line();
    }
}

/// How fast runs end.
#[derive(Default)]
struct Pace {
    /// When the last ones ended.
    ends: VecDeque<Instant>,
    /// How long all were expected to take, if anybody knew.
    expected: Option<Expected>,
}

impl Pace {
    const RUNS: usize = 24;

    /// A run ended, and `rest` are left: how long they will take, as a part of a sentence.
    fn left(&mut self, label: &str, rest: usize) -> String {
        let expected = self.expected.as_mut().and_then(|expected| expected.left(label, expected.since.elapsed()));
        let seconds = self.by_number(rest);
        let seconds = expected.or(seconds).filter(|_| rest > 0);
        seconds.map_or(String::new(), |seconds| format!(", {} left", duration(seconds)))
    }

    /// As if each took as long as the last ones; a few, because runs of different experiments take different times.
    fn by_number(&mut self, rest: usize) -> Option<f64> {
        self.ends.push_back(Instant::now());
        if self.ends.len() > Self::RUNS {
            self.ends.pop_front();
        }
        let runs = self.ends.len() - 1;
        (runs >= Self::RUNS / 4).then(|| self.ends[0].elapsed().as_secs_f64() / runs as f64 * rest as f64)
    }
}

/// What runs were expected to take, in seconds of one process.
struct Expected {
    since: Instant,
    jobs: f64,
    /// Those that are not over.
    by_run: BTreeMap<String, f64>,
    whole: f64,
}

impl Expected {
    /// This part of the whole counts as if it had taken what was expected: the first runs say little.
    const TRUST: f64 = 0.1;

    fn new(estimate: &Estimate) -> Self {
        let by_run = estimate.by_run.clone();
        Self { since: Instant::now(), jobs: estimate.jobs as f64, whole: by_run.values().sum(), by_run }
    }

    /// A run ended, so long after the beginning: seconds until all are over. `None` if no more are expected.
    fn left(&mut self, label: &str, elapsed: Duration) -> Option<f64> {
        self.by_run.remove(label);
        let rest: f64 = self.by_run.values().sum();
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
        let by_run = BTreeMap::from([("short".to_owned(), 100.0), ("long".to_owned(), 900.0)]);
        let mut expected = Expected { since: Instant::now(), jobs: 2.0, by_run, whole: 1000.0 };
        // As expected: two processes took 50 s for 100 s of work.
        let left = expected.left("short", Duration::from_secs(50)).unwrap();
        assert!((left - 450.0).abs() < 1e-9, "{left}");
        // Twice as slow as expected.
        let left = expected.left("unknown", Duration::from_secs(150)).unwrap();
        assert!((left - 900.0).abs() < 1e-9, "{left}");
        assert_eq!(expected.left("long", Duration::from_secs(600)), None);
    }

    fn ended(done: usize, before: bool) -> Ended<'static> {
        Ended { done, of: 9, label: "a run", result: Err("it failed"), before }
    }

    /// A terminal that was closed.
    #[derive(Debug)]
    struct Gone;

    impl indicatif::TermLike for Gone {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            self.flush()
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            self.flush()
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            self.flush()
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            self.flush()
        }
        fn write_line(&self, _: &str) -> io::Result<()> {
            self.flush()
        }
        fn write_str(&self, _: &str) -> io::Result<()> {
            self.flush()
        }
        fn clear_line(&self) -> io::Result<()> {
            self.flush()
        }
        fn flush(&self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_terminal_that_is_gone_ends_no_work() {
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(Gone));
        let mut bars = Bars::default();
        bars.shown = Some(MultiProgress::with_draw_target(target));
        let doing = Doing { label: "a run".to_owned(), step: 1, of: 2 };
        for step in 0..5 {
            bars.show(&BTreeMap::from([(format!("process {}", step % 2), doing.clone())]));
            bars.whole(step, 5, "");
            bars.say(Level::Note, "note", "said above the bars", || Value::Null);
        }
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
