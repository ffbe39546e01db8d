//! How far a run is, for whoever watches.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use analysis::Evaluation;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::json;

#[cfg(feature = "dashboard")]
use super::dashboard::Dashboard;
use super::log::{self, Level};
use crate::train::{Step, Stop, Watch};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// A dashboard on a terminal if it was built in, else a line; nothing with --json
    Auto,
    /// Burn's dashboard: curves of loss, scores and adapters (build with `--features dashboard`)
    Dashboard,
    /// One line: progress, speed and time left
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

/// One line on standard error: progress, speed and time left.
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

/// The line, cut to the width of the terminal that it goes to.
pub fn fitted(line: &str) -> String {
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
