//! The bottleneck adapter of §2 and its variants of §3.6.

use burn::{
    module::{Module, Param},
    nn::{BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig, Linear},
    tensor::{Device, Tensor, module::batch_norm},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Activation, Also, At, Bottleneck, Init, Insertion, Key, Method, MethodError, NetworkShape, Place, Role, Site,
    in_f32,
};

/// What an adapter looks like and where adapters stand.
///
/// The default is the paper's: size 64, GELU, σ = 1e-2, one at each site of each layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterConfig {
    /// Width of the bottleneck.
    #[serde(rename = "adapter_size")]
    pub size: usize,
    /// Width by layer, from the bottom up; 0 leaves a layer out. Empty: `size` everywhere.
    pub layer_sizes: Vec<usize>,
    /// The sites that get an adapter.
    pub sites: Sites,
    /// Non-linearity after each projection into the bottleneck.
    pub activation: Activation,
    /// Number of projections before the last: 1 is the paper's adapter, each more adds one inside the bottleneck.
    pub depth: usize,
    /// Normalisation inside the bottleneck.
    pub norm: InnerNorm,
    /// What the adapter reads.
    pub placement: Placement,
    /// How the adapter changes the sub-layer's output.
    pub interaction: Interaction,
    /// Standard deviation σ of the initial weights, cut off at ±2σ.
    pub init_std: f64,
    /// What the adapter's result is multiplied by.
    pub scaling: Scaling,
    /// AdapterDrop: at each training step a random number of the lowest layers, up to this, goes without adapters.
    pub adapter_drop: usize,
    /// Whether the LayerNorms are trained, too, as in the paper.
    pub layer_norm: bool,
    /// How many of the highest layers are trained, too.
    pub top_layers: usize,
}

impl Default for AdapterConfig {
    fn default() -> Self {
        Self {
            size: 64,
            layer_sizes: Vec::new(),
            sites: Sites::Both,
            activation: Activation::Gelu,
            depth: 1,
            norm: InnerNorm::None,
            placement: Placement::Serial,
            interaction: Interaction::Additive,
            init_std: 1e-2,
            scaling: Scaling::default(),
            adapter_drop: 0,
            layer_norm: true,
            top_layers: 0,
        }
    }
}

/// Normalisation inside an adapter, after the projection down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerNorm {
    /// None, as in the paper's main experiments.
    #[default]
    None,
    /// Layer normalisation over the bottleneck.
    Layer,
    /// Batch normalisation over the tokens of a batch.
    Batch,
}

/// What an adapter reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The sub-layer's output, as in the paper's main experiments.
    #[default]
    Serial,
    /// The sub-layer's input: the adapter runs beside the sub-layer.
    Parallel,
    /// The sub-layer's result, LayerNorm(output + input), as if the adapter were not there (Pfeiffer et al. 2021).
    AfterNorm,
}

/// What an adapter's result is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Scaling {
    /// This number.
    Fixed(f64),
    /// One number that is trained.
    Learned,
    /// A number for each feature that is trained.
    Channel,
}

impl Default for Scaling {
    fn default() -> Self {
        Scaling::Fixed(1.0)
    }
}

impl TryFrom<Value> for Scaling {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match (value.as_str(), value.as_f64()) {
            (Some("learned"), _) => Ok(Scaling::Learned),
            (Some("channel"), _) => Ok(Scaling::Channel),
            (_, Some(number)) => Ok(Scaling::Fixed(number)),
            _ => Err("a number, `learned` or `channel` is needed"),
        }
    }
}

impl From<Scaling> for Value {
    fn from(scaling: Scaling) -> Self {
        match scaling {
            Scaling::Fixed(number) => number.into(),
            Scaling::Learned => "learned".into(),
            Scaling::Channel => "channel".into(),
        }
    }
}

/// How an adapter's result Δ enters the sub-layer's output y.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interaction {
    /// y + Δ
    #[default]
    Additive,
    /// y (1 + Δ)
    Multiplicative,
}

/// Which sites of a layer get an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sites {
    /// The attention sub-layer alone.
    Attention,
    /// The feed-forward sub-layer alone.
    FeedForward,
    /// Both, as in the paper's main experiments.
    #[default]
    Both,
}

impl Sites {
    /// Whether `site` is one of them.
    pub fn contains(self, site: Site) -> bool {
        match self {
            Sites::Attention => site == Site::Attention,
            Sites::FeedForward => site == Site::FeedForward,
            Sites::Both => true,
        }
    }
}

impl AdapterConfig {
    /// The paper's adapter with a bottleneck of width `size`.
    pub fn new(size: usize) -> Self {
        Self { size, ..Self::default() }
    }

    /// What is trained beside the adapters.
    fn also(&self) -> Also {
        Also { layer_norm: self.layer_norm, top_layers: self.top_layers }
    }

    /// Width of the bottleneck at `place`; 0 if there is no adapter.
    pub fn size_at(&self, place: Place) -> usize {
        if !self.sites.contains(place.site) {
            return 0;
        }
        self.layer_sizes.get(place.layer).copied().unwrap_or(self.size)
    }

    /// The adapter at `place` of a network of width `hidden`, or `None` where the configuration leaves it out.
    ///
    /// Its values depend on `init`'s seed and on `place`, not on the device or the order of construction.
    pub fn init(&self, place: Place, hidden: usize, init: Init, device: &Device) -> Option<Adapter> {
        let size = self.size_at(place);
        if size == 0 {
            return None;
        }
        let linear = |name: &str, d_input, d_output| Linear {
            weight: init.truncated_normal(format!("{place}.{name}.weight"), [d_input, d_output], self.init_std, device),
            bias: Some(init.constant(0.0, [d_output], device)),
        };
        Some(Adapter {
            down: linear("down", hidden, size),
            layer_norm: (self.norm == InnerNorm::Layer).then(|| LayerNormConfig::new(size).init(device)),
            batch_norm: (self.norm == InnerNorm::Batch).then(|| BatchNormConfig::new(size).init(device)),
            inner: (1..self.depth).map(|i| linear(&format!("inner.{}", i - 1), size, size)).collect(),
            up: linear("up", size, hidden),
            scale: match self.scaling {
                Scaling::Fixed(_) => None,
                Scaling::Learned => Some(init.constant(1.0, [1], device)),
                Scaling::Channel => Some(init.constant(1.0, [hidden], device)),
            },
            activation: self.activation,
            placement: self.placement,
            interaction: self.interaction,
            factor: if let Scaling::Fixed(factor) = self.scaling { factor } else { 1.0 },
            dropped: self.adapter_drop,
        })
    }
}

impl Method for AdapterConfig {
    type Insertion = Adapter;
    const NAME: &'static str = "adapters";
    const ABOUT: &'static str = "bottleneck adapters and every LayerNorm";
    const KEYS: &'static [Key] = &[
        Key::new("adapter_size", "M", "Width of the adapters' bottleneck"),
        Key::new("init_std", "SIGMA", "Standard deviation of the adapters' initial weights"),
        Key::new("activation", "NAME", "The adapters' non-linearity: gelu, tanh-gelu, relu, tanh, swish, …"),
        Key::new("norm", "NAME", "Normalisation inside the adapters: none, layer or batch"),
        Key::new("depth", "N", "Projections of an adapter before its last"),
        Key::new("sites", "NAME", "Where adapters stand: attention, feed-forward or both"),
        Key::new(
            "placement",
            "NAME",
            "What adapters read: the sub-layer's output (serial), its input (parallel), or its result (after-norm)",
        ),
        Key::new("interaction", "NAME", "How adapters change the sub-layer's output: additive or multiplicative"),
        Key::new("layer_sizes", "LIST", "Width by layer, from the bottom up; 0 leaves a layer out"),
        Key::new("scaling", "S", "What the adapters' result is multiplied by: a number, or learned, or channel"),
        Key::new("adapter_drop", "N", "At each step, a random number of the lowest layers, up to N, has no adapters"),
        Also::LAYER_NORM,
        Also::TOP_LAYERS,
    ];
    const LATER_KEYS: &'static [&'static str] = &["scaling", "adapter_drop", "layer_norm", "top_layers"];
    const SIZE_KEY: Option<&'static str> = Some("adapter_size");

    fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
        self.also().check(network)?;
        let (sigma, given, layers) = (self.init_std, self.layer_sizes.len(), network.layers);
        let problem = if self.size == 0 {
            "adapter_size 0: the bottleneck needs at least 1 unit (a layer is left out by a 0 in `layer_sizes`)"
                .to_owned()
        } else if let Some(size) = self.layer_sizes.iter().chain([&self.size]).find(|size| **size > WIDEST) {
            format!("adapter_size {size}: {WIDEST} at most")
        } else if self.depth == 0 {
            "depth 0: at least one projection leads into the bottleneck".to_owned()
        } else if self.depth > DEEPEST {
            format!("depth {}: {DEEPEST} at most", self.depth)
        } else if !(sigma.is_finite() && sigma > 0.0) {
            format!("init_std {sigma}: a positive number is needed (the paper tries 1e-7 to 1)")
        } else if given != 0 && given != layers {
            format!("layer_sizes has {given} entries, the backbone {layers} layers")
        } else if self.adapter_drop > layers {
            format!("adapter_drop {}: the backbone has {layers} layers", self.adapter_drop)
        } else if matches!(self.scaling, Scaling::Fixed(factor) if !factor.is_finite()) {
            "scaling: a finite number is needed".to_owned()
        } else {
            return Ok(());
        };
        Err(MethodError::Wrong(problem))
    }

    fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<Adapter> {
        self.init(place, network.hidden, init, device)
    }

    fn trains(&self, role: Role, network: &NetworkShape) -> bool {
        role.inserted || self.also().trains(role, network)
    }

    fn group(&self) -> &'static str {
        self.also().group()
    }

    fn family() -> String {
        "adapters (by size)".to_owned()
    }

    fn needs_whole_batches(&self) -> bool {
        self.norm == InnerNorm::Batch
    }
}

/// The widest bottleneck: wider than any network.
const WIDEST: usize = 65_536;
/// The most projections that lead into a bottleneck.
const DEEPEST: usize = 64;

/// A bottleneck with a skip connection: `y + up(f(down(y)))`, or one of its variants.
///
/// Made by [`AdapterConfig::init`]. With width d and size m it has `2md + d + m` parameters.
#[derive(Module, Debug)]
pub struct Adapter {
    /// Projection into the bottleneck, `[hidden, size]`.
    pub down: Linear,
    /// Layer normalisation inside the bottleneck.
    pub layer_norm: Option<LayerNorm>,
    /// Batch normalisation inside the bottleneck.
    pub batch_norm: Option<BatchNorm>,
    /// Further projections inside the bottleneck, `[size, size]`.
    pub inner: Vec<Linear>,
    /// Projection back, `[size, hidden]`.
    pub up: Linear,
    /// What the result is multiplied by, if that is trained: `[1]`, or `[hidden]`.
    pub scale: Option<Param<Tensor<1>>>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    placement: Placement,
    #[module(skip)]
    interaction: Interaction,
    factor: f64,
    dropped: usize,
}

impl Adapter {
    /// What the adapter computes before it meets the sub-layer's output: `up(f(down(x)))`.
    ///
    /// Batch normalisation uses (and updates) the batch's own statistics while dropout is on, the running ones otherwise.
    ///
    /// # Shapes
    /// - `x`, result: `[tokens, hidden]`
    pub fn delta(&self, x: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        let mut x = self.down.forward(x);
        if let Some(norm) = &self.layer_norm {
            x = in_f32(x, |x| norm.forward(x));
        }
        if let Some(norm) = &self.batch_norm {
            x = in_f32(x, |x| match at.dropout {
                Some(_) => norm.forward(x),
                None => with_running_statistics(norm, x),
            });
        }
        x = self.activation.forward(x);
        for inner in &self.inner {
            x = self.activation.forward(inner.forward(x));
        }
        let x = self.up.forward(x);
        match &self.scale {
            Some(scale) => x * scale.val().unsqueeze(),
            None if self.factor == 1.0 => x,
            None => x * self.factor,
        }
    }

    /// Whether AdapterDrop leaves it out of this step.
    fn is_dropped(&self, at: &At<'_>) -> bool {
        at.dropout.is_some_and(|key| at.place.layer < key.number_below(self.dropped + 1))
    }
}

/// Batch normalisation as in evaluation. Burn's own `forward` would take any autodiff device for training.
fn with_running_statistics(norm: &BatchNorm, x: Tensor<2>) -> Tensor<2> {
    let (mean, variance) = (norm.running_mean.value_sync(), norm.running_var.value_sync());
    batch_norm(x, norm.gamma.val(), norm.beta.val(), mean, variance, norm.epsilon)
}

impl Insertion for Adapter {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        if self.is_dropped(at) {
            return output;
        }
        let read = match self.placement {
            Placement::Serial => output.clone(),
            Placement::Parallel => input,
            Placement::AfterNorm => at.layer_norm(output.clone() + input),
        };
        let delta = self.delta(read, at);
        match self.interaction {
            Interaction::Additive => output + delta,
            Interaction::Multiplicative => output.clone() + output * delta,
        }
    }

    fn as_bottleneck(&self) -> Option<Bottleneck<'_>> {
        let Self { down, layer_norm, batch_norm, inner, up, activation, placement, interaction, .. } = self;
        let plain = layer_norm.is_none() && batch_norm.is_none() && inner.is_empty();
        let plain = plain && self.scale.is_none() && self.factor == 1.0 && self.dropped == 0;
        let serial = (*placement, *interaction) == (Placement::Serial, Interaction::Additive);
        (plain && serial).then_some(Bottleneck { down, activation: *activation, up })
    }

    fn is_row_wise(&self) -> bool {
        self.batch_norm.is_none()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::tensors;

    const PLACE: Place = Place { layer: 2, site: Site::FeedForward };

    fn at() -> At<'static> {
        At::new(PLACE, &[0, 3, 5])
    }

    fn random(seed: u64, device: &Device) -> Tensor<2> {
        Init::new(seed).truncated_normal("x", [5, 24], 1.0, device).val()
    }

    fn floats(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    fn variants() -> Vec<AdapterConfig> {
        let paper = || AdapterConfig::new(6);
        let parallel = || AdapterConfig { placement: Placement::Parallel, ..paper() };
        vec![
            paper(),
            AdapterConfig { norm: InnerNorm::Layer, ..paper() },
            AdapterConfig { norm: InnerNorm::Batch, ..paper() },
            AdapterConfig { depth: 3, ..paper() },
            AdapterConfig { activation: Activation::Tanh, ..paper() },
            parallel(),
            AdapterConfig { interaction: Interaction::Multiplicative, ..parallel() },
            AdapterConfig { interaction: Interaction::Multiplicative, ..paper() },
        ]
    }

    #[rstest]
    fn it_has_the_papers_number_of_parameters(#[values(1, 2, 64, 512)] size: usize, #[values(24, 768)] hidden: usize) {
        let device = Device::flex();
        let adapter = AdapterConfig::new(size).init(PLACE, hidden, Init::new(0), &device).unwrap();
        assert_eq!(adapter.num_params(), 2 * size * hidden + hidden + size);
    }

    #[test]
    fn every_variant_starts_near_the_identity_and_leaves_it_with_a_large_sigma() {
        let device = Device::flex();
        let (output, input) = (random(1, &device), random(2, &device));
        for config in variants() {
            for (init_std, largest) in [(1e-7, 1e-5), (1e-2, 0.1), (1.0, f32::INFINITY)] {
                let config = AdapterConfig { init_std, ..config.clone() };
                let adapter = config.init(PLACE, 24, Init::new(0), &device).unwrap();
                let adapted = adapter.forward(output.clone(), input.clone(), &at());
                let change = (adapted - output.clone()).abs().max().into_scalar::<f32>();
                assert!(change < largest, "{config:?}: {change}");
                assert!(init_std < 1.0 || change > 0.1, "{config:?}: {change}");
            }
        }
    }

    #[test]
    fn placement_decides_what_is_read() {
        let device = Device::flex();
        let (output, input) = (random(1, &device), random(2, &device));
        for config in variants() {
            let config = AdapterConfig { init_std: 0.5, ..config };
            let adapter = config.init(PLACE, 24, Init::new(0), &device).unwrap();
            let changed = |input: Tensor<2>| floats(adapter.forward(output.clone(), input, &at()));
            let reads_input = changed(input.clone()) != changed(input.clone() * 2.0);
            assert_eq!(reads_input, config.placement == Placement::Parallel);
        }
    }

    #[test]
    fn a_multiplicative_adapter_cannot_change_a_zero() {
        let device = Device::flex();
        let config = AdapterConfig {
            interaction: Interaction::Multiplicative,
            placement: Placement::Parallel,
            init_std: 1.0,
            ..AdapterConfig::new(6)
        };
        let adapter = config.init(PLACE, 24, Init::new(0), &device).unwrap();
        let zero = Tensor::<2>::zeros([5, 24], &device);
        assert_eq!(floats(adapter.forward(zero, random(2, &device), &at())), [0.0; 5 * 24]);
    }

    #[test]
    fn values_do_not_depend_on_the_order_of_construction() {
        let device = Device::flex();
        let config = AdapterConfig { depth: 2, ..AdapterConfig::new(4) };
        let values = |place| {
            let adapter = config.init(place, 24, Init::new(5), &device).unwrap();
            let weight = |linear: &Linear| floats(linear.weight.val());
            [weight(&adapter.down), weight(&adapter.inner[0]), weight(&adapter.up)]
        };
        let other = Place::new(0, Site::Attention);
        let first = (values(PLACE), values(other));
        let second = (values(other), values(PLACE));
        assert_eq!((&first.0, &first.1), (&second.1, &second.0));
        assert_ne!(first.0, first.1);
    }

    #[test]
    fn sizes_by_layer_and_sites_leave_places_out() {
        let config = AdapterConfig { layer_sizes: vec![0, 3, 5], sites: Sites::Attention, ..AdapterConfig::default() };
        let device = Device::flex();
        let sizes: Vec<_> = (0..3)
            .flat_map(|layer| Site::ALL.map(|site| Place::new(layer, site)))
            .map(|place| {
                let adapter = config.init(place, 24, Init::new(0), &device);
                adapter.map_or(0, |adapter| adapter.down.weight.lazy_shape().dims::<2>()[1])
            })
            .collect();
        assert_eq!(sizes, [0, 0, 3, 0, 5, 0]);
    }

    #[test]
    fn batch_statistics_move_in_training_alone() {
        let device = Device::flex().autodiff();
        let config = AdapterConfig { norm: InnerNorm::Batch, init_std: 1.0, ..AdapterConfig::new(6) };
        let adapter = config.init(PLACE, 24, Init::new(0), &device).unwrap();
        let statistics = || {
            let norm = adapter.batch_norm.as_ref().unwrap();
            let values = [norm.running_mean.value_sync(), norm.running_var.value_sync()];
            values.map(|tensor| tensor.into_data().iter::<f32>().collect::<Vec<_>>())
        };
        let x = random(1, &device);
        let at_start = statistics();
        let evaluated = floats(adapter.forward(x.clone(), x.clone(), &at()));
        assert_eq!(statistics(), at_start);
        let training = at().with_dropout(Some(crate::DropoutKey { seed: 0, step: 0 }));
        let trained = floats(adapter.forward(x.clone(), x.clone(), &training));
        assert_ne!(statistics(), at_start);
        assert_ne!(trained, evaluated);
    }

    #[rstest]
    #[case(AdapterConfig::new(0), "adapter_size 0")]
    #[case(AdapterConfig { depth: 0, ..Default::default() }, "depth 0")]
    #[case(AdapterConfig { init_std: 0.0, ..Default::default() }, "init_std 0")]
    #[case(AdapterConfig { layer_sizes: vec![1; 5], ..Default::default() }, "layer_sizes has 5 entries, the backbone 6")]
    fn a_configuration_without_an_adapter_is_refused(#[case] config: AdapterConfig, #[case] problem: &str) {
        let network = NetworkShape { layers: 6, hidden: 24, intermediate: 96 };
        let error = config.check(&network).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }

    #[test]
    fn every_field_is_a_key_with_a_help_text() {
        let config = AdapterConfig::default().info().config;
        let mut named: Vec<&str> = AdapterConfig::KEYS.iter().map(|key| key.name).collect();
        named.sort_unstable();
        assert!(config.keys().map(String::as_str).eq(named));
        assert_eq!((AdapterConfig::new(8).label(), AdapterConfig::new(8).size()), ("adapters 8".to_owned(), Some(8.0)));
    }

    #[test]
    fn tensors_are_named_by_their_part() {
        let config = AdapterConfig { depth: 2, norm: InnerNorm::Batch, ..AdapterConfig::new(4) };
        let adapter = config.init(PLACE, 24, Init::new(0), &Device::flex()).unwrap();
        let names: Vec<_> = tensors(&adapter).into_iter().map(|tensor| tensor.name).collect();
        assert_eq!(
            names,
            [
                "down.weight",
                "down.bias",
                "batch_norm.weight",
                "batch_norm.bias",
                "batch_norm.running_mean",
                "batch_norm.running_var",
                "inner.0.weight",
                "inner.0.bias",
                "up.weight",
                "up.bias",
            ]
        );
    }
}
