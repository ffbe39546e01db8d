//! `reproduce`: every experiment of the paper, and the report.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::{
    report,
    run::{detached, note},
};
use crate::{
    cli::{
        Session,
        args::check_folder,
        ctrl_c::request_stop,
        experiment_args::{Estimated, ExperimentArgs},
        log,
        output::print,
        sweep_progress::SweepProgress,
    },
    lab::{Keys, Lab},
    run::Layers,
    sweep::{Plan, Sweep, duration},
};

/// Run every experiment of the paper and write the figures, the tables and the page: also what the program does without a command
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`), in this order [default: all, the fewest runs first]
    #[arg(long, value_name = "NAME,…", num_args = 1.., value_delimiter = ',')]
    preset: Vec<String>,
    /// A known name (see `list backbones`) or a folder in Hugging Face layout [default: nano at quick scale, else what each preset names]
    #[arg(long, value_name = "NAME|FOLDER")]
    backbone: Option<String>,
    /// Folder for the page, the figures and the tables
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
    /// Folder of the runs: finished ones are not run again, interrupted ones continue [default: runs in --out]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    how: ExperimentArgs,
}

/// What `--dry-run` prints.
#[derive(Serialize)]
struct Planned<'a> {
    experiments: &'a [Plan],
    #[serde(flatten)]
    estimated: Estimated,
}

fn text(planned: &Planned<'_>) -> String {
    let seconds = |name: &str| planned.estimated.estimate.as_ref()?.by_experiment.get(name).copied();
    let line = |plan: &Plan| {
        let (name, runs) = (&plan.experiment, plan.planned());
        let time = seconds(name).map_or(String::new(), |seconds| format!(", {}", duration(seconds)));
        format!("{name}: {runs} runs{time}\n")
    };
    let lines: String = planned.experiments.iter().map(line).collect();
    lines + &planned.estimated.text()
}

/// What is about to happen.
fn introduction(plans: &[Plan], lab: &Lab) -> String {
    let shown: Vec<String> = plans.iter().flat_map(|plan| shown_by(plan, lab)).map(|(_, short)| short).collect();
    let backbones: BTreeSet<&str> = plans.iter().filter_map(Plan::backbone).collect();
    let experiments =
        if plans.len() == 1 { "One experiment".to_owned() } else { format!("{} experiments", plans.len()) };
    let backbones = backbones.into_iter().collect::<Vec<_>>().join(" and ");
    format!("{experiments} on {backbones}: {}.", shown.join(", "))
}

/// What an experiment is for: names of figures and tables, and short ones for people.
fn shown_by(plan: &Plan, lab: &Lab) -> Vec<(String, String)> {
    let own = lab.exhibits().iter().filter(|exhibit| exhibit.experiment() == plan.experiment);
    let own = own.filter(|exhibit| exhibit.behind().is_none());
    own.map(|exhibit| (exhibit.name().to_owned(), exhibit.short().to_owned())).collect()
}

pub fn run(args: &ReproduceArgs, session: &Session<'_>) -> Result<()> {
    let lab = session.lab;
    let runs_folder = args.runs.clone().unwrap_or_else(|| args.out.join("runs"));
    let context = args.how.context(runs_folder.clone())?;
    let mut options = args.how.plan_options(args.backbone.as_deref(), session)?;
    let is_named = options.set.contains_key("backbone") || Layers::new(lab).environment()?.contains_key("backbone");
    if !is_named && !args.how.presets_name_backbones() {
        options.set.insert("backbone".to_owned(), "nano".into());
    }
    let presets: Vec<&str> = if args.preset.is_empty() {
        lab.presets().iter().filter(|preset| preset.is_reproduced).map(|preset| preset.name.as_str()).collect()
    } else {
        args.preset.iter().map(String::as_str).collect()
    };
    let plan = |name| Plan::new(lab, name, &options, &context);
    let mut plans: Vec<Plan> = presets.into_iter().map(plan).collect::<Result<_>>()?;
    plans.iter().for_each(|plan| note(plan, &context));
    plans.retain(|plan| !plan.is_empty());
    if args.preset.is_empty() {
        // The fewest runs first: the page has something to show as soon as it can.
        plans.sort_by_key(Plan::planned);
    }
    ensure!(!plans.is_empty(), "there is nothing to run");
    if args.how.dry_run {
        let estimated = args.how.estimated(&plans, &context, session);
        let planned = Planned { experiments: &plans, estimated };
        return print(&planned, args.how.json, || text(&planned));
    }
    [&args.out, &runs_folder].into_iter().try_for_each(|folder| check_folder(folder))?;
    request_stop(&session.stop);
    let say = |text: String| {
        if !args.how.json {
            log::progress(&text);
        }
    };
    let page = args.out.join("report.html");
    say(format!("{}\nThe page is {}; it grows with every experiment.", introduction(&plans, lab), page.display()));
    let mut progress = SweepProgress::new(args.how.json);
    if !args.how.json {
        let estimated = args.how.estimated(&plans, &context, session);
        say(estimated.text().trim_end().to_owned());
        if let Some(estimate) = &estimated.estimate {
            progress = progress.of_all(estimate);
        }
    }
    let jobs = args.how.jobs(plans.iter().find_map(Plan::backbone));
    let executor = args.how.executor.executor(jobs, &Keys::new())?;
    let mut progress = progress.cancelling(args.how.executor.yes);
    let mut sweep = Sweep { lab, context: &context, stop: &session.stop, executor, watch: &mut progress };
    if args.how.executor.detach {
        return detached(&sweep.detach(&plans)?, args.how.json);
    }
    // In their order, so that each is whole as soon as it can be. What they share is run once.
    let (mut failed, mut report) = (0, None);
    sweep.execute(&plans, &mut |plan, result, watch| {
        let written = report::write(&runs_folder, &args.out, lab)?;
        let mut shown = shown_by(plan, lab);
        shown.retain(|(name, _)| !written.gaps.contains(name));
        let shown: Vec<&str> = shown.iter().map(|(_, short)| short.as_str()).collect();
        let has = if shown.is_empty() { String::new() } else { format!(": the page has {}", shown.join(", ")) };
        let failures = match result.failed.len() {
            0 => String::new(),
            failures => format!(", {failures} failed"),
        };
        watch.concluded(&plan.experiment, &format!("{failures}{has}"));
        failed += result.failed.len();
        report = Some(written);
        Ok(())
    })?;
    let written: report::Written = report.context("there is nothing to run")?.into();
    print(&written, args.how.json, || report::text(&written))?;
    written.check_whole(false)?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} failed, as said above; the same command tries again"),
    }
}
