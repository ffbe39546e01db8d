//! Low-rank adaptation (Hu et al. 2022).

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use crate::{Also, At, DropoutSite, Init, Insertion, Key, Method, MethodError, NetworkShape, Place, Projection, Role};

/// Adds s · x A B to projections of the network, where A and B have a small rank r, and s is α / r.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lora {
    /// The rank r.
    pub rank: usize,
    /// α: what is added is multiplied by α / r.
    pub lora_alpha: f64,
    /// The projections that it changes.
    pub targets: Vec<Projection>,
    /// Dropout of x.
    pub lora_dropout: f64,
    /// Whether what is added is multiplied by α / √r instead (Kalajdzievski 2023).
    pub rslora: bool,
    /// Whether the LayerNorms are trained, too.
    pub layer_norm: bool,
    /// How many of the highest layers are trained, too.
    pub top_layers: usize,
}

impl Default for Lora {
    fn default() -> Self {
        Self {
            rank: 8,
            lora_alpha: 8.0,
            targets: vec![Projection::Query, Projection::Value],
            lora_dropout: 0.0,
            rslora: false,
            layer_norm: false,
            top_layers: 0,
        }
    }
}

impl Lora {
    /// What is added is multiplied by this.
    pub fn factor(&self) -> f64 {
        let rank = self.rank as f64;
        self.lora_alpha / if self.rslora { rank.sqrt() } else { rank }
    }

    fn also(&self) -> Also {
        Also { layer_norm: self.layer_norm, top_layers: self.top_layers }
    }
}

/// The largest rank: larger than the width of any network.
const LARGEST: usize = 65_536;

impl Method for Lora {
    type Insertion = LowRankUpdates;
    const NAME: &'static str = "lora";
    const ABOUT: &'static str = "low-rank updates of projections";
    const KEYS: &'static [Key] = &[
        Key::new("rank", "R", "Rank of the updates"),
        Key::new("lora_alpha", "ALPHA", "An update is multiplied by ALPHA / R"),
        Key::new(
            "targets",
            "LIST",
            "Projections that are updated: query, key, value, attention-output, intermediate, output",
        ),
        Key::new("lora_dropout", "P", "Dropout on the input of each update"),
        Key::new("rslora", "BOOL", "Multiply an update by ALPHA / √R instead"),
        Also::LAYER_NORM,
        Also::TOP_LAYERS,
    ];
    const SIZE_KEY: Option<&'static str> = Some("rank");

    fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
        self.also().check(network)?;
        let twice = |projection: &&Projection| self.targets.iter().filter(|other| other == projection).count() > 1;
        let problem = if !(1..=LARGEST).contains(&self.rank) {
            format!("rank {}: a number from 1 to {LARGEST} is needed", self.rank)
        } else if self.targets.is_empty() {
            "targets []: name at least one projection".to_owned()
        } else if let Some(projection) = self.targets.iter().find(twice) {
            format!("targets: {projection:?} stands there twice")
        } else if !self.lora_alpha.is_finite() {
            format!("lora_alpha {}: a finite number is needed", self.lora_alpha)
        } else if !(0.0..1.0).contains(&self.lora_dropout) {
            format!("lora_dropout {}: a number from 0 up to 1 is needed", self.lora_dropout)
        } else {
            return Ok(());
        };
        Err(MethodError::Wrong(problem))
    }

    fn insertion(&self, place: Place, network: &NetworkShape, init: Init, device: &Device) -> Option<LowRankUpdates> {
        let update = |projection: Projection| {
            let wanted = projection.site() == place.site && self.targets.contains(&projection);
            wanted.then(|| {
                let [input, output] = projection.shape(network);
                // The variance of PyTorch's linear layers.
                let std = 1.0 / (3.0 * input as f64).sqrt();
                LowRank {
                    lora_a: init.truncated_normal(
                        format!("{place}.{projection:?}.lora_a"),
                        [input, self.rank],
                        std,
                        device,
                    ),
                    lora_b: init.constant(0.0, [self.rank, output], device),
                }
            })
        };
        let [query, key, value, attention_output, intermediate, output] = Projection::ALL.map(update);
        let (factor, dropout) = (self.factor(), self.lora_dropout);
        let updates = LowRankUpdates { query, key, value, attention_output, intermediate, output, factor, dropout };
        Projection::ALL.into_iter().any(|projection| updates.changes(projection)).then_some(updates)
    }

    fn trains(&self, role: Role, network: &NetworkShape) -> bool {
        role.inserted || self.also().trains(role, network)
    }

    fn group(&self) -> &'static str {
        self.also().group()
    }
}

/// A matrix of small rank: `x A B`.
#[derive(Module, Debug)]
pub struct LowRank {
    /// A, `[input, rank]`.
    pub lora_a: Param<Tensor<2>>,
    /// B, `[rank, output]`.
    pub lora_b: Param<Tensor<2>>,
}

/// What LoRA adds to the projections of a sub-layer.
#[derive(Module, Debug)]
pub struct LowRankUpdates {
    /// To attention's queries.
    pub query: Option<LowRank>,
    /// To attention's keys.
    pub key: Option<LowRank>,
    /// To attention's values.
    pub value: Option<LowRank>,
    /// To attention's output.
    pub attention_output: Option<LowRank>,
    /// To the feed-forward sub-layer's first projection.
    pub intermediate: Option<LowRank>,
    /// To the feed-forward sub-layer's second projection.
    pub output: Option<LowRank>,
    factor: f64,
    dropout: f64,
}

impl LowRankUpdates {
    /// What is added to a projection.
    pub fn of(&self, projection: Projection) -> Option<&LowRank> {
        match projection {
            Projection::Query => &self.query,
            Projection::Key => &self.key,
            Projection::Value => &self.value,
            Projection::AttentionOutput => &self.attention_output,
            Projection::Intermediate => &self.intermediate,
            Projection::Output => &self.output,
        }
        .as_ref()
    }
}

impl Insertion for LowRankUpdates {
    fn forward(&self, output: Tensor<2>, _input: Tensor<2>, _at: &At<'_>) -> Tensor<2> {
        output
    }

    fn changes(&self, projection: Projection) -> bool {
        self.of(projection).is_some()
    }

    fn adds(&self, projection: Projection, x: Tensor<2>, at: &At<'_>) -> Option<Tensor<2>> {
        let LowRank { lora_a, lora_b } = self.of(projection)?;
        let mask = at.dropout.map(|key| key.mask(DropoutSite::Projection(at.place.layer, projection), self.dropout));
        let x = mask.map_or_else(|| x.clone(), |mask| mask.apply(x.clone()));
        // The smaller product is scaled.
        Some((x.matmul(lora_a.val()) * self.factor).matmul(lora_b.val()))
    }

    /// Dropout goes by a row's number.
    fn is_row_wise(&self) -> bool {
        self.dropout == 0.0
    }
}
