//! Task files that travel to libraries of Python and back: both sides compute the same. `.ci/exchange` installs them and runs this.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use adapter_core::{
    AdapterConfig, BiasOnly, Features, FullFineTuning, Ia3, Ia3Layout, Init, LayerNormOnly, Lora, Method, MethodInfo,
    ParallelAdapters, Pfeiffer, Pool, Projection, Scaling, TaskFile, TaskInfo, TensorInfo, Tensors, TopLayers,
};
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::tensor::Device;
use common::place::answer;
use experiments::{ExportOptions, Format, ImportOptions, Inference, LAYER_NORMS, Lab, StepLine, export, import, merge};
use rstest::rstest;
use serde_json::{Value, json};
use tasks::{BatchConfig, Example, Head, Target, TaskData, TokenCache, epoch_batches};
use tempfile::TempDir;

const TEXTS: [&str; 20] = [
    "the dog is on the mat",
    "she plays",
    "the cat is on the dog",
    "it is",
    "who is it?",
    "a dog and a cat",
    "the mat",
    "she is on the mat and it is a dog",
    "play, play, play",
    "on the on the on",
    "is she a cat?",
    "the dog plays on the mat with the cat",
    "it",
    "she",
    "cats and dogs",
    "the the the",
    "is it on?",
    "a mat is a mat",
    "dog",
    "she plays with it on the mat",
];

/// A backbone, and a folder for what travels.
struct Here {
    folder: TempDir,
    backbone: Backbone,
    place: PathBuf,
}

impl Here {
    /// A small random BERT, or that of `EXCHANGE_BACKBONE`.
    fn new() -> Self {
        match std::env::var_os("EXCHANGE_BACKBONE") {
            Some(place) => Self::on(tempfile::tempdir().unwrap(), PathBuf::from(place)),
            None => Self::tiny(),
        }
    }

    /// A small random BERT.
    fn tiny() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("tiny");
        RandomCheckpoint::tiny().write(&place, &Device::flex()).unwrap();
        Self::on(folder, place)
    }

    fn on(folder: TempDir, place: PathBuf) -> Self {
        let backbone = Backbone::load(&place, &Device::flex()).unwrap();
        Self { folder, backbone, place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What Python says of the texts.
    fn python(&self, command: &str, folder: &Path) -> BTreeMap<String, Vec<Vec<f32>>> {
        serde_json::from_value(self.python_with(command, folder, &json!(TEXTS))).unwrap()
    }

    /// What Python says.
    fn python_with(&self, command: &str, folder: &Path, given: &Value) -> Value {
        let texts = self.path("given.json");
        fs::write(&texts, given.to_string()).unwrap();
        let mut python = Command::new(std::env::var("EXCHANGE_PYTHON").unwrap_or_else(|_| "python3".to_owned()));
        python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exchange/twin.py")).arg(command);
        python.arg(&self.place).arg(folder).arg(&texts);
        answer(python)
    }

    /// What we say.
    fn logits(&self, file: TaskFile) -> Vec<Vec<f32>> {
        let (device, lab) = (Device::flex(), Lab::paper());
        let model = lab.load(&self.backbone, file, &device).unwrap();
        let examples: Vec<Example> = TEXTS.iter().map(|text| example(text)).collect();
        let tokens = TokenCache::new(self.path("tokens")).texts(&examples, &self.backbone.tokenizer, 64).unwrap();
        let how = Inference { network: &self.backbone.config, batch_size: 8, device: &device };
        model.outputs(&Arc::new(tokens), how).unwrap()
    }

    /// A task file of a method, with values that no initialisation has.
    fn file(&self, method: MethodInfo, head: &str) -> TaskFile {
        let (lab, device) = (Lab::paper(), Device::flex());
        let info = TaskInfo {
            task: "own".to_owned(),
            kind: "classification".to_owned(),
            labels: ["no", "perhaps", "yes"].map(str::to_owned).to_vec(),
            pairs: Some(false),
            head: head.to_owned(),
            max_length: 64,
            method,
            backbone: self.backbone.id(),
            origin: Default::default(),
        };
        let init = Init::new(0);
        let head = Head::new(&self.backbone.config.shape(), 3, lab.heads.find(head).unwrap(), init, &device);
        let method = lab.configure(&info.method).unwrap();
        let model = method.build(self.backbone.bert.clone(), head, init, &device).unwrap();
        let mut number = 0;
        let values = |tensor: &TensorInfo| {
            // Factors begin as ones.
            let about = if tensor.shape.len() == 1 && !tensor.name.ends_with(".bias") { 1.0 } else { 0.0 };
            let next = || {
                number += 1;
                about + 0.1 * (f64::from(number) * 1.7).sin() as f32
            };
            let values = std::iter::repeat_with(next).take(tensor.elements()).collect();
            (tensor.name.clone(), (tensor.shape.clone(), values))
        };
        let tensors: Tensors = model.trained().iter().map(values).collect();
        TaskFile::new(info, tensors)
    }
}

fn example(text: &str) -> Example {
    Example { id: String::new(), text: text.to_owned(), pair: None, target: None }
}

fn assert_close(name: &str, ours: &[Vec<f32>], theirs: &[Vec<f32>]) {
    assert_eq!((ours.len(), theirs.len()), (TEXTS.len(), TEXTS.len()), "{name}");
    let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
    let apart = pairs.fold(0.0f32, |apart, (a, b)| apart.max((a - b).abs()));
    assert!(apart < 1e-4, "{name}: {apart}");
    let spread = ours.iter().flatten().fold(0.0f32, |spread, value| spread.max((value - ours[0][0]).abs()));
    assert!(spread > 1e-2, "{name}: all logits are the same");
}

/// What Python saved in `folder`, and said of the texts.
fn assert_imported(here: &Here, folder: &Path, said: BTreeMap<String, Vec<Vec<f32>>>) {
    assert_eq!(said.len(), 11);
    for (name, theirs) in said {
        let file = import(&folder.join(&name), &here.backbone, &ImportOptions::default()).unwrap();
        if !name.starts_with("peft") {
            assert_eq!(file.info.labels, ["no", "perhaps", "yes"]);
        }
        assert_close(&name, &here.logits(file), &theirs);
    }
}

#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn what_python_saves_predicts_the_same_here() {
    let here = Here::new();
    let folder = here.path("theirs");
    fs::create_dir(&folder).unwrap();
    let said = here.python("save", &folder);
    // `GOLDEN=1` renews what the next test reads.
    if std::env::var_os("GOLDEN").is_some() {
        let (from, to) = (folder.display().to_string(), golden().display().to_string());
        assert!(Command::new("cp").args(["-rT", &from, &to]).status().unwrap().success());
        fs::write(golden().join("logits.json"), serde_json::to_string(&said).unwrap()).unwrap();
    }
    assert_imported(&here, &folder, said);
}

/// What Python saved once, on the small random BERT.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/exchange")
}

#[test]
fn what_python_saved_once_predicts_the_same_here() {
    let here = Here::tiny();
    let said = fs::read_to_string(golden().join("logits.json")).unwrap();
    assert_imported(&here, &golden(), serde_json::from_str(&said).unwrap());
}

/// Methods that can be exported, with their heads.
fn ours() -> Vec<(&'static str, Format, MethodInfo, &'static str)> {
    use Format::{Adapterhub, Peft};
    let adapters = AdapterConfig { layer_norm: false, ..AdapterConfig::new(5) };
    let by_layer = AdapterConfig { layer_sizes: vec![], scaling: Scaling::Channel, ..adapters.clone() };
    let lora = Lora { rank: 3, lora_alpha: 12.0, ..Lora::default() };
    let everywhere = Lora { targets: Projection::ALL.to_vec(), rslora: true, ..lora.clone() };
    vec![
        ("adapters", Adapterhub, adapters.info(), "cls"),
        ("adapters-by-channel", Adapterhub, by_layer.info(), "mlp"),
        ("pfeiffer", Adapterhub, Pfeiffer { size: 6, ..Pfeiffer::default() }.info(), "pooler"),
        ("parallel", Adapterhub, ParallelAdapters { size: 7, ..ParallelAdapters::default() }.info(), "cls"),
        ("lora", Adapterhub, lora.info(), "cls"),
        ("ia3", Adapterhub, Ia3::default().info(), "cls"),
        ("peft-lora", Peft, lora.info(), "pooler"),
        ("peft-lora-everywhere", Peft, everywhere.info(), "pooler"),
        ("peft-ia3", Peft, Ia3 { layout: Ia3Layout::Peft, ..Ia3::default() }.info(), "pooler"),
    ]
}

#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn what_we_export_predicts_the_same_there() {
    let here = Here::new();
    let folder = here.path("ours");
    let mut logits = BTreeMap::new();
    for (name, format, method, head) in ours() {
        let file = here.file(method, head);
        let options = ExportOptions { format, name: "own".to_owned(), layer_norms: false };
        export(&file, &here.backbone, &options, &folder.join(name)).unwrap();
        logits.insert(name, here.logits(file));
    }
    let said = here.python("load", &folder);
    assert_eq!(said.len(), logits.len());
    for (name, ours) in logits {
        assert_close(name, &ours, &said[name]);
    }
}

/// Features have no file that travels: their twin is made of plain BERT and the head's tensors.
const POOLS: [(&str, Pool, &str); 3] =
    [("cls", Pool::Cls, "mlp"), ("mean", Pool::Mean, "mean-mlp"), ("mix", Pool::Mix, "mix-mlp")];

#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn features_predict_the_same_there() {
    let here = Here::new();
    let folder = here.path("features");
    fs::create_dir(&folder).unwrap();
    let mut logits = BTreeMap::new();
    for (name, pool, head) in POOLS {
        let file = here.file(Features { pool }.info(), head);
        file.write(&folder.join(format!("{name}.safetensors"))).unwrap();
        logits.insert(name, here.logits(file));
    }
    let said = here.python("features", &folder);
    if std::env::var_os("GOLDEN").is_some() {
        fs::write(golden().join("features.json"), serde_json::to_string(&said).unwrap()).unwrap();
    }
    for (name, ours) in logits {
        assert_close(name, &ours, &said[name]);
    }
}

#[test]
fn features_predict_what_python_said_once() {
    let here = Here::tiny();
    let said = fs::read_to_string(golden().join("features.json")).unwrap();
    let said: BTreeMap<String, Vec<Vec<f32>>> = serde_json::from_str(&said).unwrap();
    for (name, pool, head) in POOLS {
        assert_close(name, &here.logits(here.file(Features { pool }.info(), head)), &said[name]);
    }
}

/// Tensors as early versions of AdapterHub's library called them.
#[rstest]
#[case("task", true)]
#[case("task", false)]
#[case("lang", true)]
fn old_names_are_understood(#[case] kind: &str, #[case] prefix: bool) {
    let here = Here::tiny();
    let file = here.file(AdapterConfig { layer_norm: false, ..AdapterConfig::new(5) }.info(), "cls");
    let folder = here.path("theirs/old");
    let options = ExportOptions { format: Format::Adapterhub, name: "own".to_owned(), layer_norms: false };
    export(&file, &here.backbone, &options, &folder).unwrap();
    let path = folder.join("adapter.safetensors");
    let old = |name: &str| {
        let name =
            name.replace("attention.output.adapters", &format!("attention.output.attention_text_{kind}_adapters"));
        let name = name.replace(".output.adapters", &format!(".output.layer_text_{kind}_adapters"));
        if prefix { name } else { name.trim_start_matches("bert.").to_owned() }
    };
    let tensors = bert_backbone::Checkpoint::tensors_of(&path).unwrap();
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, (shape, values))| (old(&name), shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    assert!(bytes.iter().all(|(name, ..)| name.contains(&format!("_text_{kind}_adapters.own.adapter_"))));
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap())
    });
    fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    // The library wrote no version then, and meant the tanh approximation by `gelu`; this adapter has another function.
    let back = import(&folder, &here.backbone, &ImportOptions::default()).unwrap();
    assert_eq!(back.tensors(), file.tensors());
    if std::env::var_os("EXCHANGE_PYTHON").is_some() {
        let said = here.python("load", &here.path("theirs"));
        assert_close("old", &here.logits(back), &said["old"]);
    }
}

#[test]
fn what_is_exported_comes_back_bit_for_bit() {
    let here = Here::new();
    for (name, format, method, head) in ours() {
        let (file, folder) = (here.file(method, head), here.path(name));
        let options = ExportOptions { format, name: "own".to_owned(), layer_norms: false };
        export(&file, &here.backbone, &options, &folder).unwrap();
        let labels = ["no", "perhaps", "yes"].map(str::to_owned).to_vec();
        let back = import(&folder, &here.backbone, &ImportOptions { labels, ..ImportOptions::default() }).unwrap();
        assert_eq!(back.tensors(), file.tensors(), "{name}");
        assert_eq!(here.logits(back), here.logits(file), "{name}");
    }
}

fn largest_difference(one: &[Vec<f32>], other: &[Vec<f32>]) -> f32 {
    one.iter().flatten().zip(other.iter().flatten()).fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

#[rstest]
#[case(Lora { rank: 3, lora_alpha: 12.0, ..Lora::default() }.info(), "cls")]
#[case(Lora { targets: Projection::ALL.to_vec(), layer_norm: true, top_layers: 1, ..Lora::default() }.info(), "pooler")]
#[case(FullFineTuning {}.info(), "pooler")]
#[case(TopLayers::new(1).info(), "mlp")]
#[case(LayerNormOnly {}.info(), "cls")]
#[case(BiasOnly {}.info(), "cls")]
#[case(Features { pool: Pool::Mix }.info(), "mix-mlp")]
fn a_merged_network_predicts_the_same(#[case] method: MethodInfo, #[case] head: &str) {
    let here = Here::tiny();
    let (file, folder) = (here.file(method, head), here.path("merged"));
    merge(&file, &here.backbone, &folder).unwrap();
    let merged = Here::on(tempfile::tempdir().unwrap(), folder.clone());
    let alone = TaskFile::read(&folder.join("v.safetensors")).unwrap();
    assert!(alone.tensors().keys().all(|name| name.starts_with("head.")));
    let apart = largest_difference(&here.logits(file), &merged.logits(alone));
    assert!(apart < 1e-5, "{apart}");
}

#[test]
fn what_is_no_change_of_weights_is_not_merged() {
    let here = Here::tiny();
    for method in [AdapterConfig::new(4).info(), Ia3::default().info()] {
        let error = merge(&here.file(method, "cls"), &here.backbone, &here.path("merged")).unwrap_err().to_string();
        assert!(error.contains("what no plain BERT does"), "{error}");
        assert!(!here.path("merged").exists());
    }
}

#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn a_merged_network_is_one_of_transformers() {
    let here = Here::new();
    let file = here.file(Lora { rank: 3, lora_alpha: 12.0, ..Lora::default() }.info(), "pooler");
    let folder = here.path("merged");
    merge(&file, &here.backbone, &folder).unwrap();
    let merged = Here::on(tempfile::tempdir().unwrap(), folder);
    let said = merged.python("plain", Path::new("."));
    assert_close("merged", &here.logits(file), &said["plain"]);
}

/// The page about Python does what it says.
#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn the_page_about_python_works() {
    let here = Here::tiny();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/python.md")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_adapter-lab")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let python = std::env::var("EXCHANGE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut run = 0;
    for block in page.split("\n```").filter(|block| block.starts_with("sh\n") || block.starts_with("python\n")) {
        let (kind, code) = block.split_once('\n').unwrap();
        let code: String =
            code.lines().filter(|line| !line.starts_with("BACKBONE=")).map(|line| format!("{line}\n")).collect();
        let mut command = Command::new(if kind == "sh" { "sh" } else { &python });
        command.arg(if kind == "sh" { "-ec" } else { "-c" }).arg(code).current_dir(here.folder.path());
        command.env("PATH", &path).env("BACKBONE", &here.place).env("ADAPTER_LAB_CACHE", here.path("cache"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", common::place::errors(&output));
        run += 1;
    }
    assert_eq!(run, 3);
}

/// Trained LayerNorms are not lost without a word.
#[test]
fn layer_norms_are_refused_or_written_beside_the_rest() {
    let here = Here::tiny();
    let file = here.file(AdapterConfig::new(4).info(), "cls");
    let mut options = ExportOptions { format: Format::Adapterhub, name: "own".to_owned(), layer_norms: false };
    let error = export(&file, &here.backbone, &options, &here.path("out")).unwrap_err().to_string();
    assert!(error.contains("layer_norm = false") && !here.path("out").exists(), "{error}");
    options.layer_norms = true;
    let files = export(&file, &here.backbone, &options, &here.path("out")).unwrap();
    assert!(files.iter().any(|name| name == LAYER_NORMS));
    let norms = bert_backbone::Checkpoint::tensors_of(&here.path("out").join(LAYER_NORMS)).unwrap();
    assert!(norms.iter().all(|(name, tensor)| file.tensors()[name] == *tensor) && !norms.is_empty());
}

#[rstest]
#[case(AdapterConfig { depth: 2, layer_norm: false, ..AdapterConfig::new(4) }.info(), Format::Adapterhub, "cls", "depth")]
#[case(AdapterConfig { layer_norm: false, ..AdapterConfig::new(4) }.info(), Format::Peft, "pooler", "no bottleneck adapters")]
#[case(Lora::default().info(), Format::Peft, "cls", "head = pooler")]
#[case(Lora { targets: vec![Projection::AttentionOutput], ..Lora::default() }.info(), Format::Adapterhub, "cls", "attention's output")]
#[case(Lora { targets: vec![Projection::Output], ..Lora::default() }.info(), Format::Peft, "pooler", "attention-output")]
#[case(Lora { top_layers: 1, ..Lora::default() }.info(), Format::Adapterhub, "cls", "has no place for")]
#[case(Ia3::default().info(), Format::Peft, "pooler", "AdapterHub's layout")]
#[case(FullFineTuning {}.info(), Format::Adapterhub, "cls", "`merge`")]
fn what_a_library_has_no_place_for_is_refused(
    #[case] method: MethodInfo,
    #[case] format: Format,
    #[case] head: &str,
    #[case] said: &str,
) {
    let here = Here::tiny();
    let options = ExportOptions { format, name: "own".to_owned(), layer_norms: true };
    let error = export(&here.file(method, head), &here.backbone, &options, &here.path("out")).unwrap_err();
    assert!(format!("{error:#}").contains(said) && !here.path("out").exists(), "{error:#}");
}

/// Sets a value of a document, by its way.
fn set(document: &mut Value, way: &str, value: Value) {
    *way.split('.').fold(document, |document, key| &mut document[key]) = value;
}

#[rstest]
#[case("pfeiffer", "config.use_gating", json!(true), "use_gating = true")]
#[case("pfeiffer", "config.phm_layer", json!(true), "phm_layer = true")]
#[case("pfeiffer", "config.ln_before", json!(true), "ln_before = true")]
#[case("pfeiffer", "config.residual_before_ln", json!("post_add"), "residual_before_ln = \"post_add\"")]
#[case("pfeiffer", "config.non_linearity", json!("mish"), "non_linearity = mish")]
#[case("pfeiffer", "config.reduction_factor", json!(0), "a positive number is needed")]
#[case("pfeiffer", "config.reduction_factor", json!(1e-9), "that makes a bottleneck of")]
#[case("pfeiffer", "config.reduction_factor", json!(4), "has shape")]
#[case("pfeiffer", "config.leave_out", json!([99]), "there is no layer 99")]
#[case("pfeiffer", "config.leave_out", json!([0]), "tensors are unknown")]
#[case("pfeiffer", "config.invented", json!(1), "invented = 1")]
#[case("pfeiffer", "hidden_size", json!(7), "hidden_size is 7")]
#[case("pfeiffer", "model_type", json!("roberta"), "not bert")]
#[case("pfeiffer", "name", json!("other"), "there is no tensor bert.encoder.layer.0.output.adapters.other")]
#[case("lora", "config.use_dora", json!(true), "use_dora = true")]
#[case("lora", "config.r", json!(1e12), "r = 1000000000000")]
#[case("lora", "config.attn_matrices", json!(["q", "o"]), "none of q, k, v")]
#[case("lora", "config.composition_mode", json!("multiply"), "composition_mode")]
#[case("peft-lora", "peft_type", json!("PREFIX_TUNING"), "PREFIX_TUNING")]
#[case("peft-lora", "use_dora", json!(true), "use_dora = true")]
#[case("peft-lora", "rank_pattern", json!({"query": 3}), "rank_pattern")]
#[case("peft-lora", "target_modules", json!(["query", "embeddings"]), "`embeddings` is no projection")]
#[case("peft-ia3", "target_modules", json!(["key"]), "target_modules")]
fn a_configuration_that_asks_for_more_is_refused_by_its_field(
    #[case] folder: &str,
    #[case] way: &str,
    #[case] value: Value,
    #[case] said: &str,
) {
    let here = Here::tiny();
    let copied = copy_of(&here, folder);
    let path = copied.join("adapter_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    set(&mut config, way, value);
    fs::write(&path, config.to_string()).unwrap();
    let error = format!("{:#}", import(&copied, &here.backbone, &ImportOptions::default()).unwrap_err());
    assert!(error.contains(said), "{error}");
}

fn copy_of(here: &Here, folder: &str) -> PathBuf {
    let to = here.path("copied");
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(golden().join(folder)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

#[rstest]
#[case("houlsby", "adapter_config.json")]
#[case("houlsby", "head_config.json")]
#[case("houlsby", "pytorch_adapter.bin")]
#[case("houlsby", "pytorch_model_head.bin")]
#[case("lora", "adapter.safetensors")]
#[case("lora", "model_head.safetensors")]
#[case("peft-lora", "adapter_model.safetensors")]
fn a_folder_that_is_not_whole_is_an_error(#[case] folder: &str, #[case] file: &str) {
    let here = Here::tiny();
    let copied = copy_of(&here, folder);
    let path = copied.join(file);
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[], b"{}", b"\x80\x02cos\nsystem\n(S'touch executed'\ntR."] {
        fs::write(&path, damaged).unwrap();
        assert!(import(&copied, &here.backbone, &ImportOptions::default()).is_err(), "{damaged:?}");
    }
    fs::remove_file(&path).unwrap();
    assert!(import(&copied, &here.backbone, &ImportOptions::default()).is_err());
    assert!(!Path::new("executed").exists() && !copied.join("executed").exists());
}

/// A run of ours, and what it began with.
struct TrainedHere {
    losses: Vec<f64>,
    rates: Vec<f64>,
    start: TaskFile,
    end: TaskFile,
}

impl Here {
    /// The same backbone without dropout.
    fn without_dropout(&self) -> Self {
        let place = self.path("plain");
        fs::create_dir(&place).unwrap();
        for entry in fs::read_dir(&self.place).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
        }
        let path = place.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["hidden_dropout_prob"] = json!(0.0);
        config["attention_probs_dropout_prob"] = json!(0.0);
        fs::write(&path, config.to_string()).unwrap();
        Self::on(tempfile::tempdir().unwrap(), place)
    }

    /// Trains on pairs of texts in a file.
    fn train(&self, data: &Path, name: &str, options: &[&str]) -> TrainedHere {
        let run = |lr: &str, to: &str| {
            let save = self.path(&format!("{name}-{to}"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
            command
                .args(["train", "--json", "--epochs", "1", "--batch-size", "8", "--max-length", "64", "--lr", lr])
                .args(options);
            command.arg("--task").arg(format!("file:{}", data.display())).arg("--validation-file").arg(data);
            command.arg("--test-file").arg(data).args(["--pair-column", "pair", "--runs"]).arg(self.path("runs"));
            command.arg("--backbone").arg(&self.place).arg("--save").arg(&save);
            command.env("ADAPTER_LAB_CACHE", self.path("cache"));
            (answer(command), TaskFile::read(&save).unwrap())
        };
        // So small a rate changes nothing.
        let ((_, start), (record, end)) = (run("1e-30", "start"), run("1e-3", "end"));
        let log = self.path("runs").join(record["id"].as_str().unwrap()).join("steps.jsonl");
        let lines: Vec<StepLine> =
            fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (losses, rates) = lines.iter().map(|line| (line.loss, line.rate)).unzip();
        TrainedHere { losses, rates, start, end }
    }
}

/// Pairs of texts: MRPC's where its files are, else those of the built-in language.
fn pairs(examples: usize) -> Vec<(String, String, usize)> {
    let lab = Lab::paper();
    let data =
        std::env::var_os("ADAPTER_LAB_DATA").map(PathBuf::from).filter(|data| data.join("glue_data/MRPC").is_dir());
    let (task, data) = data.map_or(("syn-paraphrase", PathBuf::new()), |data| ("mrpc", data));
    let TaskData::Texts(dataset) = lab.tasks.find(task).unwrap().load(&data).unwrap() else { panic!("texts") };
    let pair = |example: &Example| {
        let Some(Target::Class(class)) = example.target else { panic!("a class") };
        (example.text.clone(), example.pair.clone().unwrap(), class)
    };
    dataset.train.iter().take(examples).map(pair).collect()
}

/// How far tensors are apart, relative to how large they are.
fn apart(one: &Tensors, other: &Tensors) -> f64 {
    assert!(one.keys().eq(other.keys()));
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    one.iter().fold(0.0, |most: f64, (name, (_, values))| {
        let difference = norm(&mut values.iter().zip(&other[name].1).map(|(a, b)| a - b));
        most.max(difference / norm(&mut values.iter().copied()).max(1e-12))
    })
}

#[test]
#[ignore = "needs Python's adapters and peft: `.ci/exchange` installs them and runs this"]
fn training_is_pythons() {
    let with_dropout = Here::new();
    let here = with_dropout.without_dropout();
    let methods: [(&str, Format, &[&str]); 7] = [
        ("adapters", Format::Adapterhub, &["--tuning", "adapters", "--layer-norm", "false", "--adapter-size", "8"]),
        ("pfeiffer", Format::Adapterhub, &["--tuning", "pfeiffer", "--adapter-size", "8"]),
        ("parallel", Format::Adapterhub, &["--tuning", "parallel", "--adapter-size", "8"]),
        ("lora", Format::Adapterhub, &["--tuning", "lora"]),
        ("ia3", Format::Adapterhub, &["--tuning", "ia3"]),
        ("peft-lora", Format::Peft, &["--tuning", "lora", "--head", "pooler"]),
        ("peft-ia3", Format::Peft, &["--tuning", "ia3", "--layout", "peft", "--head", "pooler"]),
    ];
    // Adam's first step with its usual ε is lr times the gradient's sign: an entry whose gradient is nearly 0 may go either way. With a
    // large one it tells how large the gradient is.
    for (steps, epsilon) in [(1, "1e-3"), (50, "1e-8")] {
        let (data, folder) = (here.path(&format!("data-{steps}.csv")), here.path(&format!("start-{steps}")));
        let examples = pairs(8 * steps);
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let rows = examples.iter().map(|(text, pair, class)| format!("{},{},{class}\n", quoted(text), quoted(pair)));
        fs::write(&data, "text,pair,label\n".to_owned() + &rows.collect::<String>()).unwrap();
        let (mut trained, mut given) = (BTreeMap::new(), Value::Null);
        for (name, format, options) in methods {
            let run = here.train(&data, &format!("{name}-{steps}"), &[options, &["--epsilon", epsilon]].concat());
            let options = ExportOptions { format, name: "own".to_owned(), layer_norms: false };
            export(&run.start, &here.backbone, &options, &folder.join(name)).unwrap();
            let class =
                |class: usize| run.start.info.labels.iter().position(|label| *label == class.to_string()).unwrap();
            let order = BatchConfig { size: 8, seed: 0, length_window: 0 };
            let batches = epoch_batches(&vec![1; examples.len()], order, 0).into_iter().map(|batch| {
                batch
                    .into_iter()
                    .map(|number| {
                        let (text, pair, of) = &examples[number];
                        json!([text, pair, class(*of)])
                    })
                    .collect::<Value>()
            });
            given = json!({
                "batches": batches.collect::<Value>(),
                "rates": run.rates,
                "labels": run.start.info.labels.len(),
                "epsilon": epsilon.parse::<f64>().unwrap(),
            });
            trained.insert(name, run);
        }
        let features = here.path(&format!("features-{steps}"));
        fs::create_dir(&features).unwrap();
        let mut of_features = BTreeMap::new();
        for (name, ..) in POOLS {
            let options = ["--tuning", "features", "--pool", name, "--epsilon", epsilon];
            let run = here.train(&data, &format!("features-{name}-{steps}"), &options);
            run.start.write(&features.join(format!("{name}.safetensors"))).unwrap();
            of_features.insert(name, run);
        }
        let said = here.python_with("features", &features, &given);
        for (name, run) in of_features {
            let end = bert_backbone::Checkpoint::tensors_of(&features.join(format!("{name}.safetensors"))).unwrap();
            assert_trained(&format!("features, {name}"), steps, &run, &said[name], &end);
        }
        let said = here.python_with("train", &folder, &given);
        for (name, run) in trained {
            let end = import(&folder.join(name), &here.backbone, &ImportOptions::default()).unwrap();
            assert_trained(name, steps, &run, &said[name], end.tensors());
        }
    }
}

/// Losses at every step, and tensors after a single one, are Python's.
fn assert_trained(name: &str, steps: usize, run: &TrainedHere, losses: &Value, end: &Tensors) {
    let theirs: Vec<f64> = losses.as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
    assert_eq!((run.losses.len(), theirs.len()), (steps, steps), "{name}");
    let furthest = run.losses.iter().zip(&theirs).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
    assert!(furthest < 1e-3, "{name}: losses are {furthest} apart");
    let apart = apart(run.end.tensors(), end);
    println!("{name}, {steps} steps: losses {furthest:.1e} apart, tensors {apart:.1e}");
    assert!(steps > 1 || apart < 1e-4, "{name}: tensors are {apart} apart after a step");
}
