//! The paper's figures, from the runs of their experiments.

mod init;
mod parameters;
mod placement;
mod rates;
mod relative;
mod spans;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    MethodRecord,
    axis::exact,
    chart::{Look, PALETTE},
    paper,
    select::{Point, by_method},
    setup::{Names, Run, compare},
    svg::Marker,
};

pub(crate) use init::fig6 as fig6_init;
pub(crate) use parameters::{beyond, fig4, fig5};
pub(crate) use placement::fig2;
pub(crate) use rates::fig7;
pub(crate) use relative::{fig1, fig3, fig3_tasks, of_fig1};
pub(crate) use spans::{RunAblation, by_configuration, fig6 as fig6_spans, removed};

/// Points of one task, by method, the paper's first.
fn methods<'a>(runs: &[&'a Run], task: &str) -> Vec<(&'a MethodRecord, Point<'a>)> {
    let mut points = by_method(runs, task);
    points.sort_by_key(|(method, _)| paper::rank(&method.name));
    points
}

/// How each series of methods looks, by what it is called. The paper's methods look as always; another takes the next free
/// colour and shape, and is a line if it has several sizes.
fn looks(runs: &[&Run], called: impl Fn(&MethodRecord) -> String) -> BTreeMap<String, Look> {
    const COLOURS: [usize; 7] = [5, 4, 3, 2, 6, 1, 0];
    let mut methods: Vec<&MethodRecord> = runs.iter().map(|run| run.method()).collect();
    methods.sort_by(|a, b| paper::rank(&a.name).cmp(&paper::rank(&b.name)).then_with(|| compare(a, b)));
    methods.dedup_by(|a, b| compare(a, b).is_eq());
    let (mut looks, mut known): (BTreeMap<String, Look>, BTreeSet<&str>) = (BTreeMap::new(), BTreeSet::new());
    for method in &methods {
        if let Some(look) = paper::look(&method.name).filter(|_| known.insert(&method.name)) {
            looks.insert(called(method), look);
        }
    }
    for method in &methods {
        let name = called(method);
        if looks.contains_key(&name) {
            continue;
        }
        let colour = COLOURS.iter().map(|&at| PALETTE[at]).find(|&c| looks.values().all(|look| look.colour != c));
        let marker = Marker::ALL.into_iter().rev().find(|&m| looks.values().all(|look| look.marker != Some(m)));
        let number = looks.len();
        let joined = methods.iter().filter(|other| called(other) == name).count() > 1;
        let free = Look { joined, ..Look::nth(number) };
        let look = match colour {
            Some(colour) => Look { colour, marker: marker.or(free.marker), ..free },
            // All colours are taken: the next pair of a colour and a shape that nobody has.
            None => pairs().find(|pair| looks.values().all(|look| !pair.is_like(look))).unwrap_or(free),
        };
        looks.insert(name, Look { joined, ..look });
    }
    looks
}

/// Every pair of a colour and a shape; neighbours differ in both.
fn pairs() -> impl Iterator<Item = Look> {
    let (colours, shapes) = (PALETTE.len(), Marker::ALL.len());
    (0..colours * shapes).map(move |number| {
        let shape = (number % colours + number / colours) % shapes;
        Look { colour: PALETTE[number % colours], marker: Some(Marker::ALL[shape]), ..Look::nth(number) }
    })
}

/// Looks of series over all sizes.
fn family_looks(runs: &[&Run], names: &Names<'_>) -> BTreeMap<String, Look> {
    looks(runs, |method| names.family(method))
}

/// The metric of a task's runs; several are all named.
pub(crate) fn metric_of(runs: &[&Run], task: &str) -> String {
    named(runs.iter().filter(|run| run.task == task).filter_map(|run| run.metric()))
}

/// What Figs. 4, 5, 6 and 7 show of a task: accuracy for a classification, its metric otherwise.
fn shown_metric_of(runs: &[&Run], task: &str) -> String {
    named(runs.iter().filter(|run| run.task == task).filter_map(|run| run.shown_metric()))
}

fn named<'a>(metrics: impl Iterator<Item = &'a str>) -> String {
    let mut metrics: Vec<&str> = metrics.collect();
    metrics.sort_unstable();
    metrics.dedup();
    if metrics.is_empty() { "score".to_owned() } else { metrics.join(", ") }
}

/// What stands beside a point of a method: its size or its number of layers.
fn size(method: &MethodRecord) -> String {
    method.size.map(exact).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_series_can_be_told_apart() {
        let all: Vec<Look> = pairs().collect();
        assert_eq!(all.len(), PALETTE.len() * Marker::ALL.len());
        for (number, look) in all.iter().enumerate() {
            assert!(all[..number].iter().all(|other| !look.is_like(other)));
        }
    }
}
