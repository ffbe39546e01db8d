//! Figs. 1 and 3: scores relative to full fine-tuning against trained parameters, over all tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::{family, look, missing, parameter_axis};
use crate::{
    Store,
    axis::{AxisSpec, Format, count, signed},
    chart::{Dot, Figure, Key, Look, Panel, Plot, Series},
    select::{by_method, percentile, tasks},
    setup::{Method, Run},
    svg::INK,
};

/// A method over several tasks: scores minus those of full fine-tuning, in points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relative {
    pub method: Method,
    /// Trained parameters: the geometric mean over the tasks, whose heads differ.
    pub trained: f64,
    /// The 20th, 50th and 80th percentile across tasks.
    pub percentiles: [f64; 3],
    pub tasks: usize,
}

/// The tasks that are judged by validation, and those that have test scores.
pub(crate) fn groups<'a>(runs: &[&'a Run]) -> [Vec<&'a str>; 2] {
    let tested = |task: &&str| {
        let mut own = runs.iter().filter(|run| run.task == **task && run.validation().is_some());
        own.all(|run| run.test().is_some())
    };
    let (test, validation) = tasks(runs).into_iter().partition(tested);
    [validation, test]
}

/// Every method against full fine-tuning, the best model at each point, by size and by k.
pub(crate) fn relative(runs: &[&Run], tasks: &[&str], test: bool) -> Vec<Relative> {
    let score = |run: &Run| Some(100.0 * if test { run.test()? } else { run.validation()? });
    let mut changes: BTreeMap<Method, Vec<(f64, f64)>> = BTreeMap::new();
    for task in tasks {
        let points = by_method(runs, task);
        let Some(full) = points.get(&Method::Full).and_then(|point| score(point.best())) else { continue };
        for (method, point) in points.iter().filter(|(method, _)| **method != Method::Full) {
            if let Some(own) = score(point.best()) {
                changes.entry(method.clone()).or_default().push((point.trained() as f64, own - full));
            }
        }
    }
    let all = changes.into_iter().filter_map(|(method, pairs)| {
        let logs: f64 = pairs.iter().map(|(trained, _)| trained.max(1.0).ln()).sum();
        let values: Vec<f64> = pairs.iter().map(|(_, change)| *change).collect();
        let [low, middle, high] = [0.2, 0.5, 0.8].map(|share| percentile(&values, share));
        let percentiles = [low?, middle?, high?];
        Some(Relative { method, trained: (logs / pairs.len() as f64).exp(), percentiles, tasks: pairs.len() })
    });
    all.collect()
}

pub(super) fn fig1(store: &Store) -> Figure {
    figure(store, "fig1", "Fig. 1: adapters and top layers against full fine-tuning", true)
}

pub(super) fn fig3(store: &Store) -> Figure {
    figure(store, "fig3", "Fig. 3: score relative to full fine-tuning against trained parameters", false)
}

fn figure(store: &Store, name: &'static str, title: &str, first_only: bool) -> Figure {
    let runs = store.runs_of("fig3");
    if runs.is_empty() {
        return missing(name, title, "No runs yet", "fig3");
    }
    let [validation, test] = groups(&runs);
    let mut panels: Vec<Panel> = Vec::new();
    let mut drawn: BTreeSet<Method> = BTreeSet::new();
    for (tasks, is_test) in [(validation, false), (test, true)] {
        if tasks.is_empty() || (first_only && !panels.is_empty()) {
            continue;
        }
        let points = relative(&runs, &tasks, is_test);
        panels.push(panel(&points, &tasks, is_test).unwrap_or_else(|| {
            let scores = if is_test { "test" } else { "validation" };
            Panel::Gap(format!("No full fine-tuning to compare {scores} scores with: adapter-lab run fig3"))
        }));
        drawn.extend(points.into_iter().map(|point| point.method));
    }
    let of_kind = |wanted: fn(&Method) -> bool| drawn.iter().find(|method| wanted(method));
    let shown = [of_kind(|m| m.adapter_size().is_some()), of_kind(|m| m.top_layers().is_some())];
    let mut keys: Vec<Key> = shown.into_iter().flatten().map(|m| Key::Series(family(m), look(m))).collect();
    if !keys.is_empty() {
        keys.push(Key::Series(
            "full fine-tuning".to_owned(),
            Look { colour: INK, marker: None, dash: "5 4", joined: true },
        ));
        keys.push(Key::Band("20th to 80th percentile of the tasks; line: the median".to_owned()));
    }
    let about = "Score minus that of full fine-tuning, against trained parameters per task; percentiles across tasks";
    Figure { name, title: title.to_owned(), about: about.to_owned(), keys, panels }
}

fn panel(points: &[Relative], tasks: &[&str], test: bool) -> Option<Panel> {
    let kinds: [fn(&Method) -> bool; 2] =
        [|method| method.adapter_size().is_some(), |method| method.top_layers().is_some()];
    let mut series = Vec::new();
    for kind in kinds {
        let mut dots: Vec<(&Relative, Dot)> = Vec::new();
        for point in points.iter().filter(|point| kind(&point.method)) {
            let [low, middle, high] = point.percentiles;
            let tip = format!(
                "{}: median {}, 20th to 80th percentile {} to {}, {} trained, {} tasks",
                point.method,
                signed(middle),
                signed(low),
                signed(high),
                count(point.trained),
                point.tasks
            );
            dots.push((point, Dot { x: point.trained, y: middle, range: Some((low, high)), tip }));
        }
        dots.sort_by(|(_, a), (_, b)| a.x.total_cmp(&b.x));
        if let Some((first, _)) = dots.first() {
            let look = look(&first.method);
            series.push(Series { look, band: true, dots: dots.into_iter().map(|(_, dot)| dot).collect() });
        }
    }
    let scores = if test { "Test" } else { "Validation" };
    let title = match tasks {
        [task] => format!("{scores} scores, {task}"),
        tasks => format!("{scores} scores, {} tasks", tasks.len()),
    };
    let label = "score − full fine-tuning, points".to_owned();
    let y = AxisSpec { label, log: false, format: Format::Plain, ticks: Vec::new() };
    (!series.is_empty()).then(|| Panel::Plot(Plot { title, x: parameter_axis(), y, level: Some(0.0), series }))
}
