//! Whether what the paper found shows in these runs. Every verdict is an effect with an interval, computed from the records and
//! held against [`thresholds`](crate::thresholds()), whichever way it falls.

use std::collections::BTreeMap;

use crate::{
    AblationRecord, MethodRecord, Store,
    axis::{count, exact, signed},
    evidence::{Effect, Interval, IntervalMethod, Verdict, around, of_seeds, variance},
    names::task_name,
    paper, search_tables,
    select::{Point, Sweep, best_point, by_method, mean, sweeps, tasks},
    setup::Run,
    standing::{Measure, Standing, standing},
    table::{Cell, Table},
    tables::{Variant, compare_variants, sizes_by_task},
    thresholds::{self, Threshold},
};

/// A finding of the paper, held against the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// The figures and tables that it belongs to.
    pub shown_in: &'static [&'static str],
    /// What the paper found, and what is compared here.
    pub paper: &'static str,
    /// What these runs show, its effects and what was left out.
    pub shows: String,
    /// What follows.
    pub verdict: Verdict,
    /// What it follows from: all of them must agree. Empty if there is nothing to compare.
    pub effects: Vec<Effect>,
    /// Where these runs disagree: the likely reason, if one is known.
    pub likely: Option<String>,
}

impl Finding {
    /// Its effects in short, or why there are none.
    pub fn brief(&self) -> String {
        let first = || self.shows.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned();
        if self.effects.is_empty() {
            return first();
        }
        self.effects.iter().map(Effect::brief).collect::<Vec<_>>().join(" · ")
    }
}

/// What follows from each, as a table.
pub fn verdicts(findings: &[Finding]) -> Table {
    let row = |finding: &Finding| {
        vec![
            Cell::text(finding.name),
            Cell::text(finding.verdict.in_words()),
            Cell::text(finding.shown_in.join(", ")),
            Cell::text(finding.brief()),
        ]
    };
    Table {
        title: "Findings of the paper, held against these runs".to_owned(),
        head: ["finding", "verdict", "from", "effect, 95 % interval, what is asked for"].map(str::to_owned).into(),
        rows: findings.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// What runs show of a finding.
#[derive(Default)]
struct Evidence {
    said: Vec<String>,
    /// Tasks that say nothing, and why.
    left_out: Vec<String>,
    effects: Vec<Effect>,
    /// Why these runs may disagree.
    likely: Option<String>,
}

impl Evidence {
    fn leave_out(&mut self, task: &str, why: impl AsRef<str>) {
        self.left_out.push(format!("{} ({})", task_name(task), why.as_ref()));
    }

    /// Adds an effect over tasks, each with its seeds' values.
    fn effect(&mut self, what: &str, threshold: &Threshold, values: &[Vec<f64>]) {
        self.effects.extend(Effect::of(what, threshold, values));
    }

    /// In words; `None` if there was nothing to look at.
    fn shows(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.said.is_empty() {
            parts.push(self.said.join("; ") + ".");
        }
        parts.extend(self.effects.iter().map(Effect::in_words));
        if self.effects.is_empty() && !self.left_out.is_empty() {
            parts.push("Nothing is left to compare.".to_owned());
        }
        if !self.left_out.is_empty() {
            parts.push(format!("Left out: {}.", self.left_out.join("; ")));
        }
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

/// Every finding.
pub fn findings(store: &Store) -> Vec<Finding> {
    let of = |preset: &str, judge: &dyn Fn(&[&Run]) -> Evidence| (preset.to_owned(), judge(&store.preset_runs(preset)));
    let finding = |name, shown_in, paper, needs: &str, (preset, evidence): (String, Evidence)| {
        let mut shows = evidence.shows().unwrap_or_else(|| format!("Not enough runs to say: {needs}."));
        if let Some(overridden) = store.preset(&preset).and_then(|record| record.overridden()) {
            shows += &format!(" This is {preset} {overridden}.");
        }
        let Evidence { effects, likely, .. } = evidence;
        let verdict = Verdict::of(&effects);
        let likely = likely.filter(|_| verdict == Verdict::Disagrees);
        Finding { name, shown_in, paper, shows, verdict, effects, likely }
    };
    let first = |presets: &[&str], judge: &dyn Fn(&[&Run]) -> Evidence| {
        let all: Vec<(String, Evidence)> = presets.iter().map(|preset| of(preset, judge)).collect();
        let place = all.iter().position(|(_, evidence)| !evidence.effects.is_empty());
        let place = place.or_else(|| all.iter().position(|(_, evidence)| !evidence.left_out.is_empty()));
        all.into_iter().nth(place.unwrap_or(0)).unwrap_or_default()
    };
    let spans = |judge: &dyn Fn(&Ablated<'_>, &mut Evidence)| ("fig6-spans".to_owned(), of_spans(store, judge));
    let not_enough = |method: &'static str, size: Option<f64>, threshold: &'static Threshold| {
        move |runs: &[&Run]| below_adapters(runs, method, size, threshold)
    };
    vec![
        finding(
            "Adapters come close to full fine-tuning",
            &["table1"],
            "On GLUE adapters come within 0.4 points of full fine-tuning and train 3.6 % of the parameters. Compared here: full \
             fine-tuning and, on each task, the size of few parameters with the best mean on validation.",
            "table1 needs a task with full fine-tuning and adapters",
            of("table1", &|runs| close_to_full(runs, Some(thresholds::FEW.limit))),
        ),
        finding(
            "Adapters come close on the additional tasks too",
            &["table2"],
            "On 17 more tasks adapters average 73.3 against 73.7 of full fine-tuning with 1.1 % of the parameters. Compared here: \
             test scores where there are any, of the size with the best mean on validation.",
            "table2 needs a task with full fine-tuning and adapters",
            of("table2", &|runs| close_to_full(runs, None)),
        ),
        finding(
            "Transfer from BERT beats the search without BERT",
            &["table2"],
            "On the 17 tasks a large search over classifiers without BERT averages 72.7, full fine-tuning 73.7. Compared here: \
             test scores where there are any, of what validation chose.",
            "table2 needs full fine-tuning, and baseline trials on the same task",
            (
                "table2".to_owned(),
                beats_search(&store.preset_runs("table2"), &store.preset_runs(search_tables::PRESET)),
            ),
        ),
        finding(
            "With as few parameters, adapters beat tuning the top layers",
            &["fig1", "fig3"],
            "Adapters keep their score over two orders of magnitude of trained parameters, where tuning fewer top layers loses \
             much. Compared here: the smallest k, and one size that trains no more on any task, the one with the best mean on \
             validation.",
            "fig3 needs full fine-tuning, top-k, and adapters that are no larger than the smallest top-k",
            of("fig3", &fewer_parameters),
        ),
        finding(
            "LayerNorm alone is not enough",
            &["fig4"],
            "Tuning only the LayerNorms loses 3.5 points on CoLA and 4 on MNLI. Compared here: accuracy against adapters of size \
             64, or the size nearest to it.",
            "fig4 needs LayerNorm only and adapters on the same task",
            of("fig4", &not_enough(paper::LAYER_NORM, None, &thresholds::LAYER_NORM)),
        ),
        finding(
            "The head alone is clearly not enough",
            &["fig4"],
            "The paper gives no number for it, but its case rests on it: a linear head on the frozen network is not enough. \
             Compared here: accuracy against adapters of size 64, or the size nearest to it.",
            "no experiment has head only and adapters on the same task",
            first(&["fig4", "fig3", "table1", "table2"], &not_enough(paper::HEAD, None, &thresholds::HEAD)),
        ),
        finding(
            "Tuning only the top layer is worse than adapters",
            &["fig4"],
            "On MNLI the top layer alone reaches 77.8, adapters with fewer parameters 83.7. Compared here: accuracy against \
             adapters of size 64, or the size nearest to it.",
            "fig4 needs top-1 and adapters on the same task",
            first(&["fig4", "fig3"], &not_enough(paper::TOP, Some(1.0), &thresholds::TOP_LAYER)),
        ),
        finding(
            "Adapters work for question answering",
            &["fig5"],
            "On SQuAD adapters of size 64 reach an F1 of 90.4, full fine-tuning 90.7. Compared here: the size with the best mean, \
             where full fine-tuning answers most questions.",
            "fig5 needs full fine-tuning and adapters",
            of("fig5", &question_answering),
        ),
        finding(
            "Without all adapters the network knows nothing of the task",
            &["fig6-spans"],
            "With all adapters removed the score falls to that of the most frequent class. Compared here: what is left above it, \
             on every task.",
            "fig6-spans needs ablations of a classification task",
            spans(&all_removed),
        ),
        finding(
            "A single layer's adapters matter little",
            &["fig6-spans"],
            "Removing the adapters of one layer costs at most 2 %. Compared here: the layer that costs most, on every task.",
            "fig6-spans needs ablations",
            spans(&single_layers),
        ),
        finding(
            "Higher layers matter more than lower ones",
            &["fig6-spans"],
            "Removing the adapters of the lower layers hardly changes the score; on MNLI those of layers 0 to 4 hardly matter. \
             Compared here: the removal of the upper half and of the lower half.",
            "fig6-spans needs ablations of a network with two layers or more",
            ("fig6-spans".to_owned(), higher_layers(store)),
        ),
        finding(
            "The initial σ matters only when it is large",
            &["fig6-init"],
            "Scores are flat for σ up to 0.01 and fall above. Compared here: accuracy at every smaller σ, and at σ = 1, with that \
             at 0.01.",
            "fig6-init needs two values of σ up to 0.01, and σ = 1",
            of("fig6-init", &initial_scale),
        ),
        finding(
            "Adapters are robust to the learning rate",
            &["fig7"],
            "Adapters hold their score over the learning rates from 2e-5 to 1e-3, full fine-tuning does not. Compared here: the \
             adapters' accuracy at every rate with their best, and what both methods lose over the same rates.",
            "fig7 needs both methods at three learning rates or more",
            of("fig7", &learning_rates),
        ),
        finding(
            "The adapters' size matters little",
            &["sizes"],
            "Sizes 8, 64 and 256 average 86.2, 85.8 and 85.7. Compared here: the best size with the worst, by mean accuracy over \
             the tasks.",
            "sizes needs two sizes on the same classification task",
            of("sizes", &size_matters_little),
        ),
        finding(
            "Variants of the adapter do not help",
            &["variants"],
            "Normalisation inside, more layers, other activations, attention only and parallel adapters brought no gain. Compared \
             here: every variant with the paper's adapter.",
            "variants needs the paper's adapter and another",
            of("variants", &no_variant_helps),
        ),
        finding(
            "What was learnt stays as it was",
            &["stream"],
            "New tasks cannot change old ones, because the shared network is never changed. Compared here: every output of all \
             earlier tasks after every task, bit for bit.",
            "stream needs adapters on two tasks or more",
            ("stream".to_owned(), nothing_forgotten(store)),
        ),
    ]
}

/// Points of a task, by method.
type Points<'a> = Vec<(&'a MethodRecord, Point<'a>)>;

/// The points of a method, whatever its size.
fn of<'p, 'a>(points: &'p Points<'a>, name: &str) -> impl Iterator<Item = &'p Point<'a>> {
    points.iter().filter(move |(method, _)| method.name == name).map(|(_, point)| point)
}

/// The size or k of a method with the best mean validation score.
fn best_of<'p, 'a>(points: &'p Points<'a>, name: &str) -> Option<&'p Point<'a>> {
    best_point(of(points, name))
}

/// The best point of a method at one size.
fn sized<'p, 'a>(points: &'p Points<'a>, name: &str, size: Option<f64>) -> Option<&'p Point<'a>> {
    let own = points.iter().filter(|(method, _)| method.name == name && method.size == size);
    best_point(own.map(|(_, point)| point))
}

/// Sizes or ks of a method, in their order.
fn sizes_of(points: &Points<'_>, name: &str) -> Vec<f64> {
    let mut sizes: Vec<f64> =
        points.iter().filter(|(method, _)| method.name == name).filter_map(|(method, _)| method.size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// Differences in points of the seeds that two points share.
fn differences(a: &Point<'_>, b: &Point<'_>, score: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    let pair = |own: &&Run| {
        let other = b.seeds.iter().find(|other| other.seed == own.seed)?;
        Some(100.0 * (score(own)? - score(other)?))
    };
    a.seeds.iter().filter_map(pair).collect()
}

/// Whether there are seeds enough to say anything.
fn enough(seeds: usize) -> Result<(), String> {
    let few = seeds as f64 <= thresholds::SEEDS.limit;
    if few { Err("fewer than three seeds of both".to_owned()) } else { Ok(()) }
}

/// The point that must have learnt its task: full fine-tuning, or else the best adapters.
fn reference<'p, 'a>(points: &'p Points<'a>) -> Option<&'p Point<'a>> {
    best_of(points, paper::FULL).or_else(|| best_of(points, paper::ADAPTERS))
}

/// Why a task says nothing, if so.
fn learnt(point: &Point<'_>, measure: Measure) -> Result<(), String> {
    let label = &point.seeds[0].method().label;
    match standing(point, measure) {
        Standing::Clear | Standing::Ceiling => {
            enough(point.seeds.len()).map_err(|_| format!("fewer than three seeds of {label}"))
        }
        Standing::Floor => {
            let (own, trivial) = (measure.estimate(point).written(), measure.trivial(point.seeds[0]));
            let trivial = trivial.map_or(String::new(), |trivial| format!("'s {:.1}", 100.0 * trivial));
            Err(format!("{label} with {own} does not clearly beat the trivial answer{trivial}"))
        }
        Standing::Unknown => Err("the trivial answer's score is not recorded".to_owned()),
    }
}

/// The result in one sentence: what adapters and full fine-tuning score, and what they train. `None` if no experiment has both.
pub(crate) fn headline(store: &Store) -> Option<String> {
    let of = |preset: &str, most: Option<f64>| compare_with_full(&store.preset_runs(preset), most).0;
    let Compared { tasks, full, adapters, share, .. } =
        of("table1", Some(thresholds::FEW.limit)).or_else(|| of("table2", None)).or_else(|| of("fig4", None))?;
    let over = if tasks == 1 { "on one task".to_owned() } else { format!("over {tasks} tasks") };
    Some(format!(
        "Adapters that train {share:.1} % of the parameters for each task score {adapters:.1} {over}; full fine-tuning scores \
         {full:.1}."
    ))
}

/// The tasks of Table 1 that its verdict compares.
pub(crate) fn compared_tasks<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    compare_with_full(runs, Some(thresholds::FEW.limit)).1
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

fn close_to_full(runs: &[&Run], most: Option<f64>) -> Evidence {
    let (compared, _, mut evidence, values) = compare_with_full(runs, most);
    if let Some(Compared { tasks, full, adapters, share, part }) = compared {
        evidence.said.push(format!(
            "Over {tasks} tasks adapters average {adapters:.1}, full fine-tuning {full:.1}: {part:.0} % of what it gains over the \
             trivial answer, each task weighing alike; they train {share:.1} % of the parameters"
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
            parts.push(100.0 * (small - 100.0 * trivial) / (whole - 100.0 * trivial));
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

fn beats_search(runs: &[&Run], searched: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let (mut values, mut full_scores, mut scores) = (vec![], vec![], vec![]);
    for task in tasks(runs) {
        let (Some(full), Some(without)) =
            (best_of(&by_method(runs, task), paper::FULL).cloned(), search_tables::found(searched, task))
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
        evidence.said.push(format!("{over} full fine-tuning averages {full:.1}, the search {without:.1}"));
    }
    evidence.effect("Gain over the search", &thresholds::NO_BERT, &values);
    evidence
}

fn fewer_parameters(runs: &[&Run]) -> Evidence {
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
    let (mut values, mut own_scores, mut top_scores) = (Vec::new(), Vec::new(), Vec::new());
    for (task, own, top) in &pairs {
        let tested = own.test().is_some() && top.test().is_some();
        let own_values = differences(own, top, if tested { Run::test } else { Run::validation });
        if let Err(why) = enough(own_values.len()) {
            evidence.leave_out(task, why);
            continue;
        }
        let means = |point: &Point<'_>| if tested { point.reported().mean } else { point.validation().mean };
        own_scores.push(means(own));
        top_scores.push(means(top));
        values.push(own_values);
    }
    if let (Some(own), Some(top), Some((_, first, other))) = (mean(own_scores), mean(top_scores), pairs.first()) {
        evidence.said.push(format!(
            "Over {} tasks adapters of size {size} average {own:.1} with {} trained parameters, the top {k} layers {top:.1} with {}",
            values.len(),
            count(first.trained() as f64),
            count(other.trained() as f64)
        ));
    }
    evidence.effect("Adapters minus top layers", &thresholds::FEWER, &values);
    evidence
}

/// The adapters that stand for a task where one size is asked for: 64 as in the paper, or the size nearest to it.
fn usual_size<'p, 'a>(points: &'p Points<'a>) -> Option<(f64, &'p Point<'a>)> {
    let distance = |size: f64| (size.log2() - 6.0).abs();
    let size = sizes_of(points, paper::ADAPTERS).into_iter().min_by(|a, b| distance(*a).total_cmp(&distance(*b)))?;
    Some((size, sized(points, paper::ADAPTERS, Some(size))?))
}

fn below_adapters(runs: &[&Run], name: &str, size: Option<f64>, threshold: &Threshold) -> Evidence {
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

fn question_answering(runs: &[&Run]) -> Evidence {
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

/// The ablations of one task, one for each seed.
struct Ablated<'a> {
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
fn of_spans(store: &Store, judge: &dyn Fn(&Ablated<'_>, &mut Evidence)) -> Evidence {
    let mut evidence = Evidence::default();
    for ablated in Ablated::all(store) {
        match ablated.learnt() {
            Ok(()) => judge(&ablated, &mut evidence),
            Err(why) => evidence.leave_out(ablated.task, why),
        }
    }
    evidence
}

fn all_removed(ablated: &Ablated<'_>, evidence: &mut Evidence) {
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
fn single_layers(ablated: &Ablated<'_>, evidence: &mut Evidence) {
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

fn higher_layers(store: &Store) -> Evidence {
    let (mut evidence, mut values) = (Evidence::default(), Vec::new());
    for ablated in Ablated::all(store).iter().filter(|ablated| ablated.layers >= 2) {
        let half = ablated.layers / 2;
        let (lower, upper) = (ablated.losses(0, half - 1), ablated.losses(ablated.layers - half, ablated.layers - 1));
        let same = if lower.len() == upper.len() { Ok(()) } else { Err("not every span is there".to_owned()) };
        if let Err(why) = ablated.learnt().and(same) {
            evidence.leave_out(ablated.task, why);
            continue;
        }
        if let (Some(lower), Some(upper)) = (mean(lower.iter().copied()), mean(upper.iter().copied())) {
            let (lower, upper) = (signed(-lower), signed(-upper));
            evidence.said.push(format!(
                "{}: without the lower {half} layers {lower} %, without the upper {half} {upper} %",
                task_name(ablated.task)
            ));
        }
        values.push(upper.iter().zip(&lower).map(|(upper, lower)| upper - lower).collect());
    }
    evidence.effect("Loss of the upper half minus the lower", &thresholds::HIGHER, &values);
    evidence
}

/// The point of a sweep at a value, which may have been written as a rounded number.
fn at<'p, 'a>(sweep: &'p Sweep<'a>, value: f64) -> Option<&'p Point<'a>> {
    sweep.points.iter().find(|(own, _)| (own / value - 1.0).abs() < 1e-3).map(|(_, point)| point)
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

fn initial_scale(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let sweeps = sweeps(runs, paper::INIT_STD);
    let mut all: Vec<(&Sweep<'_>, &Point<'_>)> = Vec::new();
    for task in tasks(runs) {
        let Some(sweep) = sweeps.iter().find(|sweep| sweep.task == task) else { continue };
        // 1e-2 may have been written as a rounded number.
        let small: Vec<&(f64, Point<'_>)> = sweep.points.iter().filter(|(sigma, _)| *sigma <= 0.01 * 1.001).collect();
        let (Some((_, usual)), Some(large), true) = (small.last(), at(sweep, 1.0), small.len() >= 2) else { continue };
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

fn learning_rates(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let sweeps = sweeps(runs, "lr");
    let mut both: Vec<(&Sweep<'_>, &Sweep<'_>)> = Vec::new();
    for task in tasks(runs) {
        let of = |name: &str| sweeps.iter().find(|sweep| sweep.task == task && sweep.method.name == name);
        let (Some(adapters), Some(full)) = (of(paper::ADAPTERS), of(paper::FULL)) else { continue };
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
        let epochs = first.points.first().and_then(|(_, point)| point.seeds.first()?.value("epochs"));
        let after = epochs.map_or(String::new(), |epochs| format!(" after {epochs} epochs"));
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

fn size_matters_little(runs: &[&Run]) -> Evidence {
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
    evidence.said.push(format!("Over {} tasks: {}", kept.len(), said.join(", ")));
    let values = kept.iter().map(|points| differences(&points[best.0], &points[worst.0], Run::accuracy));
    let values: Vec<Vec<f64>> = values.collect();
    evidence.effect(&format!("Size {} minus size {}", best.1, worst.1), &thresholds::SIZES, &values);
    evidence
}

fn no_variant_helps(runs: &[&Run]) -> Evidence {
    let mut evidence = Evidence::default();
    let all = compare_variants(runs);
    let mut useless: BTreeMap<&str, String> = BTreeMap::new();
    for variant in all.iter().filter(|variant| variant.paper) {
        for (task, point) in &variant.points {
            useless.extend(learnt(point, Measure::Own).err().map(|why| (*task, why)));
        }
    }
    let others = || all.iter().filter(|variant| !variant.paper);
    if others().next().is_none() {
        return evidence;
    }
    let gain = |variant: &Variant<'_>| {
        let paper = all.iter().find(|other| other.paper && other.size == variant.size)?;
        let pairs = variant.points.iter().filter(|(task, _)| !useless.contains_key(*task));
        let values =
            pairs.filter_map(|(task, point)| Some(differences(point, paper.points.get(task)?, Run::validation)));
        let values: Vec<Vec<f64>> = values.filter(|values| enough(values.len()).is_ok()).collect();
        Effect::of(format!("Gain of {}", variant.name), &thresholds::VARIANTS, &values)
    };
    let gains: Vec<Effect> = others().filter_map(gain).collect();
    let (judged, known) = (gains.len(), others().count());
    evidence.left_out.extend(useless.iter().map(|(task, why)| format!("{} ({why})", task_name(task))));
    if let Some(deciding) = Effect::deciding(gains) {
        evidence.said.push(format!("Of {judged} variants one decides"));
        evidence.effects.push(deciding);
    }
    if judged > 0 && judged < known {
        evidence.left_out.push(format!("{} variants (fewer than three seeds)", known - judged));
    } else if judged == 0 && all.iter().any(|variant| variant.paper) && useless.is_empty() {
        evidence.left_out.push("all variants (fewer than three seeds of both)".to_owned());
    }
    evidence
}

fn nothing_forgotten(store: &Store) -> Evidence {
    let mut evidence = Evidence::default();
    let streams = store.preset("stream").map(|record| store.streams(record)).unwrap_or_default();
    let mut changed: Vec<usize> = Vec::new();
    for stream in streams.iter().filter(|stream| stream.stages.len() >= 2) {
        // A stage's own task was just learnt: it says nothing of memory.
        let earlier =
            || stream.stages.iter().flat_map(|stage| stage.recall.iter().filter(|recall| recall.task != stage.task));
        let (all, same) = (earlier().count(), earlier().filter(|recall| recall.identical).count());
        let losses: Vec<f64> = earlier().map(|recall| 100.0 * (recall.then - recall.now)).collect();
        let worst = losses.iter().copied().fold(0.0, f64::max);
        evidence
            .said
            .push(format!("{}: {same} of {all} evaluations identical, largest loss {worst:.1} points", stream.tuning));
        if stream.tuning == paper::ADAPTERS {
            changed.push(all - same);
        }
    }
    if changed.is_empty() {
        return Evidence::default();
    }
    let number = changed.iter().sum::<usize>() as f64;
    let interval = Interval { low: number, high: number, method: IntervalMethod::Exact };
    let what = "Evaluations of earlier tasks with any changed output";
    evidence.effects.push(Effect::new(what, &thresholds::MEMORY, number, interval, 1, changed.len()));
    evidence
}
