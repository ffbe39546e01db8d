//! Table 2: more tasks, with the search without BERT, full and variable fine-tuning, and adapters.

use std::collections::BTreeMap;

use super::{SHARE, left_out_note, metric_note, others, search, selected_of, total, trained_percent, weighable};
use crate::{
    Store,
    axis::counted,
    findings,
    names::task_name,
    paper,
    select::{Point, best_point, by_method, mean, tasks},
    setup::Run,
    standing::Measure,
    table::{Cell, Table},
};

/// A task, and the point of each column.
type OfTask<'a> = (&'a str, Vec<Option<Point<'a>>>);

/// The points of a column: none of a method that lacks some of the tasks.
fn column<'p, 'a>(tasks: &[&'p OfTask<'a>], at: usize) -> Vec<&'p Point<'a>> {
    tasks.iter().map(|(_, points)| points[at].as_ref()).collect::<Option<_>>().unwrap_or_default()
}

/// A run of each of these points: parameters are the same for every seed.
fn column_runs<'a>(tasks: &[&OfTask<'a>], at: usize) -> Vec<&'a Run> {
    column(tasks, at).into_iter().map(|point| point.seeds[0]).collect()
}

pub(crate) fn table2(store: &Store) -> Option<Table> {
    let runs = store.preset_runs("table2");
    let tasks = tasks(&runs);
    if tasks.is_empty() {
        return None;
    }
    // Variable fine-tuning may choose all layers, as in the paper.
    let known =
        [(paper::FULL, "full fine-tuning"), (paper::TOP, "variable fine-tuning"), (paper::ADAPTERS, "adapters")];
    let mut columns: Vec<(String, String)> =
        known.iter().map(|(name, called)| (name.to_string(), called.to_string())).collect();
    columns.extend(others(&runs, &known.map(|(name, _)| name)));
    let mut head = vec!["task".to_owned(), "no BERT".to_owned()];
    head.extend(columns.iter().map(|(_, called)| called.clone()));
    // For every task the best k and the best size by mean validation score.
    let chosen = |task: &str| {
        let points = by_method(&runs, task);
        let best = |name: &str| {
            best_point(points.iter().filter(|(method, _)| method.name == name).map(|(_, point)| point)).cloned()
        };
        columns.iter().map(|(name, _)| best(name)).collect::<Vec<Option<Point<'_>>>>()
    };
    // What a search that is not over has found so far may not be what it finds.
    let search = store.preset(search::PRESET);
    let left = search.and_then(|record| record.unfinished(store));
    let searched = search.filter(|_| left.is_none()).map(|record| store.runs(record)).unwrap_or_default();
    let no_bert: BTreeMap<&str, Point<'_>> =
        tasks.iter().filter_map(|&task| Some((task, search::found(&searched, task)?))).collect();
    let by_task: Vec<OfTask<'_>> = tasks.iter().map(|&task| (task, chosen(task))).collect();
    // Averages are over the tasks that every method of the paper has that was run at all.
    let used: Vec<usize> =
        (0..known.len()).filter(|&column| by_task.iter().any(|(_, of)| of[column].is_some())).collect();
    let shared: Vec<&OfTask<'_>> =
        by_task.iter().filter(|(_, of)| used.iter().all(|&column| of[column].is_some())).collect();
    let (clear, marked) = weighable(&runs, "the share");
    // The tasks that the verdict compares.
    let judged = findings::compared_tasks(&runs, None);
    let compared: Vec<&OfTask<'_>> = shared.iter().copied().filter(|(task, _)| judged.contains(task)).collect();
    let some_only = !compared.is_empty() && compared.len() < shared.len();

    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (task, points) in &by_task {
        let mut row = vec![Cell::text(task_name(task)), Cell::estimate(no_bert.get(task).map(Point::reported))];
        row.extend(points.iter().map(|point| Cell::estimate(point.as_ref().map(Point::reported))));
        rows.push(row);
    }
    // Of validation scores, as the trivial answer's.
    let share = |at: usize| {
        let weighed = shared.iter().filter(|(task, _)| clear.contains(task));
        let shares: Option<Vec<f64>> = weighed
            .map(|(_, of)| {
                let (own, full) = (of[at].as_ref()?, of[0].as_ref()?);
                let trivial = 100.0 * Measure::Own.trivial(full.seeds[0])?;
                Some(100.0 * (own.validation().mean - trivial) / (full.validation().mean - trivial))
            })
            .collect();
        mean(shares?)
    };
    let mut summary = |called: String, without: Cell, value: &dyn Fn(usize) -> Option<f64>, decimals| {
        let mut row = vec![Cell::text(called), without];
        row.extend((0..columns.len()).map(|column| Cell::number(value(column), decimals)));
        rows.push(row);
    };
    let averaged = if shared.len() == 1 { "one task".to_owned() } else { format!("{} tasks", shared.len()) };
    let averages = [(averaged, &shared)]
        .into_iter()
        .chain(some_only.then(|| (format!("the {} compared", compared.len()), &compared)));
    for (called, of) in averages {
        let without: Option<Vec<f64>> = of.iter().map(|(task, _)| Some(no_bert.get(task)?.reported().mean)).collect();
        let average = |at: usize| mean(column(of, at).iter().map(|point| point.reported().mean));
        summary(format!("average of {called}"), Cell::number(without.and_then(mean), 1), &average, 1);
    }
    summary("share %, validation".to_owned(), Cell::Empty, &share, 0);
    let averaged_tasks = if some_only { &compared } else { &shared };
    summary("total ×".to_owned(), Cell::Empty, &|at| total(&column_runs(&shared, at)), 2);
    summary("trained %".to_owned(), Cell::Empty, &|at| trained_percent(&column_runs(averaged_tasks, at)), 2);
    let [none, others @ ..] = paper::TABLE2_AVERAGE;
    for (called, baseline, numbers, decimals) in [
        ("paper: average of 17 tasks", Cell::Number(none, None, 1), others, 1),
        ("paper: total ×", Cell::Empty, paper::TABLE2_TOTAL, 2),
        ("paper: trained %", Cell::Empty, paper::TABLE2_TRAINED, 2),
    ] {
        let mut row = vec![Cell::text(called), baseline];
        row.extend(numbers.map(|number| Cell::Number(number, None, decimals)));
        row.resize(head.len(), Cell::Empty);
        rows.push(row);
    }
    let tested = by_task.iter().filter(|(_, of)| of.iter().flatten().all(|point| point.test().is_some())).count();
    let scores = match (tested, tasks.len()) {
        (0, _) => "Validation scores (no test labels)".to_owned(),
        (tested, all) if tested == all => "Test scores".to_owned(),
        (tested, all) => {
            format!("Test scores of {}, validation scores of the other {}", counted(tested, "task"), all - tested)
        }
    };
    let mut notes = vec![
        format!(
            "{scores}, mean ± standard error over the seeds. {}. k and size are chosen by their mean validation scores. {SHARE} Total ×: \
             backbones that all tasks need together. Trained %: of the backbone's parameters, mean over the {}. The paper's rows \
             are BERT-Base on its own 17 tasks.",
            selected_of(&runs),
            if some_only { "tasks that the verdict compares" } else { "tasks" }
        ),
        if let Some(left) = left {
            format!("No BERT: a gap until the search is over ({left}).")
        } else if no_bert.is_empty() {
            "No BERT: a gap; `run baseline` searches for the best classifier without BERT.".to_owned()
        } else {
            format!(
                "No BERT: the best classifier that the search without BERT found on validation, of {} for each task (Tables 5 to \
                 7).",
                search::trials(&searched)
            )
        },
    ];
    notes.extend(marked);
    notes.extend(left_out_note(&runs));
    notes.extend(metric_note(&runs));
    Some(Table { title: "Table 2: full, variable and adapter tuning on more tasks".to_owned(), head, rows, notes })
}
