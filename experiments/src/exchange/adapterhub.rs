//! AdapterHub's `adapters`: `adapter_config.json`, `head_config.json` and two files of weights.

use std::{collections::BTreeMap, path::Path};

use adapter_core::{
    Activation, AdapterConfig, Ia3, Ia3Layout, InnerNorm, Interaction, Lora, Method, ParallelAdapters, Pfeiffer, Place,
    Placement, Projection, Scaling, Site, Sites, TaskFile, Tensors,
};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::{Backbone, Checkpoint};
use serde_json::{Map, Value, json};
use tasks::TaskKind;

use super::{
    CONFIG, Imported, Portable, first_of, read_json,
    tensors::{Form, Pair, Written, linear, ours},
};

const HEAD: &str = "head_config.json";
/// The version whose meaning of names is written, and understood.
const VERSION: &str = "adapters.1.3.0";

pub fn export(file: &TaskFile, backbone: &Backbone, name: &str) -> Result<Written> {
    let (config, pairs) = match Portable::of(&file.info.method)? {
        Portable::Bottleneck(adapter) => (bottleneck(&adapter, backbone)?, bottleneck_pairs(&adapter, backbone, name)),
        Portable::Lora(lora) => (lora_config(&lora)?, lora_pairs(&lora, backbone, name)),
        Portable::Ia3(ia3) => {
            ensure!(
                ia3.layout == Ia3Layout::Adapterhub,
                "this IA3 has PEFT's layout, which `adapters` does not have: export it for peft"
            );
            (ia3_config(), ia3_pairs(backbone, name))
        }
    };
    let mut written = Written::default();
    let common = |config: Value| {
        json!({
            "config": config,
            "hidden_size": backbone.config.hidden_size,
            "model_class": "BertAdapterModel",
            "model_name": backbone.name,
            "model_type": "bert",
            "name": name,
            "version": VERSION,
        })
    };
    written.document(CONFIG, &common(config))?;
    let pairs: Vec<Pair> = pairs.into_iter().map(|(pair, _)| pair).collect();
    written.tensors("adapter.safetensors", file, &pairs)?;
    let (head, pairs) = head_config(file, name)?;
    written.document(HEAD, &common(head))?;
    written.tensors("model_head.safetensors", file, &pairs)?;
    Ok(written)
}

pub fn import(folder: &Path, config: &Value, backbone: &Backbone) -> Result<Imported> {
    let text = |key: &str| config[key].as_str().with_context(|| format!("{CONFIG}: no `{key}`"));
    ensure!(text("model_type")? == "bert", "{CONFIG}: model_type is {}, not bert", config["model_type"]);
    let width = config["hidden_size"].as_u64();
    let expected = backbone.config.hidden_size;
    ensure!(
        width == Some(expected as u64),
        "{CONFIG}: hidden_size is {}, the backbone's {expected}",
        config["hidden_size"]
    );
    let (name, fields) =
        (text("name")?, config["config"].as_object().with_context(|| format!("{CONFIG}: no `config`"))?);
    let old_names = config.get("version").is_none();
    let (method, pairs) = if fields.get("architecture").and_then(Value::as_str) == Some("lora") {
        read_lora(fields, backbone, name)?
    } else {
        let adapter = read_bottleneck(fields, backbone, old_names)?;
        let pairs = bottleneck_pairs(&adapter, backbone, name);
        (named(adapter), pairs)
    };
    let weights = first_of(folder, &["adapter.safetensors", "pytorch_adapter.bin"])?;
    let theirs = Checkpoint::tensors_of(&weights)?.into_iter().map(|(name, tensor)| (modern(&name), tensor)).collect();
    let mut tensors = ours(theirs, &pairs).with_context(|| weights.display().to_string())?;
    let (kind, labels, head) = read_head(folder, backbone, &mut tensors)?;
    Ok(Imported { name: name.to_owned(), method, kind, labels, head, tensors })
}

/// A tensor's name as it is spelled today.
fn modern(name: &str) -> String {
    let name =
        if name.starts_with("bert.") || name.starts_with("heads.") { name.to_owned() } else { format!("bert.{name}") };
    let old = [
        "attention_text_task_adapters",
        "attention_text_lang_adapters",
        "layer_text_task_adapters",
        "layer_text_lang_adapters",
    ];
    old.iter().fold(name, |name, old| name.replace(&format!(".{old}."), ".adapters."))
}

/// A bottleneck under the name that people know it by.
fn named(adapter: AdapterConfig) -> adapter_core::MethodInfo {
    let AdapterConfig { size, activation, scaling, init_std, .. } = adapter;
    let pfeiffer = Pfeiffer { size, activation, scaling, init_std, ..Pfeiffer::default() };
    let parallel = ParallelAdapters { size, activation, scaling, init_std, ..ParallelAdapters::default() };
    if pfeiffer.adapters() == adapter {
        pfeiffer.info()
    } else if parallel.adapters() == adapter {
        parallel.info()
    } else {
        adapter.info()
    }
}

/// Tensors of a layer, by their place here and there.
fn site(layer: usize, site: Site) -> [String; 2] {
    let there = match site {
        Site::Attention => "attention.output",
        Site::FeedForward => "output",
    };
    let name = format!("bert.encoder.layer.{layer}.{there}");
    [format!("{name}.insertion"), name]
}

fn bottleneck_pairs(adapter: &AdapterConfig, backbone: &Backbone, name: &str) -> Vec<(Pair, Vec<usize>)> {
    let (hidden, mut all) = (backbone.config.hidden_size, Vec::new());
    for layer in 0..backbone.config.num_hidden_layers {
        for place in Site::ALL.map(|site| Place::new(layer, site)) {
            let size = adapter.size_at(place);
            if size == 0 {
                continue;
            }
            let [ours, theirs] = site(layer, place.site);
            let theirs = format!("{theirs}.adapters.{name}");
            let [down, down_bias] = linear(&format!("{ours}.down"), &format!("{theirs}.adapter_down.0"));
            let [up, up_bias] = linear(&format!("{ours}.up"), &format!("{theirs}.adapter_up"));
            all.extend([(down, vec![hidden, size]), (down_bias, vec![size])]);
            all.extend([(up, vec![size, hidden]), (up_bias, vec![hidden])]);
            let scale = match adapter.scaling {
                Scaling::Fixed(_) => continue,
                Scaling::Learned => 1,
                Scaling::Channel => hidden,
            };
            all.push((Pair::new(format!("{ours}.scale"), format!("{theirs}.scaling"), Form::Same), vec![scale]));
        }
    }
    all
}

/// A projection's name in a layer of BERT.
pub(super) fn projection_name(projection: Projection) -> &'static str {
    match projection {
        Projection::Query => "attention.self.query",
        Projection::Key => "attention.self.key",
        Projection::Value => "attention.self.value",
        Projection::AttentionOutput => "attention.output.dense",
        Projection::Intermediate => "intermediate.dense",
        Projection::Output => "output.dense",
    }
}

/// A projection's name in what is inserted.
pub(super) fn field(projection: Projection) -> &'static str {
    match projection {
        Projection::Query => "query",
        Projection::Key => "key",
        Projection::Value => "value",
        Projection::AttentionOutput => "attention_output",
        Projection::Intermediate => "intermediate",
        Projection::Output => "output",
    }
}

/// What is inserted for a projection, and the projection, in a layer.
pub(super) fn projection_names(layer: usize, projection: Projection) -> [String; 2] {
    let [ours, _] = site(layer, projection.site());
    [format!("{ours}.{}", field(projection)), format!("bert.encoder.layer.{layer}.{}", projection_name(projection))]
}

fn lora_pairs(lora: &Lora, backbone: &Backbone, name: &str) -> Vec<(Pair, Vec<usize>)> {
    let theirs = |[_, theirs]: &[String; 2], part: &str| format!("{theirs}.loras.{name}.{part}");
    low_rank_pairs(lora, backbone, &theirs)
}

/// The tensors of LoRA; `theirs` spells `lora_A` and `lora_B` of a projection.
pub(super) fn low_rank_pairs(
    lora: &Lora,
    backbone: &Backbone,
    theirs: &dyn Fn(&[String; 2], &str) -> String,
) -> Vec<(Pair, Vec<usize>)> {
    let (network, mut all) = (backbone.config.shape(), Vec::new());
    for layer in 0..network.layers {
        for projection in Projection::ALL.into_iter().filter(|projection| lora.targets.contains(projection)) {
            let (names, [input, output]) = (projection_names(layer, projection), projection.shape(&network));
            for (part, shape) in [("a", vec![input, lora.rank]), ("b", vec![lora.rank, output])] {
                let ours = format!("{}.lora_{part}", names[0]);
                let pair = Pair::new(ours, theirs(&names, &format!("lora_{}", part.to_uppercase())), Form::Transposed);
                all.push((pair, shape));
            }
        }
    }
    all
}

fn ia3_pairs(backbone: &Backbone, name: &str) -> Vec<(Pair, Vec<usize>)> {
    let (network, mut all) = (backbone.config.shape(), Vec::new());
    for layer in 0..network.layers {
        for projection in [Projection::Key, Projection::Value, Projection::Intermediate] {
            let [ours, theirs] = projection_names(layer, projection);
            let [_, width] = projection.shape(&network);
            all.push((Pair::new(ours, format!("{theirs}.loras.{name}.lora_B"), Form::Column), vec![width]));
        }
    }
    all
}

/// Names of activations there.
const ACTIVATIONS: [(Activation, &str); 8] = [
    (Activation::Gelu, "gelu"),
    (Activation::TanhGelu, "gelu_new"),
    (Activation::Relu, "relu"),
    (Activation::Tanh, "tanh"),
    (Activation::Swish, "swish"),
    (Activation::Sigmoid, "sigmoid"),
    (Activation::LeakyRelu, "leakyrelu"),
    (Activation::Identity, "linear"),
];

fn bottleneck(adapter: &AdapterConfig, backbone: &Backbone) -> Result<Value> {
    let (hidden, layers) = (backbone.config.hidden_size, backbone.config.num_hidden_layers);
    ensure!(
        adapter.norm == InnerNorm::None,
        "norm = {:?}: `adapters` has no normalisation inside an adapter",
        adapter.norm
    );
    ensure!(
        adapter.depth == 1,
        "depth = {}: an adapter of `adapters` has one projection into its bottleneck",
        adapter.depth
    );
    ensure!(adapter.interaction == Interaction::Additive, "`adapters` has no multiplicative adapters");
    let activation = ACTIVATIONS.iter().find(|(known, _)| *known == adapter.activation).map(|(_, name)| *name);
    // Half a unit more survives the library's way of dividing.
    let reduction = |size: usize| match hidden.is_multiple_of(size) {
        true => json!(hidden / size),
        false => json!(hidden as f64 / (size as f64 + 0.5)),
    };
    let sizes: Vec<usize> =
        (0..layers).map(|layer| adapter.layer_sizes.get(layer).copied().unwrap_or(adapter.size)).collect();
    let mut by_layer: Map<String, Value> = Map::new();
    for (layer, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
        by_layer.insert(layer.to_string(), reduction(*size));
    }
    by_layer.insert("default".to_owned(), reduction(adapter.size));
    let left_out: Vec<usize> = (0..layers).filter(|layer| sizes[*layer] == 0).collect();
    Ok(json!({
        "mh_adapter": adapter.sites.contains(Site::Attention),
        "output_adapter": adapter.sites.contains(Site::FeedForward),
        "original_ln_before": adapter.placement == Placement::AfterNorm,
        "original_ln_after": true,
        "residual_before_ln": true,
        "adapter_residual_before_ln": false,
        "ln_before": false,
        "ln_after": false,
        "is_parallel": adapter.placement == Placement::Parallel,
        "non_linearity": activation.context("this activation is none of `adapters`")?,
        "reduction_factor": if adapter.layer_sizes.is_empty() { reduction(adapter.size) } else { Value::Object(by_layer) },
        "leave_out": left_out,
        "scaling": adapter.scaling,
        "dropout": 0.0,
        "stochastic_depth": 0.0,
        "init_weights": "bert",
        "init_weights_seed": null,
        "use_gating": false,
        "cross_adapter": false,
        "inv_adapter": null,
        "inv_adapter_reduction_factor": null,
        "phm_layer": false,
        "phm_dim": 4,
        "phm_rank": 1,
        "phm_bias": true,
        "phm_c_init": "normal",
        "phm_init_range": 0.0001,
        "learn_phm": true,
        "hypercomplex_nonlinearity": "glorot-uniform",
        "factorized_phm_W": true,
        "factorized_phm_rule": false,
        "shared_W_phm": false,
        "shared_phm_rule": true,
    }))
}

/// Fields that say how something began, or belong to what is refused anyhow.
const NO_MATTER: [&str; 16] = [
    "architecture",
    "init_weights",
    "init_weights_seed",
    "inv_adapter_reduction_factor",
    "phm_dim",
    "phm_rank",
    "phm_bias",
    "phm_c_init",
    "phm_init_range",
    "learn_phm",
    "hypercomplex_nonlinearity",
    "factorized_phm_W",
    "factorized_phm_rule",
    "shared_W_phm",
    "shared_phm_rule",
    "dtype",
];

/// A configuration whose fields are read one by one; what is left in the end is not understood.
struct Fields<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Fields<'a> {
    fn new(fields: &'a Map<String, Value>) -> Self {
        let read = fields.iter().map(|(key, value)| (key.as_str(), value));
        Self(read.filter(|(key, _)| !NO_MATTER.contains(key)).collect())
    }

    fn take(&mut self, key: &str) -> Value {
        self.0.remove(key).cloned().unwrap_or_default()
    }

    fn flag(&mut self, key: &str) -> Result<bool> {
        match self.take(key) {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(flag),
            other => bail!("{CONFIG}: {key} = {other}: true or false is needed"),
        }
    }

    /// Refuses any value of a field but this, which may be left out.
    fn only(&mut self, key: &str, value: &Value) -> Result<()> {
        let found = self.take(key);
        let same = found == *value || found.is_null() || (found.as_f64().is_some() && found.as_f64() == value.as_f64());
        ensure!(same, "{CONFIG}: {key} = {found}: this program has only {value}");
        Ok(())
    }

    fn finish(self) -> Result<()> {
        match self.0.into_iter().next() {
            Some((key, value)) => bail!("{CONFIG}: {key} = {value}: this program does not know this field"),
            None => Ok(()),
        }
    }
}

fn read_bottleneck(fields: &Map<String, Value>, backbone: &Backbone, old_names: bool) -> Result<AdapterConfig> {
    let mut fields = Fields::new(fields);
    let (hidden, layers) = (backbone.config.hidden_size, backbone.config.num_hidden_layers);
    for key in ["adapter_residual_before_ln", "ln_before", "ln_after", "use_gating", "cross_adapter", "phm_layer"] {
        fields.only(key, &json!(false))?;
    }
    for key in ["dropout", "stochastic_depth"] {
        fields.only(key, &json!(0.0))?;
    }
    for key in ["original_ln_after", "residual_before_ln"] {
        fields.only(key, &json!(true))?;
    }
    fields.only("inv_adapter", &Value::Null)?;
    let sites = match (fields.flag("mh_adapter")?, fields.flag("output_adapter")?) {
        (true, true) => Sites::Both,
        (true, false) => Sites::Attention,
        (false, true) => Sites::FeedForward,
        (false, false) => bail!("{CONFIG}: mh_adapter and output_adapter are false: there is no adapter"),
    };
    let placement = match (fields.flag("is_parallel")?, fields.flag("original_ln_before")?) {
        (true, false) => Placement::Parallel,
        (false, true) => Placement::AfterNorm,
        (false, false) => Placement::Serial,
        (true, true) => {
            bail!("{CONFIG}: is_parallel = true with original_ln_before = true: this program has only one of them")
        }
    };
    let named = fields.take("non_linearity");
    let named = named.as_str().with_context(|| format!("{CONFIG}: non_linearity = {named}: a name is needed"))?;
    let named = match named {
        // Before versions were written, the names meant something else.
        "gelu" if old_names => "gelu_new",
        "gelu_orig" if old_names => "gelu",
        "silu" => "swish",
        named => named,
    };
    let activation = ACTIVATIONS.iter().find(|(_, name)| *name == named).map(|(activation, _)| *activation);
    let activation = activation
        .with_context(|| format!("{CONFIG}: non_linearity = {named}: this program has no such activation"))?;
    let scaling = fields.take("scaling");
    let scaling = if scaling.is_null() { Ok(Scaling::default()) } else { Scaling::try_from(scaling) };
    let scaling = scaling.map_err(|what| anyhow::anyhow!("{CONFIG}: scaling: {what}"))?;
    let left_out = layer_list(&fields.take("leave_out"), layers)?;
    let reduction = fields.take("reduction_factor");
    let size_of = |factor: &Value| {
        let factor = factor.as_f64().filter(|factor| *factor > 0.0 && factor.is_finite());
        let factor =
            factor.with_context(|| format!("{CONFIG}: reduction_factor = {reduction}: a positive number is needed"))?;
        // A bottleneck wider than this is none.
        let size = (hidden as f64 / factor).floor();
        ensure!(
            (1.0..=65536.0).contains(&size),
            "{CONFIG}: reduction_factor = {reduction}: that makes a bottleneck of {size}"
        );
        Ok(size as usize)
    };
    let mut sizes = Vec::new();
    for layer in 0..layers {
        sizes.push(match &reduction {
            _ if left_out.contains(&layer) => 0,
            Value::Object(map) => {
                let own = map.get(&layer.to_string()).or(map.get("default"));
                size_of(own.with_context(|| format!("{CONFIG}: reduction_factor says nothing of layer {layer}"))?)?
            }
            factor => size_of(factor)?,
        });
    }
    fields.finish()?;
    let size = sizes.iter().copied().max().filter(|size| *size > 0).context("no layer has an adapter")?;
    let layer_sizes = if sizes.iter().all(|other| *other == size) { Vec::new() } else { sizes };
    Ok(AdapterConfig {
        layer_sizes,
        sites,
        placement,
        activation,
        scaling,
        layer_norm: false,
        ..AdapterConfig::new(size)
    })
}

fn layer_list(value: &Value, layers: usize) -> Result<Vec<usize>> {
    let Some(list) = value.as_array() else {
        ensure!(value.is_null(), "{CONFIG}: leave_out = {value}: a list is needed");
        return Ok(Vec::new());
    };
    let layer = |value: &Value| value.as_u64().map(|layer| layer as usize).filter(|layer| *layer < layers);
    list.iter()
        .map(|value| layer(value).with_context(|| format!("{CONFIG}: leave_out: there is no layer {value}")))
        .collect()
}

/// LoRA's configuration there, which is IA3's, too.
fn low_rank(r: usize, alpha: f64, dropout: f64, matrices: &[&str], mode: &str, init: &str, wide: [bool; 2]) -> Value {
    let alpha = if alpha.fract() == 0.0 { json!(alpha as i64) } else { json!(alpha) };
    json!({
        "architecture": "lora",
        "selfattn_lora": !matrices.is_empty(),
        "intermediate_lora": wide[0],
        "output_lora": wide[1],
        "leave_out": [],
        "r": r,
        "alpha": alpha,
        "dropout": dropout,
        "attn_matrices": matrices,
        "composition_mode": mode,
        "init_weights": init,
        "init_weights_seed": null,
        "use_gating": false,
        "use_dora": false,
        "vera_d": null,
        "vera_b": null,
        "dtype": null,
    })
}

fn lora_config(lora: &Lora) -> Result<Value> {
    let has = |projection| lora.targets.contains(&projection);
    ensure!(!has(Projection::AttentionOutput), "targets: `adapters` has no LoRA at attention's output");
    let letters = [(Projection::Query, "q"), (Projection::Key, "k"), (Projection::Value, "v")];
    let matrices: Vec<&str> =
        letters.iter().filter(|(projection, _)| has(*projection)).map(|(_, letter)| *letter).collect();
    // What multiplies an update is α / r there.
    let alpha = lora.factor() * lora.rank as f64;
    let wide = [has(Projection::Intermediate), has(Projection::Output)];
    Ok(low_rank(lora.rank, alpha, lora.lora_dropout, &matrices, "add", "lora", wide))
}

fn ia3_config() -> Value {
    low_rank(1, 1.0, 0.0, &["k", "v"], "scale", "ia3", [true, false])
}

type ReadMethod = (adapter_core::MethodInfo, Vec<(Pair, Vec<usize>)>);

fn read_lora(fields: &Map<String, Value>, backbone: &Backbone, name: &str) -> Result<ReadMethod> {
    let mut fields = Fields::new(fields);
    for key in ["use_gating", "use_dora"] {
        fields.only(key, &json!(false))?;
    }
    for key in ["vera_d", "vera_b"] {
        fields.only(key, &Value::Null)?;
    }
    let left_out = layer_list(&fields.take("leave_out"), backbone.config.num_hidden_layers)?;
    ensure!(left_out.is_empty(), "{CONFIG}: leave_out = {left_out:?}: this program has LoRA and IA3 in every layer");
    let (selfattn, wide, narrow) =
        (fields.flag("selfattn_lora")?, fields.flag("intermediate_lora")?, fields.flag("output_lora")?);
    let mut targets = Vec::new();
    for letter in fields.take("attn_matrices").as_array().cloned().unwrap_or_default() {
        targets.push(match letter.as_str() {
            Some("q") => Projection::Query,
            Some("k") => Projection::Key,
            Some("v") => Projection::Value,
            _ => bail!("{CONFIG}: attn_matrices: {letter} is none of q, k, v"),
        });
    }
    if !selfattn {
        targets.clear();
    }
    targets.extend(wide.then_some(Projection::Intermediate));
    targets.extend(narrow.then_some(Projection::Output));
    let number = |key: &str, value: Value| {
        value.as_f64().with_context(|| format!("{CONFIG}: {key} = {value}: a number is needed"))
    };
    let (rank, alpha) = (number("r", fields.take("r"))?, number("alpha", fields.take("alpha"))?);
    let dropout = number("dropout", fields.take("dropout"))?;
    let mode = fields.take("composition_mode");
    fields.finish()?;
    let network = backbone.config.shape();
    match mode.as_str() {
        Some("add") => {
            ensure!((1.0..=65536.0).contains(&rank) && rank.fract() == 0.0, "{CONFIG}: r = {rank}");
            let lora =
                Lora { rank: rank as usize, lora_alpha: alpha, targets, lora_dropout: dropout, ..Lora::default() };
            lora.check(&network).with_context(|| CONFIG.to_owned())?;
            Ok((lora.info(), lora_pairs(&lora, backbone, name)))
        }
        Some("scale") => {
            let usual = [Projection::Key, Projection::Value, Projection::Intermediate];
            ensure!(
                targets.len() == usual.len() && usual.iter().all(|projection| targets.contains(projection)),
                "{CONFIG}: attn_matrices, intermediate_lora and output_lora: this program rescales keys, values and the intermediate \
                 activations, and no others"
            );
            ensure!(alpha == 1.0 && rank == 1.0, "{CONFIG}: r = {rank}, alpha = {alpha}: IA3 has 1 and 1");
            Ok((Ia3::default().info(), ia3_pairs(backbone, name)))
        }
        _ => bail!("{CONFIG}: composition_mode = {mode}: this program has add and scale"),
    }
}

fn head_config(file: &TaskFile, name: &str) -> Result<(Value, Vec<Pair>)> {
    let outputs = file.shape("head.weight").context("the file has no head")?[1];
    let last = |place: &str| {
        let theirs = format!("heads.{name}.{place}");
        linear("head", &theirs)
    };
    let (layers, activation, pooler, pairs) = match file.info.head.as_str() {
        "cls" | "tokens" => (1, Value::Null, false, last("1").to_vec()),
        "pooler" => (1, Value::Null, true, last("1").to_vec()),
        "mlp" => {
            let first = linear("head.inner.0", &format!("heads.{name}.1"));
            (2, json!("tanh"), false, [first, last("4")].concat())
        }
        other => bail!("`adapters` has no head like `{other}`"),
    };
    let kind: TaskKind = file.info.kind.parse()?;
    let head_type = match kind {
        TaskKind::Classification | TaskKind::Regression => "classification",
        TaskKind::MultiLabel => "multilabel_classification",
        TaskKind::Span => "question_answering",
    };
    let numbered = |number: usize| file.info.labels.get(number).cloned().unwrap_or_else(|| format!("LABEL_{number}"));
    let labels: Map<String, Value> = (0..outputs).map(|number| (numbered(number), number.into())).collect();
    let mut config = json!({
        "head_type": head_type,
        "num_labels": outputs,
        "layers": layers,
        "activation_function": activation,
        "label2id": labels,
        "dropout_prob": null,
    });
    if kind != TaskKind::Span {
        config["use_pooler"] = pooler.into();
        config["bias"] = true.into();
    }
    Ok((config, pairs))
}

fn read_head(folder: &Path, backbone: &Backbone, tensors: &mut Tensors) -> Result<(TaskKind, Vec<String>, String)> {
    let config = read_json(&folder.join(HEAD))
        .context("an adapter without a head predicts nothing: save it with with_head=True")?;
    let name = config["name"].as_str().with_context(|| format!("{HEAD}: no `name`"))?;
    let config = &config["config"];
    let outputs = config["num_labels"].as_u64().filter(|outputs| (1..=1_000_000).contains(outputs));
    let outputs = outputs.with_context(|| format!("{HEAD}: num_labels = {}", config["num_labels"]))? as usize;
    let kind = match config["head_type"].as_str() {
        Some("classification") if outputs == 1 => TaskKind::Regression,
        Some("classification") => TaskKind::Classification,
        Some("multilabel_classification") => TaskKind::MultiLabel,
        Some("question_answering") if outputs == 2 => TaskKind::Span,
        _ => bail!("{HEAD}: head_type = {}: this program has no such head", config["head_type"]),
    };
    ensure!(config["bias"] != json!(false), "{HEAD}: bias = false: heads of this program have one");
    let pooler = config["use_pooler"] == json!(true);
    let (hidden, last) = (backbone.config.hidden_size, |place: &str| linear("head", &format!("heads.{name}.{place}")));
    let shaped = |[weight, bias]: [Pair; 2], shape: [usize; 2]| [(weight, shape.to_vec()), (bias, vec![shape[1]])];
    let (head, pairs) = match (config["layers"].as_u64(), config["activation_function"].as_str(), pooler) {
        (Some(1), _, false) if kind == TaskKind::Span => ("tokens", shaped(last("1"), [hidden, outputs]).to_vec()),
        (Some(1), None, false) => ("cls", shaped(last("1"), [hidden, outputs]).to_vec()),
        (Some(1), None, true) => ("pooler", shaped(last("1"), [hidden, outputs]).to_vec()),
        (Some(2), Some("tanh"), false) if kind != TaskKind::Span => {
            let first = shaped(linear("head.inner.0", &format!("heads.{name}.1")), [hidden, hidden]);
            ("mlp", [first, shaped(last("4"), [hidden, outputs])].concat())
        }
        (layers, activation, _) => bail!(
            "{HEAD}: layers = {layers:?}, activation_function = {activation:?}, use_pooler = {pooler}: this program has one layer, or two \
             with tanh on [CLS]"
        ),
    };
    let weights = first_of(folder, &["model_head.safetensors", "pytorch_model_head.bin"])?;
    let theirs = Checkpoint::tensors_of(&weights)?;
    tensors.extend(ours(theirs, &pairs).with_context(|| weights.display().to_string())?);
    let mut labels: Vec<(u64, String)> = Vec::new();
    for (label, number) in config["label2id"].as_object().into_iter().flatten() {
        labels.push((number.as_u64().with_context(|| format!("{HEAD}: label2id: {label} = {number}"))?, label.clone()));
    }
    labels.sort();
    let whole =
        labels.len() == outputs && labels.iter().enumerate().all(|(place, (number, _))| place as u64 == *number);
    let labels = match kind {
        TaskKind::Regression | TaskKind::Span => Vec::new(),
        _ if whole => labels.into_iter().map(|(_, label)| label).collect(),
        _ => (0..outputs).map(|number| format!("LABEL_{number}")).collect(),
    };
    Ok((kind, labels, head.to_owned()))
}
