//! `baseline`: the search without BERT.

use std::path::PathBuf;

use analysis::{DimensionRecord, RunRecord};
use anyhow::{Context, Result, ensure};
use clap::{Args, builder::RangedU64ValueParser};
use serde::Serialize;

use crate::{
    cli::{
        Session,
        args::{TrialContextArgs, check_folder},
        ctrl_c::request_stop,
        experiment_args::ExecutorArgs,
        output::{counted, print, table},
        sweep_progress::SweepProgress,
    },
    lab::Keys,
    run::{FileOptions, Layers, file_options},
    search::{Search, SearchOptions, Searched},
    sweep::Sweep,
};

/// Search for the best classifier without BERT (§3.3): word vectors, convolutions, hidden layers, a wide model on n-grams
///
/// Trials are drawn from the paper's space (`--explain` prints it) and compared on validation; the best third goes on with more
/// samples, and the best of all is trained with several seeds. Every trial is a run: kept, and never run twice. `run baseline`
/// searches for every task of Table 2, and the report shows it.
#[derive(Args, Debug)]
pub struct BaselineArgs {
    /// A known task (see `list tasks`), file:PATH or hub:OWNER/NAME, with one class for each text
    #[arg(long, value_name = "NAME|file:PATH|hub:NAME", required_unless_present = "explain")]
    task: Option<String>,
    /// Trials that are drawn
    #[arg(long, default_value_t = 30, value_name = "N", allow_negative_numbers = true)]
    trials: usize,
    /// Training examples that a trial sees, repeats counted: first all trials, then the best third, and so on; `random` draws the number
    /// from the space, and no trial goes on
    #[arg(long, default_value = "100000,300000,1000000", value_delimiter = ',', value_name = "N,…|random")]
    samples: Vec<String>,
    /// Files of word vectors to choose from (GloVe's or fastText's text format), `glove-50d`, or none
    #[arg(long, value_delimiter = ',', value_name = "FILE,…")]
    embeddings: Vec<PathBuf>,
    /// The backbone whose own word pieces are an embedding to choose
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    /// Fix a choice instead of drawing it, such as towers=wide
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Decides what is drawn
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    search_seed: u64,
    /// Seeds with which the best trial is trained
    #[arg(long, default_value_t = 3, value_name = "N")]
    seeds: u64,
    /// Training examples that are kept
    #[arg(long, value_name = "N|none", value_parser = limit)]
    limit: Option<Limit>,
    /// Validation examples that are kept
    #[arg(long, value_name = "N|none", value_parser = limit)]
    limit_validation: Option<Limit>,
    /// Folder of the runs: finished ones are not run again
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    #[command(flatten)]
    context: TrialContextArgs,
    /// Processes that run at the same time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: usize,
    #[command(flatten)]
    executor: ExecutorArgs,
    /// Print the space that is searched, and do nothing else
    #[arg(long)]
    explain: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A number of examples, or all of them.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<usize>);

fn limit(text: &str) -> Result<Limit, &'static str> {
    match text.parse() {
        _ if text == "none" => Ok(Limit(None)),
        Ok(examples) if examples > 0 => Ok(Limit(Some(examples))),
        _ => Err("a number from 1 on, or none, is needed"),
    }
}

/// What was found.
#[derive(Serialize)]
struct Found<'a> {
    task: &'a str,
    trials: usize,
    metric: Option<&'a str>,
    /// Validation scores of the best trial, one for each seed.
    validation: Vec<f64>,
    /// Test scores of the best trial, one for each seed; none without labels.
    test: Vec<f64>,
    best: Vec<&'a str>,
    chosen: &'a Keys,
}

pub fn run(args: &BaselineArgs, session: &Session<'_>) -> Result<()> {
    let options = options(args, session)?;
    if args.explain {
        let space = options.space_record();
        return print(&space, args.json, || {
            let mut rows = vec![["key", "values", "only if", "what it decides"].map(str::to_owned).to_vec()];
            let row = |row: &DimensionRecord| {
                let DimensionRecord { key, values, when, about } = row.clone();
                vec![key, values, when.unwrap_or_default(), about]
            };
            rows.extend(space.iter().map(row));
            table(&rows)
        });
    }
    let context = args.context.context(args.runs.clone())?;
    let task = args.task.clone().context("give --task")?;
    context.check_task(session.lab, &task)?;
    FileOptions::check_given(session.lab, &session.keys, &task)?;
    check_folder(&args.runs)?;
    request_stop(&session.stop);
    let search = Search::new(session.lab, &task, file_options(&session.keys)?, options);
    let mut watch = SweepProgress::new(args.json).cancelling(args.executor.yes);
    let executor = args.executor.executor(args.jobs, &Keys::new())?;
    ensure!(!args.executor.detach, "--detach is for `run baseline`");
    let mut sweep = Sweep { lab: session.lab, context: &context, stop: &session.stop, executor, watch: &mut watch };
    let searched = sweep.search(&search)?;
    let found = found(&searched).context("the search found nothing")?;
    print(&found, args.json, || text(&found))
}

fn options(args: &BaselineArgs, session: &Session<'_>) -> Result<SearchOptions> {
    let samples = match &args.samples[..] {
        [word] if word == "random" => Vec::new(),
        numbers => {
            let number =
                |text: &String| text.parse().with_context(|| format!("--samples {text}: give a number, or random"));
            numbers.iter().map(number).collect::<Result<_>>()?
        }
    };
    let mut fixed = Keys::new();
    for text in &args.set {
        let (key, value) = text.split_once('=').with_context(|| format!("--set {text}: give KEY=VALUE"))?;
        fixed.insert(key.trim().to_owned(), Layers::new(session.lab).value(value.trim()));
    }
    let options = SearchOptions {
        trials: args.trials,
        samples,
        search_seed: args.search_seed,
        seeds: args.seeds,
        embeddings: args.embeddings.iter().filter(|file| file.as_os_str() != "none").cloned().collect(),
        backbone: args.backbone.clone(),
        limit: args.limit.and_then(|limit| limit.0),
        limit_seed: 0,
        limit_validation: args.limit_validation.and_then(|limit| limit.0),
        fixed,
    };
    options.check()?;
    Ok(options)
}

fn found(searched: &Searched) -> Option<Found<'_>> {
    let best: Vec<&RunRecord> = searched.trials.iter().filter(|trial| searched.best.contains(&trial.id)).collect();
    let metric = best.first()?.last.as_ref().map(|last| last.metric.as_str());
    let of = |scores: &std::collections::BTreeMap<String, f64>| scores.get(metric?).copied();
    Some(Found {
        task: &searched.task,
        trials: searched.trials.len(),
        metric,
        validation: best.iter().filter_map(|trial| of(&trial.last.as_ref()?.validation)).collect(),
        test: best.iter().filter_map(|trial| of(&trial.test)).collect(),
        best: best.iter().map(|trial| trial.id.as_str()).collect(),
        chosen: &best.first()?.config,
    })
}

fn text(found: &Found<'_>) -> String {
    let scores =
        |scores: &[f64]| scores.iter().map(|score| format!("{:.1}", 100.0 * score)).collect::<Vec<_>>().join(", ");
    let metric = found.metric.unwrap_or("score");
    let mut text = format!("{}: {}; the best, with each seed:\n", found.task, counted(found.trials, "trial"));
    text += &format!("validation {metric} {}\n", scores(&found.validation));
    if !found.test.is_empty() {
        text += &format!("test {metric} {}\n", scores(&found.test));
    }
    let chosen = found.chosen.iter().filter(|(key, _)| !["task", "tuning", "seed"].contains(&key.as_str()));
    let chosen = chosen.filter(|(_, value)| !value.is_null()).map(|(key, value)| format!("{key} = {value}"));
    text + &chosen.collect::<Vec<_>>().join("\n")
}
