//! TensorBoard's event files: a folder for each run, with one file. A run that goes on begins its file anew, with all that it did
//! before, so that every step stands there once.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};

use analysis::{Evaluation, RunRecord, Status, folder};
use anyhow::{Context, Result};
use prost::Message;
use serde_json::Value as Json;

use super::{StepLine, Tracker, unix_time};
use crate::lab::Keys;

/// Events of one run.
pub(super) struct TensorBoard {
    path: PathBuf,
    /// What is not yet written.
    waiting: Vec<u8>,
    written: Instant,
}

/// Seconds between two writes.
const PAUSE: u64 = 2;

impl TensorBoard {
    /// Begins the file of a run.
    pub fn begin(runs: &Path, id: &str, keys: &Keys) -> Result<Self> {
        let place = runs.join(folder::TENSORBOARD).join(id);
        let begin = || -> Result<PathBuf> {
            fs::create_dir_all(&place)?;
            for old in fs::read_dir(&place)?.flatten() {
                if old.file_name().to_string_lossy().starts_with(EVENTS) {
                    fs::remove_file(old.path())?;
                }
            }
            let path = place.join(format!("{EVENTS}.{:.0}.{id}", unix_time()));
            fs::write(&path, b"")?;
            Ok(path)
        };
        let path = begin().with_context(|| format!("cannot write to {}", place.display()))?;
        let mut events = Self { path, waiting: Vec::new(), written: Instant::now() };
        events.push(&Event { file_version: Some("brain.Event:2".to_owned()), ..Event::at(0, unix_time()) });
        let hparams = keys.iter().filter_map(|(key, value)| Some((key.clone(), Value::of(value)?))).collect();
        events.hparams(HParams {
            start: Some(SessionStart { hparams, group_name: String::new(), start_time_secs: unix_time() }),
            ..HParams::default()
        });
        events.write()?;
        Ok(events)
    }

    fn push(&mut self, event: &Event) {
        let bytes = event.encode_to_vec();
        let length = (bytes.len() as u64).to_le_bytes();
        for part in [&length[..], &masked(&length).to_le_bytes(), &bytes, &masked(&bytes).to_le_bytes()] {
            self.waiting.extend_from_slice(part);
        }
    }

    fn scalars(&mut self, step: usize, time: f64, values: impl IntoIterator<Item = (String, f64)>) {
        let value =
            |(tag, value): (String, f64)| SummaryValue { tag, simple_value: Some(value as f32), metadata: None };
        let value = values.into_iter().map(value).collect();
        self.push(&Event { summary: Some(Summary { value }), ..Event::at(step, time) });
    }

    fn hparams(&mut self, data: HParams) {
        let tag = if data.start.is_some() { "_hparams_/session_start_info" } else { "_hparams_/session_end_info" };
        let plugin_data = Some(PluginData { plugin_name: "hparams".to_owned(), content: data.encode_to_vec() });
        let metadata = Some(Metadata { plugin_data });
        let value = vec![SummaryValue { tag: tag.to_owned(), simple_value: None, metadata }];
        self.push(&Event { summary: Some(Summary { value }), ..Event::at(0, unix_time()) });
    }

    fn write(&mut self) -> Result<()> {
        let append = || fs::OpenOptions::new().append(true).open(&self.path)?.write_all(&self.waiting);
        append().with_context(|| format!("cannot write {}", self.path.display()))?;
        self.waiting.clear();
        self.written = Instant::now();
        Ok(())
    }
}

impl Tracker for TensorBoard {
    fn step(&mut self, step: &StepLine) -> Result<()> {
        self.scalars(step.step, step.time, step.scalars());
        if self.written.elapsed().as_secs() >= PAUSE { self.write() } else { Ok(()) }
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        let scores = evaluation.validation.iter().map(|(metric, score)| (format!("validation/{metric}"), *score));
        self.scalars(evaluation.steps, unix_time(), scores);
        self.write()
    }

    fn finished(&mut self, record: &RunRecord) -> Result<()> {
        let steps = record.evaluations.last().map_or(0, |last| last.steps);
        if !record.test.is_empty() {
            self.scalars(
                steps,
                unix_time(),
                record.test.iter().map(|(metric, score)| (format!("test/{metric}"), *score)),
            );
        }
        let status = if record.status == Status::Finished { SUCCESS } else { FAILURE };
        self.hparams(HParams { end: Some(SessionEnd { status, end_time_secs: unix_time() }), ..HParams::default() });
        self.write()
    }
}

const EVENTS: &str = "events.out.tfevents";

/// The check sum of a record's parts.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// TensorBoard's messages, as far as they are written here.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

impl Event {
    fn at(step: usize, time: f64) -> Self {
        Self { wall_time: time, step: step as i64, ..Self::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginData {
    #[prost(string, tag = "1")]
    plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    content: Vec<u8>,
}

/// What the tab of hyper-parameters reads.
#[derive(Clone, PartialEq, Message)]
struct HParams {
    #[prost(message, optional, tag = "3")]
    start: Option<SessionStart>,
    #[prost(message, optional, tag = "4")]
    end: Option<SessionEnd>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    hparams: BTreeMap<String, Value>,
    #[prost(string, tag = "4")]
    group_name: String,
    #[prost(double, tag = "5")]
    start_time_secs: f64,
}

#[derive(Clone, PartialEq, Message)]
struct SessionEnd {
    #[prost(int32, tag = "1")]
    status: i32,
    #[prost(double, tag = "2")]
    end_time_secs: f64,
}

const SUCCESS: i32 = 1;
const FAILURE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(double, optional, tag = "2")]
    number: Option<f64>,
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
    #[prost(bool, optional, tag = "4")]
    truth: Option<bool>,
}

impl Value {
    /// The value of a key, unless it is none.
    fn of(value: &Json) -> Option<Self> {
        Some(match value {
            Json::Null => return None,
            Json::Bool(truth) => Self { truth: Some(*truth), ..Self::default() },
            Json::Number(number) => Self { number: number.as_f64(), ..Self::default() },
            Json::String(text) => Self { text: Some(text.clone()), ..Self::default() },
            other => Self { text: Some(other.to_string()), ..Self::default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_sums_are_tensorflows() {
        // Every event file of TensorFlow begins with a record of 24 bytes: its length, and then this.
        assert_eq!(masked(&24u64.to_le_bytes()).to_le_bytes(), *b"\xa3\x7fK\"");
    }
}
