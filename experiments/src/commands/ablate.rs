//! `ablate`: a saved v's adapters removed from every span of layers.

use analysis::AblationRecord;
use anyhow::{Result, bail, ensure};
use clap::Args;
use tasks::{EvaluationSet, TaskData};

use super::print;
use crate::{ablation::ablate_spans, saved::SavedArgs, task_args::TaskArgs};

/// Remove a saved file's adapters from every span of layers and show what each removal costs (Fig. 6 of the paper)
#[derive(Args, Debug)]
pub struct AblateArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    saved: SavedArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &AblateArgs) -> Result<()> {
    args.task.check()?;
    let saved = args.saved.load()?;
    ensure!(saved.info.adapter.is_some(), "`{}` has no adapters to remove", args.saved.adapter.display());
    let TaskData::Texts(dataset) = args.task.load(Some(&saved.info.labels))? else {
        bail!("ablation is for texts, not for questions");
    };
    saved.check_task(&dataset.task, dataset.kind, &dataset.labels)?;
    let cache = saved.token_cache();
    let tokenizer = &saved.backbone.tokenizer;
    let set = EvaluationSet::texts(&dataset, &dataset.validation, tokenizer, saved.max_length(), &cache)?;
    let ablation = ablate_spans(saved.model(), &set, &saved.backbone.config, saved.batch_size(), saved.device())?;

    let report = ablation.record(&dataset.task, saved.kind, set.majority_accuracy());
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
    format!(
        "{}: {} {whole:.4} with all adapters; change in percent without those of a span of layers\n{}{} layer passes\n",
        report.task,
        report.metric,
        super::table(&rows),
        report.layer_passes
    )
}
