//! Bias-only tuning.

use serde::{Deserialize, Serialize};

use crate::{Kind, Method, NetworkShape, NoInsertion, Role};

/// Trains every bias, the LayerNorms' shifts included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BiasOnly {}

impl Method for BiasOnly {
    type Insertion = NoInsertion;
    const NAME: &'static str = "bias";
    const ABOUT: &'static str = "every bias";

    fn trains(&self, role: Role, _: &NetworkShape) -> bool {
        matches!(role.kind, Kind::Bias | Kind::NormShift)
    }

    fn group(&self) -> &'static str {
        "biases"
    }

    fn label(&self) -> String {
        "biases only".to_owned()
    }
}
