//! How long experiments take on this machine: from runs of the same shape that it finished, or from a few steps.

use std::{collections::BTreeMap, path::Path};

use adapter_core::{Kind, Part, Role};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::{
    ExperimentKind, Plan,
    plan::{known_stream, streams_of},
    workers::threads_of,
};
use crate::{
    lab::Lab,
    run::{RunConfig, RunContext, Runner, Speed, Workload},
    search::{SearchLeft, TrialRunner},
    train::{RunError, Stop, Watch},
};

/// How long experiments take on this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds of all of them together.
    pub seconds: f64,
    /// Seconds by experiment. A run that several share counts for the first.
    pub by_experiment: BTreeMap<String, f64>,
    /// Seconds that one process takes for each run that is still to do, by what the run is called.
    #[serde(skip)]
    pub by_run: BTreeMap<String, Vec<f64>>,
    /// What is left of searches, by experiment.
    #[serde(skip)]
    pub by_search: BTreeMap<String, SearchLeft>,
    /// Runs that are still to do.
    pub runs: usize,
    /// Trials of searches that are still to do, at most.
    pub trials: usize,
    /// Runs that are finished.
    pub finished: usize,
    /// Processes at the same time.
    pub jobs: usize,
    /// Threads of each.
    pub threads: usize,
    /// Runs finished here that told how fast it goes.
    pub speeds_of_runs: usize,
    /// Short measurements, for what no finished run told.
    pub speeds_measured: usize,
}

/// A run, and what an experiment does with it when it is trained.
struct Job<'a> {
    config: &'a RunConfig,
    experiment: &'a str,
    work: Workload,
    /// Further evaluations on the validation set.
    more_evaluations: f64,
}

/// Estimates `plans` with so many processes. It reads data and backbones, and takes a few steps where no finished run tells how
/// fast they are.
///
/// # Errors
/// If data or backbones cannot be used, or a device fails.
pub fn estimate(
    lab: &Lab,
    context: &RunContext,
    plans: &[Plan],
    jobs: usize,
    stop: &Stop,
    watch: &mut (dyn Watch + Send),
) -> Result<Estimate> {
    let threads = threads_of(jobs);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?;
    pool.install(|| {
        let mut runner = Runner::new(lab, context, stop.clone())?;
        let (todo, mut speeds, finished) = survey(&mut runner, plans, threads)?;
        watch.note(&format!("estimating {} runs: a few steps of each shape that no finished run tells of", todo.len()));
        let speeds_of_runs = speeds.0.values().map(Vec::len).sum();
        let mut speeds_measured = 0;
        let mut by_experiment: BTreeMap<String, f64> =
            plans.iter().filter(|plan| !plan.runs.is_empty()).map(|plan| (plan.experiment.clone(), 0.0)).collect();
        let mut by_run: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for job in &todo {
            let shape = shape(job.config);
            let speed = match speeds.near(&shape, job.work.step_tokens) {
                Some(speed) => speed,
                None => {
                    speeds_measured += 1;
                    let speed = runner.speed(job.config).map_err(|error: RunError| error.explained(false))?;
                    speeds.add(shape, speed);
                    speed
                }
            };
            let more = job.more_evaluations * job.work.validation_tokens * speed.evaluation_seconds;
            let seconds = job.work.seconds(&speed) + more;
            *by_experiment.entry(job.experiment.to_owned()).or_default() += seconds / jobs as f64;
            by_run.entry(job.config.describe(lab)).or_default().push(seconds);
        }
        let mut by_search: BTreeMap<String, SearchLeft> = BTreeMap::new();
        for (plan, search) in plans.iter().flat_map(|plan| plan.searches.iter().map(move |search| (plan, search))) {
            let mut runner = TrialRunner::new(lab, context, stop.clone(), &search.options.embeddings)?;
            let left = search.left(&mut runner, watch)?;
            let all = by_search.entry(plan.experiment.clone()).or_default();
            (all.trials, all.seconds) = (all.trials + left.trials, all.seconds + left.seconds);
            *by_experiment.entry(plan.experiment.clone()).or_default() += left.seconds / jobs as f64;
        }
        let seconds = by_experiment.values().sum();
        let runs = todo.iter().filter(|job| job.work.steps > 0.0).count();
        let trials = by_search.values().map(|left| left.trials).sum();
        Ok(Estimate {
            seconds,
            by_experiment,
            by_run,
            by_search,
            runs,
            trials,
            finished,
            jobs,
            threads,
            speeds_of_runs,
            speeds_measured,
        })
    })
}

/// What is still to do, the shortest steps of each shape first; what finished runs tell; and how many those are.
fn survey<'a>(runner: &mut Runner<'_>, plans: &'a [Plan], threads: usize) -> Result<(Vec<Job<'a>>, Speeds, usize)> {
    let (mut todo, mut speeds, mut finished) = (Vec::new(), Speeds::default(), 0);
    let mut runs: Vec<(&RunConfig, &Plan, bool)> = Vec::new();
    for plan in plans {
        let stages = if plan.kind == ExperimentKind::Stream { stages(runner, plan)? } else { None };
        match stages {
            Some(stages) => runs.extend(stages.into_iter().map(|(run, moved)| (run, plan, moved))),
            None => runs.extend(plan.runs.iter().map(|run| (run, plan, false))),
        }
    }
    // What two runs share is read once. The sort is stable: the first experiment of a run trains it.
    runs.sort_by_key(|(run, ..)| (run.backbone.clone(), run.task.clone()));
    let mut seen: Vec<(&RunConfig, Workload, bool)> = Vec::new();
    for (config, plan, moved) in runs {
        let experiment = &plan.experiment;
        let (work, is_finished) = match seen.iter().find(|(known, ..)| *known == config) {
            // It starts from a backbone that the stage before it makes: no other run is the same.
            _ if moved => (runner.workload(config)?.0, false),
            Some((_, work, is_finished)) => {
                (Workload { steps: 0.0, evaluations: 0.0, final_tokens: 0.0, ..*work }, *is_finished)
            }
            None => {
                let (work, record) = runner.workload(config)?;
                seen.push((config, work, record.is_some()));
                if let Some(record) = &record {
                    finished += 1;
                    // An imported record tells how fast another machine was.
                    let alike = record.measured.threads == Some(threads) && runner.has_trained(&record.id);
                    if let Some(speed) = Speed::of_record(record, &work, runner.devices().on_cpu()).filter(|_| alike) {
                        speeds.add(shape(config), speed);
                    }
                }
                (work, record.is_some())
            }
        };
        let more_evaluations = if is_finished { 0.0 } else { more_evaluations(plan, config, runner)? };
        let to_train = !is_finished && work.steps > 0.0;
        if to_train || more_evaluations > 0.0 {
            todo.push(Job { config, experiment, work, more_evaluations });
        }
    }
    todo.sort_by(|a, b| a.work.step_tokens.total_cmp(&b.work.step_tokens));
    Ok((todo, speeds, finished))
}

/// The runs of a stream that are to be learnt, and whether each starts from a backbone that the one before it changed. `None` if
/// nothing can tell.
fn stages<'a>(runner: &mut Runner<'_>, plan: &'a Plan) -> Result<Option<Vec<(&'a RunConfig, bool)>>> {
    let Some(place) = runner.runs().map(Path::to_owned) else { return Ok(None) };
    let mut stages = Vec::new();
    for stream in streams_of(&plan.runs) {
        if known_stream(runner, &place, &stream)?.is_some() {
            continue;
        }
        let shape = runner.shape(&stream[0].backbone)?.shape();
        let method = stream[0].method(runner.lab())?;
        let embeddings = Role { part: Part::Embeddings, kind: Kind::Weight, inserted: false };
        let changes = method.trains(embeddings, &shape);
        let own = plan.runs.iter().filter(|run| stream.contains(run));
        stages.extend(own.enumerate().map(|(stage, run)| (run, changes && stage > 0)));
    }
    Ok(Some(stages))
}

/// Evaluations on the validation set that an experiment asks for after training.
fn more_evaluations(plan: &Plan, config: &RunConfig, runner: &Runner<'_>) -> Result<f64> {
    Ok(match plan.kind {
        ExperimentKind::Train | ExperimentKind::Search => 0.0,
        ExperimentKind::Ablate => {
            let layers = runner.shape(&config.backbone)?.num_hidden_layers as f64;
            // Spans share what lies below them: n(n + 1)(n + 2)/6 + n layers instead of one pass for each span.
            (layers + 1.0) * (layers + 2.0) / 6.0 + 1.0
        }
        // A task is evaluated again after each later one, and once more to compare with.
        ExperimentKind::Stream => {
            let own = streams_of(&plan.runs).into_iter().find(|stream| stream.contains(config)).unwrap_or_default();
            own.iter().skip_while(|run| *run != config).count() as f64 + 1.0
        }
    })
}

/// Everything that a step's time depends on but its tokens. Numbers with a fraction, such as rates, change no shape.
fn shape(config: &RunConfig) -> String {
    let own = config.own.iter().filter(|(_, value)| !value.is_f64() && !matches!(value, Value::Null));
    let own: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
    let RunConfig { backbone, tuning, head, optimizer, cache_prefix, train, .. } = config;
    let (batch, parts) = (train.batch_size, train.accumulate);
    format!("{backbone} {tuning} {head} {optimizer} {cache_prefix} {batch} {parts} {}", own.join(" "))
}

/// Speeds by shape.
#[derive(Default)]
struct Speeds(BTreeMap<String, Vec<Speed>>);

impl Speeds {
    /// A speed is good for steps of up to twice or half its tokens: over more, what a step costs beside them counts.
    const REACH: f64 = 2.0;

    fn add(&mut self, shape: String, speed: Speed) {
        self.0.entry(shape).or_default().push(speed);
    }

    /// The speed of the steps that have most nearly so many tokens.
    fn near(&self, shape: &str, tokens: f64) -> Option<Speed> {
        let distance = |speed: &Speed| (speed.step_tokens / tokens).ln().abs();
        let nearest = self.0.get(shape)?.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        (distance(&nearest) <= Self::REACH.ln()).then_some(nearest)
    }
}

impl Estimate {
    /// In a sentence or two.
    pub fn in_words(&self) -> String {
        let processes = match self.jobs {
            1 => "one process".to_owned(),
            jobs => format!("{jobs} processes"),
        };
        let threads = if self.threads == 1 { "one thread".to_owned() } else { format!("{} threads", self.threads) };
        let trials = match self.trials {
            0 => String::new(),
            trials => format!(" and up to {trials} trials without BERT"),
        };
        format!(
            "About {} here, in {processes} of {threads}: {} runs{trials} to do, {} finished (speeds of {} finished runs, {} measured)",
            duration(self.seconds),
            self.runs,
            self.finished,
            self.speeds_of_runs,
            self.speeds_measured
        )
    }
}

/// A time as people say it: "40 s", "12 min", "3 h 05 min".
pub fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.4, "0 s")]
    #[case(99.0, "99 s")]
    #[case(150.0, "3 min")]
    #[case(5990.0, "100 min")]
    #[case(7500.0, "2 h 05 min")]
    fn times_are_said_as_people_say_them(#[case] seconds: f64, #[case] said: &str) {
        assert_eq!(duration(seconds), said);
    }

    #[test]
    fn a_speed_is_good_near_its_tokens_only() {
        let mut speeds = Speeds::default();
        let speed = |step_tokens: f64| Speed { step_tokens, step_seconds: 1.0, evaluation_seconds: 1e-3 };
        speeds.add("a".to_owned(), speed(100.0));
        speeds.add("a".to_owned(), speed(300.0));
        assert_eq!(speeds.near("a", 160.0), Some(speed(100.0)));
        assert_eq!(speeds.near("a", 190.0), Some(speed(300.0)));
        assert_eq!((speeds.near("a", 45.0), speeds.near("b", 100.0)), (None, None));
    }
}
