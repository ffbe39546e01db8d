//! The `adapter-lab` command: the lab with the paper in it.

use std::process::ExitCode;

fn main() -> ExitCode {
    experiments::main(experiments::Lab::paper())
}
