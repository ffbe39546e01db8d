//! The paper's tables, from the runs of their experiments.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    MethodRecord, Store, StreamRecord,
    axis::{count, metric_name},
    findings,
    names::task_name,
    paper, search_tables,
    select::{Estimate, Point, best_point, by_method, mean, tasks},
    setup::{Names, Run, said},
    standing::{Measure, Standing, standing},
    table::{Cell, Table},
    thresholds::FEW,
};

/// What is said wherever a configuration was chosen.
pub(crate) const SELECTED: &str = "One configuration (learning rate, epochs and all else but the seed) is chosen by its mean validation score over the seeds; \
     its seeds are shown as mean ± standard error";

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
            Some(extra) => run.extra.get(extra)?.get(run.metric()?).copied(),
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

/// Tasks on which full fine-tuning is clear of the trivial answer and of everything right, and a note that names the others.
fn weighable<'a>(runs: &[&'a Run]) -> (BTreeSet<&'a str>, Option<String>) {
    let (mut clear, mut marked) = (BTreeSet::new(), Vec::new());
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let full = points.iter().filter(|(method, _)| method.name == paper::FULL).map(|(_, point)| point);
        let Some(full) = best_point(full) else { continue };
        match standing(full, Measure::Own) {
            Standing::Clear => {
                clear.insert(task);
            }
            Standing::Ceiling => marked.push(format!("{} (at the ceiling)", task_name(task))),
            Standing::Floor => {
                marked.push(format!("{} (full fine-tuning no better than the trivial answer)", task_name(task)))
            }
            Standing::Unknown => marked.push(format!("{} (trivial answer not recorded)", task_name(task))),
        }
    }
    let note = (!marked.is_empty()).then(|| {
        format!(
            "Left out of the share, because methods cannot differ there or nothing was learnt: {}.",
            marked.join(", ")
        )
    });
    (clear, note)
}

/// What a share is.
const SHARE: &str = "Share: what a method gains over the trivial answer (most frequent class; the mean for a regression) as a \
                     share of what full fine-tuning gains, mean over the tasks, which then weigh alike.";

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
    let mut others: Vec<String> = Vec::new();
    for task in tasks(runs) {
        let metric = runs.iter().filter(|run| run.task == task).find_map(|run| run.metric());
        if let Some(metric) = metric.filter(|metric| *metric != "accuracy") {
            others.push(format!("{} {}", task_name(task), metric_name(metric)));
        }
    }
    (!others.is_empty()).then(|| format!("Accuracy × 100, but: {}.", others.join(", ")))
}

/// Each number once, in their order.
fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
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
    let (clear, marked) = weighable(&runs);
    // The tasks that the verdict compares: the row that it judges has the same numbers.
    let judged = findings::compared_tasks(&runs);
    let compared: Vec<&str> = shared.iter().copied().filter(|task| judged.contains(task)).collect();
    let all: Vec<&Column<'_>> = columns.iter().filter(|column| shared.contains(&column.task)).collect();
    let weighed: Vec<&Column<'_>> =
        columns.iter().filter(|column| compared.contains(&column.task) && column.extra.is_none()).collect();

    let mut head: Vec<String> = ["method", "total ×", "trained %", "mean"].map(str::to_owned).to_vec();
    let some_only = !compared.is_empty() && compared.len() < shared.len();
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
        line.push(Cell::number(mean(shares.collect::<Vec<_>>()).filter(|_| !own.is_empty()), 0));
        line.extend(columns.iter().map(|column| Cell::estimate(row.score(column))));
        lines.push(line);
    }
    let mut notes = vec![
        format!(
            "Validation scores. {SELECTED}; a size is chosen likewise, among those that train at most {} % of the parameters. \
             Best run: the best of all configurations, sizes and seeds, chosen on the scores that are shown, as in the paper.",
            FEW.limit
        ),
        format!(
            "Trained %: of the backbone's parameters, mean over the {}. Total ×: backbones that all tasks need together. \
             Totals and the mean are over {} tasks. {SHARE}",
            if some_only { "tasks that the verdict compares" } else { "tasks" },
            shared.len()
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
             compare the rows of each with each other. The paper's mean is GLUE's own total."
                .to_owned(),
        );
    }
    Some(Table { title: "Table 1: full fine-tuning and adapters".to_owned(), head, rows: lines, notes })
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
    let searched = store.preset_runs(search_tables::PRESET);
    let no_bert: BTreeMap<&str, Point<'_>> =
        tasks.iter().filter_map(|&task| Some((task, search_tables::found(&searched, task)?))).collect();
    let by_task: Vec<(&str, Vec<Option<Point<'_>>>)> = tasks.iter().map(|&task| (task, chosen(task))).collect();
    // Averages are over the tasks that every method of the paper has that was run at all.
    let used: Vec<usize> =
        (0..known.len()).filter(|&column| by_task.iter().any(|(_, of)| of[column].is_some())).collect();
    let shared: Vec<&(&str, Vec<Option<Point<'_>>>)> =
        by_task.iter().filter(|(_, of)| used.iter().all(|&column| of[column].is_some())).collect();
    let (clear, marked) = weighable(&runs);

    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (task, points) in &by_task {
        let mut row = vec![Cell::text(task_name(task)), Cell::estimate(no_bert.get(task).map(Point::reported))];
        row.extend(points.iter().map(|point| Cell::estimate(point.as_ref().map(Point::reported))));
        rows.push(row);
    }
    // Nothing for another method that lacks some of these tasks.
    let column = |column: usize| {
        let own: Option<Vec<&Point<'_>>> = shared.iter().map(|(_, of)| of[column].as_ref()).collect();
        own.unwrap_or_default()
    };
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
    let average = |at: usize| mean(column(at).into_iter().map(|point| point.reported().mean));
    let without: Option<Vec<f64>> = shared.iter().map(|(task, _)| Some(no_bert.get(task)?.reported().mean)).collect();
    let without = Cell::number(without.and_then(mean), 1);
    summary(format!("average of {} tasks", shared.len()), without, &average, 1);
    summary("share %, validation".to_owned(), Cell::Empty, &share, 0);
    let whole = |at: usize| column(at).into_iter().map(|point| point.seeds[0]).collect::<Vec<_>>();
    summary("total ×".to_owned(), Cell::Empty, &|at| total(&whole(at)), 2);
    summary("trained %".to_owned(), Cell::Empty, &|at| trained_percent(&whole(at)), 2);
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
        (tested, all) => format!("Test scores of {tested} tasks, validation scores of the other {}", all - tested),
    };
    let mut notes = vec![
        format!(
            "{scores}. {SELECTED}; k and size are chosen likewise. {SHARE} The paper's rows are BERT-Base on its own 17 tasks."
        ),
        if no_bert.is_empty() {
            "No BERT: a gap; `run baseline` searches for the best classifier without BERT.".to_owned()
        } else {
            "No BERT: the best classifier that the search without BERT found on validation (Tables 5 to 7).".to_owned()
        },
    ];
    notes.extend(marked);
    notes.extend(left_out_note(&runs));
    notes.extend(metric_note(&runs));
    Some(Table { title: "Table 2: full, variable and adapter tuning on more tasks".to_owned(), head, rows, notes })
}

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

pub(crate) fn sizes(store: &Store) -> Option<Table> {
    let runs = store.preset_runs("sizes");
    let (sizes, by_task) = sizes_by_task(&runs);
    let at_floor = |points: &[Point<'_>]| {
        best_point(points).is_some_and(|best| standing(best, Measure::Accuracy) == Standing::Floor)
    };
    let floor: Vec<&str> = by_task.iter().filter(|(_, points)| at_floor(points)).map(|(task, _)| *task).collect();
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
    let mut notes = vec![format!(
        "Over {} classification tasks: for each size and task one configuration, chosen by its mean validation score over the \
         seeds; mean over seeds, mean over tasks. The paper's: BERT-Large on GLUE's eight.",
        by_task.len()
    )];
    if !floor.is_empty() {
        notes.push(format!(
            "No size clearly beats the most frequent class on: {}.",
            floor.iter().map(|task| task_name(task)).collect::<Vec<_>>().join(", ")
        ));
    }
    Some(Table { title: "§3.6: validation accuracy by adapter size".to_owned(), head, rows, notes })
}

/// A variant of the adapter: its name, a point for each task, and the mean difference to the paper's adapter.
pub(crate) struct Variant<'a> {
    pub name: String,
    pub size: Option<f64>,
    /// Whether it is the paper's own.
    pub paper: bool,
    pub points: BTreeMap<&'a str, Point<'a>>,
    /// In points, over the tasks that both have.
    pub difference: Option<f64>,
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
        let changes = own.iter().filter_map(|(task, p)| Some(p.validation().mean - paper.get(task)?.validation().mean));
        let size = kind.0.filter(|_| !one_size).map(|size| format!(", size {size}")).unwrap_or_default();
        Variant {
            name: variant_name(&kind.1) + &size,
            size: kind.0,
            paper: kind.1.is_empty(),
            difference: mean(changes.collect::<Vec<_>>()),
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
    let rows = all.iter().map(|variant| {
        let trained = variant.points.values().next().map(|point| count(point.trained() as f64));
        let mut row = vec![Cell::text(variant.name.clone()), Cell::text(trained.unwrap_or_default())];
        row.extend(tasks.iter().map(|task| Cell::estimate(variant.points.get(task).map(Point::validation))));
        row.push(Cell::number(variant.difference, 1));
        row
    });
    let mut notes =
        vec![format!("Validation scores. {SELECTED}. Difference: to the paper's adapter, mean over the tasks.")];
    notes.extend(metric_note(&runs));
    Some(Table { title: "§3.6: variants of the adapter".to_owned(), head, rows: rows.collect(), notes })
}

pub(crate) fn stream(store: &Store) -> Option<Table> {
    let streams = store.streams(store.preset("stream")?);
    remembered("Tasks one after the other: what is remembered", &streams)
}

/// A row for each stage of some streams.
pub(crate) fn remembered(title: &str, streams: &[&StreamRecord]) -> Option<Table> {
    let mut tasks: Vec<&str> = Vec::new();
    for stage in streams.iter().flat_map(|stream| &stream.stages) {
        if !tasks.contains(&stage.task.as_str()) {
            tasks.push(&stage.task);
        }
    }
    if tasks.is_empty() {
        return None;
    }
    let mut head: Vec<String> = ["tuning", "seed", "after", "trained", "total"].map(str::to_owned).to_vec();
    head.extend(tasks.iter().map(|task| task_name(task)));
    head.push("identical".to_owned());
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for stream in streams {
        for stage in &stream.stages {
            let mut row = vec![
                Cell::text(stream.tuning.clone()),
                Cell::Number(stream.seed as f64, None, 0),
                Cell::text(task_name(&stage.task)),
                Cell::Number(stage.trained as f64, None, 0),
                Cell::Number(stage.total as f64, None, 0),
            ];
            row.extend(tasks.iter().map(|task| {
                let recall = stage.recall.iter().find(|recall| recall.task == **task);
                recall.map_or(Cell::Empty, |recall| Cell::Number(100.0 * recall.now, None, 1))
            }));
            // The stage's own task was just learnt: it says nothing of memory.
            let earlier = || stage.recall.iter().filter(|recall| recall.task != stage.task);
            let same = earlier().filter(|recall| recall.identical).count();
            row.push(match earlier().count() {
                0 => Cell::Empty,
                all => Cell::text(format!("{same} of {all}")),
            });
            rows.push(row);
        }
    }
    let note = "Validation scores of every task so far, after each task. Trained: parameters for the new task; total: all that \
                must be kept. Identical: earlier tasks whose every output is the same as when they were learnt, bit for bit.";
    Some(Table { title: title.to_owned(), head, rows, notes: vec![note.to_owned()] })
}
