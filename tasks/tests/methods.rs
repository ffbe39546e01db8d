//! Every method that inserts something: what it trains, how it begins, and what its file holds.

use std::collections::BTreeSet;

use adapter_core::{
    AdapterConfig, DropoutKey, Features, HeadOnly, Ia3, Ia3Layout, Init, Insertion, Lora, Method, NetworkShape,
    ParallelAdapters, Pfeiffer, Projection, Scaling, TaskFile, TaskInfo, replace_values, tensors, visit_gradients,
};
use bert_backbone::{Backbone, Bert, BertConfig, Encoded, PackedBatch, RandomCheckpoint};
use burn::tensor::Device;
use tasks::{Head, HeadInput, Heads, TaskKind, TaskModel};

const LAYERS: usize = 3;

fn config() -> BertConfig {
    BertConfig { vocab_size: 50, intermediate_size: 24, max_position_embeddings: 16, ..BertConfig::new(12, LAYERS, 2) }
}

fn model<M: Method>(method: &M, device: &Device) -> TaskModel<Option<M::Insertion>> {
    let init = Init::new(0);
    let bert = Bert::random(&config(), init, device).unwrap();
    TaskModel::tuned(method, bert, Head::new(&config().shape(), 3, HeadInput::Cls, init, device), init, device).unwrap()
}

fn batch(device: &Device) -> PackedBatch {
    let sequence = |length: u32| Encoded {
        input_ids: (0..length).map(|i| 1 + (i * 7 + length) % 49).collect(),
        token_type_ids: (0..length).map(|i| i % 2).collect(),
        ..Encoded::default()
    };
    PackedBatch::new(&[sequence(9), sequence(4)], &config(), device).unwrap()
}

fn outputs<I: Insertion>(model: &TaskModel<I>, device: &Device) -> Vec<f32> {
    model.forward(&batch(device)).into_data().iter().collect()
}

/// Calls `$check` for each method, with its name.
macro_rules! for_each_method {
    ($check:ident) => {
        $check("adapters", AdapterConfig::new(4));
        $check(
            "adapters, scaled",
            AdapterConfig { scaling: Scaling::Learned, layer_norm: false, ..AdapterConfig::new(4) },
        );
        $check("adapters, by channel", AdapterConfig { scaling: Scaling::Channel, ..AdapterConfig::new(4) });
        $check("adapters and a layer", AdapterConfig { top_layers: 1, ..AdapterConfig::new(4) });
        $check("pfeiffer", Pfeiffer { size: 4, ..Pfeiffer::default() });
        $check("pfeiffer and norms", Pfeiffer { size: 4, layer_norm: true, ..Pfeiffer::default() });
        $check("parallel", ParallelAdapters { size: 4, ..ParallelAdapters::default() });
        $check("features", Features::default());
        $check("lora", Lora { rank: 2, ..Lora::default() });
        let everywhere = Lora { rank: 2, targets: Projection::ALL.to_vec(), rslora: true, ..Lora::default() };
        $check("lora everywhere", Lora { lora_dropout: 0.3, layer_norm: true, top_layers: 2, ..everywhere });
        $check("ia3", Ia3::default());
        $check("ia3 of peft", Ia3 { layout: Ia3Layout::Peft, layer_norm: true, ..Ia3::default() });
    };
}

/// Whether a method called so trains this tensor of the backbone.
fn also_trains(name: &str, tensor: &str) -> bool {
    let norms = name.starts_with("adapters") && name != "adapters, scaled";
    let norms = norms || ["pfeiffer and norms", "lora everywhere", "ia3 of peft"].contains(&name);
    let top = match name {
        "adapters and a layer" => 1,
        "lora everywhere" => 2,
        _ => 0,
    };
    let in_top = (LAYERS - top..LAYERS).any(|layer| tensor.starts_with(&format!("bert.encoder.layer.{layer}.")));
    (norms && tensor.contains(".LayerNorm.")) || in_top
}

#[test]
fn gradients_reach_exactly_what_is_selected() {
    fn check<M: Method>(name: &str, method: M) {
        let device = Device::flex().autodiff();
        let model = model(&method, &device);
        let model = method.select(&model).apply(model);
        let is_wanted = |tensor: &String| {
            tensor.contains(".insertion.") || tensor.starts_with("head.") || also_trains(name, tensor)
        };
        let wanted: BTreeSet<String> =
            tensors(&model).into_iter().map(|tensor| tensor.name).filter(is_wanted).collect();
        let selected: BTreeSet<String> = method.select(&model).trained.into_iter().map(|tensor| tensor.name).collect();
        assert_eq!(selected, wanted, "{name}");
        let batch = batch(&device).with_dropout(DropoutKey { seed: 0, step: 0 });
        let gradients = model.forward(&batch).powf_scalar(2.0).sum().backward();
        let mut reached = BTreeSet::new();
        visit_gradients(&model, &gradients, |tensor, _| {
            reached.insert(tensor.name);
        });
        assert_eq!(reached, wanted, "{name}");
    }
    for_each_method!(check);
}

#[test]
fn every_method_begins_near_the_network_as_it_was() {
    fn check<M: Method>(name: &str, method: M) {
        let device = Device::flex();
        let plain = outputs(&model(&HeadOnly {}, &device), &device);
        let tuned = outputs(&model(&method, &device), &device);
        let apart = plain.iter().zip(&tuned).fold(0.0f32, |apart, (a, b)| apart.max((a - b).abs()));
        // Adapters begin small, the others with nothing at all.
        let largest = if name.starts_with("lora") || name.starts_with("ia3") { 1e-6 } else { 1e-3 };
        assert!(apart <= largest, "{name}: {apart}");
    }
    for_each_method!(check);
}

#[test]
fn a_file_brings_back_what_was_trained_bit_for_bit() {
    fn check<M: Method>(name: &str, method: M) {
        let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
        RandomCheckpoint::tiny().write(folder.path(), &device).unwrap();
        let backbone = Backbone::load(folder.path(), &device).unwrap();
        let head = Head::new(&backbone.config.shape(), 3, HeadInput::Cls, Init::new(0), &device);
        let model = TaskModel::tuned(&method, backbone.bert.clone(), head, Init::new(0), &device).unwrap();
        let selection = method.select(&model);
        // Values that no initialisation has.
        let names: BTreeSet<String> = selection.trained.iter().map(|tensor| tensor.name.clone()).collect();
        let model = replace_values(model, |tensor| {
            let values = || (0..tensor.elements()).map(|i| 0.5 + 0.1 * (i as f32).sin()).collect();
            names.contains(&tensor.name).then(values)
        });
        let info = TaskInfo {
            task: "colours".to_owned(),
            kind: TaskKind::Classification.to_string(),
            labels: ["red", "green", "blue"].map(str::to_owned).to_vec(),
            pairs: Some(false),
            head: HeadInput::Cls.to_string(),
            max_length: 32,
            method: method.info(),
            backbone: backbone.id(),
            origin: Default::default(),
        };
        let path = folder.path().join("v.safetensors");
        TaskFile::from_model(&model, &selection, info).write(&path).unwrap();
        let loaded = TaskModel::load(&method, &backbone, TaskFile::read(&path).unwrap(), &Heads::default(), &device);
        let encoded = [backbone.tokenizer.encode("the cat sat", None, 32).unwrap()];
        let batch = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
        let [one, other] = [&model, &loaded.unwrap()].map(|model| model.forward(&batch).into_data());
        assert_eq!(one, other, "{name}");
    }
    for_each_method!(check);
}

/// Each step leaves out a number of the lowest layers, always the same; outside of training all are there.
#[test]
fn adapter_drop_leaves_the_lowest_layers_out_of_some_steps() {
    let device = Device::flex();
    let dropped = AdapterConfig { adapter_drop: LAYERS, init_std: 0.5, ..AdapterConfig::new(4) };
    let plain = AdapterConfig { adapter_drop: 0, ..dropped.clone() };
    assert_eq!(outputs(&model(&dropped, &device), &device), outputs(&model(&plain, &device), &device));
    let network = NetworkShape { layers: LAYERS, hidden: 12, intermediate: 24 };
    assert!(AdapterConfig { adapter_drop: LAYERS + 1, ..dropped.clone() }.check(&network).is_err());
    let mut seen = BTreeSet::new();
    for step in 0..40 {
        let key = DropoutKey { seed: 0, step };
        let batch = batch(&device).with_dropout(key);
        let without = key.number_below(LAYERS + 1);
        let expected =
            model(&plain, &device).map_insertions(|place, adapter| adapter.filter(|_| place.layer >= without));
        let values = |model: &TaskModel<_>| model.forward(&batch).into_data();
        values(&model(&dropped, &device)).assert_approx_eq::<f32>(&values(&expected), Default::default());
        seen.insert(without);
    }
    assert_eq!(seen.len(), LAYERS + 1, "every number of layers");
}
