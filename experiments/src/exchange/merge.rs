//! A tuned network as a plain one, which any program that reads BERT can use.

use std::{collections::BTreeMap, fs, path::Path};

use adapter_core::{
    BiasOnly, Features, FullFineTuning, HeadOnly, LayerNormOnly, Lora, Method, TaskFile, TaskInfo, Tensors, TopLayers,
    replace_values, visit_values, write_atomically,
};
use anyhow::{Context, Result, bail};
use bert_backbone::{Backbone, transpose, write_model};
use burn::tensor::Device;
use serde_json::{Map, Value, json};
use tasks::TaskKind;

use super::{Portable, adapterhub::projection_names, read_json};

/// Files of a tokenizer.
const TOKENIZER: [&str; 4] = ["vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"];

/// The task file of a merged network: its head.
const PARAMETERS: &str = "v.safetensors";

/// Writes `backbone` with what `file` trained into a folder in Hugging Face layout, and beside it a task file with the head. Returns the
/// names of the files.
///
/// # Errors
/// If the method changes more than weights, or a file cannot be written.
pub fn merge(file: &TaskFile, backbone: &Backbone, folder: &Path) -> Result<Vec<String>> {
    file.check_backbone(&backbone.id())?;
    let plain = [
        FullFineTuning::NAME,
        TopLayers::NAME,
        LayerNormOnly::NAME,
        BiasOnly::NAME,
        HeadOnly::NAME,
        Features::NAME,
        Lora::NAME,
    ];
    let method = file.info.method.name.as_str();
    if !plain.contains(&method) {
        bail!("`{method}` computes what no plain BERT does: `export` writes it for a library that has it");
    }
    let mut values = BTreeMap::new();
    for (name, (_, trained)) in file.tensors() {
        let Some(name) = name.strip_prefix("bert.").filter(|name| !name.contains(".insertion.")) else { continue };
        values.insert(name.to_owned(), trained.clone());
    }
    if method == Lora::NAME
        && let Portable::Lora(lora) = Portable::of(&file.info.method)?
    {
        values.extend(updated(&lora, file, backbone, &values)?);
    }
    let bert = replace_values(backbone.bert.clone(), |tensor| values.remove(&tensor.name));
    let (architecture, beside) = head(file)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let hint = || format!("cannot write into {}", folder.display());
    write_model(folder, &bert, &beside).with_context(hint)?;
    let mut files = vec!["model.safetensors".to_owned(), "config.json".to_owned(), PARAMETERS.to_owned()];
    let config = config(file, backbone, architecture)?;
    write_atomically(&folder.join("config.json"), (serde_json::to_string_pretty(&config)? + "\n").as_bytes())
        .with_context(hint)?;
    for name in TOKENIZER {
        let from = backbone.folder.as_ref().map(|from| from.join(name)).filter(|from| from.is_file());
        if let Some(from) = from {
            let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            write_atomically(&folder.join(name), &bytes).with_context(hint)?;
            files.push(name.to_owned());
        }
    }
    // What was written is what will be read.
    let merged = Backbone::load(folder, &Device::flex()).context("what was merged cannot be read")?;
    let info = TaskInfo { method: HeadOnly {}.info(), backbone: merged.id(), origin: Map::new(), ..file.info.clone() };
    let head = file
        .tensors()
        .iter()
        .filter(|(name, _)| name.starts_with("head."))
        .map(|(name, tensor)| (name.clone(), tensor.clone()));
    TaskFile::new(info, head.collect()).write(&folder.join(PARAMETERS))?;
    files.sort();
    Ok(files)
}

/// Projections with their updates: W + s A B.
fn updated(
    lora: &Lora,
    file: &TaskFile,
    backbone: &Backbone,
    trained: &BTreeMap<String, Vec<f32>>,
) -> Result<BTreeMap<String, Vec<f32>>> {
    let network = backbone.config.shape();
    let mut updates: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for layer in 0..network.layers {
        for projection in &lora.targets {
            let [ours, theirs] = projection_names(layer, *projection);
            let weight = format!("{}.weight", theirs.trim_start_matches("bert."));
            updates.insert(weight, ["a", "b"].map(|part| format!("{ours}.lora_{part}")));
        }
    }
    let mut weights = BTreeMap::new();
    visit_values(
        &backbone.bert,
        |name| updates.contains_key(name),
        |tensor, values| {
            let values = trained.get(&tensor.name).cloned().unwrap_or(values);
            weights.insert(tensor.name, (tensor.shape, values));
        },
    );
    let factor = lora.factor();
    let mut all = BTreeMap::new();
    for (name, [a, b]) in updates {
        let (shape, mut values) = weights.remove(&name).with_context(|| format!("the backbone has no {name}"))?;
        let part = |name: &str| file.tensors().get(name).with_context(|| format!("the file has no {name}"));
        let ((_, a), (_, b)) = (part(&a)?, part(&b)?);
        let columns = shape[1];
        for (row, values) in values.chunks_exact_mut(columns).enumerate() {
            let a = &a[row * lora.rank..(row + 1) * lora.rank];
            for (column, value) in values.iter_mut().enumerate() {
                let update: f64 = (0..lora.rank).map(|k| f64::from(a[k]) * f64::from(b[k * columns + column])).sum();
                *value = (f64::from(*value) + factor * update) as f32;
            }
        }
        all.insert(name, values);
    }
    Ok(all)
}

/// The class of `transformers` that has such a head, and the head as it is called there. Other heads are in the task file alone.
fn head(file: &TaskFile) -> Result<(&'static str, Tensors)> {
    let (architecture, name) = match (file.info.head.as_str(), file.info.kind.parse()?) {
        ("pooler", _) => ("BertForSequenceClassification", "classifier"),
        ("tokens", TaskKind::Span) => ("BertForQuestionAnswering", "qa_outputs"),
        _ => return Ok(("BertModel", Tensors::new())),
    };
    let tensor = |part: &str| file.tensors().get(part).with_context(|| format!("the file has no {part}"));
    let ((shape, weight), bias) = (tensor("head.weight")?, tensor("head.bias")?);
    let weight = (vec![shape[1], shape[0]], transpose(weight, shape[0], shape[1]));
    Ok((architecture, Tensors::from([(format!("{name}.weight"), weight), (format!("{name}.bias"), bias.clone())])))
}

fn config(file: &TaskFile, backbone: &Backbone, architecture: &str) -> Result<Value> {
    let mut config = match &backbone.folder {
        Some(folder) => read_json(&folder.join("config.json"))?,
        None => serde_json::to_value(&backbone.config)?,
    };
    config["architectures"] = json!([architecture]);
    config["model_type"] = json!("bert");
    let labels = &file.info.labels;
    if !labels.is_empty() {
        config["id2label"] = labels
            .iter()
            .enumerate()
            .map(|(number, label)| (number.to_string(), json!(label)))
            .collect::<Map<_, _>>()
            .into();
        config["label2id"] = labels
            .iter()
            .enumerate()
            .map(|(number, label)| (label.clone(), json!(number)))
            .collect::<Map<_, _>>()
            .into();
    } else if architecture == "BertForSequenceClassification" {
        config["id2label"] = json!({ "0": "LABEL_0" });
        config["label2id"] = json!({ "LABEL_0": 0 });
    }
    Ok(config)
}
