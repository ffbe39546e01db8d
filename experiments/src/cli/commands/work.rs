//! `work`: a process of a sweep.

use std::{io, path::PathBuf, thread};

use anyhow::Result;
use clap::Args;

use crate::{
    cli::{Session, ctrl_c, log, settle, sweep_progress::WorkerLog},
    run::cluster_job,
    sweep::{LEFT_EARLY, Left, Worker, submit_again},
};

/// Work at a queue that another command has made (`--jobs` and `--executor` start this)
#[derive(Args, Debug)]
pub struct WorkArgs {
    /// The queue's folder
    #[arg(value_name = "QUEUE")]
    queue: PathBuf,
    /// What this process is called [default: the cluster's job]
    #[arg(long)]
    name: Option<String>,
    /// End with standard input: whoever holds its other end looks after this process
    #[arg(long)]
    tended: bool,
}

pub fn run(args: &WorkArgs, session: &Session<'_>) -> Result<()> {
    ctrl_c::request_stop(&session.stop);
    let time_is_up = ctrl_c::stop_when_time_is_up(&session.stop)?;
    if args.tended {
        let stop = session.stop.clone();
        thread::spawn(move || {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            stop.request();
        });
    }
    let restart = std::env::var("SLURM_RESTART_COUNT").unwrap_or_else(|_| "0".to_owned());
    let of_cluster = || cluster_job().map(|job| format!("slurm-{job}-{restart}"));
    let name = args.name.clone().or_else(of_cluster).unwrap_or_else(|| format!("process-{}", std::process::id()));
    let worker = Worker { lab: session.lab, stop: &session.stop, name, tended: args.tended };
    match worker.work(&args.queue, &mut WorkerLog)? {
        Left::Done => Ok(()),
        Left::Early { moved } => {
            if time_is_up.requested() && moved {
                match submit_again(&args.queue) {
                    Ok(Some(job)) => log::note(&format!("time is up; job {job} goes on")),
                    Ok(None) => {}
                    Err(error) => log::note(&format!("time is up, and nobody goes on: {error:#}")),
                }
            }
            settle();
            std::process::exit(LEFT_EARLY)
        }
    }
}
