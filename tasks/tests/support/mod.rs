//! The built-in methods as values, for tables of cases.

#![allow(dead_code)] // each test takes what it needs

use adapter_core::{
    Adapter, AdapterConfig, BiasOnly, FullFineTuning, HeadOnly, LayerNormOnly, Method, MethodInfo, ParamCount,
    Selection, TaskFile, TopLayers, Tunable,
};
use bert_backbone::Backbone;
use burn::tensor::Device;
use tasks::{Heads, ModelError, TaskModel};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuning {
    Adapters,
    Full,
    TopLayers(usize),
    LayerNorm,
    Head,
    Bias,
}

/// Calls `$f` with the method that `$tuning` stands for.
macro_rules! with_method {
    ($tuning:expr, $adapter:expr, $method:ident => $f:expr) => {
        match $tuning {
            Tuning::Adapters => {
                let $method = $adapter;
                $f
            }
            Tuning::Full => {
                let $method = FullFineTuning {};
                $f
            }
            Tuning::TopLayers(k) => {
                let $method = TopLayers::new(k);
                $f
            }
            Tuning::LayerNorm => {
                let $method = LayerNormOnly {};
                $f
            }
            Tuning::Head => {
                let $method = HeadOnly {};
                $f
            }
            Tuning::Bias => {
                let $method = BiasOnly {};
                $f
            }
        }
    };
}

impl Tuning {
    pub fn select<T: Tunable>(self, model: &T) -> Selection {
        with_method!(self, AdapterConfig::default(), method => method.select(model))
    }

    pub fn count<T: Tunable>(self, model: &T) -> ParamCount {
        with_method!(self, AdapterConfig::default(), method => ParamCount::of(model, &method))
    }

    pub fn info(self, adapter: &AdapterConfig) -> MethodInfo {
        with_method!(self, adapter.clone(), method => method.info())
    }

    /// The model of a file, as one that could have adapters.
    pub fn load(
        self,
        adapter: &AdapterConfig,
        backbone: &Backbone,
        file: TaskFile,
    ) -> Result<TaskModel<Option<Adapter>>, ModelError> {
        let (device, heads) = (Device::flex(), Heads::default());
        if self == Tuning::Adapters {
            return TaskModel::load(adapter, backbone, file, &heads, &device);
        }
        with_method!(self, HeadOnly {}, method => {
            let model = TaskModel::load(&method, backbone, file, &heads, &device)?;
            Ok(model.map_insertions(|_, _| None::<Adapter>))
        })
    }
}
