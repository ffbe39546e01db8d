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
    AdapterConfig, Ia3, Ia3Layout, Init, Lora, Method, MethodInfo, ParallelAdapters, Pfeiffer, Projection, Scaling,
    TaskFile, TaskInfo, TensorInfo, Tensors,
};
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::tensor::Device;
use common::place::answer;
use experiments::{ExportOptions, Format, ImportOptions, Inference, Lab, export, import};
use tasks::{Example, Head, TokenCache};
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

    /// What Python says.
    fn python(&self, command: &str, folder: &Path) -> BTreeMap<String, Vec<Vec<f32>>> {
        let texts = self.path("texts.json");
        fs::write(&texts, serde_json::to_string(&TEXTS).unwrap()).unwrap();
        let mut python = Command::new(std::env::var("EXCHANGE_PYTHON").unwrap_or_else(|_| "python3".to_owned()));
        python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exchange/twin.py")).arg(command);
        python.arg(&self.place).arg(folder).arg(&texts);
        serde_json::from_value(answer(python)).unwrap()
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
        let (hidden, init) = (self.backbone.config.hidden_size, Init::new(0));
        let head = Head::new(hidden, 3, lab.heads.find(head).unwrap(), init, &device);
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
