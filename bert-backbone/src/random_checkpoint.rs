//! A small checkpoint with random weights, for whatever must run without real ones.

use std::{fs, io, path::Path};

use adapter_core::{Init, TensorInfo, replace_values, visit_values, write_atomically};
use burn::{module::Module, tensor::Device};
use safetensors::{Dtype, tensor::TensorView};

use crate::{Bert, BertConfig, MaskedLmHead, checkpoint::transpose};

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
        fs::create_dir_all(folder)?;
        let config = serde_json::to_string_pretty(&self.config)?;
        write_atomically(&folder.join("config.json"), config.as_bytes())?;
        let vocabulary = self.vocabulary.join("\n") + "\n";
        write_atomically(&folder.join("vocab.txt"), vocabulary.as_bytes())?;
        let lower_case = br#"{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}"#;
        write_atomically(&folder.join("tokenizer_config.json"), lower_case)?;

        let mut tensors = Vec::new();
        let (bert, masked_lm) = self.modules(device).map_err(io::Error::other)?;
        collect(&bert, "bert.", &mut tensors);
        collect(&masked_lm, "cls.predictions.", &mut tensors);
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, shape, values)| {
                let bytes = bytemuck::cast_slice(values);
                TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name, view))
            })
            .collect();
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        let bytes = views.and_then(|views| safetensors::serialize(views, Some(metadata))).map_err(io::Error::other)?;
        write_atomically(&folder.join("model.safetensors"), &bytes)
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
        let centre = match tensor.holder == "LayerNorm" && tensor.name.ends_with("weight") {
            true => 1.0,
            false => 0.0,
        };
        let name = format!("{prefix}{}", tensor.name);
        let noise = init.truncated_normal(name, [length], 0.1, device).val();
        Some((noise + centre).into_data().iter::<f32>().collect())
    })
}

/// Adds the tensors of `module` in PyTorch's layout.
fn collect<M: Module>(module: &M, prefix: &str, tensors: &mut Vec<(String, Vec<usize>, Vec<f32>)>) {
    let mut add = |tensor: TensorInfo, values: Vec<f32>| {
        let name = format!("{prefix}{}", tensor.name);
        match tensor.shape[..] {
            // Burn's Linear has [in, out], PyTorch's [out, in].
            [rows, columns] if tensor.holder == "Linear" => {
                tensors.push((name, vec![columns, rows], transpose(&values, rows, columns)));
            }
            _ => tensors.push((name, tensor.shape, values)),
        }
    };
    visit_values(module, |_| true, &mut add);
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
