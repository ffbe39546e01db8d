//! The command line: the one module that knows arguments, the terminal, signals and exit codes.

mod args;
mod bars;
mod commands;
mod ctrl_c;
#[cfg(feature = "dashboard")]
mod dashboard;
mod experiment_args;
mod key_flags;
mod log;
mod made;
mod output;
mod progress;
mod saved;
mod sweep_progress;

use std::{ffi::OsString, panic, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::{FromArgMatches, Parser, Subcommand};

use crate::{
    device::{guard, retain_freed_memory},
    lab::{Keys, Lab},
    run::{general_keys, settle_tracking},
    train::Stop,
};
use commands::*;

/// Parameter-efficient transfer learning on a frozen BERT: adapters, their rivals, and what they cost.
#[derive(Debug, Parser)]
#[command(
    name = "adapter-lab",
    version = made::version(),
    long_version = made::long_version(),
    after_help = "Without a command: reproduce, on the built-in backbone `nano` and its language."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    log: log::LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Train(Box<train::TrainArgs>),
    Run(Box<run::RunArgs>),
    Reproduce(Box<reproduce::ReproduceArgs>),
    Report(report::ReportArgs),
    Runs(runs::RunsArgs),
    #[command(hide = true)]
    Work(work::WorkArgs),
    Baseline(Box<baseline::BaselineArgs>),
    Pretrain(pretrain::PretrainArgs),
    Params(params::ParamsArgs),
    Encode(encode::EncodeArgs),
    FillMask(fill_mask::FillMaskArgs),
    Eval(eval::EvalArgs),
    Predict(predict::PredictArgs),
    GlueSubmission(glue_submission::GlueSubmissionArgs),
    Ablate(ablate::AblateArgs),
    Export(exchange::ExportArgs),
    Import(exchange::ImportArgs),
    Merge(exchange::MergeArgs),
    Bench(bench::BenchArgs),
    Parity(parity::ParityArgs),
    Fetch(fetch::FetchArgs),
    List(list::ListArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
}

/// How long a tracking server may take for what it does not have when the command is over.
const LAST_CHANCE: Duration = Duration::from_secs(10);

/// What a command works with.
struct Session<'a> {
    lab: &'a Lab,
    /// Keys that were given as flags.
    keys: Keys,
    /// Set by Ctrl-C.
    stop: Stop,
}

/// The whole program: reads the command line, runs the command with what `lab` has, and says what went wrong.
pub fn main(lab: Lab) -> ExitCode {
    retain_freed_memory();
    log::colour_of_arguments();
    let matches = match lab.check(&general_keys()) {
        Ok(()) => key_flags::command(&lab).get_matches(),
        Err(error) => return fail(&error),
    };
    // A device that fails panics, and so does a defect: both become an error. RUST_BACKTRACE shows where.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        panic::set_hook(Box::new(|_| {}));
    }
    // As much room as the first thread has. Where the pool is there already, it stays as it is.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(8 << 20).build_global();
    // On a thread of the pool, so that work is shared out without waking this one up for each operation. A thread that this
    // one waits for must not share out work itself: with one thread in the pool, both would wait for ever.
    match rayon::scope(|_| parsed(&lab, &matches)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    log::error(error);
    ExitCode::FAILURE
}

/// Runs one command, given as arguments after the program's name.
///
/// # Errors
/// If the arguments make no sense or the command fails; the message says what was wrong, where, and what to do.
pub fn run_command<I, T>(lab: &Lab, arguments: I) -> Result<()>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    lab.check(&general_keys())?;
    let name = [OsString::from("adapter-lab")].into_iter();
    let arguments = name.chain(arguments.into_iter().map(Into::into));
    parsed(lab, &key_flags::command(lab).try_get_matches_from(arguments)?)
}

fn parsed(lab: &Lab, matches: &clap::ArgMatches) -> Result<()> {
    let cli = Cli::from_arg_matches(matches)?;
    cli.log.apply();
    match cli.command {
        Some(command) => execute(lab, matches, command),
        None => {
            let matches = key_flags::command(lab).try_get_matches_from(["adapter-lab", "reproduce"])?;
            let reproduce = Cli::from_arg_matches(&matches)?.command;
            reproduce.map_or(Ok(()), |reproduce| execute(lab, &matches, reproduce))
        }
    }
}

fn execute(lab: &Lab, matches: &clap::ArgMatches, command: Command) -> Result<()> {
    let session = Session { lab, keys: key_flags::given(lab, matches)?, stop: Stop::default() };
    let result = guard(|| match command {
        Command::Demo(args) => demo::run(&args, &session),
        Command::Train(args) => train::run(&args, &session),
        Command::Run(args) => run::run(&args, &session),
        Command::Reproduce(args) => reproduce::run(&args, &session),
        Command::Report(args) => report::run(&args, &session),
        Command::Runs(args) => runs::run(&args, &session),
        Command::Work(args) => work::run(&args, &session),
        Command::Baseline(args) => baseline::run(&args, &session),
        Command::Pretrain(args) => pretrain::run(&args, &session),
        Command::Params(args) => params::run(&args, &session),
        Command::Encode(args) => encode::run(&args),
        Command::FillMask(args) => fill_mask::run(&args),
        Command::Eval(args) => eval::run(&args, &session),
        Command::Predict(args) => predict::run(&args, &session),
        Command::GlueSubmission(args) => glue_submission::run(&args, &session),
        Command::Ablate(args) => ablate::run(&args, &session),
        Command::Export(args) => exchange::run_export(&args, &session),
        Command::Import(args) => exchange::run_import(&args, &session),
        Command::Merge(args) => exchange::run_merge(&args, &session),
        Command::Bench(args) => bench::run(&args, &session),
        Command::Parity(args) => parity::run(&args, &session),
        Command::Fetch(args) => fetch::run(&args, &session),
        Command::List(args) => list::run(&args, &session),
        Command::Config(args) => config::run(&args, &session),
        Command::Completions(args) => completions::completions(&args, &session),
        Command::Man(args) => completions::man(&args, &session),
    });
    settle();
    result
}

/// Says what a tracking server does not have, after it had its chance.
fn settle() {
    settle_tracking(LAST_CHANCE).iter().for_each(|text| log::note(text));
}
