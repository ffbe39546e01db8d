//! What the adapter's own settings change: initial scale, learning rate, size, form.

use std::collections::BTreeMap;

use super::{
    Evidence,
    points::{enough, from_usual, learnt},
};
use crate::{
    axis::{counted, exact},
    evidence::Effect,
    names::task_name,
    paper,
    select::{Point, Sweep, best_point, differences, mean, sweeps, tasks},
    setup::{Names, Run},
    standing::Measure,
    tables::{Variant, compare_variants, sizes_by_task},
    thresholds::{self, Threshold},
};

/// The point of a sweep at a value, which may have been written as a rounded number.
fn at<'p, 'a>(sweep: &'p Sweep<'a>, value: f64) -> Option<&'p Point<'a>> {
    sweep.points.iter().find(|(own, _)| (own / value - 1.0).abs() < 1e-3).map(|(_, point)| point)
}

/// Of several sweeps the one that is judged: of adapters rather than of anything else, of size 64 or of the size nearest to it.
fn usual<'s, 'a>(sweeps: impl Iterator<Item = &'s Sweep<'a>>) -> Option<&'s Sweep<'a>>
where
    'a: 's,
{
    let place = |sweep: &Sweep<'_>| {
        let method = sweep.method;
        (paper::rank(&method.name), method.size.map_or(f64::INFINITY, from_usual))
    };
    sweeps.min_by(|a, b| {
        let ((rank, size), (other_rank, other_size)) = (place(a), place(b));
        rank.cmp(&other_rank).then(size.total_cmp(&other_size))
    })
}

/// Names the sweeps of a task that the figure shows beside those that are judged.
fn leave_out_others(sweeps: &[Sweep<'_>], judged: &[&Sweep<'_>], evidence: &mut Evidence) {
    let Some(&first) = judged.first() else { return };
    let names = Names::of(&sweeps.iter().map(|sweep| sweep.points[0].1.seeds[0]).collect::<Vec<_>>());
    let own = sweeps.iter().filter(|sweep| sweep.task == first.task);
    let others = own.filter(|sweep| !judged.iter().any(|judged| std::ptr::eq(*judged, *sweep)));
    let others: Vec<String> = others.map(|sweep| names.label(sweep.method)).collect();
    if !others.is_empty() {
        let judged = names.label(first.method);
        evidence.leave_out(first.task, format!("shown beside {judged}, but not judged: {}", others.join(", ")));
    }
}

/// What is lost at each value against a point of each task, the loss that decides. Values that not all tasks have are not
/// looked at; `None` if one that they have lacks seeds.
fn largest_loss<'a>(
    what: &str,
    threshold: &Threshold,
    values: &[f64],
    of: &[(&Sweep<'a>, &Point<'a>)],
) -> Option<Effect> {
    let mut effects = Vec::new();
    for &value in values {
        let points: Option<Vec<&Point<'_>>> = of.iter().map(|(sweep, _)| at(sweep, value)).collect();
        let Some(points) = points else { continue };
        let losses = of
            .iter()
            .zip(points)
            .map(|((_, best), point)| differences(best, point, |run| Measure::Accuracy.score(run)));
        let losses: Vec<Vec<f64>> = losses.collect();
        if losses.iter().any(|losses| enough(losses.len()).is_err()) {
            return None;
        }
        effects.extend(Effect::of(format!("{what} {}", exact(value)), threshold, &losses));
    }
    Effect::deciding(effects)
}

pub(super) fn initial_scale(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let sweeps = sweeps(runs, paper::INIT_STD);
    let mut all: Vec<(&Sweep<'_>, &Point<'_>)> = Vec::new();
    for task in tasks(runs) {
        let Some(sweep) = usual(sweeps.iter().filter(|sweep| sweep.task == task)) else { continue };
        // 1e-2 may have been written as a rounded number.
        let small: Vec<&(f64, Point<'_>)> = sweep.points.iter().filter(|(sigma, _)| *sigma <= 0.01 * 1.001).collect();
        let (Some((_, usual)), Some(large), true) = (small.last(), at(sweep, 1.0), small.len() >= 2) else { continue };
        leave_out_others(&sweeps, &[sweep], &mut evidence);
        if let Err(why) = learnt(usual, Measure::Accuracy) {
            evidence.leave_out(task, why);
            continue;
        }
        let scores = small.iter().map(|(sigma, point)| format!("{} at {sigma:e}", point.shown().written()));
        let scores: Vec<String> = scores.chain([format!("{} at 1", large.shown().written())]).collect();
        evidence.said.push(format!("{}: {}", task_name(task), scores.join(", ")));
        all.push((sweep, usual));
    }
    let Some((first, usual)) = all.first() else { return evidence };
    let reference = first.points.iter().find(|(_, point)| point.seeds[0].id == usual.seeds[0].id);
    let reference = reference.map_or(0.01, |(sigma, _)| *sigma);
    let small: Vec<f64> = first.points.iter().map(|(sigma, _)| *sigma).filter(|sigma| *sigma < reference).collect();
    let flat = largest_loss("Largest loss at a smaller σ, at", &thresholds::FLAT, &small, &all);
    let fall = largest_loss("Loss at σ =", &thresholds::FALL, &[1.0], &all);
    match (flat, fall) {
        (Some(flat), Some(fall)) => evidence.effects.extend([flat, fall]),
        _ => evidence.left_out.push("all (fewer than three seeds at some σ, or none that all tasks have)".to_owned()),
    }
    evidence
}

pub(super) fn learning_rates(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let sweeps = sweeps(runs, "lr");
    let mut both: Vec<(&Sweep<'_>, &Sweep<'_>)> = Vec::new();
    for task in tasks(runs) {
        let of = |name: &str| usual(sweeps.iter().filter(|sweep| sweep.task == task && sweep.method.name == name));
        let (Some(adapters), Some(full)) = (of(paper::ADAPTERS), of(paper::FULL)) else { continue };
        leave_out_others(&sweeps, &[adapters, full], &mut evidence);
        let learns = |sweep: &Sweep<'_>| {
            let best = best_point(sweep.points.iter().map(|(_, point)| point));
            best.map_or(Ok(()), |best| learnt(best, Measure::Accuracy))
        };
        // Adapters that learn nothing at any rate are robust to nothing.
        match learns(full).and_then(|()| learns(adapters)) {
            Ok(()) => both.push((adapters, full)),
            Err(why) => evidence.leave_out(task, why),
        }
    }
    let Some((first, _)) = both.first() else { return evidence };
    let everywhere = |rate: &f64| both.iter().all(|(a, b)| at(a, *rate).is_some() && at(b, *rate).is_some());
    let rates: Vec<f64> = first.points.iter().map(|(rate, _)| *rate).filter(everywhere).collect();
    if rates.len() < 3 {
        return evidence;
    }
    let (mut adapters, mut contrasts) = (Vec::new(), Vec::new());
    for (own, full) in &both {
        let ends = |sweep: &'_ Sweep<'_>| {
            let points = || rates.iter().filter_map(|rate| Some((*rate, at(sweep, *rate)?.shown().mean)));
            let (best, worst) =
                (points().max_by(|a, b| a.1.total_cmp(&b.1))?, points().min_by(|a, b| a.1.total_cmp(&b.1))?);
            Some((best.0, worst.0))
        };
        let (Some(own_ends), Some(full_ends)) = (ends(own), ends(full)) else { continue };
        let points = [at(own, own_ends.0), at(own, own_ends.1), at(full, full_ends.0), at(full, full_ends.1)];
        let [Some(best), Some(worst), Some(full_best), Some(full_worst)] = points else { continue };
        adapters.push((*own, best));
        let lost = |best: &Point<'_>, worst: &Point<'_>| {
            let score = |run: &Run| Measure::Accuracy.score(run);
            let values = best.seeds.iter().filter_map(|own| {
                let other = worst.seeds.iter().find(|other| other.seed == own.seed)?;
                Some((own.seed, 100.0 * (score(own)? - score(other)?)))
            });
            values.collect::<BTreeMap<u64, f64>>()
        };
        let (own_lost, full_lost) = (lost(best, worst), lost(full_best, full_worst));
        contrasts
            .push(full_lost.iter().filter_map(|(seed, full)| Some(full - own_lost.get(seed)?)).collect::<Vec<f64>>());
        evidence.said.push(format!(
            "{}: adapters from {} to {}, full fine-tuning from {} to {}",
            task_name(own.task),
            best.shown().written(),
            worst.shown().written(),
            full_best.shown().written(),
            full_worst.shown().written()
        ));
    }
    let robust = largest_loss("Adapters' loss against their best rate, at", &thresholds::ROBUST, &rates, &adapters);
    let enough_seeds = contrasts.iter().all(|values| enough(values.len()).is_ok());
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if robust.as_ref().is_some_and(|robust| robust.what.ends_with(&format!("at {}", exact(lowest)))) {
        let epochs = first.points.first().and_then(|(_, point)| point.seeds.first()?.epochs());
        let after = epochs.map_or(String::new(), |epochs| format!(" after {epochs}"));
        evidence.likely = Some(format!("at the lowest rate adapters are not done{after}."));
    }
    let more = Effect::of(
        "What full fine-tuning loses over the rates minus what adapters lose",
        &thresholds::MORE_ROBUST,
        &contrasts,
    );
    match (robust, more) {
        (Some(robust), Some(more)) if enough_seeds => evidence.effects.extend([robust, more]),
        _ => evidence.left_out.push("all (fewer than three seeds at some rate)".to_owned()),
    }
    evidence
}

pub(super) fn size_matters_little(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let (sizes, by_task) = sizes_by_task(runs);
    let mut kept: Vec<Vec<Point<'_>>> = Vec::new();
    for (task, points) in by_task.into_iter().filter(|_| sizes.len() >= 2) {
        let Some(best) = best_point(&points) else { continue };
        let shared = points.iter().map(|point| differences(best, point, Run::accuracy).len()).min().unwrap_or_default();
        match learnt(best, Measure::Accuracy).and_then(|()| enough(shared)) {
            Ok(()) => kept.push(points),
            Err(why) => evidence.leave_out(task, why),
        }
    }
    let means = sizes
        .iter()
        .enumerate()
        .filter_map(|(at, size)| Some((at, *size, mean(kept.iter().map(|points| points[at].shown().mean))?)));
    let means: Vec<(usize, f64, f64)> = means.collect();
    let best = means.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let worst = means.iter().min_by(|a, b| a.2.total_cmp(&b.2));
    let (Some(best), Some(worst)) = (best, worst) else { return evidence };
    let said: Vec<String> = means.iter().map(|(_, size, accuracy)| format!("size {size} {accuracy:.1}")).collect();
    evidence.said.push(format!("Over {}: {}", counted(kept.len(), "task"), said.join(", ")));
    let values = kept.iter().map(|points| differences(&points[best.0], &points[worst.0], Run::accuracy));
    let values: Vec<Vec<f64>> = values.collect();
    evidence.effect(&format!("Size {} minus size {}", best.1, worst.1), &thresholds::SIZES, &values);
    evidence
}

pub(super) fn no_variant_helps(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let all = compare_variants(runs);
    let mut useless: BTreeMap<&str, String> = BTreeMap::new();
    for variant in all.iter().filter(|variant| variant.paper) {
        for (task, point) in &variant.points {
            useless.extend(learnt(point, Measure::Accuracy).err().map(|why| (*task, why)));
        }
    }
    let others = || all.iter().filter(|variant| !variant.paper);
    if others().next().is_none() {
        return evidence;
    }
    let gain = |variant: &Variant<'_>| {
        let own =
            variant.gains.iter().filter(|(task, values)| !useless.contains_key(*task) && enough(values.len()).is_ok());
        let values: Vec<Vec<f64>> = own.map(|(_, values)| values.clone()).collect();
        Effect::of(format!("Gain of {}", variant.name), &thresholds::VARIANTS, &values)
    };
    let gains: Vec<Effect> = others().filter_map(gain).collect();
    let (judged, known) = (gains.len(), others().count());
    evidence.left_out.extend(useless.iter().map(|(task, why)| format!("{} ({why})", task_name(task))));
    if let Some(deciding) = Effect::deciding(gains) {
        let compared = if judged == 1 {
            "One variant is compared".to_owned()
        } else {
            format!("Of {judged} variants one decides")
        };
        evidence.said.push(compared);
        evidence.effects.push(deciding);
    }
    if judged > 0 && judged < known {
        evidence.left_out.push(format!("{} (fewer than three seeds)", counted(known - judged, "variant")));
    } else if judged == 0 && all.iter().any(|variant| variant.paper) && useless.is_empty() {
        evidence.left_out.push("all variants (fewer than three seeds of both)".to_owned());
    }
    evidence
}
