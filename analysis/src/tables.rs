//! The paper's tables, from the runs of their experiments.

mod additional;
mod glue;
pub(crate) mod search;
mod sizes;
mod stream;
mod variants;

use std::collections::BTreeSet;

use crate::{
    axis::{count, metric_name},
    names::task_name,
    paper,
    select::{Point, best_point, by_method, mean, tasks},
    setup::{ACCURACY, Names, Run},
    standing::{Measure, Standing, standing},
};

pub(crate) use additional::table2;
pub(crate) use glue::table1;
pub(crate) use sizes::{of_sizes, sizes, sizes_by_task};
pub(crate) use stream::{called as stream_called, remembered, stream};
pub(crate) use variants::{Variant, compare_variants, variants};

/// Which configuration each of some points stands for.
pub(crate) fn selected<'p, 'a: 'p>(points: impl IntoIterator<Item = &'p Point<'a>>) -> &'static str {
    if points.into_iter().any(|point| point.configurations() > 1) {
        "One configuration (learning rate, epochs and all else but the seed) is chosen by its mean validation score over the \
         seeds"
    } else {
        "Every score is of one configuration, whose runs differ only in the seed"
    }
}

/// The same for every method of every task.
pub(crate) fn selected_of(runs: &[&Run]) -> &'static str {
    let points: Vec<_> = tasks(runs).into_iter().flat_map(|task| by_method(runs, task)).collect();
    selected(points.iter().map(|(_, point)| point))
}

/// Tasks on which full fine-tuning is clear of the trivial answer and of everything right: elsewhere nothing was learnt, or methods
/// cannot differ. And a note that says of what the others are left out.
pub(crate) fn weighable<'a>(runs: &[&'a Run], of_what: &str) -> (BTreeSet<&'a str>, Option<String>) {
    let (mut clear, mut marked) = (BTreeSet::new(), Vec::new());
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let full = points.iter().filter(|(method, _)| method.name == paper::FULL).map(|(_, point)| point);
        let why = match best_point(full).map(|full| standing(full, Measure::Own)) {
            Some(Standing::Clear) => {
                clear.insert(task);
                continue;
            }
            Some(Standing::Ceiling) => "full fine-tuning is at the ceiling",
            Some(Standing::Floor) => "full fine-tuning is not clearly better than the trivial answer",
            Some(Standing::Unknown) => "the trivial answer is not recorded",
            None => "no full fine-tuning",
        };
        marked.push(format!("{} ({why})", task_name(task)));
    }
    let note = (!marked.is_empty()).then(|| format!("Left out of {of_what}: {}.", marked.join(", ")));
    (clear, note)
}

/// Names the methods that are not clearly better than the trivial answer, with their tasks: there is nothing to compare, and a
/// mean hides it. Full fine-tuning is not among them: where it learnt nothing, the task is left out.
pub(crate) fn floor_note(runs: &[&Run], tasks: &[&str], measure: Measure) -> Option<String> {
    let names = Names::of(runs);
    let mut points: Vec<(String, &str, Point<'_>)> = Vec::new();
    for task in tasks {
        let others = by_method(runs, task).into_iter().filter(|(method, _)| method.name != paper::FULL);
        points.extend(others.map(|(method, point)| (names.label(method), *task, point)));
    }
    note_of_floor(points.iter().map(|(label, task, point)| (label.as_str(), *task, point)), measure)
}

/// The same of points, each with what it is called and its task.
fn note_of_floor<'p, 'a: 'p>(
    points: impl Iterator<Item = (&'p str, &'p str, &'p Point<'a>)>,
    measure: Measure,
) -> Option<String> {
    let mut floor: Vec<(&str, Vec<String>)> = Vec::new();
    for (label, task, _) in points.filter(|(.., point)| standing(point, measure) == Standing::Floor) {
        match floor.iter_mut().find(|(known, _)| *known == label) {
            Some((_, tasks)) => tasks.push(task_name(task)),
            None => floor.push((label, vec![task_name(task)])),
        }
    }
    let said: Vec<String> = floor.iter().map(|(label, tasks)| format!("{label} ({})", tasks.join(", "))).collect();
    (!said.is_empty()).then(|| format!("Not clearly better than the trivial answer: {}", said.join("; ")))
}

/// What a share is.
const SHARE: &str = "Share: what a method gains over the trivial answer (most frequent class; in F1 the better of both constant \
                     answers; the mean for a regression) as a share of what full fine-tuning gains, mean over the tasks, which \
                     then weigh alike.";

/// What full fine-tuning does not train, if anything.
fn left_out_note(runs: &[&Run]) -> Option<String> {
    let untrained = |run: &&&Run| run.params.total.saturating_sub(run.params.trained);
    let full = runs.iter().filter(|run| run.method().name == paper::FULL).max_by_key(untrained)?;
    let left = untrained(&full);
    (left > 0).then(|| {
        format!(
            "Full fine-tuning counts what it trains. Left out: {} parameters that nothing reads (the pooler, where the head is on \
             [CLS] itself).",
            count(left as f64)
        )
    })
}

/// Parameters for all tasks in backbones: some methods need a network for each task, the others share one.
fn total(runs: &[&Run]) -> Option<f64> {
    let backbone = runs.first()?.params.backbone.max(1) as f64;
    let needs = |run: &&Run| {
        let params = &run.params;
        if params.shared_backbone { params.trained } else { params.total }
    };
    let shared = if runs.iter().any(|run| run.params.shared_backbone) { 1.0 } else { 0.0 };
    Some(shared + runs.iter().map(|run| needs(run) as f64).sum::<f64>() / backbone)
}

fn trained_percent(runs: &[&Run]) -> Option<f64> {
    mean(runs.iter().map(|run| 100.0 * run.trained_share()))
}

/// What is said of tasks whose metric is not accuracy.
pub(crate) fn metric_note(runs: &[&Run]) -> Option<String> {
    let metric = |task: &str| runs.iter().filter(|run| run.task == task).find_map(|run| run.metric());
    note_of_metrics(tasks(runs).into_iter().filter_map(|task| Some((task, metric(task)?))))
}

/// The same of tasks and their metrics.
fn note_of_metrics<'a>(metrics: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let others = metrics.filter(|(_, metric)| *metric != ACCURACY);
    let others: Vec<String> =
        others.map(|(task, metric)| format!("{} {}", task_name(task), metric_name(metric))).collect();
    (!others.is_empty()).then(|| format!("Accuracy × 100, but: {}.", others.join(", ")))
}

/// Names of the methods that a table of the paper has no place for, and what each is called.
fn others(runs: &[&Run], known: &[&str]) -> Vec<(String, String)> {
    let names = Names::of(runs);
    let mut others: Vec<(String, String, String)> = Vec::new();
    for method in runs.iter().map(|run| run.method()).filter(|method| !known.contains(&method.name.as_str())) {
        let label = names.label(method);
        match others.iter_mut().find(|(name, ..)| *name == method.name) {
            // One of several is known by what they share.
            Some((_, called, first)) if *first != label => *called = method.family.clone(),
            Some(_) => {}
            None => others.push((method.name.clone(), label.clone(), label)),
        }
    }
    others.into_iter().map(|(name, called, _)| (name, called)).collect()
}
