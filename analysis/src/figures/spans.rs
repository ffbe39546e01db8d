//! Fig. 6, left and centre: trained adapters removed from spans of layers.

use std::collections::BTreeMap;

use crate::{
    AblationRecord, MethodRecord, Store,
    axis::{metric_name, signed},
    chart::{Colours, Figure, Heat, HeatCell, Key, Panel},
    names::task_title,
    select::seeds,
    setup::{Names, Run},
};

/// Ablations of one task and one configuration, averaged over seeds.
#[derive(Clone, Debug)]
struct MeanSpans<'a> {
    task: &'a str,
    method: &'a MethodRecord,
    metric: &'a str,
    layers: usize,
    seeds: usize,
    /// Change relative to the whole model in percent, by first and last layer.
    changes: BTreeMap<(usize, usize), f64>,
}

/// A run and its ablation.
pub(crate) type RunAblation<'a> = (&'a Run, &'a AblationRecord);

/// The ablations of every task and configuration, one for each seed, in the order in which they were run.
pub(crate) fn by_configuration<'a>(ablations: &[RunAblation<'a>]) -> Vec<Vec<RunAblation<'a>>> {
    let mut groups: Vec<Vec<RunAblation<'a>>> = Vec::new();
    for &(run, ablation) in ablations {
        let is_same = |group: &&mut Vec<RunAblation<'a>>| {
            let (other, first) = group[0];
            (&first.metric, first.layers) == (&ablation.metric, ablation.layers) && other.config == run.config
        };
        match groups.iter_mut().find(is_same) {
            Some(group) if group.iter().any(|(other, _)| other.seed == run.seed) => {}
            Some(group) => group.push((run, ablation)),
            None => groups.push(vec![(run, ablation)]),
        }
    }
    groups
}

/// Their means over the seeds.
fn mean_spans<'a>(ablations: &[RunAblation<'a>]) -> Vec<MeanSpans<'a>> {
    let tasks = by_configuration(ablations).into_iter().map(|group| {
        let (run, first) = group[0];
        let mut sums: BTreeMap<(usize, usize), (f64, usize)> = BTreeMap::new();
        for (_, ablation) in &group {
            for span in ablation.spans.iter().filter(|span| span.first <= span.last && span.last < first.layers) {
                let sum = sums.entry((span.first, span.last)).or_default();
                *sum = (sum.0 + 100.0 * span.relative_change, sum.1 + 1);
            }
        }
        MeanSpans {
            task: &first.task,
            method: run.method(),
            metric: &first.metric,
            layers: first.layers,
            seeds: group.len(),
            changes: sums.into_iter().map(|(span, (sum, n))| (span, sum / n as f64)).collect(),
        }
    });
    tasks.collect()
}

pub(crate) fn fig6(store: &Store) -> Option<Figure> {
    let ablations = store.ablated(store.preset("fig6-spans")?);
    removed("Fig. 6: adapters removed from spans of layers", &ablations)
}

/// A heat map of each task and configuration: what the removal of every span of layers changes.
pub(crate) fn removed(title: &str, ablations: &[RunAblation<'_>]) -> Option<Figure> {
    let all = mean_spans(ablations);
    let names = Names::of(&ablations.iter().map(|(run, _)| *run).collect::<Vec<_>>());
    let one_method = all.iter().all(|spans| spans.method == all[0].method);
    let first = all.first()?;
    let changes = || all.iter().flat_map(|task| task.changes.values().copied());
    let colours = Colours::Changes(changes().fold(-5.0, f64::min), changes().fold(0.0, f64::max));
    let one_metric = all.iter().all(|spans| spans.metric == first.metric);
    let changing = if one_metric { metric_name(first.metric) } else { "score".to_owned() };
    let panels = all.iter().map(|spans| {
        let cell = |(&(first, last), &change): (&(usize, usize), &f64)| {
            let which = if first == last { format!("layer {first}") } else { format!("layers {first} to {last}") };
            let (metric, change_text) = (metric_name(spans.metric), signed(change));
            let tip = format!("{which} removed: {metric} {change_text} % (relative), {}", seeds(spans.seeds));
            HeatCell { column: last, row: first, value: change, tip }
        };
        let layers: Vec<String> = (0..spans.layers).map(|layer| layer.to_string()).collect();
        let metric = if one_metric { String::new() } else { format!(" ({})", metric_name(spans.metric)) };
        Panel::Heat(Heat {
            title: if one_method {
                format!("{}{metric}", task_title(spans.task))
            } else {
                format!("{}{metric}, {}", task_title(spans.task), names.label(spans.method))
            },
            x_label: "last layer removed".to_owned(),
            y_label: "first layer removed".to_owned(),
            columns: layers.clone(),
            rows: layers,
            cells: spans.changes.iter().map(cell).collect(),
            colours,
            diagonal: true,
        })
    });
    let about = "Relative change of the validation score when the trained adapters of a span of layers are removed, by first and last \
                 layer, mean over the seeds: −10 means that nine tenths of the score are left. Single layers are outlined; all \
                 panels have the same colours";
    Some(Figure {
        title: title.to_owned(),
        about: about.to_owned(),
        keys: vec![Key::Colours(colours, format!("relative change of {changing}"))],
        panels: panels.collect(),
    })
}
