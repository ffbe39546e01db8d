//! `reproduce`: every experiment of the paper, and the report.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::{report, run::note};
use crate::{
    cli::{
        Session,
        args::check_folder,
        ctrl_c::request_stop,
        experiment_args::{Estimated, ExperimentArgs},
        made::made,
        output::print,
        progress::SweepProgress,
    },
    lab::Lab,
    sweep::{Plan, Sweep, duration},
};

/// Run every experiment of the paper and write the figures, the tables and the page: also what the program does without a command
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// Only these presets (see `list presets`), in this order [default: all, the shortest first]
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

/// What is about to happen, in a line or two.
fn introduction(plans: &[Plan], lab: &Lab) -> String {
    let runs: usize = plans.iter().map(Plan::planned).sum();
    let shown: Vec<String> = plans.iter().flat_map(|plan| shown_by(plan, lab)).collect();
    let backbones: BTreeSet<&str> = plans.iter().filter_map(Plan::backbone).collect();
    let experiments = match plans.len() {
        1 => "1 experiment".to_owned(),
        several => format!("{several} experiments"),
    };
    format!(
        "{experiments} on {}, {runs} runs at most (several share some): {}.",
        backbones.into_iter().collect::<Vec<_>>().join(" and "),
        shown.join(", ")
    )
}

/// What an experiment is for: figures and tables by their short names.
fn shown_by(plan: &Plan, lab: &Lab) -> Vec<String> {
    let own = lab.exhibits().iter().filter(|exhibit| exhibit.experiment() == plan.experiment);
    let names: Vec<String> =
        own.filter(|exhibit| exhibit.behind().is_none()).map(|exhibit| exhibit.short().to_owned()).collect();
    if names.is_empty() { vec![plan.experiment.clone()] } else { names }
}

pub fn run(args: &ReproduceArgs, session: &Session<'_>) -> Result<()> {
    let lab = session.lab;
    let runs_folder = args.runs.clone().unwrap_or_else(|| args.out.join("runs"));
    let context = args.how.context(runs_folder.clone())?;
    let nano = || (!args.how.presets_name_backbones()).then_some("nano");
    let backbone = args.backbone.as_deref().or_else(nano);
    let options = args.how.plan_options(backbone, session)?;
    let presets: Vec<&str> = if args.preset.is_empty() {
        lab.presets().iter().map(|preset| preset.name.as_str()).collect()
    } else {
        args.preset.iter().map(String::as_str).collect()
    };
    let plan = |name| Plan::new(lab, name, &options, &context);
    let mut plans: Vec<Plan> = presets.into_iter().map(plan).collect::<Result<_>>()?;
    plans.iter().for_each(|plan| note(plan, &context));
    plans.retain(|plan| !plan.is_empty());
    if args.preset.is_empty() {
        // The shortest first: the page has something to show as soon as it can.
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
            // Progress that nobody can read is no reason to stop.
            let _ = writeln!(io::stderr(), "{text}");
        }
    };
    let page = args.out.join("report.html");
    say(introduction(&plans, lab));
    say(format!("The page is {}; it grows with every experiment.", page.display()));
    let estimated = args.how.estimated(&plans, &context, session);
    say(estimated.text().trim_end().to_owned());
    let mut progress = SweepProgress::new(args.how.json);
    if let Some(estimate) = &estimated.estimate {
        progress = progress.of_all(estimate.runs + estimate.trials);
    }
    // One after the other, so that each is whole as soon as it can be. What they share is run once.
    let (mut failed, mut report) = (0, None);
    for plan in &plans {
        let mut sweep =
            Sweep { lab, context: &context, stop: &session.stop, jobs: args.how.jobs(backbone), watch: &mut progress };
        failed += plan.execute(&mut sweep)?.failed.len();
        report = Some(analysis::write_report(&runs_folder, &args.out, lab.exhibits(), &made())?);
        let before = match progress.before() {
            0 => String::new(),
            before => format!(", {before} of its {} runs were there", plan.planned()),
        };
        let shown = shown_by(plan, lab).join(", ");
        say(format!("{} is done{before}: {} has {shown}", plan.experiment, page.display()));
    }
    let written: report::Written = report.context("there is nothing to run")?.into();
    print(&written, args.how.json, || report::text(&written))?;
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} runs failed; the page names them"),
    }
}
