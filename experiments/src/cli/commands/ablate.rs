//! `ablate`: what a task file inserts, removed from every span of layers.

use analysis::AblationRecord;
use anyhow::{Result, ensure};
use clap::Args;

use super::eval::{Split, evaluation_set, task_name};
use crate::cli::{
    Session,
    output::{print, table},
    saved::{SavedArgs, ScoredTaskArgs},
};

/// Remove a task file's adapters from every span of layers and show what each removal costs (Fig. 6 of the paper)
#[derive(Args, Debug)]
pub struct AblateArgs {
    #[command(flatten)]
    task: ScoredTaskArgs,
    #[command(flatten)]
    saved: SavedArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &AblateArgs, session: &Session<'_>) -> Result<()> {
    args.task.check(session)?;
    let saved = args.saved.load(session)?;
    ensure!(saved.model.has_insertions(), "`{}` has no adapters to remove", args.saved.adapter.display());
    let task = saved.task(&args.task, session)?;
    let data = task.load(&saved, session)?;
    let set = evaluation_set(&saved, &task.name, &data, Split::Validation)?.with_metrics(&session.lab.metrics);
    let ablation = saved.model.ablate(&set, saved.inference())?;
    let report = ablation.record(&task_name(&task.name, &data), saved.kind, set.majority_accuracy());
    print(&report, args.json, || text(&report))
}

/// A triangle: rows are the first layer removed, columns the last.
pub(super) fn text(report: &AblationRecord) -> String {
    let mut rows = vec![vec!["first \\ last".to_owned()]];
    rows[0].extend((0..report.layers).map(|last| last.to_string()));
    for first in 0..report.layers {
        let mut row = vec![first.to_string()];
        row.extend((0..report.layers).map(|last| {
            let span = report.spans.iter().find(|span| (span.first, span.last) == (first, last));
            span.map_or(String::new(), |span| format!("{:+.1}", 100.0 * span.relative_change))
        }));
        rows.push(row);
    }
    let whole = report.whole[&report.metric];
    // The whole model and one without each span, every layer of them.
    let (passes, anew) = (report.layer_passes, report.layers * (1 + report.spans.len()));
    let saved =
        if passes < anew { format!(" instead of {anew}: spans share what lies below them") } else { String::new() };
    format!(
        "{}: {} {whole:.4} with all adapters; relative change in percent without those of a span of layers\n{}{passes} layer passes{saved}\n",
        report.task,
        report.metric,
        table(&rows)
    )
}
