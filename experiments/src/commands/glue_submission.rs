//! `glue-submission`: what saved v's say of GLUE's test sets, as its server takes it.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use tasks::{TestSet, submission_files, zip_submission};

use super::print;
use crate::saved::{Saved, UseArgs};

/// Predict GLUE's test sets with saved per-task files, and write what its server takes: a file for each set, and all of them in
/// submission.zip
#[derive(Args, Debug)]
pub struct GlueSubmissionArgs {
    /// The per-task files, one for each task; MNLI's answers both of its test sets and the diagnostic one
    #[arg(long = "adapter", required = true, num_args = 1.., value_name = "FILE")]
    adapters: Vec<PathBuf>,
    #[command(flatten)]
    how: UseArgs,
    /// Folder with glue_data/
    #[arg(long, env = "ADAPTER_LAB_DATA", value_name = "DIR")]
    data_dir: PathBuf,
    /// Folder of the server's files; those already there go into the archive too
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Serialize)]
struct Submission {
    files: Vec<PathBuf>,
    archive: PathBuf,
    examples: usize,
    /// Files that the server takes and the archive does not have.
    missing: Vec<&'static str>,
}

pub fn run(args: &GlueSubmissionArgs) -> Result<()> {
    submit(&args.adapters, &args.how, &args.data_dir, &args.out, args.json)
}

/// Predicts and writes, after everything that can be wrong was looked at.
pub(super) fn submit(adapters: &[PathBuf], how: &UseArgs, data: &Path, out: &Path, json: bool) -> Result<()> {
    let mut work: Vec<(Saved, TestSet)> = Vec::new();
    for saved in how.load_all(adapters)? {
        let task = saved.info.task.clone();
        for set in TestSet::of(&task, data)? {
            saved.check_task(&task, set.kind, set.labels)?;
            let twice = work.iter().any(|(_, other)| other.file == set.file);
            ensure!(!twice, "two of the files answer {}: give one for each task", set.file);
            work.push((saved.clone(), set));
        }
    }
    let (mut files, mut examples) = (Vec::new(), 0);
    for (saved, set) in work {
        let predictions = saved.predict(&set.examples, &saved.token_cache())?;
        examples += predictions.len();
        files.push(set.write(&predictions, out)?);
    }
    let archive = zip_submission(out)?;
    let missing = submission_files().filter(|name| !out.join(name).is_file()).collect();
    let submission = Submission { files, archive, examples, missing };
    print(&submission, json, || text(&submission))
}

fn text(submission: &Submission) -> String {
    let files: Vec<String> = submission.files.iter().map(|file| file.display().to_string()).collect();
    let (examples, archive) = (submission.examples, submission.archive.display());
    let mut text = format!("{examples} predictions in {}\nall such files in {archive}", files.join(", "));
    if !submission.missing.is_empty() {
        text.push_str(&format!("\nstill missing for the server: {}", submission.missing.join(", ")));
    }
    text
}
