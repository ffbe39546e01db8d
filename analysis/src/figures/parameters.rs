//! Figs. 4 and 5: scores against trained parameters, task by task.

use std::collections::BTreeMap;

use super::{family_looks, methods, metric_of, shown_metric_of, size};
use crate::{
    Store,
    axis::{AxisSpec, Format, count, metric_name},
    chart::{Dot, Figure, Key, Look, Panel, Plot, Series},
    names::task_title,
    paper,
    select::{Point, tasks},
    setup::{Names, Run},
    standing::Measure,
    svg::{FAINT, Marker},
    tables::selected_of,
};

pub(crate) fn fig4(store: &Store) -> Option<Figure> {
    figure(store, "fig4", "Fig. 4: validation accuracy against trained parameters")
}

pub(crate) fn fig5(store: &Store) -> Option<Figure> {
    figure(store, "fig5", "Fig. 5: question answering, validation score against trained parameters")
}

fn figure(store: &Store, preset: &str, title: &str) -> Option<Figure> {
    let runs = store.preset_runs(preset);
    let mut metrics: Vec<String> =
        tasks(&runs).into_iter().map(|task| metric_name(&shown_metric_of(&runs, task))).collect();
    metrics.dedup();
    let score = match &metrics[..] {
        [metric] => format!("Validation {metric} against trained parameters"),
        _ => "Validation score against trained parameters: accuracy for a classification, the task's metric otherwise"
            .to_owned(),
    };
    let about = format!("{score}; bars show one standard error of the mean over seeds. {}", selected_of(&runs));
    let mut figure = by_task(&runs, title, &about, Measure::Accuracy)?;
    // The paper's own points, where the network is the paper's.
    if runs.iter().all(|run| run.backbone.starts_with("bert-base")) {
        for (task, panel) in tasks(&runs).into_iter().zip(&mut figure.panels) {
            let told = paper::TOLD.iter().filter(|told| told.exhibit == preset && told.task == task);
            let dots: Vec<Dot> = told
                .map(|told| Dot::new(told.trained, told.score, format!("the paper, {}: {}", told.method, told.score)))
                .collect();
            if let (Panel::Plot(plot), false) = (panel, dots.is_empty()) {
                let look = Look { colour: FAINT, marker: Some(Marker::Plus), dash: "", joined: false };
                let key = Key::Series("the paper’s own".to_owned(), look.clone());
                plot.series.insert(0, Series::new("the paper", look, dots));
                if !figure.keys.contains(&key) {
                    figure.keys.push(key);
                }
            }
        }
    }
    Some(figure)
}

/// Beyond the paper: all methods, by what they train and by how long they take.
pub(crate) fn beyond(store: &Store) -> Option<Figure> {
    let (runs, title) = (store.preset_runs("methods"), "Methods beside the paper's");
    let about = format!(
        "Validation score against trained parameters, and against the mean time of a training (processor time where a run has one \
         thread: other work beside it does not count); bars show one standard error of the mean over seeds. {}",
        selected_of(&runs)
    );
    let parameters = panels(&runs, title, &about, Measure::Own, X::AllParameters)?;
    let times = panels(&runs, title, &about, Measure::Own, X::Seconds)?;
    let pairs = parameters.panels.into_iter().zip(times.panels).flat_map(|(parameters, time)| [parameters, time]);
    Some(Figure { panels: pairs.collect(), ..times })
}

/// What a figure has below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum X {
    /// Of a few methods, whose sizes are labelled.
    Parameters,
    /// Of so many methods that labels would lie upon each other.
    AllParameters,
    Seconds,
}

impl X {
    fn of(self, point: &Point<'_>) -> f64 {
        let seconds = || point.seeds.iter().map(|run| run.measured.computing_seconds()).sum::<f64>();
        match self {
            X::Parameters | X::AllParameters => point.trained() as f64,
            X::Seconds => seconds() / point.seeds.len().max(1) as f64,
        }
    }

    fn axis(self) -> AxisSpec {
        match self {
            X::Parameters | X::AllParameters => AxisSpec::parameters(),
            X::Seconds => AxisSpec {
                label: "seconds of training".to_owned(),
                log: false,
                format: Format::Exact,
                ticks: Vec::new(),
            },
        }
    }
}

/// Scores against trained parameters, a panel for each task.
pub(super) fn by_task(runs: &[&Run], title: &str, about: &str, measure: Measure) -> Option<Figure> {
    panels(runs, title, about, measure, X::Parameters)
}

/// Whether every run of a task that has a validation score has a test score.
pub(super) fn is_tested(runs: &[&Run], task: &str) -> bool {
    let mut own = runs.iter().filter(|run| run.task == task && run.validation().is_some());
    own.all(|run| run.test().is_some())
}

fn panels(runs: &[&Run], title: &str, about: &str, measure: Measure, below: X) -> Option<Figure> {
    let names = Names::of(runs);
    let looks = family_looks(runs, &names);
    let mut panels = Vec::new();
    let mut keys: Vec<Key> = Vec::new();
    for task in tasks(runs) {
        // Adapters of all sizes are one series, top layers of all k another.
        let mut families: BTreeMap<(usize, String), Vec<Dot>> = BTreeMap::new();
        // All points of a panel are on test, or none.
        let untested = measure == Measure::Reported && !is_tested(runs, task);
        let measure = if untested { Measure::Own } else { measure };
        for (method, point) in methods(runs, task) {
            let name = format!("{}, {} trained", names.label(method), count(point.trained() as f64));
            let family = names.family(method);
            let key = Key::Series(family.clone(), looks[&family].clone());
            if !keys.contains(&key) {
                keys.push(key);
            }
            let label = if below == X::Parameters { size(method) } else { String::new() };
            let dot = Dot::of_point(below.of(&point), &name, &point, measure).labelled(label);
            families.entry((order(&method.name), family)).or_default().push(dot);
        }
        // A line over times would say nothing.
        let look = |family: &str| Look { joined: looks[family].joined && below != X::Seconds, ..looks[family].clone() };
        let series = families.into_iter().map(|((_, family), dots)| Series::new(&family, look(&family), dots));
        let y = match measure {
            Measure::Accuracy => AxisSpec::score(&shown_metric_of(runs, task)),
            Measure::Reported => AxisSpec::test_score(&metric_of(runs, task)),
            Measure::Own => AxisSpec::score(&metric_of(runs, task)),
        };
        let x = below.axis();
        panels.push(Panel::Plot(Plot { title: task_title(task), x, y, level: None, series: series.collect() }));
    }
    let (title, about) = (title.to_owned(), about.to_owned());
    (!panels.is_empty()).then_some(Figure { title, about, keys, panels })
}

/// The order in which series are drawn: the main ones last, above the others.
fn order(method: &str) -> usize {
    match method {
        paper::ADAPTERS => 2,
        paper::TOP => 1,
        _ => 0,
    }
}
