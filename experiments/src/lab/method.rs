//! Methods with their types erased.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use adapter_core::{Init, Key, Method, MethodError, MethodInfo, NetworkShape, ParamCount, Place, Role, Site, TaskFile};
use analysis::MethodRecord;
use anyhow::Result;
use bert_backbone::{Backbone, Bert};
use burn::{module::Module, tensor::Device};
use serde_json::Value;
use tasks::{Head, Heads, TaskModel};

use super::{AnyModel, Keys, model::Tuned};
use crate::device::cpu;

/// A kind of method, before its configuration.
pub trait MethodKind: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What it trains.
    fn about(&self) -> &'static str;
    /// Its keys as help shows them.
    fn keys(&self) -> &'static [Key];
    /// The key that says how large it is.
    fn size_key(&self) -> Option<&'static str>;
    /// Keys that a run's configuration leaves out while they have their defaults.
    fn later_keys(&self) -> &'static [&'static str];
    /// Whether its configuration has keys at all, or none because there are none.
    fn is_object(&self) -> bool;
    /// Its keys with their defaults.
    fn defaults(&self) -> Keys;
    /// The values that `key = "all"` stands for.
    fn all(&self, key: &str, network: &NetworkShape) -> Vec<Value>;
    /// The method with these keys; those that are not given have their defaults.
    ///
    /// # Errors
    /// If a key is not its own, or a value of the wrong type.
    fn configure(&self, keys: Keys) -> Result<Box<dyn AnyMethod>>;
}

/// A method with its configuration.
pub trait AnyMethod: fmt::Debug + Send + Sync {
    /// Its name and configuration.
    fn info(&self) -> MethodInfo;
    /// What figures and tables ask about it.
    fn record(&self) -> MethodRecord;
    /// Refuses a configuration that makes no sense on a network of this shape.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, network: &NetworkShape) -> Result<(), MethodError>;
    /// Whether it inserts anything into a network of this shape.
    fn inserts(&self, network: &NetworkShape) -> bool;
    /// Keys of a run that follow from its configuration.
    fn run_keys(&self) -> Keys;
    /// Whether it trains a tensor with this role.
    fn trains(&self, role: Role, network: &NetworkShape) -> bool;
    /// Whether no second device can take a share of a batch.
    fn needs_whole_batches(&self) -> bool;
    /// The parameters of what it would make of `bert`. Nothing is initialised.
    ///
    /// # Errors
    /// If it does not fit the network.
    fn count(&self, bert: Bert, head: Head, init: Init, device: &Device) -> Result<ParamCount>;
    /// What it makes of `bert`, with a new head. Only what it trains requires gradients.
    ///
    /// # Errors
    /// If it does not fit the network.
    fn build(&self, bert: Bert, head: Head, init: Init, device: &Device) -> Result<Box<dyn AnyModel>>;
    /// The model of a task file.
    ///
    /// # Errors
    /// If the file was trained on another backbone or contradicts itself.
    fn load(&self, backbone: &Backbone, file: TaskFile, heads: &Heads, device: &Device) -> Result<Box<dyn AnyModel>>;
}

/// The kind of a method's type.
pub(super) struct KindOf<M>(PhantomData<fn() -> M>);

impl<M: Method> KindOf<M> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<M: Method> MethodKind for KindOf<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn about(&self) -> &'static str {
        M::ABOUT
    }

    fn keys(&self) -> &'static [Key] {
        M::KEYS
    }

    fn size_key(&self) -> Option<&'static str> {
        M::SIZE_KEY
    }

    fn later_keys(&self) -> &'static [&'static str] {
        M::LATER_KEYS
    }

    fn is_object(&self) -> bool {
        serde_json::to_value(M::default()).is_ok_and(|config| config.is_object())
    }

    fn defaults(&self) -> Keys {
        M::default().info().config
    }

    fn all(&self, key: &str, network: &NetworkShape) -> Vec<Value> {
        M::all(key, network)
    }

    fn configure(&self, keys: Keys) -> Result<Box<dyn AnyMethod>> {
        let mut config = self.defaults();
        config.extend(keys);
        Ok(Box::new(Configured(serde_json::from_value::<M>(Value::Object(config))?)))
    }
}

#[derive(Debug)]
struct Configured<M>(M);

impl<M: Method> AnyMethod for Configured<M> {
    fn info(&self) -> MethodInfo {
        self.0.info()
    }

    fn record(&self) -> MethodRecord {
        let (config, defaults) = (self.0.info().config, M::default().info().config);
        let differs = |(key, value): &(String, Value)| M::SIZE_KEY != Some(key) && defaults.get(key) != Some(value);
        MethodRecord {
            name: M::NAME.to_owned(),
            label: self.0.label(),
            size: self.0.size(),
            size_key: M::SIZE_KEY.map(str::to_owned),
            family: M::family(),
            variant: config.into_iter().filter(differs).collect::<BTreeMap<_, _>>(),
        }
    }

    fn check(&self, network: &NetworkShape) -> Result<(), MethodError> {
        self.0.check(network)
    }

    fn inserts(&self, network: &NetworkShape) -> bool {
        let places = (0..network.layers).flat_map(|layer| Site::ALL.map(|site| Place::new(layer, site)));
        let (init, device) = (Init::new(0), cpu());
        places.into_iter().any(|place| self.0.insertion(place, network, init, &device).is_some())
    }

    fn run_keys(&self) -> Keys {
        self.0.run_keys()
    }

    fn trains(&self, role: Role, network: &NetworkShape) -> bool {
        self.0.trains(role, network)
    }

    fn needs_whole_batches(&self) -> bool {
        self.0.needs_whole_batches()
    }

    fn count(&self, bert: Bert, head: Head, init: Init, device: &Device) -> Result<ParamCount> {
        Ok(ParamCount::of(&TaskModel::tuned(&self.0, bert, head, init, device)?, &self.0))
    }

    fn build(&self, bert: Bert, head: Head, init: Init, device: &Device) -> Result<Box<dyn AnyModel>> {
        let model = TaskModel::tuned(&self.0, bert, head, init, device)?;
        let selection = self.0.select(&model);
        let model = selection.apply(model);
        Ok(Box::new(Tuned { method: self.0.clone(), model, selection }))
    }

    fn load(&self, backbone: &Backbone, file: TaskFile, heads: &Heads, device: &Device) -> Result<Box<dyn AnyModel>> {
        // A loaded model computes; it does not train. On a device with gradients it would pay for a graph that nobody walks back.
        let model = TaskModel::load(&self.0, backbone, file, heads, device)?.valid();
        let selection = self.0.select(&model);
        Ok(Box::new(Tuned { method: self.0.clone(), model, selection }))
    }
}
