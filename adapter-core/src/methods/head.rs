//! The head alone.

use serde::{Deserialize, Serialize};

use crate::{Method, NetworkShape, NoInsertion, Role};

/// Trains nothing but the head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadOnly {}

impl Method for HeadOnly {
    type Insertion = NoInsertion;
    const NAME: &'static str = "head";
    const ABOUT: &'static str = "nothing but the head";

    fn trains(&self, _: Role, _: &NetworkShape) -> bool {
        false
    }

    fn label(&self) -> String {
        "head only".to_owned()
    }
}
