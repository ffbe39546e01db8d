//! `runs sync`: what a tracking server does not have yet.

use analysis::RunState;
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{PlaceArgs, filter::Condition};
use crate::{
    cli::{output::print, progress::Notes},
    lab::Lab,
    run::{Mlflow, MlflowError},
    train::Watch,
};

/// Send the finished runs that the MLflow server of MLFLOW_TRACKING_URI does not have yet
///
/// For runs that were trained without --track mlflow, or while the server was down. MLFLOW_EXPERIMENT_NAME names the experiment
/// [default: adapter-lab]; MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, open a closed server.
#[derive(Args, Debug)]
pub struct SyncArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Only runs of which all of this holds, as for `runs list`
    #[arg(long = "where", value_name = "KEY=VALUE,…", value_delimiter = ',')]
    conditions: Vec<Condition>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct Synced {
    server: String,
    /// Runs that were sent.
    sent: usize,
    /// Runs that the server had.
    already_there: usize,
    /// Runs that it does not want, and why.
    refused: Vec<Refused>,
}

#[derive(Serialize)]
struct Refused {
    id: String,
    reason: String,
}

pub fn run(args: &SyncArgs, lab: &Lab) -> Result<()> {
    let runs = &args.place.runs;
    ensure!(!runs.is_file(), "{} is an export: give --runs a folder of runs", runs.display());
    let mut mlflow = Mlflow::from_environment()?;
    let finished = args.place.list(lab)?.into_iter().filter(|run| {
        let over = matches!(run.state, RunState::Finished | RunState::Diverged);
        over && args.conditions.iter().all(|condition| condition.holds(run))
    });
    let known = mlflow.complete()?;
    let mut synced = Synced { server: mlflow.uri().to_owned(), ..Synced::default() };
    for run in finished {
        if known.contains(&run.id) {
            synced.already_there += 1;
            continue;
        }
        match mlflow.finished(runs, &run.id) {
            Ok(_) => synced.sent += 1,
            Err(MlflowError::Refused(error)) => {
                Notes.note(&format!("run {}: {error:#}", run.id));
                synced.refused.push(Refused { id: run.id, reason: format!("{error:#}") });
            }
            Err(away) => return Err(anyhow::Error::from(away).context(format!("{} runs were sent", synced.sent))),
        }
    }
    let Synced { server, sent, already_there, refused } = &synced;
    print(&synced, args.json, || format!("{sent} runs sent to {server}, {already_there} already there\n"))?;
    ensure!(refused.is_empty(), "{} runs could not be sent", refused.len());
    Ok(())
}
