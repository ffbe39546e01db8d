//! `runs diff`: what differs between two runs.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{PlaceArgs, complete, written};
use crate::{
    cli::output::{print, table},
    lab::Lab,
};

/// Show what differs between two runs: configuration, result, cost
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The id of one, or how that begins
    #[arg(value_name = "A")]
    one: String,
    /// The id of the other
    #[arg(value_name = "B")]
    other: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A value that differs.
#[derive(Serialize)]
struct Difference {
    /// Where it stands in the record.
    key: String,
    one: Value,
    other: Value,
}

pub fn run(args: &DiffArgs, lab: &Lab) -> Result<()> {
    let (one, other) = (args.place.find(&args.one, lab)?, args.place.find(&args.other, lab)?);
    let (mut a, mut b) = (args.place.record(&one)?, args.place.record(&other)?);
    [&mut a, &mut b].into_iter().for_each(|record| complete(record, lab));
    let mut differences = Vec::new();
    compare("", &a, &b, &mut differences);
    differences.retain(|difference| difference.key != "id");
    print(&differences, args.json, || {
        if differences.is_empty() {
            return format!("{} and {} are the same\n", one.id, other.id);
        }
        let mut rows = vec![vec![String::new(), one.id.clone(), other.id.clone()]];
        let row = |difference: &Difference| {
            vec![difference.key.clone(), written(&difference.one), written(&difference.other)]
        };
        rows.extend(differences.iter().map(row));
        table(&rows)
    })
}

/// Adds what differs; lists (curves, evaluations) are compared by their last value, which is what came out.
fn compare(place: &str, a: &Value, b: &Value, found: &mut Vec<Difference>) {
    if a == b {
        return;
    }
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                compare(&place, one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(_), Value::Array(_)) => {}
        _ => found.push(Difference { key: place.to_owned(), one: a.clone(), other: b.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_named_by_its_place() {
        let mut found = Vec::new();
        let (a, b) = (json!({"a": {"b": 1, "c": 2}, "d": [1]}), json!({"a": {"b": 1, "c": 3, "e": 4}, "d": [2]}));
        compare("", &a, &b, &mut found);
        let found: Vec<_> = found.iter().map(|found| (found.key.as_str(), &found.one, &found.other)).collect();
        assert_eq!(found, [("a.c", &json!(2), &json!(3)), ("a.e", &Value::Null, &json!(4))]);
    }
}
