//! Packed batches compute what a plainly padded network computes, forwards and backwards.

mod support;

use std::collections::BTreeMap;

use adapter_core::{DropoutKey, DropoutSite, Init, Site, visit_gradients};
use bert_backbone::{BatchError, Bert, BertConfig, Encoded, PackedBatch};
use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, TensorData, activation},
};
use proptest::prelude::*;
use rstest::rstest;
use support::{floats, largest_difference, sequence, sequences, tiny};

/// The textbook forward pass over `[batch × longest]` rows, padding computed along and masked in attention.
///
/// With a key, dropout stands where BERT has it; rows and masks correspond if all lengths are equal.
fn padded_forward(
    bert: &Bert,
    config: &BertConfig,
    batch: &[Encoded],
    dropout: Option<DropoutKey>,
    device: &Device,
) -> Tensor<2> {
    fn drop<const D: usize>(x: Tensor<D>, key: Option<DropoutKey>, site: DropoutSite, p: f64) -> Tensor<D> {
        key.map_or(x.clone(), |key| key.mask(site, p).apply(x))
    }
    let p = config.hidden_dropout_prob;
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
    hidden = drop(hidden, dropout, DropoutSite::Embeddings, p);
    for (number, layer) in bert.encoder.layer.iter().enumerate() {
        let attention = &layer.attention.self_;
        let split = |x: Tensor<2>| x.reshape([count, longest, heads, d / heads]).swap_dims(1, 2);
        let query = split(attention.query.forward(hidden.clone()));
        let key = split(attention.key.forward(hidden.clone()));
        let value = split(attention.value.forward(hidden.clone()));
        let scores = query.matmul(key.swap_dims(2, 3)) / ((d / heads) as f64).sqrt() + masked.clone();
        let site = DropoutSite::AttentionProbabilities(number);
        let attended = drop(activation::softmax(scores, 3), dropout, site, config.attention_probs_dropout_prob);
        let mixed = attended.matmul(value).swap_dims(1, 2).reshape([count * longest, d]);
        let output = &layer.attention.output;
        let site = |site| DropoutSite::SubLayer(number, site);
        let projected = drop(output.dense.forward(mixed), dropout, site(Site::Attention), p);
        hidden = output.LayerNorm.forward(projected + hidden);
        let wide = activation::gelu_approximate(layer.intermediate.dense.forward(hidden.clone()));
        let projected = drop(layer.output.dense.forward(wide), dropout, site(Site::FeedForward), p);
        hidden = layer.output.LayerNorm.forward(projected + hidden);
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
    visit_gradients(bert, &gradients, |tensor, values| {
        by_name.insert(tensor.name, values);
    });
    by_name
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn packed_and_padded_passes_agree(lengths in prop::collection::vec(1usize..40, 1..7)) {
        let device = Device::flex().autodiff();
        let backbone = tiny(&device);
        let bert = backbone.bert.clone().set_require_grad(true);
        let batch = sequences(&lengths, &backbone.config);
        let packed = PackedBatch::new(&batch, &backbone.config, &device).unwrap();
        let ours = bert.forward(&packed);
        let theirs = padded_forward(&bert, &backbone.config, &batch, None, &device);
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
fn dropout_stands_exactly_where_bert_has_it() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let batch = sequences(&[9, 9, 9], &backbone.config);
    let key = DropoutKey { seed: 3, step: 4 };
    let packed = PackedBatch::new(&batch, &backbone.config, &device).unwrap().with_dropout(key);
    let ours = floats(backbone.bert.forward(&packed));
    let theirs = floats(padded_forward(&backbone.bert, &backbone.config, &batch, Some(key), &device));
    assert!(largest_difference(&ours, &theirs) < 1e-5);
    let without = floats(padded_forward(&backbone.bert, &backbone.config, &batch, None, &device));
    assert!(largest_difference(&ours, &without) > 0.1);
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
