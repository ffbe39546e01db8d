//! Which runs stand for a method, and what several of them say together (§3.1 of the paper: the best validation score over
//! the sweep, then the best seed, or mean and standard error over the seeds).

use std::collections::BTreeMap;

use crate::setup::{Method, Run};

/// Mean and standard error of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; none with a single value.
    pub sem: Option<f64>,
    /// How many values.
    pub n: usize,
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
        Some(Self { mean, sem, n })
    }
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

/// What the runs of one point of a figure have in common: the seeds, each with its best run over the sweep.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Seeds in their order; for each the run with the best validation score.
    pub seeds: Vec<&'a Run>,
}

impl<'a> Point<'a> {
    /// Of all runs of a sweep: `None` if none of them has a score.
    pub fn of(runs: impl IntoIterator<Item = &'a Run>) -> Option<Self> {
        let mut seeds: BTreeMap<u64, (f64, &Run)> = BTreeMap::new();
        for run in runs {
            let Some(score) = run.validation() else { continue };
            let best = seeds.entry(run.seed).or_insert((score, run));
            if score > best.0 {
                *best = (score, run);
            }
        }
        let seeds: Vec<&Run> = seeds.into_values().map(|(_, run)| run).collect();
        (!seeds.is_empty()).then_some(Self { seeds })
    }

    /// The seed with the best validation score.
    pub fn best(&self) -> &'a Run {
        self.seeds
            .iter()
            .copied()
            .reduce(|best, run| if run.validation() > best.validation() { run } else { best })
            .expect("a point has a run")
    }

    /// Validation scores of the seeds, in points of a hundred.
    pub fn validation(&self) -> Estimate {
        let scores: Vec<f64> =
            self.seeds.iter().filter_map(|run| run.validation()).map(|score| 100.0 * score).collect();
        Estimate::of(&scores).expect("every run of a point has a score")
    }

    /// Test scores of the seeds, in points of a hundred, if every one has one.
    pub fn test(&self) -> Option<Estimate> {
        let scores: Option<Vec<f64>> = self.seeds.iter().map(|run| Some(100.0 * run.test()?)).collect();
        Estimate::of(&scores?)
    }

    /// Test scores where there are any, validation scores otherwise.
    pub fn reported(&self) -> Estimate {
        self.test().unwrap_or_else(|| self.validation())
    }

    /// Validation accuracy of the seeds, in points of a hundred, for a classification.
    pub fn accuracy(&self) -> Option<Estimate> {
        let scores: Option<Vec<f64>> = self.seeds.iter().map(|run| Some(100.0 * run.accuracy()?)).collect();
        Estimate::of(&scores?)
    }

    /// Trained parameters.
    pub fn trained(&self) -> usize {
        self.seeds[0].record.params.trained
    }
}

/// Points of one task, by method.
pub fn by_method<'a>(runs: &[&'a Run], task: &str) -> BTreeMap<Method, Point<'a>> {
    let mut methods: BTreeMap<Method, Vec<&Run>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.task == task) {
        methods.entry(run.method.clone()).or_default().push(run);
    }
    methods.into_iter().filter_map(|(method, runs)| Some((method, Point::of(runs)?))).collect()
}

/// The point with the best mean validation score; with equal scores the one that trains less.
pub fn best_point<'p, 'a>(points: impl IntoIterator<Item = &'p Point<'a>>) -> Option<&'p Point<'a>>
where
    'a: 'p,
{
    points.into_iter().reduce(|best, point| {
        let (old, new) = (best.validation().mean, point.validation().mean);
        if new > old || (new == old && point.trained() < best.trained()) { point } else { best }
    })
}

/// The adapters that stand for a task where one size is asked for: 64 as in the paper, or the size nearest to it.
pub fn usual_size<'p, 'a>(points: &'p BTreeMap<Method, Point<'a>>) -> Option<(usize, &'p Point<'a>)> {
    let sizes = points.iter().filter_map(|(method, point)| Some((method.adapter_size()?, point)));
    let distance = |size: usize| ((size as f64).log2() - 6.0).abs();
    sizes.min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)))
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
