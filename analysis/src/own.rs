//! Figures and tables of experiments that nobody drew: what is swept decides what they look like.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    ExperimentRecord, Store,
    axis::{AxisSpec, count, exact},
    chart::{Colours, Dot, Figure, Heat, HeatCell, Key, Look, Panel, Plot, Rows, Series},
    exhibit::Exhibit,
    figures::{metric_of, removed},
    names::{task_name, task_title},
    select::{Point, grouped, tasks},
    setup::{Run, said, same, written},
    standing::Measure,
    table::{Cell, Table},
    tables::{metric_note, remembered},
};

/// The key that names the method.
const TUNING: &str = "tuning";

/// Names that a report has given to its own parts.
pub const PAGE_IDS: [&str; 11] = [
    "results",
    "own-experiments",
    "findings",
    "figures",
    "not-run",
    "runs",
    "run-filter",
    "run-count",
    "run-table",
    "run-details",
    "run-data",
];

/// Figures and tables of the experiments that none of `exhibits` claims, named after them.
pub fn exhibits(store: &Store, exhibits: &[Exhibit]) -> Vec<Exhibit> {
    // Parts of the page have names too, and some file systems do not tell large letters from small ones.
    let mut taken: BTreeSet<String> = exhibits.iter().map(|exhibit| exhibit.name().to_lowercase()).collect();
    taken.extend(PAGE_IDS.map(str::to_owned));
    let mut own = Vec::new();
    for (file, record) in &store.experiments {
        if exhibits.iter().any(|exhibit| exhibit.claims(record)) {
            continue;
        }
        let names = |name: &str| [name.to_owned(), format!("{name}-spans"), format!("{name}-table")];
        let first = file_name(&record.name);
        let tries = std::iter::once(first.clone()).chain((2..).map(|number| format!("{first}-{number}")));
        let free = |name: &String| names(name).iter().all(|name| !taken.contains(&name.to_lowercase()));
        let [figure, spans, table] = names(&tries.into_iter().find(free).unwrap_or(first));
        taken.extend([&figure, &spans, &table].map(|name| name.to_lowercase()));
        let find = |file: &str| {
            let file = file.to_owned();
            move |store: &Store| store.experiments.get(&file).cloned()
        };
        let name = &record.name;
        if !record.runs.is_empty() || record.streams.is_empty() {
            let of = find(file);
            own.push(Exhibit::figure(&figure, name, name, move |store| sweep_figure(store, &of(store)?)).of_file(file));
        }
        if record.kind == "ablate" && !store.ablated(record).is_empty() {
            let of = find(file);
            own.push(
                Exhibit::figure(&spans, &format!("{name}, spans"), name, move |store| {
                    let record = of(store)?;
                    removed(&format!("{}: adapters removed from spans of layers", record.name), &store.ablated(&record))
                })
                .of_file(file),
            );
        }
        let of = find(file);
        own.push(
            Exhibit::table(&table, &format!("{name}, table"), name, move |store| {
                let record = of(store)?;
                let title = format!("{}: tasks one after the other, what is remembered", record.name);
                remembered(&title, &store.streams(&record)).or_else(|| sweep_table(store, &record))
            })
            .of_file(file),
        );
    }
    own
}

/// A name that any file system takes, and that may stand in a link.
pub fn file_name(name: &str) -> String {
    const LONGEST: usize = 80;
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.chars().take(LONGEST).map(fit).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "experiment".to_owned() } else { name.to_owned() }
}

/// What an experiment sweeps.
struct Swept<'a> {
    runs: Vec<&'a Run>,
    /// One run of each configuration.
    distinct: Vec<&'a Run>,
    /// Whether several methods are compared.
    methods: bool,
    /// Keys that differ among the runs of one task and one method.
    keys: Vec<&'a str>,
    /// Those of them that are numbers wherever a method has them.
    numeric: Vec<&'a str>,
    /// Keys that differ, but only from method to method or from task to task.
    fixed: Vec<&'a str>,
    /// Methods with the swept keys that any of their runs has.
    had: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Swept<'a> {
    /// Of an experiment's runs that have a score; `None` if there are none.
    fn of(runs: Vec<&'a Run>) -> Option<Self> {
        let runs: Vec<&Run> = runs.into_iter().filter(|run| run.validation().is_some()).collect();
        let first = runs.first()?;
        // One run of each configuration says as much as all of them.
        let distinct = distinct(&runs);
        let names: BTreeSet<&str> = distinct.iter().flat_map(|run| run.config.keys()).map(String::as_str).collect();
        let groups = grouped(distinct.iter().copied(), |run| (&run.task, &run.method().name), Ord::cmp);
        let differs = |runs: &[&Run], key: &str| runs.iter().any(|run| !is_same(run, runs[0], key));
        let (mut keys, mut fixed) = (Vec::new(), Vec::new());
        for key in names.into_iter().filter(|key| !["task", "seed", TUNING].contains(key)) {
            if groups.iter().any(|(_, runs)| differs(runs, key)) {
                keys.push(key);
            } else if differs(&distinct, key) && distinct.iter().all(|run| run.value(key).is_some()) {
                fixed.push(key);
            }
        }
        let is_number = |key: &&str| {
            let whole = |runs: &[&Run]| {
                let numbers = runs.iter().filter(|run| run.number(key).is_some()).count();
                let values = runs.iter().filter(|run| run.value(key).is_some()).count();
                // A method has the key, or it has not: a number against nothing is no axis.
                numbers == values && (values == 0 || values == runs.len())
            };
            groups.iter().all(|(_, runs)| whole(runs))
        };
        let numeric = keys.iter().copied().filter(is_number).collect();
        let methods = distinct.iter().any(|run| run.method().name != first.method().name);
        let had = distinct.iter().flat_map(|run| {
            let own = keys.iter().filter(|key| run.value(key).is_some());
            own.map(|key| (run.method().name.as_str(), *key))
        });
        let had = had.collect();
        Some(Self { had, methods, keys, numeric, fixed, distinct, runs })
    }

    /// Values of a number, in their order.
    fn values(&self, key: &str) -> Vec<f64> {
        let mut values: Vec<f64> = self.distinct.iter().filter_map(|run| run.number(key)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// Whether a key is the size of every method that has it.
    fn is_size(&self, key: &str) -> bool {
        let mut with = self.distinct.iter().filter(|run| run.number(key).is_some());
        with.all(|run| run.method().size_key.as_deref() == Some(key))
    }

    /// Whether every run has a number there.
    fn is_everywhere(&self, key: &str) -> bool {
        self.distinct.iter().all(|run| run.number(key).is_some())
    }

    /// What x is: methods whose sizes are not the same thing are compared by what they train, anything else by the key with
    /// most values. `None` if nothing that is swept is a number.
    fn x(&self) -> Option<X<'a>> {
        if self.methods && self.numeric.iter().any(|key| self.is_size(key) && !self.is_everywhere(key)) {
            return Some(X::Trained);
        }
        // With equally many the first.
        let most = self.numeric.iter().rev().max_by_key(|key| self.values(key).len())?;
        Some(X::Key(most))
    }

    /// What a run's series is called: what differs, x aside.
    fn series(&self, run: &Run, x: Option<X<'_>>) -> String {
        let method = run.method();
        let size_key = method.size_key.as_deref();
        let along = x == Some(X::Trained) || (size_key.is_some() && x.and_then(X::key) == size_key);
        let sized = size_key.is_some_and(|key| self.keys.contains(&key));
        let mut parts = Vec::new();
        if self.methods || (sized && !along) {
            parts.push(if along { method.family.clone() } else { method.label.clone() });
        }
        let others = self.keys.iter().copied().filter(|key| x.and_then(X::key) != Some(*key) && size_key != Some(*key));
        // A method without the key has nothing to say of it.
        let own = others.filter(|key| self.had.contains(&(method.name.as_str(), key)));
        parts.extend(own.map(|key| said(key, run.value(key).unwrap_or(&Value::Null))));
        parts.join(", ")
    }

    /// The runs of each series, in the order of the runs.
    fn all_series(&self, x: X<'_>) -> Vec<(String, Vec<&'a Run>)> {
        in_groups(&self.runs, |run| self.series(run, Some(x)))
    }

    /// Runs that differ in nothing but the seed, in the order of the runs.
    fn combinations(&self, runs: &[&'a Run]) -> Vec<Vec<&'a Run>> {
        let choice = |run: &Run| {
            let values: Vec<Option<Value>> = self.keys.iter().map(|key| run.value(key).map(same)).collect();
            (run.method.name.clone(), values)
        };
        in_groups(runs, choice).into_iter().map(|(_, runs)| runs).collect()
    }
}

/// Runs by what `of` says of their configurations, in the order of the runs.
fn in_groups<'a, K: PartialEq>(runs: &[&'a Run], of: impl Fn(&Run) -> K) -> Vec<(K, Vec<&'a Run>)> {
    let mut groups: Vec<(K, Vec<&Run>)> = Vec::new();
    let mut places = HashMap::new();
    for &run in runs {
        let place = *places.entry(Arc::as_ptr(&run.config)).or_insert_with(|| {
            let key = of(run);
            groups.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            })
        });
        groups[place].1.push(run);
    }
    groups
}

/// One run of each configuration. Equal ones are mostly kept once; that they are not always does no harm.
fn distinct<'a>(runs: &[&'a Run]) -> Vec<&'a Run> {
    let mut seen = HashSet::new();
    runs.iter().copied().filter(|run| seen.insert(Arc::as_ptr(&run.config))).collect()
}

/// Whether two runs have the same value of a key: 1 and 1.0 are the same.
fn is_same(a: &Run, b: &Run, key: &str) -> bool {
    a.value(key).map(same) == b.value(key).map(same)
}

/// What a figure has below.
#[derive(Clone, Copy, Debug, PartialEq)]
enum X<'a> {
    /// Trained parameters.
    Trained,
    /// A key's value.
    Key(&'a str),
}

impl<'a> X<'a> {
    fn key(self) -> Option<&'a str> {
        match self {
            X::Trained => None,
            X::Key(key) => Some(key),
        }
    }

    fn of(self, run: &Run) -> Option<f64> {
        match self {
            X::Trained => Some(run.trained() as f64),
            X::Key(key) => run.number(key),
        }
    }
}

/// A key as it is said.
fn spoken(key: &str) -> String {
    key.replace('_', " ")
}

/// The figure of an experiment.
fn sweep_figure(store: &Store, record: &ExperimentRecord) -> Option<Figure> {
    let swept = Swept::of(store.runs(record))?;
    let (about, keys, panels) = match (&swept.numeric[..], swept.x()) {
        ([a, b], _) if swept.keys.len() == 2 && !swept.methods && is_grid(&swept, a, b) => heat_maps(&swept, a, b),
        (_, Some(x)) => lines(&swept, x),
        (_, None) => rows(&swept),
    };
    let title = match record.about.trim() {
        "" => record.name.clone(),
        about => format!("{}: {about}", record.name),
    };
    Some(Figure { title, about, keys, panels })
}

/// Whether at least half of all pairs of values were run.
fn is_grid(swept: &Swept<'_>, a: &str, b: &str) -> bool {
    let cells = swept.combinations(&swept.runs).len();
    2 * cells >= swept.values(a).len() * swept.values(b).len()
}

/// What is seen, the legend and the panels.
type Drawn = (String, Vec<Key>, Vec<Panel>);

/// What error bars are.
const BARS: &str = "mean over the seeds, bars show one standard error";

/// Lines over x, one for each series. A series that has no x, such as a method without the key, is a dashed line across.
fn lines(swept: &Swept<'_>, x: X<'_>) -> Drawn {
    let all = swept.all_series(x);
    let look = |number: usize, runs: &[&Run]| {
        let places: Vec<f64> = runs.iter().filter_map(|run| x.of(run)).collect();
        let look = Look::nth(number);
        match places.first() {
            None => Look { marker: None, dash: "5 4", ..look },
            // One point is no line.
            Some(first) => Look { joined: places.iter().any(|place| place != first), ..look },
        }
    };
    let looks: Vec<Look> = all.iter().enumerate().map(|(number, (_, runs))| look(number, runs)).collect();
    let mut keys: Vec<Key> = Vec::new();
    if all.len() > 1 {
        keys.extend(all.iter().zip(&looks).map(|((name, _), look)| Key::Series(name.clone(), look.clone())));
    }
    let mut panels = Vec::new();
    for task in tasks(&swept.runs) {
        let mut series = Vec::new();
        let places = swept.runs.iter().filter(|run| run.task == task).filter_map(|run| x.of(run));
        let (low, high) = places.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
        for ((name, runs), look) in all.iter().zip(&looks) {
            let own: Vec<&Run> = runs.iter().copied().filter(|run| run.task == task).collect();
            let (mut dots, mut across) = (Vec::new(), false);
            for runs in swept.combinations(&own) {
                let (first, Some(point)) = (runs[0], Point::of(runs)) else { continue };
                if let Some(value) = x.of(first) {
                    let mut tip = swept.series(first, None);
                    if x == X::Trained {
                        tip += &format!(", {} trained", count(value));
                    }
                    dots.push(Dot::of_point(value, &tip, &point, Measure::Own));
                } else if low <= high {
                    dots.extend([low, high].map(|at| Dot { range: None, ..Dot::of(at, name, point.validation()) }));
                    across = true;
                }
            }
            series.push(Series { across, ..Series::new(name, look.clone(), dots) });
        }
        let axis = match x {
            X::Trained => AxisSpec::parameters(),
            X::Key(key) => AxisSpec::values(&spoken(key), &swept.values(key)),
        };
        let y = AxisSpec::score(&metric_of(&swept.runs, task));
        panels.push(Panel::Plot(Plot { title: task_title(task), x: axis, y, level: None, series }));
    }
    let against = x.key().map_or("trained parameters".to_owned(), spoken);
    (format!("Validation score against {against}; {BARS}"), keys, panels)
}

/// A heat map of each task: the key with more values from left to right.
fn heat_maps(swept: &Swept<'_>, a: &str, b: &str) -> Drawn {
    let (x, y) = if swept.values(b).len() > swept.values(a).len() { (b, a) } else { (a, b) };
    let (columns, mut rows) = (swept.values(x), swept.values(y));
    // Upwards, as on an axis.
    rows.reverse();
    let mut cells: BTreeMap<&str, Vec<HeatCell>> = BTreeMap::new();
    for task in tasks(&swept.runs) {
        let own: Vec<&Run> = swept.runs.iter().copied().filter(|run| run.task == task).collect();
        for runs in swept.combinations(&own) {
            let first = runs[0];
            let at = |values: &[f64], key| values.iter().position(|value| Some(*value) == first.number(key));
            let (Some(column), Some(row), Some(point)) = (at(&columns, x), at(&rows, y), Point::of(runs)) else {
                continue;
            };
            let score = point.validation();
            let said = |key, values: &[f64], at: usize| format!("{} {}", spoken(key), exact(values[at]));
            let tip = format!("{}, {}: {}", said(x, &columns, column), said(y, &rows, row), score.in_words());
            cells.entry(task).or_default().push(HeatCell { column, row, value: score.mean, tip });
        }
    }
    let values = || cells.values().flatten().map(|cell| cell.value);
    let colours = Colours::Values(values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    let panels = tasks(&swept.runs).into_iter().map(|task| {
        Panel::Heat(Heat {
            title: task_title(task),
            x_label: spoken(x),
            y_label: spoken(y),
            columns: columns.iter().map(|value| exact(*value)).collect(),
            rows: rows.iter().map(|value| exact(*value)).collect(),
            cells: cells.remove(task).unwrap_or_default(),
            colours,
            diagonal: false,
        })
    });
    let panels = panels.collect();
    let about = format!("Validation score × 100 by {} and {}, mean over the seeds", spoken(x), spoken(y));
    (about, vec![Key::Colours(colours, "validation score × 100".to_owned())], panels)
}

/// A row for each combination, a panel for each task; with one combination alone a row for each task.
fn rows(swept: &Swept<'_>) -> Drawn {
    let all = tasks(&swept.runs);
    let look = Look { joined: false, ..Look::nth(0) };
    let row = |name: &str, runs: &[&Run]| {
        let point = Point::of(runs.iter().copied())?;
        Some((name.to_owned(), look.clone(), Dot::of_point(0.0, name, &point, Measure::Own)))
    };
    if !swept.methods && swept.keys.is_empty() {
        let own = |task: &str| swept.runs.iter().copied().filter(|run| run.task == task).collect::<Vec<_>>();
        let rows = all.iter().filter_map(|task| row(&task_name(task), &own(task)));
        let mut metrics: Vec<String> = all.iter().map(|task| metric_of(&swept.runs, task)).collect();
        metrics.dedup();
        let metric = if let [one] = &metrics[..] { one } else { "score" };
        let title = swept.runs[0].method().label.clone();
        let panel = Rows { title, x: AxisSpec::score(metric), rows: rows.collect() };
        return (format!("Validation score of each task; {BARS}"), Vec::new(), vec![Panel::Rows(panel)]);
    }
    let panels = all.into_iter().map(|task| {
        let own: Vec<&Run> = swept.runs.iter().copied().filter(|run| run.task == task).collect();
        let rows = swept.combinations(&own).into_iter().filter_map(|runs| row(&swept.series(runs[0], None), &runs));
        let x = AxisSpec::score(&metric_of(&swept.runs, task));
        Panel::Rows(Rows { title: task_title(task), x, rows: rows.collect() })
    });
    (format!("Validation score of each combination; {BARS}"), Vec::new(), panels.collect())
}

/// A value of a configuration in a cell.
fn value(value: &Value) -> Cell {
    value.as_f64().map_or_else(|| Cell::text(written(value)), Cell::Exact)
}

/// The table of an experiment: a row for each combination of what is swept.
fn sweep_table(store: &Store, record: &ExperimentRecord) -> Option<Table> {
    let swept = Swept::of(store.runs(record))?;
    let all = tasks(&swept.runs);
    let method = swept.methods || swept.keys.is_empty();
    let combinations = swept.combinations(&swept.runs);
    let score = |runs: &[&Run], task: &str| {
        let own = runs.iter().copied().filter(|run| run.task == task);
        Some(Point::of(own)?.validation())
    };
    let numbers: BTreeSet<usize> = combinations
        .iter()
        .flat_map(|runs| all.iter().filter_map(|task| Some(score(runs, task)?.n)).collect::<Vec<_>>())
        .collect();
    let same_seeds = numbers.len() == 1;

    let mut head: Vec<String> = Vec::new();
    head.extend(method.then(|| TUNING.to_owned()));
    head.extend(swept.keys.iter().map(|key| key.to_string()));
    head.push("trained".to_owned());
    for task in &all {
        head.push(task_name(task));
        head.extend((!same_seeds).then(|| format!("{} seeds", task_name(task))));
    }
    head.extend(same_seeds.then(|| "seeds".to_owned()));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for runs in &combinations {
        let first = runs[0];
        let mut row = Vec::new();
        row.extend(method.then(|| Cell::text(first.method().name.clone())));
        row.extend(swept.keys.iter().map(|key| first.value(key).map_or(Cell::Empty, value)));
        row.push(Cell::Number(first.trained() as f64, None, 0));
        for task in &all {
            let estimate = score(runs, task);
            row.push(Cell::estimate(estimate));
            row.extend((!same_seeds).then(|| Cell::number(estimate.map(|estimate| estimate.n as f64), 0)));
        }
        row.extend(same_seeds.then(|| Cell::number(numbers.first().map(|n| *n as f64), 0)));
        rows.push(row);
    }
    let mut notes = vec![
        "Validation scores × 100, mean ± standard error over the seeds. Trained: parameters for the first task."
            .to_owned(),
    ];
    if !swept.fixed.is_empty() {
        notes.push(format!("Different only from method to method or from task to task: {}.", swept.fixed.join(", ")));
    }
    notes.extend(metric_note(&swept.runs));
    Some(Table { title: format!("{}: scores of each combination", record.name), head, rows, notes })
}
