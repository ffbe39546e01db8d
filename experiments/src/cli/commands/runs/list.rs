//! `runs list`: runs in a table.

use std::collections::BTreeSet;

use analysis::Listed;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tasks::nearest;

use super::{
    PlaceArgs,
    filter::{Condition, order},
    written,
};
use crate::{
    cli::output::{grouped, print, print_text, table},
    lab::Lab,
};

/// Show runs in a table
///
/// Columns show what differs between them. A key of --where and --sort is one of the configuration, or id, state, method,
/// validation, test, trained, seconds, or a metric.
#[derive(Args, Debug)]
pub struct ListRunsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Only runs of which all of this holds, such as task=cola,method=adapters or lr>1e-4,state!=diverged
    #[arg(long = "where", value_name = "KEY=VALUE,…", value_delimiter = ',')]
    conditions: Vec<Condition>,
    /// Order them by this [default: id]
    #[arg(long, value_name = "KEY")]
    sort: Option<String>,
    /// The largest first
    #[arg(long)]
    reverse: bool,
    /// Show at most N [default: 1000 in a table, all with --json and --csv]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON document
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values, a column for every key
    #[arg(long)]
    csv: bool,
}

/// What is not of the configuration.
const OWN: [&str; 8] = ["id", "state", "method", "metric", "validation", "test", "trained", "seconds"];

/// Rows of a table that somebody may read.
const ROWS: usize = 1000;

/// Columns of a table for what differs between runs.
const COLUMNS: usize = 5;

/// Those that come before all others.
const FIRST: [&str; 5] = ["backbone", "lr", "epochs", "limit", "seed"];

#[derive(Serialize)]
struct List<'a> {
    runs: &'a [Listed],
    /// How many there are in all.
    of: usize,
}

pub fn run(args: &ListRunsArgs, lab: &Lab) -> Result<()> {
    let all = args.place.list(lab)?;
    for key in args.conditions.iter().map(Condition::key).chain(args.sort.as_deref()) {
        if !all.is_empty() && !OWN.contains(&key) && all.iter().all(|run| run.value(key).is_none()) {
            let keys: BTreeSet<&str> = all.iter().flat_map(|run| run.config.keys().map(String::as_str)).collect();
            let near = nearest(key, keys.iter().copied().chain(OWN));
            bail!("no run has a `{key}`{}", near.map_or(String::new(), |near| format!("; did you mean `{near}`?")));
        }
    }
    let of = all.len();
    let mut runs: Vec<Listed> =
        all.into_iter().filter(|run| args.conditions.iter().all(|condition| condition.holds(run))).collect();
    if let Some(key) = &args.sort {
        runs.sort_by_cached_key(|run| Sorted(run.value(key)));
    }
    if args.reverse {
        runs.reverse();
    }
    let limit = args.limit.unwrap_or(if args.json || args.csv { usize::MAX } else { ROWS });
    // Of very many runs, giving their memory back would take longer than all the rest.
    std::mem::forget(runs.split_off(limit.min(runs.len())));
    if args.csv {
        return print_text(csv(&runs).as_bytes());
    }
    print(&List { runs: &runs, of }, args.json, || text(&runs, of))
}

/// A value in the order of a list.
#[derive(PartialEq)]
struct Sorted(Option<Value>);

impl Eq for Sorted {}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order(&self.0, &other.0)
    }
}

fn text(runs: &[Listed], of: usize) -> String {
    if runs.is_empty() {
        return format!("none of {of} runs\n");
    }
    let differing = differing(runs);
    let mut head = vec!["id", "state", "task", "method"];
    head.extend(differing.iter().map(String::as_str).take(COLUMNS));
    head.extend(["validation", "test", "trained", "time"]);
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    let score = |score: Option<f64>| score.map_or("-".to_owned(), |score| format!("{score:.4}"));
    for run in runs {
        let key = |key: &str| run.config.get(key).map_or("-".to_owned(), written);
        let mut row = vec![run.id.clone(), run.state.name().to_owned(), key("task"), run.method.clone()];
        row.extend(differing.iter().take(COLUMNS).map(|name| key(name)));
        row.extend([
            run.metric.as_ref().map_or("-".to_owned(), |metric| format!("{metric} {}", score(run.validation))),
            score(run.test),
            run.trained.map_or("-".to_owned(), grouped),
            run.seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.0} s")),
        ]);
        rows.push(row);
    }
    let more = differing.get(COLUMNS..).unwrap_or_default();
    let more = if more.is_empty() { String::new() } else { format!("; {} differ too (--csv)", more.join(", ")) };
    let counted = if runs.len() == of { format!("{of} runs") } else { format!("{} of {of} runs", runs.len()) };
    format!("{}{counted}{more}\n", table(&rows))
}

/// Keys that are not the same for all runs that have them, or that only some runs of a method have, those that a table shows
/// anyhow aside: what everybody asks for first, then the others by name.
fn differing(runs: &[Listed]) -> Vec<String> {
    let keys: BTreeSet<&str> = runs.iter().flat_map(|run| run.config.keys()).map(String::as_str).collect();
    let shown = ["task", "tuning", "adapter_size", "k"];
    let differs = |key: &&str| {
        let mut values = runs.iter().filter_map(|run| run.config.get(*key));
        let first = values.next();
        values.any(|value| Some(value) != first) || {
            let having = |has: bool| {
                let runs = runs.iter().filter(move |run| run.config.contains_key(*key) == has);
                runs.filter_map(|run| run.config.get("tuning")?.as_str()).collect::<BTreeSet<&str>>()
            };
            !having(true).is_disjoint(&having(false))
        }
    };
    let mut differing: Vec<&str> = keys.into_iter().filter(|key| !shown.contains(key)).filter(differs).collect();
    differing.sort_by_key(|key| FIRST.iter().position(|first| first == key).unwrap_or(FIRST.len()));
    differing.into_iter().map(str::to_owned).collect()
}

/// A line for each run, a column for every key.
pub fn csv(runs: &[Listed]) -> String {
    let keys: BTreeSet<&str> = runs.iter().flat_map(|run| run.config.keys().map(String::as_str)).collect();
    let columns: Vec<&str> = OWN.into_iter().chain(keys).collect();
    let line =
        |cells: Vec<String>| cells.iter().map(|cell| analysis::csv_cell(cell)).collect::<Vec<_>>().join(",") + "\n";
    let mut text = line(columns.iter().map(|column| (*column).to_owned()).collect());
    for run in runs {
        text += &line(columns.iter().map(|column| run.value(column).as_ref().map_or(String::new(), written)).collect());
    }
    text
}
