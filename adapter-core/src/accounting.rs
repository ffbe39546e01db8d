//! How many parameters a task trains, counted from the tensors themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Tunable, Tuning, tensors,
    tuning::{Kind, Part, Role},
};

/// Parameters of a tuned model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamCount {
    /// Parameters of the pre-trained network, its pooler included.
    pub backbone: usize,
    /// Parameters the task trains: |v|.
    pub trained: usize,
    /// Parameters of the whole model: backbone, insertions and head.
    pub total: usize,
    /// `trained`, by group.
    pub groups: BTreeMap<String, usize>,
    /// Whether tasks share one copy of the backbone; full fine-tuning needs one for each.
    pub shared_backbone: bool,
}

impl ParamCount {
    /// Counts the tensors of `model`, trained as `tuning` says. Nothing is initialised.
    pub fn of<M: Tunable>(model: &M, tuning: Tuning) -> Self {
        let layers = model.layers();
        let mut count = Self {
            backbone: 0,
            trained: 0,
            total: 0,
            groups: BTreeMap::new(),
            shared_backbone: tuning != Tuning::FullFineTuning,
        };
        for tensor in tensors(model) {
            let role = model.role(&tensor.name);
            let elements = tensor.elements();
            if role.kind == Kind::Statistic {
                continue;
            }
            count.total += elements;
            if role.is_backbone() {
                count.backbone += elements;
            }
            if tuning.trains(role, layers) {
                count.trained += elements;
                *count.groups.entry(group(tuning, role).to_owned()).or_default() += elements;
            }
        }
        count
    }

    /// Trained parameters in percent of the backbone.
    pub fn percent(&self) -> f64 {
        100.0 * self.trained as f64 / self.backbone as f64
    }

    /// Parameters that `tasks` tasks need together, in multiples of the backbone (the paper's 1.3× and 9×):
    /// one shared backbone and each task's trained parameters, or a whole model for each task.
    pub fn multiple_for(&self, tasks: usize) -> f64 {
        let (shared, each) = match self.shared_backbone {
            true => (self.backbone, self.trained),
            false => (0, self.total),
        };
        (shared + tasks * each) as f64 / self.backbone as f64
    }
}

/// The name under which a trained tensor is counted.
fn group(tuning: Tuning, role: Role) -> &'static str {
    match (role, tuning) {
        (Role { part: Part::Head, .. }, _) => "head",
        (Role { kind: Kind::Inserted, .. }, _) => "adapters",
        (_, Tuning::Adapters | Tuning::LayerNormOnly) => "layer_norms",
        (_, Tuning::TopLayers(_)) => "top_layers",
        (_, Tuning::BiasOnly) => "biases",
        (_, Tuning::FullFineTuning | Tuning::HeadOnly) => "backbone",
    }
}
