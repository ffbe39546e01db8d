//! Fig. 7: scores against the learning rate, adapters and full fine-tuning.

use super::{looks, shown_metric_of};
use crate::{
    MethodRecord, Store,
    axis::AxisSpec,
    chart::{Dot, Figure, Key, Look, Panel, Plot, Series},
    names::task_title,
    paper,
    select::{sweeps, tasks},
    setup::{Names, compare},
    standing::Measure,
    tables::selected,
};

pub(crate) fn fig7(store: &Store) -> Option<Figure> {
    let runs = store.preset_runs("fig7");
    let mut all = sweeps(&runs, "lr");
    all.sort_by_key(|sweep| paper::rank(&sweep.method.name));
    let names = Names::of(&runs);
    // One size alone is not said.
    let called = |method: &MethodRecord| {
        let same = |other: &MethodRecord| other.name != method.name || compare(other, method).is_eq();
        let alone = runs.iter().all(|run| same(run.method()));
        if alone && method.name == paper::ADAPTERS { method.name.clone() } else { names.label(method) }
    };
    let looks = looks(&runs, called);
    let (mut panels, mut keys): (Vec<Panel>, Vec<Key>) = (Vec::new(), Vec::new());
    for task in tasks(&runs) {
        let (mut series, mut ticks) = (Vec::new(), Vec::new());
        for sweep in all.iter().filter(|sweep| sweep.task == task) {
            let called = called(sweep.method);
            let look = Look { joined: true, ..looks[&called].clone() };
            ticks.extend(sweep.points.iter().map(|(rate, _)| *rate));
            let dots = sweep
                .points
                .iter()
                .map(|(rate, point)| Dot::of_point(*rate, &format!("{called}, lr {rate:e}"), point, Measure::Accuracy));
            series.push(Series::new(&called, look.clone(), dots.collect()));
            let key = Key::Series(called, look);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if !series.is_empty() {
            let (x, y) = (AxisSpec::powers("learning rate", ticks), AxisSpec::score(&shown_metric_of(&runs, task)));
            panels.push(Panel::Plot(Plot { title: task_title(task), x, y, level: None, series }));
        }
    }
    if panels.is_empty() {
        return None;
    }
    let about = format!(
        "Validation accuracy (the task's metric where it is no classification) against the learning rate; bars show one standard \
         error of the mean over seeds. {}",
        selected(all.iter().flat_map(|sweep| &sweep.points).map(|(_, point)| point))
    );
    let title = "Fig. 7: validation accuracy at each learning rate".to_owned();
    Some(Figure { title, about, keys, panels })
}
