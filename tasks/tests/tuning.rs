//! Tunings select, train and count exactly what they say, checked by tensor name.

use std::collections::BTreeSet;

mod support;

use adapter_core::{
    Adapter, AdapterConfig, DropoutKey, Init, InnerNorm, TensorInfo, TensorVisitor, tensors, visit_gradients,
    visit_values, walk,
};
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch};
use burn::{
    module::Param,
    tensor::{Device, Tensor},
};
use rstest::rstest;
use support::Tuning;
use tasks::{Head, HeadInput, TaskModel};

const LAYERS: usize = 3;

fn config() -> BertConfig {
    BertConfig { vocab_size: 50, intermediate_size: 24, max_position_embeddings: 16, ..BertConfig::new(12, LAYERS, 2) }
}

fn model(adapter: Option<AdapterConfig>, head: HeadInput, device: &Device) -> TaskModel<Option<Adapter>> {
    let init = Init::new(0);
    let bert = Bert::random(&config(), init, device).unwrap();
    let bert = bert.insert(|place| adapter.as_ref().and_then(|adapter| adapter.init(place, 12, init, device)));
    TaskModel::new(bert, Head::new(&config().shape(), 3, head, init, device)).unwrap()
}

fn adapter() -> AdapterConfig {
    AdapterConfig::new(4)
}

/// What each tuning must train, said independently of how the library finds it.
fn expected(tuning: Tuning, name: &str, pooler: bool) -> bool {
    let layer_norm = name.contains(".LayerNorm.");
    let in_layer = |layer: usize| name.starts_with(&format!("bert.encoder.layer.{layer}."));
    if name.starts_with("head.") {
        return true;
    }
    if name.contains("running_") || (name.contains("pooler") && !pooler) {
        return false;
    }
    match tuning {
        Tuning::Adapters => name.contains(".insertion.") || layer_norm,
        Tuning::Full => true,
        Tuning::TopLayers(k) => (LAYERS - k..LAYERS).any(in_layer) || name.contains("pooler"),
        Tuning::LayerNorm => layer_norm,
        Tuning::Head => false,
        Tuning::Bias => name.ends_with(".bias") && !name.contains(".insertion."),
    }
}

#[rstest]
fn gradients_reach_exactly_what_the_tuning_selects(
    #[values(
        Tuning::Adapters,
        Tuning::Full,
        Tuning::TopLayers(1),
        Tuning::TopLayers(3),
        Tuning::LayerNorm,
        Tuning::Head,
        Tuning::Bias
    )]
    tuning: Tuning,
    #[values(HeadInput::Cls, HeadInput::Pooler)] head: HeadInput,
    #[values(InnerNorm::None, InnerNorm::Layer, InnerNorm::Batch)] norm: InnerNorm,
) {
    let device = Device::flex().autodiff();
    let adapter = (tuning == Tuning::Adapters).then(|| AdapterConfig { norm, depth: 2, ..adapter() });
    let model = model(adapter, head, &device);
    let model = tuning.select(&model).apply(model);
    let wanted: BTreeSet<String> = tensors(&model)
        .into_iter()
        .map(|tensor| tensor.name)
        .filter(|name| expected(tuning, name, head == HeadInput::Pooler))
        .collect();

    let selected: BTreeSet<String> = tuning.select(&model).trained.into_iter().map(|tensor| tensor.name).collect();
    assert_eq!(selected, wanted);

    let sequence = |length: u32| Encoded {
        input_ids: (0..length).map(|i| 1 + (i * 7 + length) % 49).collect(),
        token_type_ids: (0..length).map(|i| i % 2).collect(),
        ..Encoded::default()
    };
    let batch = PackedBatch::new(&[sequence(9), sequence(4)], &config(), &device).unwrap();
    let batch = batch.with_dropout(DropoutKey { seed: 0, step: 0 });
    let gradients = model.forward(&batch).powf_scalar(2.0).sum().backward();
    let mut reached = BTreeSet::new();
    visit_gradients(&model, &gradients, |tensor, _| {
        reached.insert(tensor.name);
    });
    assert_eq!(reached, wanted);
}

#[test]
fn a_tuning_leaves_other_clones_of_the_backbone_alone() {
    let device = Device::flex().autodiff();
    let shared = model(None, HeadInput::Cls, &device);
    let head_only = Tuning::Head.select(&shared).apply(shared.clone());
    let full = Tuning::Full.select(&shared).apply(shared.clone());
    struct Count(usize);
    impl TensorVisitor for Count {
        fn visit<const D: usize>(&mut self, _: TensorInfo, param: &Param<Tensor<D>>) {
            self.0 += usize::from(param.val().is_require_grad());
        }
    }
    let trained = |model: &TaskModel<Option<Adapter>>| {
        let mut count = Count(0);
        walk(model, &mut count);
        count.0
    };
    assert_eq!(trained(&head_only), 2);
    assert_eq!(trained(&full), tensors(&full).len() - 2, "all but the pooler");
}

#[rstest]
#[case(Tuning::Adapters, Some(64), 2, &[("adapters", 2_379_264), ("layer_norms", 38_400), ("head", 1_538)])]
#[case(Tuning::TopLayers(1), None, 2, &[("top_layers", 7_087_872), ("head", 1_538)])]
#[case(Tuning::LayerNorm, None, 2, &[("layer_norms", 38_400), ("head", 1_538)])]
#[case(Tuning::Full, None, 2, &[("backbone", 108_891_648), ("head", 1_538)])]
#[case(Tuning::Head, None, 2, &[("head", 1_538)])]
fn bert_base_is_counted_from_its_tensors(
    #[case] tuning: Tuning,
    #[case] size: Option<usize>,
    #[case] classes: usize,
    #[case] groups: &[(&str, usize)],
) {
    let device = Device::flex();
    let (init, config) = (Init::new(0), BertConfig::new(768, 12, 12));
    let adapter = size.map(AdapterConfig::new);
    let bert = Bert::random(&config, init, &device).unwrap();
    let bert = bert.insert(|place| adapter.as_ref().and_then(|adapter| adapter.init(place, 768, init, &device)));
    let model = TaskModel::new(bert, Head::new(&config.shape(), classes, HeadInput::Cls, init, &device)).unwrap();
    let count = tuning.count(&model);
    assert_eq!(count.backbone, 109_482_240);
    assert_eq!(count.groups, groups.iter().map(|&(name, n)| (name.to_owned(), n)).collect());
    assert_eq!(count.trained, groups.iter().map(|(_, n)| n).sum::<usize>());
}

#[rstest]
fn counts_are_those_of_the_values_that_exist(#[values(InnerNorm::None, InnerNorm::Batch)] norm: InnerNorm) {
    let model = model(Some(AdapterConfig { norm, ..adapter() }), HeadInput::Cls, &Device::flex());
    for tuning in [Tuning::Adapters, Tuning::Full, Tuning::TopLayers(2), Tuning::Bias] {
        let names: BTreeSet<_> = tuning.select(&model).trained.into_iter().map(|tensor| tensor.name).collect();
        let mut values = 0;
        visit_values(&model, |name| names.contains(name), |_, data| values += data.len());
        assert_eq!(tuning.count(&model).trained, values);
    }
}

/// The paper's Table 1: 9 tasks cost 9 fine-tuned models, or 1.2 with size-64 adapters on BERT-large.
#[test]
fn totals_for_nine_tasks_are_the_papers() {
    let device = Device::flex();
    let (init, config) = (Init::new(0), BertConfig::new(1024, 24, 16));
    let count = |tuning: Tuning| {
        let adapter = AdapterConfig::new(64);
        let bert = Bert::random(&config, init, &device).unwrap().insert(|place| match tuning {
            Tuning::Adapters => adapter.init(place, 1024, init, &device),
            _ => None,
        });
        let head = Head::new(&config.shape(), 3, HeadInput::Cls, init, &device);
        tuning.count(&TaskModel::new(bert, head).unwrap())
    };
    let adapters = count(Tuning::Adapters);
    assert_eq!(adapters.groups["adapters"], 6_343_680);
    assert_eq!(adapters.groups["layer_norms"], 100_352);
    assert_eq!(adapters.groups["head"], 3_075);
    assert_eq!(adapters.backbone, 335_141_888);
    assert!((adapters.percent() - 1.9).abs() < 0.05);
    assert!((adapters.multiple_for(9) - 1.2).abs() < 0.05);
    assert!((count(Tuning::Full).multiple_for(9) - 9.0).abs() < 0.01);
}

#[test]
fn a_head_cannot_read_a_pooler_that_is_not_there() {
    let device = Device::flex();
    let mut bert = Bert::random(&config(), Init::new(0), &device).unwrap();
    bert.pooler = None;
    assert!(TaskModel::new(bert, Head::new(&config().shape(), 2, HeadInput::Pooler, Init::new(0), &device)).is_err());
}
