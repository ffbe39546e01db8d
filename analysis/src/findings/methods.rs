//! Adapters beside full fine-tuning, fewer layers, and no BERT at all.

use super::{
    Evidence,
    points::{Points, best_of, enough, from_usual, learnt, of, reference, sized, sizes_of},
};
use crate::{
    Store,
    axis::{count, counted},
    evidence::of_seeds,
    names::task_name,
    paper,
    select::{Point, best_point, by_method, differences, mean, tasks},
    setup::Run,
    standing::{Measure, Standing, standing},
    tables::search,
    thresholds::{self, Threshold},
};

/// The result in one sentence: what adapters and full fine-tuning score, and what they train. `None` if no experiment has both.
pub(crate) fn headline(store: &Store) -> Option<String> {
    let of = |preset: &str, most: Option<f64>| {
        let whole = store.preset(preset).filter(|record| record.unfinished(store).is_none())?;
        compare_with_full(&store.runs(whole), most).0
    };
    let Compared { tasks, full, adapters, share, .. } =
        of("table1", Some(thresholds::FEW.limit)).or_else(|| of("table2", None)).or_else(|| of("fig4", None))?;
    let over = if tasks == 1 { "on one task".to_owned() } else { format!("over {tasks} tasks") };
    Some(format!(
        "Adapters that train {share:.1} % of the parameters for each task score {adapters:.1} {over}; full fine-tuning scores \
         {full:.1}."
    ))
}

/// The tasks that the verdict on adapters beside full fine-tuning compares, of sizes that train at most so many percent.
pub(crate) fn compared_tasks<'a>(runs: &[&'a Run], most: Option<f64>) -> Vec<&'a str> {
    compare_with_full(runs, most).1
}

/// Full fine-tuning and adapters over the same tasks.
struct Compared {
    tasks: usize,
    /// Mean scores × 100.
    full: f64,
    adapters: f64,
    /// Parameters that adapters train, in percent.
    share: f64,
    /// What adapters gain over the trivial answer, in percent of what full fine-tuning gains.
    part: f64,
}

pub(super) fn close_to_full(runs: &[&Run], most: Option<f64>) -> Evidence {
    let (compared, _, mut evidence, values) = compare_with_full(runs, most);
    if let Some(Compared { tasks, full, adapters, share, part }) = compared {
        evidence.said.push(format!(
            "Over {} adapters average {adapters:.1}, full fine-tuning {full:.1}; on validation they gain {part:.0} % of \
             what it gains over the trivial answer, each task weighing alike; they train {share:.1} % of the parameters",
            counted(tasks, "task")
        ));
    }
    evidence.effect("Loss against full fine-tuning", &thresholds::CLOSE, &values);
    evidence
}

/// The comparison, its tasks, what was left out of it, and the differences of every task's seeds.
fn compare_with_full<'a>(
    runs: &[&'a Run],
    most: Option<f64>,
) -> (Option<Compared>, Vec<&'a str>, Evidence, Vec<Vec<f64>>) {
    let (mut evidence, mut compared_tasks) = (Evidence::default(), Vec::new());
    let (mut values, mut full_scores, mut scores, mut shares, mut parts) = (vec![], vec![], vec![], vec![], vec![]);
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let Some(full) = best_of(&points, paper::FULL) else { continue };
        if of(&points, paper::ADAPTERS).next().is_none() {
            continue;
        }
        let few = |point: &&Point<'_>| most.is_none_or(|most| 100.0 * point.seeds[0].trained_share() <= most);
        let Some(adapters) = best_point(of(&points, paper::ADAPTERS).filter(few)) else {
            evidence.leave_out(task, "no size trains so few parameters");
            continue;
        };
        // Both by test scores, or both by validation scores.
        let tested = most.is_none() && full.test().is_some() && adapters.test().is_some();
        let score = if tested { Run::test } else { Run::validation };
        let own = differences(full, adapters, score);
        if let Err(why) = learnt(full, Measure::Own).and_then(|()| enough(own.len())) {
            evidence.leave_out(task, why);
            continue;
        }
        if standing(full, Measure::Own) == Standing::Ceiling {
            evidence.leave_out(task, "full fine-tuning is at the ceiling");
            continue;
        }
        let means = [full, adapters].map(|point| point.estimate(score).map(|estimate| estimate.mean));
        if let ([Some(whole), Some(small)], Some(trivial)) = (means, Measure::Own.trivial(full.seeds[0])) {
            full_scores.push(whole);
            scores.push(small);
            // The trivial answer's scores are those on validation.
            let gain = |point: &Point<'_>| point.validation().mean - 100.0 * trivial;
            parts.push(100.0 * gain(adapters) / gain(full));
        }
        shares.push(100.0 * adapters.seeds[0].trained_share());
        compared_tasks.push(task);
        values.push(own);
    }
    let tasks = values.len();
    let compared = (|| {
        let (full, adapters) = (mean(full_scores)?, mean(scores)?);
        Some(Compared { tasks, full, adapters, share: mean(shares)?, part: mean(parts)? })
    })();
    (compared, compared_tasks, evidence, values)
}

pub(super) fn beats_search(runs: &[&Run], searched: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let (mut values, mut full_scores, mut scores) = (vec![], vec![], vec![]);
    for task in tasks(runs) {
        let (Some(full), Some(without)) =
            (best_of(&by_method(runs, task), paper::FULL).cloned(), search::found(searched, task))
        else {
            continue;
        };
        let used = |point: &Point<'_>| point.seeds[0].examples;
        if used(&full) != used(&without) {
            evidence.leave_out(task, "the search used other numbers of examples");
            continue;
        }
        let tested = full.test().is_some() && without.test().is_some();
        let score = if tested { Run::test } else { Run::validation };
        let own = differences(&full, &without, score);
        if let Err(why) = enough(own.len()) {
            evidence.leave_out(task, why);
            continue;
        }
        let mean_of = |point: &Point<'_>| point.estimate(score).map(|estimate| estimate.mean);
        full_scores.extend(mean_of(&full));
        scores.extend(mean_of(&without));
        values.push(own);
    }
    if let (Some(full), Some(without)) = (mean(full_scores), mean(scores)) {
        let number = values.len();
        let over = if number == 1 { "On one task".to_owned() } else { format!("Over {number} tasks") };
        let trials = search::trials(searched);
        evidence
            .said
            .push(format!("{over} full fine-tuning averages {full:.1}, the search, of {trials} a task, {without:.1}"));
    }
    evidence.effect("Gain over the search", &thresholds::NO_BERT, &values);
    evidence
}

pub(super) fn fewer_parameters(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let mut all: Vec<(&str, Points<'_>)> = Vec::new();
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let (Some(full), false) = (best_of(&points, paper::FULL), sizes_of(&points, paper::TOP).is_empty()) else {
            continue;
        };
        if sizes_of(&points, paper::ADAPTERS).is_empty() {
            continue;
        }
        match learnt(full, Measure::Own) {
            Ok(()) => all.push((task, points)),
            Err(why) => evidence.leave_out(task, why),
        }
    }
    let shared = |name: &str| {
        let own = all.first().map(|(_, points)| sizes_of(points, name)).unwrap_or_default();
        let everywhere = |size: &f64| all.iter().all(|(_, points)| sizes_of(points, name).contains(size));
        own.into_iter().filter(everywhere).collect::<Vec<f64>>()
    };
    let Some(k) = shared(paper::TOP).first().copied() else { return evidence };
    let pairs = |size: f64| {
        let pairs = all.iter().map(|(task, points)| {
            let (adapters, top) = (sized(points, paper::ADAPTERS, Some(size))?, sized(points, paper::TOP, Some(k))?);
            (adapters.trained() <= top.trained()).then_some((*task, adapters, top))
        });
        pairs.collect::<Option<Vec<_>>>()
    };
    let score = |pairs: &[(&str, &Point<'_>, &Point<'_>)]| mean(pairs.iter().map(|(_, own, _)| own.validation().mean));
    let sizes = shared(paper::ADAPTERS).into_iter().filter_map(|size| Some((size, pairs(size)?)));
    let chosen = sizes.reduce(|best, next| if score(&next.1) > score(&best.1) { next } else { best });
    let Some((size, pairs)) = chosen else { return evidence };
    // Of validation and of test.
    let (mut values, mut scores) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (task, own, top) in &pairs {
        let tested = own.test().is_some() && top.test().is_some();
        let own_values = differences(own, top, if tested { Run::test } else { Run::validation });
        if let Err(why) = enough(own_values.len()) {
            evidence.leave_out(task, why);
            continue;
        }
        let means = |point: &Point<'_>| if tested { point.reported().mean } else { point.validation().mean };
        scores[usize::from(tested)].push((means(own), means(top)));
        values.push(own_values);
    }
    let averages = scores.iter().zip(["validation", "test"]).filter_map(|(scores, set)| {
        let of = |score: fn(&(f64, f64)) -> f64| mean(scores.iter().map(score));
        let (own, top, number) = (of(|pair| pair.0)?, of(|pair| pair.1)?, scores.len());
        Some(format!("{own:.1} and {top:.1} on {set} ({})", counted(number, "task")))
    });
    let averages: Vec<String> = averages.collect();
    if let (false, Some((_, first, other))) = (averages.is_empty(), pairs.first()) {
        evidence.said.push(format!(
            "Adapters of size {size} with {} trained parameters and the top {} with {} average {}",
            count(first.trained() as f64),
            if k == 1.0 { "layer".to_owned() } else { format!("{k} layers") },
            count(other.trained() as f64),
            averages.join(", ")
        ));
    }
    evidence.effect("Adapters minus top layers", &thresholds::FEWER, &values);
    evidence
}

/// The adapters that stand for a task where one size is asked for: 64 as in the paper, or the size nearest to it.
fn usual_size<'p, 'a>(points: &'p Points<'a>) -> Option<(f64, &'p Point<'a>)> {
    let nearest = |a: &f64, b: &f64| from_usual(*a).total_cmp(&from_usual(*b));
    let size = sizes_of(points, paper::ADAPTERS).into_iter().min_by(nearest)?;
    Some((size, sized(points, paper::ADAPTERS, Some(size))?))
}

pub(super) fn below_adapters(runs: &[&Run], name: &str, size: Option<f64>, threshold: &Threshold) -> Evidence {
    let (mut evidence, mut values, mut called) = (Evidence::default(), Vec::new(), "");
    let score = |run: &Run| Measure::Accuracy.score(run);
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let (Some(own), Some((size, adapters))) = (sized(&points, name, size), usual_size(&points)) else { continue };
        let pairs = differences(adapters, own, score);
        let known = reference(&points).map_or(Ok(()), |point| learnt(point, Measure::Accuracy));
        if let Err(why) = known.and_then(|()| enough(pairs.len())) {
            evidence.leave_out(task, why);
            continue;
        }
        values.push(pairs);
        called = &own.seeds[0].method().label;
        let (own, adapters) = (own.shown().written(), adapters.shown().written());
        evidence.said.push(format!("{}: {called} {own}, adapters of size {size} {adapters}", task_name(task)));
    }
    evidence.effect(&format!("Adapters minus {called}"), threshold, &values);
    evidence
}

pub(super) fn question_answering(runs: &[&Run]) -> Evidence {
    let (mut evidence, mut values) = (Evidence::default(), Vec::new());
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let both = (best_of(&points, paper::FULL), best_of(&points, paper::ADAPTERS));
        let (Some(full), Some(adapters)) = both else { continue };
        let pairs = differences(full, adapters, Run::validation);
        if let Err(why) = learnt(full, Measure::Own).and_then(|()| enough(pairs.len())) {
            evidence.leave_out(task, why);
            continue;
        }
        let scores: Vec<f64> = full.seeds.iter().filter_map(|run| Some(100.0 * run.validation()?)).collect();
        let floor = thresholds::ANSWERS_FLOOR.limit;
        let label = &adapters.seeds[0].method().label;
        let said =
            format!("{label} {}, full fine-tuning {}", adapters.validation().written(), full.validation().written());
        if of_seeds(&scores).is_none_or(|(_, interval)| interval.low <= floor) {
            evidence.leave_out(task, format!("{said}: not clearly above {floor}"));
            continue;
        }
        evidence.said.push(format!("{}: {said}", task_name(task)));
        values.push(pairs);
    }
    evidence.effect("Loss against full fine-tuning", &thresholds::ANSWERS, &values);
    evidence
}
