//! §3.6: other adapters beside the paper's.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{note_of_floor, selected};
use crate::{
    Store,
    axis::count,
    evidence::over_tasks,
    names::task_name,
    paper,
    select::{Point, differences, tasks},
    setup::{Run, said},
    standing::{Measure, Standing, standing},
    table::{Cell, Table},
};

/// A variant of the adapter: its name, a point for each task, and the mean difference to the paper's adapter.
pub(crate) struct Variant<'a> {
    pub name: String,
    /// Whether it is the paper's own.
    pub paper: bool,
    pub points: BTreeMap<&'a str, Point<'a>>,
    /// What it gains over the paper's adapter of its size, in points: for each task that both have, by the seeds that both have.
    pub gains: BTreeMap<&'a str, Vec<f64>>,
}

/// The variants of an experiment, the paper's adapter first.
pub(crate) fn compare_variants<'a>(runs: &[&'a Run]) -> Vec<Variant<'a>> {
    let adapters: Vec<&'a Run> = runs.iter().copied().filter(|run| run.method().name == paper::ADAPTERS).collect();
    let Some(first) = adapters.first() else { return Vec::new() };
    // The initial σ tells variants apart only where it differs among the runs.
    let sigma = |run: &Run| run.method().variant.get(paper::INIT_STD).cloned();
    let one_sigma = adapters.iter().all(|run| sigma(run) == sigma(first));
    let one_size = adapters.iter().all(|run| run.method().size == first.method().size);
    let of = |run: &Run| {
        let mut variant = run.method().variant.clone();
        if one_sigma {
            variant.remove(paper::INIT_STD);
        }
        (run.method().size, variant)
    };
    let mut kinds: Vec<(Option<f64>, BTreeMap<String, Value>)> = Vec::new();
    for run in &adapters {
        if !kinds.contains(&of(run)) {
            kinds.push(of(run));
        }
    }
    kinds.sort_by_key(|(_, variant)| !variant.is_empty());
    let points = |kind: &(Option<f64>, BTreeMap<String, Value>)| {
        let of_task = |task: &'a str| {
            let own = adapters.iter().copied().filter(|run| run.task == task && of(run) == *kind);
            Some((task, Point::of(own)?))
        };
        tasks(runs).into_iter().filter_map(of_task).collect::<BTreeMap<&'a str, Point<'a>>>()
    };
    let all = kinds.iter().map(|kind| {
        let (own, paper) = (points(kind), points(&(kind.0, BTreeMap::new())));
        let gain = |(task, point): (&&'a str, &Point<'a>)| {
            Some((*task, differences(point, paper.get(task)?, |run| Measure::Accuracy.score(run))))
        };
        let size = kind.0.filter(|_| !one_size).map(|size| format!(", size {size}")).unwrap_or_default();
        Variant {
            name: variant_name(&kind.1) + &size,
            paper: kind.1.is_empty(),
            gains: own.iter().filter_map(gain).collect(),
            points: own,
        }
    });
    all.filter(|variant| !variant.points.is_empty()).collect()
}

/// What differs from the paper's adapter, in the paper's order.
fn variant_name(variant: &BTreeMap<String, Value>) -> String {
    if variant.is_empty() {
        return "the paper's adapter".to_owned();
    }
    let mut parts: Vec<(&String, &Value)> = variant.iter().collect();
    let place = |key: &str| paper::VARIANT_KEYS.iter().position(|known| *known == key);
    parts.sort_by_key(|(key, _)| place(key).unwrap_or(paper::VARIANT_KEYS.len()));
    parts.into_iter().map(|(key, value)| said(key, value)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn variants(store: &Store) -> Option<Table> {
    let runs = store.preset_runs("variants");
    let tasks = tasks(&runs);
    let all = compare_variants(&runs);
    if all.is_empty() {
        return None;
    }
    let mut head = vec!["variant".to_owned(), "trained".to_owned()];
    head.extend(tasks.iter().map(|task| task_name(task)));
    head.push("difference".to_owned());
    // As in the verdict: where the paper's adapter learnt nothing, variants cannot differ.
    let is_floor = |variant: &Variant<'_>, task: &str| {
        variant.points.get(task).is_some_and(|point| standing(point, Measure::Accuracy) == Standing::Floor)
    };
    let (floor, learnt): (Vec<&str>, Vec<&str>) =
        tasks.iter().partition(|task| all.iter().any(|variant| variant.paper && is_floor(variant, task)));
    let difference = |variant: &Variant<'_>| {
        let gains: Vec<Vec<f64>> = learnt.iter().filter_map(|task| variant.gains.get(*task)).cloned().collect();
        over_tasks(&gains)
    };
    let rows = all.iter().map(|variant| {
        let trained = variant.points.values().next().map(|point| count(point.trained() as f64));
        let mut row = vec![Cell::text(variant.name.clone()), Cell::text(trained.unwrap_or_default())];
        row.extend(tasks.iter().map(|task| Cell::estimate(variant.points.get(task).map(Point::shown))));
        row.push(if variant.paper { Cell::Empty } else { Cell::estimate(difference(variant)) });
        row
    });
    let mut notes = vec![format!(
        "Accuracy on validation, where a task has it: mean ± standard error over the seeds. {}. Difference: to the paper's adapter \
         with the same seed, mean over the tasks.",
        selected(all.iter().flat_map(|variant| variant.points.values()))
    )];
    if !floor.is_empty() {
        let floor: Vec<String> = floor.iter().map(|task| task_name(task)).collect();
        let why = "the paper's adapter is not clearly better than the trivial answer";
        notes.push(format!("Left out of the difference: {} ({why}).", floor.join(", ")));
    }
    let learnt_points = all.iter().flat_map(|variant| {
        let own = variant.points.iter().filter(|(task, _)| learnt.contains(task));
        own.map(|(task, point)| (variant.name.as_str(), *task, point))
    });
    notes.extend(note_of_floor(learnt_points, Measure::Accuracy).map(|note| note + "."));
    Some(Table { title: "§3.6: variants of the adapter".to_owned(), head, rows: rows.collect(), notes })
}
