//! The `adapter-lab` command.

use std::process::ExitCode;

use clap::Parser;
use experiments::Cli;

fn main() -> ExitCode {
    experiments::keep_what_is_freed();
    let cli = Cli::parse();
    // On a thread of the pool, so that work is shared out without waking this one up for each operation.
    match rayon::scope(|_| experiments::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
