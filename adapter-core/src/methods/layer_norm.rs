//! LayerNorm-only tuning (§3.4).

use serde::{Deserialize, Serialize};

use crate::{Method, NetworkShape, NoInsertion, Role};

/// Trains every LayerNorm's scale and shift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNormOnly {}

impl Method for LayerNormOnly {
    type Insertion = NoInsertion;
    const NAME: &'static str = "layer-norm";
    const ABOUT: &'static str = "every LayerNorm";

    fn trains(&self, role: Role, _: &NetworkShape) -> bool {
        role.kind.is_norm()
    }

    fn group(&self) -> &'static str {
        "layer_norms"
    }

    fn label(&self) -> String {
        "LayerNorm only".to_owned()
    }
}
