//! `predict`: what a task file says of new texts.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use tasks::{Example, FileTask, Prediction, TaskKind, TokenCache};

use super::glue_submission::submit;
use crate::{
    cli::{
        Session,
        args::DataArgs,
        output::{print, table},
        saved::{Saved, SavedArgs},
    },
    run::FileOptions,
};

/// Predict with a task file: a text, the texts of a file, or GLUE's test set for its server
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
    /// A file of texts: a table (.csv, .tsv, .jsonl, .json, .parquet) with the columns that the task file remembers; any other has a
    /// text on each line, where a tab divides the texts of a pair. `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The text's column in the table [default: as in training, or text]
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with = "text")]
    text_column: Option<String>,
    /// The second text's column in the table [default: as in training]
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with = "text")]
    pair_column: Option<String>,
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
    let input = Input::of(args)?;
    let saved = args.saved.load(session)?;
    if saved.kind == TaskKind::Span {
        bail!("`{}` answers questions about texts; score it with `eval`", saved.info.task);
    }
    let examples = match input {
        Input::Texts(examples) => examples,
        Input::Table(path) => table_examples(path, args, &saved)?,
    };
    for example in &examples {
        let (task, pairs) = (&saved.info.task, saved.info.pairs);
        let wrong = pairs.is_some_and(|pairs| pairs != example.pair.is_some());
        ensure!(
            !wrong || pairs == Some(false),
            "`{task}` is about pairs of texts: give --text-pair, a tab in each line, or --pair-column"
        );
        ensure!(!wrong, "`{task}` is about single texts: leave out the second one");
    }
    let predictions = saved.predict(&examples, &TokenCache::none())?;
    let rows: Vec<Row> = examples.into_iter().zip(predictions).map(|(e, p)| row(e, p, &saved)).collect();
    print(&rows, args.json, || {
        // A score has none.
        let has_probabilities = rows.iter().any(|row| !row.probabilities.is_empty());
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
        if !has_probabilities {
            cells.iter_mut().for_each(|row| drop(row.remove(1)));
        }
        table(&cells)
    })
}

/// Labels whose probability is shown in a line.
const SHOWN: usize = 5;

/// What is to be predicted.
enum Input<'a> {
    Texts(Vec<Example>),
    /// The task file knows its columns.
    Table(&'a Path),
}

impl<'a> Input<'a> {
    fn of(args: &'a PredictArgs) -> Result<Self> {
        match (&args.text, &args.input) {
            (Some(text), _) => Ok(Input::Texts(vec![example(1, text, args.text_pair.as_deref())])),
            (None, Some(path)) if FileTask::is_table(path) => Ok(Input::Table(path)),
            (None, Some(path)) => {
                let columns = args.text_column.is_some() || args.pair_column.is_some();
                let shown = path.display();
                ensure!(
                    !columns,
                    "{shown} has a text on each line: columns are for .csv, .tsv, .jsonl, .json and .parquet"
                );
                lines(path).with_context(|| format!("cannot read {shown}")).map(Input::Texts)
            }
            (None, None) => bail!("nothing to predict: give --text, --input or --submission"),
        }
    }
}

fn example(number: usize, text: &str, pair: Option<&str>) -> Example {
    Example { id: number.to_string(), text: text.to_owned(), pair: pair.map(str::to_owned), target: None }
}

/// A text on each line, or a pair with a tab between.
fn lines(path: &Path) -> Result<Vec<Example>> {
    let mut bytes = Vec::new();
    match path.to_str() {
        Some("-") => drop(io::stdin().read_to_end(&mut bytes)?),
        _ => bytes = fs::read(path)?,
    }
    let contents =
        String::from_utf8(bytes).ok().context("invalid UTF-8; convert it to UTF-8 (iconv -f latin1 -t utf8)")?;
    let lines = contents.lines().zip(1..).map(|(line, number)| match line.split_once('\t') {
        Some((text, pair)) => example(number, text, Some(pair)),
        None => example(number, line, None),
    });
    let examples: Vec<_> = lines.collect();
    ensure!(!examples.is_empty(), "it has no lines to predict");
    Ok(examples)
}

/// The texts of a table, by the columns that were given, or else by those of training.
fn table_examples(path: &Path, args: &PredictArgs, saved: &Saved) -> Result<Vec<Example>> {
    let remembered = saved.files();
    let files = FileOptions {
        text_column: args.text_column.clone().unwrap_or(remembered.text_column.clone()),
        pair_column: args.pair_column.clone().or(remembered.pair_column.clone()),
        ..remembered
    };
    let texts = files.task(path).texts();
    texts.context("its name says that it is a table with a head; a file with a text on each line needs another name, such as .txt")
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
