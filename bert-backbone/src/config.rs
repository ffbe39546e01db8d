//! BERT's configuration, as Hugging Face writes it.

use std::{
    io,
    path::{Path, PathBuf},
};

use adapter_core::{Activation, NetworkShape, read_file};
use serde::{Deserialize, Serialize};

/// The shape of a BERT: the keys of `config.json` that decide what is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BertConfig {
    /// Number of word pieces.
    pub vocab_size: usize,
    /// Width d of the network.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Number of attention heads; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Width of the feed-forward sub-layer.
    pub intermediate_size: usize,
    /// Non-linearity of the feed-forward sub-layer.
    #[serde(default = "default_activation")]
    pub hidden_act: String,
    /// Dropout on embeddings and sub-layer outputs.
    #[serde(default = "default_dropout")]
    pub hidden_dropout_prob: f64,
    /// Dropout on attention probabilities.
    #[serde(default = "default_dropout")]
    pub attention_probs_dropout_prob: f64,
    /// Longest sequence.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: usize,
    /// Number of segments (2: a pair of texts).
    #[serde(default = "default_types")]
    pub type_vocab_size: usize,
    /// ε of every LayerNorm.
    #[serde(default = "default_epsilon")]
    pub layer_norm_eps: f64,
    /// Standard deviation of a new network's weights.
    #[serde(default = "default_range")]
    pub initializer_range: f64,
    /// The architecture's family; only `bert` can be loaded.
    #[serde(default = "default_model_type")]
    pub model_type: String,
    /// Kind of position embeddings; only `absolute` can be loaded.
    #[serde(default = "default_position_type")]
    pub position_embedding_type: String,
}

fn default_activation() -> String {
    "gelu".to_owned()
}
fn default_dropout() -> f64 {
    0.1
}
fn default_positions() -> usize {
    512
}
fn default_types() -> usize {
    2
}
fn default_epsilon() -> f64 {
    1e-12
}
fn default_range() -> f64 {
    0.02
}
fn default_model_type() -> String {
    "bert".to_owned()
}
fn default_position_type() -> String {
    "absolute".to_owned()
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file is not the JSON of a BERT.
    #[error("{}: not the configuration of a BERT: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: serde_json::Error,
    },
    /// The values describe no network that can be built here.
    #[error("BERT configuration: {0}")]
    Invalid(String),
}

/// Bytes of the longest `config.json`.
const LARGEST: u64 = 16 << 20;

impl BertConfig {
    /// What methods may ask about the network.
    pub fn shape(&self) -> NetworkShape {
        let (layers, hidden) = (self.num_hidden_layers, self.hidden_size);
        NetworkShape { layers, hidden, intermediate: self.intermediate_size }
    }

    /// A BERT of the given width, depth and number of heads, everything else as published for `bert-base-uncased`.
    pub fn new(hidden_size: usize, num_hidden_layers: usize, num_attention_heads: usize) -> Self {
        Self {
            vocab_size: 30522,
            hidden_size,
            num_hidden_layers,
            num_attention_heads,
            intermediate_size: 4 * hidden_size,
            hidden_act: default_activation(),
            hidden_dropout_prob: default_dropout(),
            attention_probs_dropout_prob: default_dropout(),
            max_position_embeddings: default_positions(),
            type_vocab_size: default_types(),
            layer_norm_eps: default_epsilon(),
            initializer_range: default_range(),
            model_type: default_model_type(),
            position_embedding_type: default_position_type(),
        }
    }

    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If the file cannot be read or describes no BERT.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_file(path, LARGEST).map_err(|reason| ConfigError::Io { path: path.to_owned(), reason })?;
        let config: Self =
            serde_json::from_slice(&text).map_err(|reason| ConfigError::Json { path: path.to_owned(), reason })?;
        config.check()?;
        Ok(config)
    }

    /// Checks that the values describe a network.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let invalid = |reason: String| Err(ConfigError::Invalid(reason));
        // Far beyond any BERT, but within what can be counted and reserved.
        let sizes = [
            ("vocab_size", self.vocab_size, 10_000_000),
            ("hidden_size", self.hidden_size, 65_536),
            ("num_hidden_layers", self.num_hidden_layers, 1_000),
            ("num_attention_heads", self.num_attention_heads, 65_536),
            ("intermediate_size", self.intermediate_size, 1_000_000),
            ("max_position_embeddings", self.max_position_embeddings, 1_000_000),
            ("type_vocab_size", self.type_vocab_size, 255),
        ];
        for (name, size, most) in sizes {
            if size == 0 || size > most {
                return invalid(format!("`{name}` is {size}, not from 1 to {most}"));
            }
        }
        if !(self.layer_norm_eps.is_finite() && self.layer_norm_eps > 0.0) {
            return invalid(format!("`layer_norm_eps` is {}, not a positive number", self.layer_norm_eps));
        }
        if !(self.initializer_range.is_finite() && self.initializer_range >= 0.0) {
            return invalid(format!("`initializer_range` is {}, not a number from 0 up", self.initializer_range));
        }
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        if hidden % heads != 0 {
            return invalid(format!("{heads} heads do not divide a hidden size of {hidden}"));
        }
        for (name, p) in [
            ("hidden_dropout_prob", self.hidden_dropout_prob),
            ("attention_probs_dropout_prob", self.attention_probs_dropout_prob),
        ] {
            if !(0.0..1.0).contains(&p) {
                return invalid(format!("`{name}` is {p}, not in [0, 1)"));
            }
        }
        if self.model_type != "bert" {
            return invalid(format!("model type `{}`; only `bert` can be loaded", self.model_type));
        }
        if self.position_embedding_type != "absolute" {
            let found = &self.position_embedding_type;
            return invalid(format!("`{found}` position embeddings; only `absolute` ones can be loaded"));
        }
        self.activation().map(|_| ())
    }

    /// The feed-forward sub-layer's non-linearity.
    ///
    /// # Errors
    /// If `hidden_act` names none that is known.
    pub fn activation(&self) -> Result<Activation, ConfigError> {
        self.hidden_act.parse().map_err(|error| ConfigError::Invalid(format!("`hidden_act`: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PUBLISHED: &str = r#"{
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute",
        "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522
    }"#;

    fn read(json: &str) -> Result<BertConfig, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json).unwrap();
        BertConfig::read(file.path())
    }

    #[test]
    fn the_published_configuration_is_read() {
        assert_eq!(read(PUBLISHED).unwrap(), BertConfig::new(768, 12, 12));
    }

    #[rstest]
    #[case(r#""hidden_size": 768"#, r#""hidden_size": 770"#, "12 heads do not divide")]
    #[case(r#""hidden_size": 768"#, r#""hidden_size": 0"#, "`hidden_size` is 0, not from 1 to")]
    #[case(r#""hidden_size": 768"#, r#""hidden_size": 3999999996"#, "`hidden_size` is 3999999996, not from 1 to")]
    #[case(r#""num_hidden_layers": 12"#, r#""num_hidden_layers": 1000000"#, "`num_hidden_layers` is 1000000, not from")]
    #[case(r#""num_hidden_layers": 12"#, r#""num_hidden_layers": 18446744073709551615"#, "`num_hidden_layers`")]
    #[case(r#""type_vocab_size": 2"#, r#""type_vocab_size": 256"#, "`type_vocab_size` is 256")]
    #[case(r#""layer_norm_eps": 1e-12"#, r#""layer_norm_eps": -1"#, "`layer_norm_eps` is -1")]
    #[case(r#""initializer_range": 0.02"#, r#""initializer_range": -0.02"#, "`initializer_range` is -0.02")]
    #[case(r#""hidden_size": 768"#, r#""hidden_size": "wide""#, "invalid type")]
    #[case(r#""hidden_size": 768,"#, "", "missing field `hidden_size`")]
    #[case(r#""model_type": "bert""#, r#""model_type": "roberta""#, "roberta")]
    #[case("absolute", "relative_key", "relative_key")]
    #[case(r#""gelu""#, r#""glu""#, "unknown activation `glu`")]
    #[case(r#""hidden_dropout_prob": 0.1"#, r#""hidden_dropout_prob": 1.0"#, "not in [0, 1)")]
    fn a_wrong_value_is_named(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        let error = read(&PUBLISHED.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
