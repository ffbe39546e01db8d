//! How long experiments take on this machine: from runs of the same shape that it finished, or from a few steps.

use std::{collections::BTreeMap, path::Path};

use adapter_core::{Kind, Part, Role};
use analysis::Status;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::{
    ExperimentKind, Plan,
    plan::{known_ablation, known_stream, streams_of},
    workers::threads_of,
};
use crate::{
    lab::Lab,
    run::{RunConfig, RunContext, RunStore, Runner, Speed, Workload},
    search::{SearchLeft, TrialRunner},
    train::{RunError, Stop, Watch},
};

/// How long experiments take on this machine, one after the other.
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
    /// Runs whose ablation is still to be measured.
    pub ablations: usize,
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

/// A run of an experiment.
#[derive(Clone, Copy)]
struct Planned<'a> {
    config: &'a RunConfig,
    plan: &'a Plan,
    /// The piece of the experiment's work that it is a part of: one process does that.
    item: usize,
    /// Whether it starts from a backbone that the one before it changed.
    moved: bool,
}

/// A run, and what an experiment does with it when it is trained.
struct Job<'a> {
    run: Planned<'a>,
    work: Workload,
    /// Further evaluations on the validation set.
    more_evaluations: f64,
    /// Whether it is a run that is still to do: one that is trained again for its tensors alone is not.
    is_new: bool,
    is_ablation: bool,
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
        let mut items: BTreeMap<(&str, usize), f64> = BTreeMap::new();
        let mut by_run: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for job in &todo {
            let Planned { config, plan, item, .. } = job.run;
            let shape = shape(config);
            let speed = match speeds.near(&shape, job.work.step_tokens) {
                Some(speed) => speed,
                None => {
                    speeds_measured += 1;
                    let speed = runner.speed(config).map_err(|error: RunError| error.explained(false))?;
                    speeds.add(shape, speed);
                    speed
                }
            };
            let more = job.more_evaluations * job.work.validation_tokens * speed.evaluation_seconds;
            let seconds = job.work.seconds(&speed) + more;
            *items.entry((plan.experiment.as_str(), item)).or_default() += seconds;
            by_run.entry(config.describe(lab)).or_default().push(seconds);
        }
        let of_experiment = |name: &str| -> Vec<f64> {
            items.iter().filter(|((experiment, _), _)| *experiment == name).map(|(_, seconds)| *seconds).collect()
        };
        let mut by_experiment: BTreeMap<String, f64> = plans
            .iter()
            .filter(|plan| !plan.runs.is_empty())
            .map(|plan| (plan.experiment.clone(), shared_out(&of_experiment(&plan.experiment), jobs)))
            .collect();
        let mut by_search: BTreeMap<String, SearchLeft> = BTreeMap::new();
        for (plan, search) in plans.iter().flat_map(|plan| plan.searches.iter().map(move |search| (plan, search))) {
            let mut runner = TrialRunner::new(lab, context, stop.clone(), &search.options.embeddings)?;
            let left = search.left(&mut runner, watch)?;
            let all = by_search.entry(plan.experiment.clone()).or_default();
            (all.trials, all.seconds) = (all.trials + left.trials, all.seconds + left.seconds);
            *by_experiment.entry(plan.experiment.clone()).or_default() += left.seconds / jobs as f64;
        }
        let seconds = by_experiment.values().sum();
        let runs = todo.iter().filter(|job| job.is_new).count();
        let ablations = todo.iter().filter(|job| job.is_ablation).count();
        let trials = by_search.values().map(|left| left.trials).sum();
        Ok(Estimate {
            seconds,
            by_experiment,
            by_run,
            by_search,
            runs,
            ablations,
            trials,
            finished,
            jobs,
            threads,
            speeds_of_runs,
            speeds_measured,
        })
    })
}

/// Seconds of work that so many processes share, each piece done by one of them.
fn shared_out(items: &[f64], jobs: usize) -> f64 {
    let all = items.iter().fold(0.0, |all, item| all + item);
    items.iter().copied().fold(all / jobs as f64, f64::max)
}

/// A run, and what there is of it.
struct Met<'a> {
    config: &'a RunConfig,
    work: Workload,
    is_finished: bool,
    has_tensors: bool,
    is_ablated: bool,
}

impl<'a> Met<'a> {
    /// What is there of `config`. What its record tells of the speed here goes to `speeds`.
    fn look(runner: &mut Runner<'_>, config: &'a RunConfig, threads: usize, speeds: &mut Speeds) -> Result<Self> {
        let (work, record) = runner.workload(config)?;
        let Some(record) = record else {
            return Ok(Self { config, work, is_finished: false, has_tensors: false, is_ablated: false });
        };
        // What diverged has none, and nothing is done with it.
        let diverged = record.status == Status::Diverged;
        let is_here = runner.has_trained(&record.id);
        let ablation = runner.runs().and_then(|runs| known_ablation(&RunStore::new(runs), &record.id));
        // An imported record tells how fast another machine was.
        let alike = is_here && tells_of(record.measured.threads, threads, runner.devices().on_cpu());
        if let Some(speed) = Speed::of_record(&record, &work).filter(|_| alike) {
            speeds.add(shape(config), speed);
        }
        let (has_tensors, is_ablated) = (diverged || is_here, diverged || ablation.is_some());
        Ok(Self { config, work, is_finished: true, has_tensors, is_ablated })
    }
}

/// Whether a run that computed with so many threads, if that was counted, tells how fast one will be here: on other devices than a
/// CPU nobody counts them.
fn tells_of(threads: Option<usize>, here: usize, on_cpu: bool) -> bool {
    threads == on_cpu.then_some(here)
}

/// What is still to do, the shortest steps of each shape first; what finished runs tell; and how many those are.
fn survey<'a>(runner: &mut Runner<'_>, plans: &'a [Plan], threads: usize) -> Result<(Vec<Job<'a>>, Speeds, usize)> {
    let (mut todo, mut speeds, mut finished) = (Vec::new(), Speeds::default(), 0);
    let mut runs: Vec<Planned<'_>> = Vec::new();
    for plan in plans {
        let stages = if plan.kind == ExperimentKind::Stream { stages(runner, plan)? } else { None };
        match stages {
            Some(stages) => runs.extend(stages),
            None => {
                let all = plan.runs.iter().enumerate();
                runs.extend(all.map(|(item, config)| Planned { config, plan, item, moved: false }));
            }
        }
    }
    // What two runs share is read once. The sort is stable: the first experiment of a run trains it.
    runs.sort_by_key(|run| (run.config.backbone.clone(), run.config.task.clone()));
    let mut all: Vec<Met<'_>> = Vec::new();
    for run in runs {
        let Planned { config, plan, moved, .. } = run;
        if moved {
            // It starts from a backbone that the stage before it makes: no other run is the same.
            let (work, more_evaluations) = (runner.workload(config)?.0, more_evaluations(plan, config, runner)?);
            todo.push(Job { run, work, more_evaluations, is_new: true, is_ablation: false });
            continue;
        }
        let known = all.iter().position(|met| met.config == config);
        let place = match known {
            Some(place) => place,
            None => {
                all.push(Met::look(runner, config, threads, &mut speeds)?);
                finished += usize::from(all[all.len() - 1].is_finished);
                all.len() - 1
            }
        };
        let met = &mut all[place];
        let (is_new, is_ablation) = (!met.is_finished, plan.kind == ExperimentKind::Ablate && !met.is_ablated);
        let more_evaluations = match plan.kind {
            ExperimentKind::Ablate if !is_ablation => 0.0,
            _ => more_evaluations(plan, config, runner)?,
        };
        // Records that were imported have no tensors.
        let again = !met.has_tensors && (is_ablation || plan.kind == ExperimentKind::Stream);
        let to_train = (is_new || again) && met.work.steps > 0.0;
        let work = match to_train {
            true => met.work,
            false => Workload { steps: 0.0, evaluations: 0.0, final_tokens: 0.0, ..met.work },
        };
        // A stage that is trained again is told like any other.
        let is_new = to_train && (is_new || plan.kind == ExperimentKind::Stream);
        // So it will be for the experiments after this one.
        met.is_finished = true;
        met.has_tensors |= to_train;
        met.is_ablated |= is_ablation;
        if to_train || more_evaluations > 0.0 {
            todo.push(Job { run, work, more_evaluations, is_new, is_ablation });
        }
    }
    todo.sort_by(|a, b| a.work.step_tokens.total_cmp(&b.work.step_tokens));
    Ok((todo, speeds, finished))
}

/// The runs of streams that are to be learnt. `None` if nothing can tell.
fn stages<'a>(runner: &mut Runner<'_>, plan: &'a Plan) -> Result<Option<Vec<Planned<'a>>>> {
    let Some(place) = runner.runs().map(Path::to_owned) else { return Ok(None) };
    let mut stages = Vec::new();
    for (item, stream) in streams_of(&plan.runs).into_iter().enumerate() {
        if known_stream(runner, &place, &stream)?.is_some() {
            continue;
        }
        let shape = runner.shape(&stream[0].backbone)?.shape();
        let method = stream[0].method(runner.lab())?;
        let embeddings = Role { part: Part::Embeddings, kind: Kind::Weight, inserted: false };
        let changes = method.trains(embeddings, &shape);
        let own = plan.runs.iter().filter(|run| stream.contains(run));
        stages.extend(own.enumerate().map(|(stage, config)| Planned {
            config,
            plan,
            item,
            moved: changes && stage > 0,
        }));
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
        let counted = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            number => format!("{number} {what}s"),
        };
        let trials = format!("up to {} without BERT", counted(self.trials, "trial"));
        let more = [(self.ablations, counted(self.ablations, "ablation")), (self.trials, trials)];
        let more: Vec<String> = more.into_iter().filter(|(number, _)| *number > 0).map(|(_, said)| said).collect();
        let runs = counted(self.runs, "run");
        let todo = match &more[..] {
            [] => runs,
            [all @ .., last] => format!("{} and {last}", [&[runs], all].concat().join(", ")),
        };
        format!(
            "About {} here, in {processes} of {threads}: {todo} to do, {} finished (speeds of {}, {} measured)",
            duration(self.seconds),
            self.finished,
            counted(self.speeds_of_runs, "finished run"),
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

    #[rstest]
    #[case::two_processes_share_them(&[10.0, 20.0, 30.0], 2, 30.0)]
    #[case::one_process_does_all(&[10.0, 20.0, 30.0], 1, 60.0)]
    #[case::nobody_helps_with_a_long_one(&[100.0, 20.0], 4, 100.0)]
    #[case::nothing(&[], 4, 0.0)]
    fn no_experiment_is_over_before_its_longest_piece(
        #[case] items: &[f64],
        #[case] jobs: usize,
        #[case] seconds: f64,
    ) {
        let shared = shared_out(items, jobs);
        assert!(shared == seconds && shared.is_sign_positive(), "{shared}");
    }

    #[rstest]
    #[case::as_many_threads(Some(2), true, true)]
    #[case::others(Some(1), true, false)]
    #[case::nobody_knows(None, true, false)]
    #[case::a_gpu(None, false, true)]
    fn a_record_tells_how_fast_its_own_kind_of_process_is(
        #[case] threads: Option<usize>,
        #[case] on_cpu: bool,
        #[case] tells: bool,
    ) {
        assert_eq!(tells_of(threads, 2, on_cpu), tells);
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
