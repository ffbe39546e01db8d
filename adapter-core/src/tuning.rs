//! Tuning strategies: which tensors of a network a task trains.

use std::{borrow::Cow, fmt, str::FromStr};

use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::{
    TensorInfo,
    tensors::{set_trained, tensors},
};

/// What is trained for a task. The head always is; everything not selected is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Tuning {
    /// The inserted adapters and every LayerNorm (§2).
    Adapters,
    /// The whole backbone.
    FullFineTuning,
    /// The `k` highest layers: the paper's variable fine-tuning.
    TopLayers(usize),
    /// Every LayerNorm's scale and shift (§3.4).
    LayerNormOnly,
    /// Nothing but the head.
    HeadOnly,
    /// Every bias, LayerNorm's shift included.
    BiasOnly,
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Tuning::Adapters => Cow::Borrowed("adapters"),
            Tuning::FullFineTuning => "full".into(),
            Tuning::TopLayers(k) => format!("top-{k}").into(),
            Tuning::LayerNormOnly => "layer-norm".into(),
            Tuning::HeadOnly => "head".into(),
            Tuning::BiasOnly => "bias".into(),
        })
    }
}

/// A name that is no tuning strategy.
#[derive(Debug, thiserror::Error)]
#[error("unknown tuning `{0}` (known: adapters, full, top-K such as top-3, layer-norm, head, bias)")]
pub struct UnknownTuning(String);

impl FromStr for Tuning {
    type Err = UnknownTuning;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "adapters" => Tuning::Adapters,
            "full" => Tuning::FullFineTuning,
            "layer-norm" => Tuning::LayerNormOnly,
            "head" => Tuning::HeadOnly,
            "bias" => Tuning::BiasOnly,
            _ => name
                .strip_prefix("top-")
                .and_then(|k| k.parse().ok())
                .filter(|&k| k > 0)
                .map(Tuning::TopLayers)
                .ok_or_else(|| UnknownTuning(name.to_owned()))?,
        })
    }
}

impl From<Tuning> for String {
    fn from(tuning: Tuning) -> Self {
        tuning.to_string()
    }
}

impl TryFrom<String> for Tuning {
    type Error = UnknownTuning;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

/// What a tensor is in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The part of the network it belongs to.
    pub part: Part,
    /// What it does there.
    pub kind: Kind,
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
    /// A matrix of the pre-trained network.
    Weight,
    /// A bias of the pre-trained network.
    Bias,
    /// A LayerNorm's γ.
    LayerNormScale,
    /// A LayerNorm's β.
    LayerNormShift,
    /// Any parameter of an insertion.
    Inserted,
    /// A running statistic: kept with the trained tensors, but not a parameter.
    Statistic,
}

impl Role {
    /// Whether the tensor is part of the pre-trained network.
    pub fn is_backbone(self) -> bool {
        self.part != Part::Head && !matches!(self.kind, Kind::Inserted | Kind::Statistic)
    }
}

/// A network with a head that can say what each of its tensors is. That is all a [`Tuning`] needs to know of it.
pub trait Tunable: Module {
    /// Number of layers.
    fn layers(&self) -> usize;

    /// What the tensor called `name` is.
    fn role(&self, name: &str) -> Role;
}

impl Tuning {
    /// Whether a tensor with `role`, in a network of `layers` layers, is trained.
    pub fn trains(self, role: Role, layers: usize) -> bool {
        let unread_pooler = role.part == Part::Pooler { read_by_head: false };
        if role.kind == Kind::Statistic || unread_pooler {
            return false;
        }
        if role.part == Part::Head {
            return true;
        }
        match self {
            Tuning::Adapters => matches!(role.kind, Kind::Inserted | Kind::LayerNormScale | Kind::LayerNormShift),
            Tuning::FullFineTuning => true,
            Tuning::TopLayers(k) => match role.part {
                Part::Layer(layer) => layer + k >= layers,
                // A pooler that is read stands above the highest layer.
                Part::Pooler { .. } => true,
                _ => false,
            },
            Tuning::LayerNormOnly => {
                matches!(role.kind, Kind::LayerNormScale | Kind::LayerNormShift)
            }
            Tuning::HeadOnly => false,
            Tuning::BiasOnly => matches!(role.kind, Kind::Bias | Kind::LayerNormShift),
        }
    }

    /// The tensors of `model` that this strategy trains, in the model's order.
    pub fn trained<M: Tunable>(self, model: &M) -> Vec<TensorInfo> {
        let layers = model.layers();
        let mut all = tensors(model);
        all.retain(|tensor| self.trains(model.role(&tensor.name), layers));
        all
    }

    /// `model` with exactly this strategy's tensors requiring gradients; dropout and running statistics stay active.
    pub fn apply<M: Tunable>(self, model: M) -> M {
        let names: std::collections::HashSet<_> = self.trained(&model).into_iter().map(|tensor| tensor.name).collect();
        set_trained(model, |name| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("adapters", Tuning::Adapters)]
    #[case("full", Tuning::FullFineTuning)]
    #[case("top-3", Tuning::TopLayers(3))]
    #[case("layer-norm", Tuning::LayerNormOnly)]
    #[case("head", Tuning::HeadOnly)]
    #[case("bias", Tuning::BiasOnly)]
    fn names_are_read_and_written_alike(#[case] name: &str, #[case] tuning: Tuning) {
        assert_eq!(name.parse::<Tuning>().unwrap(), tuning);
        assert_eq!(tuning.to_string(), name);
        let json = serde_json::to_string(&tuning).unwrap();
        assert_eq!(serde_json::from_str::<Tuning>(&json).unwrap(), tuning);
    }

    #[rstest]
    fn other_names_are_refused(#[values("adapter", "top-", "top-0", "top-x", "")] name: &str) {
        assert!(name.parse::<Tuning>().is_err());
    }
}
