//! Shared prefixes give exactly what removing each span by itself gives, in far fewer passes.

use adapter_core::{Init, LayerSpan, MethodInfo};
use bert_backbone::{Backbone, BertConfig, RandomCheckpoint};
use burn::tensor::Device;
use experiments::{AnyModel, Inference, Lab};
use rstest::rstest;
use serde_json::json;
use tasks::{Dataset, EvaluationSet, Example, Head, HeadInput, Target, TokenCache};

fn setting(layers: usize, head: HeadInput) -> (Backbone, Box<dyn AnyModel>, EvaluationSet) {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let tiny = RandomCheckpoint::tiny();
    let config = BertConfig { num_hidden_layers: layers, ..tiny.config.clone() };
    RandomCheckpoint { config, ..tiny }.write(folder.path(), &device).unwrap();
    let backbone = Backbone::load(folder.path(), &device).unwrap();
    let config = json!({"adapter_size": 8, "init_std": 0.5}).as_object().unwrap().clone();
    let method = Lab::paper().configure(&MethodInfo { name: "adapters".to_owned(), config }).unwrap();
    let head = Head::new(&backbone.config.shape(), 3, head, Init::new(2), &device);
    let model = method.build(backbone.bert.clone(), head, Init::new(2), &device).unwrap();
    let words = ["the", "cat", "dog", "sat", "on", "mat", "is", "not", "good", "bad", "who", "why"];
    let example = |i: usize| {
        let text = (0..2 + i % 7).map(|j| words[(i * 5 + j * j) % 12]).collect::<Vec<_>>().join(" ");
        Example::new(text, Target::Class(i % 3))
    };
    let dataset = Dataset::classification("t", ["a", "b", "c"], Vec::new(), (0..80).map(example));
    let set =
        EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &TokenCache::none()).unwrap();
    (backbone, model, set)
}

#[rstest]
#[case(3, 13, HeadInput::Cls)]
#[case(6, 62, HeadInput::Cls)]
#[case(12, 376, HeadInput::Cls)]
#[case(3, 13, HeadInput::Mean)]
#[case::nothing_shared(3, 21, HeadInput::Layers)]
fn shared_prefixes_equal_the_plain_loop_in_fewer_passes(
    #[case] layers: usize,
    #[case] passes: usize,
    #[case] head: HeadInput,
) {
    let (backbone, model, set) = setting(layers, head);
    let how = Inference { network: &backbone.config, batch_size: 16, device: &Device::flex() };
    let ablation = model.ablate(&set, how).unwrap();
    assert_eq!(ablation.whole, model.evaluate(&set, how).unwrap());
    assert_eq!(ablation.without.len(), layers * (layers + 1) / 2);
    for span in LayerSpan::all(layers) {
        let plain = model.without(span).evaluate(&set, how).unwrap();
        assert_eq!(ablation.without[&span], plain, "span {span}");
    }
    let different: std::collections::BTreeSet<String> = ablation.without.values().map(|s| format!("{s:?}")).collect();
    assert!(different.len() > layers, "spans differ: {}", different.len());
    assert_eq!(ablation.layer_passes, passes);
}
