//! `run`: an experiment, all its runs.

use std::path::PathBuf;

use analysis::{Recall, RunRecord, Status, StreamRecord};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::ablate;
use crate::{
    cli::{
        Session,
        args::check_folder,
        ctrl_c::request_stop,
        experiment_args::{Estimated, ExperimentArgs},
        log,
        output::{counted, grouped, print, table},
        sweep_progress::SweepProgress,
    },
    lab::Lab,
    run::{RunConfig, RunContext, kept_evaluation},
    search::{Search, TrialConfig},
    sweep::{ExperimentKind, ExperimentResult, Plan, Sweep},
};

/// Run an experiment: a preset of the paper, or a file of your own with a grid of runs
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A preset (see `list presets`) or a .toml file of the same form
    #[arg(value_name = "FILE_OR_PRESET")]
    experiment: String,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    /// Folder of the runs: finished ones are not run again, interrupted ones continue
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    #[command(flatten)]
    how: ExperimentArgs,
}

pub fn run(args: &RunArgs, session: &Session<'_>) -> Result<()> {
    let context = args.how.context(args.runs.clone())?;
    let options = args.how.plan_options(args.backbone.as_deref(), session)?;
    let plan = Plan::new(session.lab, &args.experiment, &options, &context)?;
    note(&plan, &context);
    ensure!(!plan.is_empty(), "experiment `{}` has no runs", plan.experiment);
    let json = args.how.json;
    if args.how.dry_run {
        let estimated = args.how.estimated(std::slice::from_ref(&plan), &context, session);
        let planned = Planned { plan: &plan, estimated };
        return print(&planned, json, || plan_text(&plan, &args.experiment, session.lab) + &planned.estimated.text());
    }
    check_folder(&args.runs)?;
    request_stop(&session.stop);
    let executor = args.how.executor.executor(args.how.jobs(plan.backbone()), &plan.slurm)?;
    let mut progress = SweepProgress::new(json).cancelling(args.how.executor.yes);
    let plans = [plan];
    let mut sweep = Sweep { lab: session.lab, context: &context, stop: &session.stop, executor, watch: &mut progress };
    if args.how.executor.detach {
        return detached(&sweep.detach(&plans)?, json);
    }
    let mut result = None;
    sweep.execute(&plans, &mut |_, ended, _| {
        result = Some(ended);
        Ok(())
    })?;
    let ([plan], result) = (&plans, result.context("the experiment has no result")?);
    print(&result, json, || text(&result, session.lab))?;
    let runs = args.runs.display();
    match result.failed.len() {
        0 if json => Ok(()),
        0 => {
            let before = progress.before();
            log::note(&format!("{} is done{before}; `report --runs {runs}` draws it", plan.experiment));
            Ok(())
        }
        failed => {
            let what = match plan.kind {
                ExperimentKind::Train | ExperimentKind::Ablate => "runs",
                ExperimentKind::Stream => "streams",
                ExperimentKind::Search => "searches",
            };
            let some = !(result.runs.is_empty() && result.streams.is_empty());
            let others = if some { format!("; the others are in {runs}") } else { String::new() };
            bail!("{failed} of {} {what} failed{others}", plan.items().len())
        }
    }
}

/// Says where jobs are that go on without us.
pub(super) fn detached((queue, job): &(PathBuf, String), json: bool) -> Result<()> {
    let submitted = Submitted { queue, job };
    print(&submitted, json, || {
        format!("job {job} is submitted; `adapter-lab runs watch {}` follows it\n", queue.display())
    })
}

/// What `--detach` prints.
#[derive(Serialize)]
struct Submitted<'a> {
    queue: &'a PathBuf,
    job: &'a str,
}

/// What `--dry-run` prints.
#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(flatten)]
    estimated: Estimated,
}

/// Says what of the experiment is left out.
pub(super) fn note(plan: &Plan, context: &RunContext) {
    let name = &plan.experiment;
    if !plan.missing.is_empty() {
        let place = context.data_folder();
        let missing = plan.missing.join(", ");
        log::note(&format!("{name}: left out, their data is not in {}: {missing}", place.display()));
    }
    if !plan.too_large.is_empty() {
        log::note(&format!("{name}: left out: {}", plan.too_large.join("; ")));
    }
}

fn text(result: &ExperimentResult, lab: &Lab) -> String {
    let mut text = format!("{}\n", result.about);
    if !result.runs.is_empty() {
        let head = ["id", "run", "trained", "validation", "test"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(result.runs.values().filter_map(|record| row(record, lab)));
        text += &table(&rows);
    }
    for (id, ablation) in &result.ablations {
        text += &format!("\nrun {id}\n{}", ablate::text(ablation));
    }
    for stream in &result.streams {
        text += &stream_text(stream);
    }
    // What failed was said when it did.
    text
}

fn row(record: &RunRecord, lab: &Lab) -> Option<Vec<String>> {
    let of_run = serde_json::from_value(record.config.clone().into()).map(|config: RunConfig| config.describe(lab));
    let of_trial = || serde_json::from_value(record.config.clone().into()).map(|config: TrialConfig| config.describe());
    let label = of_run.or_else(|_| of_trial()).ok()?;
    let kept = kept_evaluation(record).filter(|_| record.status == Status::Finished);
    let test =
        kept.and_then(|kept| record.test.get(&kept.metric)).map_or("-".to_owned(), |score| format!("{score:.4}"));
    let validation =
        kept.map_or("diverged".to_owned(), |kept| format!("{} {:.4}", kept.metric, kept.validation[&kept.metric]));
    Some(vec![record.id.clone(), label, grouped(record.params.trained), validation, test])
}

/// A row for each stage: the score of every task so far.
fn stream_text(stream: &StreamRecord) -> String {
    let mut rows = vec![vec!["after".to_owned(), "trained".to_owned(), "total".to_owned()]];
    rows[0].extend(stream.stages.iter().map(|stage| stage.task.clone()));
    for stage in &stream.stages {
        let mut row = vec![stage.task.clone(), grouped(stage.trained), grouped(stage.total)];
        let cell = |recall: &Recall| format!("{:.4}{}", recall.now, if recall.identical { " =" } else { "" });
        row.extend(stage.recall.iter().map(cell));
        rows.push(row);
    }
    let (tuning, backbone) = (&stream.tuning, &stream.backbone);
    format!("\n{tuning} on {backbone}: validation scores after each task (=: every output the same, bit for bit)\n")
        + &table(&rows)
}

fn plan_text(plan: &Plan, name: &str, lab: &Lab) -> String {
    if !plan.searches.is_empty() {
        let line = |search: &Search| format!("{}: {}\n", search.task, counted(search.planned(), "trial"));
        return plan.searches.iter().map(line).collect();
    }
    let runs: String = plan.runs.iter().map(|run| format!("{}\n", run.describe(lab))).collect();
    let number = counted(plan.runs.len(), "run");
    format!("{runs}\n{number}; `config show {name}`, with the same options, prints their keys\n")
}
