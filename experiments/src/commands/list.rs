//! `list`: what there is.

use std::path::PathBuf;

use adapter_core::Init;
use anyhow::Result;
use bert_backbone::{Bert, Source, known_backbones};
use burn::module::Module;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{grouped, print, table};
use crate::{
    backbones::CacheArgs,
    device::{cpu, device_kinds},
    experiment::{Experiment, PRESETS, Scale, Tasks},
};

/// List what there is to choose from
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    what: What,
    /// Folder with glue_data/, additional/ and squad/, for `list tasks`
    #[arg(long, env = "ADAPTER_LAB_DATA", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    cache: CacheArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Tasks of the paper, and whether their data is under --data-dir
    Tasks,
    /// Experiments of the paper, for `run`
    Presets,
    /// Backbones known by name
    Backbones,
    /// Devices: those of this build, and what was found on this machine
    Devices,
}

pub fn run(args: &ListArgs) -> Result<()> {
    match args.what {
        What::Tasks => task_list(args),
        What::Presets => presets(args),
        What::Backbones => backbones(args),
        What::Devices => devices(args),
    }
}

#[derive(Serialize)]
struct TaskRow {
    name: &'static str,
    suite: String,
    kind: String,
    classes: Option<usize>,
    metric: String,
    /// Unknown without a data folder.
    present: Option<bool>,
}

fn task_list(args: &ListArgs) -> Result<()> {
    let row = |task: tasks::Task| TaskRow {
        name: task.name,
        suite: task.suite.to_string(),
        kind: task.kind.to_string(),
        classes: task.classes,
        metric: task.metric.to_string(),
        present: args.data_dir.as_ref().map(|folder| task.is_present(folder)),
    };
    let list: Vec<TaskRow> = tasks::tasks().into_iter().map(row).collect();
    print(&list, args.json, || {
        let head = ["name", "suite", "kind", "classes", "metric", "data"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| {
            let present = row.present.map_or("?", |present| if present { "yes" } else { "no" });
            let classes = row.classes.map_or("-".to_owned(), |classes| classes.to_string());
            let name = row.name.to_owned();
            vec![name, row.suite.clone(), row.kind.clone(), classes, row.metric.clone(), present.to_owned()]
        }));
        let hint = match &args.data_dir {
            Some(folder) => format!("\nLooked for data in {}.\n", folder.display()),
            None => "\nGive --data-dir (or ADAPTER_LAB_DATA) to see which data is there.\n".to_owned(),
        };
        table(&rows) + &hint
    })
}

#[derive(Serialize)]
struct PresetRow {
    name: String,
    about: String,
}

fn presets(args: &ListArgs) -> Result<()> {
    let load = |(name, _): &(&str, &str)| {
        let Experiment { name, about, .. } = Experiment::load(name, Scale::Paper, Tasks::Paper, &[])?;
        Ok(PresetRow { name, about })
    };
    let list: Vec<PresetRow> = PRESETS.iter().map(load).collect::<Result<_>>()?;
    print(&list, args.json, || {
        let mut rows = vec![["name", "what it shows"].map(str::to_owned).to_vec()];
        rows.extend(list.iter().map(|row| vec![row.name.clone(), row.about.clone()]));
        table(&rows) + "\nRun one with `adapter-lab run NAME --backbone B --data-dir D`; `--dry-run` lists its runs.\n"
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
        list.push(BackboneRow {
            name: known.name,
            layers: known.config.num_hidden_layers,
            hidden: known.config.hidden_size,
            heads: known.config.num_attention_heads,
            parameters: Bert::random(&known.config, Init::new(0), &device)?.num_params(),
            fetched: fetcher.find(known.name).is_ok(),
            source: match known.source {
                Source::Embedded => "built in".to_owned(),
                Source::Hub { repository } => format!("hub: {repository}"),
                Source::Wheel { package, version, .. } => format!("pip: {package}=={version}"),
            },
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
