//! Whether what the paper found shows in these runs. Every verdict is an effect with an interval, computed from the records and
//! compared with [`thresholds`](crate::thresholds()), whichever way it falls.

mod methods;
mod points;
mod settings;
mod spans;

pub(crate) use methods::{compared_tasks, headline};

use crate::{
    ExperimentRecord, Store,
    axis::counted,
    evidence::{Effect, Interval, IntervalMethod, Verdict},
    names::task_name,
    paper,
    setup::Run,
    table::{Cell, Table},
    tables::{search, stream_called},
    thresholds::{self, Threshold},
};
use methods::{beats_search, below_adapters, close_to_full, fewer_parameters, question_answering};
use settings::{initial_scale, learning_rates, no_variant_helps, size_matters_little};
use spans::{Ablated, all_removed, higher_layers, of_spans, single_layers};

/// A finding of the paper, checked against the runs.
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
    /// Tasks that say nothing, and why.
    pub left_out: Vec<String>,
    /// How much of its experiment is still to be done, if anything is: then nothing follows yet.
    pub unfinished: Option<String>,
    /// Where these runs disagree: the likely reason, if one is known.
    pub likely: Option<String>,
}

impl Finding {
    /// Its effects in short, or why there are none.
    pub fn brief(&self) -> String {
        if self.effects.is_empty() {
            let first = || self.shows.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned();
            let why = if self.left_out.is_empty() {
                first()
            } else {
                format!("Nothing is left to compare: {}", self.left_out.join("; "))
            };
            return [why].into_iter().chain(self.unfinished.clone()).collect::<Vec<_>>().join(" · ");
        }
        self.effects.iter().map(Effect::brief).chain(self.unfinished.clone()).collect::<Vec<_>>().join(" · ")
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
            match finding.effects.is_empty() {
                // Then it has been said why.
                true => Cell::Empty,
                false => Cell::text(finding.left_out.join("; ")),
            },
        ]
    };
    Table {
        title: "Findings of the paper, checked against these runs".to_owned(),
        head: ["finding", "verdict", "from", "effect, 95 % interval, threshold", "left out"].map(str::to_owned).into(),
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
    let of = |preset, judge: &dyn Fn(&[&Run]) -> Evidence| (vec![preset], judge(&store.preset_runs(preset)));
    let finding = |name, shown_in, paper, needs: &str, (presets, evidence): (Vec<&str>, Evidence)| {
        let mut shows = evidence.shows().unwrap_or_else(|| format!("Not enough runs to say: {needs}."));
        let records: Vec<&ExperimentRecord> = presets.iter().filter_map(|preset| store.preset(preset)).collect();
        for (preset, overridden) in records.iter().filter_map(|record| Some((&record.name, record.overridden()?))) {
            shows += &format!(" This is {preset} {overridden}.");
        }
        let Evidence { effects, likely, left_out, .. } = evidence;
        let unfinished: Vec<String> = records
            .iter()
            .filter_map(|record| Some(format!("{} has {}", record.name, record.unfinished(store)?)))
            .collect();
        let unfinished = (!unfinished.is_empty()).then(|| unfinished.join("; "));
        shows.extend(unfinished.iter().flat_map(|unfinished| [" ", unfinished, "."]));
        let verdict = if unfinished.is_some() { Verdict::CannotSay } else { Verdict::of(&effects) };
        let likely = likely.filter(|_| verdict == Verdict::Disagrees);
        Finding { name, shown_in, paper, shows, verdict, effects, left_out, unfinished, likely }
    };
    let first = |presets: &[&'static str], judge: &dyn Fn(&[&Run]) -> Evidence| {
        let all: Vec<(Vec<&str>, Evidence)> = presets.iter().map(|preset| of(*preset, judge)).collect();
        let place = all.iter().position(|(_, evidence)| !evidence.effects.is_empty());
        let place = place.or_else(|| all.iter().position(|(_, evidence)| !evidence.left_out.is_empty()));
        all.into_iter().nth(place.unwrap_or(0)).unwrap_or_default()
    };
    let spans = |judge: &dyn Fn(&Ablated<'_>, &mut Evidence)| (vec!["fig6-spans"], of_spans(store, judge));
    let not_enough = |method: &'static str, size: Option<f64>, threshold: &'static Threshold| {
        move |runs: &[&Run]| below_adapters(runs, method, size, threshold)
    };
    // Fig. 3 has top layers too: it stands in where Fig. 4 has nothing to compare.
    let top_layer = first(&["fig4", "fig3"], &not_enough(paper::TOP, Some(1.0), &thresholds::TOP_LAYER));
    let shows_top_layer: &[&str] = if top_layer.0 == ["fig3"] { &["fig3"] } else { &["fig4"] };
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
                vec!["table2", search::PRESET],
                beats_search(&store.preset_runs("table2"), &store.preset_runs(search::PRESET)),
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
            "fig4 needs head only and adapters on the same task",
            of("fig4", &not_enough(paper::HEAD, None, &thresholds::HEAD)),
        ),
        finding(
            "Tuning only the top layer is worse than adapters",
            shows_top_layer,
            "On MNLI the top layer alone reaches 77.8, adapters with fewer parameters 83.7. Compared here: accuracy against \
             adapters of size 64, or the size nearest to it.",
            "fig4 needs top-1 and adapters on the same task",
            top_layer,
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
             Compared here: the removal of the upper half and of the lower half, on every task.",
            "fig6-spans needs ablations of a network with two layers or more",
            spans(&higher_layers),
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
             here: the accuracy of every variant with that of the paper's adapter.",
            "variants needs the paper's adapter and another",
            of("variants", &no_variant_helps),
        ),
        finding(
            "Earlier tasks are not forgotten",
            &["stream"],
            "New tasks cannot change old ones, because the shared network is never changed. Compared here: every output of all \
             earlier tasks after every task, bit for bit.",
            "stream needs adapters on two tasks or more",
            (vec!["stream"], nothing_forgotten(store)),
        ),
    ]
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
        evidence.said.push(format!(
            "{}: {same} of {} identical, largest loss {worst:.1} points",
            stream_called(&stream.tuning),
            counted(all, "evaluation")
        ));
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
