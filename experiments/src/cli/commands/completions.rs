//! `completions` and `man`: what shells and readers of manuals need.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

use crate::cli::{Session, key_flags, output::print_text};

/// Print a shell's completions: `adapter-lab completions bash > ~/.local/share/bash-completion/completions/adapter-lab`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write manual pages, one for each command
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Their folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn completions(args: &CompletionsArgs, session: &Session<'_>) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut key_flags::command(session.lab), "adapter-lab", &mut script);
    print_text(&script)
}

pub fn man(args: &ManArgs, session: &Session<'_>) -> Result<()> {
    let write = |out: &Path| -> io::Result<()> {
        fs::create_dir_all(out)?;
        clap_mangen::generate_to(key_flags::command(session.lab), out)
    };
    write(&args.out).with_context(|| format!("cannot write to {}", args.out.display()))
}
