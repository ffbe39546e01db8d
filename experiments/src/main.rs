//! The `adapter-lab` command.

use std::process::ExitCode;

use clap::Parser;
use experiments::Cli;

fn main() -> ExitCode {
    match experiments::run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output (`head`, a pager) had enough of it.
        Err(error) if experiments::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
