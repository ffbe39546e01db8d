//! Figs. 1 and 3: scores relative to full fine-tuning against trained parameters, over all tasks.

use std::collections::BTreeMap;

use super::{
    family_looks, methods,
    parameters::{by_task, is_tested},
    size,
};
use crate::{
    MethodRecord, Store,
    axis::{AxisSpec, Format, count, counted, signed},
    chart::{Dot, Figure, Key, Look, Panel, Plot, Series},
    names::task_title,
    paper,
    select::{Point, best_point, percentile, tasks},
    setup::{Names, Run, compare},
    standing::Measure,
    svg::INK,
    tables::{floor_note, metric_note, selected_of, weighable},
};

/// A method over several tasks: scores minus those of full fine-tuning, in points.
#[derive(Clone, Debug, PartialEq)]
struct Relative<'a> {
    method: &'a MethodRecord,
    /// Trained parameters: the geometric mean over the tasks, whose heads differ.
    trained: f64,
    /// The 20th, 50th and 80th percentile across tasks.
    percentiles: [f64; 3],
    tasks: usize,
}

/// The tasks that are judged by validation, and those that have test scores.
fn groups<'a>(runs: &[&'a Run]) -> [Vec<&'a str>; 2] {
    let (test, validation) = tasks(runs).into_iter().partition(|task| is_tested(runs, task));
    [validation, test]
}

/// Every method against full fine-tuning, by size and by k, each a mean over the seeds; the paper's methods first.
fn relative<'a>(runs: &[&'a Run], tasks: &[&str], test: bool) -> Vec<Relative<'a>> {
    let score = |point: &Point<'_>| if test { point.test() } else { Some(point.validation()) }.map(|score| score.mean);
    // For each method its trained parameters and its change, task by task.
    let mut changes: Vec<(&MethodRecord, Vec<(f64, f64)>)> = Vec::new();
    for task in tasks {
        let points = methods(runs, task);
        let whole = points.iter().filter(|(method, _)| method.name == paper::FULL).map(|(_, point)| point);
        let Some(full) = best_point(whole).and_then(score) else { continue };
        for (method, point) in points.iter().filter(|(method, _)| method.name != paper::FULL) {
            let Some(own) = score(point) else { continue };
            let change = (point.trained() as f64, own - full);
            match changes.iter_mut().find(|(known, _)| compare(known, method).is_eq()) {
                Some((_, all)) => all.push(change),
                None => changes.push((method, vec![change])),
            }
        }
    }
    changes.sort_by(|(a, _), (b, _)| paper::rank(&a.name).cmp(&paper::rank(&b.name)).then_with(|| compare(a, b)));
    let all = changes.into_iter().filter_map(|(method, pairs)| {
        let logs: f64 = pairs.iter().map(|(trained, _)| trained.max(1.0).ln()).sum();
        let values: Vec<f64> = pairs.iter().map(|(_, change)| *change).collect();
        let [low, middle, high] = [0.2, 0.5, 0.8].map(|share| percentile(&values, share));
        let percentiles = [low?, middle?, high?];
        Some(Relative { method, trained: (logs / pairs.len() as f64).exp(), percentiles, tasks: pairs.len() })
    });
    all.collect()
}

pub(crate) fn fig1(store: &Store) -> Option<Figure> {
    figure(store, "Fig. 1: adapters and top layers against full fine-tuning", true)
}

pub(crate) fn fig3(store: &Store) -> Option<Figure> {
    figure(store, "Fig. 3: score relative to full fine-tuning against trained parameters", false)
}

/// What Fig. 3's percentiles are of: every task for itself.
pub(crate) fn fig3_tasks(store: &Store) -> Option<Figure> {
    let runs = store.preset_runs("fig3");
    let about = format!(
        "Score against trained parameters, every task for itself, on test where Fig. 3 is; bars show one standard error. {}",
        selected_of(&runs)
    );
    by_task(&runs, "Fig. 3, task by task: score against trained parameters", &about, Measure::Reported)
}

/// The runs that Fig. 1 shows: those of the first group of tasks that has something to compare.
pub(crate) fn of_fig1(runs: Vec<&Run>) -> Vec<&Run> {
    let (clear, _) = weighable(&runs, "Fig. 1");
    let [validation, test] = groups(&runs);
    let is_clear = |tasks: &[&str]| tasks.iter().any(|task| clear.contains(task));
    let first = if is_clear(&validation) || !is_clear(&test) { validation } else { test };
    runs.into_iter().filter(|run| first.contains(&run.task.as_str())).collect()
}

fn figure(store: &Store, title: &str, first_only: bool) -> Option<Figure> {
    let all = store.preset_runs("fig3");
    let runs = if first_only { of_fig1(all) } else { all };
    // As in the verdicts: where full fine-tuning learnt nothing, methods cannot differ.
    let (clear, left_out) = weighable(&runs, "the percentiles");
    let groups = groups(&runs).map(|tasks| tasks.into_iter().filter(|task| clear.contains(task)).collect::<Vec<_>>());
    let names = Names::of(&runs);
    let looks = family_looks(&runs, &names);
    let shown: Vec<&Run> = runs.iter().copied().filter(|run| clear.contains(run.task.as_str())).collect();
    let floor = floor_note(&runs, &tasks(&shown), Measure::Own);
    let [validation, test] = groups;
    let (mut panels, mut keys): (Vec<Panel>, Vec<Key>) = (Vec::new(), Vec::new());
    for (tasks, is_test) in [(validation, false), (test, true)] {
        if tasks.is_empty() {
            continue;
        }
        let points = relative(&runs, &tasks, is_test);
        panels.push(panel(&points, &names, &looks, &tasks, is_test).unwrap_or_else(|| {
            let scores = if is_test { "test" } else { "validation" };
            Panel::Gap(format!("No {scores} scores but full fine-tuning's so far"))
        }));
        for family in points.iter().map(|point| names.family(point.method)) {
            let key = Key::Series(family.clone(), looks[&family].clone());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    if keys.is_empty() {
        return None;
    }
    keys.push(Key::Series(
        "full fine-tuning".to_owned(),
        Look { colour: INK, marker: None, dash: "5 4", joined: true },
    ));
    keys.push(Key::Band("20th to 80th percentile of the tasks; line: the median".to_owned()));
    let about = "Score minus that of full fine-tuning, in points, against trained parameters per task; percentiles across tasks of \
                 the means over the seeds";
    let notes = [Some(about.to_owned()), Some(selected_of(&runs).to_owned()), metric_note(&shown), floor, left_out];
    let about = notes.iter().flatten().map(|note| note.trim_end_matches('.')).collect::<Vec<_>>().join(". ");
    Some(Figure { title: title.to_owned(), about, keys, panels })
}

fn panel(
    points: &[Relative<'_>],
    names: &Names<'_>,
    looks: &BTreeMap<String, Look>,
    tasks: &[&str],
    test: bool,
) -> Option<Panel> {
    let mut families: Vec<(String, Vec<Dot>)> = Vec::new();
    for point in points {
        let [low, middle, high] = point.percentiles;
        let tip = format!(
            "{}: median {}, 20th to 80th percentile {} to {}, {} trained, {}",
            names.label(point.method),
            signed(middle),
            signed(low),
            signed(high),
            count(point.trained),
            counted(point.tasks, "task")
        );
        let dot = Dot::new(point.trained, middle, tip).labelled(size(point.method));
        let dot = Dot { range: Some((low, high)), ..dot };
        let family = names.family(point.method);
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, dots)) => dots.push(dot),
            None => families.push((family, vec![dot])),
        }
    }
    let series = families.into_iter().map(|(family, dots)| {
        let look = looks[&family].clone();
        // A method of one size has an error bar: a band needs a line.
        Series { band: look.joined, ..Series::new(family, look, dots) }
    });
    let series: Vec<Series> = series.collect();
    let scores = if test { "Test" } else { "Validation" };
    let title = match tasks {
        [task] => format!("{scores} scores, {}", task_title(task)),
        tasks => format!("{scores} scores, {} tasks", tasks.len()),
    };
    let label = "score − full fine-tuning, points".to_owned();
    let y = AxisSpec { label, log: false, format: Format::Plain, ticks: Vec::new() };
    (!series.is_empty()).then(|| Panel::Plot(Plot { title, x: AxisSpec::parameters(), y, level: Some(0.0), series }))
}
