//! §3.6: other adapters beside the paper's.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{floor_note, selected};
use crate::{
    Store,
    axis::count,
    names::task_name,
    paper,
    select::{Estimate, Point, mean, tasks},
    setup::{Run, said},
    standing::Measure,
    table::{Cell, Table},
};

/// A variant of the adapter: its name, a point for each task, and the mean difference to the paper's adapter.
pub(crate) struct Variant<'a> {
    pub name: String,
    pub size: Option<f64>,
    /// Whether it is the paper's own.
    pub paper: bool,
    pub points: BTreeMap<&'a str, Point<'a>>,
    /// In points, over the tasks that both have: its mean over the tasks for each seed that all of them share.
    pub difference: Option<Estimate>,
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
        let both = own.iter().filter_map(|(task, point)| Some((point, paper.get(task)?)));
        let size = kind.0.filter(|_| !one_size).map(|size| format!(", size {size}")).unwrap_or_default();
        Variant {
            name: variant_name(&kind.1) + &size,
            size: kind.0,
            paper: kind.1.is_empty(),
            difference: if kind.1.is_empty() { None } else { difference(&both.collect::<Vec<_>>()) },
            points: own,
        }
    });
    all.filter(|variant| !variant.points.is_empty()).collect()
}

/// The mean difference in points between the points of each pair, a pair for each task, with its error over the seeds that all share.
fn difference(pairs: &[(&Point<'_>, &Point<'_>)]) -> Option<Estimate> {
    let of_seed = |seed: u64| {
        let of_task = |(own, paper): &(&Point<'_>, &Point<'_>)| {
            let score = |point: &Point<'_>| {
                let run = point.seeds.iter().find(|run| run.seed == seed)?;
                Some(100.0 * Measure::Accuracy.score(run)?)
            };
            Some(score(own)? - score(paper)?)
        };
        mean(pairs.iter().map(of_task).collect::<Option<Vec<f64>>>()?)
    };
    let (first, _) = pairs.first()?;
    Estimate::of(&first.seeds.iter().filter_map(|run| of_seed(run.seed)).collect::<Vec<_>>())
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
    let rows = all.iter().map(|variant| {
        let trained = variant.points.values().next().map(|point| count(point.trained() as f64));
        let mut row = vec![Cell::text(variant.name.clone()), Cell::text(trained.unwrap_or_default())];
        row.extend(tasks.iter().map(|task| Cell::estimate(variant.points.get(task).map(Point::shown))));
        row.push(if variant.paper { Cell::Empty } else { Cell::estimate(variant.difference) });
        row
    });
    let mut notes = vec![format!(
        "Accuracy on validation, where a task has it: mean ± standard error over the seeds. {}. Difference: to the paper's adapter \
         with the same seed, mean over the tasks.",
        selected(all.iter().flat_map(|variant| variant.points.values()))
    )];
    notes.extend(floor_note(&runs, &tasks, Measure::Accuracy).map(|note| note + "."));
    Some(Table { title: "§3.6: variants of the adapter".to_owned(), head, rows: rows.collect(), notes })
}
