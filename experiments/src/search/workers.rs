//! A search in several processes: each takes trials from the folder of runs that no other has.

use std::{
    fs,
    io::{BufRead, Write},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
};

use analysis::folder;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Search, Searched};
use crate::{
    lab::Lab,
    run::RunContext,
    train::{Stop, SweepWatch},
};

/// What a helping process is told.
#[derive(Serialize, Deserialize)]
struct Order {
    context: RunContext,
    search: Search,
}

/// A process that helps, and is gone when nobody needs it.
struct Helper {
    child: Child,
    /// Its end tells the process that we are gone, however we went.
    _orders: ChildStdin,
}

impl Drop for Helper {
    fn drop(&mut self) {
        // A trial that it was at begins anew, and comes out the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Search {
    /// Runs the search in `jobs` processes, of which this is one.
    ///
    /// # Errors
    /// As for [`run`](Self::run); or if a process cannot be started.
    pub fn run_in_processes(
        &self,
        lab: &Lab,
        context: &RunContext,
        stop: &Stop,
        jobs: usize,
        watch: &mut dyn SweepWatch,
    ) -> Result<Searched> {
        let helpers = (1..jobs).map(|job| self.help(context, job, jobs)).collect::<Result<Vec<_>>>()?;
        let searched = self.run(lab, context, stop, watch);
        drop(helpers);
        searched
    }

    fn help(&self, context: &RunContext, job: usize, jobs: usize) -> Result<Helper> {
        let logs =
            context.runs.as_deref().context("several processes need a folder for their runs")?.join(folder::LOGS);
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let log = logs.join(format!("{}-search-{job}.log", std::process::id()));
        let log = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let threads = (thread::available_parallelism().map_or(1, usize::from) / jobs).max(1);
        let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .arg("search-work")
            .env("RAYON_NUM_THREADS", threads.to_string())
            // libtorch counts its threads itself.
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a process")?;
        let mut orders = child.stdin.take().context("a process without pipes")?;
        let order = Order { context: context.clone(), search: self.clone() };
        let told = writeln!(orders, "{}", serde_json::to_string(&order)?);
        let helper = Helper { child, _orders: orders };
        told.context("cannot tell a process what to do")?;
        Ok(helper)
    }
}

/// What a helping process does: the whole search that it is told, as far as nobody else does it. It ends with its orders: whoever
/// gave them is gone.
///
/// # Errors
/// If it is told nothing sensible; and as for [`Search::run`].
pub fn work(
    lab: &Lab,
    stop: &Stop,
    mut orders: impl BufRead + Send + 'static,
    watch: &mut dyn SweepWatch,
) -> Result<()> {
    let mut order = String::new();
    orders.read_line(&mut order)?;
    let Order { context, search } = serde_json::from_str(&order)?;
    let ending = stop.clone();
    thread::spawn(move || {
        let _ = orders.lines().map_while(Result::ok).count();
        ending.request();
    });
    search.run(lab, &context, stop, watch).map(drop)
}
