//! Bars on a terminal, below what is said.

use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;

use super::log::{self, Level};
use crate::train::Doing;

/// A bar for each process and one for the whole, below what is said. Without a terminal there are none.
#[derive(Default)]
pub struct Bars {
    shown: Option<MultiProgress>,
    whole: Option<ProgressBar>,
    processes: BTreeMap<String, ProgressBar>,
}

impl Bars {
    /// Shows what each process does.
    pub fn show(&mut self, doing: &BTreeMap<String, Doing>) {
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

    /// Shows how many runs are over.
    pub fn whole(&mut self, done: usize, of: usize, left: &str) {
        let Some(shown) = &self.shown else { return };
        let bar = self.whole.get_or_insert_with(|| shown.add(bar("runs")));
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(left.to_owned());
    }

    /// Says something above the bars.
    pub fn say(&self, level: Level, event: &str, text: &str, about: impl FnOnce() -> Value) {
        match &self.shown {
            Some(shown) => {
                // They are drawn again with the next step. `suspend` would panic on a terminal that is gone.
                let _ = shown.clear();
                log::say(level, event, text, about);
            }
            None => log::say(level, event, text, about),
        }
    }

    /// Takes them away.
    pub fn clear(&mut self) {
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

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
}
