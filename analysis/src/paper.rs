//! What the paper names, and its numbers that figures and tables show beside ours. `findings` and `thresholds` quote more of
//! them in words. There is no other number of a result in this crate: ours are computed from the records.

use crate::{
    chart::{Look, PALETTE},
    setup::Run,
    svg::Marker,
};

/// Adapters, the LayerNorms and the head.
pub const ADAPTERS: &str = "adapters";
/// The highest layers and the head.
pub const TOP: &str = "top-k";
/// The LayerNorms and the head.
pub const LAYER_NORM: &str = "layer-norm";
/// The head.
pub const HEAD: &str = "head";
/// Every bias and the head. It is not the paper's, but its figures have always drawn it so.
pub const BIAS: &str = "bias";
/// A classifier without BERT.
pub const NO_BERT: &str = "no-bert";
/// Everything.
pub const FULL: &str = "full";

/// Layers of BERT-base, of which the paper removes adapters.
pub const LAYERS: usize = 12;
/// In the order of legends.
const METHODS: [&str; 6] = [ADAPTERS, TOP, LAYER_NORM, HEAD, BIAS, FULL];

/// The place of a method in legends: others come after the paper's.
pub fn rank(method: &str) -> usize {
    METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len())
}

/// How a method looks in the paper's figures; `None` for one that they do not know.
pub fn look(method: &str) -> Option<Look> {
    let (colour, marker, joined) = match method {
        ADAPTERS => (PALETTE[0], Marker::Circle, true),
        TOP => (PALETTE[1], Marker::Square, true),
        LAYER_NORM => (PALETTE[2], Marker::Up, false),
        HEAD => (PALETTE[3], Marker::Down, false),
        BIAS => (PALETTE[4], Marker::Plus, false),
        FULL => (PALETTE[6], Marker::Diamond, false),
        _ => return None,
    };
    Some(Look { colour, marker: Some(marker), dash: "", joined })
}

/// The order in which variants of the adapter are described.
pub const VARIANT_KEYS: [&str; 7] = ["sites", "activation", "depth", "norm", "placement", "interaction", "layer_sizes"];

/// The standard deviation of the adapters' initial weights.
pub const INIT_STD: &str = "init_std";

/// Tasks of the paper's Table 1, as they are called here.
pub const TABLE1_TASKS: [&str; 9] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mnli-mm", "qnli", "rte"];

/// A row of the paper's Table 1: GLUE's test scores.
pub struct Table1Row {
    /// What it is called.
    pub method: &'static str,
    /// Parameters for all tasks, in BERT-Larges.
    pub total: f64,
    /// Trained parameters per task, in percent.
    pub trained: f64,
    /// Scores of [`TABLE1_TASKS`].
    pub scores: [f64; 9],
    /// GLUE's total.
    pub overall: f64,
}

/// The paper's Table 1.
pub const TABLE1: [Table1Row; 3] = [
    Table1Row {
        method: "paper: BERT-Large, full fine-tuning",
        total: 9.0,
        trained: 100.0,
        scores: [60.5, 94.9, 89.3, 87.6, 72.1, 86.7, 85.9, 91.1, 70.1],
        overall: 80.4,
    },
    Table1Row {
        method: "paper: adapters, sizes 8 to 256",
        total: 1.3,
        trained: 3.6,
        scores: [59.5, 94.0, 89.5, 86.9, 71.8, 84.9, 85.1, 90.7, 71.5],
        overall: 80.0,
    },
    Table1Row {
        method: "paper: adapters, size 64",
        total: 1.2,
        trained: 2.1,
        scores: [56.9, 94.2, 89.6, 87.3, 71.8, 85.3, 84.6, 91.4, 68.8],
        overall: 79.6,
    },
];

/// The paper's averages in Table 2: no BERT, full, variable, adapters.
pub const TABLE2_AVERAGE: [f64; 4] = [72.7, 73.7, 74.0, 73.3];
/// Its parameters for all 17 tasks, in BERT-Bases, of full, variable and adapters.
pub const TABLE2_TOTAL: [f64; 3] = [17.0, 9.9, 1.19];
/// Its trained parameters in percent, of full, variable and adapters.
pub const TABLE2_TRAINED: [f64; 3] = [100.0, 52.9, 1.14];

/// Mean validation accuracy by adapter size (§3.6).
pub const SIZES: [(f64, f64); 3] = [(8.0, 86.2), (64.0, 85.8), (256.0, 85.7)];

/// A point of one of the paper's figures that its text gives in numbers: all are of BERT-Base.
pub struct Told {
    /// The figure.
    pub exhibit: &'static str,
    /// The task.
    pub task: &'static str,
    /// What was trained.
    pub method: &'static str,
    /// Trained parameters, as the paper counts them.
    pub trained: f64,
    /// The score × 100.
    pub score: f64,
}

/// Every such point.
pub const TOLD: [Told; 6] = [
    Told { exhibit: "fig4", task: "mnli", method: "full fine-tuning", trained: 110e6, score: 84.4 },
    Told { exhibit: "fig4", task: "mnli", method: "adapters 64", trained: 2e6, score: 83.7 },
    Told { exhibit: "fig4", task: "mnli", method: "top 1", trained: 9e6, score: 77.8 },
    Told { exhibit: "fig5", task: "squad", method: "full fine-tuning", trained: 110e6, score: 90.7 },
    Told { exhibit: "fig5", task: "squad", method: "adapters 64", trained: 2e6, score: 90.4 },
    Told { exhibit: "fig5", task: "squad", method: "adapters 2", trained: 0.1e6, score: 89.9 },
];

/// What the paper's own figure shows, in its numbers.
pub struct Said {
    exhibit: &'static str,
    /// The tasks that it is about.
    tasks: &'static [&'static str],
    text: &'static str,
}

const SAID: [Said; 4] = [
    Said {
        exhibit: "fig4",
        tasks: &["mnli", "cola"],
        text: "MNLI-m 84.4 with full fine-tuning, 83.7 with adapters of size 64, 77.8 with the top layer alone; LayerNorm alone \
               loses about 4 points on MNLI-m and 3.5 on CoLA",
    },
    Said {
        exhibit: "fig5",
        tasks: &["squad"],
        text: "F1 90.7 with full fine-tuning, 90.4 with adapters of size 64, 89.9 with adapters of size 2",
    },
    Said {
        exhibit: "fig6-spans",
        tasks: &["mnli", "cola"],
        text: "one layer costs at most 2 %; without any adapter MNLI falls to 37 % accuracy and CoLA to 69 %, the most frequent \
               class",
    },
    Said { exhibit: "fig6-init", tasks: &["mnli", "cola"], text: "flat up to σ = 1e-2, worse above, more so on CoLA" },
];

/// What the paper says of an exhibit.
pub fn says(exhibit: &str) -> Option<&'static Said> {
    SAID.iter().find(|said| said.exhibit == exhibit)
}

impl Said {
    /// A sentence to stand beside these runs, if they are of the paper's tasks.
    pub fn beside(&self, runs: &[&Run]) -> Option<String> {
        let same = runs.iter().any(|run| self.tasks.contains(&run.task.as_str()));
        same.then(|| format!("The paper, BERT-Base on all data: {}", self.text))
    }
}
