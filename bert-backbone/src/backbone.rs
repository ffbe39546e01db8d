//! A pre-trained network with all that belongs to it.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use adapter_core::{BackboneId, Init, content_hash};
use burn::{module::Module, tensor::Device};

use crate::{Bert, BertConfig, Checkpoint, CheckpointError, ConfigError, MaskedLmHead, Tokenizer, TokenizerError};

/// A loaded backbone: the `w` that all tasks share.
#[derive(Debug)]
pub struct Backbone {
    /// What to call it: its folder's name.
    pub name: String,
    /// Its shape.
    pub config: BertConfig,
    /// The network, nothing inserted and nothing trained until a [`Method`](adapter_core::Method) says so.
    pub bert: Bert,
    /// The masked language model's head, where the checkpoint carries one that is tied to the word embeddings.
    pub masked_lm: Option<MaskedLmHead>,
    /// Its own tokenizer.
    pub tokenizer: Tokenizer,
    /// The folder it was loaded from, good from anywhere.
    pub folder: Option<PathBuf>,
    /// Tensors of the checkpoint that no part of the network uses.
    pub unused: Vec<String>,
    hash: OnceLock<String>,
}

/// Why a backbone cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum BackboneError {
    /// Its configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its weights cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Its tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl Backbone {
    /// Loads a folder in Hugging Face layout: `config.json`, `model.safetensors` or `pytorch_model.bin`, and
    /// `tokenizer.json` or `vocab.txt`. Weights of any precision become f32.
    ///
    /// # Errors
    /// If a file is missing or damaged, or the weights do not fit the configuration.
    pub fn load(folder: &Path, device: &Device) -> Result<Self, BackboneError> {
        let config = BertConfig::read(&folder.join("config.json"))?;
        let tokenizer = Tokenizer::load(folder)?;
        let mut checkpoint = Checkpoint::open(folder)?;

        let mut bert = Bert::random(&config, Init::new(0), device)?;
        if !checkpoint.has("pooler.dense.weight") {
            bert.pooler = None;
        }
        let bert = checkpoint.load(bert, "")?.no_grad();
        let has_head = checkpoint.has("cls.predictions.transform.dense.weight");
        let masked_lm = if has_head && checkpoint.has_tied_decoder()? {
            let head = MaskedLmHead::random(&config, Init::new(0), device)?;
            Some(checkpoint.load(head, "cls.predictions.")?.no_grad())
        } else {
            None
        };
        let name = folder.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name).unwrap_or(folder.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            config,
            bert,
            masked_lm,
            tokenizer,
            folder: std::path::absolute(folder).ok(),
            unused: checkpoint.unused(),
            hash: OnceLock::new(),
        })
    }

    /// The same backbone with other weights, under another name: `bert` must have its shape.
    pub fn with_weights(&self, name: String, bert: Bert) -> Self {
        Self {
            name,
            config: self.config.clone(),
            bert: bert.no_grad(),
            // It was tied to the word embeddings that are no longer there.
            masked_lm: None,
            tokenizer: self.tokenizer.clone(),
            folder: None,
            unused: Vec::new(),
            hash: OnceLock::new(),
        }
    }

    /// Its name, and a hash of the weights and of what else decides what the network computes. The hash is the same
    /// for every file format and naming the weights came from.
    pub fn id(&self) -> BackboneId {
        let hash = self.hash.get_or_init(|| {
            let BertConfig { num_attention_heads, hidden_act, layer_norm_eps, .. } = &self.config;
            content_hash(&self.bert, &format!("{num_attention_heads} {hidden_act} {layer_norm_eps:e}"))
        });
        BackboneId { name: self.name.clone(), hash: hash.clone() }
    }
}
