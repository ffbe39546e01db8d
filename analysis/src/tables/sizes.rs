//! §3.6: adapters of several sizes.

use super::{floor_note, selected};
use crate::{
    Store,
    axis::counted,
    names::task_name,
    paper,
    select::{Point, best_point, by_method, mean, tasks},
    setup::Run,
    standing::{Measure, Standing, standing},
    table::{Cell, Table},
};

/// Adapter sizes, and for each classification task that has all of them a point for each.
pub(crate) fn sizes_by_task<'a>(runs: &[&'a Run]) -> (Vec<f64>, Vec<(&'a str, Vec<Point<'a>>)>) {
    let adapters: Vec<&Run> = runs.iter().copied().filter(|run| run.method().name == paper::ADAPTERS).collect();
    let mut sizes: Vec<f64> = adapters.iter().filter_map(|run| run.method().size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let of_task = |task: &'a str| {
        let points = by_method(&adapters, task);
        let all = sizes.iter().map(|&size| {
            let own = points.iter().filter(|(method, _)| method.size == Some(size)).map(|(_, point)| point);
            best_point(own).filter(|point| point.accuracy().is_some()).cloned()
        });
        Some((task, all.collect::<Option<Vec<Point<'a>>>>()?))
    };
    let whole = tasks(runs).into_iter().filter_map(of_task).collect();
    (sizes, whole)
}

/// The runs that the table shows: those of classifications.
pub(crate) fn of_sizes(runs: Vec<&Run>) -> Vec<&Run> {
    runs.into_iter().filter(|run| run.accuracy().is_some()).collect()
}

pub(crate) fn sizes(store: &Store) -> Option<Table> {
    let runs = store.preset_runs("sizes");
    let (sizes, by_task) = sizes_by_task(&runs);
    let at_floor = |points: &[Point<'_>]| {
        best_point(points).is_some_and(|best| standing(best, Measure::Accuracy) == Standing::Floor)
    };
    // As in the verdict: where no size learnt anything, sizes cannot differ.
    let (floor, learnt): (Vec<_>, Vec<_>) = by_task.into_iter().partition(|(_, points)| at_floor(points));
    let all_floor = learnt.is_empty();
    let by_task = if all_floor { &floor } else { &learnt };
    let rows = sizes.iter().enumerate().filter_map(|(at, &size)| {
        let accuracy = mean(by_task.iter().map(|(_, points)| points[at].shown().mean))?;
        let trained = mean(by_task.iter().map(|(_, points)| 100.0 * points[at].seeds[0].trained_share()))?;
        let theirs = paper::SIZES.iter().find(|(known, _)| *known == size);
        let theirs = theirs.map_or(Cell::Empty, |(_, accuracy)| Cell::Number(*accuracy, None, 1));
        Some(vec![Cell::Number(size, None, 0), Cell::Number(trained, None, 2), Cell::Number(accuracy, None, 1), theirs])
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if rows.is_empty() {
        return None;
    }
    let head = ["adapter size", "trained %", "mean accuracy", "the paper's"].map(str::to_owned).to_vec();
    let named =
        |tasks: &[(&str, Vec<Point<'_>>)]| tasks.iter().map(|(task, _)| task_name(task)).collect::<Vec<_>>().join(", ");
    let mut notes = vec![format!(
        "Validation accuracy, mean over the seeds, then over {}: {}. {}. The paper's: BERT-Large on GLUE's eight.",
        counted(by_task.len(), "classification task"),
        named(by_task),
        selected(by_task.iter().flat_map(|(_, points)| points))
    )];
    if !floor.is_empty() {
        let left_out = if all_floor { "" } else { "Left out: " };
        notes.push(format!("{left_out}{} (no size clearly beats the most frequent class).", named(&floor)));
    }
    let shown: Vec<&str> = by_task.iter().map(|(task, _)| *task).filter(|_| !all_floor).collect();
    notes.extend(floor_note(&runs, &shown, Measure::Accuracy).map(|note| note + "."));
    Some(Table { title: "§3.6: validation accuracy by adapter size".to_owned(), head, rows, notes })
}
