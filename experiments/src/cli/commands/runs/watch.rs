//! `runs watch`: work that other processes do.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use analysis::folder;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::{
    cli::{
        Session,
        ctrl_c::request_stop,
        log::{self, Level},
        output::print,
        sweep_progress::SweepProgress,
    },
    run::RunStore,
    sweep::{Heard, HeardRun, Queue},
    train::{Ended, SweepWatch},
};

/// Follow work that other processes do, such as jobs that --detach left behind
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The queue's folder [default: the newest of --runs]
    #[arg(value_name = "QUEUE")]
    queue: Option<PathBuf>,
    /// Folder of the runs
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// Say how things are, and do not wait
    #[arg(long)]
    once: bool,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

/// How work stands.
#[derive(Serialize)]
struct Standing {
    queue: PathBuf,
    /// Pieces of work.
    items: usize,
    /// Those that are over.
    ended: usize,
    /// Those that failed.
    failed: usize,
    /// Processes at work, and what they do.
    working: Vec<String>,
    /// Processes that left, and why.
    left: Vec<String>,
}

const LOOK: Duration = Duration::from_millis(500);

pub fn run(args: &WatchArgs, session: &Session<'_>) -> Result<()> {
    let place = match &args.queue {
        Some(place) => place.clone(),
        None => newest(&args.runs)?,
    };
    let queue = Queue::read(&place)?;
    let store = RunStore::new(queue.context.runs.clone().unwrap_or_default());
    request_stop(&session.stop);
    let mut progress = SweepProgress::new(args.json || args.once);
    let (mut heard, mut told) = (Heard::new(&place), vec![0; queue.items.len()]);
    let mut failures = 0;
    loop {
        heard.listen()?;
        for (item, told) in told.iter_mut().enumerate() {
            let runs = heard.runs.get(&item).map(Vec::as_slice).unwrap_or_default();
            for HeardRun { label, id, before } in runs.get(*told..).unwrap_or_default() {
                let Some(record) = store.finished(id)? else { continue };
                let (done, of) = (heard.ended.len(), queue.items.len());
                progress.ended(Ended {
                    done: done.max(1),
                    of: of.max(done),
                    label,
                    result: Ok(&record),
                    before: *before,
                });
            }
            *told = (*told).max(runs.len());
        }
        failures = failures.max(heard.ended.values().filter(|failed| failed.is_some()).count());
        progress.working(&heard.doing());
        if args.once || session.stop.requested() || heard.ended.len() == queue.items.len() {
            break;
        }
        sleep(LOOK);
    }
    drop(progress);
    let doing = |(name, doing): (&String, &crate::train::Doing)| {
        format!("{name}: {}, step {} of {}", doing.label, doing.step, doing.of)
    };
    let standing = Standing {
        items: queue.items.len(),
        ended: heard.ended.len(),
        failed: failures,
        working: heard.doing().iter().map(doing).collect(),
        left: heard.left.iter().map(|(name, why)| format!("{name}: {why}")).collect(),
        queue: place,
    };
    print(&standing, args.json, || text(&standing))?;
    for (item, reason) in &heard.ended {
        if let Some(reason) = reason {
            let what = queue.items.get(*item).map_or(String::new(), |item| item.describe(session.lab));
            let text = format!("{what}: {reason}");
            log::say(Level::Failure, "failed", &text, || json!({ "run": what, "error": reason }));
        }
    }
    match standing.failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} failed", standing.items),
    }
}

fn text(Standing { queue, items, ended, failed, working, left }: &Standing) -> String {
    let lines = |title: &str, lines: &[String]| match lines {
        [] => String::new(),
        lines => format!("{title}\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>()),
    };
    let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!(
        "{}: {ended} of {items} are over{failed}\n{}{}",
        queue.display(),
        lines("at work", working),
        lines("processes that ended", left)
    )
}

/// The queue that was made last.
fn newest(runs: &Path) -> Result<PathBuf> {
    let queues = runs.join(folder::QUEUES);
    let entries = fs::read_dir(&queues).into_iter().flatten().flatten();
    let made = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let newest = entries.filter_map(made).max().map(|(_, path)| path);
    newest.with_context(|| format!("nobody works at anything in {}", runs.display()))
}
