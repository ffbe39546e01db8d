//! `eval`: a saved v scored on its task.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tasks::{
    AnswerConfig, Dataset, Example, Metric, Questions, TaskData, TaskKind, WindowConfig, best_answers, evaluate,
    evaluate_answers, majority_accuracy,
};

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
    let report = match &args.task.load(Some(&saved.info.labels))? {
        TaskData::Texts(dataset) => texts(args, &saved, dataset)?,
        TaskData::Questions(questions) => answers(args, &saved, questions)?,
    };
    print(&report, args.json, || {
        let mut rows = vec![["metric", "score"].map(str::to_owned).to_vec()];
        rows.extend(report.scores.iter().map(|(metric, score)| vec![metric.clone(), format!("{score:.4}")]));
        rows.extend(report.majority.map(|score| vec!["(majority class)".to_owned(), format!("{score:.4}")]));
        format!("{} {:?}, {} examples\n{}", report.task, report.split, report.examples, table(&rows))
    })
}

fn texts(args: &EvalArgs, saved: &Saved, dataset: &Dataset) -> Result<Report> {
    let (kind, labels) = (saved.kind, &saved.info.labels);
    ensure!(
        kind == dataset.kind && *labels == dataset.labels,
        "the file was trained for {kind} with labels {labels:?}; task `{}` is {} with {:?}",
        dataset.task,
        dataset.kind,
        dataset.labels
    );
    let examples: Vec<Example> = match args.split {
        Split::Train => dataset.train.clone(),
        Split::Validation => dataset.validation.clone(),
        Split::Test => dataset.test.clone(),
        Split::All => [&dataset.train[..], &dataset.validation, &dataset.test].concat(),
    };
    let examples = examples.as_slice();
    if !examples.iter().any(|example| example.target.is_some()) {
        bail!(
            "task `{}` has no labelled {:?} examples; GLUE's test sets are scored by its server",
            dataset.task,
            args.split
        );
    }
    let predictions = saved.predict(examples, &saved.token_cache())?;
    let scores = evaluate(kind, labels.len(), &predictions, examples);
    Ok(Report {
        task: dataset.task.clone(),
        split: args.split,
        examples: examples.len(),
        metric: args.task.metric().map(|metric| metric.to_string()),
        scores: named(scores),
        majority: (kind == TaskKind::Classification).then(|| majority_accuracy(examples)),
    })
}

fn answers(args: &EvalArgs, saved: &Saved, questions: &Questions) -> Result<Report> {
    ensure!(saved.kind == TaskKind::Span, "the file was trained for {}, not for spans", saved.kind);
    let version = questions.version;
    let questions = match args.split {
        Split::Train => &questions.train,
        Split::Validation => &questions.validation,
        Split::Test | Split::All => {
            bail!("SQuAD's test set is not public; its validation set is what the paper reports")
        }
    };
    let usual = WindowConfig::default();
    let config = WindowConfig { max_length: saved.max_length(usual.max_length), ..usual };
    let windows = saved.token_cache().windows(questions, &saved.backbone.tokenizer, config)?;
    let rows = saved.outputs(windows.tokens().clone())?;
    let scores: Vec<Vec<[f32; 2]>> = rows.iter().map(|row| row.as_chunks::<2>().0.to_vec()).collect();
    let config = AnswerConfig { version, ..AnswerConfig::default() };
    let answers = best_answers(questions, &windows, &scores, config);
    Ok(Report {
        task: args.task.task.clone(),
        split: args.split,
        examples: questions.len(),
        metric: args.task.metric().map(|metric| metric.to_string()),
        scores: named(evaluate_answers(&answers, questions)),
        majority: None,
    })
}

fn named(scores: BTreeMap<Metric, f64>) -> BTreeMap<String, f64> {
    scores.into_iter().map(|(metric, score)| (metric.to_string(), score)).collect()
}
