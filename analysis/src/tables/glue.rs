//! Table 1: GLUE with full fine-tuning and adapters.

use std::collections::BTreeMap;

use super::{SHARE, left_out_note, metric_note, others, selected_of, total, trained_percent, weighable};
use crate::{
    MethodRecord, Store,
    axis::counted,
    findings,
    names::task_name,
    paper,
    select::{Estimate, Point, best_point, by_method, mean, tasks},
    setup::Run,
    standing::Measure,
    table::{Cell, Table},
    thresholds::FEW,
};

/// A row of Table 1: a point for each task that the method has.
struct Row<'a> {
    called: String,
    points: BTreeMap<&'a str, Point<'a>>,
    /// Whether its best run stands for each point, as in the paper, instead of the mean over the seeds.
    best_run: bool,
}

impl<'a> Row<'a> {
    /// The run that a task's parameters are counted of, or whose score is shown alone.
    fn run(&self, task: &str) -> Option<&'a Run> {
        let point = self.points.get(task)?;
        Some(if self.best_run { point.best() } else { point.seeds[0] })
    }

    fn runs(&self, tasks: &[&str]) -> Option<Vec<&'a Run>> {
        tasks.iter().map(|task| self.run(task)).collect()
    }

    /// The validation score × 100 of a column: a task, or a further validation set of one.
    fn score(&self, column: &Column<'_>) -> Option<Estimate> {
        let score = |run: &Run| match column.extra {
            None => run.validation(),
            Some(extra) => run.extra(extra),
        };
        match self.best_run {
            true => Estimate::of(&[100.0 * score(self.run(column.task)?)?]),
            false => self.points.get(column.task)?.estimate(score),
        }
    }

    /// The mean over some columns, if it has them all.
    fn mean(&self, columns: &[&Column<'_>]) -> Option<f64> {
        let scores: Option<Vec<f64>> = columns.iter().map(|column| Some(self.score(column)?.mean)).collect();
        mean(scores?)
    }

    /// What it gains over the trivial answer as a share of what another row gains, in percent.
    fn share(&self, task: &str, full: &Row<'_>) -> Option<f64> {
        let column = Column { task, extra: None };
        let trivial = 100.0 * Measure::Own.trivial(full.run(task)?)?;
        Some(100.0 * (self.score(&column)?.mean - trivial) / (full.score(&column)?.mean - trivial))
    }
}

/// A column of Table 1: a task, or a further validation set of its model.
struct Column<'a> {
    task: &'a str,
    extra: Option<&'static str>,
}

impl Column<'_> {
    fn name(&self) -> &str {
        self.extra.unwrap_or(self.task)
    }
}

/// MNLI's mismatched validation set.
const MISMATCHED: &str = "mnli-mm";

pub(crate) fn table1(store: &Store) -> Option<Table> {
    let runs = store.preset_runs("table1");
    let tasks = tasks(&runs);
    if tasks.is_empty() {
        return None;
    }
    let points: BTreeMap<&str, Vec<(&MethodRecord, Point<'_>)>> =
        tasks.iter().map(|&task| (task, by_method(&runs, task))).collect();
    let row = |called: String, choose: &dyn Fn(&MethodRecord, &Point<'_>) -> bool| {
        let chosen = tasks.iter().filter_map(|&task| {
            let own = points[task].iter().filter(|(method, point)| choose(method, point));
            Some((task, best_point(own.map(|(_, point)| point))?.clone()))
        });
        Row { called, points: chosen.collect(), best_run: false }
    };
    // The paper's way: the best run of all configurations and seeds.
    let best_runs = |called: &str, name: &str| {
        let all = tasks.iter().filter_map(|&task| {
            let own = runs.iter().copied().filter(|run| run.task == task && run.method().name == name);
            Some((task, Point::of(own)?))
        });
        Row { called: called.to_owned(), points: all.collect(), best_run: true }
    };
    let few = |point: &Point<'_>| 100.0 * point.seeds[0].trained_share() <= FEW.limit;
    let of = |points: &[(&MethodRecord, Point<'_>)], few_only: bool| {
        let adapters = points.iter().filter(|(method, _)| method.name == paper::ADAPTERS);
        let kept = adapters.filter(|(_, point)| !few_only || few(point));
        kept.filter_map(|(method, _)| method.size).collect::<Vec<f64>>()
    };
    let sizes = sorted(points.values().flat_map(|points| of(points, true)).collect());
    let common: Vec<f64> = sorted(points.values().flat_map(|points| of(points, false)).collect())
        .into_iter()
        .filter(|size| points.values().all(|points| of(points, false).contains(size)))
        .collect();
    let fixed = if common.contains(&64.0) { Some(64.0) } else { common.last().copied() };
    let range = match (sizes.first(), sizes.last()) {
        (Some(low), Some(high)) if low != high => format!("adapters, best of sizes {low} to {high}"),
        _ => "adapters, best size".to_owned(),
    };
    let is_fixed = |method: &MethodRecord| method.name == paper::ADAPTERS && method.size == fixed;
    let mut rows = vec![
        row("full fine-tuning".to_owned(), &|method, _| method.name == paper::FULL),
        row(range, &|method, point| method.name == paper::ADAPTERS && few(point)),
        row(fixed.map_or("adapters, one size".to_owned(), |size| format!("adapters, size {size}")), &|method, _| {
            fixed.is_some() && is_fixed(method)
        }),
    ];
    // Means and totals are over the same tasks in every row of the paper's that has runs.
    let used: Vec<&Row<'_>> = rows.iter().filter(|row| !row.points.is_empty()).collect();
    let shared: Vec<&str> =
        tasks.iter().copied().filter(|task| used.iter().all(|row| row.points.contains_key(task))).collect();
    let others = others(&runs, &[paper::FULL, paper::ADAPTERS]);
    rows.extend(others.into_iter().map(|(name, called)| row(called, &|method, _| method.name == name)));
    let best = [("best run: full fine-tuning", paper::FULL), ("best run: adapters", paper::ADAPTERS)];
    rows.extend(best.map(|(called, name)| best_runs(called, name)).into_iter().filter(|row| !row.points.is_empty()));
    // MNLI's model is scored on the mismatched set too: one run, two columns.
    let mut columns: Vec<Column<'_>> = Vec::new();
    for &task in &tasks {
        columns.push(Column { task, extra: None });
        let scored = runs.iter().any(|run| run.task == task && run.extra.contains_key(MISMATCHED));
        if scored && !tasks.contains(&MISMATCHED) {
            columns.push(Column { task, extra: Some(MISMATCHED) });
        }
    }
    let (clear, marked) = weighable(&runs, "the share");
    // The tasks that the verdict compares: the row that it judges has the same numbers.
    let judged = findings::compared_tasks(&runs, Some(FEW.limit));
    let compared: Vec<&str> = shared.iter().copied().filter(|task| judged.contains(task)).collect();
    let all: Vec<&Column<'_>> = columns.iter().filter(|column| shared.contains(&column.task)).collect();
    let weighed: Vec<&Column<'_>> =
        columns.iter().filter(|column| compared.contains(&column.task) && column.extra.is_none()).collect();

    let mut head: Vec<String> = ["method", "total ×", "trained %", "mean"].map(str::to_owned).to_vec();
    // MNLI-mm is another column of a task that is compared.
    let some_only = !compared.is_empty() && compared.len() < all.len();
    head.extend(some_only.then(|| format!("mean of the {} compared", compared.len())));
    head.push("share %".to_owned());
    head.extend(columns.iter().map(|column| task_name(column.name())));
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    for row in &rows {
        let own = row.runs(&shared).unwrap_or_default();
        let shares = shared.iter().filter(|task| clear.contains(*task)).filter_map(|task| row.share(task, &rows[0]));
        let trained = if some_only { row.runs(&compared).unwrap_or_default() } else { own.clone() };
        let mut line = vec![Cell::text(&row.called)];
        line.extend([Cell::number(total(&own), 2), Cell::number(trained_percent(&trained), 2)]);
        line.push(Cell::number(row.mean(&all), 1));
        line.extend(some_only.then(|| Cell::number(row.mean(&weighed), 1)));
        let share = mean(shares.collect::<Vec<_>>()).filter(|_| !own.is_empty());
        // A share is one of a mean, and the best run is none.
        line.push(if row.best_run { Cell::Empty } else { Cell::number(share, 0) });
        line.extend(columns.iter().map(|column| Cell::estimate(row.score(column))));
        lines.push(line);
    }
    // How many runs of a method a task has, if it has any.
    let runs_of = |(name, called): (&str, &str)| {
        let of_task = |task: &&str| runs.iter().filter(|run| run.task == **task && run.method().name == name).count();
        let numbers = || tasks.iter().map(of_task).filter(|number| *number > 0);
        let (least, most) = (numbers().min()?, numbers().max()?);
        let range = if least < most { format!("{least} to ") } else { String::new() };
        Some(format!("{range}{} of {called}", counted(most, "run")))
    };
    let best_of: Vec<String> =
        [(paper::FULL, "full fine-tuning"), (paper::ADAPTERS, "adapters")].into_iter().filter_map(runs_of).collect();
    let mut notes = vec![
        format!(
            "Validation scores, mean ± standard error over the seeds. {}. A size is chosen by its mean validation score, among those that train at most {} % of the \
             parameters. Best run: the best of all configurations, sizes and seeds, chosen on the scores that are shown, as in \
             the paper. For each task it is the best of {}: more runs have a better best.",
            selected_of(&runs),
            FEW.limit,
            best_of.join(" and of ")
        ),
        format!(
            "Trained %: of the backbone's parameters, mean over the {}. Total ×: backbones that all tasks need together. \
             Totals are over {}, the mean is over {}. {SHARE}",
            if some_only { "tasks that the verdict compares" } else { "tasks" },
            counted(shared.len(), "task"),
            match all.len() {
                columns if columns == shared.len() => "the same".to_owned(),
                columns => format!("their {}", counted(columns, "column")),
            }
        ),
    ];
    notes.extend(marked);
    notes.extend(left_out_note(&runs));
    notes.extend(metric_note(&runs));
    let known: Vec<Option<usize>> =
        columns.iter().map(|column| paper::TABLE1_TASKS.iter().position(|known| *known == column.name())).collect();
    if known.iter().any(Option::is_some) {
        let all = paper::TABLE1_TASKS.iter().all(|known| columns.iter().any(|column| column.name() == *known));
        for theirs in &paper::TABLE1 {
            let numbers = [Cell::Number(theirs.total, None, 1), Cell::Number(theirs.trained, None, 1)];
            let mut line = vec![Cell::text(theirs.method)];
            line.extend(numbers);
            line.push(if all { Cell::Number(theirs.overall, None, 1) } else { Cell::Empty });
            line.extend(some_only.then_some(Cell::Empty));
            line.push(Cell::Empty);
            line.extend(known.iter().map(|at| at.map_or(Cell::Empty, |at| Cell::Number(theirs.scores[at], None, 1))));
            lines.push(line);
        }
        notes.push(
            "The paper's rows are BERT-Large on GLUE's test sets (their server keeps the labels), ours are validation scores: \
             compare the rows of each with each other. The paper's mean is GLUE's own total, and its total × counts MNLI twice."
                .to_owned(),
        );
    }
    Some(Table { title: "Table 1: full fine-tuning and adapters".to_owned(), head, rows: lines, notes })
}

/// Each number once, in their order.
fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}
