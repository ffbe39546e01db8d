//! Fig. 6, left and centre: trained adapters removed from spans of layers.

use std::collections::BTreeMap;

use crate::{
    AblationRecord, Store,
    axis::{metric_name, signed},
    chart::{Colours, Figure, Heat, HeatCell, Key, Panel},
    select::seeds,
};

/// Ablations of one task, averaged over seeds.
#[derive(Clone, Debug)]
pub(crate) struct MeanSpans<'a> {
    pub task: &'a str,
    pub metric: &'a str,
    pub layers: usize,
    pub seeds: usize,
    /// Change relative to the whole model in percent, by first and last layer.
    pub changes: BTreeMap<(usize, usize), f64>,
    /// Score without any adapter, and that of the most frequent class: fractions.
    pub without: Option<f64>,
    pub majority: Option<f64>,
}

/// The mean over the seeds of every task, in the order in which they were run.
pub(crate) fn mean_spans<'a>(ablations: &[&'a AblationRecord]) -> Vec<MeanSpans<'a>> {
    let mut by_task: Vec<(&AblationRecord, Vec<&AblationRecord>)> = Vec::new();
    for &ablation in ablations {
        let same = |first: &AblationRecord| {
            (&first.task, &first.metric, first.layers) == (&ablation.task, &ablation.metric, ablation.layers)
        };
        match by_task.iter_mut().find(|(first, _)| same(first)) {
            Some((_, group)) => group.push(ablation),
            None => by_task.push((ablation, vec![ablation])),
        }
    }
    let tasks = by_task.into_iter().map(|(first, group)| {
        let mut sums: BTreeMap<(usize, usize), (f64, usize)> = BTreeMap::new();
        let mut without: Vec<f64> = Vec::new();
        for ablation in &group {
            for span in ablation.spans.iter().filter(|span| span.first <= span.last && span.last < first.layers) {
                let sum = sums.entry((span.first, span.last)).or_default();
                *sum = (sum.0 + 100.0 * span.relative_change, sum.1 + 1);
                if (span.first, span.last + 1) == (0, first.layers) {
                    without.extend(span.scores.get(&first.metric));
                }
            }
        }
        MeanSpans {
            task: &first.task,
            metric: &first.metric,
            layers: first.layers,
            seeds: group.len(),
            changes: sums.into_iter().map(|(span, (sum, n))| (span, sum / n as f64)).collect(),
            without: crate::select::mean(without),
            majority: first.majority,
        }
    });
    tasks.collect()
}

pub(crate) fn fig6(store: &Store) -> Option<Figure> {
    let ablations = store.ablations(store.preset("fig6-spans")?);
    removed("Fig. 6: adapters removed from spans of layers", &ablations)
}

/// A heat map of each task: what the removal of every span of layers changes.
pub(crate) fn removed(title: &str, ablations: &[&AblationRecord]) -> Option<Figure> {
    let all = mean_spans(ablations);
    let first = all.first()?;
    let changes = || all.iter().flat_map(|task| task.changes.values().copied());
    let colours = Colours::Changes(changes().fold(-5.0, f64::min), changes().fold(0.0, f64::max));
    let one_metric = all.iter().all(|spans| spans.metric == first.metric);
    let changing = if one_metric { metric_name(first.metric) } else { "score".to_owned() };
    let panels = all.iter().map(|spans| {
        let cell = |(&(first, last), &change): (&(usize, usize), &f64)| {
            let which = if first == last { format!("layer {first}") } else { format!("layers {first} to {last}") };
            let (metric, change_text) = (metric_name(spans.metric), signed(change));
            let tip = format!("{which} removed: {metric} {change_text} %, {}", seeds(spans.seeds));
            HeatCell { column: last, row: first, value: change, tip }
        };
        let layers: Vec<String> = (0..spans.layers).map(|layer| layer.to_string()).collect();
        let metric = if one_metric { String::new() } else { format!(" ({})", metric_name(spans.metric)) };
        Panel::Heat(Heat {
            title: format!("{}{metric}", spans.task),
            x_label: "last layer removed".to_owned(),
            y_label: "first layer removed".to_owned(),
            columns: layers.clone(),
            rows: layers,
            cells: spans.changes.iter().map(cell).collect(),
            colours,
            diagonal: true,
        })
    });
    let about = "Change of the validation score in percent when the trained adapters of a span of layers are removed, by first \
                 and last layer; single layers are outlined";
    Some(Figure {
        title: title.to_owned(),
        about: about.to_owned(),
        keys: vec![Key::Colours(colours, format!("change of {changing}"))],
        panels: panels.collect(),
    })
}
