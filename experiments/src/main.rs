//! The `adapter-lab` command.

use std::{panic, process::ExitCode};

use clap::Parser;
use experiments::Cli;

fn main() -> ExitCode {
    experiments::keep_what_is_freed();
    let cli = Cli::parse();
    // A device that fails panics, and so does a defect: both become an error. Who wants to see where asks for it.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        panic::set_hook(Box::new(|_| {}));
    }
    // As much room as the first thread has. Where the pool is there already, it stays as it is.
    let _ = rayon::ThreadPoolBuilder::new().stack_size(8 << 20).build_global();
    // On a thread of the pool, so that work is shared out without waking this one up for each operation. A thread that this
    // one waits for must not share out work itself: with one thread in the pool, both would wait for ever.
    match rayon::scope(|_| experiments::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
