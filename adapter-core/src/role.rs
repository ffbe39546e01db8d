//! What each tensor of a network is, and which of them are trained.

use std::collections::{BTreeMap, HashSet};

use burn::module::Module;

use crate::{
    TensorInfo,
    tensors::{set_trained, tensors},
};

/// What a tensor is in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The part of the network it belongs to.
    pub part: Part,
    /// What it does there.
    pub kind: Kind,
    /// Whether a method inserted it: it is then no part of the pre-trained network.
    pub inserted: bool,
}

/// A part of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The embeddings.
    Embeddings,
    /// A layer, counted from 0 at the bottom.
    Layer(usize),
    /// The pre-trained pooler, and whether the task's head reads it.
    Pooler {
        /// A pooler that no head reads is never trained.
        read_by_head: bool,
    },
    /// The task's head.
    Head,
}

/// What a tensor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix.
    Weight,
    /// A bias.
    Bias,
    /// A normalisation's γ.
    NormScale,
    /// A normalisation's β.
    NormShift,
    /// Any other vector.
    Vector,
    /// A running statistic: kept with the trained tensors, but not a parameter.
    Statistic,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] =
        [Kind::Weight, Kind::Bias, Kind::NormScale, Kind::NormShift, Kind::Vector, Kind::Statistic];

    /// The kind of a tensor, from what holds it, its name and its shape.
    pub fn of(tensor: &TensorInfo) -> Self {
        let last = tensor.name.rsplit('.').next().unwrap_or_default();
        match last {
            "running_mean" | "running_var" => Kind::Statistic,
            "bias" if tensor.is_of_normalisation() => Kind::NormShift,
            _ if tensor.is_of_normalisation() => Kind::NormScale,
            "bias" => Kind::Bias,
            _ if tensor.shape.len() == 1 => Kind::Vector,
            _ => Kind::Weight,
        }
    }

    /// Whether it belongs to a normalisation.
    pub fn is_norm(self) -> bool {
        matches!(self, Kind::NormScale | Kind::NormShift)
    }
}

impl Role {
    /// Whether the tensor is part of the pre-trained network.
    pub fn is_backbone(self) -> bool {
        self.part != Part::Head && !self.inserted && self.kind != Kind::Statistic
    }
}

/// What a method may ask about a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkShape {
    /// Number of layers.
    pub layers: usize,
    /// Width of the network.
    pub hidden: usize,
    /// Width inside the feed-forward sub-layers.
    pub intermediate: usize,
}

/// A network with a head that can say what each of its tensors is.
pub trait Tunable: Module {
    /// The network's shape.
    fn network(&self) -> NetworkShape;

    /// What a tensor of it is.
    fn role(&self, tensor: &TensorInfo) -> Role;
}

/// The tensors of a model that are trained, and the running statistics that are kept with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What is trained, in the model's order.
    pub trained: Vec<TensorInfo>,
    /// Running statistics, in the model's order.
    pub statistics: Vec<TensorInfo>,
}

impl Selection {
    /// Selects from `model` the head and what `trains` chooses. Statistics and a pooler that nobody reads are never trained.
    pub fn of<M: Tunable>(model: &M, trains: impl Fn(Role) -> bool) -> Self {
        let mut selection = Self::default();
        for tensor in tensors(model) {
            let role = model.role(&tensor);
            let unread = role.part == Part::Pooler { read_by_head: false };
            if role.kind == Kind::Statistic {
                selection.statistics.push(tensor);
            } else if role.part == Part::Head || (!unread && trains(role)) {
                selection.trained.push(tensor);
            }
        }
        selection
    }

    /// `model` with exactly the trained tensors requiring gradients; dropout and running statistics stay active.
    pub fn apply<M: Module>(&self, model: M) -> M {
        let names: HashSet<&str> = self.trained.iter().map(|tensor| tensor.name.as_str()).collect();
        set_trained(model, |name| names.contains(name))
    }

    /// Names and shapes of everything that is kept for a task.
    pub(crate) fn kept(&self) -> BTreeMap<String, Vec<usize>> {
        let kept = self.trained.iter().chain(&self.statistics);
        kept.map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a.down.weight", "Linear", &[4, 2], Kind::Weight)]
    #[case("a.down.bias", "Linear", &[2], Kind::Bias)]
    #[case("a.norm.weight", "LayerNorm", &[2], Kind::NormScale)]
    #[case("a.norm.bias", "LayerNorm", &[2], Kind::NormShift)]
    #[case("a.rms.weight", "RmsNorm", &[2], Kind::NormScale)]
    #[case("a.bn.running_var", "BatchNorm", &[2], Kind::Statistic)]
    #[case("a.scale", "Rescale", &[2], Kind::Vector)]
    fn a_kind_does_not_depend_on_how_a_field_is_called(
        #[case] name: &str,
        #[case] holder: &str,
        #[case] shape: &[usize],
        #[case] kind: Kind,
    ) {
        let id = burn::module::ParamId::from(0);
        let tensor = TensorInfo { name: name.to_owned(), holder: holder.to_owned(), id, shape: shape.to_vec() };
        assert_eq!(Kind::of(&tensor), kind);
    }
}
