//! Full fine-tuning.

use serde::{Deserialize, Serialize};

use crate::{Method, NetworkShape, NoInsertion, Role};

/// Trains the whole backbone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullFineTuning {}

impl Method for FullFineTuning {
    type Insertion = NoInsertion;
    const NAME: &'static str = "full";
    const ABOUT: &'static str = "the whole backbone";

    fn trains(&self, _: Role, _: &NetworkShape) -> bool {
        true
    }

    fn label(&self) -> String {
        "full fine-tuning".to_owned()
    }
}
