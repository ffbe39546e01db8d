//! Whether what the paper found shows in these runs. Every verdict is computed from the records, whichever way it falls.

use crate::{
    MethodRecord, Store,
    axis::signed,
    figures::{groups, mean_spans, relative},
    paper,
    select::{Point, best_point, by_method, mean, sweeps, tasks},
    setup::Run,
    tables::{accuracy_by_size, compare_variants},
};

/// A finding of the paper, held against the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// The figures and tables that it belongs to.
    pub shown_in: &'static [&'static str],
    /// What the paper found, and what counts as agreement here.
    pub paper: &'static str,
    /// What these runs show.
    pub shows: String,
    /// Whether they agree; `None` if there are not enough runs.
    pub agrees: Option<bool>,
}

/// What runs show, and whether it agrees; `None` if there are not enough of them.
type Verdict = Option<(String, bool)>;

/// Every finding.
pub fn findings(store: &Store) -> Vec<Finding> {
    let finding = |name, shown_in, paper, needs: &str, verdict: Verdict| {
        let (shows, agrees) = match verdict {
            Some((shows, agrees)) => (shows, Some(agrees)),
            None => (format!("Not enough runs to say: {needs}."), None),
        };
        Finding { name, shown_in, paper, shows, agrees }
    };
    vec![
        finding(
            "Adapters come close to full fine-tuning",
            &["table1"],
            "On GLUE adapters come within 0.4 points of full fine-tuning and train 3.6 % of the parameters. Agreement here: \
             within 2 points on average, with sizes that train under 10 % of the backbone's parameters.",
            "table1 needs a task with full fine-tuning and adapters",
            close_to_full(&store.preset_runs("table1")),
        ),
        finding(
            "Adapters come close on the additional tasks too",
            &["table2"],
            "On 17 more tasks adapters average 73.3 against 73.7 of full fine-tuning with 1.1 % of the parameters. Agreement \
             here: within 2 points on average.",
            "table2 needs a task with full fine-tuning and adapters",
            additional(&store.preset_runs("table2")),
        ),
        finding(
            "With as few parameters, adapters beat tuning the top layers",
            &["fig1", "fig3"],
            "Adapters keep their score over two orders of magnitude of trained parameters, where tuning fewer top layers loses \
             much. Agreement here: the median of the best adapters that train no more than the smallest top-k is higher.",
            "fig3 needs full fine-tuning, top-k, and adapters that are no larger than the smallest top-k",
            fewer_parameters(&store.preset_runs("fig3")),
        ),
        finding(
            "LayerNorm alone is not enough",
            &["fig4"],
            "Tuning only the LayerNorms loses 3.5 points on CoLA and 4 on MNLI. Agreement here: below adapters on average.",
            "fig4 needs LayerNorm only and adapters on the same task",
            below_adapters(store, &["fig4"], paper::LAYER_NORM, None, 0.0),
        ),
        finding(
            "The head alone is clearly not enough",
            &["fig4"],
            "The paper gives no number for it, but its case rests on it: a linear head on the frozen network is not enough. \
             Agreement here: at least 5 points below adapters on average.",
            "no experiment has head only and adapters on the same task",
            below_adapters(store, &["fig4", "fig3", "table1", "table2"], paper::HEAD, None, 5.0),
        ),
        finding(
            "Tuning only the top layer is worse than adapters",
            &["fig4"],
            "On MNLI the top layer alone reaches 77.8, adapters with fewer parameters 83.7. Agreement here: below adapters on \
             average.",
            "fig4 needs top-1 and adapters on the same task",
            below_adapters(store, &["fig4", "fig3"], paper::TOP, Some(1.0), 0.0),
        ),
        finding(
            "Adapters work for question answering",
            &["fig5"],
            "On SQuAD adapters of size 64 reach an F1 of 90.4, full fine-tuning 90.7. Agreement here: the best size within 2 \
             points.",
            "fig5 needs full fine-tuning and adapters",
            question_answering(&store.preset_runs("fig5")),
        ),
        finding(
            "Without all adapters the network knows nothing of the task",
            &["fig6-spans"],
            "With all adapters removed the score falls to that of the most frequent class. Agreement here: within 5 points of it \
             on every task.",
            "fig6-spans needs ablations of a classification task",
            all_removed(store),
        ),
        finding(
            "A single layer's adapters matter little",
            &["fig6-spans"],
            "Removing the adapters of one layer costs at most 2 %. Agreement here: at most 5 % for every layer of every task.",
            "fig6-spans needs ablations",
            single_layers(store),
        ),
        finding(
            "Higher layers matter more than lower ones",
            &["fig6-spans"],
            "Removing the adapters of the lower layers hardly changes the score; on MNLI those of layers 0 to 4 hardly matter. \
             Agreement here: on average the upper half's removal costs more than the lower half's.",
            "fig6-spans needs ablations of a network with two layers or more",
            higher_layers(store),
        ),
        finding(
            "The initial σ matters only when it is large",
            &["fig6-init"],
            "Scores are flat for σ up to 0.01 and fall above. Agreement here: on average over the tasks they differ by at most 3 \
             points up to 0.01, and are at least 1 point lower at 1.",
            "fig6-init needs two values of σ up to 0.01, and σ = 1",
            initial_scale(&store.preset_runs("fig6-init")),
        ),
        finding(
            "Adapters are robust to the learning rate",
            &["fig7"],
            "Adapters hold their score over the learning rates from 2e-5 to 1e-3, full fine-tuning does not. Agreement here: the \
             adapters' scores spread less over the same learning rates, on average over the tasks.",
            "fig7 needs both methods at three learning rates or more",
            learning_rates(&store.preset_runs("fig7")),
        ),
        finding(
            "The adapters' size matters little",
            &["sizes"],
            "Sizes 8, 64 and 256 average 86.2, 85.8 and 85.7. Agreement here: means over the tasks spread by at most 1 point.",
            "sizes needs two sizes on the same classification task",
            size_matters_little(&store.preset_runs("sizes")),
        ),
        finding(
            "Variants of the adapter do not help",
            &["variants"],
            "Normalisation inside, more layers, other activations, attention only and parallel adapters brought no gain. \
             Agreement here: no variant is more than 1 point better than the paper's adapter on average over the tasks.",
            "variants needs the paper's adapter and another",
            no_variant_helps(&store.preset_runs("variants")),
        ),
        finding(
            "What was learnt stays as it was",
            &["stream"],
            "New tasks cannot change old ones, because the shared network is never changed. Agreement here: after every task \
             every output of all earlier ones is the same, bit for bit.",
            "stream needs adapters on two tasks or more",
            nothing_forgotten(store),
        ),
    ]
}

fn close_to_full(runs: &[&Run]) -> Verdict {
    let (mut full, mut small, mut shares, mut compared) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let whole = of(&points, paper::FULL).filter_map(|point| point.best().validation());
        let Some(whole) = whole.reduce(f64::max) else { continue };
        let adapters = || of(&points, paper::ADAPTERS).map(Point::best);
        if adapters().next().is_none() {
            continue;
        }
        compared += 1;
        let best = adapters().filter(|run| run.trained_share() < 0.1);
        let best = best.reduce(|best, run| if run.validation() > best.validation() { run } else { best });
        if let Some((run, score)) = best.and_then(|run| Some((run, run.validation()?))) {
            full.push(100.0 * whole);
            small.push(100.0 * score);
            shares.push(100.0 * run.trained_share());
        }
    }
    if compared == 0 {
        return None;
    }
    let n = small.len();
    let (Some(full), Some(small), Some(share)) = (mean(full), mean(small), mean(shares)) else {
        let shows = format!("On none of {compared} tasks do adapters of any size train under 10 % of the parameters.");
        return Some((shows, false));
    };
    let mut shows = format!(
        "Over {n} tasks adapters average {small:.1}, full fine-tuning {full:.1} ({} points); they train {share:.1} % of the \
         parameters.",
        signed(small - full)
    );
    if n < compared {
        shows += &format!(" On {} tasks no size trains under 10 %.", compared - n);
    }
    Some((shows, n == compared && small >= full - 2.0))
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

/// The adapters that stand for a task where one size is asked for: 64 as in the paper, or the size nearest to it.
fn usual_size<'p, 'a>(points: &'p Points<'a>) -> Option<(f64, &'p Point<'a>)> {
    let adapters = points.iter().filter(|(method, _)| method.name == paper::ADAPTERS);
    let distance = |size: f64| (size.log2() - 6.0).abs();
    let sizes = adapters.filter_map(|(method, point)| Some((method.size?, point)));
    sizes.min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)))
}

fn additional(runs: &[&Run]) -> Verdict {
    let pairs = tasks(runs).into_iter().filter_map(|task| {
        let points = by_method(runs, task);
        let (full, adapters) = (best_of(&points, paper::FULL)?, best_of(&points, paper::ADAPTERS)?);
        // Both by test scores, or both by validation scores.
        let (full_score, score) = match (full.test(), adapters.test()) {
            (Some(full), Some(own)) => (full, own),
            _ => (full.validation(), adapters.validation()),
        };
        Some((full_score.mean, score.mean, 100.0 * adapters.seeds[0].trained_share()))
    });
    let pairs: Vec<(f64, f64, f64)> = pairs.collect();
    let full = mean(pairs.iter().map(|pair| pair.0))?;
    let adapters = mean(pairs.iter().map(|pair| pair.1))?;
    let share = mean(pairs.iter().map(|pair| pair.2))?;
    let shows = format!(
        "Over {} tasks adapters average {adapters:.1}, full fine-tuning {full:.1} ({} points); adapters train {share:.1} % of \
         the parameters.",
        pairs.len(),
        signed(adapters - full)
    );
    Some((shows, adapters >= full - 2.0))
}

fn fewer_parameters(runs: &[&Run]) -> Verdict {
    let mut said = Vec::new();
    let mut agrees = true;
    for (tasks, test) in groups(runs).into_iter().zip([false, true]) {
        let points = relative(runs, &tasks, test);
        let top = points.iter().filter(|point| point.method.name == paper::TOP);
        let Some(top) = top.min_by(|a, b| a.trained.total_cmp(&b.trained)) else { continue };
        let adapters = points.iter().filter(|point| point.method.name == paper::ADAPTERS);
        let small = adapters.filter(|point| point.trained <= top.trained);
        let Some(adapters) = small.max_by(|a, b| a.percentiles[1].total_cmp(&b.percentiles[1])) else { continue };
        let (ours, theirs) = (adapters.percentiles[1], top.percentiles[1]);
        agrees &= ours > theirs;
        said.push(format!(
            "{} scores of {} tasks: {} {}, {} {} points against full fine-tuning (medians)",
            if test { "test" } else { "validation" },
            tasks.len(),
            adapters.method.label,
            signed(ours),
            top.method.label,
            signed(theirs)
        ));
    }
    (!said.is_empty()).then(|| (sentence(&said), agrees))
}

/// A method, of one size if it has any, against the adapters of the usual size, in the first experiment that has both.
fn below_adapters(store: &Store, experiments: &[&str], name: &str, size: Option<f64>, margin: f64) -> Verdict {
    for experiment in experiments {
        let runs = store.preset_runs(experiment);
        let (mut said, mut gaps, mut called) = (Vec::new(), Vec::new(), "");
        for task in tasks(&runs) {
            let points = by_method(&runs, task);
            let own = points.iter().filter(|(method, _)| method.name == name && method.size == size);
            let Some(own) = best_point(own.map(|(_, point)| point)) else { continue };
            let Some((size, adapters)) = usual_size(&points) else { continue };
            called = &own.seeds[0].method().label;
            let (own, adapters) = (own.validation(), adapters.validation());
            gaps.push(adapters.mean - own.mean);
            let (own, adapters) = (own.written(), adapters.written());
            said.push(format!("{task} {own} against {adapters} with adapters of size {size}"));
        }
        if let Some(gap) = mean(gaps) {
            let how = if gap > 0.0 { "below" } else { "above" };
            said.push(format!("on average {:.1} points {how}", gap.abs()));
            return Some((format!("{experiment}, {called}: {}", sentence(&said)), gap > 0.0 && gap >= margin));
        }
    }
    None
}

fn question_answering(runs: &[&Run]) -> Verdict {
    let (mut said, mut gaps) = (Vec::new(), Vec::new());
    for task in tasks(runs) {
        let points = by_method(runs, task);
        let both = (best_of(&points, paper::FULL), best_of(&points, paper::ADAPTERS));
        let (Some(full), Some(adapters)) = both else { continue };
        let size = &adapters.seeds[0].method().label;
        let (full, adapters) = (full.validation(), adapters.validation());
        gaps.push(adapters.mean - full.mean);
        said.push(format!("{task}: {size} {}, full fine-tuning {}", adapters.written(), full.written()));
    }
    let gap = mean(gaps)?;
    Some((sentence(&said), gap >= -2.0))
}

fn all_removed(store: &Store) -> Verdict {
    let ablations = store.ablations(store.preset("fig6-spans")?);
    let mut said = Vec::new();
    let mut agrees = true;
    for spans in mean_spans(&ablations) {
        let (Some(without), Some(majority)) = (spans.without, spans.majority) else { continue };
        agrees &= (without - majority).abs() <= 0.05;
        said.push(format!(
            "{} falls to {:.1}, most frequent class {:.1}",
            spans.task,
            100.0 * without,
            100.0 * majority
        ));
    }
    (!said.is_empty()).then(|| (sentence(&said), agrees))
}

fn single_layers(store: &Store) -> Verdict {
    let ablations = store.ablations(store.preset("fig6-spans")?);
    let mut said = Vec::new();
    let mut agrees = true;
    for spans in mean_spans(&ablations) {
        let single = spans.changes.iter().filter(|((first, last), _)| first == last);
        let Some((span, change)) = single.min_by(|(_, a), (_, b)| a.total_cmp(b)) else { continue };
        agrees &= *change >= -5.0;
        said.push(format!("{}: at worst {} % (layer {})", spans.task, signed(*change), span.0));
    }
    (!said.is_empty()).then(|| (sentence(&said), agrees))
}

fn higher_layers(store: &Store) -> Verdict {
    let ablations = store.ablations(store.preset("fig6-spans")?);
    let (mut said, mut differences) = (Vec::new(), Vec::new());
    for spans in mean_spans(&ablations).iter().filter(|spans| spans.layers >= 2) {
        let half = spans.layers / 2;
        let lower = spans.changes.get(&(0, half - 1));
        let upper = spans.changes.get(&(spans.layers - half, spans.layers - 1));
        if let (Some(lower), Some(upper)) = (lower, upper) {
            differences.push(lower - upper);
            said.push(format!(
                "{}: lower {half} layers {} %, upper {half} {} %",
                spans.task,
                signed(*lower),
                signed(*upper)
            ));
        }
    }
    let difference = mean(differences)?;
    Some((sentence(&said), difference > 0.0))
}

fn initial_scale(runs: &[&Run]) -> Verdict {
    let (mut said, mut spreads, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for sweep in sweeps(runs, paper::INIT_STD) {
        let (task, points) = (sweep.task, sweep.points);
        let means = |wanted: &dyn Fn(f64) -> bool| {
            let own = points.iter().filter(|(sigma, _)| wanted(*sigma)).map(|(_, point)| point.validation().mean);
            own.collect::<Vec<f64>>()
        };
        // 1e-2 may have been written as a rounded number.
        let (small, large) = (means(&|sigma| sigma <= 0.01 * 1.001), means(&|sigma| sigma >= 0.999));
        let (Some(usual), Some(large)) = (mean(small.iter().copied()), mean(large)) else { continue };
        if small.len() < 2 {
            continue;
        }
        let spread = spread(&small);
        spreads.push(spread);
        losses.push(usual - large);
        said.push(format!("{task}: spread {spread:.1} up to 0.01, {} at 1", signed(large - usual)));
    }
    let (spread, loss) = (mean(spreads)?, mean(losses)?);
    said.push(format!("on average {spread:.1} and {} points", signed(-loss)));
    Some((sentence(&said), spread <= 3.0 && loss >= 1.0))
}

fn spread(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max) - values.iter().copied().fold(f64::MAX, f64::min)
}

fn learning_rates(runs: &[&Run]) -> Verdict {
    let (mut said, mut differences) = (Vec::new(), Vec::new());
    let sweeps = sweeps(runs, "lr");
    for task in tasks(runs) {
        let of = |name: &str| sweeps.iter().find(|sweep| sweep.task == task && sweep.method.name == name);
        let (Some(adapters), Some(full)) = (of(paper::ADAPTERS), of(paper::FULL)) else { continue };
        let shared = |of: &[(f64, Point<'_>)], other: &[(f64, Point<'_>)]| {
            let both = of.iter().filter(|(rate, _)| other.iter().any(|(known, _)| known == rate));
            both.map(|(_, point)| point.validation().mean).collect::<Vec<f64>>()
        };
        let (ours, theirs) = (shared(&adapters.points, &full.points), shared(&full.points, &adapters.points));
        if ours.len() < 3 {
            continue;
        }
        let (ours, theirs) = (spread(&ours), spread(&theirs));
        differences.push(theirs - ours);
        said.push(format!("{task}: adapters spread over {ours:.1} points, full fine-tuning over {theirs:.1}"));
    }
    let difference = mean(differences)?;
    Some((sentence(&said), difference > 0.0))
}

fn size_matters_little(runs: &[&Run]) -> Verdict {
    let (means, tasks) = accuracy_by_size(runs);
    if means.len() < 2 {
        return None;
    }
    let spread = spread(&means.iter().map(|(_, accuracy, _)| *accuracy).collect::<Vec<_>>());
    let said: Vec<String> = means.iter().map(|(size, accuracy, _)| format!("size {size} {accuracy:.1}")).collect();
    Some((format!("Over {tasks} tasks: {}; they spread over {spread:.1} points.", said.join(", ")), spread <= 1.0))
}

fn no_variant_helps(runs: &[&Run]) -> Verdict {
    let all = compare_variants(runs);
    let others = || all.iter().filter(|variant| !variant.paper);
    let known = others().filter_map(|variant| Some((variant.difference?, &variant.name)));
    let (difference, name) = known.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let shows = format!(
        "The best of {} variants, {name}, is {} points from the paper's adapter.",
        others().count(),
        signed(difference)
    );
    Some((shows, difference <= 1.0))
}

fn nothing_forgotten(store: &Store) -> Verdict {
    let streams = store.streams(store.preset("stream")?);
    let (mut said, mut agrees, mut seen) = (Vec::new(), true, false);
    for stream in streams.iter().filter(|stream| stream.stages.len() >= 2) {
        // A stage's own task was just learnt: it says nothing of memory.
        let earlier =
            || stream.stages.iter().flat_map(|stage| stage.recall.iter().filter(|recall| recall.task != stage.task));
        let (all, same) = (earlier().count(), earlier().filter(|recall| recall.identical).count());
        let losses: Vec<f64> = earlier().map(|recall| 100.0 * (recall.then - recall.now)).collect();
        let worst = losses.iter().copied().fold(0.0, f64::max);
        said.push(format!("{}: {same} of {all} evaluations identical, largest loss {worst:.1} points", stream.tuning));
        if stream.tuning == paper::ADAPTERS {
            seen = true;
            agrees &= same == all;
        }
    }
    seen.then(|| (sentence(&said), agrees))
}

/// Parts as one sentence.
fn sentence(parts: &[String]) -> String {
    parts.join("; ") + "."
}
