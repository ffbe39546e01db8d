//! The masked language model's head, tied to the word embeddings.

#![allow(non_snake_case)] // `LayerNorm`, as in checkpoints

use adapter_core::{Activation, Init};
use burn::{
    module::{Module, Param},
    nn::{LayerNorm, Linear},
    tensor::{Device, Tensor},
};

use crate::{BertConfig, ConfigError, bert::Build, bert::Embeddings};

/// Scores every word piece at a token: `cls.predictions` of a pre-training checkpoint.
#[derive(Module, Debug)]
pub struct MaskedLmHead {
    /// Projection, non-linearity and normalisation.
    pub transform: Transform,
    /// One number for each word piece, `[vocab_size]`.
    pub bias: Param<Tensor<1>>,
}

/// What precedes the product with the word embeddings.
#[derive(Module, Debug)]
pub struct Transform {
    /// `[hidden, hidden]`
    pub dense: Linear,
    /// Normalisation.
    pub LayerNorm: LayerNorm,
    #[module(skip)]
    activation: Activation,
}

impl MaskedLmHead {
    /// A head with random weights for a network with `config`.
    ///
    /// # Errors
    /// If `config` describes no network.
    pub fn random(config: &BertConfig, init: Init, device: &Device) -> Result<Self, ConfigError> {
        let build = Build { config, activation: config.activation()?, init, device };
        let d = config.hidden_size;
        Ok(Self {
            transform: Transform {
                dense: build.linear("cls.predictions.transform.dense", d, d),
                LayerNorm: build.layer_norm(),
                activation: build.activation,
            },
            bias: init.constant(0.0, [config.vocab_size], device),
        })
    }

    /// Scores of all word pieces.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, hidden]`, the network's output at the tokens in question
    /// - result: `[rows, vocab_size]`
    pub fn forward(&self, hidden: Tensor<2>, embeddings: &Embeddings) -> Tensor<2> {
        let transform = &self.transform;
        let hidden = transform.activation.forward(transform.dense.forward(hidden));
        let hidden = transform.LayerNorm.forward(hidden);
        let words = embeddings.word_embeddings.weight.val();
        hidden.matmul(words.transpose()) + self.bias.val().unsqueeze()
    }
}
