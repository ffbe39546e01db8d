//! `runs show`: all about one run.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::{PlaceArgs, written};
use crate::cli::output::{print, table};

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

pub fn run(args: &ShowArgs) -> Result<()> {
    let run = args.place.find(&args.id)?;
    let record = args.place.record(&run)?;
    print(&record, args.json, || text(&record))
}

fn text(record: &Value) -> String {
    let word = |name: &str| written(&record[name]);
    let mut text = format!("run {}, {}: {}\n", word("id"), word("status"), written(&record["method"]["label"]));
    let mut part = |title: &str, rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text += &format!(
                "\n{title}\n{}",
                table(&[vec![vec![String::new(), String::new()]], rows].concat()).trim_start_matches('\n')
            );
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

/// Keys with their values; what has parts of its own is left to JSON.
fn pairs(value: &Value) -> Vec<Vec<String>> {
    let Value::Object(keys) = value else { return Vec::new() };
    let simple = keys.iter().filter(|(_, value)| !value.is_object() && !value.is_null());
    simple.map(|(key, value)| vec![format!("  {key}"), written(value)]).collect()
}
