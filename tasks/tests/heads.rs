//! Heads that read more than the `[CLS]` token.

use std::{collections::BTreeSet, sync::Arc};

use adapter_core::{Features, Init, Method, ParamCount, replace_values, tensors, visit_gradients};
use bert_backbone::{Bert, BertConfig, Encoded, PackedBatch};
use burn::tensor::{Device, Tensor};
use rstest::rstest;
use tasks::{Head, HeadInput, HeadKind, Heads, TaskModel};

const LAYERS: usize = 3;
const HIDDEN: usize = 12;

fn config() -> BertConfig {
    BertConfig { vocab_size: 50, intermediate_size: 24, max_position_embeddings: 16, ..BertConfig::new(12, LAYERS, 2) }
}

fn batch(device: &Device) -> PackedBatch {
    let sequence = |length: u32| Encoded {
        input_ids: (0..length).map(|i| 1 + (i * 7 + length) % 49).collect(),
        token_type_ids: (0..length).map(|i| i % 2).collect(),
        ..Encoded::default()
    };
    PackedBatch::new(&[sequence(9), sequence(4), sequence(1)], &config(), device).unwrap()
}

fn floats(values: Tensor<2>) -> Vec<f32> {
    values.into_data().iter().collect()
}

/// The mean of each sequence's rows, added up one by one.
fn plain_means(rows: Tensor<2>, batch: &PackedBatch) -> Vec<f32> {
    let rows = floats(rows);
    let mean = |ends: &[usize]| {
        let rows = &rows[ends[0] * HIDDEN..ends[1] * HIDDEN];
        (0..HIDDEN).map(|i| rows.iter().skip(i).step_by(HIDDEN).sum::<f32>() / (ends[1] - ends[0]) as f32).collect()
    };
    batch.boundaries().windows(2).flat_map(|ends| -> Vec<f32> { mean(ends) }).collect()
}

/// A head that hands on what it reads: its last layer is the identity, and its bias nothing.
fn reading(kind: HeadInput, device: &Device) -> (TaskModel<adapter_core::NoInsertion>, PackedBatch) {
    let bert = Bert::random(&config(), Init::new(0), device).unwrap();
    let head = Head::new(&config().shape(), HIDDEN, kind, Init::new(0), device);
    let model = TaskModel::new(bert, head).unwrap();
    let model = replace_values(model, |tensor| match tensor.name.as_str() {
        "head.weight" => Some((0..HIDDEN * HIDDEN).map(|i| f32::from(u8::from(i / HIDDEN == i % HIDDEN))).collect()),
        // Equal shares.
        "head.inner.0.weight" => Some(vec![0.0; LAYERS + 1]),
        _ => None,
    });
    (model, batch(device))
}

fn assert_close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?}\n{b:?}");
}

#[test]
fn a_mean_is_that_of_each_sequences_tokens() {
    let (model, batch) = reading(HeadInput::Mean, &Device::flex());
    assert_close(&floats(model.forward(&batch)), &plain_means(model.bert().forward(&batch), &batch));
}

#[test]
fn a_mix_begins_with_equal_shares_of_every_layer_and_the_embeddings() {
    let (model, batch) = reading(HeadInput::Layers, &Device::flex());
    let means = (0..=LAYERS).map(|layers| plain_means(model.bert().forward_below(layers, &batch), &batch));
    let sum = means.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).unwrap();
    let mean: Vec<f32> = sum.into_iter().map(|value| value / (LAYERS + 1) as f32).collect();
    assert_close(&floats(model.forward(&batch)), &mean);
}

#[rstest]
fn gradients_reach_every_tensor_of_a_head_and_no_other(
    #[values("cls", "pooler", "tokens", "mean", "mix", "mlp", "mean-mlp", "mix-mlp")] name: &str,
) {
    let device = Device::flex().autodiff();
    let (method, init) = (Features::default(), Init::new(0));
    let kind: Arc<dyn HeadKind> = Heads::default().find(name).unwrap();
    let head = Head::new(&config().shape(), 3, kind, init, &device);
    let model =
        TaskModel::tuned(&method, Bert::random(&config(), init, &device).unwrap(), head, init, &device).unwrap();
    let model = method.select(&model).apply(model);
    let is_head = |name: &String| name.starts_with("head.");
    let wanted: BTreeSet<String> = tensors(&model).into_iter().map(|tensor| tensor.name).filter(is_head).collect();
    let gradients = model.forward(&batch(&device)).powf_scalar(2.0).sum().backward();
    let mut reached = BTreeSet::new();
    visit_gradients(&model, &gradients, |tensor, values| {
        assert!(values.iter().any(|value| *value != 0.0), "{}", tensor.name);
        reached.insert(tensor.name);
    });
    assert_eq!(reached, wanted);
}

/// One hidden layer of BERT-base, the layers' shares and their factor.
#[rstest]
#[case("mlp", 768 * 769 + 1_538)]
#[case("mean-mlp", 768 * 769 + 1_538)]
#[case("mix-mlp", 13 + 1 + 768 * 769 + 1_538)]
#[case("mix", 13 + 1 + 1_538)]
fn heads_are_counted_from_their_tensors(#[case] name: &str, #[case] expected: usize) {
    let (method, device, init, config) =
        (Features::default(), Device::flex(), Init::new(0), BertConfig::new(768, 12, 12));
    let head = Head::new(&config.shape(), 2, Heads::default().find(name).unwrap(), init, &device);
    let bert = Bert::random(&config, init, &device).unwrap();
    let count = ParamCount::of(&TaskModel::tuned(&method, bert, head, init, &device).unwrap(), &method);
    assert_eq!((count.trained, count.groups["head"]), (expected, expected));
}
