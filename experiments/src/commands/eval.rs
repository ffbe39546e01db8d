//! `eval`: a saved v scored on its task.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tasks::{Dataset, EvaluationSet, Example, Questions, TaskData, TaskKind, WindowConfig, majority_accuracy};

use super::{print, table};
use crate::{
    saved::{Saved, SavedArgs},
    task_args::TaskArgs,
};

/// Score a saved per-task file on its task
#[derive(Args, Debug)]
pub struct EvalArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    saved: SavedArgs,
    /// Which examples
    #[arg(long, value_enum, default_value_t = Split::Validation)]
    split: Split,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Split {
    Train,
    Validation,
    Test,
    /// Train, validation and test together
    All,
}

#[derive(Serialize)]
struct Report {
    task: String,
    split: Split,
    examples: usize,
    /// The metric the task is judged by, for a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// Fractions, by metric.
    scores: BTreeMap<String, f64>,
    /// Accuracy of always naming the most frequent class.
    #[serde(skip_serializing_if = "Option::is_none")]
    majority: Option<f64>,
}

pub fn run(args: &EvalArgs) -> Result<()> {
    // A mistyped task is found before a backbone is loaded.
    args.task.check()?;
    let saved = args.saved.load()?;
    let (task, set, majority) = match &args.task.load(Some(&saved.info.labels))? {
        TaskData::Texts(dataset) => {
            let (set, majority) = texts(args, &saved, dataset)?;
            (dataset.task.clone(), set, majority)
        }
        TaskData::Questions(questions) => (args.task.name()?.to_owned(), answers(args, &saved, questions)?, None),
    };
    let scores = set.evaluate(saved.model(), &saved.backbone.config, saved.batch_size(), saved.device())?;
    let report = Report {
        task,
        split: args.split,
        examples: set.len(),
        metric: args.task.metric().map(|metric| metric.to_string()),
        scores: scores.into_iter().map(|(metric, score)| (metric.to_string(), score)).collect(),
        majority,
    };
    print(&report, args.json, || {
        let mut rows = vec![["metric", "score"].map(str::to_owned).to_vec()];
        rows.extend(report.scores.iter().map(|(metric, score)| vec![metric.clone(), format!("{score:.4}")]));
        rows.extend(report.majority.map(|score| vec!["(majority class)".to_owned(), format!("{score:.4}")]));
        format!("{} {:?}, {} examples\n{}", report.task, report.split, report.examples, table(&rows))
    })
}

/// The chosen texts, and the accuracy of their most frequent class.
fn texts(args: &EvalArgs, saved: &Saved, dataset: &Dataset) -> Result<(EvaluationSet, Option<f64>)> {
    saved.check_task(&dataset.task, dataset.kind, &dataset.labels)?;
    let examples: Vec<Example> = match args.split {
        Split::Train => dataset.train.clone(),
        Split::Validation => dataset.validation.clone(),
        Split::Test => dataset.test.clone(),
        Split::All => [&dataset.train[..], &dataset.validation, &dataset.test].concat(),
    };
    if !examples.iter().any(|example| example.target.is_some()) {
        let (task, split) = (&dataset.task, args.split);
        bail!("task `{task}` has no labelled {split:?} examples; GLUE's test sets are scored by its server");
    }
    let (tokenizer, cache) = (&saved.backbone.tokenizer, saved.token_cache());
    let set = EvaluationSet::texts(dataset, &examples, tokenizer, saved.max_length(), &cache)?;
    Ok((set, (saved.kind == TaskKind::Classification).then(|| majority_accuracy(&examples))))
}

/// The chosen questions.
fn answers(args: &EvalArgs, saved: &Saved, questions: &Questions) -> Result<EvaluationSet> {
    ensure!(saved.kind == TaskKind::Span, "the file was trained for {}, not for spans", saved.kind);
    let chosen = match args.split {
        Split::Train => &questions.train,
        Split::Validation => &questions.validation,
        Split::Test | Split::All => {
            bail!("SQuAD's test set is not public; its validation set is what the paper reports")
        }
    };
    let config = WindowConfig { max_length: saved.max_length(), ..WindowConfig::default() };
    let (tokenizer, cache) = (&saved.backbone.tokenizer, saved.token_cache());
    Ok(EvaluationSet::questions(chosen, questions.version, tokenizer, config, &cache)?)
}
