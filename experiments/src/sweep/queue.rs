//! Work that several processes share: a folder that says what is to be done, with a file for each process that says what it did.
//! Each file has one writer, and all of it is about the store: what is finished is what has a record there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use adapter_core::read_file;
use analysis::folder;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    lab::Lab,
    run::{RunConfig, RunContext, write_json},
    search::Search,
    train::Doing,
};

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A run.
    Train(RunConfig),
    /// A run, and what its insertions are worth.
    Ablate(RunConfig),
    /// Tasks one after the other.
    Stream(Vec<RunConfig>),
    /// A search, at which all processes work together.
    Search(Search),
}

impl Item {
    /// In short.
    pub fn describe(&self, lab: &Lab) -> String {
        match self {
            Item::Train(config) | Item::Ablate(config) => config.describe(lab),
            Item::Stream(runs) => runs.first().map_or(String::new(), |run| format!("stream of {}", run.describe(lab))),
            Item::Search(search) => format!("{} without BERT", search.task),
        }
    }

    /// How many runs or trials it has.
    pub fn planned(&self) -> usize {
        match self {
            Item::Train(_) | Item::Ablate(_) => 1,
            Item::Stream(runs) => runs.len(),
            Item::Search(search) => search.planned(),
        }
    }

    /// Whether several processes work at it.
    pub fn is_shared(&self) -> bool {
        matches!(self, Item::Search(_))
    }
}

/// All work, and where it finds what it needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// Where runs find what they need and keep what they make.
    pub context: RunContext,
    /// The work.
    pub items: Vec<Item>,
}

const QUEUE: &str = "queue.json";

impl Queue {
    /// Writes it into a new folder beside the runs.
    ///
    /// # Errors
    /// If there is no folder of runs, or it cannot be written.
    pub fn keep(&self, name: &str) -> Result<PathBuf> {
        let runs = self.context.runs.as_deref().context("several processes need a folder for their runs")?;
        let queues = runs.join(folder::QUEUES);
        fs::create_dir_all(&queues).with_context(|| format!("cannot make {}", queues.display()))?;
        let mut number = 1;
        let place = loop {
            let place = queues.join(format!("{name}-{number}"));
            match fs::create_dir(&place) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                made => {
                    break made.map(|()| place.clone()).with_context(|| format!("cannot make {}", place.display()))?;
                }
            }
        };
        write_json(&place.join(QUEUE), self)?;
        Ok(place)
    }

    /// Reads it again.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(place: &Path) -> Result<Self> {
        let path = place.join(QUEUE);
        let bytes = read_file(&path, 1 << 30).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{}: not work that this program knows", path.display()))
    }
}

/// What a process says of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// It began with an item.
    Began {
        /// Which.
        item: usize,
    },
    /// A run of the item is finished.
    Run {
        /// Whose.
        item: usize,
        /// Which, in short.
        label: String,
        /// Which.
        id: String,
        /// Whether it was finished before.
        before: bool,
    },
    /// The item is over.
    Ended {
        /// Which.
        item: usize,
        /// Why it failed, if it did.
        failed: Option<String>,
    },
    /// It leaves the item to a process outside of the queue, for now.
    Paused {
        /// Which.
        item: usize,
    },
    /// It works no longer.
    Left {
        /// Why.
        why: String,
    },
}

const EVENTS: &str = "jsonl";
/// What a process does at this moment, written again and again: its age tells whether the process lives.
const NOW: &str = "now";

/// Writes what one process says.
#[derive(Clone, Debug)]
pub struct Teller {
    events: PathBuf,
    now: PathBuf,
}

impl Teller {
    /// For the process of this name in the queue's folder.
    pub fn new(place: &Path, name: &str) -> Self {
        let file = |ending| place.join(format!("{name}.{ending}"));
        Self { events: file(EVENTS), now: file(NOW) }
    }

    /// Says it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn tell(&self, event: &Event) -> Result<()> {
        let line = serde_json::to_string(event)? + "\n";
        let file = fs::OpenOptions::new().create(true).append(true).open(&self.events);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write {}", self.events.display()))
    }

    /// Says that the process lives, and what it does.
    pub fn beat(&self, now: &Doing) {
        // A missing sign of life is made up for by the next one.
        let _ = serde_json::to_vec(now).map(|bytes| fs::write(&self.now, bytes));
    }
}

/// What all processes said so far.
#[derive(Debug)]
pub struct Heard {
    place: PathBuf,
    /// How far the file of each process was read.
    read: BTreeMap<String, u64>,
    /// Items that are over, and why they failed.
    pub ended: BTreeMap<usize, Option<String>>,
    /// The item that each process is at.
    pub at: BTreeMap<String, usize>,
    /// How many processes began each item and said nothing of it since.
    pub begun: BTreeMap<usize, usize>,
    /// Processes that left, and why.
    pub left: BTreeMap<String, String>,
    /// Runs that are finished, by item.
    pub runs: BTreeMap<usize, Vec<HeardRun>>,
}

/// A run that is finished.
#[derive(Clone, Debug)]
pub struct HeardRun {
    /// Which, in short.
    pub label: String,
    /// Which.
    pub id: String,
    /// Whether it was finished before.
    pub before: bool,
}

impl Heard {
    /// Nothing yet.
    pub fn new(place: &Path) -> Self {
        let (read, ended, at, begun, left, runs) = Default::default();
        Self { place: place.to_owned(), read, ended, at, begun, left, runs }
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn listen(&mut self) -> Result<()> {
        let mut heard = Vec::new();
        for name in files(&self.place, EVENTS)? {
            let path = self.place.join(format!("{name}.{EVENTS}"));
            let from = self.read.entry(name.clone()).or_default();
            let mut text = String::new();
            let mut file = fs::File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
            file.seek(SeekFrom::Start(*from))?;
            file.read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
            // The last line may be half written.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            *from += whole as u64;
            for line in text[..whole].lines() {
                let event: Event =
                    serde_json::from_str(line).with_context(|| format!("{}: not a line of ours", path.display()))?;
                heard.push((name.clone(), event));
            }
        }
        for (name, event) in heard {
            match event {
                Event::Began { item } => {
                    self.at.insert(name, item);
                    *self.begun.entry(item).or_default() += 1;
                }
                Event::Run { item, label, id, before } => {
                    let runs = self.runs.entry(item).or_default();
                    // Several processes find the same trials.
                    if !runs.iter().any(|known| known.id == id) {
                        runs.push(HeardRun { label, id, before });
                    }
                }
                Event::Ended { item, failed } => {
                    self.at.retain(|at_name, at| *at_name != name || *at != item);
                    // Somebody else may have finished what one could not.
                    let known = self.ended.entry(item).or_insert_with(|| failed.clone());
                    *known = known.take().filter(|_| failed.is_some());
                }
                Event::Paused { item } => {
                    self.at.remove(&name);
                    self.begun.entry(item).and_modify(|begun| *begun = begun.saturating_sub(1));
                }
                Event::Left { why } => {
                    if let Some(item) = self.at.remove(&name) {
                        self.begun.entry(item).and_modify(|begun| *begun = begun.saturating_sub(1));
                    }
                    self.left.insert(name, why);
                }
            }
        }
        Ok(())
    }

    /// Items that nobody has begun, and those of processes that gave no sign of life for so long.
    pub fn free(&self, queue: &Queue, silent: Duration) -> Vec<usize> {
        let clock = clock(&self.place);
        let lives = |name: &str| {
            let last = fs::metadata(self.place.join(format!("{name}.{NOW}"))).and_then(|file| file.modified());
            let age = clock.zip(last.ok()).map(|(now, last)| now.duration_since(last).unwrap_or_default());
            age.is_some_and(|age| age < silent)
        };
        let taken: BTreeSet<usize> = self.at.iter().filter(|(name, _)| lives(name)).map(|(_, item)| *item).collect();
        let is_free = |(number, item): &(usize, &Item)| {
            !self.ended.contains_key(number) && (item.is_shared() || !taken.contains(number))
        };
        queue.items.iter().enumerate().filter(is_free).map(|(number, _)| number).collect()
    }

    /// What each process that is at work does now.
    pub fn doing(&self) -> BTreeMap<String, Doing> {
        let now = |name: &String| {
            let bytes = fs::read(self.place.join(format!("{name}.{NOW}"))).ok()?;
            Some((name.clone(), serde_json::from_slice(&bytes).ok()?))
        };
        self.at.keys().filter_map(now).collect()
    }
}

/// The names of processes that have a file with this ending.
fn files(place: &Path, ending: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(place).with_context(|| format!("cannot read {}", place.display()))?;
    let named = |entry: fs::DirEntry| {
        let path = entry.path();
        (path.extension()? == ending).then(|| path.file_stem()?.to_str().map(str::to_owned))?
    };
    let mut names: Vec<String> = entries.flatten().filter_map(named).collect();
    names.sort_unstable();
    Ok(names)
}

/// What time it is for the file system: clocks of machines differ.
fn clock(place: &Path) -> Option<SystemTime> {
    let path = place.join(".clock");
    fs::write(&path, b".").and_then(|()| fs::metadata(&path)?.modified()).ok()
}
