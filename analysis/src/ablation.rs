//! What is written of adapters that were removed from spans of layers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Scores of a trained model without the adapters of every span of layers (Fig. 6 of the paper).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRecord {
    /// Version of the record's form.
    pub schema: u32,
    /// The task.
    pub task: String,
    /// What is compared; accuracy for a classification, as in the paper.
    pub metric: String,
    /// Layers of the backbone.
    pub layers: usize,
    /// Accuracy of always naming the most frequent class of the validation set, for a classification.
    pub majority: Option<f64>,
    /// Scores of the whole model on validation: fractions.
    pub whole: BTreeMap<String, f64>,
    /// Every span.
    pub spans: Vec<SpanScore>,
    /// Passes of one layer over the validation set.
    pub layer_passes: usize,
}

/// A model without the adapters of a span of layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanScore {
    /// Lowest layer without adapters.
    pub first: usize,
    /// Highest layer without adapters.
    pub last: usize,
    /// Its scores: fractions.
    pub scores: BTreeMap<String, f64>,
    /// Change of the metric relative to the whole model.
    pub relative_change: f64,
}
