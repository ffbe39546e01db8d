//! Fig. 6, right: scores against the adapters' initial σ.

use super::shown_metric_of;
use crate::{
    Store,
    axis::{AxisSpec, metric_name},
    chart::{Dot, Figure, Key, Look, Panel, Plot, Series},
    names::task_name,
    paper,
    select::{sweeps, tasks},
    setup::Names,
    standing::Measure,
    tables::selected,
};

pub(crate) fn fig6(store: &Store) -> Option<Figure> {
    let runs = store.preset_runs("fig6-init");
    let (mut all, mut keys, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    let mut metrics: Vec<String> = tasks(&runs).into_iter().map(|task| shown_metric_of(&runs, task)).collect();
    metrics.dedup();
    let sweeps = sweeps(&runs, paper::INIT_STD);
    let names = Names::of(&sweeps.iter().map(|sweep| sweep.points[0].1.seeds[0]).collect::<Vec<_>>());
    for (number, sweep) in sweeps.iter().enumerate() {
        // One method is not named.
        let several = sweeps.iter().filter(|other| other.task == sweep.task).count() > 1;
        let method = if several { format!(", {}", names.label(sweep.method)) } else { String::new() };
        let task = task_name(sweep.task);
        ticks.extend(sweep.points.iter().map(|(sigma, _)| *sigma));
        let dots = sweep.points.iter().map(|(sigma, point)| {
            Dot::of_point(*sigma, &format!("{task}{method}, σ {sigma:e}"), point, Measure::Accuracy)
        });
        all.push(Series::new(format!("{task}{method}"), Look::nth(number), dots.collect()));
        let metric = match &metrics[..] {
            [_] => String::new(),
            _ => format!(" ({})", metric_name(&shown_metric_of(&runs, sweep.task))),
        };
        keys.push(Key::Series(format!("{task}{method}{metric}"), Look::nth(number)));
    }
    if all.is_empty() {
        return None;
    }
    let metric = if let [one] = &metrics[..] { one } else { "score" };
    let x = AxisSpec::powers("σ of the adapters' initial weights", ticks);
    let (title, y) = ("Initial scale of the adapters".to_owned(), AxisSpec::score(metric));
    let about = format!(
        "Validation accuracy (the task's metric where it is no classification) against the standard deviation of the adapters' \
         initial weights; bars show one standard error. {}",
        selected(sweeps.iter().flat_map(|sweep| &sweep.points).map(|(_, point)| point))
    );
    Some(Figure {
        title: "Fig. 6, right: validation accuracy against the initial σ of the adapters".to_owned(),
        about,
        keys,
        panels: vec![Panel::Plot(Plot { title, x, y, level: None, series: all })],
    })
}
