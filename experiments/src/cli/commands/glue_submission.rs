//! `glue-submission`: predictions for GLUE's test sets, in the server's format.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use tasks::{TestSet, submission_files, zip_submission};

use crate::cli::{
    Session,
    args::{DataArgs, check_folder},
    output::print,
    saved::{Saved, UseArgs},
};

/// Predict GLUE's test sets with task files and write them in the server's format: one file per set, and submission.zip with all
/// of them
#[derive(Args, Debug)]
pub struct GlueSubmissionArgs {
    /// The task files, one per task; MNLI's predicts both of its test sets and the diagnostic one
    #[arg(long = "adapter", required = true, num_args = 1.., value_name = "FILE")]
    adapters: Vec<PathBuf>,
    #[command(flatten)]
    how: UseArgs,
    #[command(flatten)]
    data: DataArgs,
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

pub fn run(args: &GlueSubmissionArgs, session: &Session<'_>) -> Result<()> {
    submit(&args.adapters, &args.how, &args.data, &args.out, args.json, session)
}

/// Predicts and writes, after everything that can be wrong was looked at.
pub(super) fn submit(
    adapters: &[PathBuf],
    how: &UseArgs,
    data: &DataArgs,
    out: &Path,
    json: bool,
    session: &Session<'_>,
) -> Result<()> {
    check_folder(out)?;
    let data = data.folder(&how.cache);
    let all = how.load_all(adapters, session)?;
    let mut work: Vec<(&Saved, TestSet)> = Vec::new();
    for saved in &all {
        let task = saved.info.task.clone();
        for set in TestSet::of(&task, &data)? {
            saved.check_task(&task, set.kind, set.labels)?;
            let twice = work.iter().any(|(_, other)| other.file == set.file);
            ensure!(!twice, "two of the files predict {}: give one per task", set.file);
            work.push((saved, set));
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
