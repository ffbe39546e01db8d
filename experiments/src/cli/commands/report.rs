//! `report`: figures, tables and a page from records.

use std::path::PathBuf;

use analysis::{Finding, Problem, Verdict};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::cli::{
    Session,
    log::{self, Level},
    made::made,
    output::print,
};

/// Draw every figure and table from finished runs, without training
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Folder of the runs, or an export of one
    #[arg(long, default_value = "runs", value_name = "DIR|FILE")]
    runs: PathBuf,
    /// Folder for the page, the figures and the tables
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
    /// Make do without records that cannot be read; otherwise the report is written, but the command fails
    #[arg(long)]
    allow_incomplete: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is printed of a report.
#[derive(Serialize)]
pub(super) struct Written {
    page: PathBuf,
    runs: usize,
    /// Whether these runs agree with what the paper found.
    findings: Vec<FindingRow>,
    /// Figures and tables without any run.
    gaps: Vec<String>,
    /// Records that cannot be read: everything above is made without them.
    problems: Vec<Problem>,
}

/// Problems that are said one by one.
const SAID: usize = 10;

impl Written {
    /// Says which records the report lacks.
    ///
    /// # Errors
    /// If there are any, and that is not allowed.
    pub fn check_whole(&self, allow_incomplete: bool) -> Result<()> {
        let about = |problem: &Problem| serde_json::json!({"file": problem.file, "what": problem.what});
        for problem in self.problems.iter().take(SAID) {
            let text = format!("{} cannot be read: {}", problem.file, problem.what);
            log::say(Level::Failure, "unreadable", &text, || about(problem));
        }
        let (all, more) = (self.problems.len(), self.problems.len().saturating_sub(SAID));
        if more > 0 {
            let text = format!("and {more} more records cannot be read");
            log::say(Level::Failure, "unreadable", &text, || serde_json::json!({"more": more}));
        }
        ensure!(
            allow_incomplete || all == 0,
            "the report is made without {all} records that cannot be read: remove them, or import them again; with \
             --allow-incomplete that is no error"
        );
        Ok(())
    }
}

/// A finding of the paper, and what these runs show.
#[derive(Serialize)]
struct FindingRow {
    finding: &'static str,
    shows: String,
    verdict: Verdict,
    /// Where they disagree: the likely reason, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    likely: Option<String>,
}

impl From<analysis::Report> for Written {
    fn from(report: analysis::Report) -> Self {
        let row = |Finding { name: finding, shows, verdict, likely, .. }: Finding| FindingRow {
            finding,
            shows,
            verdict,
            likely,
        };
        let findings = report.findings.into_iter().map(row).collect();
        Self { page: report.page, runs: report.runs, findings, gaps: report.gaps, problems: report.problems }
    }
}

pub fn run(args: &ReportArgs, session: &Session<'_>) -> Result<()> {
    let written: Written = analysis::write_report(&args.runs, &args.out, session.lab.exhibits(), &made())?.into();
    print(&written, args.json, || text(&written))?;
    written.check_whole(args.allow_incomplete)
}

/// Where the report is, what it says, and what it lacks.
pub(super) fn text(written: &Written) -> String {
    let mut text = format!("{} runs: {}\n", written.runs, written.page.display());
    for FindingRow { finding, verdict, .. } in &written.findings {
        text += &format!("  {}: {finding}\n", verdict.in_words());
    }
    if !written.gaps.is_empty() {
        text += &format!("not run: {}\n", written.gaps.join(", "));
    }
    text
}
