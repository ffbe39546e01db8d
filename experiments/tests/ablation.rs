//! Shared prefixes give exactly what removing each span by itself gives, in far fewer passes.

use adapter_core::{Adapter, AdapterConfig, Init, LayerSpan};
use bert_backbone::{Backbone, BertConfig, RandomCheckpoint};
use burn::tensor::Device;
use experiments::ablate_spans;
use rstest::rstest;
use tasks::{Dataset, EvaluationSet, Example, Head, HeadInput, Target, TaskKind, TaskModel, TokenCache};

fn setting(layers: usize) -> (Backbone, TaskModel<Option<Adapter>>, EvaluationSet) {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let tiny = RandomCheckpoint::tiny();
    let config = BertConfig { num_hidden_layers: layers, ..tiny.config.clone() };
    RandomCheckpoint { config, ..tiny }.write(folder.path(), &device).unwrap();
    let backbone = Backbone::load(folder.path(), &device).unwrap();
    let adapter = AdapterConfig { init_std: 0.5, ..AdapterConfig::new(8) };
    let bert = backbone.bert.clone().insert(|place| adapter.init(place, 32, Init::new(2), &device));
    let model = TaskModel::new(bert, Head::new(32, 3, HeadInput::Cls, Init::new(2), &device)).unwrap();
    let words = ["the", "cat", "dog", "sat", "on", "mat", "is", "not", "good", "bad", "who", "why"];
    let example = |i: usize| Example {
        id: i.to_string(),
        text: (0..2 + i % 7).map(|j| words[(i * 5 + j * j) % 12]).collect::<Vec<_>>().join(" "),
        pair: None,
        target: Some(Target::Class(i % 3)),
    };
    let dataset = Dataset {
        task: "t".to_owned(),
        kind: TaskKind::Classification,
        labels: ["a", "b", "c"].map(str::to_owned).to_vec(),
        train: Vec::new(),
        validation: (0..80).map(example).collect(),
        test: Vec::new(),
        notes: Vec::new(),
    };
    let set =
        EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &TokenCache::none()).unwrap();
    (backbone, model, set)
}

#[rstest]
#[case(3, 13)]
#[case(6, 62)]
#[case(12, 376)]
fn shared_prefixes_equal_the_plain_loop_in_fewer_passes(#[case] layers: usize, #[case] passes: usize) {
    let (backbone, model, set) = setting(layers);
    let device = Device::flex();
    let ablation = ablate_spans(&model, &set, &backbone.config, 16, &device).unwrap();
    assert_eq!(ablation.whole, set.evaluate(&model, &backbone.config, 16, &device).unwrap());
    assert_eq!(ablation.without.len(), layers * (layers + 1) / 2);
    for span in LayerSpan::all(layers) {
        let removed = model.clone().map_insertions(|place, adapter| adapter.filter(|_| !span.contains(place.layer)));
        let plain = set.evaluate(&removed, &backbone.config, 16, &device).unwrap();
        assert_eq!(ablation.without[&span], plain, "span {span}");
    }
    let different: std::collections::BTreeSet<String> = ablation.without.values().map(|s| format!("{s:?}")).collect();
    assert!(different.len() > layers, "spans differ: {}", different.len());
    assert_eq!(ablation.layer_passes, passes);
}
