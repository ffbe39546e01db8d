//! Messages on standard error: how many of them, and in which format. Results go to standard output.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::run::unix_time;

/// How much is said, and in which form.
#[derive(Args, Clone, Copy, Debug)]
pub struct LogArgs {
    /// Say more on standard error: every evaluation of the runs of this process
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = HEADING)]
    verbose: bool,
    /// Say nothing on standard error but errors and failed runs
    #[arg(short, long, global = true, help_heading = HEADING)]
    quiet: bool,
    /// Format of the messages on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT", help_heading = HEADING)]
    log_format: LogFormat,
    /// When messages have colours; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", help_heading = HEADING)]
    color: Colour,
}

const HEADING: &str = "Messages";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON document a line: time, level, event, message, and what the event is about
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who want to know everything.
    Detail,
    /// How far the work is.
    Progress,
    /// Something that a user should know.
    Note,
    /// A part of the work went wrong.
    Failure,
    /// The command failed.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Detail => "detail",
            Level::Progress => "progress",
            Level::Note => "note",
            Level::Failure => "failure",
            Level::Error => "error",
        }
    }

    /// What stands before a text.
    fn prefix(self) -> Option<(&'static str, Style)> {
        match self {
            Level::Detail | Level::Progress => None,
            Level::Note => Some(("note:", AnsiColor::Cyan.on_default())),
            Level::Failure => Some(("failed:", AnsiColor::Red.on_default())),
            Level::Error => Some(("error:", AnsiColor::Red.on_default().bold())),
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    least: Level,
    json: bool,
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings { least: Level::Progress, json: false });

/// Whether a line stands on the terminal that is not over yet.
static UNFINISHED: AtomicBool = AtomicBool::new(false);

fn settings() -> Settings {
    *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogArgs {
    /// From now on all is said as they ask.
    pub fn apply(self) {
        let least = match (self.verbose, self.quiet) {
            (true, _) => Level::Detail,
            (_, true) => Level::Failure,
            _ => Level::Progress,
        };
        let json = self.log_format == LogFormat::Json;
        *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = Settings { least, json };
        set_colour(self.color);
    }
}

fn set_colour(colour: Colour) {
    match colour {
        Colour::Auto => anstream::ColorChoice::Auto,
        Colour::Always => anstream::ColorChoice::Always,
        Colour::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Looks for `--color` before the arguments are read: what is wrong with them is said in colours, too.
pub fn colour_of_arguments() {
    let arguments: Vec<String> = std::env::args().collect();
    let next = || Some(arguments.get(arguments.iter().position(|argument| argument == "--color")? + 1)?.as_str());
    let named = arguments.iter().find_map(|argument| argument.strip_prefix("--color="));
    if let Some(Ok(colour)) = named.or_else(next).map(|name| Colour::from_str(name, true)) {
        set_colour(colour);
    }
}

/// Whether anything of this level is said.
pub fn says(level: Level) -> bool {
    level >= settings().least
}

/// Whether it is said in JSON.
pub fn is_json() -> bool {
    settings().json
}

/// Whether people look at a terminal.
pub fn on_terminal() -> bool {
    !is_json() && io::stderr().is_terminal()
}

/// Says something. `about` are the values behind the text, for programs.
pub fn say(level: Level, event: &str, text: &str, about: impl FnOnce() -> Value) {
    let Settings { least, json } = settings();
    if level < least {
        return;
    }
    if !json {
        return say_text(level, text);
    }
    let mut line = Map::new();
    line.insert("time".to_owned(), unix_time().into());
    line.insert("level".to_owned(), level.name().into());
    line.insert("event".to_owned(), event.into());
    line.insert("message".to_owned(), text.into());
    if let Value::Object(about) = about() {
        line.extend(about);
    }
    // What nobody can read is no reason to stop.
    let _ = writeln!(io::stderr(), "{}", Value::Object(line));
}

fn say_text(level: Level, text: &str) {
    let mut out = anstream::stderr();
    if UNFINISHED.swap(false, Ordering::Relaxed) {
        let _ = write!(out, "\r\x1b[K");
    }
    let _ = match level.prefix() {
        Some((prefix, style)) => writeln!(out, "{style}{prefix}{style:#} {text}"),
        None => writeln!(out, "{text}"),
    };
}

/// Something that a user should know.
pub fn note(text: &str) {
    say(Level::Note, "note", text, || Value::Null);
}

/// How far the work is.
pub fn progress(text: &str) {
    say(Level::Progress, "progress", text, || Value::Null);
}

/// The command failed.
pub fn error(error: &anyhow::Error) {
    say(Level::Error, "error", &format!("{error:#}"), || Value::Null);
}

/// Shows a line on the terminal, in the place of the one before.
pub fn show_line(line: &str) {
    if says(Level::Progress) {
        UNFINISHED.store(true, Ordering::Relaxed);
        let _ = write!(io::stderr(), "\r\x1b[K{line}").and_then(|()| io::stderr().flush());
    }
}

/// Takes that line away.
pub fn clear_line() {
    if UNFINISHED.swap(false, Ordering::Relaxed) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}
