//! What is lost without the adapters of some layers.

use super::{Evidence, points::enough};
use crate::{
    Store,
    axis::{counted, signed},
    evidence::{Effect, around, of_seeds, variance},
    figures::{RunAblation, by_configuration},
    names::task_name,
    paper,
    select::mean,
    setup::{Run, said, same},
    thresholds,
};

/// The ablations of one task and one configuration, one for each seed.
pub(super) struct Ablated<'a> {
    /// The task, and what tells the configuration from others of the task.
    called: String,
    layers: usize,
    seeds: Vec<RunAblation<'a>>,
}

impl<'a> Ablated<'a> {
    /// As the figure shows them: every configuration for itself.
    fn all(store: &'a Store) -> Vec<Self> {
        let ablations = store.preset("fig6-spans").map(|record| store.ablated(record)).unwrap_or_default();
        let groups = by_configuration(&ablations);
        let runs: Vec<&Run> = groups.iter().map(|group| group[0].0).collect();
        let group = |seeds: Vec<RunAblation<'a>>| {
            let (run, ablation) = seeds[0];
            Self { called: called(run, &runs), layers: ablation.layers, seeds }
        };
        groups.into_iter().map(group).collect()
    }

    fn trivial((run, ablation): &RunAblation<'_>) -> Option<f64> {
        ablation.majority.or_else(|| run.trivial(&ablation.metric))
    }

    /// Why the task says nothing, if so.
    fn learnt(&self) -> Result<(), String> {
        let gain = |of: &RunAblation<'_>| Some(100.0 * (of.1.whole.get(&of.1.metric)? - Self::trivial(of)?));
        let gains: Option<Vec<f64>> = self.seeds.iter().map(gain).collect();
        let gains = gains.ok_or("the trivial answer's score is not recorded")?;
        enough(gains.len()).map_err(|_| "fewer than three seeds".to_owned())?;
        if of_seeds(&gains).is_none_or(|(_, interval)| interval.low <= 0.0) {
            return Err("the whole model does not clearly beat the trivial answer".to_owned());
        }
        Ok(())
    }

    /// What is lost without a span of layers in percent, for every seed that has it.
    fn losses(&self, first: usize, last: usize) -> Vec<f64> {
        let spans = self
            .seeds
            .iter()
            .filter_map(|(_, ablation)| ablation.spans.iter().find(|span| (span.first, span.last) == (first, last)));
        spans.map(|span| -100.0 * span.relative_change).collect()
    }
}

/// A run's task, and the keys of its configuration that differ among the runs of this task.
fn called(run: &Run, all: &[&Run]) -> String {
    let differs = |key: &str| {
        let mut others = all.iter().filter(|other| other.task == run.task);
        others.any(|other| other.value(key).map(same) != run.value(key).map(same))
    };
    let keys = run.config.iter().filter(|(key, _)| differs(key)).map(|(key, value)| said(key, value));
    std::iter::once(task_name(&run.task)).chain(keys).collect::<Vec<_>>().join(", ")
}

/// Judges the ablations of every task and every configuration for themselves.
pub(super) fn of_spans(store: &Store, judge: &dyn Fn(&Ablated<'_>, &mut Evidence)) -> Evidence {
    let mut evidence = Evidence::default();
    for ablated in Ablated::all(store) {
        match ablated.learnt() {
            Ok(()) => judge(&ablated, &mut evidence),
            Err(why) => evidence.left_out.push(format!("{} ({why})", ablated.called)),
        }
    }
    for run in store.preset_runs("fig6-spans").into_iter().filter(|run| run.is_diverged()) {
        evidence.leave_out(&run.task, format!("seed {} diverged: there is nothing to remove", run.seed));
    }
    evidence
}

pub(super) fn all_removed(ablated: &Ablated<'_>, evidence: &mut Evidence) {
    let left = |of: &RunAblation<'_>| {
        let mut spans = of.1.spans.iter();
        let all = spans.find(|span| (span.first, span.last + 1) == (0, ablated.layers))?;
        let (score, trivial) = (100.0 * all.scores.get(&of.1.metric)?, 100.0 * Ablated::trivial(of)?);
        Some((score, score - trivial))
    };
    let left: Vec<(f64, f64)> = ablated.seeds.iter().filter_map(left).collect();
    let Some(score) = mean(left.iter().map(|(score, _)| *score)) else { return };
    let above: Vec<f64> = left.iter().map(|(_, above)| *above).collect();
    evidence.said.push(format!("{} falls to {score:.1}", ablated.called));
    evidence.likely = Some(
        "the head and the LayerNorms were trained too, and they stay: what the frozen network knows of the task already, they can use."
            .to_owned(),
    );
    evidence.effect(&format!("{}, above the most frequent class", ablated.called), &thresholds::REMOVED, &[above]);
}

/// The layer that costs most, with a standard error from all layers together: they differ little in spread, and three seeds of
/// one say little of it.
pub(super) fn single_layers(ablated: &Ablated<'_>, evidence: &mut Evidence) {
    let layers: Vec<Vec<f64>> = (0..ablated.layers).map(|layer| ablated.losses(layer, layer)).collect();
    let seeds = layers.iter().map(Vec::len).min().unwrap_or_default();
    let losses = layers.iter().enumerate().filter_map(|(layer, losses)| Some((layer, mean(losses.iter().copied())?)));
    let worst = losses.max_by(|a, b| a.1.total_cmp(&b.1));
    let (Ok(()), Some((layer, loss)), Some(pooled)) =
        (enough(seeds), worst, mean(layers.iter().map(|losses| variance(losses))))
    else {
        return;
    };
    if ablated.layers < paper::LAYERS {
        let (few, many) = (counted(ablated.layers, "layer"), paper::LAYERS);
        evidence.likely = Some(format!("this network has {few}, the paper's {many}: each does more of the work."));
    }
    let interval = around(loss, (pooled / seeds as f64).sqrt(), (layers.len() * (seeds - 1)) as f64);
    let what = format!("{}, loss without layer {layer} (standard error from all layers)", ablated.called);
    evidence.effects.push(Effect::new(what, &thresholds::SINGLE, loss, interval, 1, seeds));
}

pub(super) fn higher_layers(ablated: &Ablated<'_>, evidence: &mut Evidence) {
    let half = ablated.layers / 2;
    if half == 0 {
        return;
    }
    let (lower, upper) = (ablated.losses(0, half - 1), ablated.losses(ablated.layers - half, ablated.layers - 1));
    if lower.len() != upper.len() {
        evidence.left_out.push(format!("{} (not every span is there)", ablated.called));
        return;
    }
    let task = &ablated.called;
    let layers =
        |which: &str| if half == 1 { format!("the {which} layer") } else { format!("the {which} {half} layers") };
    if let (Some(lower), Some(upper)) = (mean(lower.iter().copied()), mean(upper.iter().copied())) {
        let (lower, upper) = (signed(-lower), signed(-upper));
        let (below, above) = (layers("lower"), layers("upper"));
        evidence.said.push(format!("{task}: without {below} {lower} %, without {above} {upper} %"));
    }
    let values = upper.iter().zip(&lower).map(|(upper, lower)| upper - lower).collect();
    evidence.effect(&format!("{task}, loss of the upper half minus the lower"), &thresholds::HIGHER, &[values]);
}
