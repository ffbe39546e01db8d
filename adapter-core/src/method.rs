//! A method: what is trained for a task, what is inserted for it, and how that starts.

use std::fmt;

use burn::tensor::Device;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Init, Insertion, NetworkShape, Place, Role, Selection, Tunable};

/// A way of tuning a frozen network for a task. The struct is its configuration: every field is a key of experiment files, a
/// flag and a key of `--set`.
///
/// ```
/// use adapter_core::{Key, Kind, Method, NetworkShape, NoInsertion, Role};
/// use serde::{Deserialize, Serialize};
///
/// /// Trains the matrices of every `step`-th layer, and inserts nothing.
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// struct Sparse { step: usize }
///
/// impl Default for Sparse {
///     fn default() -> Self {
///         Self { step: 2 }
///     }
/// }
///
/// impl Method for Sparse {
///     type Insertion = NoInsertion;
///     const NAME: &'static str = "sparse";
///     const ABOUT: &'static str = "matrices of every n-th layer";
///     const KEYS: &'static [Key] = &[Key::new("step", "N", "Train every N-th layer")];
///
///     fn trains(&self, role: Role, _: &NetworkShape) -> bool {
///         role.kind == Kind::Weight && matches!(role.part, adapter_core::Part::Layer(n) if n % self.step == 0)
///     }
/// }
///
/// assert_eq!(Sparse::default().info().config["step"], 2);
/// ```
pub trait Method:
    Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// What it puts behind the sub-layers; [`NoInsertion`](crate::NoInsertion) if nothing.
    type Insertion: Insertion;

    /// The value of `tuning` that stands for it.
    const NAME: &'static str;
    /// What it trains, in a few words.
    const ABOUT: &'static str;
    /// Its keys as help shows them; a field that is not listed is a key too.
    const KEYS: &'static [Key] = &[];
    /// The key that says how large it is: its place on a trade-off curve.
    const SIZE_KEY: Option<&'static str> = None;
    /// Keys that it has only since runs were published: a run's configuration, and so its id, leaves them out while they have
    /// their defaults.
    const LATER_KEYS: &'static [&'static str] = &[];

    /// Refuses a configuration that makes no sense on a network of this shape.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    fn check(&self, _network: &NetworkShape) -> Result<(), MethodError> {
        Ok(())
    }

    /// What stands at `place`, or `None` where nothing does. Its values should depend on `init` and the place alone.
    fn insertion(
        &self,
        _place: Place,
        _network: &NetworkShape,
        _init: Init,
        _device: &Device,
    ) -> Option<Self::Insertion> {
        None
    }

    /// Whether it trains a tensor with this role: by default what it inserts. The head is always trained; running statistics
    /// and a pooler that no head reads never are.
    fn trains(&self, role: Role, _network: &NetworkShape) -> bool {
        role.inserted
    }

    /// Keys of a run that follow from its configuration, such as the head that it needs. A run that says otherwise is refused.
    fn run_keys(&self) -> Map<String, Value> {
        Map::new()
    }

    /// What the trained tensors of the backbone are called in a count of parameters.
    fn group(&self) -> &'static str {
        "backbone"
    }

    /// What it is called in a figure.
    fn label(&self) -> String {
        self.size().map_or_else(|| Self::NAME.to_owned(), |size| format!("{} {size}", Self::NAME))
    }

    /// What a series over its sizes is called.
    fn family() -> String {
        match Self::SIZE_KEY {
            Some(key) => format!("{} (by {})", Self::NAME, key.replace('_', " ")),
            None => Self::default().label(),
        }
    }

    /// Its size on a trade-off curve: the value of [`SIZE_KEY`](Self::SIZE_KEY).
    fn size(&self) -> Option<f64> {
        self.info().config.get(Self::SIZE_KEY?)?.as_f64()
    }

    /// The values that `key = "all"` stands for on a network of this shape; none where that means nothing.
    fn all(_key: &str, _network: &NetworkShape) -> Vec<Value> {
        Vec::new()
    }

    /// Whether it needs the whole batch in one place, so that no second device can take a share.
    fn needs_whole_batches(&self) -> bool {
        false
    }

    /// Its name and configuration, as files keep them.
    fn info(&self) -> MethodInfo {
        let config = match serde_json::to_value(self) {
            Ok(Value::Object(config)) => config,
            _ => Map::new(),
        };
        MethodInfo { name: Self::NAME.to_owned(), config }
    }

    /// The tensors of `model` that it trains.
    fn select<T: Tunable>(&self, model: &T) -> Selection {
        let network = model.network();
        Selection::of(model, |role| self.trains(role, &network))
    }
}

/// A key of a configuration, as help shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name, in snake case.
    pub name: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it decides.
    pub about: &'static str,
}

impl Key {
    /// A key.
    pub const fn new(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, value, about }
    }
}

/// A method's name and configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodInfo {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub config: Map<String, Value>,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// It makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// The network is too small for it. A grid leaves such a point out.
    #[error("{0}")]
    TooLarge(String),
}

impl MethodError {
    /// It makes no sense, for this reason.
    pub fn wrong(reason: impl Into<String>) -> Self {
        Self::Wrong(reason.into())
    }
}
