//! Effects with intervals, and what follows from them.

use serde::Serialize;

use crate::{axis::signed, select::Estimate, thresholds::Threshold};

/// What runs say of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval lies on the paper's side of the threshold.
    Agrees,
    /// The whole interval lies on the other side.
    Disagrees,
    /// The interval holds the threshold, there are too few seeds, or nothing was learnt that could be compared.
    CannotSay,
}

impl Verdict {
    /// As it is said.
    pub fn in_words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Disagrees => "disagrees",
            Verdict::CannotSay => "cannot say",
        }
    }

    /// Of several effects that must all agree: one that disagrees is enough to disagree.
    pub(crate) fn of(effects: &[Effect]) -> Self {
        let all = |wanted| effects.iter().all(|effect| effect.verdict() == wanted);
        if effects.iter().any(|effect| effect.verdict() == Verdict::Disagrees) {
            Verdict::Disagrees
        } else if !effects.is_empty() && all(Verdict::Agrees) {
            Verdict::Agrees
        } else {
            Verdict::CannotSay
        }
    }
}

/// On which side of its threshold the paper's effect lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Above it.
    Above,
    /// At it or below.
    AtMost,
}

impl Side {
    /// As it is said before a limit.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Side::Above => "more than",
            Side::AtMost => "at most",
        }
    }
}

/// How an interval was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// Student's t over the seeds, the tasks being given.
    T,
    /// Student's t over the tasks, each with the mean of its seeds.
    Tasks,
    /// Counted, not estimated.
    Exact,
}

/// From where to where an effect lies, with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How it was found.
    pub method: IntervalMethod,
}

/// A number that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// What it is.
    pub what: String,
    /// Its estimate.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Its interval.
    pub interval: Interval,
    /// The threshold it is compared with.
    pub threshold: f64,
    /// On which side of that the paper's effect lies.
    pub side: Side,
    /// Tasks that it is the mean of.
    pub tasks: usize,
    /// Seeds of each task, the fewest.
    pub seeds: usize,
}

impl Effect {
    /// What follows from it alone.
    pub fn verdict(&self) -> Verdict {
        let (Interval { low, high, .. }, limit) = (self.interval, self.threshold);
        let (agrees, disagrees) = match self.side {
            Side::Above => (low > limit, high <= limit),
            Side::AtMost => (high <= limit, low > limit),
        };
        if agrees {
            Verdict::Agrees
        } else if disagrees {
            Verdict::Disagrees
        } else {
            Verdict::CannotSay
        }
    }

    /// Effect, interval and threshold in short.
    pub fn brief(&self) -> String {
        let Self { what, value, unit, interval: Interval { low, high, method }, threshold, .. } = self;
        let side = self.side.in_words();
        if *method == IntervalMethod::Exact {
            return format!("{what}: {value} (threshold: {side} {threshold})");
        }
        format!(
            "{what}: {} {unit} [{}, {}] ({}), threshold: {side} {threshold}",
            signed(*value),
            signed(*low),
            signed(*high),
            self.interval_of()
        )
    }

    /// Effect, interval and threshold in one sentence.
    pub fn in_words(&self) -> String {
        let Self { what, value, unit, interval, threshold, .. } = self;
        let side = self.side.in_words();
        if interval.method == IntervalMethod::Exact {
            return format!("{what}: {value}; threshold: {side} {threshold}.");
        }
        format!(
            "{what}: {} {unit}, 95 % interval {} to {} ({}); threshold: {side} {threshold}.",
            signed(*value),
            signed(interval.low),
            signed(interval.high),
            self.interval_of()
        )
    }

    /// What its interval is an interval of.
    fn interval_of(&self) -> String {
        let Self { tasks, seeds, .. } = self;
        match self.interval.method {
            IntervalMethod::Tasks => format!("t over {tasks} tasks of {seeds} seeds"),
            IntervalMethod::T | IntervalMethod::Exact if *tasks > 1 => format!("t over {seeds} seeds of {tasks} tasks"),
            IntervalMethod::T | IntervalMethod::Exact => format!("t over {seeds} seeds"),
        }
    }

    /// The mean over tasks of the mean over seeds, compared with a threshold; `None` if there is nothing, or a task has
    /// less than two values.
    pub(crate) fn of(what: impl Into<String>, threshold: &Threshold, values: &[Vec<f64>]) -> Option<Self> {
        let (value, interval) = estimate(values)?;
        Some(Self::new(what, threshold, value, interval, values.len(), values.iter().map(Vec::len).min()?))
    }

    pub(crate) fn new(
        what: impl Into<String>,
        threshold: &Threshold,
        value: f64,
        interval: Interval,
        tasks: usize,
        seeds: usize,
    ) -> Self {
        let Threshold { limit, side, unit, .. } = *threshold;
        Self { what: what.into(), value, unit, interval, threshold: limit, side, tasks, seeds }
    }

    /// Of several effects that must all agree, one whose verdict is that of all: the largest.
    pub(crate) fn deciding(effects: Vec<Self>) -> Option<Self> {
        let verdict = Verdict::of(&effects);
        effects.into_iter().filter(|effect| effect.verdict() == verdict).max_by(|a, b| a.value.total_cmp(&b.value))
    }
}

/// From so many tasks on they stand for tasks like them: fewer say too little of others, and then stand for themselves.
pub(crate) const MANY_TASKS: usize = 5;

/// The mean over tasks of the mean over seeds, and its interval.
fn estimate(values: &[Vec<f64>]) -> Option<(f64, Interval)> {
    if values.is_empty() || values.iter().any(|seeds| seeds.len() < 2) {
        return None;
    }
    let value = average(values.iter().map(|seeds| average(seeds.iter().copied())));
    if values.len() < MANY_TASKS {
        return Some((value, t_interval(value, values)));
    }
    // What seeds do to a task's mean is a part of how the means differ.
    let means: Vec<f64> = values.iter().map(|seeds| average(seeds.iter().copied())).collect();
    let error = (variance(&means) / means.len() as f64).sqrt();
    let interval = around(value, error, means.len() as f64 - 1.0);
    Some((value, Interval { method: IntervalMethod::Tasks, ..interval }))
}

/// Student's t, the tasks being given.
fn t_interval(value: f64, values: &[Vec<f64>]) -> Interval {
    let (error, freedom) = error_of_seeds(values);
    around(value, error, freedom)
}

/// What seeds make uncertain in a mean over tasks, the tasks being given: its standard error, to which each task adds a variance of
/// its own, and Welch and Satterthwaite's degrees of freedom.
fn error_of_seeds(values: &[Vec<f64>]) -> (f64, f64) {
    let of_task = |seeds: &Vec<f64>| {
        let n = seeds.len() as f64;
        (variance(seeds) / n / (values.len() as f64).powi(2), n - 1.0)
    };
    let parts: Vec<(f64, f64)> = values.iter().map(of_task).collect();
    let square: f64 = parts.iter().map(|(part, _)| part).sum();
    let freedom = square.powi(2) / parts.iter().map(|(part, freedom)| part.powi(2) / freedom).sum::<f64>();
    (square.sqrt(), freedom)
}

/// The mean over tasks of the mean over seeds, with the standard error of the seeds; `None` of no tasks.
pub(crate) fn over_tasks(values: &[Vec<f64>]) -> Option<Estimate> {
    let n = values.iter().map(Vec::len).min().filter(|n| *n > 0)?;
    let mean = average(values.iter().map(|seeds| average(seeds.iter().copied())));
    Some(Estimate { mean, sem: (n > 1).then(|| error_of_seeds(values).0), n, diverged: 0 })
}

/// An interval around a mean by its standard error. Without any spread it is the mean alone.
pub(crate) fn around(value: f64, error: f64, freedom: f64) -> Interval {
    let half = if error > 0.0 { t_quantile(freedom) * error } else { 0.0 };
    Interval { low: value - half, high: value + half, method: IntervalMethod::T }
}

/// The interval of one group of values; `None` with less than two.
pub(crate) fn of_seeds(values: &[f64]) -> Option<(f64, Interval)> {
    (values.len() >= 2).then(|| {
        let value = average(values.iter().copied());
        (value, t_interval(value, &[values.to_vec()]))
    })
}

/// The unbiased variance of two values or more.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = average(values.iter().copied());
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / n
}

/// Student's t that 95 % of values lie within, between tabled degrees of freedom linear in their inverse. From 2 degrees of freedom
/// on, the fewest of any verdict, that is conservative by at most about 2 %.
fn t_quantile(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 16] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (12.0, 2.179),
        (15.0, 2.131),
        (20.0, 2.086),
        (30.0, 2.042),
        (60.0, 2.0),
        (f64::INFINITY, 1.96),
    ];
    let freedom = freedom.max(1.0);
    let next = TABLE.iter().position(|(known, _)| *known >= freedom).unwrap_or(TABLE.len() - 1).max(1);
    let ((low, at_low), (high, at_high)) = (TABLE[next - 1], TABLE[next]);
    let share = (1.0 / low - 1.0 / freedom) / (1.0 / low - 1.0 / high);
    at_low + share * (at_high - at_low)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::thresholds::{CLOSE, FEWER};

    #[rstest]
    #[case(1.0, 12.706)]
    #[case(2.0, 4.303)]
    // Between two rows of the table, where it errs most.
    #[case(2.4, 3.684)]
    #[case(2.5, 3.575)]
    #[case(3.5, 2.940)]
    #[case(4.0, 2.776)]
    #[case(40.0, 2.021)]
    #[case(1e9, 1.96)]
    fn quantiles_are_never_too_small_and_at_most_two_percent_too_large(#[case] freedom: f64, #[case] expected: f64) {
        // Tables have three decimals.
        let (quantile, rounding) = (t_quantile(freedom), 0.0005);
        assert!((expected - rounding..=1.02 * expected).contains(&quantile), "{quantile}");
    }

    #[test]
    fn a_single_task_has_the_textbook_t_interval() {
        let (value, interval) = of_seeds(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(value, 2.0);
        // Mean 2, standard error 1/√3, two degrees of freedom.
        assert!((interval.high - 2.0 - 4.303 / 3f64.sqrt()).abs() < 1e-9, "{interval:?}");
        assert_eq!(of_seeds(&[1.0]), None);
    }

    #[test]
    fn equal_tasks_add_their_degrees_of_freedom() {
        let (_, interval) = estimate(&[vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]]).unwrap();
        let half = 2.776 / 6f64.sqrt();
        assert!((interval.high - 2.0 - half).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn many_tasks_are_judged_by_how_they_differ() {
        let tasks: Vec<Vec<f64>> = (0..9).map(|task| (0..3).map(|seed| f64::from(task + seed)).collect()).collect();
        let (value, interval) = estimate(&tasks).unwrap();
        assert_eq!((value, interval.method), (5.0, IntervalMethod::Tasks));
        // The variance of nine numbers in a row is 7.5; eight degrees of freedom.
        assert!((interval.high - 5.0 - 2.306 * (7.5f64 / 9.0).sqrt()).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn without_any_spread_the_interval_is_the_mean() {
        let effect = Effect::of("x", &CLOSE, &[vec![1.0; 3]]).unwrap();
        assert_eq!((effect.interval.low, effect.interval.high), (1.0, 1.0));
        assert_eq!(effect.verdict(), Verdict::Agrees);
    }

    #[rstest]
    #[case(Side::Above, 0.1, 1.0, Verdict::Agrees)]
    #[case(Side::Above, -0.1, 1.0, Verdict::CannotSay)]
    #[case(Side::Above, -1.0, -0.1, Verdict::Disagrees)]
    // To be equal is not to be above.
    #[case(Side::Above, 0.0, 0.0, Verdict::Disagrees)]
    #[case(Side::AtMost, -1.0, 0.0, Verdict::Agrees)]
    #[case(Side::AtMost, -1.0, 0.1, Verdict::CannotSay)]
    #[case(Side::AtMost, 0.1, 1.0, Verdict::Disagrees)]
    fn the_whole_interval_decides(#[case] side: Side, #[case] low: f64, #[case] high: f64, #[case] expected: Verdict) {
        let interval = Interval { low, high, method: IntervalMethod::T };
        let effect = Effect { side, ..Effect::new("x", &FEWER, 0.0, interval, 1, 3) };
        assert_eq!(effect.verdict(), expected);
    }

    #[test]
    fn all_effects_must_agree_and_one_is_enough_to_disagree() {
        let with = |value: f64| Effect::of("x", &CLOSE, &[vec![value; 3]]).unwrap();
        let open = Effect::of("x", &CLOSE, &[vec![0.0, 2.0, 4.0]]).unwrap();
        assert_eq!(Verdict::of(&[]), Verdict::CannotSay);
        assert_eq!(Verdict::of(&[with(0.0), with(1.0)]), Verdict::Agrees);
        assert_eq!(Verdict::of(&[with(0.0), open.clone()]), Verdict::CannotSay);
        assert_eq!(Verdict::of(&[with(0.0), open.clone(), with(9.0)]), Verdict::Disagrees);
        assert_eq!(Effect::deciding(vec![with(0.0), open.clone(), with(9.0)]).unwrap().value, 9.0);
        assert_eq!(Effect::deciding(vec![with(0.0), open, with(1.0)]).unwrap().value, 2.0);
    }
}
