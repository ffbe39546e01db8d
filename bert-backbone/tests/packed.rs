//! Packed batches compute what a plainly padded network computes, forwards and backwards.

mod support;

use std::collections::BTreeMap;

use adapter_core::{Init, visit_gradients};
use bert_backbone::{BatchError, Bert, BertConfig, Encoded, PackedBatch};
use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, TensorData, activation},
};
use proptest::prelude::*;
use rstest::rstest;
use support::{floats, largest_difference, sequence, sequences, tiny};

/// The textbook forward pass over `[batch × longest]` rows, padding computed along and masked in attention.
fn padded_forward(bert: &Bert, config: &BertConfig, batch: &[Encoded], device: &Device) -> Tensor<2> {
    let longest = batch.iter().map(|sequence| sequence.input_ids.len()).max().unwrap();
    let (count, d, heads) = (batch.len(), config.hidden_size, config.num_attention_heads);
    let ints = |of: &dyn Fn(&Encoded, usize) -> i32| {
        let values: Vec<i32> = batch.iter().flat_map(|s| (0..longest).map(|i| of(s, i)).collect::<Vec<_>>()).collect();
        Tensor::<1, Int>::from_data(TensorData::new(values, [count * longest]), device)
    };
    let ids = ints(&|s, i| s.input_ids.get(i).map_or(0, |&id| id as i32));
    let types = ints(&|s, i| s.token_type_ids.get(i).map_or(0, |&id| id as i32));
    let positions = ints(&|_, i| i as i32);
    let masked = ints(&|s, i| i32::from(i >= s.input_ids.len())).float() * -1e9;
    let masked: Tensor<4> = masked.reshape([count, 1, 1, longest]);

    let embeddings = &bert.embeddings;
    let mut hidden = embeddings.LayerNorm.forward(
        embeddings.word_embeddings.weight.val().select(0, ids)
            + embeddings.token_type_embeddings.weight.val().select(0, types)
            + embeddings.position_embeddings.weight.val().select(0, positions),
    );
    for layer in &bert.encoder.layer {
        let attention = &layer.attention.self_;
        let split = |x: Tensor<2>| x.reshape([count, longest, heads, d / heads]).swap_dims(1, 2);
        let query = split(attention.query.forward(hidden.clone()));
        let key = split(attention.key.forward(hidden.clone()));
        let value = split(attention.value.forward(hidden.clone()));
        let scores = query.matmul(key.swap_dims(2, 3)) / ((d / heads) as f64).sqrt() + masked.clone();
        let mixed = activation::softmax(scores, 3).matmul(value).swap_dims(1, 2).reshape([count * longest, d]);
        let output = &layer.attention.output;
        hidden = output.LayerNorm.forward(output.dense.forward(mixed) + hidden);
        let wide = activation::gelu(layer.intermediate.dense.forward(hidden.clone()));
        hidden = layer.output.LayerNorm.forward(layer.output.dense.forward(wide) + hidden);
    }
    let real = batch.iter().zip(0..).flat_map(|(s, number)| {
        let start = number * longest;
        (start..start + s.input_ids.len()).map(|row| row as i32)
    });
    let real: Vec<i32> = real.collect();
    let rows = real.len();
    hidden.select(0, Tensor::<1, Int>::from_data(TensorData::new(real, [rows]), device))
}

/// Gradients of a random weighting of all outputs, by tensor.
fn gradients(bert: &Bert, hidden: Tensor<2>) -> BTreeMap<String, Vec<f32>> {
    let weights = Init::new(9).truncated_normal("weights", hidden.dims(), 1.0, &hidden.device());
    let gradients = (hidden * weights.val().detach()).sum().backward();
    let mut by_name = BTreeMap::new();
    visit_gradients(bert, &gradients, |name, values| {
        by_name.insert(name.to_owned(), values);
    });
    by_name
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn packed_and_padded_passes_agree(lengths in prop::collection::vec(1usize..40, 1..7)) {
        let device = Device::flex().autodiff();
        let backbone = tiny(&device);
        let bert = backbone.bert.clone().train();
        let batch = sequences(&lengths, &backbone.config);
        let packed = PackedBatch::new(&batch, &backbone.config, &device).unwrap();
        let ours = bert.forward(&packed);
        let theirs = padded_forward(&bert, &backbone.config, &batch, &device);
        let difference = largest_difference(&floats(ours.clone()), &floats(theirs.clone()));
        prop_assert!(difference < 1e-5, "outputs differ by {:e}", difference);

        let (ours, theirs) = (gradients(&bert, ours), gradients(&bert, theirs));
        prop_assert!(ours.keys().eq(theirs.keys()));
        prop_assert!(ours.len() > 40, "only {} gradients", ours.len());
        for (name, gradient) in &ours {
            let size = gradient.iter().fold(1.0f32, |size, x| size.max(x.abs()));
            let difference = largest_difference(gradient, &theirs[name]) / size;
            prop_assert!(difference < 1e-5, "{}: gradients differ by {:e}", name, difference);
        }
    }
}

#[test]
fn a_sequence_does_not_see_its_neighbours() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let forward = |lengths: &[(usize, u32)]| {
        let batch: Vec<_> = lengths.iter().map(|&(n, seed)| sequence(n, seed, &backbone.config)).collect();
        let packed = PackedBatch::new(&batch, &backbone.config, &device).unwrap();
        floats(backbone.bert.forward(&packed))[..5 * 32].to_vec()
    };
    let alone = forward(&[(5, 1)]);
    assert!(largest_difference(&alone, &forward(&[(5, 1), (9, 2)])) < 1e-5);
    assert!(largest_difference(&alone, &forward(&[(5, 1), (3, 7), (30, 8)])) < 1e-5);
    assert!(largest_difference(&alone, &forward(&[(5, 2)])) > 0.1, "other tokens give other outputs");
}

#[test]
fn first_tokens_are_the_first_row_of_each_sequence() {
    let device = Device::flex();
    let config = tiny(&device).config;
    let packed = PackedBatch::new(&sequences(&[3, 1, 4], &config), &config, &device).unwrap();
    let rows = Tensor::<1, Int>::arange(0..8, &device).float().reshape([8, 1]);
    assert_eq!(floats(packed.first_tokens(rows)), [0.0, 3.0, 4.0]);
    assert_eq!((packed.sequences(), packed.tokens()), (3, 8));
}

fn encoded(ids: Vec<u32>, types: Vec<u32>) -> Encoded {
    Encoded { input_ids: ids, token_type_ids: types, ..Encoded::default() }
}

#[rstest]
#[case::nothing(vec![], "at least one sequence")]
#[case::empty(vec![encoded(vec![1], vec![0]), encoded(vec![], vec![])], "sequence 1 of the batch has no tokens")]
#[case::long(vec![encoded(vec![1; 513], vec![0; 513])], "513 tokens, the backbone takes 512")]
#[case::token(vec![encoded(vec![1, 30522], vec![0, 0])], "token 30522")]
#[case::segment(vec![encoded(vec![1, 2], vec![0, 2])], "segment 2")]
#[case::uneven(vec![encoded(vec![1, 2], vec![0])], "2 tokens and 1 segments")]
fn what_the_network_cannot_take_is_refused(#[case] batch: Vec<Encoded>, #[case] message: &str) {
    let device = Device::flex();
    let error: BatchError = PackedBatch::new(&batch, &tiny(&device).config, &device).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}
