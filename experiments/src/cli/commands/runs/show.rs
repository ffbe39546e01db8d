//! `runs show`: all about one run.

use std::path::Path;

use analysis::{Listed, RunState};
use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::{PlaceArgs, complete, written};
use crate::{
    cli::output::{print, table},
    lab::Lab,
    run::owner_of,
};

/// Show one run: its configuration, its scores, what it cost
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Its id, or how that begins
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print its record
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ShowArgs, lab: &Lab) -> Result<()> {
    let run = args.place.find(&args.id, lab)?;
    if run.state == RunState::Unfinished {
        return print(&run, args.json, || unfinished(&run, &args.place.runs));
    }
    let record = args.place.record(&run)?;
    print(&record, args.json, || {
        let mut shown = record.clone();
        complete(&mut shown, lab);
        text(&shown)
    })
}

/// What is known of a run that is under way, or was interrupted.
fn unfinished(run: &Listed, runs: &Path) -> String {
    let config = pairs(&Value::Object(run.config.clone()));
    let config = if config.is_empty() { String::new() } else { format!("\nConfiguration\n{}", indented(config)) };
    let id = &run.id;
    let what = match owner_of(&runs.join(id)) {
        Some(owner) => format!("{owner} computes it"),
        None => format!("`train --resume {id} --runs {}`, or the command that began it, continues it", runs.display()),
    };
    format!("run {id} is not finished; {what}\n{config}")
}

fn text(record: &Value) -> String {
    let word = |name: &str| written(&record[name]);
    let mut text = format!("run {}, {}: {}\n", word("id"), word("status"), written(&record["method"]["label"]));
    let mut part = |title: &str, rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text += &format!("\n{title}\n{}", indented(rows));
        }
    };
    part("Configuration", pairs(&record["config"]));
    part("Trained on", [pairs(&record["examples"]), pairs(&record["network"])].concat());
    part("Parameters", pairs(&record["params"]));
    part("Validation", pairs(&record["last"]["validation"]));
    part("Test", pairs(&record["test"]));
    part("Trivial answer", pairs(&record["majority"]));
    part("Measured", pairs(&record["measured"]));
    part("Made of", [pairs(&record["fingerprints"]), pairs(&record["software"])].concat());
    text
}

/// Rows without a head.
fn indented(rows: Vec<Vec<String>>) -> String {
    table(&[vec![vec![String::new(), String::new()]], rows].concat()).trim_start_matches('\n').to_owned()
}

/// Keys with their values; what has parts of its own is left to JSON.
fn pairs(value: &Value) -> Vec<Vec<String>> {
    let Value::Object(keys) = value else { return Vec::new() };
    let simple = keys.iter().filter(|(_, value)| !value.is_object() && !value.is_null());
    simple.map(|(key, value)| vec![format!("  {key}"), written(value)]).collect()
}
