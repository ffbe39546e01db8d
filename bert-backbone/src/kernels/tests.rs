//! Every fused operation computes what the plain composition computes, forward and backward.

use adapter_core::{
    Activation, Adapter, AdapterConfig, At, DropoutKey, DropoutSite, Init, Insertion, Lora, LowRankUpdates, Method,
    Place, Projection, Site, TensorInfo, TensorMapper, TensorVisitor, rewrite, walk,
};
use burn::{
    module::{Module, Param},
    tensor::{Device, Gradients, Tensor},
};
use proptest::prelude::*;

use crate::{Bert, BertConfig, Encoded, Layer, PackedBatch, kernels};

const KEY: DropoutKey = DropoutKey { seed: 5, step: 3 };
const PLACE: Place = Place { layer: 0, site: Site::FeedForward };

/// Shapes that meet the edges: sequences of one token, widths that fill no vector register, more rows than one share.
fn shapes() -> impl Strategy<Value = Shape> {
    let lengths = prop_oneof![
        prop::collection::vec(1usize..12, 1..6),
        prop::collection::vec(1usize..3, 1..4),
        Just(vec![1]),
        Just(vec![7, 120, 1, 150, 33, 90]),
    ];
    let activation = prop_oneof![Just("gelu"), Just("gelu_new"), Just("relu"), Just("silu")];
    let tracked = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    (lengths, 1usize..4, 1usize..12, 1usize..40, activation, any::<bool>(), tracked, 0u64..1000).prop_map(
        |(lengths, heads, head_width, wide, activation, dropout, tracked, seed)| Shape {
            lengths,
            heads,
            width: heads * head_width,
            wide,
            activation,
            dropout,
            tracked,
            seed,
        },
    )
}

#[derive(Clone, Debug)]
struct Shape {
    lengths: Vec<usize>,
    heads: usize,
    width: usize,
    wide: usize,
    activation: &'static str,
    dropout: bool,
    /// A bit for each tensor: whether it is trained.
    tracked: u64,
    seed: u64,
}

impl Shape {
    fn config(&self) -> BertConfig {
        BertConfig {
            intermediate_size: self.wide,
            hidden_act: self.activation.to_owned(),
            max_position_embeddings: 200,
            vocab_size: 10,
            initializer_range: 0.5,
            // Rows of one or two values have no variance to speak of: without this, rounding would decide.
            layer_norm_eps: 1e-2,
            ..BertConfig::new(self.width, 1, self.heads)
        }
    }

    fn batch(&self, device: &Device) -> PackedBatch {
        let sequence = |&length: &usize| {
            let (input_ids, token_type_ids) = (vec![1; length], vec![0; length]);
            Encoded { input_ids, token_type_ids, ..Encoded::default() }
        };
        let sequences: Vec<_> = self.lengths.iter().map(sequence).collect();
        let batch = PackedBatch::new(&sequences, &self.config(), device).unwrap();
        if self.dropout { batch.with_dropout(KEY) } else { batch }
    }

    fn layer(&self, device: &Device) -> Layer<Option<Adapter>> {
        let init = Init::new(self.seed);
        let adapter = AdapterConfig { init_std: 0.3, ..AdapterConfig::new(5) };
        let bert = Bert::random(&self.config(), init, device).unwrap();
        let mut bert = bert.insert(|place| adapter.init(place, self.width, init, device));
        rewrite(bert.encoder.layer.remove(0), &mut Track(self.tracked))
    }

    /// A layer with updates of some projections, of which none is zero.
    fn updated(&self, targets: &[Projection], device: &Device) -> Layer<Option<LowRankUpdates>> {
        let (init, network) = (Init::new(self.seed), self.config().shape());
        let lora = Lora { rank: 3, targets: targets.to_vec(), lora_alpha: 6.0, ..Lora::default() };
        let bert = Bert::random(&self.config(), init, device).unwrap();
        let mut bert = bert.insert(|place| {
            let mut updates = lora.insertion(place, &network, init, device)?;
            let updated = [&mut updates.query, &mut updates.key, &mut updates.value, &mut updates.attention_output];
            for (number, update) in updated.into_iter().enumerate() {
                if let Some(update) = update {
                    let shape = [3, self.width];
                    update.lora_b = init.truncated_normal(format!("b{number}"), shape, 0.5, device);
                }
            }
            Some(updates)
        });
        rewrite(bert.encoder.layer.remove(0), &mut Track(self.tracked))
    }

    fn x(&self, device: &Device) -> Tensor<2> {
        random("x", [self.lengths.iter().sum(), self.width], self.seed, device).require_grad()
    }
}

/// Lets the tensors be trained whose bits are set, the lowest bit first.
struct Track(u64);

impl TensorMapper for Track {
    fn map<const D: usize>(&mut self, _: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let tracked = self.0 & 1 == 1;
        self.0 = self.0.rotate_right(1);
        param.set_require_grad(tracked)
    }
}

fn random(name: &str, shape: [usize; 2], seed: u64, device: &Device) -> Tensor<2> {
    Tensor::from_inner(Init::new(seed).truncated_normal(name, shape, 1.0, &device.clone().inner()).val())
}

/// A result, and the gradients of the input and of every tensor.
fn everything<M: Module>(module: &M, x: Tensor<2>, y: Tensor<2>) -> Vec<(String, Vec<f32>)> {
    let weights = random("weights", y.dims(), 9, &y.device());
    let gradients = (y.clone() * weights).sum().backward();
    let mut all = vec![("result".to_owned(), floats(y)), ("x".to_owned(), floats(x.grad(&gradients).unwrap()))];
    walk(module, &mut Collect { gradients: &gradients, into: &mut all });
    all
}

struct Collect<'a> {
    gradients: &'a Gradients,
    into: &'a mut Vec<(String, Vec<f32>)>,
}

impl TensorVisitor for Collect<'_> {
    fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.gradients) {
            self.into.push((tensor.name, floats(gradient)));
        }
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

fn assert_close(fast: &[(String, Vec<f32>)], plain: &[(String, Vec<f32>)]) {
    let names = |all: &[(String, Vec<f32>)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(fast), names(plain));
    // Of all of them: some gradients, like that of the keys' bias, are 0 but for what rounding leaves of larger ones.
    let largest = plain.iter().flat_map(|(_, values)| values).fold(1.0f32, |largest, value| largest.max(value.abs()));
    for ((name, fast), (_, plain)) in fast.iter().zip(plain) {
        assert_eq!(fast.len(), plain.len(), "{name}");
        let apart = fast.iter().zip(plain).fold(0.0f32, |apart, (a, b)| apart.max((a - b).abs()));
        assert!(apart <= 5e-5 * largest, "{name}: {apart} apart, values up to {largest}");
    }
}

/// Where the attention sub-layer's insertion would stand.
fn at(batch: &PackedBatch) -> At<'_> {
    At::new(Place::new(0, Site::Attention), batch.boundaries()).with_dropout(batch.dropout)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn attention(shape in shapes()) {
        let device = Device::flex().autodiff();
        let (layer, batch) = (shape.layer(&device), shape.batch(&device));
        let x = shape.x(&device);
        let attention = &layer.attention;
        let fast = attention.forward(x.clone(), kernels::Rows::All(batch.tokens()), &batch, &at(&batch));
        let fast = everything(attention, x, fast);
        let x = shape.x(&device);
        let plain = attention.composed(x.clone(), kernels::Rows::All(batch.tokens()), &batch, &at(&batch));
        assert_close(&fast, &everything(attention, x, plain));
    }

    #[test]
    fn attention_with_updates(shape in shapes(), chosen in 1u8..16, first_only in any::<bool>()) {
        use Projection::{AttentionOutput, Key, Query, Value};
        let device = Device::flex().autodiff();
        let all = [Query, Key, Value, AttentionOutput].into_iter().enumerate();
        let targets: Vec<_> = all.filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, target)| target).collect();
        let (layer, batch) = (shape.updated(&targets, &device), shape.batch(&device));
        let rows = match first_only {
            true => kernels::Rows::First(batch.shared_boundaries()),
            false => kernels::Rows::All(batch.tokens()),
        };
        let attention = &layer.attention;
        let x = shape.x(&device);
        let fast = everything(attention, x.clone(), attention.forward(x, rows.clone(), &batch, &at(&batch)));
        let x = shape.x(&device);
        let plain = everything(attention, x.clone(), attention.composed(x, rows, &batch, &at(&batch)));
        assert_close(&fast, &plain);
    }

    #[test]
    fn attention_composed_for_the_first_tokens(shape in shapes()) {
        let device = Device::flex().autodiff();
        let (layer, batch) = (shape.layer(&device), shape.batch(&device));
        let (attention, rows) = (&layer.attention, kernels::Rows::First(batch.shared_boundaries()));
        let x = shape.x(&device);
        let fast = everything(attention, x.clone(), attention.forward(x, rows.clone(), &batch, &at(&batch)));
        let x = shape.x(&device);
        let plain = everything(attention, x.clone(), attention.composed(x, rows, &batch, &at(&batch)));
        assert_close(&fast, &plain);
    }

    #[test]
    fn attention_of_the_first_tokens(shape in shapes()) {
        let device = Device::flex().autodiff();
        let (layer, batch) = (shape.layer(&device), shape.batch(&device));
        let x = shape.x(&device);
        let fast = everything(&layer, x.clone(), layer.forward_first_tokens(x, &batch, 0));
        let x = shape.x(&device);
        let plain = everything(&layer, x.clone(), batch.first_tokens(layer.forward(x, &batch, 0)));
        assert_close(&fast, &plain);
    }

    #[test]
    fn feed_forward(shape in shapes()) {
        let device = Device::flex().autodiff();
        let (layer, batch) = (shape.layer(&device), shape.batch(&device));
        let at = At::new(PLACE, batch.boundaries()).with_dropout(batch.dropout);
        let x = shape.x(&device);
        let fast = layer.feed_forward(x.clone(), kernels::Rows::All(batch.tokens()), &at);
        let fast = everything(&layer, x, fast);
        let x = shape.x(&device);
        let mask = batch.dropout.map(|key| key.mask(DropoutSite::SubLayer(0, Site::FeedForward), 0.1));
        let activation: Activation = shape.activation.parse().unwrap();
        let wide = activation.forward(layer.intermediate.dense.forward(x.clone()));
        let plain = kernels::dropout(layer.output.dense.forward(wide), mask);
        assert_close(&fast, &everything(&layer, x, plain));
    }

    #[test]
    fn adapter_residual_and_normalisation(shape in shapes()) {
        let device = Device::flex().autodiff();
        let (layer, batch) = (shape.layer(&device), shape.batch(&device));
        let at = At::new(PLACE, batch.boundaries()).with_dropout(batch.dropout);
        let input = random("input", [batch.tokens(), shape.width], 1, &device);
        let x = shape.x(&device);
        let fast = everything(&layer, x.clone(), layer.output.forward(x, input.clone(), &at));
        let x = shape.x(&device);
        let inserted = layer.output.insertion.forward(x.clone(), input.clone(), &at);
        let plain = layer.output.LayerNorm.forward(inserted + input);
        assert_close(&fast, &everything(&layer, x, plain));
    }
}
