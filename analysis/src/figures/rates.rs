//! Fig. 7: scores against the learning rate, adapters and full fine-tuning.

use super::{by_rate, dot, look, metric_of, missing, power_axis, score_axis, series};
use crate::{
    Store,
    chart::{Figure, Key, Look, Panel, Plot},
    select::tasks,
    setup::Method,
};

pub(super) fn fig7(store: &Store) -> Figure {
    let (name, title) = ("fig7", "Fig. 7: validation score at each learning rate");
    let runs = store.runs_of(name);
    let (mut panels, mut keys): (Vec<Panel>, Vec<Key>) = (Vec::new(), Vec::new());
    for task in tasks(&runs) {
        let (mut all, mut ticks) = (Vec::new(), Vec::new());
        for (full, called) in [(false, "adapters"), (true, "full fine-tuning")] {
            let points = by_rate(&runs, task, full);
            if points.is_empty() {
                continue;
            }
            let look = Look { joined: true, ..look(if full { &Method::Full } else { &Method::Adapters(0) }) };
            ticks.extend(points.iter().map(|(rate, _)| *rate));
            let dots =
                points.iter().map(|(rate, point)| dot(*rate, &format!("{called}, lr {rate:e}"), point.validation()));
            all.push(series(look.clone(), dots.collect()));
            let key = Key::Series(called.to_owned(), look);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if !all.is_empty() {
            let (x, y) = (power_axis("learning rate", ticks), score_axis(&metric_of(&runs, task)));
            panels.push(Panel::Plot(Plot { title: task.to_owned(), x, y, level: None, series: all }));
        }
    }
    if panels.is_empty() {
        return missing(name, title, "No runs yet", name);
    }
    let about = "Validation score against the learning rate; bars show one standard error of the mean over seeds";
    Figure { name, title: title.to_owned(), about: about.to_owned(), keys, panels }
}
