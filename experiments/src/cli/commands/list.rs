//! `list`: what there is.

use std::path::{Path, PathBuf};

use adapter_core::Init;
use anyhow::Result;
use bert_backbone::{Bert, known_backbones};
use burn::module::Module;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tasks::Home;

use crate::{
    cli::{
        Session,
        args::{CacheArgs, DataArgs},
        output::{grouped, print, table},
    },
    device::{cpu, device_kinds},
    lab::Lab,
    sweep::{Experiment, Scale, Suite},
};

/// List what there is to choose from
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    what: What,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Tasks of the paper, whether their data is under --data-dir, and how to get it
    Tasks,
    /// Methods: what can be trained, with the keys of each
    Methods,
    /// Experiments of the paper, for `run`
    Presets,
    /// The threshold of each verdict of the report, and why
    Thresholds,
    /// Backbones known by name
    Backbones,
    /// Devices: those of this build, and what was found on this machine
    Devices,
}

pub fn run(args: &ListArgs, session: &Session<'_>) -> Result<()> {
    match args.what {
        What::Tasks => task_list(args, session.lab),
        What::Methods => methods(args, session.lab),
        What::Presets => presets(args, session.lab),
        What::Thresholds => thresholds(args),
        What::Backbones => backbones(args),
        What::Devices => devices(args),
    }
}

#[derive(Serialize)]
struct MethodRow {
    name: &'static str,
    trains: &'static str,
    /// Its keys with their defaults.
    keys: crate::lab::Keys,
}

fn methods(args: &ListArgs, lab: &Lab) -> Result<()> {
    let row = |method: &dyn crate::lab::MethodKind| MethodRow {
        name: method.name(),
        trains: method.about(),
        keys: method.defaults(),
    };
    let list: Vec<MethodRow> = lab.methods().map(row).collect();
    print(&list, args.json, || {
        let mut rows = vec![["name", "what it trains, beside the head", "keys"].map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| {
            let keys: Vec<&str> = row.keys.keys().map(String::as_str).collect();
            vec![row.name.to_owned(), row.trains.to_owned(), keys.join(", ")]
        }));
        table(&rows) + "\nChoose one with `--tuning NAME`; `train --help` explains the keys.\n"
    })
}

fn thresholds(args: &ListArgs) -> Result<()> {
    let list = analysis::thresholds();
    print(&list, args.json, || {
        let mut rows = vec![["what it limits", "threshold", "why"].map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| {
            let side = match row.side {
                analysis::Side::AtMost => "at most",
                analysis::Side::Above => "above",
            };
            vec![row.name.to_owned(), format!("{side} {} {}", row.limit, row.unit), row.reason.to_owned()]
        }));
        table(&rows) + "\nA verdict needs the whole 95 % interval on the paper's side: docs/protocol.md.\n"
    })
}

#[derive(Serialize)]
struct TaskRow<'a> {
    name: &'a str,
    suite: &'a str,
    kind: String,
    classes: Option<usize>,
    metric: &'a str,
    present: bool,
    /// The files that it needs.
    files: Vec<PathBuf>,
    /// What `fetch` calls them.
    fetch: Option<String>,
    /// Where the user gets them.
    by_hand: Option<&'a str>,
}

fn task_list(args: &ListArgs, lab: &Lab) -> Result<()> {
    let folder = args.data.folder(&args.cache);
    let mut list: Vec<TaskRow<'_>> = Vec::new();
    for task in &lab.tasks {
        let tasks::Task { name, suite, kind, classes, metric, .. } = task;
        let (fetch, by_hand) = match task.home() {
            Some(Home::Fetched { .. }) => (Some(task.fetch_name()), None),
            Some(Home::ByHand { about }) => (None, Some(about.as_str())),
            None => (None, None),
        };
        list.push(TaskRow {
            name,
            suite,
            kind: kind.to_string(),
            classes: *classes,
            metric,
            present: task.is_present(&folder),
            files: task.files(&folder),
            fetch,
            by_hand,
        });
    }
    print(&list, args.json, || {
        let head = ["name", "suite", "kind", "classes", "metric", "data"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| {
            let data = match &row.fetch {
                _ if row.files.is_empty() => "built in".to_owned(),
                _ if row.present => "yes".to_owned(),
                Some(name) => format!("fetch {name}"),
                None => "by hand".to_owned(),
            };
            let classes = row.classes.map_or("-".to_owned(), |classes| classes.to_string());
            vec![row.name.to_owned(), row.suite.to_owned(), row.kind.clone(), classes, row.metric.to_owned(), data]
        }));
        table(&rows) + &format!("\nLooked for data in {}.\n", folder.display()) + &by_hand(&list, &folder)
    })
}

/// The files that a user must get, under where they come from.
fn by_hand(list: &[TaskRow<'_>], folder: &Path) -> String {
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for row in list.iter().filter(|row| !row.present && row.fetch.is_none()) {
        let place = row.by_hand.unwrap_or("wherever you have them");
        let files = match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, files)) => files,
            None => &mut places.push_mut((place, Vec::new())).1,
        };
        let missing = row.files.iter().filter(|file| !file.is_file());
        let missing = missing.map(|file| file.strip_prefix(folder).unwrap_or(file).display().to_string());
        missing.for_each(|file| {
            if !files.contains(&file) {
                files.push(file)
            }
        });
    }
    let lines = |(place, files): &(&str, Vec<String>)| format!("By hand, from {place}:\n  {}\n", files.join("\n  "));
    places.iter().map(lines).collect()
}

#[derive(Serialize)]
struct PresetRow {
    name: String,
    about: String,
}

fn presets(args: &ListArgs, lab: &Lab) -> Result<()> {
    let load = |preset: &crate::lab::Preset| {
        let Experiment { name, about, .. } = Experiment::load(lab, &preset.name, Scale::Paper, Suite::Paper, &[])?;
        Ok(PresetRow { name, about })
    };
    let list: Vec<PresetRow> = lab.presets().iter().map(load).collect::<Result<_>>()?;
    print(&list, args.json, || {
        let mut rows = vec![["name", "what it shows"].map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| vec![row.name.clone(), row.about.clone()]));
        table(&rows) + "\nRun one with `run NAME --backbone B --data-dir D`; `--dry-run` lists its runs.\n"
    })
}

#[derive(Serialize)]
struct BackboneRow {
    name: &'static str,
    layers: usize,
    hidden: usize,
    heads: usize,
    parameters: usize,
    fetched: bool,
    source: String,
    note: &'static str,
}

fn backbones(args: &ListArgs) -> Result<()> {
    let fetcher = args.cache.fetcher();
    let device = cpu();
    let mut list = Vec::new();
    for known in known_backbones() {
        let mut bert = Bert::random(&known.config, Init::new(0), &device)?;
        bert.pooler = bert.pooler.filter(|_| known.pooler);
        list.push(BackboneRow {
            name: known.name,
            layers: known.config.num_hidden_layers,
            hidden: known.config.hidden_size,
            heads: known.config.num_attention_heads,
            parameters: bert.num_params(),
            fetched: fetcher.has(known.name),
            source: known.source.to_string(),
            note: known.note,
        });
    }
    print(&list, args.json, || {
        let head = ["name", "layers", "hidden", "heads", "parameters", "fetched", "source", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| {
            vec![
                row.name.to_owned(),
                row.layers.to_string(),
                row.hidden.to_string(),
                row.heads.to_string(),
                grouped(row.parameters),
                if row.fetched { "yes" } else { "no" }.to_owned(),
                row.source.clone(),
                row.note.to_owned(),
            ]
        }));
        let folder = fetcher.cache.display();
        table(&rows)
            + &format!("\nFetched backbones are kept in {folder}. Any folder in Hugging Face layout works too.\n")
    })
}

fn devices(args: &ListArgs) -> Result<()> {
    let list = device_kinds();
    print(&list, args.json, || {
        let mut rows = vec![["device", "what", "in this build", "on this machine"].map(str::to_owned).to_vec()];
        for kind in &list {
            let built = if kind.built { "yes" } else { "no" };
            let memory = |bytes: Option<u64>| bytes.map_or(String::new(), |b| format!(", {:.1} GB", b as f64 / 1e9));
            let mut found: Vec<String> = kind
                .found
                .iter()
                .map(|device| format!("{}: {}{}", device.name, device.adapter, memory(device.memory_bytes)))
                .collect();
            found.extend(kind.problem.clone());
            found.extend(kind.build.as_ref().map(|command| format!("build with `{command}`")));
            rows.push(vec![kind.name.to_owned(), kind.what.to_owned(), built.to_owned(), found.join("; ")]);
        }
        table(&rows)
            + "\n`wgpu` takes the adapter that the system prefers; `vulkan` and `metal` insist on their interface.\n"
    })
}
