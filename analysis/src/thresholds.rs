//! The thresholds of the findings: fixed before the runs, in one table.

use serde::Serialize;

use crate::evidence::{MANY_TASKS, Side};

/// A number that a verdict depends on, and why it is that number.
///
/// A bound that the paper reaches is about doubled and a gap that it has is halved: the interval of a faithful repetition lies
/// around the paper's own number, and would never lie on one side of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// What it limits.
    pub name: &'static str,
    /// The limit.
    pub limit: f64,
    /// Its unit.
    pub unit: &'static str,
    /// On which side of it the paper's effect lies.
    pub side: Side,
    /// Why it is so.
    pub reason: &'static str,
}

const POINTS: &str = "points";
const PERCENT: &str = "%";
/// Of a difference between two percentages.
const PERCENTAGE_POINTS: &str = "percentage points";

pub(crate) const CLOSE: Threshold = Threshold {
    name: "Adapters come close: mean loss against full fine-tuning",
    limit: 1.8,
    unit: POINTS,
    side: Side::AtMost,
    reason: "What the paper's adapters lose on their worst task of Table 1 (MNLI-m: 86.7 to 84.9). Over its nine columns they \
             lose 0.5 on average, with an interval that reaches about 1.1. Table 2 (73.7 to 73.3) has the same threshold.",
};
pub(crate) const FEW: Threshold = Threshold {
    name: "Adapters come close: trained share of the backbone's parameters",
    limit: 10.0,
    unit: PERCENT,
    side: Side::AtMost,
    reason: "The paper trains 3.6 %: at least an order of magnitude below everything. Larger sizes do not count.",
};
pub(crate) const NO_BERT: Threshold = Threshold {
    name: "Transfer beats the search without BERT: full fine-tuning minus the search's best",
    limit: 0.5,
    unit: POINTS,
    side: Side::Above,
    reason: "Half of the paper's gap in Table 2: 72.7 to 73.7.",
};
pub(crate) const FEWER: Threshold = Threshold {
    name: "With as few parameters: adapters minus the fewest top layers",
    limit: 0.0,
    unit: POINTS,
    side: Side::Above,
    reason: "The paper shows percentiles without numbers: adapters must be better.",
};
pub(crate) const LAYER_NORM: Threshold = Threshold {
    name: "LayerNorm alone: adapters minus LayerNorm only",
    limit: 1.875,
    unit: POINTS,
    side: Side::Above,
    reason: "Half of the paper's gap: 3.5 on CoLA and 4 on MNLI, 3.75 on average.",
};
pub(crate) const TOP_LAYER: Threshold = Threshold {
    name: "Only the top layer: adapters minus top-1",
    limit: 2.95,
    unit: POINTS,
    side: Side::Above,
    reason: "Half of the paper's gap on MNLI-m: 83.7 to 77.8.",
};
pub(crate) const HEAD: Threshold = Threshold {
    name: "The head alone: adapters minus head only",
    limit: 2.95,
    unit: POINTS,
    side: Side::Above,
    reason: "The paper gives no number. The head is a part of what top-1 trains: at least the same gap.",
};
pub(crate) const ANSWERS: Threshold = Threshold {
    name: "Question answering: loss of F1 against full fine-tuning",
    limit: 1.6,
    unit: POINTS,
    side: Side::AtMost,
    reason: "Twice what the paper's smallest adapters lose (90.7 to 89.9); size 64 loses 0.3.",
};
pub(crate) const ANSWERS_FLOOR: Threshold = Threshold {
    name: "Question answering: F1 of full fine-tuning",
    limit: 50.0,
    unit: POINTS,
    side: Side::Above,
    reason: "The paper's is 90.7. Methods that answer less than half say nothing of each other.",
};
pub(crate) const REMOVED: Threshold = Threshold {
    name: "Without all adapters: accuracy above the most frequent class, every task",
    limit: 5.0,
    unit: POINTS,
    side: Side::AtMost,
    reason: "The paper calls MNLI's 37 % the majority class; one class in three has 33.3. It allows 3.7 points; rounded up.",
};
pub(crate) const SINGLE: Threshold = Threshold {
    name: "A single layer: relative loss, every layer and task",
    limit: 4.0,
    unit: PERCENT,
    side: Side::AtMost,
    reason: "Twice the paper's largest, 2 %.",
};
pub(crate) const HIGHER: Threshold = Threshold {
    name: "Higher layers: relative loss without the upper half's adapters minus that without the lower half's, every task",
    limit: 0.0,
    unit: PERCENTAGE_POINTS,
    side: Side::Above,
    reason: "The paper says that lower layers hardly matter, without a number: the upper half must matter more.",
};
pub(crate) const FLAT: Threshold = Threshold {
    name: "Initial σ: loss of every σ below 0.01 against 0.01",
    limit: 1.875,
    unit: POINTS,
    side: Side::AtMost,
    reason: "Half of what adapters bring over LayerNorm only (3.75): flat means that most of it is kept.",
};
pub(crate) const FALL: Threshold = Threshold {
    name: "Initial σ: loss of σ = 1 against 0.01",
    limit: 1.875,
    unit: POINTS,
    side: Side::Above,
    reason: "More than what counts as flat.",
};
pub(crate) const ROBUST: Threshold = Threshold {
    name: "Learning rate: adapters' loss at every rate against their best",
    limit: 3.75,
    unit: POINTS,
    side: Side::AtMost,
    reason: "What the paper loses without adapters (LayerNorm only: 3.5 and 4). At a rate that loses more they are worth nothing.",
};
pub(crate) const MORE_ROBUST: Threshold = Threshold {
    name: "Learning rate: full fine-tuning's loss from its best rate to its worst minus the adapters'",
    limit: 0.0,
    unit: POINTS,
    side: Side::Above,
    reason: "In the paper full fine-tuning falls with the rate and adapters do not; it gives no number.",
};
pub(crate) const SIZES: Threshold = Threshold {
    name: "Sizes: mean accuracy of the best minus the worst",
    limit: 1.0,
    unit: POINTS,
    side: Side::AtMost,
    reason: "Twice the paper's 0.5 (86.2, 85.8, 85.7).",
};
pub(crate) const VARIANTS: Threshold = Threshold {
    name: "Variants: accuracy of every one minus that of the paper's adapter",
    limit: 1.0,
    unit: POINTS,
    side: Side::AtMost,
    reason: "The paper gives no number. As for sizes: twice the 0.5 points that it calls no difference.",
};
pub(crate) const MEMORY: Threshold = Threshold {
    name: "Memory: evaluations of earlier tasks with any changed output",
    limit: 0.0,
    unit: "",
    side: Side::AtMost,
    reason: "The shared network is never changed: every bit must be the same. This is counted and needs no interval.",
};
pub(crate) const SEEDS: Threshold = Threshold {
    name: "Every verdict but the last: seeds of each task",
    limit: 2.0,
    unit: "seeds",
    side: Side::Above,
    reason: "The paper's figures have three; fewer say too little of the spread. A task with fewer is left out.",
};
pub(crate) const LEARNT: Threshold = Threshold {
    name: "Every verdict but the last and that on the search: full fine-tuning minus the trivial answer, lower end of its interval",
    limit: 0.0,
    unit: POINTS,
    side: Side::Above,
    reason: "Where nothing was learnt all methods are alike. Such a task is left out. Adapters take full fine-tuning's part in \
             experiments without it. The comparison with the search without BERT keeps such tasks: to leave them out would favour BERT.",
};

const THRESHOLDS: [Threshold; 21] = [
    SEEDS,
    LEARNT,
    CLOSE,
    FEW,
    NO_BERT,
    FEWER,
    LAYER_NORM,
    HEAD,
    TOP_LAYER,
    ANSWERS,
    ANSWERS_FLOOR,
    REMOVED,
    SINGLE,
    HIGHER,
    FLAT,
    FALL,
    ROBUST,
    MORE_ROBUST,
    SIZES,
    VARIANTS,
    MEMORY,
];

/// Every number that a verdict depends on.
pub fn thresholds() -> &'static [Threshold] {
    &THRESHOLDS
}

/// How verdicts are reached, in words.
pub(crate) fn rule() -> String {
    format!(
        "A finding agrees if the whole 95 % interval of its effect lies on the paper's side of its threshold, disagrees if the \
         whole interval lies on the other side, and cannot be judged otherwise. Effects are differences paired by task and seed. \
         From {MANY_TASKS} tasks on, the interval is Student's t over the tasks' means; with fewer tasks it is Student's t over the \
         seeds, and holds for these tasks. What is compared was chosen on the same validation set by its mean over the seeds."
    )
}
