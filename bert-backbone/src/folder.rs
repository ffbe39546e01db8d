//! A backbone written in Hugging Face layout.

use std::{fs, io, path::Path};

use adapter_core::{TensorInfo, Tensors, visit_values, write_atomically};
use burn::module::Module;
use safetensors::{Dtype, tensor::TensorView};

use crate::{Bert, BertConfig, MaskedLmHead, checkpoint::transpose};

/// Writes `config.json`, `vocab.txt` and `tokenizer_config.json` into `folder`: enough for a tokenizer.
///
/// # Errors
/// If a file cannot be written.
pub fn write_vocabulary(folder: &Path, config: &BertConfig, vocabulary: &[String]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    write_atomically(&folder.join("config.json"), serde_json::to_string_pretty(config)?.as_bytes())?;
    write_atomically(&folder.join("vocab.txt"), (vocabulary.join("\n") + "\n").as_bytes())?;
    let lower_case = br#"{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}"#;
    write_atomically(&folder.join("tokenizer_config.json"), lower_case)
}

/// Writes `model.safetensors` into `folder`, in f32: the network and its masked-LM head.
///
/// # Errors
/// If the file cannot be written.
pub fn write_weights(folder: &Path, bert: &Bert, masked_lm: &MaskedLmHead) -> io::Result<()> {
    let mut tensors = Vec::new();
    collect(bert, "bert.", &mut tensors);
    collect(masked_lm, "cls.predictions.", &mut tensors);
    write_tensors(folder, &tensors)
}

/// Writes `model.safetensors` into `folder`, in f32: the network, and tensors beside it that are in PyTorch's layout.
///
/// # Errors
/// If the file cannot be written.
pub fn write_model(folder: &Path, bert: &Bert, beside: &Tensors) -> io::Result<()> {
    let mut tensors = Vec::new();
    collect(bert, "bert.", &mut tensors);
    tensors.extend(beside.iter().map(|(name, (shape, values))| (name.clone(), shape.clone(), values.clone())));
    write_tensors(folder, &tensors)
}

fn write_tensors(folder: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) -> io::Result<()> {
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
