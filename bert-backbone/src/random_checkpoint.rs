//! A small checkpoint with random weights, for whatever must run without real ones.

use std::{io, path::Path};

use adapter_core::{Init, replace_values};
use burn::{module::Module, tensor::Device};

use crate::{
    Bert, BertConfig, MaskedLmHead,
    folder::{write_vocabulary, write_weights},
};

/// A BERT with random weights that can be written in Hugging Face layout.
#[derive(Clone, Debug)]
pub struct RandomCheckpoint {
    /// The network's shape; `vocab_size` is that of `vocabulary`.
    pub config: BertConfig,
    /// The word pieces.
    pub vocabulary: Vec<String>,
    /// Decides every weight.
    pub seed: u64,
}

impl RandomCheckpoint {
    /// Three layers of width 32 over letters, digits, punctuation and a few words.
    pub fn tiny() -> Self {
        let vocabulary = small_vocabulary();
        let config = BertConfig {
            vocab_size: vocabulary.len(),
            intermediate_size: 64,
            // Large enough that attention and GELU leave their linear range.
            initializer_range: 0.2,
            // Not what most checkpoints have, so that nothing can take it for granted.
            layer_norm_eps: 1e-3,
            hidden_act: "gelu_new".to_owned(),
            attention_probs_dropout_prob: 0.2,
            ..BertConfig::new(32, 3, 4)
        };
        Self { config, vocabulary, seed: 0 }
    }

    /// One layer of width 8 for sequences of up to 16 tokens, with the vocabulary of [`tiny`](Self::tiny).
    pub fn micro() -> Self {
        let tiny = Self::tiny();
        let config = BertConfig {
            intermediate_size: 16,
            max_position_embeddings: 16,
            hidden_size: 8,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            ..tiny.config
        };
        Self { config, ..tiny }
    }

    /// Writes `config.json`, `model.safetensors`, `vocab.txt` and `tokenizer_config.json` into `folder`.
    ///
    /// The bytes depend on `self` alone; `device` only computes them.
    ///
    /// # Errors
    /// If the files cannot be written, or the configuration describes no network.
    pub fn write(&self, folder: &Path, device: &Device) -> io::Result<()> {
        write_vocabulary(folder, &self.config, &self.vocabulary)?;
        let (bert, masked_lm) = self.modules(device).map_err(io::Error::other)?;
        write_weights(folder, &bert, &masked_lm)
    }

    /// The network and its masked-LM head, every tensor random: biases are not 0 and scales not 1.
    fn modules(&self, device: &Device) -> Result<(Bert, MaskedLmHead), crate::ConfigError> {
        let init = Init::new(self.seed);
        let bert = Bert::random(&self.config, init, device)?;
        let head = MaskedLmHead::random(&self.config, init, device)?;
        Ok((unsettle(bert, "", init, device), unsettle(head, "cls.predictions.", init, device)))
    }
}

/// Gives random values to the vectors that a new network has at 0 or 1.
fn unsettle<M: Module>(module: M, prefix: &str, init: Init, device: &Device) -> M {
    replace_values(module, |tensor| {
        let [length] = tensor.shape[..] else { return None };
        let is_scale = tensor.holder == "LayerNorm" && tensor.name.ends_with("weight");
        let centre = if is_scale { 1.0 } else { 0.0 };
        let name = format!("{prefix}{}", tensor.name);
        let noise = init.truncated_normal(name, [length], 0.1, device).val();
        Some((noise + centre).into_data().iter::<f32>().collect())
    })
}

fn small_vocabulary() -> Vec<String> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
    let characters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
    let punctuation = "!\"#$%&'()*+,-./:;<=>?@[]_".chars().map(String::from);
    let words = [
        "the", "a", "cat", "dog", "sat", "on", "mat", "is", "was", "not", "he", "she", "it", "of", "and", "##s",
        "##ing", "##ed", "##er", "play", "good", "bad", "film", "question", "answer", "why", "who",
    ];
    special
        .into_iter()
        .chain(characters.iter().map(|c| c.to_string()))
        .chain(characters.iter().map(|c| format!("##{c}")))
        .chain(punctuation)
        .chain(words.into_iter().filter(|word| word.len() > 1).map(str::to_owned))
        .filter({
            let mut seen = std::collections::HashSet::new();
            move |token: &String| seen.insert(token.clone())
        })
        .collect()
}
