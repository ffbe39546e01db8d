//! Feature-based transfer, which the paper argues against (§1).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Key, Method, NetworkShape, NoInsertion, Role};

/// The frozen network describes each text once, and a small network learns from that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Features {
    /// How a text is described.
    pub pool: Pool,
}

/// A text's description by a frozen network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// The last layer's `[CLS]` token.
    #[default]
    Cls,
    /// The mean of the last layer's tokens.
    Mean,
    /// A learnt mix of the means of every layer.
    Mix,
}

impl Method for Features {
    type Insertion = NoInsertion;
    const NAME: &'static str = "features";
    const ABOUT: &'static str = "a small network on the frozen backbone's output, computed once";
    const KEYS: &'static [Key] = &[Key::new(
        "pool",
        "NAME",
        "How a text is described: by its [CLS] token (cls), the mean of its tokens (mean), or a learnt mix of all layers (mix)",
    )];

    fn trains(&self, _: Role, _: &NetworkShape) -> bool {
        false
    }

    fn run_keys(&self) -> Map<String, Value> {
        let head = match self.pool {
            Pool::Cls => "mlp",
            Pool::Mean => "mean-mlp",
            Pool::Mix => "mix-mlp",
        };
        Map::from_iter([("head".to_owned(), head.into()), ("cache_prefix".to_owned(), true.into())])
    }
}
