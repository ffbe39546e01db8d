//! Processes that Slurm starts: an array of jobs, each of which works at the same queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::queue::Heard;
use crate::lab::Keys;

/// How an array is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Jobs of the array.
    workers: usize,
    /// How many of them may run at the same time.
    at_once: Option<usize>,
    /// Options of `sbatch`, without their dashes.
    sbatch: BTreeMap<String, String>,
}

impl Default for SlurmOptions {
    fn default() -> Self {
        // A minute and a half to write a checkpoint; a job whose machine fails begins again.
        let sbatch = [("signal", "B:USR1@90"), ("open-mode", "append"), ("requeue", "")];
        let sbatch = sbatch.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Self { workers: 4, at_once: None, sbatch }
    }
}

impl SlurmOptions {
    /// With these options above the defaults: `workers`, `at_once`, and any option of `sbatch` by its long name.
    ///
    /// # Errors
    /// If one makes no sense.
    pub fn with(mut self, options: &Keys) -> Result<Self> {
        for (key, value) in options {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                other => bail!("slurm: {key} = {other}: give one value"),
            };
            ensure!(!text.contains('\n'), "slurm: {key}: give one line");
            let number = || {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.with_context(|| format!("slurm: {key} = {text}: give a number above 0"))
            };
            match key.replace('_', "-").as_str() {
                "workers" => self.workers = number()?,
                "at-once" => self.at_once = Some(number()?),
                key @ ("array" | "output" | "error" | "parsable" | "wrap") => {
                    bail!("slurm: {key} is not for you to say: use `workers` and `at_once`")
                }
                key => {
                    let named = key.starts_with(|c: char| c.is_ascii_lowercase())
                        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                    ensure!(named, "slurm: `{key}` is no option of sbatch");
                    match text.as_str() {
                        "false" => drop(self.sbatch.remove(key)),
                        "true" => drop(self.sbatch.insert(key.to_owned(), String::new())),
                        _ => drop(self.sbatch.insert(key.to_owned(), text)),
                    }
                }
            }
        }
        Ok(self)
    }

    /// The script of one job.
    fn script(&self, place: &Path, items: usize) -> Result<String> {
        let last = self.workers.min(items).max(1) - 1;
        let limit = self.at_once.map_or(String::new(), |limit| format!("%{limit}"));
        let log = place.join("slurm-%A_%a.log");
        let mut lines = vec![format!("--array=0-{last}{limit}"), format!("--output={}", log.display())];
        if !self.sbatch.contains_key("job-name") {
            lines.push("--job-name=adapter-lab".to_owned());
        }
        let option = |(key, value): (&String, &String)| match value.as_str() {
            "" => format!("--{key}"),
            value => format!("--{key}={value}"),
        };
        lines.extend(self.sbatch.iter().map(option));
        let program = env::current_exe().context("cannot find this program")?;
        let (program, place) = (quoted(&program), quoted(place));
        let lines: String = lines.iter().map(|line| format!("#SBATCH {line}\n")).collect();
        // The program takes the shell's place, so that it gets the signal.
        Ok(format!(
            "#!/bin/sh\n{lines}\
             threads=${{SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}}\n\
             export RAYON_NUM_THREADS=${{RAYON_NUM_THREADS:-$threads}} OMP_NUM_THREADS=${{OMP_NUM_THREADS:-$threads}}\n\
             exec {program} work {place}\n"
        ))
    }
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// The script of a queue's jobs.
const SCRIPT: &str = "job.sh";
/// Begins the name of a file that says that a job was submitted.
const JOB: &str = "job-";

/// Jobs at work.
pub struct Array {
    place: PathBuf,
    asked: Instant,
    /// When Slurm first gave no answer.
    silent: Option<Instant>,
}

/// Time between two questions to Slurm.
const ASK: Duration = Duration::from_secs(5);
/// How long Slurm may give no answer.
const PATIENCE: Duration = Duration::from_secs(600);

impl Array {
    /// Submits an array for the queue in this folder.
    ///
    /// # Errors
    /// If Slurm does not take it.
    pub fn submit(place: &Path, items: usize, options: &SlurmOptions) -> Result<Self> {
        let script = place.join(SCRIPT);
        fs::write(&script, options.script(place, items)?)
            .with_context(|| format!("cannot write {}", script.display()))?;
        sbatch(place, &[])?;
        Ok(Self::of(place))
    }

    /// The jobs that were submitted for the queue in this folder.
    pub fn of(place: &Path) -> Self {
        Self { place: place.to_owned(), asked: Instant::now(), silent: None }
    }

    /// What they are called.
    pub fn jobs(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let job = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix(JOB)?.to_owned());
        entries.filter_map(job).filter(|job| job.starts_with(|c: char| c.is_ascii_digit())).collect()
    }

    /// Sees to it that there is somebody to do the work.
    ///
    /// # Errors
    /// If all jobs have ended, or Slurm does not answer for long.
    pub fn tend(&mut self, heard: &mut Heard) -> Result<()> {
        if self.asked.elapsed() < ASK {
            return Ok(());
        }
        self.asked = Instant::now();
        match self.waiting_or_running() {
            Ok(0) => {
                heard.listen()?;
                let mut why: Vec<&str> = heard.left.values().map(String::as_str).collect();
                why.sort_unstable();
                why.dedup();
                let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
                let place = self.place.display();
                bail!(
                    "all jobs have ended, and work is left{why}; their logs are in {place}; run the same command again to go on"
                )
            }
            Ok(_) => self.silent = None,
            Err(error) => {
                let since = *self.silent.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(error.context("Slurm does not answer; the jobs may go on without us"));
                }
            }
        }
        Ok(())
    }

    fn waiting_or_running(&self) -> Result<usize> {
        let jobs: Vec<String> = self.jobs().into_iter().collect();
        let output = call("squeue", &["--noheader", "--format=%T", &format!("--jobs={}", jobs.join(","))])?;
        let lines = output.lines().map(str::trim);
        Ok(lines.filter(|state| !state.is_empty() && !["COMPLETING", "COMPLETED"].contains(state)).count())
    }

    /// Whether no job of it waits or runs any more. Where Slurm does not answer, one may.
    pub fn is_over(&self) -> bool {
        self.jobs().is_empty() || matches!(self.waiting_or_running(), Ok(0))
    }

    /// Cancels them all.
    ///
    /// # Errors
    /// If Slurm refuses.
    pub fn cancel(&self) -> Result<()> {
        let jobs: Vec<String> = self.jobs().into_iter().collect();
        call("scancel", &jobs.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
    }
}

/// Submits the job that this process is once more: its time is up, and work is left.
///
/// # Errors
/// If Slurm does not take it.
pub fn submit_again(place: &Path) -> Result<Option<String>> {
    match env::var("SLURM_ARRAY_TASK_ID") {
        Ok(task) => sbatch(place, &[&format!("--array={task}")]).map(Some),
        Err(_) => Ok(None),
    }
}

fn sbatch(place: &Path, options: &[&str]) -> Result<String> {
    let script = place.join(SCRIPT).display().to_string();
    let output = call("sbatch", &[&["--parsable"], options, &[&script]].concat())?;
    // The cluster's name may follow.
    let job = output.trim().split(';').next().unwrap_or_default().to_owned();
    ensure!(job.starts_with(|c: char| c.is_ascii_digit()), "sbatch said `{}`, not the number of a job", output.trim());
    let file = place.join(format!("{JOB}{job}"));
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
    Ok(job)
}

/// Calls one of Slurm's programs.
fn call(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start `{program}`: is Slurm installed here?"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    // What it no longer knows is over.
    if program == "squeue" && error.contains("Invalid job id") {
        return Ok(String::new());
    }
    ensure!(output.status.success(), "{program}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(options: Value) -> Result<SlurmOptions> {
        SlurmOptions::default().with(options.as_object().unwrap())
    }

    #[test]
    fn a_script_says_what_was_asked_for() {
        let options = options(json!({
            "workers": 8, "at_once": 3, "partition": "gpu", "time": "02:00:00", "cpus_per_task": 4, "gpus": 1,
            "exclusive": true, "requeue": false,
        }));
        let script = options.unwrap().script(Path::new("/runs/it's/queue"), 5).unwrap();
        for line in [
            "--array=0-4%3",
            "--partition=gpu",
            "--time=02:00:00",
            "--cpus-per-task=4",
            "--gpus=1",
            "--exclusive",
            "--signal=B:USR1@90",
            "--output=/runs/it's/queue/slurm-%A_%a.log",
        ] {
            assert!(script.contains(&format!("#SBATCH {line}\n")), "{line}: {script}");
        }
        assert!(!script.contains("requeue"), "{script}");
        assert!(script.ends_with(" work '/runs/it'\\''s/queue'\n"), "{script}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            json!({"workers": 0}),
            json!({"array": "0-3"}),
            json!({"time": [1]}),
            json!({"x y": 1}),
            json!({"comment": "a\nb"}),
        ] {
            assert!(options(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
