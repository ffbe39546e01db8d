//! How many parameters a task trains, counted from the tensors themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Kind, Method, Part, Role, Tunable, tensors};

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
    /// Whether tasks share one copy of the backbone. They do unless all of it is trained.
    pub shared_backbone: bool,
}

impl ParamCount {
    /// Counts the tensors of `model`, trained by `method`. Nothing is initialised.
    pub fn of<T: Tunable, M: Method>(model: &T, method: &M) -> Self {
        let selection = method.select(model);
        let mut trained = selection.trained.iter().map(|tensor| tensor.name.as_str()).peekable();
        let (mut backbone, mut total, mut groups) = (0, 0, BTreeMap::<String, usize>::new());
        let mut shared_backbone = false;
        for tensor in tensors(model) {
            let (role, elements) = (model.role(&tensor), tensor.elements());
            if role.kind == Kind::Statistic {
                continue;
            }
            total += elements;
            if role.is_backbone() {
                backbone += elements;
            }
            // Both lists are in the model's order.
            if trained.next_if_eq(&tensor.name.as_str()).is_some() {
                *groups.entry(group(method, role)).or_default() += elements;
            } else {
                shared_backbone |= role.is_backbone() && role.part != Part::Pooler { read_by_head: false };
            }
        }
        Self { backbone, trained: groups.values().sum(), total, groups, shared_backbone }
    }

    /// Trained parameters in percent of the backbone.
    pub fn percent(&self) -> f64 {
        100.0 * self.trained as f64 / self.backbone as f64
    }

    /// Parameters that `tasks` tasks need together, in multiples of the backbone (the paper's 1.3× and 9×):
    /// one shared backbone and each task's trained parameters, or a whole model for each task.
    pub fn multiple_for(&self, tasks: usize) -> f64 {
        let (shared, each) = if self.shared_backbone { (self.backbone, self.trained) } else { (0, self.total) };
        (shared + tasks * each) as f64 / self.backbone as f64
    }
}

/// The name under which a trained tensor is counted.
fn group<M: Method>(method: &M, role: Role) -> String {
    match role {
        Role { part: Part::Head, .. } => "head".to_owned(),
        Role { inserted: true, .. } => M::NAME.replace('-', "_"),
        _ => method.group().to_owned(),
    }
}
