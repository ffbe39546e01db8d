//! Methods with one adapter a layer, behind or beside the feed-forward sub-layer.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::{
    Activation, Adapter, AdapterConfig, Also, Init, Key, Method, MethodError, NetworkShape, Place, Placement, Role,
    Scaling, Sites,
};

macro_rules! one_adapter {
    ($(#[$doc:meta])* $name:ident, $tuning:literal, $about:literal, size $size:literal, $placement:ident, scaling $scaling:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            /// Width of the bottleneck.
            #[serde(rename = "adapter_size")]
            pub size: usize,
            /// Non-linearity of the bottleneck.
            pub activation: Activation,
            /// What the adapter's result is multiplied by.
            pub scaling: Scaling,
            /// Standard deviation σ of the initial weights, cut off at ±2σ.
            pub init_std: f64,
            /// Whether the LayerNorms are trained, too.
            pub layer_norm: bool,
            /// How many of the highest layers are trained, too.
            pub top_layers: usize,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    size: $size,
                    activation: Activation::Relu,
                    scaling: Scaling::Fixed($scaling),
                    init_std: 1e-2,
                    layer_norm: false,
                    top_layers: 0,
                }
            }
        }

        impl $name {
            /// The same as adapters of the paper's kind.
            pub fn adapters(&self) -> AdapterConfig {
                let Self { size, activation, scaling, init_std, layer_norm, top_layers } = *self;
                AdapterConfig {
                    activation,
                    scaling,
                    init_std,
                    layer_norm,
                    top_layers,
                    sites: Sites::FeedForward,
                    placement: Placement::$placement,
                    ..AdapterConfig::new(size)
                }
            }
        }

        impl Method for $name {
            type Insertion = Adapter;
            const NAME: &'static str = $tuning;
            const ABOUT: &'static str = $about;
            const KEYS: &'static [Key] = &[Also::LAYER_NORM, Also::TOP_LAYERS];
            const SIZE_KEY: Option<&'static str> = Some("adapter_size");

            fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
                self.adapters().check(network)
            }

            fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<Adapter> {
                self.adapters().insertion(place, network, init, device)
            }

            fn trains(&self, role: Role, network: &NetworkShape) -> bool {
                self.adapters().trains(role, network)
            }

            fn group(&self) -> &'static str {
                self.adapters().group()
            }

            fn family() -> String {
                format!("{} (by size)", $tuning)
            }
        }
    };
}

one_adapter! {
    /// Adapters of Pfeiffer et al. (2021): one a layer, which reads LayerNorm(h + x) behind the feed-forward sub-layer and is added
    /// to h, before the LayerNorm.
    Pfeiffer, "pfeiffer", "one adapter a layer, which reads the normalised result", size 48, AfterNorm, scaling 1.0
}

one_adapter! {
    /// Adapters of He et al. (2022): one a layer, which reads what the feed-forward sub-layer reads; its result is added four times.
    /// Their width is half of the network's: 384 for BERT-base.
    ParallelAdapters, "parallel", "one wide adapter a layer, beside the feed-forward sub-layer", size 384, Parallel, scaling 4.0
}
