//! Which runs stand for a method, and what several of them say together: one configuration is chosen by its mean over the
//! seeds, and then its seeds are shown. Choosing for each seed and averaging the best would show what nobody can have.

use std::cmp::Ordering;

use crate::{
    MethodRecord,
    axis::counted,
    setup::{Run, compare, configuration},
};

/// Mean and standard error of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; none with a single value.
    pub sem: Option<f64>,
    /// How many values.
    pub n: usize,
    /// How many of them are of runs that diverged, and are the trivial answer's.
    pub diverged: usize,
}

impl Estimate {
    /// Of some values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sem = (n > 1).then(|| (squares / (n - 1) as f64 / n as f64).sqrt());
        Some(Self { mean, sem, n, diverged: 0 })
    }

    /// One standard error below and above the mean.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.sem.map(|sem| (self.mean - sem, self.mean + sem))
    }

    /// Mean and standard error, and how many seeds diverged.
    pub fn written(&self) -> String {
        let Self { mean, sem, n, diverged } = self;
        let said = sem.map_or_else(|| format!("{mean:.1}"), |sem| format!("{mean:.1} ± {sem:.1}"));
        if *diverged == 0 { said } else { format!("{said} ({diverged} of {} diverged)", seeds(*n)) }
    }

    /// Mean, standard error, the number of seeds and how many of them diverged.
    pub fn in_words(&self) -> String {
        format!("{}, {}", self.written(), seeds(self.n))
    }
}

/// A number of seeds in words.
pub fn seeds(n: usize) -> String {
    counted(n, "seed")
}

/// Differences in points of a hundred between two points, for each seed that both have.
pub(crate) fn differences(a: &Point<'_>, b: &Point<'_>, score: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    let pair = |own: &&Run| {
        let other = b.seeds.iter().find(|other| other.seed == own.seed)?;
        Some(100.0 * (score(own)? - score(other)?))
    };
    a.seeds.iter().filter_map(pair).collect()
}

/// The mean; `None` of no values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Estimate::of(&values.into_iter().collect::<Vec<_>>()).map(|estimate| estimate.mean)
}

/// A percentile (`share` from 0 to 1), linear between the two nearest values; `None` of no values.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The tasks of some runs, in their order.
pub fn tasks<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    let mut tasks: Vec<&str> = Vec::new();
    for run in runs {
        if !tasks.contains(&run.task.as_str()) {
            tasks.push(&run.task);
        }
    }
    tasks
}

/// A method at one place of a figure: of the configurations that were swept there, the one with the best mean validation
/// score over its seeds, and these seeds.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Never empty.
    pub(crate) seeds: Vec<&'a Run>,
    best: &'a Run,
    configurations: usize,
}

impl<'a> Point<'a> {
    /// Of all runs of a sweep: `None` if none of them has a score.
    ///
    /// A configuration is every key but the seed. Those that have most seeds come first; then the mean validation score
    /// decides, then what trains less, then the lower learning rate.
    pub fn of(runs: impl IntoIterator<Item = &'a Run>) -> Option<Self> {
        let runs: Vec<&Run> = runs.into_iter().filter(|run| run.validation().is_some()).collect();
        let best =
            runs.iter().copied().reduce(|best, run| if run.validation() > best.validation() { run } else { best })?;
        let groups = grouped(runs, configuration, Ord::cmp);
        let configurations = groups.len();
        let points = groups.into_iter().map(|(_, mut seeds)| {
            seeds.sort_by_key(|run| run.seed);
            seeds.dedup_by_key(|run| run.seed);
            Self { seeds, best, configurations }
        });
        points.reduce(|best, point| if point.is_better_than(&best) { point } else { best })
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let rate = |point: &Self| point.seeds[0].number("lr").unwrap_or(f64::MAX);
        let order = self
            .seeds
            .len()
            .cmp(&other.seeds.len())
            .then(self.validation().mean.total_cmp(&other.validation().mean))
            .then(other.trained().cmp(&self.trained()))
            .then(rate(other).total_cmp(&rate(self)));
        order.is_gt()
    }

    /// The chosen configuration's seeds, in their order.
    pub fn seeds(&self) -> &[&'a Run] {
        &self.seeds
    }

    /// How many configurations it was chosen of.
    pub fn configurations(&self) -> usize {
        self.configurations
    }

    /// The run with the best validation score of all configurations and seeds, as in the paper's Table 1.
    pub fn best(&self) -> &'a Run {
        self.best
    }

    /// The seeds' values of something, in points of a hundred, if every one has it.
    pub fn estimate(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
        let values: Option<Vec<f64>> = self.seeds.iter().map(|run| Some(100.0 * of(run)?)).collect();
        let diverged = self.seeds.iter().filter(|run| run.is_diverged()).count();
        Some(Estimate { diverged, ..Estimate::of(&values?)? })
    }

    /// Validation scores of the seeds, in points of a hundred.
    pub fn validation(&self) -> Estimate {
        self.estimate(Run::validation).expect("every run of a point has a score")
    }

    /// Test scores of the seeds, in points of a hundred, if every one has one.
    pub fn test(&self) -> Option<Estimate> {
        self.estimate(Run::test)
    }

    /// Test scores where there are any, validation scores otherwise.
    pub fn reported(&self) -> Estimate {
        self.test().unwrap_or_else(|| self.validation())
    }

    /// Validation accuracy of the seeds, in points of a hundred, for a classification.
    pub fn accuracy(&self) -> Option<Estimate> {
        self.estimate(Run::accuracy)
    }

    /// Validation accuracy for a classification, the task's own metric otherwise: what most of the paper's figures show.
    pub fn shown(&self) -> Estimate {
        self.accuracy().unwrap_or_else(|| self.validation())
    }

    /// Trained parameters.
    pub fn trained(&self) -> usize {
        self.seeds[0].trained()
    }
}

/// Points of one task, by method. Methods that differ in any key are different points.
pub fn by_method<'a>(runs: &[&'a Run], task: &str) -> Vec<(&'a MethodRecord, Point<'a>)> {
    let own = runs.iter().copied().filter(|run| run.task == task);
    let groups = grouped(own, |run| run.method(), |a, b| compare(a, b));
    groups.into_iter().filter_map(|(method, runs)| Some((method, Point::of(runs)?))).collect()
}

/// Points of one task and one method by a number of their configuration.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    /// The task.
    pub task: &'a str,
    /// The method of the first run.
    pub method: &'a MethodRecord,
    /// By the number, in its order.
    pub points: Vec<(f64, Point<'a>)>,
}

/// Sweeps of a key: one for each task in the order of the runs, and for each method that differs in any other key.
pub fn sweeps<'a>(runs: &[&'a Run], key: &str) -> Vec<Sweep<'a>> {
    let without = |run: &'a Run| {
        let mut method = run.method().clone();
        method.variant.remove(key);
        if method.size_key.as_deref() == Some(key) {
            method.size = None;
        }
        method
    };
    let mut sweeps = Vec::new();
    for task in tasks(runs) {
        let own = runs.iter().copied().filter(|run| run.task == task && run.number(key).is_some());
        for (_, runs) in grouped(own, without, compare) {
            let by_value = grouped(runs.iter().copied(), |run| run.number(key).unwrap_or_default(), f64::total_cmp);
            let points = by_value.into_iter().filter_map(|(value, runs)| Some((value, Point::of(runs)?)));
            sweeps.push(Sweep { task, method: runs[0].method(), points: points.collect() });
        }
    }
    sweeps.retain(|sweep| !sweep.points.is_empty());
    sweeps
}

/// Runs by something that they share, in its order; runs stay in theirs.
pub fn grouped<'a, K>(
    runs: impl IntoIterator<Item = &'a Run>,
    of: impl Fn(&'a Run) -> K,
    compare: impl Fn(&K, &K) -> Ordering,
) -> Vec<(K, Vec<&'a Run>)> {
    let mut groups: Vec<(K, Vec<&Run>)> = Vec::new();
    for run in runs {
        let key = of(run);
        match groups.binary_search_by(|(known, _)| compare(known, &key)) {
            Ok(place) => groups[place].1.push(run),
            Err(place) => groups.insert(place, (key, vec![run])),
        }
    }
    groups
}

/// The best point, as the best configuration of one is found: most seeds, then mean validation score, then what trains less.
pub fn best_point<'p, 'a>(points: impl IntoIterator<Item = &'p Point<'a>>) -> Option<&'p Point<'a>>
where
    'a: 'p,
{
    points.into_iter().reduce(|best, point| if point.is_better_than(best) { point } else { best })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], None)]
    #[case(&[3.0], Some((3.0, None)))]
    // The standard deviation of 1, 2, 3, 4 is √(5/3); its half is the error of the mean.
    #[case(&[1.0, 2.0, 3.0, 4.0], Some((2.5, Some(0.645_497_224_367_902_8))))]
    #[case(&[2.0, 2.0], Some((2.0, Some(0.0))))]
    fn estimates_have_mean_and_standard_error(#[case] values: &[f64], #[case] expected: Option<(f64, Option<f64>)>) {
        assert_eq!(Estimate::of(values).map(|estimate| (estimate.mean, estimate.sem)), expected);
    }

    #[rstest]
    #[case(&[], 0.5, None)]
    #[case(&[7.0], 0.2, Some(7.0))]
    #[case(&[30.0, 10.0, 20.0], 0.5, Some(20.0))]
    #[case(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0], 0.2, Some(20.0))]
    #[case(&[10.0, 20.0], 0.8, Some(18.0))]
    #[case(&[10.0, 20.0, 30.0], 0.0, Some(10.0))]
    #[case(&[10.0, 20.0, 30.0], 1.0, Some(30.0))]
    fn percentiles_are_linear_between_values(
        #[case] values: &[f64],
        #[case] share: f64,
        #[case] expected: Option<f64>,
    ) {
        assert_eq!(percentile(values, share), expected);
    }
}
