//! The paper's variable fine-tuning: the highest layers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Key, Method, MethodError, NetworkShape, NoInsertion, Part, Role};

/// Trains the `k` highest layers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopLayers {
    /// How many layers; there is no default but 0, which trains none and is refused.
    pub k: usize,
}

impl TopLayers {
    /// The `k` highest layers.
    pub fn new(k: usize) -> Self {
        Self { k }
    }
}

impl Method for TopLayers {
    type Insertion = NoInsertion;
    const NAME: &'static str = "top-k";
    const ABOUT: &'static str = "the k highest layers";
    const KEYS: &'static [Key] =
        &[Key::new("k", "K", "Number of top layers [needed]; \"all\" in a grid is every number of them")];
    const SIZE_KEY: Option<&'static str> = Some("k");

    fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
        let (k, layers) = (self.k, network.layers);
        match k {
            0 => Err(MethodError::wrong(format!("`top-k` needs k: a number from 1 to {layers}"))),
            _ if k > layers => Err(MethodError::TooLarge(format!("k {k}: the backbone has {layers} layers"))),
            _ => Ok(()),
        }
    }

    fn trains(&self, role: Role, network: &NetworkShape) -> bool {
        match role.part {
            Part::Layer(layer) => layer + self.k >= network.layers,
            // A pooler that is read stands above the highest layer.
            Part::Pooler { .. } => true,
            Part::Embeddings | Part::Head => false,
        }
    }

    fn group(&self) -> &'static str {
        "top_layers"
    }

    fn label(&self) -> String {
        format!("top {}", self.k)
    }

    fn family() -> String {
        "top layers (by k)".to_owned()
    }

    fn all(key: &str, network: &NetworkShape) -> Vec<Value> {
        if key == "k" { (1..=network.layers).map(Value::from).collect() } else { Vec::new() }
    }
}
