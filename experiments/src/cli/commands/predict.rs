//! `predict`: what a task file says of new texts.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use tasks::{Example, Prediction, TaskKind, TokenCache};

use super::glue_submission::submit;
use crate::cli::{
    Session,
    args::DataArgs,
    output::{print, table},
    saved::{Saved, SavedArgs},
};

/// Predict with a task file: a text, the lines of a file, or GLUE's test set for its server
#[derive(Args, Debug)]
pub struct PredictArgs {
    #[command(flatten)]
    saved: SavedArgs,
    /// A text
    #[arg(long, allow_hyphen_values = true, conflicts_with = "input")]
    text: Option<String>,
    /// The second text of a pair
    #[arg(long, allow_hyphen_values = true, requires = "text")]
    text_pair: Option<String>,
    /// A file with a text on each line; a tab divides the texts of a pair
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Predict the test set of the file's own GLUE task instead, and write the server's file into this folder (as
    /// `glue-submission` does for several)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["text", "input"])]
    submission: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A prediction as people read it.
#[derive(Serialize)]
struct Row {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_pair: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    /// Every label with its probability, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    probabilities: Vec<LabelProbability>,
}

#[derive(Serialize)]
struct LabelProbability {
    label: String,
    probability: f32,
}

pub fn run(args: &PredictArgs, session: &Session<'_>) -> Result<()> {
    if let Some(folder) = &args.submission {
        let adapters = std::slice::from_ref(&args.saved.adapter);
        return submit(adapters, &args.saved.how, &args.data, folder, args.json, session);
    }
    let examples = examples(args)?;
    let saved = args.saved.load(session)?;
    if saved.kind == TaskKind::Span {
        bail!("`{}` answers questions about texts; score it with `eval`", saved.info.task);
    }
    for example in &examples {
        let (task, pairs) = (&saved.info.task, saved.info.pairs);
        let wrong = pairs.is_some_and(|pairs| pairs != example.pair.is_some());
        ensure!(
            !wrong || pairs == Some(false),
            "`{task}` is about pairs of texts: give --text-pair, or a tab in each line"
        );
        ensure!(!wrong, "`{task}` is about single texts: leave out the second one");
    }
    let predictions = saved.predict(&examples, &TokenCache::none())?;
    let rows: Vec<Row> = examples.into_iter().zip(predictions).map(|(e, p)| row(e, p, &saved)).collect();
    print(&rows, args.json, || {
        let mut cells = vec![["prediction", "probabilities", "text"].map(str::to_owned).to_vec()];
        cells.extend(rows.iter().map(|row| {
            let labels = row.labels.as_ref().map(|labels| labels.join(", "));
            let score = row.score.map(|score| format!("{score:.3}"));
            let said = |LabelProbability { label, probability }: &LabelProbability| format!("{label} {probability:.3}");
            let probabilities: Vec<String> = row.probabilities.iter().take(SHOWN).map(said).collect();
            let more = if row.probabilities.len() > SHOWN { ", …" } else { "" };
            let pair = row.text_pair.as_ref().map(|pair| format!(" | {pair}")).unwrap_or_default();
            vec![
                row.label.clone().or(labels).or(score).unwrap_or_default(),
                probabilities.join(", ") + more,
                format!("{}{pair}", row.text),
            ]
        }));
        table(&cells)
    })
}

/// Labels whose probability is shown in a line.
const SHOWN: usize = 5;

fn examples(args: &PredictArgs) -> Result<Vec<Example>> {
    let example = |number: usize, text: &str, pair: Option<&str>| Example {
        id: number.to_string(),
        text: text.to_owned(),
        pair: pair.map(str::to_owned),
        target: None,
    };
    match (&args.text, &args.input) {
        (Some(text), _) => Ok(vec![example(1, text, args.text_pair.as_deref())]),
        (None, Some(path)) => {
            let contents = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let lines = contents.lines().enumerate().map(|(number, line)| match line.split_once('\t') {
                Some((text, pair)) => example(number + 1, text, Some(pair)),
                None => example(number + 1, line, None),
            });
            let examples: Vec<_> = lines.collect();
            ensure!(!examples.is_empty(), "{} has no lines to predict", path.display());
            Ok(examples)
        }
        (None, None) => bail!("nothing to predict: give --text, --input or --submission"),
    }
}

fn row(example: Example, prediction: Prediction, saved: &Saved) -> Row {
    let name = |label: &usize| saved.info.labels.get(*label).cloned().unwrap_or_else(|| label.to_string());
    let (text, text_pair) = (example.text, example.pair);
    let row = Row { text, text_pair, label: None, labels: None, score: None, probabilities: Vec::new() };
    let named = |probabilities: Vec<f32>| {
        let each = probabilities.into_iter().enumerate();
        let mut named: Vec<_> =
            each.map(|(label, probability)| LabelProbability { label: name(&label), probability }).collect();
        named.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        named
    };
    match prediction {
        Prediction::Class(class, all) => Row { label: Some(name(&class)), probabilities: named(all), ..row },
        Prediction::Labels(labels, all) => {
            Row { labels: Some(labels.iter().map(name).collect()), probabilities: named(all), ..row }
        }
        Prediction::Score(score) => Row { score: Some(score), ..row },
    }
}
