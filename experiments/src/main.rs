//! The `adapter-lab` command.

use std::process::ExitCode;

use clap::Parser;
use experiments::Cli;

fn main() -> ExitCode {
    match experiments::run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
