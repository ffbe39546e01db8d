//! Hugging Face's `peft`: `adapter_config.json` and `adapter_model.safetensors`, for `BertForSequenceClassification`.

use std::path::Path;

use adapter_core::{Ia3, Ia3Layout, Lora, Method, Projection, TaskFile};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::{Backbone, Checkpoint};
use serde_json::{Value, json};
use tasks::TaskKind;

use super::{
    CONFIG, Imported, Portable,
    adapterhub::{low_rank_pairs, projection_names},
    first_of,
    tensors::{Form, Pair, Written, linear, ours},
};

const WEIGHTS: &str = "adapter_model.safetensors";
const VERSION: &str = "0.21.2";
const BASE: &str = "base_model.model";

pub fn export(file: &TaskFile, backbone: &Backbone) -> Result<Written> {
    let kind: TaskKind = file.info.kind.parse()?;
    ensure!(kind != TaskKind::Span, "peft's heads classify texts: a span cannot be exported");
    ensure!(
        file.info.head == "pooler",
        "the head `{}` reads what BertForSequenceClassification does not: train with head = pooler, or export for adapterhub",
        file.info.head
    );
    let common = |kind: &str| {
        json!({
            "peft_type": kind,
            "task_type": "SEQ_CLS",
            "base_model_name_or_path": backbone.name,
            "modules_to_save": ["classifier", "score"],
            "fan_in_fan_out": false,
            "inference_mode": true,
            "peft_version": VERSION,
        })
    };
    let (config, pairs) = match Portable::of(&file.info.method)? {
        Portable::Bottleneck(_) => bail!("peft has no bottleneck adapters: export for adapterhub"),
        Portable::Lora(lora) => {
            let mut config = common("LORA");
            config["r"] = lora.rank.into();
            config["lora_alpha"] =
                if lora.lora_alpha.fract() == 0.0 { json!(lora.lora_alpha as i64) } else { json!(lora.lora_alpha) };
            config["lora_dropout"] = lora.lora_dropout.into();
            config["use_rslora"] = lora.rslora.into();
            config["target_modules"] = targets(&lora.targets)?;
            config["bias"] = "none".into();
            (config, lora_pairs(&lora, backbone))
        }
        Portable::Ia3(ia3) => {
            ensure!(
                ia3.layout == Ia3Layout::Peft,
                "this IA3 has AdapterHub's layout, which peft does not have: export it for adapterhub"
            );
            let mut config = common("IA3");
            config["target_modules"] = json!(["key", "value", "output.dense"]);
            config["feedforward_modules"] = json!(["output.dense"]);
            (config, ia3_pairs(backbone))
        }
    };
    let mut written = Written::default();
    written.document(CONFIG, &config)?;
    let mut pairs: Vec<Pair> = pairs.into_iter().map(|(pair, _)| pair).collect();
    pairs.extend(linear("head", &format!("{BASE}.classifier")));
    written.tensors(WEIGHTS, file, &pairs)?;
    Ok(written)
}

pub fn import(folder: &Path, config: &Value, backbone: &Backbone) -> Result<Imported> {
    for (field, value) in [("use_dora", json!(false)), ("fan_in_fan_out", json!(false)), ("bias", json!("none"))] {
        only(config, field, &value)?;
    }
    for field in [
        "rank_pattern",
        "alpha_pattern",
        "layers_to_transform",
        "layers_pattern",
        "layer_replication",
        "exclude_modules",
    ] {
        let empty = match &config[field] {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        ensure!(empty, "{CONFIG}: {field} = {}: this program has the same in every layer", config[field]);
    }
    ensure!(
        config["task_type"] == "SEQ_CLS",
        "{CONFIG}: task_type = {}: this program reads SEQ_CLS",
        config["task_type"]
    );
    let (method, mut pairs) = match config["peft_type"].as_str() {
        Some("LORA") => {
            let lora = read_lora(config)?;
            lora.check(&backbone.config.shape()).with_context(|| CONFIG.to_owned())?;
            (lora.info(), lora_pairs(&lora, backbone))
        }
        Some("IA3") => {
            let mut found = names(&config["target_modules"])?;
            found.sort();
            ensure!(
                found == ["key", "output.dense", "value"],
                "{CONFIG}: target_modules = {found:?}: this program has key, value and output.dense"
            );
            let forward = names(&config["feedforward_modules"])?;
            ensure!(
                forward == ["output.dense"],
                "{CONFIG}: feedforward_modules = {forward:?}: this program has output.dense"
            );
            (Ia3 { layout: Ia3Layout::Peft, ..Ia3::default() }.info(), ia3_pairs(backbone))
        }
        _ => bail!("{CONFIG}: peft_type = {}: this program reads LORA and IA3", config["peft_type"]),
    };
    let weights = first_of(folder, &[WEIGHTS, "adapter_model.bin"])?;
    let theirs = Checkpoint::tensors_of(&weights)?;
    let outputs =
        theirs.get(&format!("{BASE}.classifier.bias")).map(|(shape, _)| shape.first().copied().unwrap_or_default());
    let outputs = outputs.filter(|outputs| *outputs > 0);
    let outputs = outputs.context("there is no classifier among the tensors: save it with task_type=\"SEQ_CLS\"")?;
    let [weight, bias] = linear("head", &format!("{BASE}.classifier"));
    pairs.extend([(weight, vec![backbone.config.hidden_size, outputs]), (bias, vec![outputs])]);
    let tensors = ours(theirs, &pairs).with_context(|| weights.display().to_string())?;
    let (kind, labels) = match outputs {
        1 => (TaskKind::Regression, Vec::new()),
        _ => (TaskKind::Classification, (0..outputs).map(|number| format!("LABEL_{number}")).collect()),
    };
    let name = folder.file_name().map_or("imported".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Imported { name, method, kind, labels, head: "pooler".to_owned(), tensors })
}

/// Refuses any value of a field but this, which may be left out.
fn only(config: &Value, field: &str, value: &Value) -> Result<()> {
    let found = &config[field];
    ensure!(found.is_null() || found == value, "{CONFIG}: {field} = {found}: this program has only {value}");
    Ok(())
}

fn names(list: &Value) -> Result<Vec<String>> {
    let list = list.as_array().with_context(|| format!("{CONFIG}: {list}: a list of modules is needed"))?;
    list.iter()
        .map(|name| Ok(name.as_str().with_context(|| format!("{CONFIG}: {name}: a name is needed"))?.to_owned()))
        .collect()
}

/// Names of modules that end only the projections they should.
const MODULES: [(Projection, &str); 5] = [
    (Projection::Query, "query"),
    (Projection::Key, "key"),
    (Projection::Value, "value"),
    (Projection::AttentionOutput, "attention.output.dense"),
    (Projection::Intermediate, "intermediate.dense"),
];

fn targets(targets: &[Projection]) -> Result<Value> {
    // `output.dense` is the end of attention's, too: both or neither.
    let both = [Projection::AttentionOutput, Projection::Output].map(|projection| targets.contains(&projection));
    ensure!(
        both != [false, true],
        "targets: peft's `output.dense` is attention's output, too: name attention-output beside output"
    );
    let named = MODULES.iter().filter(|(projection, _)| targets.contains(projection)).map(|(_, name)| *name);
    let named =
        named.filter(|name| !both[1] || *name != "attention.output.dense").chain(both[1].then_some("output.dense"));
    Ok(named.collect::<Vec<_>>().into())
}

fn read_lora(config: &Value) -> Result<Lora> {
    let mut targets = Vec::new();
    for name in names(&config["target_modules"])? {
        match MODULES.iter().find(|(_, known)| *known == name) {
            Some((projection, _)) => targets.push(*projection),
            None if name == "output.dense" => targets.extend([Projection::AttentionOutput, Projection::Output]),
            None => bail!("{CONFIG}: target_modules: `{name}` is no projection that this program updates"),
        }
    }
    targets.sort();
    targets.dedup();
    let number = |field: &str| {
        config[field].as_f64().with_context(|| format!("{CONFIG}: {field} = {}: a number is needed", config[field]))
    };
    let rank = number("r")?;
    ensure!((1.0..=65536.0).contains(&rank) && rank.fract() == 0.0, "{CONFIG}: r = {rank}");
    let rslora = config["use_rslora"] == json!(true);
    let dropout = config["lora_dropout"].as_f64().unwrap_or_default();
    Ok(Lora {
        rank: rank as usize,
        lora_alpha: number("lora_alpha")?,
        targets,
        lora_dropout: dropout,
        rslora,
        ..Lora::default()
    })
}

fn lora_pairs(lora: &Lora, backbone: &Backbone) -> Vec<(Pair, Vec<usize>)> {
    low_rank_pairs(lora, backbone, &|[_, theirs], part| format!("{BASE}.{theirs}.{part}.weight"))
}

fn ia3_pairs(backbone: &Backbone) -> Vec<(Pair, Vec<usize>)> {
    let (network, mut all) = (backbone.config.shape(), Vec::new());
    for layer in 0..network.layers {
        for projection in [Projection::Key, Projection::Value, Projection::AttentionOutput, Projection::Output] {
            let ([ours, theirs], [input, output]) = (projection_names(layer, projection), projection.shape(&network));
            let is_output = matches!(projection, Projection::Key | Projection::Value);
            let (form, width) = if is_output { (Form::Column, output) } else { (Form::Row, input) };
            all.push((Pair::new(ours, format!("{BASE}.{theirs}.ia3_l"), form), vec![width]));
        }
    }
    all
}
