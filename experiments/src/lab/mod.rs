//! What a program has: methods, tasks, heads, metrics, optimisers, presets, figures. `adapter-lab` is the lab with the paper
//! in it; a program of yours adds its own.
//!
//! Burn's modules cannot be boxed, so a method's type is erased one level higher: an [`AnyMethod`] is a method with its
//! configuration, an [`AnyModel`] what it makes of a backbone, and what is done with a run (count, train, evaluate, predict,
//! ablate) are calls on these.

mod ablation;
mod method;
mod model;
mod trace;

use std::{collections::BTreeMap, sync::Arc};

use adapter_core::{
    AdapterConfig, BiasOnly, Features, FullFineTuning, HeadOnly, Ia3, Key, LayerNormOnly, Lora, Method, MethodInfo,
    ParallelAdapters, Pfeiffer, TaskFile, TopLayers,
};
use analysis::{Exhibit, paper_exhibits};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::Backbone;
use burn::tensor::Device;
use serde_json::{Map, Value};
use tasks::{HeadKind, Heads, Metric, Metrics, Task, Tasks, nearest};

pub use ablation::Ablation;
pub use method::{AnyMethod, MethodKind};
pub use model::{AnyModel, Inference};
pub use trace::{Parts, Traces};

use crate::train::{Adam, Optimizer, OptimizerConfig};
use method::KindOf;

/// Keys with their values; a list stands for a run with each of its values.
pub type Keys = Map<String, Value>;

/// Everything that a program has by name.
///
/// ```no_run
/// # use adapter_core::HeadOnly as MyMethod;
/// use experiments::Lab;
///
/// fn main() -> std::process::ExitCode {
///     experiments::main(Lab::paper().method::<MyMethod>())
/// }
/// ```
pub struct Lab {
    methods: Vec<Box<dyn MethodKind>>,
    optimizers: Vec<OptimizerKind>,
    /// Tasks by name.
    pub tasks: Tasks,
    /// Kinds of heads by name.
    pub heads: Heads,
    /// Metrics by name.
    pub metrics: Metrics,
    presets: Vec<Preset>,
    exhibits: Vec<Exhibit>,
    /// What could not be added, and why.
    problems: Vec<String>,
}

/// An experiment that comes with the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its file.
    pub text: String,
    /// Whether `reproduce` runs it without being asked.
    pub is_reproduced: bool,
}

/// A kind of optimiser, its type erased.
struct OptimizerKind {
    name: &'static str,
    keys: &'static [Key],
    defaults: Keys,
    configure: fn(Keys) -> Result<Box<dyn Optimizer>>,
}

impl Default for Lab {
    fn default() -> Self {
        Self::paper()
    }
}

impl Lab {
    /// The paper: its methods, tasks, metrics, experiments and figures.
    pub fn paper() -> Self {
        let empty = Self {
            methods: Vec::new(),
            optimizers: Vec::new(),
            tasks: Tasks::paper(),
            heads: Heads::default(),
            metrics: Metrics::default(),
            presets: Vec::new(),
            exhibits: paper_exhibits(),
            problems: Vec::new(),
        };
        let lab = empty
            .method::<AdapterConfig>()
            .method::<FullFineTuning>()
            .method::<TopLayers>()
            .method::<LayerNormOnly>()
            .method::<HeadOnly>()
            .method::<BiasOnly>()
            .method::<Pfeiffer>()
            .method::<ParallelAdapters>()
            .method::<Lora>()
            .method::<Ia3>()
            .method::<Features>()
            .optimizer::<Adam>();
        let lab = PRESETS.iter().fold(lab, |lab, (name, text)| lab.preset(name, text));
        let mut lab = BEYOND.iter().fold(lab, |lab, (name, text)| lab.preset(name, text));
        for preset in lab.presets.iter_mut().filter(|preset| BEYOND.iter().any(|(name, _)| preset.name == *name)) {
            preset.is_reproduced = false;
        }
        lab
    }

    /// Adds a method. Its fields become keys of files, flags and `--set`.
    pub fn method<M: Method>(mut self) -> Self {
        let taken = self.methods.iter().any(|known| known.name() == M::NAME);
        self.add(taken, format!("two methods are called `{}`", M::NAME));
        self.methods.push(Box::new(KindOf::<M>::new()));
        self
    }

    /// The head that a method has where nobody names one: its own, or the paper's.
    ///
    /// # Errors
    /// If the method names a head that is not there.
    pub fn usual_head(&self, method: &dyn AnyMethod) -> Result<Arc<dyn HeadKind>> {
        let own = method.run_keys().get("head").and_then(Value::as_str).map(str::to_owned);
        Ok(self.heads.find(own.as_deref().unwrap_or("cls"))?)
    }

    /// Adds an optimiser, a value of the key `optimizer`.
    pub fn optimizer<O: OptimizerConfig>(mut self) -> Self {
        let taken = self.optimizers.iter().any(|known| known.name == O::NAME);
        self.add(taken, format!("two optimisers are called `{}`", O::NAME));
        let defaults = match serde_json::to_value(O::default()) {
            Ok(Value::Object(keys)) => keys,
            _ => Keys::new(),
        };
        let configure = |keys: Keys| -> Result<Box<dyn Optimizer>> {
            let optimizer: O = serde_json::from_value(Value::Object(keys))?;
            optimizer.check().map_err(anyhow::Error::msg)?;
            Ok(Box::new(optimizer))
        };
        self.optimizers.push(OptimizerKind { name: O::NAME, keys: O::KEYS, defaults, configure });
        self
    }

    /// Adds a task.
    pub fn task(mut self, task: Task) -> Self {
        let added = self.tasks.add(task);
        self.problems.extend(added.err().map(|error| error.to_string()));
        self
    }

    /// Adds a kind of head, a value of the key `head`.
    pub fn head(mut self, head: impl HeadKind + 'static) -> Self {
        let taken = self.heads.names().iter().any(|known| known == head.name());
        self.add(taken, format!("two heads are called `{}`", head.name()));
        self.heads.add(head);
        self
    }

    /// Adds a metric, a value of the key `metric`. It is computed for every task of its kind.
    pub fn metric(mut self, metric: Metric) -> Self {
        let added = self.metrics.add(metric);
        self.problems.extend(added.err().map(|error| error.to_string()));
        self
    }

    /// Adds an experiment, in the form of an experiment file.
    pub fn preset(mut self, name: &str, text: &str) -> Self {
        let taken = self.presets.iter().any(|known| known.name == name);
        self.add(taken, format!("two presets are called `{name}`"));
        self.presets.push(Preset { name: name.to_owned(), text: text.to_owned(), is_reproduced: true });
        self
    }

    /// Adds a figure or a table to the report.
    pub fn exhibit(mut self, exhibit: Exhibit) -> Self {
        let taken = self.exhibits.iter().any(|known| known.name() == exhibit.name());
        self.add(taken, format!("two figures or tables are called `{}`", exhibit.name()));
        self.add(exhibit.has_reserved_name(), format!("`{}` is a part of every report", exhibit.name()));
        self.exhibits.push(exhibit);
        self
    }

    fn add(&mut self, taken: bool, problem: String) {
        if taken {
            self.problems.push(problem);
        }
    }

    /// Refuses a lab in which names clash.
    ///
    /// # Errors
    /// Which names, and with what.
    pub fn check(&self, general: &[&str]) -> Result<()> {
        ensure!(self.problems.is_empty(), "{}", self.problems.join("; "));
        let methods = self.methods.iter().map(|method| (method.name(), method.defaults()));
        let optimizers = self.optimizers.iter().map(|optimizer| (optimizer.name, optimizer.defaults.clone()));
        for (name, key) in methods
            .clone()
            .chain(optimizers.clone())
            .flat_map(|(name, keys)| keys.into_iter().map(move |(key, _)| (name, key)).collect::<Vec<_>>())
        {
            let clashes = [&RESERVED[..], &PARTS].concat().contains(&key.as_str()) || general.contains(&key.as_str());
            ensure!(
                !clashes,
                "the key `{key}` of `{name}` means something else already; call the field something else"
            );
        }
        for method in self.methods() {
            let (name, defaults) = (method.name(), method.defaults());
            let named = method.keys().iter().map(|key| key.name).chain(method.size_key());
            for key in named {
                ensure!(defaults.contains_key(key), "`{name}` names the key `{key}`, which is no field of it");
            }
            ensure!(method.is_object(), "the configuration of `{name}` must be a struct with named fields");
        }
        for (method, keys) in methods {
            for (optimizer, others) in optimizers.clone() {
                let shared = keys.keys().find(|key| others.contains_key(*key));
                if let Some(key) = shared {
                    bail!("`{method}` and `{optimizer}` both have a key `{key}`; call one of them something else");
                }
            }
        }
        Ok(())
    }

    /// All methods.
    pub fn methods(&self) -> impl Iterator<Item = &dyn MethodKind> {
        self.methods.iter().map(|method| &**method)
    }

    /// The method that stands where none is named: the first one.
    pub fn default_method(&self) -> &str {
        self.methods.first().map_or("", |method| method.name())
    }

    /// The method called `name`.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn find_method(&self, name: &str) -> Result<&dyn MethodKind> {
        let known: Vec<&str> = self.methods().map(MethodKind::name).collect();
        self.methods().find(|method| method.name() == name).with_context(|| unknown("tuning", name, &known))
    }

    /// The method that a file or a run names, with its configuration.
    ///
    /// # Errors
    /// If this program does not have it, or the configuration is none of its own.
    pub fn configure(&self, info: &MethodInfo) -> Result<Box<dyn AnyMethod>> {
        let known: Vec<&str> = self.methods().map(MethodKind::name).collect();
        let Some(kind) = self.methods().find(|method| method.name() == info.name) else {
            bail!(
                "it was made by the method `{}`, which this program does not have (it has {})",
                info.name,
                known.join(", ")
            );
        };
        kind.configure(info.config.clone()).with_context(|| format!("method `{}`", info.name))
    }

    /// The optimiser called `name`, with those of `keys` that are its own.
    ///
    /// # Errors
    /// If there is none, or a value makes no sense.
    pub fn configure_optimizer(&self, name: &str, keys: &Keys) -> Result<Box<dyn Optimizer>> {
        let kind = self.find_optimizer(name)?;
        let own = keys.iter().filter(|(key, _)| kind.defaults.contains_key(*key));
        (kind.configure)(own.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn find_optimizer(&self, name: &str) -> Result<&OptimizerKind> {
        let known: Vec<&str> = self.optimizers.iter().map(|optimizer| optimizer.name).collect();
        let found = self.optimizers.iter().find(|optimizer| optimizer.name == name);
        found.with_context(|| unknown("optimizer", name, &known))
    }

    /// The keys of the optimiser called `name`, with their defaults.
    ///
    /// # Errors
    /// If there is none.
    pub fn optimizer_defaults(&self, name: &str) -> Result<&Keys> {
        Ok(&self.find_optimizer(name)?.defaults)
    }

    /// Keys of all methods and optimisers: each with whoever has it, and what help says of it.
    pub fn own_keys(&self) -> BTreeMap<String, OwnKey> {
        let mut all: BTreeMap<String, OwnKey> = BTreeMap::new();
        let methods = self.methods.iter().map(|method| (method.name(), method.defaults(), method.keys()));
        let optimizers = self.optimizers.iter().map(|kind| (kind.name, kind.defaults.clone(), kind.keys));
        for (owner, defaults, help) in methods.chain(optimizers) {
            for (name, default) in defaults {
                let key = all.entry(name.clone()).or_default();
                key.owners.push(owner);
                key.defaults.push(default);
                key.help = key.help.or(help.iter().find(|key| key.name == name).copied());
            }
        }
        all
    }

    /// What adds to the configuration in a record what it leaves out: keys that its method got later, at their defaults.
    pub fn complete(&self) -> impl Fn(&mut Keys) + use<> {
        let later = |method: &dyn MethodKind| {
            let mut defaults = method.defaults();
            defaults.retain(|key, _| method.later_keys().contains(&key.as_str()));
            (method.name(), defaults)
        };
        // Looked up once: there may be very many runs.
        let later: BTreeMap<&str, Keys> = self.methods().map(later).collect();
        move |config| {
            let tuning = config.get("tuning").and_then(Value::as_str);
            for (key, default) in tuning.and_then(|name| later.get(name)).into_iter().flatten() {
                if !config.contains_key(key) {
                    config.insert(key.clone(), default.clone());
                }
            }
        }
    }

    /// All presets, in the order in which they were added.
    pub fn presets(&self) -> &[Preset] {
        &self.presets
    }

    /// Figures and tables of the report.
    pub fn exhibits(&self) -> &[Exhibit] {
        &self.exhibits
    }

    /// The model of a task file, on its backbone.
    ///
    /// # Errors
    /// If this program does not have its method or head, or it was trained on another backbone.
    pub fn load(&self, backbone: &Backbone, file: TaskFile, device: &Device) -> Result<Box<dyn AnyModel>> {
        self.configure(&file.info.method)?.load(backbone, file, &self.heads, device)
    }
}

/// Names with a meaning of their own in experiment files, records or the environment.
const RESERVED: [&str; 13] = [
    "files",
    "about",
    "kind",
    "series",
    "by_task",
    "slurm",
    "data",
    "cache",
    "device",
    "pip",
    "npm",
    "mirror",
    "stale_after",
];

/// The parts of an experiment file that apply at some scales only, in the order in which a later one wins.
pub(crate) const PARTS: [&str; 4] = ["quick", "synthetic", "desk", "wide"];

/// A key of a method or an optimiser.
#[derive(Clone, Debug, Default)]
pub struct OwnKey {
    /// Who has it.
    pub owners: Vec<&'static str>,
    /// The default of each.
    pub defaults: Vec<Value>,
    /// What help says of it.
    pub help: Option<Key>,
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("unknown {what} `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown {what} `{name}`; known are {}", known.join(", ")),
    }
}

/// Experiments that the paper does not have.
const BEYOND: [(&str, &str); 1] = [("methods", include_str!("../../presets/methods.toml"))];

/// The paper's experiments, by name.
const PRESETS: [(&str, &str); 12] = [
    ("table1", include_str!("../../presets/table1.toml")),
    ("table2", include_str!("../../presets/table2.toml")),
    ("baseline", include_str!("../../presets/baseline.toml")),
    ("fig3", include_str!("../../presets/fig3.toml")),
    ("fig4", include_str!("../../presets/fig4.toml")),
    ("fig5", include_str!("../../presets/fig5.toml")),
    ("fig6-spans", include_str!("../../presets/fig6-spans.toml")),
    ("fig6-init", include_str!("../../presets/fig6-init.toml")),
    ("fig7", include_str!("../../presets/fig7.toml")),
    ("sizes", include_str!("../../presets/sizes.toml")),
    ("variants", include_str!("../../presets/variants.toml")),
    ("stream", include_str!("../../presets/stream.toml")),
];
