//! `eval`: a task file scored on its task.

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tasks::{Dataset, EvaluationSet, Example, Questions, Scores, TaskData, TaskKind, WindowConfig};

use crate::cli::{
    Session,
    output::{counted, print, table},
    saved::{Saved, SavedArgs, ScoredTaskArgs},
};

/// Score a task file on its task
#[derive(Args, Debug)]
pub struct EvalArgs {
    #[command(flatten)]
    task: ScoredTaskArgs,
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
pub enum Split {
    Train,
    Validation,
    Test,
    /// Train, validation and test together
    All,
}

impl Split {
    fn in_words(self) -> &'static str {
        match self {
            Split::Train => "training set",
            Split::Validation => "validation set",
            Split::Test => "test set",
            Split::All => "training, validation and test set",
        }
    }
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
    scores: Scores,
    /// Accuracy of always naming the class that is the most frequent among these examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    majority: Option<f64>,
}

pub fn run(args: &EvalArgs, session: &Session<'_>) -> Result<()> {
    args.task.check(session)?;
    let saved = args.saved.load(session)?;
    let task = saved.task(&args.task, session)?;
    let data = task.load(&saved, session)?;
    let set = evaluation_set(&saved, &task.name, &data, args.split)?.with_metrics(&session.lab.metrics);
    let scores = saved.model.evaluate(&set, saved.inference())?;
    ensure!(
        scores.values().all(|score| score.is_finite()),
        "the network's outputs are not finite: there is nothing to score"
    );
    let report = Report {
        task: task_name(&task.name, &data),
        split: args.split,
        examples: set.len(),
        metric: session.lab.tasks.find(&task.name).ok().map(|task| task.metric.clone()),
        scores,
        majority: set.majority_accuracy(),
    };
    print(&report, args.json, || {
        let mut rows = vec![["metric", "score"].map(str::to_owned).to_vec()];
        rows.extend(report.scores.iter().map(|(metric, score)| vec![metric.clone(), format!("{score:.4}")]));
        let examples = counted(report.examples, "example");
        let mut text = format!("{}: {}, {examples}\n{}", report.task, report.split.in_words(), table(&rows));
        if let Some(score) = report.majority {
            text += &format!("most frequent class of these examples: accuracy {score:.4}\n");
        }
        text
    })
}

/// What a task is called, however it was asked for.
pub fn task_name(asked: &str, data: &TaskData) -> String {
    match data {
        TaskData::Texts(dataset) => dataset.task.clone(),
        TaskData::Questions(_) => asked.to_owned(),
    }
}

/// The chosen examples of a task, as the file's model takes them.
pub fn evaluation_set(saved: &Saved, task: &str, data: &TaskData, split: Split) -> Result<EvaluationSet> {
    match data {
        TaskData::Texts(dataset) => texts(saved, dataset, split),
        TaskData::Questions(questions) => answers(saved, task, questions, split),
    }
}

fn texts(saved: &Saved, dataset: &Dataset, split: Split) -> Result<EvaluationSet> {
    saved.check_task(&dataset.task, dataset.kind, &dataset.labels)?;
    let examples: Vec<Example> = match split {
        Split::Train => dataset.train.clone(),
        Split::Validation => dataset.validation.clone(),
        Split::Test => dataset.test.clone(),
        Split::All => [&dataset.train[..], &dataset.validation, &dataset.test].concat(),
    };
    if !examples.iter().any(|example| example.target.is_some()) {
        let (task, set) = (&dataset.task, split.in_words());
        bail!("task `{task}` has no labels in its {set}; GLUE's test sets are scored by its server");
    }
    let (tokenizer, cache) = (&saved.backbone.tokenizer, saved.token_cache());
    Ok(EvaluationSet::texts(dataset, &examples, tokenizer, saved.max_length(), &cache)?)
}

fn answers(saved: &Saved, task: &str, questions: &Questions, split: Split) -> Result<EvaluationSet> {
    ensure!(saved.kind == TaskKind::Span, "the file was trained for {}; `{task}` asks for spans", saved.kind);
    let chosen = match split {
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
