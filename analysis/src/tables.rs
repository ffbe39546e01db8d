//! The paper's tables, from the runs of their experiments.

use std::collections::BTreeMap;

use crate::{
    Store,
    axis::count,
    figures::metric_name,
    paper,
    select::{Point, best_point, by_method, mean, tasks},
    setup::{Method, Run},
    table::{Cell, Table},
};

/// Every table, in the paper's order.
pub fn all(store: &Store) -> Vec<Table> {
    vec![table1(store), table2(store), sizes(store), variants(store), stream(store)]
}

fn missing(name: &'static str, title: &str) -> Table {
    Table::missing(name, title, format!("No runs yet: adapter-lab run {name}"))
}

/// Runs that stand for a method, one for each task, and what they cost together.
struct Row<'a> {
    runs: BTreeMap<&'a str, &'a Run>,
}

impl<'a> Row<'a> {
    fn score(&self, task: &str) -> Option<f64> {
        self.runs.get(task)?.validation().map(|score| 100.0 * score)
    }
}

/// Parameters for all tasks in backbones: full fine-tuning keeps a network for each, everything else shares one.
fn total(runs: &[&Run]) -> Option<f64> {
    let backbone = runs.first()?.record.params.backbone.max(1) as f64;
    let needs = |run: &&Run| match run.method {
        Method::Full => run.record.params.total,
        _ => run.record.params.trained,
    };
    let shared = if runs.iter().all(|run| run.method == Method::Full) { 0.0 } else { 1.0 };
    Some(shared + runs.iter().map(|run| needs(run) as f64).sum::<f64>() / backbone)
}

fn trained_percent(runs: &[&Run]) -> Option<f64> {
    mean(runs.iter().map(|run| 100.0 * run.trained_share()))
}

/// What is said of tasks whose metric is not accuracy.
fn metric_note(runs: &[&Run]) -> Option<String> {
    let mut others: Vec<String> = Vec::new();
    for task in tasks(runs) {
        let metric = runs.iter().filter(|run| run.task == task).find_map(|run| run.metric());
        if let Some(metric) = metric.filter(|metric| *metric != "accuracy") {
            others.push(format!("{task} {}", metric_name(metric)));
        }
    }
    (!others.is_empty()).then(|| format!("Accuracy × 100, but: {}.", others.join(", ")))
}

fn table1(store: &Store) -> Table {
    let (name, title) = ("table1", "Table 1: full fine-tuning and adapters");
    let runs = store.runs_of(name);
    let tasks = tasks(&runs);
    if tasks.is_empty() {
        return missing(name, title);
    }
    let points: BTreeMap<&str, BTreeMap<Method, Point<'_>>> =
        tasks.iter().map(|&task| (task, by_method(&runs, task))).collect();
    let row = |choose: &dyn Fn(&Method) -> bool| Row {
        runs: tasks
            .iter()
            .filter_map(|&task| {
                let chosen = points[task].iter().filter(|(method, _)| choose(method)).map(|(_, point)| point.best());
                Some((task, chosen.reduce(|best, run| if run.validation() > best.validation() { run } else { best })?))
            })
            .collect(),
    };
    let mut sizes: Vec<usize> = points.values().flat_map(|of| of.keys().filter_map(Method::adapter_size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let common: Vec<usize> = sizes
        .iter()
        .copied()
        .filter(|&size| points.values().all(|of| of.contains_key(&Method::Adapters(size))))
        .collect();
    let fixed = if common.contains(&64) { Some(64) } else { common.last().copied() };
    let range = match (sizes.first(), sizes.last()) {
        (Some(low), Some(high)) if low != high => format!("adapters, best of sizes {low} to {high}"),
        _ => "adapters, best size".to_owned(),
    };
    let rows = [
        ("full fine-tuning".to_owned(), row(&|method| *method == Method::Full)),
        (range, row(&|method| method.adapter_size().is_some())),
        (
            fixed.map_or("adapters, one size".to_owned(), |size| format!("adapters, size {size}")),
            row(&|method| fixed.is_some() && method.adapter_size() == fixed),
        ),
    ];
    // Means and totals are over the same tasks in every row that has runs.
    let used: Vec<&Row<'_>> = rows.iter().map(|(_, row)| row).filter(|row| !row.runs.is_empty()).collect();
    let shared: Vec<&str> =
        tasks.iter().copied().filter(|task| used.iter().all(|row| row.runs.contains_key(task))).collect();

    let mut head = vec!["method".to_owned(), "total ×".to_owned(), "trained %".to_owned()];
    head.extend(tasks.iter().map(|task| task.to_string()));
    head.push("mean".to_owned());
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    for (called, row) in &rows {
        let own: Vec<&Run> = shared.iter().filter_map(|task| row.runs.get(task).copied()).collect();
        let mut line =
            vec![Cell::text(called.clone()), Cell::number(total(&own), 2), Cell::number(trained_percent(&own), 2)];
        line.extend(tasks.iter().map(|task| Cell::number(row.score(task), 1)));
        let scores = shared.iter().filter_map(|task| row.score(task));
        line.push(Cell::number(mean(scores), 1));
        lines.push(line);
    }
    let mut notes = vec![format!(
        "Validation scores of the best run over the sweep and the seeds. Trained %: of the backbone's parameters, mean over \
         the tasks. Total ×: backbones that all tasks need together. Totals and means are over {} tasks.",
        shared.len()
    )];
    notes.extend(metric_note(&runs));
    let known: Vec<Option<usize>> =
        tasks.iter().map(|task| paper::TABLE1_TASKS.iter().position(|known| known == task)).collect();
    if known.iter().any(Option::is_some) {
        let all = paper::TABLE1_TASKS.iter().all(|known| tasks.contains(known));
        for theirs in &paper::TABLE1 {
            let numbers = [Cell::Number(theirs.total, None, 1), Cell::Number(theirs.trained, None, 1)];
            let mut line = vec![Cell::text(theirs.method)];
            line.extend(numbers);
            line.extend(known.iter().map(|at| at.map_or(Cell::Empty, |at| Cell::Number(theirs.scores[at], None, 1))));
            line.push(if all { Cell::Number(theirs.overall, None, 1) } else { Cell::Empty });
            lines.push(line);
        }
        notes.push(
            "The paper's rows are BERT-Large on GLUE's test sets (their server keeps the labels), ours are validation scores: \
             compare the rows of each with each other. The paper's mean is GLUE's own total."
                .to_owned(),
        );
    }
    Table { name, title: title.to_owned(), head, rows: lines, notes, gap: None }
}

fn table2(store: &Store) -> Table {
    let (name, title) = ("table2", "Table 2: full, variable and adapter tuning on more tasks");
    let runs = store.runs_of(name);
    let tasks = tasks(&runs);
    if tasks.is_empty() {
        return missing(name, title);
    }
    let head = ["task", "no BERT", "full fine-tuning", "variable fine-tuning", "adapters"].map(str::to_owned).to_vec();
    let kinds: [fn(&Method) -> bool; 3] = [
        |method| *method == Method::Full,
        // Variable fine-tuning may choose all layers, as in the paper.
        |method| method.top_layers().is_some(),
        |method| method.adapter_size().is_some(),
    ];
    // For every task the best k and the best size by mean validation score.
    let chosen = |task: &str| {
        let points = by_method(&runs, task);
        kinds.map(|kind| best_point(points.iter().filter(|(m, _)| kind(m)).map(|(_, point)| point)).cloned())
    };
    let by_task: Vec<(&str, [Option<Point<'_>>; 3])> = tasks.iter().map(|&task| (task, chosen(task))).collect();
    let used: Vec<usize> = (0..3).filter(|&kind| by_task.iter().any(|(_, of)| of[kind].is_some())).collect();
    let shared: Vec<&[Option<Point<'_>>; 3]> =
        by_task.iter().map(|(_, of)| of).filter(|of| used.iter().all(|&kind| of[kind].is_some())).collect();

    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (task, points) in &by_task {
        let mut row = vec![Cell::text(*task), Cell::Gap];
        row.extend(points.iter().map(|point| Cell::estimate(point.as_ref().map(Point::reported))));
        rows.push(row);
    }
    let column = |kind: usize| shared.iter().filter_map(move |of| of[kind].as_ref());
    let mut summary = |called: String, value: &dyn Fn(usize) -> Option<f64>, decimals| {
        let mut row = vec![Cell::text(called), Cell::Gap];
        row.extend((0..3).map(|kind| Cell::number(value(kind), decimals)));
        rows.push(row);
    };
    summary(format!("average of {} tasks", shared.len()), &|kind| mean(column(kind).map(|p| p.reported().mean)), 1);
    let whole = |kind: usize| column(kind).map(|point| point.seeds[0]).collect::<Vec<_>>();
    summary("total ×".to_owned(), &|kind| total(&whole(kind)), 2);
    summary("trained %".to_owned(), &|kind| trained_percent(&whole(kind)), 2);
    let [none, others @ ..] = paper::TABLE2_AVERAGE;
    for (called, baseline, numbers, decimals) in [
        ("paper: average of 17 tasks", Cell::Number(none, None, 1), others, 1),
        ("paper: total ×", Cell::Empty, paper::TABLE2_TOTAL, 2),
        ("paper: trained %", Cell::Empty, paper::TABLE2_TRAINED, 2),
    ] {
        let mut row = vec![Cell::text(called), baseline];
        row.extend(numbers.map(|number| Cell::Number(number, None, decimals)));
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
            "{scores}: mean ± standard error over the seeds; learning rate, k and size chosen on validation. The paper's rows \
             are BERT-Base on its own 17 tasks."
        ),
        "No BERT: a gap. The paper's search over classifiers without BERT is not part of this program yet.".to_owned(),
    ];
    notes.extend(metric_note(&runs));
    Table { name, title: title.to_owned(), head, rows, notes, gap: None }
}

/// Mean validation accuracy over the tasks that have every size: sizes, means, trained percent, and the number of tasks.
pub(crate) fn accuracy_by_size(runs: &[&Run]) -> (Vec<(usize, f64, f64)>, usize) {
    let mut sizes: Vec<usize> = runs.iter().filter_map(|run| run.method.adapter_size()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let by_task: Vec<BTreeMap<Method, Point<'_>>> = tasks(runs).iter().map(|task| by_method(runs, task)).collect();
    let scores = |of: &BTreeMap<Method, Point<'_>>| {
        let all = sizes.iter().map(|&size| {
            let point = of.get(&Method::Adapters(size))?;
            Some((point.accuracy()?.mean, 100.0 * point.seeds[0].trained_share()))
        });
        all.collect::<Option<Vec<(f64, f64)>>>()
    };
    let whole: Vec<Vec<(f64, f64)>> = by_task.iter().filter_map(scores).collect();
    let means = sizes.iter().enumerate().filter_map(|(at, &size)| {
        let accuracy = mean(whole.iter().map(|of| of[at].0))?;
        Some((size, accuracy, mean(whole.iter().map(|of| of[at].1))?))
    });
    (means.collect(), whole.len())
}

fn sizes(store: &Store) -> Table {
    let (name, title) = ("sizes", "§3.6: validation accuracy by adapter size");
    let runs = store.runs_of(name);
    if runs.is_empty() {
        return missing(name, title);
    }
    let (means, tasks) = accuracy_by_size(&runs);
    if means.is_empty() {
        let why = "No classification task has runs of every size yet: adapter-lab run sizes";
        return Table::missing(name, title, why.to_owned());
    }
    let head = ["adapter size", "trained %", "mean accuracy", "the paper's"].map(str::to_owned).to_vec();
    let rows = means.iter().map(|&(size, accuracy, trained)| {
        let theirs = paper::SIZES.iter().find(|(known, _)| *known == size);
        let theirs = theirs.map_or(Cell::Empty, |(_, accuracy)| Cell::Number(*accuracy, None, 1));
        vec![
            Cell::Number(size as f64, None, 0),
            Cell::Number(trained, None, 2),
            Cell::Number(accuracy, None, 1),
            theirs,
        ]
    });
    let note = format!(
        "Over {tasks} classification tasks: best run over the sweep for each seed, mean over seeds, mean over tasks. The \
         paper's: BERT-Large on GLUE's eight."
    );
    Table { name, title: title.to_owned(), head, rows: rows.collect(), notes: vec![note], gap: None }
}

/// A variant of the adapter: its name, a point for each task, and the mean difference to the paper's adapter.
pub(crate) struct Variant<'a> {
    pub name: String,
    pub points: BTreeMap<&'a str, Point<'a>>,
    /// In points, over the tasks that both have.
    pub difference: Option<f64>,
}

/// The variants of an experiment, the paper's adapter first.
pub(crate) fn compare_variants<'a>(runs: &[&'a Run]) -> Vec<Variant<'a>> {
    let mut names: Vec<&str> = vec![""];
    for run in runs.iter().filter(|run| run.method.adapter_size().is_some()) {
        if !names.contains(&run.variant.as_str()) {
            names.push(&run.variant);
        }
    }
    let points = |name: &str| {
        let of = |task: &&'a str| {
            let own = runs.iter().copied().filter(|run| run.task == **task && run.variant == name);
            Some((*task, Point::of(own.filter(|run| run.method.adapter_size().is_some()))?))
        };
        tasks(runs).iter().filter_map(of).collect::<BTreeMap<&'a str, Point<'a>>>()
    };
    let paper = points("");
    let all = names.into_iter().map(|name| {
        let points = points(name);
        let changes =
            points.iter().filter_map(|(task, p)| Some(p.validation().mean - paper.get(task)?.validation().mean));
        let difference = mean(changes.collect::<Vec<_>>());
        Variant {
            name: if name.is_empty() { "the paper's adapter".to_owned() } else { name.to_owned() },
            points,
            difference,
        }
    });
    all.filter(|variant| !variant.points.is_empty()).collect()
}

fn variants(store: &Store) -> Table {
    let (name, title) = ("variants", "§3.6: variants of the adapter");
    let runs = store.runs_of(name);
    let tasks = tasks(&runs);
    let all = compare_variants(&runs);
    if all.is_empty() {
        return missing(name, title);
    }
    let mut head = vec!["variant".to_owned(), "trained".to_owned()];
    head.extend(tasks.iter().map(|task| task.to_string()));
    head.push("difference".to_owned());
    let rows = all.iter().map(|variant| {
        let trained = variant.points.values().next().map(|point| count(point.trained() as f64));
        let mut row = vec![Cell::text(variant.name.clone()), Cell::text(trained.unwrap_or_default())];
        row.extend(tasks.iter().map(|task| Cell::estimate(variant.points.get(task).map(Point::validation))));
        row.push(Cell::number(variant.difference, 1));
        row
    });
    let mut notes = vec![
        "Validation scores, mean ± standard error over the seeds. Difference: to the paper's adapter, mean over the tasks."
            .to_owned(),
    ];
    notes.extend(metric_note(&runs));
    Table { name, title: title.to_owned(), head, rows: rows.collect(), notes, gap: None }
}

fn stream(store: &Store) -> Table {
    let (name, title) = ("stream", "Tasks one after the other: what is remembered");
    let streams = store.streams_of(name);
    let mut tasks: Vec<&str> = Vec::new();
    for stage in streams.iter().flat_map(|stream| &stream.stages) {
        if !tasks.contains(&stage.task.as_str()) {
            tasks.push(&stage.task);
        }
    }
    if tasks.is_empty() {
        return missing(name, title);
    }
    let mut head: Vec<String> = ["tuning", "seed", "after", "trained", "total"].map(str::to_owned).to_vec();
    head.extend(tasks.iter().map(|task| task.to_string()));
    head.push("identical".to_owned());
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for stream in &streams {
        for stage in &stream.stages {
            let mut row = vec![
                Cell::text(stream.tuning.clone()),
                Cell::Number(stream.seed as f64, None, 0),
                Cell::text(stage.task.clone()),
                Cell::Number(stage.trained as f64, None, 0),
                Cell::Number(stage.total as f64, None, 0),
            ];
            row.extend(tasks.iter().map(|task| {
                let recall = stage.recall.iter().find(|recall| recall.task == **task);
                recall.map_or(Cell::Empty, |recall| Cell::Number(100.0 * recall.now, None, 1))
            }));
            let same = stage.recall.iter().filter(|recall| recall.identical).count();
            row.push(Cell::text(format!("{same} of {}", stage.recall.len())));
            rows.push(row);
        }
    }
    let note = "Validation scores of every task so far, after each task. Trained: parameters for the new task; total: all that \
                must be kept. Identical: tasks whose every output is the same as when they were learnt, bit for bit.";
    Table { name, title: title.to_owned(), head, rows, notes: vec![note.to_owned()], gap: None }
}
