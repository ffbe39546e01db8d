//! The commands, one file each.

mod ablate;
mod bench;
mod encode;
mod eval;
mod fetch;
mod fill_mask;
mod glue_submission;
mod list;
mod params;
mod parity;
mod predict;
mod pretrain;
mod report;
mod reproduce;
mod run;
mod train;

use std::io::{self, Write};

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde::Serialize;

use crate::{guard::guard, sweep};

/// Parameter-efficient transfer learning on a frozen BERT: adapters, their rivals, and what they cost.
#[derive(Debug, Parser)]
#[command(name = "adapter-lab", version, after_help = "Without a command: reproduce, on the embedded default.")]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(Box<train::TrainArgs>),
    Run(Box<run::RunArgs>),
    Reproduce(Box<reproduce::ReproduceArgs>),
    Report(report::ReportArgs),
    /// Take runs from standard input (`run --jobs` starts this)
    #[command(hide = true)]
    Work,
    Pretrain(pretrain::PretrainArgs),
    Params(params::ParamsArgs),
    Encode(encode::EncodeArgs),
    FillMask(fill_mask::FillMaskArgs),
    Eval(eval::EvalArgs),
    Predict(predict::PredictArgs),
    GlueSubmission(glue_submission::GlueSubmissionArgs),
    Ablate(ablate::AblateArgs),
    Bench(bench::BenchArgs),
    Parity(parity::ParityArgs),
    Fetch(fetch::FetchArgs),
    List(list::ListArgs),
}

/// Runs a command.
///
/// # Errors
/// If the command fails, or panics; the message says what was wrong, where, and what to do.
pub fn run(cli: Cli) -> Result<()> {
    let Some(command) = cli.command else { return run(Cli::try_parse_from(["adapter-lab", "reproduce"])?) };
    guard(|| match command {
        Command::Train(args) => train::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Work => sweep::work(io::BufReader::new(io::stdin()), io::stdout()),
        Command::Pretrain(args) => pretrain::run(&args),
        Command::Params(args) => params::run(&args),
        Command::Encode(args) => encode::run(&args),
        Command::FillMask(args) => fill_mask::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::GlueSubmission(args) => glue_submission::run(&args),
        Command::Ablate(args) => ablate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Fetch(args) => fetch::run(&args),
        Command::List(args) => list::run(&args),
    })
}

/// Prints a result: as one JSON document, or as text for people.
fn print<T: Serialize>(result: &T, json: bool, text: impl FnOnce() -> String) -> Result<()> {
    let mut output = match json {
        true => serde_json::to_string_pretty(result)?,
        false => text(),
    };
    if !output.ends_with('\n') {
        output.push('\n');
    }
    match io::stdout().write_all(output.as_bytes()) {
        // Whoever reads our output (`head`, a pager) had enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Lines up the columns of a table, the first row being its head. Columns of numbers are right-aligned.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit());
    let numeric: Vec<_> = (0..columns)
        .map(|column| rows.iter().skip(1).filter_map(|row| row.get(column)).all(|cell| is_number(cell)))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match numeric[column] {
            true => format!("{cell:>width$}", width = widths[column]),
            false => format!("{cell:<width$}", width = widths[column]),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its thousands set apart: `2,419,202`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
