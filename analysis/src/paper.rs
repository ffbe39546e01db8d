//! Numbers that the paper gives. Nothing else in this crate is a number of a result.

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
pub const SIZES: [(usize, f64); 3] = [(8, 86.2), (64, 85.8), (256, 85.7)];
