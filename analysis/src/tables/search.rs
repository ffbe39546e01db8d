//! Tables of the search without BERT: its space, what it found, and how it went.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    DimensionRecord, Store,
    axis::counted,
    names::task_name,
    paper,
    select::{Estimate, Point, best_point, by_method, percentile, tasks},
    setup::{Run, written},
    standing::Measure,
    table::{Cell, Table},
};

/// The name of the preset.
pub(crate) const PRESET: &str = "baseline";

/// The trial that a search found best on a task, with all its seeds.
pub(crate) fn found<'a>(runs: &[&'a Run], task: &str) -> Option<Point<'a>> {
    let points = by_method(runs, task);
    let own = points.iter().filter(|(method, _)| method.name == paper::NO_BERT).map(|(_, point)| point);
    best_point(own).cloned()
}

/// How many different trials a search drew for a task, whatever their samples and seeds.
fn drawn(runs: &[&Run], task: &str) -> usize {
    let chosen = |run: &&Run| {
        let mut config = (*run.config).clone();
        config.remove("samples");
        Value::Object(config).to_string()
    };
    runs.iter().filter(|run| run.task == task).map(chosen).collect::<BTreeSet<String>>().len()
}

/// How many trials were drawn for each task, in words.
pub(crate) fn trials(runs: &[&Run]) -> String {
    let numbers: BTreeSet<usize> = tasks(runs).into_iter().map(|task| drawn(runs, task)).collect();
    match (numbers.first(), numbers.last()) {
        (Some(1), Some(1)) => "1 trial".to_owned(),
        (Some(least), Some(most)) if least != most => format!("{least} to {most} trials"),
        (_, most) => format!("{} trials", most.copied().unwrap_or_default()),
    }
}

pub(crate) fn table5(store: &Store) -> Option<Table> {
    let record = store.preset(PRESET)?;
    let row = |dimension: &DimensionRecord| {
        let DimensionRecord { key, about, values, when } = dimension.clone();
        [key, about, values, when.unwrap_or_default()].map(Cell::text).to_vec()
    };
    let rows: Vec<Vec<Cell>> = record.space.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Table 5: the space of the search without BERT".to_owned(),
        head: ["key", "what it decides", "values", "only if"].map(str::to_owned).to_vec(),
        rows,
        notes: vec!["A trial draws a value for every key; one that decides nothing is left out.".to_owned()],
    })
}

pub(crate) fn table6(store: &Store) -> Option<Table> {
    let record = store.preset(PRESET)?;
    let runs = store.runs(record);
    let best: Vec<(&str, Point<'_>)> =
        tasks(&runs).into_iter().filter_map(|task| Some((task, found(&runs, task)?))).collect();
    if best.is_empty() {
        return None;
    }
    let mut head = vec!["key".to_owned()];
    head.extend(best.iter().map(|(task, _)| task_name(task)));
    let value = |run: &Run, key: &str| match run.config.get(key) {
        None | Some(Value::Null) => Cell::Empty,
        Some(value) => Cell::text(written(value)),
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for DimensionRecord { key, .. } in &record.space {
        let mut row = vec![Cell::text(key.clone())];
        row.extend(best.iter().map(|(_, point)| value(point.seeds[0], key)));
        rows.push(row);
    }
    let mut scores = |called: &str, score: &dyn Fn(&Point<'_>) -> Estimate| {
        let mut row = vec![Cell::text(called)];
        row.extend(best.iter().map(|(_, point)| Cell::estimate(Some(score(point)))));
        rows.push(row);
    };
    scores("validation", &|point| point.validation());
    scores("reported", &|point| point.reported());
    let most = best.iter().map(|(_, point)| point.seeds.len()).max().unwrap_or_default();
    let note = format!(
        "For each task the trial with the best validation score of the search, and its scores over the {} it was then trained \
         with. Reported: test scores where there are any. The paper has this as Table 7; its Table 6 lists embedding modules, which \
         Table 5 names here.",
        counted(most, "seed")
    );
    Some(Table { title: "Table 6: what the search without BERT found".to_owned(), head, rows, notes: vec![note] })
}

pub(crate) fn table7(store: &Store) -> Option<Table> {
    let runs = store.preset_runs(PRESET);
    let rows = tasks(&runs).into_iter().filter_map(|task| {
        let own: Vec<&Run> = runs.iter().copied().filter(|run| run.task == task).collect();
        let scores: Vec<f64> = own.iter().filter_map(|run| Some(100.0 * run.validation()?)).collect();
        let seconds: f64 = own.iter().map(|run| run.measured.training_seconds).sum();
        let diverged = own.iter().filter(|run| run.is_diverged()).count();
        let best = found(&runs, task)?;
        Some(vec![
            Cell::text(task_name(task)),
            Cell::Number(drawn(&runs, task) as f64, None, 0),
            Cell::Number(own.len() as f64, None, 0),
            Cell::Number(diverged as f64, None, 0),
            Cell::Number(seconds / own.len() as f64, None, 1),
            Cell::number(Measure::Own.trivial(own[0]).map(|trivial| 100.0 * trivial), 1),
            Cell::number(percentile(&scores, 0.5), 1),
            Cell::estimate(Some(best.validation())),
        ])
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let head = ["task", "drawn", "trials", "diverged", "seconds a trial", "trivial", "median trial", "best trial"];
    (!rows.is_empty()).then(|| Table {
        title: "Table 7: what was searched".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
        notes: vec![
            "Drawn: different choices from the space. Trials: all that were trained, with more samples and more seeds too. \
             Validation scores; the best trial is the one that was then trained with several seeds. The paper has no such table."
                .to_owned(),
        ],
    })
}
