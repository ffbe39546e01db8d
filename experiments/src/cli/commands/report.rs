//! `report`: figures, tables and a page from records.

use std::path::{Path, PathBuf};

use analysis::{Finding, Problem, Store, Verdict};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        Session,
        log::{self, Level},
        made::made,
        output::{counted, print},
    },
    lab::Lab,
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
    /// How many of them belong to no experiment.
    without_experiment: usize,
    /// Figures and tables of your own experiments.
    own: Vec<String>,
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
            let text = format!("{}: {}", problem.file, problem.what);
            log::say(Level::Failure, "unreadable", &text, || about(problem));
        }
        let (all, more) = (self.problems.len(), self.problems.len().saturating_sub(SAID));
        if more > 0 {
            let text = format!("{more} more cannot be read");
            log::say(Level::Failure, "unreadable", &text, || serde_json::json!({"more": more}));
        }
        let (records, them) = if all == 1 { ("record", "it") } else { ("records", "them") };
        ensure!(
            allow_incomplete || all == 0,
            "the report leaves out {all} {records} that cannot be read: remove {them} or import {them} again, or give \
             --allow-incomplete"
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
    /// Whether there is anything to compare.
    #[serde(skip)]
    is_compared: bool,
    /// Where they disagree: the likely reason, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    likely: Option<String>,
}

impl From<analysis::Report> for Written {
    fn from(report: analysis::Report) -> Self {
        let row = |Finding { name: finding, shows, verdict, likely, effects, left_out, .. }: Finding| FindingRow {
            finding,
            shows,
            verdict,
            is_compared: !(effects.is_empty() && left_out.is_empty()),
            likely,
        };
        let analysis::Report { page, runs, without_experiment, own, findings, gaps, problems } = report;
        Self { page, runs, without_experiment, own, findings: findings.into_iter().map(row).collect(), gaps, problems }
    }
}

pub fn run(args: &ReportArgs, session: &Session<'_>) -> Result<()> {
    let written: Written = write(&args.runs, &args.out, session.lab)?.into();
    print(&written, args.json, || text(&written))?;
    if written.runs == 0 && written.problems.is_empty() {
        log::note("there is nothing to draw: give --runs the folder of your runs (`reproduce` keeps them in out/runs)");
    }
    written.check_whole(args.allow_incomplete)
}

/// Writes the report on `runs` into `out`.
pub(super) fn write(runs: &Path, out: &Path, lab: &Lab) -> Result<analysis::Report> {
    let mut store = Store::read(runs)?;
    store.change_configs(lab.complete());
    Ok(store.write_report(out, lab.exhibits(), &made())?)
}

/// Where the report is, what it says, and what it lacks.
pub(super) fn text(written: &Written) -> String {
    let mut text = format!("{}: {}\n", counted(written.runs, "run"), written.page.display());
    if written.without_experiment > 0 {
        text += &format!(
            "not drawn, because they belong to no experiment: {} (`runs list` shows them)\n",
            counted(written.without_experiment, "run")
        );
    }
    if !written.own.is_empty() {
        text += &format!("your own experiments: {}\n", written.own.join(", "));
    }
    let (compared, others): (Vec<_>, Vec<_>) = written.findings.iter().partition(|finding| finding.is_compared);
    if !compared.is_empty() {
        text += "findings of the paper:\n";
    }
    for FindingRow { finding, verdict, .. } in compared {
        text += &format!("  {}: {finding}\n", verdict.in_words());
    }
    if !others.is_empty() {
        text += &format!("findings of the paper that need other runs: {}\n", others.len());
    }
    if !written.gaps.is_empty() {
        text += &format!("not run: {}\n", written.gaps.join(", "));
    }
    text
}
