//! Insertions: adapters, their removal, and one that this crate has never heard of.

mod support;

use adapter_core::{
    Adapter, AdapterConfig, At, DropoutKey, DropoutSite, Init, Insertion, LayerSpan, Place, Projection, Site,
    visit_gradients,
};
use bert_backbone::{Backbone, Bert, PackedBatch, dropout};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::{Device, Tensor},
};
use support::{floats, largest_difference, sequences, tiny};

fn adapted(backbone: &Backbone, init_std: f64, device: &Device) -> Bert<Option<Adapter>> {
    let config = AdapterConfig { init_std, ..AdapterConfig::new(8) };
    let hidden = backbone.config.hidden_size;
    backbone.bert.clone().insert(|place| config.init(place, hidden, Init::new(3), device))
}

fn batch(backbone: &Backbone, device: &Device) -> PackedBatch {
    PackedBatch::new(&sequences(&[7, 1, 12], &backbone.config), &backbone.config, device).unwrap()
}

#[test]
fn removing_all_adapters_restores_the_backbone_bit_for_bit() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let batch = batch(&backbone, &device);
    let original = floats(backbone.bert.forward(&batch));
    let adapted = adapted(&backbone, 1.0, &device);
    assert_ne!(floats(adapted.forward(&batch)), original);
    let removed = adapted.map_insertions(|_, _| None::<Adapter>);
    assert_eq!(floats(removed.forward(&batch)), original);
}

#[test]
fn a_small_sigma_leaves_the_backbone_as_it_was_and_a_large_one_does_not() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let batch = batch(&backbone, &device);
    let original = floats(backbone.bert.forward(&batch));
    let change = |std| largest_difference(&floats(adapted(&backbone, std, &device).forward(&batch)), &original);
    assert!(change(1e-7) < 1e-5, "{}", change(1e-7));
    assert!(change(1.0) > 1e-2, "{}", change(1.0));
}

#[test]
fn removing_a_span_leaves_the_adapters_outside_it() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let mut seen = std::collections::BTreeSet::new();
    for span in LayerSpan::all(3) {
        let removed = adapted(&backbone, 1.0, &device)
            .map_insertions(|place, adapter| adapter.filter(|_| !span.contains(place.layer)));
        removed.clone().map_insertions(|place, adapter| {
            assert_eq!(adapter.is_none(), span.contains(place.layer));
            adapter
        });
        seen.insert(
            floats(removed.forward(&batch(&backbone, &device))).iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        );
    }
    assert_eq!(seen.len(), 6, "every span gives another output");
}

#[test]
fn changing_what_is_inserted_keeps_every_parameter() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let before = adapter_core::tensors(&backbone.bert);
    let adapted = adapted(&backbone, 1e-2, &device);
    for tensor in before {
        let kept = adapter_core::tensors(&adapted).into_iter().find(|other| other.name == tensor.name);
        assert_eq!(kept.unwrap().id, tensor.id, "{}", tensor.name);
    }
}

/// Scales each sequence's output by what a bias-free gate makes of the sequence's mean: reads everything an
/// insertion is told.
#[derive(Module, Debug)]
struct MeanGate {
    weight: Param<Tensor<2>>,
}

impl MeanGate {
    fn new(place: Place, device: &Device) -> Self {
        Self { weight: Init::new(1).truncated_normal(format!("{place}.gate"), [32, 32], 1e-3, device) }
    }
}

impl Insertion for MeanGate {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        let gated = at.boundaries.windows(2).map(|pair| {
            let rows = [pair[0]..pair[1], 0..32];
            let gate = input.clone().slice(rows.clone()).mean_dim(0).matmul(self.weight.val());
            output.clone().slice(rows) * (gate + 1.0)
        });
        let site = DropoutSite::Insertion(at.place.layer, at.place.site);
        dropout(Tensor::cat(gated.collect(), 0), at.dropout.map(|key| key.mask(site, 0.1)))
    }
}

#[test]
fn an_insertion_from_outside_plugs_in_and_trains() {
    let device = Device::flex().autodiff();
    let backbone = tiny(&device);
    let batch = batch(&backbone, &device);
    let target = Init::new(5).truncated_normal("target", [20, 32], 1.0, &device).val().detach();
    let mut bert = backbone.bert.clone().no_grad().insert(|place| MeanGate::new(place, &device));

    let mut losses = Vec::new();
    for step in 0..12 {
        let batch = batch.clone().with_dropout(DropoutKey { seed: 0, step });
        let loss = (bert.forward(&batch) - target.clone()).powf_scalar(2.0).mean();
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = loss.backward();
        let mut trained = 0;
        visit_gradients(&bert, &gradients, |tensor, _| {
            assert!(tensor.name.ends_with("insertion.weight"), "{} is frozen", tensor.name);
            trained += 1;
        });
        assert_eq!(trained, 3 * Site::ALL.len());
        bert = bert.map_insertions(|_, gate| {
            let gradient = gate.weight.val().grad(&gradients).unwrap();
            let updated = gate.weight.val().inner() - gradient * 0.5;
            MeanGate { weight: Param::from_tensor(Tensor::from_inner(updated)) }
        });
    }
    assert!(losses[11] < 0.97 * losses[0], "{losses:?}");
}

/// Multiplies the products of some projections by a learnt number, or puts nothing but that number in their place.
#[derive(Module, Debug)]
struct Rescaled {
    factor: Param<Tensor<1>>,
    replaces: bool,
}

impl Insertion for Rescaled {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output
    }
    fn changes(&self, projection: Projection) -> bool {
        matches!(projection, Projection::Value | Projection::Intermediate)
    }
    fn project(&self, _: Projection, linear: &Linear, x: Tensor<2>, _: &At<'_>) -> Tensor<2> {
        let product = linear.forward(x);
        let product = if self.replaces { product.zeros_like() } else { product };
        product * self.factor.val().unsqueeze()
    }
    fn is_row_wise(&self) -> bool {
        true
    }
}

#[test]
fn an_insertion_changes_the_product_of_a_projection_and_trains() {
    let device = Device::flex().autodiff();
    let backbone = tiny(&device);
    let batch = batch(&backbone, &device);
    let original = floats(backbone.bert.forward(&batch).inner());
    let with = |factor: f32, replaces: bool| {
        let factor = move || Init::new(0).constant(factor, [1], &Device::flex().autodiff());
        backbone.bert.clone().no_grad().insert(move |_| Rescaled { factor: factor(), replaces })
    };
    let same = floats(with(1.0, false).forward(&batch).inner());
    assert!(largest_difference(&same, &original) < 1e-5, "the plain composition computes what the fused one does");
    assert!(largest_difference(&floats(with(2.0, false).forward(&batch).inner()), &original) > 1e-3);
    assert_eq!(floats(with(1.0, true).forward(&batch).inner()), floats(with(5.0, true).forward(&batch).inner()));
    let bert = with(1.0, false);
    let gradients = bert.forward(&batch).powf_scalar(3.0).sum().backward();
    let mut reached = 0;
    visit_gradients(&bert, &gradients, |tensor, _| {
        assert!(tensor.name.ends_with("insertion.factor"), "{}", tensor.name);
        reached += 1;
    });
    assert_eq!(reached, 3 * Site::ALL.len());
    // The last layer computes its first rows alone where it can.
    let hidden = bert.embeddings.forward(&batch);
    let first = floats(bert.first_tokens_from(0, hidden, &batch).inner());
    let all = floats(batch.first_tokens(bert.forward(&batch)).inner());
    assert!(largest_difference(&first, &all) < 1e-5);
}

/// Puts LN(output + input) in the place of the output.
#[derive(Module, Debug)]
struct Normed;

impl Insertion for Normed {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        at.layer_norm(output + input.clone()) - input
    }
}

#[test]
fn an_insertion_can_ask_for_the_sub_layers_own_layer_norm() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let batch = batch(&backbone, &device);
    let [output, input] =
        ["output", "input"].map(|name| Init::new(7).truncated_normal(name, [20, 32], 1.0, &device).val());
    let normed = backbone.bert.clone().insert(|_| Normed);
    let end = &normed.encoder.layer[1].output;
    let at = At::new(Place::new(1, Site::FeedForward), batch.boundaries());
    let result = end.forward(output.clone(), input.clone(), &at);
    let expected = end.LayerNorm.forward(end.LayerNorm.forward(output + input));
    assert!(largest_difference(&floats(result), &floats(expected)) < 1e-5);
}

/// Checks what it is given: the projection's output after dropout.
#[derive(Module, Debug)]
struct Probe;

impl Insertion for Probe {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        let zeros = |x: &Tensor<2>| x.clone().equal_scalar(0.0).float().mean().into_scalar::<f32>();
        let expected = if at.dropout.is_some() { 0.1 } else { 0.0 };
        assert!((zeros(&output) - expected).abs() < 0.05, "{}", zeros(&output));
        assert_eq!(zeros(&input), 0.0, "the residual is what the sub-layer was given");
        output
    }
}

#[test]
fn an_insertion_reads_the_output_behind_dropout() {
    let device = Device::flex();
    let backbone = tiny(&device);
    assert_eq!(backbone.config.hidden_dropout_prob, 0.1, "the probe expects this rate");
    let bert = backbone.bert.clone().insert(|_| Probe);
    let batch = batch(&backbone, &device);
    bert.forward(&batch);
    // The embeddings' own dropout would put zeros into the first input: go round it.
    let hidden = bert.embeddings.forward(&batch);
    let batch = batch.with_dropout(DropoutKey { seed: 1, step: 1 });
    bert.encoder.layer[0].forward(hidden, &batch, 0);
}

#[test]
fn dropout_follows_the_batchs_key_alone() {
    let device = Device::flex();
    let backbone = tiny(&device);
    let evaluated = batch(&backbone, &device);
    let output = |seed, step| {
        let batch = evaluated.clone().with_dropout(DropoutKey { seed, step });
        floats(backbone.bert.forward(&batch))
    };
    let plain = floats(backbone.bert.forward(&evaluated));
    assert_eq!(plain, floats(backbone.bert.forward(&evaluated)));
    assert_eq!(output(1, 1), output(1, 1));
    assert_ne!(output(1, 1), plain);
    assert_ne!(output(1, 1), output(1, 2));
    assert_ne!(output(1, 1), output(2, 1));
}
