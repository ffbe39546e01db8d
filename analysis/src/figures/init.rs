//! Fig. 6, right: scores against the adapters' initial σ.

use super::{by_sigma, dot, metric_name, metric_of, missing, power_axis, score_axis, series, task_look};
use crate::{
    Store,
    chart::{Figure, Key, Panel, Plot},
    select::tasks,
};

pub(super) fn fig6(store: &Store) -> Figure {
    let (name, title) = ("fig6-init", "Fig. 6, right: validation score against the initial σ of the adapters");
    let runs = store.runs_of(name);
    let (mut all, mut keys, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    let mut metrics: Vec<String> = Vec::new();
    for task in tasks(&runs) {
        metrics.push(metric_of(&runs, task));
    }
    metrics.dedup();
    let one_metric = metrics.len() == 1;
    for (number, task) in tasks(&runs).into_iter().enumerate() {
        let points = by_sigma(&runs, task);
        if points.is_empty() {
            continue;
        }
        ticks.extend(points.iter().map(|(sigma, _)| *sigma));
        let dots = points.iter().map(|(sigma, point)| dot(*sigma, &format!("{task}, σ {sigma:e}"), point.validation()));
        all.push(series(task_look(number), dots.collect()));
        let name = match one_metric {
            true => task.to_owned(),
            false => format!("{task} ({})", metric_name(&metric_of(&runs, task))),
        };
        keys.push(Key::Series(name, task_look(number)));
    }
    if all.is_empty() {
        return missing(name, title, "No runs yet", name);
    }
    let metric = if let [one] = &metrics[..] { one } else { "score" };
    let x = power_axis("σ of the adapters' initial weights", ticks);
    let plot =
        Plot { title: "Initial scale of the adapters".to_owned(), x, y: score_axis(metric), level: None, series: all };
    let about = "Validation score against the standard deviation of the adapters' initial weights; bars show one standard error";
    Figure { name, title: title.to_owned(), about: about.to_owned(), keys, panels: vec![Panel::Plot(plot)] }
}
