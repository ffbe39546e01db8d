//! Figs. 4 and 5: scores against trained parameters, task by task.

use std::collections::BTreeMap;

use super::{family_looks, methods, shown_metric_of};
use crate::{
    Store,
    axis::{AxisSpec, count},
    chart::{Dot, Figure, Key, Panel, Plot, Series},
    paper,
    select::tasks,
    setup::Names,
    tables::SELECTED,
};

pub(crate) fn fig4(store: &Store) -> Option<Figure> {
    figure(store, "fig4", "Fig. 4: validation accuracy against trained parameters")
}

pub(crate) fn fig5(store: &Store) -> Option<Figure> {
    figure(store, "fig5", "Fig. 5: question answering, validation score against trained parameters")
}

fn figure(store: &Store, preset: &str, title: &str) -> Option<Figure> {
    let runs = store.preset_runs(preset);
    let names = Names::of(&runs);
    let looks = family_looks(&runs, &names);
    let mut panels = Vec::new();
    let mut keys: Vec<Key> = Vec::new();
    for task in tasks(&runs) {
        // Adapters of all sizes are one series, top layers of all k another.
        let mut families: BTreeMap<(usize, String), Vec<Dot>> = BTreeMap::new();
        for (method, point) in methods(&runs, task) {
            let name = format!("{}, {} trained", names.label(method), count(point.trained() as f64));
            let family = names.family(method);
            let key = Key::Series(family.clone(), looks[&family].clone());
            if !keys.contains(&key) {
                keys.push(key);
            }
            let dot = Dot::of(point.trained() as f64, &name, point.shown());
            families.entry((order(&method.name), family)).or_default().push(dot);
        }
        let title = task.to_owned();
        let series = families.into_iter().map(|((_, family), dots)| Series::new(looks[&family].clone(), dots));
        let (x, y) = (AxisSpec::parameters(), AxisSpec::score(&shown_metric_of(&runs, task)));
        panels.push(Panel::Plot(Plot { title, x, y, level: None, series: series.collect() }));
    }
    if panels.is_empty() {
        return None;
    }
    let about = format!(
        "Validation score against trained parameters: accuracy for a classification, the task's metric otherwise; bars show one \
         standard error of the mean over seeds. {SELECTED}"
    );
    Some(Figure { title: title.to_owned(), about, keys, panels })
}

/// The order in which series are drawn: the main ones last, above the others.
fn order(method: &str) -> usize {
    match method {
        paper::ADAPTERS => 2,
        paper::TOP => 1,
        _ => 0,
    }
}
