//! What may be trained beside what a method inserts.

use crate::{Key, Method, MethodError, NetworkShape, Role, TopLayers};

/// LayerNorms and the highest layers, trained together with something inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Also {
    /// Every LayerNorm.
    pub layer_norm: bool,
    /// So many of the highest layers.
    pub top_layers: usize,
}

impl Also {
    /// The key `layer_norm`.
    pub const LAYER_NORM: Key = Key::new("layer_norm", "BOOL", "Whether every LayerNorm is trained, too");
    /// The key `top_layers`.
    pub const TOP_LAYERS: Key = Key::new("top_layers", "K", "How many of the highest layers are trained, too");

    /// Refuses more layers than there are.
    ///
    /// # Errors
    /// As said.
    pub fn check(self, network: &NetworkShape) -> Result<(), MethodError> {
        if self.top_layers > network.layers {
            let reason = format!("top_layers {}: the backbone has {} layers", self.top_layers, network.layers);
            return Err(MethodError::TooLarge(reason));
        }
        Ok(())
    }

    /// Whether a tensor of the backbone is trained.
    pub fn trains(self, role: Role, network: &NetworkShape) -> bool {
        let top = || self.top_layers > 0 && TopLayers::new(self.top_layers).trains(role, network);
        (self.layer_norm && role.kind.is_norm()) || top()
    }

    /// What these tensors are called in a count.
    pub fn group(self) -> &'static str {
        if self.top_layers > 0 { "top_layers" } else { "layer_norms" }
    }
}
