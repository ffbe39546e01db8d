//! Element-wise non-linearities, named as in Hugging Face configurations.

use std::{fmt, str::FromStr};

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// The non-linearity of an adapter or of a feed-forward sub-layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `x Φ(x)`, with the exact Gaussian distribution function.
    #[default]
    Gelu,
    /// GELU by its tanh approximation, as in the authors' released code.
    TanhGelu,
    /// `max(x, 0)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// `x σ(x)`, also called SiLU.
    Swish,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `max(x, 0.01 x)`.
    LeakyRelu,
    /// No non-linearity.
    Identity,
}

impl Activation {
    const NAMES: [(Activation, &'static [&'static str]); 8] = [
        (Activation::Gelu, &["gelu", "gelu_python"]),
        (Activation::TanhGelu, &["tanh-gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh"]),
        (Activation::Relu, &["relu"]),
        (Activation::Tanh, &["tanh"]),
        (Activation::Swish, &["swish", "silu"]),
        (Activation::Sigmoid, &["sigmoid"]),
        (Activation::LeakyRelu, &["leaky-relu", "leakyrelu", "leaky_relu"]),
        (Activation::Identity, &["identity", "linear"]),
    ];

    /// Applies the non-linearity to every element.
    pub fn forward<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Activation::Gelu => activation::gelu(x),
            Activation::TanhGelu => activation::gelu_approximate(x),
            Activation::Relu => activation::relu(x),
            Activation::Tanh => activation::tanh(x),
            Activation::Swish => activation::silu(x),
            Activation::Sigmoid => activation::sigmoid(x),
            Activation::LeakyRelu => activation::leaky_relu(x, 0.01),
            Activation::Identity => x,
        }
    }
}

/// A name that is no activation.
#[derive(Debug, thiserror::Error)]
#[error("unknown activation `{0}` (known: gelu, tanh-gelu, relu, tanh, swish, sigmoid, leaky-relu, identity)")]
pub struct UnknownActivation(String);

impl FromStr for Activation {
    type Err = UnknownActivation;

    /// Reads our own names and those of Hugging Face configurations (`gelu_new`, `silu`, …).
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::NAMES
            .iter()
            .find(|(_, names)| names.contains(&name))
            .map(|&(activation, _)| activation)
            .ok_or_else(|| UnknownActivation(name.to_owned()))
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().find(|(activation, _)| activation == self);
        f.pad(known.map_or("", |(_, names)| names[0]))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use rstest::rstest;

    use super::*;

    /// Reference values from the definitions, at x = -1 and x = 0.5.
    #[rstest]
    #[case("gelu", -0.158_655_25, 0.345_731_23)]
    #[case("tanh-gelu", -0.158_808, 0.345_714)]
    #[case("gelu_new", -0.158_808, 0.345_714)]
    #[case("relu", 0.0, 0.5)]
    #[case("tanh", -0.761_594_2, 0.462_117_16)]
    #[case("swish", -0.268_941_43, 0.311_229_66)]
    #[case("silu", -0.268_941_43, 0.311_229_66)]
    #[case("sigmoid", 0.268_941_43, 0.622_459_35)]
    #[case("leaky-relu", -0.01, 0.5)]
    #[case("identity", -1.0, 0.5)]
    fn every_name_computes_its_function(#[case] name: &str, #[case] low: f32, #[case] high: f32) {
        let activation: Activation = name.parse().unwrap();
        let x = Tensor::<1>::from_floats([-1.0, 0.5], &Device::flex());
        let y: Vec<f32> = activation.forward(x).into_data().try_to_vec().unwrap();
        assert!((y[0] - low).abs() < 1e-6 && (y[1] - high).abs() < 1e-6, "{y:?}");
        assert_eq!(activation.to_string().parse::<Activation>().unwrap(), activation);
        let json = serde_json::to_string(&activation).unwrap();
        assert_eq!(json, format!("\"{activation}\""), "one spelling everywhere");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "geluu".parse::<Activation>().unwrap_err().to_string();
        assert!(error.contains("geluu") && error.contains("tanh-gelu"), "{error}");
    }
}
