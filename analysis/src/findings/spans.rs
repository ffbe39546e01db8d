//! What is lost without the adapters of some layers.

use super::{Evidence, points::enough};
use crate::{
    AblationRecord, Store,
    axis::signed,
    evidence::{Effect, around, of_seeds, variance},
    names::task_name,
    paper,
    select::mean,
    setup::Run,
    thresholds,
};

/// The ablations of one task, one for each seed.
pub(super) struct Ablated<'a> {
    task: &'a str,
    layers: usize,
    seeds: Vec<(&'a Run, &'a AblationRecord)>,
}

impl<'a> Ablated<'a> {
    fn all(store: &'a Store) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (run, ablation) in store.preset("fig6-spans").map(|record| store.ablated(record)).unwrap_or_default() {
            match all.iter_mut().find(|known| known.task == ablation.task && known.layers == ablation.layers) {
                Some(known) if known.seeds.iter().all(|(other, _)| other.seed != run.seed) => {
                    known.seeds.push((run, ablation))
                }
                Some(_) => {}
                None => all.push(Self { task: &ablation.task, layers: ablation.layers, seeds: vec![(run, ablation)] }),
            }
        }
        all
    }

    fn trivial((run, ablation): &(&Run, &AblationRecord)) -> Option<f64> {
        ablation.majority.or_else(|| run.trivial(&ablation.metric))
    }

    /// Why the task says nothing, if so.
    fn learnt(&self) -> Result<(), String> {
        let gain = |of: &(&Run, &AblationRecord)| Some(100.0 * (of.1.whole.get(&of.1.metric)? - Self::trivial(of)?));
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

/// Judges every task's ablations for itself.
pub(super) fn of_spans(store: &Store, judge: &dyn Fn(&Ablated<'_>, &mut Evidence)) -> Evidence {
    let mut evidence = Evidence::default();
    for ablated in Ablated::all(store) {
        match ablated.learnt() {
            Ok(()) => judge(&ablated, &mut evidence),
            Err(why) => evidence.leave_out(ablated.task, why),
        }
    }
    evidence
}

pub(super) fn all_removed(ablated: &Ablated<'_>, evidence: &mut Evidence) {
    let left = |of: &(&Run, &AblationRecord)| {
        let mut spans = of.1.spans.iter();
        let all = spans.find(|span| (span.first, span.last + 1) == (0, ablated.layers))?;
        let (score, trivial) = (100.0 * all.scores.get(&of.1.metric)?, 100.0 * Ablated::trivial(of)?);
        Some((score, score - trivial))
    };
    let left: Vec<(f64, f64)> = ablated.seeds.iter().filter_map(left).collect();
    let Some(score) = mean(left.iter().map(|(score, _)| *score)) else { return };
    let above: Vec<f64> = left.iter().map(|(_, above)| *above).collect();
    evidence.said.push(format!("{} falls to {score:.1}", task_name(ablated.task)));
    evidence.likely = Some(
        "the head and the LayerNorms were trained too, and they stay: what the frozen network knows of the task already, they can use."
            .to_owned(),
    );
    evidence.effect(
        &format!("{}, above the most frequent class", task_name(ablated.task)),
        &thresholds::REMOVED,
        &[above],
    );
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
        let (few, many) = (ablated.layers, paper::LAYERS);
        evidence.likely =
            Some(format!("this network has {few} layers, the paper's {many}: each does more of the work."));
    }
    let interval = around(loss, (pooled / seeds as f64).sqrt(), (layers.len() * (seeds - 1)) as f64);
    let what = format!("{}, loss without layer {layer} (standard error from all layers)", task_name(ablated.task));
    evidence.effects.push(Effect::new(what, &thresholds::SINGLE, loss, interval, 1, seeds));
}

pub(super) fn higher_layers(ablated: &Ablated<'_>, evidence: &mut Evidence) {
    let half = ablated.layers / 2;
    if half == 0 {
        return;
    }
    let (lower, upper) = (ablated.losses(0, half - 1), ablated.losses(ablated.layers - half, ablated.layers - 1));
    if lower.len() != upper.len() {
        evidence.leave_out(ablated.task, "not every span is there");
        return;
    }
    let task = task_name(ablated.task);
    if let (Some(lower), Some(upper)) = (mean(lower.iter().copied()), mean(upper.iter().copied())) {
        let (lower, upper) = (signed(-lower), signed(-upper));
        evidence
            .said
            .push(format!("{task}: without the lower {half} layers {lower} %, without the upper {half} {upper} %"));
    }
    let values = upper.iter().zip(&lower).map(|(upper, lower)| upper - lower).collect();
    evidence.effect(&format!("{task}, loss of the upper half minus the lower"), &thresholds::HIGHER, &[values]);
}
