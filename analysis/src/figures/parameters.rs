//! Figs. 4 and 5: scores against trained parameters, task by task.

use std::collections::BTreeMap;

use super::{dot, family, look, metric_of, missing, parameter_axis, score_axis, series};
use crate::{
    Store,
    axis::count,
    chart::{Dot, Figure, Key, Look, Panel, Plot},
    select::{by_method, tasks},
    setup::Method,
};

pub(super) fn fig4(store: &Store) -> Figure {
    figure(store, "fig4", "Fig. 4: validation score against trained parameters")
}

pub(super) fn fig5(store: &Store) -> Figure {
    figure(store, "fig5", "Fig. 5: question answering, validation score against trained parameters")
}

fn figure(store: &Store, name: &'static str, title: &str) -> Figure {
    let runs = store.runs_of(name);
    let mut panels = Vec::new();
    let mut keys: Vec<Key> = Vec::new();
    for task in tasks(&runs) {
        // Adapters of all sizes are one series, top layers of all k another.
        let mut families: BTreeMap<String, (Look, Vec<Dot>)> = BTreeMap::new();
        for (method, point) in by_method(&runs, task) {
            let name = format!("{method}, {} trained", count(point.trained() as f64));
            let place = families.entry(order(&method)).or_insert_with(|| (look(&method), Vec::new()));
            place.1.push(dot(point.trained() as f64, &name, point.validation()));
            let key = Key::Series(family(&method), look(&method));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let title = task.to_owned();
        let series = families.into_values().map(|(look, dots)| series(look, dots)).collect();
        let y = score_axis(&metric_of(&runs, task));
        panels.push(Panel::Plot(Plot { title, x: parameter_axis(), y, level: None, series }));
    }
    if panels.is_empty() {
        return missing(name, title, "No runs yet", name);
    }
    let about = "Validation score against trained parameters; bars show one standard error of the mean over seeds";
    Figure { name, title: title.to_owned(), about: about.to_owned(), keys, panels }
}

/// The order in which series are drawn: the main ones last, above the others.
fn order(method: &Method) -> String {
    let place = match method {
        Method::Adapters(_) => 2,
        Method::Top(_) => 1,
        _ => 0,
    };
    format!("{place}{}", family(method))
}
