//! `config`: what a run would be.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use crate::{
    cli::{
        Session,
        args::CacheArgs,
        experiment_args::GridArgs,
        output::{print, table},
    },
    lab::{Keys, Lab},
    run::{FileOptions, Layers, merge, origins, resolve},
    sweep::{Experiment, Suite},
};

/// Look at configurations
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Show(ShowArgs),
}

/// Print every key that has a value, and where it comes from: a flag, the environment, a file, a profile, or a default
///
/// Without an experiment: the run that `train` would do with the same flags. With one: each of its series; a list is a grid.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// A preset (see `list presets`) or a .toml file of the same form
    #[arg(value_name = "FILE_OR_PRESET")]
    experiment: Option<String>,
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Layers whose keys have names of their own there.
const FLAG: &str = "a flag";
const ENVIRONMENT: &str = "the environment";

/// Keys, and who says what they are.
#[derive(Serialize)]
struct Shown {
    /// The series' number, from 1.
    series: usize,
    keys: BTreeMap<String, ShownKey>,
    /// What differs on some tasks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_task: BTreeMap<String, Keys>,
}

#[derive(Serialize)]
struct ShownKey {
    value: Value,
    from: String,
}

pub fn run(args: &ConfigArgs, session: &Session<'_>) -> Result<()> {
    let ConfigCommand::Show(args) = &args.command;
    let shown = show(args, session)?;
    print(&shown, args.json, || text(&shown))
}

fn show(args: &ShowArgs, session: &Session<'_>) -> Result<Vec<Shown>> {
    let lab = session.lab;
    let environment = Layers::new(lab).environment()?;
    let set = Layers::new(lab).assignments(&args.grid.set)?;
    let flags = session.keys.clone();
    let above = [(ENVIRONMENT, &environment), (FLAG, &flags), ("--set", &set)];
    let above = above.map(|(name, keys)| (name.to_owned(), keys.clone()));
    let Some(name) = &args.experiment else {
        let given = merge(&[&flags, &set]);
        let keys = merge(&[&environment, &given]);
        if let Some(Value::String(task)) = keys.get("task") {
            FileOptions::check_given(lab, &given, task)?;
        }
        let mut keys = origins(lab, &above)?;
        add_resolved(lab, &above, args, &mut keys)?;
        return Ok(vec![shown(1, keys, BTreeMap::new())]);
    };
    let keys: Vec<&Keys> = above.iter().map(|(_, keys)| keys).collect();
    let backbone = keys.iter().rev().find_map(|keys| keys.get("backbone")).and_then(Value::as_str);
    let suite = args.grid.suite.unwrap_or(Suite::of_backbone(backbone.unwrap_or_default()));
    let experiment = Experiment::load(lab, name, args.grid.scale, suite, &keys)?;
    let mut all = Vec::new();
    for (number, (said, by_task)) in experiment.said().enumerate() {
        let layers: Vec<(String, Keys)> = said.iter().cloned().chain(above.clone()).collect();
        all.push(shown(number + 1, of_each_method(lab, &layers)?, by_task.clone()));
    }
    Ok(all)
}

/// What layers come to where one of them may name several methods: with the keys of all of them.
fn of_each_method(lab: &Lab, layers: &[(String, Keys)]) -> Result<BTreeMap<String, (Value, String)>> {
    let keys = merge(&layers.iter().map(|(_, keys)| keys).collect::<Vec<_>>());
    let Some(Value::Array(methods)) = keys.get("tuning") else { return origins(lab, layers) };
    let mut all = BTreeMap::new();
    for method in methods {
        let one = ("one of them".to_owned(), Keys::from_iter([("tuning".to_owned(), method.clone())]));
        let layers: Vec<(String, Keys)> = layers.iter().cloned().chain([one]).collect();
        all.extend(origins(lab, &layers)?);
    }
    let origin = layers.iter().rev().find(|(_, keys)| keys.contains_key("tuning")).map(|(name, _)| name.clone());
    all.insert("tuning".to_owned(), (methods.clone().into(), origin.unwrap_or_default()));
    Ok(all)
}

/// What only the task and the backbone decide, if they are named.
fn add_resolved(
    lab: &Lab,
    layers: &[(String, Keys)],
    args: &ShowArgs,
    keys: &mut BTreeMap<String, (Value, String)>,
) -> Result<()> {
    let all = merge(&layers.iter().map(|(_, keys)| keys).collect::<Vec<_>>());
    let (Some(Value::String(backbone)), true) = (all.get("backbone"), all.contains_key("task")) else {
        return Ok(());
    };
    if let Some((key, _)) = all.iter().find(|(key, value)| value.is_array() && !is_list(lab, key)) {
        bail!("{key}: one value is needed; several are for an experiment");
    }
    let (network, has_pooler) = args.cache.context().backbone_shape(backbone)?;
    for (key, value) in resolve(lab, &all, &network, has_pooler)?.keys()? {
        let origin = || (Value::Null, "default for this task and backbone".to_owned());
        keys.entry(key).or_insert_with(origin).0 = value;
    }
    keys.retain(|_, (value, _)| !value.is_null());
    Ok(())
}

/// Whether a key of a run is a list.
fn is_list(lab: &Lab, key: &str) -> bool {
    lab.own_keys().get(key).is_some_and(|key| key.defaults.iter().any(Value::is_array))
}

fn shown(series: usize, keys: BTreeMap<String, (Value, String)>, by_task: BTreeMap<String, Keys>) -> Shown {
    let shown = |(key, (value, from)): (String, (Value, String))| {
        let from = match from.as_str() {
            FLAG => format!("--{}", key.replace('_', "-")),
            ENVIRONMENT => format!("ADAPTER_LAB_{}", key.to_uppercase()),
            _ => from,
        };
        (key, ShownKey { value, from })
    };
    Shown { series, keys: keys.into_iter().map(shown).collect(), by_task }
}

fn text(shown: &[Shown]) -> String {
    let mut text = String::new();
    for Shown { series, keys, by_task } in shown {
        if shown.len() > 1 {
            text += &format!("series {series} of {}\n", shown.len());
        }
        let mut rows = vec![["key", "value", "from"].map(str::to_owned).to_vec()];
        for (key, ShownKey { value, from }) in keys {
            rows.push(vec![key.clone(), written(value), from.clone()]);
        }
        for (task, keys) in by_task {
            rows.extend(keys.iter().map(|(key, value)| {
                vec![format!("{key} on {task}"), written(value), "the file, [by_task]".to_owned()]
            }));
        }
        text += &(table(&rows) + "\n");
    }
    text.trim_end().to_owned() + "\n"
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(written).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
