//! How far a run is, for whoever watches.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use crate::trainer::Step;

/// One line on standard error: how far, how fast, how long still.
pub struct Progress {
    quiet: bool,
    on_terminal: bool,
    /// The first step of this process, and when it was taken.
    first: Option<(usize, Instant)>,
    shown: Option<Instant>,
}

impl Progress {
    /// A line that stays away if `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, on_terminal: io::stderr().is_terminal(), first: None, shown: None }
    }

    /// Shows a step, if it is time for a new line.
    pub fn show(&mut self, step: Step) {
        let (first, since) = *self.first.get_or_insert((step.step, Instant::now()));
        // Often enough to watch, seldom enough for a log.
        let pause = Duration::from_secs_f64(if self.on_terminal { 0.2 } else { 30.0 });
        let taken = step.step - first;
        if self.quiet || taken == 0 || self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        let each = since.elapsed().as_secs_f64() / taken as f64;
        let left = each * (step.of - step.step) as f64;
        let Step { step, of, loss, rate } = step;
        let line =
            format!("step {step}/{of}  loss {loss:.4}  rate {rate:.2e}  {:.2} steps/s  {left:.0} s left", 1.0 / each);
        let (before, after) = if self.on_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Progress that nobody can read is no reason to stop.
        let _ = write!(io::stderr(), "{before}{line}{after}").and_then(|()| io::stderr().flush());
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.on_terminal && !self.quiet {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
