//! What to run: the commands of `adapter-lab`.
//!
//! The binary parses its arguments into a [`Cli`] and calls [`run`]. Results go to standard output (with `--json`
//! one JSON document and nothing else), everything else to standard error.
//!
//! ```
//! use clap::Parser;
//! use experiments::Cli;
//!
//! let cli = Cli::try_parse_from(["adapter-lab", "params", "--backbone", "bert-base-uncased"]).unwrap();
//! experiments::run(cli).unwrap();
//! ```

mod backbones;
mod commands;
mod device;
mod saved;
mod task_args;

pub use commands::{Cli, run};
pub use device::{DEVICES, DeviceName, UnknownDevice};

/// The README's code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
