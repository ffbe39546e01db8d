//! How far a run is, for whoever watches.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use analysis::Epoch;
use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{
    dashboard::Dashboard,
    trainer::{Step, Watch},
};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// A dashboard on a terminal, a line elsewhere; nothing with --json
    Auto,
    /// Burn's dashboard: curves of loss, scores and adapters
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
    Dashboard(Box<Dashboard>),
}

/// One line on standard error: how far, how fast, how long still.
pub struct ProgressLine {
    label: String,
    on_terminal: bool,
    /// The first step of this process, and when it was taken.
    first: Option<(usize, Instant)>,
    shown: Option<Instant>,
}

impl Progress {
    /// Progress of one run.
    ///
    /// # Errors
    /// If there is no terminal for a dashboard, or JSON is to be printed on it.
    pub fn of_run(show: Show, json: bool, label: &str) -> Result<Self> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
        let room = terminal && !json;
        Ok(match show {
            Show::Dashboard if !room => bail!("--progress dashboard needs a terminal, and goes without --json"),
            Show::Auto | Show::Dashboard if room => Progress::Dashboard(Box::new(Dashboard::new(label))),
            Show::None => Progress::Quiet,
            Show::Auto if json => Progress::Quiet,
            Show::Auto | Show::Line | Show::Dashboard => Progress::line(""),
        })
    }

    /// A line that begins with `label`.
    pub fn line(label: &str) -> Self {
        let (label, on_terminal) = (label.to_owned(), io::stderr().is_terminal());
        Progress::Line(ProgressLine { label, on_terminal, first: None, shown: None })
    }

    /// Whether somebody sees how far adapters are from the identity.
    pub fn shows_deviations(&self) -> bool {
        matches!(self, Progress::Dashboard(_))
    }

    /// Says something on standard error.
    pub fn note(&mut self, text: &str) {
        match self {
            Progress::Dashboard(dashboard) => dashboard.note(text),
            Progress::Quiet | Progress::Line(_) => eprintln!("note: {text}"),
        }
    }
}

impl Watch for Progress {
    fn step(&mut self, step: &Step) -> Result<()> {
        match self {
            Progress::Quiet => Ok(()),
            Progress::Line(line) => line.step(step),
            Progress::Dashboard(dashboard) => dashboard.step(step),
        }
    }

    fn evaluation(&mut self, evaluation: &Epoch) -> Result<()> {
        match self {
            Progress::Dashboard(dashboard) => dashboard.evaluation(evaluation),
            Progress::Quiet | Progress::Line(_) => Ok(()),
        }
    }
}

impl Watch for ProgressLine {
    fn step(&mut self, step: &Step) -> Result<()> {
        let (first, since) = *self.first.get_or_insert((step.step, Instant::now()));
        // Often enough to watch, seldom enough for a log.
        let pause = Duration::from_secs_f64(if self.on_terminal { 0.2 } else { 30.0 });
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
        let (before, after) = if self.on_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Progress that nobody can read is no reason to stop.
        let _ = write!(io::stderr(), "{before}{line}{after}").and_then(|()| io::stderr().flush());
        Ok(())
    }
}

impl Drop for ProgressLine {
    /// Takes the line away.
    fn drop(&mut self) {
        if self.on_terminal && self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
