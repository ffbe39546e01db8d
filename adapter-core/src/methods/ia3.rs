//! Rescaled activations (Liu et al. 2022).

use burn::{
    module::{Module, Param, ParamId},
    nn::Linear,
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use crate::{Also, At, Init, Insertion, Key, Method, MethodError, NetworkShape, Place, Projection, Role};

/// Multiplies keys, values and the feed-forward sub-layer's activations by vectors that begin as ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ia3 {
    /// Which activations.
    pub layout: Ia3Layout,
    /// Whether the LayerNorms are trained, too.
    pub layer_norm: bool,
    /// How many of the highest layers are trained, too.
    pub top_layers: usize,
}

/// Which activations are multiplied. Libraries do not agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ia3Layout {
    /// As in AdapterHub: keys, values, and the feed-forward sub-layer before its non-linearity.
    #[default]
    Adapterhub,
    /// As in PEFT: keys, values, what attention's output projection reads, and the feed-forward sub-layer after its
    /// non-linearity.
    Peft,
}

impl Ia3 {
    fn also(&self) -> Also {
        Also { layer_norm: self.layer_norm, top_layers: self.top_layers }
    }
}

impl Ia3Layout {
    /// Whether a projection's input or output is multiplied.
    fn rescales(self, projection: Projection) -> Option<End> {
        match (self, projection) {
            (_, Projection::Key | Projection::Value) => Some(End::Output),
            (Ia3Layout::Adapterhub, Projection::Intermediate) => Some(End::Output),
            (Ia3Layout::Peft, Projection::AttentionOutput | Projection::Output) => Some(End::Input),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Input,
    Output,
}

impl Method for Ia3 {
    type Insertion = Rescaled;
    const NAME: &'static str = "ia3";
    const ABOUT: &'static str = "factors for keys, values and activations";
    const KEYS: &'static [Key] = &[
        Key::new("layout", "NAME", "Which activations are rescaled: as in adapterhub, or as in peft"),
        Also::LAYER_NORM,
        Also::TOP_LAYERS,
    ];

    fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
        self.also().check(network)
    }

    fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<Rescaled> {
        let factors = |projection: Projection| {
            let end = self.layout.rescales(projection).filter(|_| projection.site() == place.site)?;
            let [input, output] = projection.shape(network);
            let width = if end == End::Input { input } else { output };
            Some(init.constant(1.0, [width], device))
        };
        let [_, key, value, attention_output, intermediate, output] = Projection::ALL.map(factors);
        Some(Rescaled { key, value, attention_output, intermediate, output, layout: self.layout })
    }

    fn trains(&self, role: Role, network: &NetworkShape) -> bool {
        role.inserted || self.also().trains(role, network)
    }

    fn group(&self) -> &'static str {
        self.also().group()
    }
}

/// The factors of a sub-layer.
#[derive(Module, Debug)]
pub struct Rescaled {
    /// Of attention's keys, `[hidden]`.
    pub key: Option<Param<Tensor<1>>>,
    /// Of attention's values, `[hidden]`.
    pub value: Option<Param<Tensor<1>>>,
    /// Of what attention's output projection reads, `[hidden]`.
    pub attention_output: Option<Param<Tensor<1>>>,
    /// Of the feed-forward sub-layer before its non-linearity, `[intermediate]`.
    pub intermediate: Option<Param<Tensor<1>>>,
    /// Of the feed-forward sub-layer after its non-linearity, `[intermediate]`.
    pub output: Option<Param<Tensor<1>>>,
    #[module(skip)]
    layout: Ia3Layout,
}

impl Rescaled {
    /// The factors of a projection.
    pub fn of(&self, projection: Projection) -> Option<&Param<Tensor<1>>> {
        match projection {
            Projection::Query => None,
            Projection::Key => self.key.as_ref(),
            Projection::Value => self.value.as_ref(),
            Projection::AttentionOutput => self.attention_output.as_ref(),
            Projection::Intermediate => self.intermediate.as_ref(),
            Projection::Output => self.output.as_ref(),
        }
    }
}

impl Insertion for Rescaled {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output
    }

    fn changes(&self, projection: Projection) -> bool {
        self.of(projection).is_some()
    }

    /// A factor of an input is one of a row of the weights, a factor of an output one of a column and of the bias.
    fn reweighted(&self, projection: Projection, linear: &Linear) -> Option<Linear> {
        let (factors, end) = (self.of(projection)?.val(), self.layout.rescales(projection)?);
        let (weight, bias) = (linear.weight.val(), linear.bias.as_ref().map(Param::val));
        let (weight, bias) = match end {
            End::Input => (weight * factors.unsqueeze_dim(1), bias),
            End::Output => (weight * factors.clone().unsqueeze(), bias.map(|bias| bias * factors)),
        };
        let weight = Param::initialized(ParamId::new(), weight);
        Some(Linear { weight, bias: bias.map(|bias| Param::initialized(ParamId::new(), bias)) })
    }

    fn is_row_wise(&self) -> bool {
        true
    }
}
