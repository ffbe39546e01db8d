//! A pre-trained network with all that belongs to it.

use std::{path::Path, sync::OnceLock};

use adapter_core::{Init, content_hash};
use burn::tensor::Device;

use crate::{Bert, BertConfig, Checkpoint, CheckpointError, ConfigError, MaskedLmHead, Tokenizer, TokenizerError};

/// A loaded backbone: the `w` that all tasks share.
#[derive(Debug)]
pub struct Backbone {
    /// What to call it: its folder's name.
    pub name: String,
    /// Its shape.
    pub config: BertConfig,
    /// The network, nothing inserted.
    pub bert: Bert,
    /// The masked language model's head, where the checkpoint carries one.
    pub masked_lm: Option<MaskedLmHead>,
    /// Its own tokenizer.
    pub tokenizer: Tokenizer,
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
        let bert = checkpoint.load(bert, "")?;
        let masked_lm = match checkpoint.has("cls.predictions.transform.dense.weight") {
            true => {
                checkpoint.check_tied_decoder()?;
                let head = MaskedLmHead::random(&config, Init::new(0), device)?;
                Some(checkpoint.load(head, "cls.predictions.")?)
            }
            false => None,
        };
        let name = folder.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name).unwrap_or(folder.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            config,
            bert,
            masked_lm,
            tokenizer,
            unused: checkpoint.unused(),
            hash: OnceLock::new(),
        })
    }

    /// A hash of the network's weights, the same for every file format and naming they came from.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| content_hash(&self.bert, |_| true))
    }
}
