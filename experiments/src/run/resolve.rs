//! From keys to a configuration that has no optional meaning left.

use std::collections::BTreeMap;

use adapter_core::{Kind, Part, Role};
use anyhow::{Context, Result, anyhow, bail, ensure};
use bert_backbone::BertConfig;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tasks::{TaskKind, WindowConfig, nearest};

use super::{FileOptions, Layers, RunConfig, is_no_limit, is_own_data, keys::FILE_KEYS, merge};
use crate::{
    lab::{Keys, Lab},
    train::TrainConfig,
};

/// Profiles by name: keys that stand where nothing else is said.
const PROFILES: [(&str, &str); 2] = [("paper", ""), ("adapter-bert", include_str!("../../profiles/adapter-bert.toml"))];

/// The keys of the profile called `name`.
fn profile(name: &str) -> Result<Keys> {
    let known = PROFILES.map(|(name, _)| name);
    let Some((_, text)) = PROFILES.iter().find(|(known, _)| *known == name) else {
        match nearest(name, known) {
            Some(nearest) => bail!("unknown profile `{name}`; did you mean `{nearest}`?"),
            None => bail!("unknown profile `{name}`; known are {}", known.join(", ")),
        }
    };
    Layers::parse(text).with_context(|| format!("profile `{name}`"))
}

/// Keys of every run that are no part of its training.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct General {
    task: Option<String>,
    backbone: Option<String>,
    tuning: Option<String>,
    profile: String,
    head: String,
    head_dropout: f64,
    optimizer: String,
    max_length: Option<usize>,
    limit: Option<usize>,
    limit_seed: u64,
    limit_validation: Option<usize>,
    metric: Option<String>,
    cache_prefix: bool,
}

impl Default for General {
    fn default() -> Self {
        Self {
            task: None,
            backbone: None,
            tuning: None,
            profile: "paper".to_owned(),
            head: "cls".to_owned(),
            head_dropout: 0.0,
            optimizer: "adam".to_owned(),
            max_length: None,
            limit: None,
            limit_seed: 0,
            limit_validation: None,
            metric: None,
            cache_prefix: false,
        }
    }
}

impl General {
    const KEYS: [&'static str; 13] = [
        "task",
        "backbone",
        "tuning",
        "profile",
        "head",
        "head_dropout",
        "optimizer",
        "max_length",
        "limit",
        "limit_seed",
        "limit_validation",
        "metric",
        "cache_prefix",
    ];
}

/// The keys of `keys` that are called so.
fn only(keys: &Keys, wanted: impl Fn(&str) -> bool) -> Keys {
    keys.iter().filter(|(key, _)| wanted(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Reads keys as `T`; an error names the key.
pub(crate) fn read_keys<T: DeserializeOwned>(keys: Keys) -> Result<T> {
    for (key, value) in &keys {
        let alone = Keys::from_iter([(key.clone(), value.clone())]);
        let read: serde_json::Result<T> = serde_json::from_value(Value::Object(alone));
        read.map_err(|error| anyhow!("{key} = {value}: {}", in_plain_words(&error.to_string())))?;
    }
    Ok(serde_json::from_value(Value::Object(keys))?)
}

/// A message without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    let is_negative = message.contains("integer `-");
    let words = message.split(' ').map(|word| match word {
        "usize" | "u64" | "u32" if is_negative => "0 or more",
        "usize" | "u64" | "u32" | "i64" => "a whole number",
        "f64" | "f32" => "a number",
        "sequence" => "list",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What `keys` come to with the profile below them, the defaults of the method and of the optimiser included.
///
/// # Errors
/// If a method, an optimiser or a profile is not there.
pub fn effective_keys(lab: &Lab, keys: &Keys) -> Result<Keys> {
    let name = |key: &str, usual: &str| keys.get(key).and_then(Value::as_str).unwrap_or(usual).to_owned();
    let mut all = profile(&name("profile", "paper"))?;
    all.extend(keys.clone());
    all.retain(|key, value| !is_no_limit(key, value));
    let named = |all: &Keys, key: &str, usual: &str| all.get(key).and_then(Value::as_str).unwrap_or(usual).to_owned();
    let kind = lab.find_method(&named(&all, "tuning", lab.default_method()))?;
    let method = kind.defaults();
    // A configuration that makes no sense says so when it is resolved.
    let of_method = kind.configure(only(&all, |key| method.contains_key(key)));
    let of_method = of_method.map(|method| method.run_keys()).unwrap_or_default();
    let optimizer = lab.optimizer_defaults(&named(&all, "optimizer", "adam"))?;
    let General { head, head_dropout, optimizer: usual, cache_prefix, limit_seed, .. } = General::default();
    let Value::Object(mut effective) = serde_json::to_value(TrainConfig::default())? else { return Ok(all) };
    effective.retain(|_, value| !value.is_null());
    let general = [
        ("head", head.into()),
        ("head_dropout", head_dropout.into()),
        ("optimizer", usual.into()),
        ("cache_prefix", cache_prefix.into()),
        ("limit_seed", limit_seed.into()),
        ("tuning", lab.default_method().into()),
    ];
    effective.extend(general.map(|(key, value): (&str, Value)| (key.to_owned(), value)));
    effective.extend(method.clone());
    effective.extend(optimizer.clone());
    // What belongs to other methods decides nothing.
    let foreign = lab.own_keys();
    all.retain(|key, _| !foreign.contains_key(key) || method.contains_key(key) || optimizer.contains_key(key));
    // A run that may end early reports its best evaluation.
    if all.contains_key("patience") && !all.contains_key("keep") {
        effective.insert("keep".to_owned(), "best".into());
    }
    effective.extend(all);
    effective.extend(of_method.into_iter().filter(|(key, _)| !keys.contains_key(key)));
    effective.remove("profile");
    Ok(effective)
}

/// What some layers of keys come to, the lowest first, and for each key who says so: one of the layers by its name, a profile, or
/// a default.
///
/// # Errors
/// If a method, an optimiser or a profile is not there.
pub fn origins(lab: &Lab, layers: &[(String, Keys)]) -> Result<BTreeMap<String, (Value, String)>> {
    let keys = merge(&layers.iter().map(|(_, keys)| keys).collect::<Vec<_>>());
    let named = |key: &str, usual: &str| keys.get(key).and_then(Value::as_str).unwrap_or(usual).to_owned();
    let chosen = named("profile", "paper");
    let below = profile(&chosen)?;
    let effective = effective_keys(lab, &keys)?;
    let of = |key: &str| effective.get(key).and_then(Value::as_str).unwrap_or_default();
    let (method, optimizer) = (of("tuning"), of("optimizer"));
    let (kind, of_optimizer) = (lab.find_method(method)?, lab.optimizer_defaults(optimizer)?);
    let of_method = kind.defaults();
    let configured = kind.configure(only(&effective, |key| of_method.contains_key(key)));
    let follows = configured.map(|method| method.run_keys()).unwrap_or_default();
    let origin = |key: &str| {
        let said = layers.iter().rev().find(|(_, keys)| keys.contains_key(key));
        if let Some((name, _)) = said {
            name.clone()
        } else if follows.contains_key(key) {
            format!("{method} needs it")
        } else if below.contains_key(key) {
            format!("profile {chosen}")
        } else if of_method.contains_key(key) {
            format!("default of {method}")
        } else if of_optimizer.contains_key(key) {
            format!("default of {optimizer}")
        } else if key == "keep" && keys.contains_key("patience") {
            "default with patience".to_owned()
        } else {
            "default".to_owned()
        }
    };
    Ok(effective.iter().map(|(key, value)| (key.clone(), (value.clone(), origin(key)))).collect())
}

/// Those of `given` that belong to a method or an optimiser which is not the one that `keys` choose.
///
/// # Errors
/// If the method or the optimiser is not there.
pub fn foreign_keys(lab: &Lab, given: &Keys, keys: &Keys) -> Result<Vec<String>> {
    let (effective, own) = (effective_keys(lab, keys)?, lab.own_keys());
    Ok(given.keys().filter(|key| own.contains_key(*key) && !effective.contains_key(*key)).cloned().collect())
}

/// The run that `keys` describe, on a network of this shape.
///
/// # Errors
/// If a key is missing or makes no sense.
pub fn resolve(lab: &Lab, keys: &Keys, network: &BertConfig, has_pooler: bool) -> Result<RunConfig> {
    keys.iter().try_for_each(|(key, value)| Layers::new(lab).check(key, value, "a run"))?;
    let all = effective_keys(lab, keys)?;
    let general: General = read_keys(only(&all, |key| General::KEYS.contains(&key)))?;
    let files: FileOptions = read_keys(only(&all, |key| FILE_KEYS.iter().any(|known| known.name == key)))?;
    let own = lab.own_keys();
    let rest = only(&all, |key| {
        let file = FILE_KEYS.iter().any(|known| known.name == key);
        !file && !General::KEYS.contains(&key) && !own.contains_key(key)
    });
    let train: TrainConfig = read_keys(rest)?;
    train.check()?;
    ensure!(
        (0.0..1.0).contains(&general.head_dropout),
        "head_dropout {}: a number from 0 up to 1 is needed",
        general.head_dropout
    );
    ensure!(general.limit != Some(0), "limit 0: at least 1 is needed");
    ensure!(general.limit_validation != Some(0), "limit_validation 0: at least 1 is needed");
    ensure!(general.max_length != Some(0), "max_length 0: at least 1 is needed");
    let longest = network.max_position_embeddings;
    let task = general.task.context("give --task: a name of `list tasks`, file:PATH or hub:OWNER/NAME")?;
    let task = if is_own_data(&task) { task } else { lab.tasks.find(&task)?.name.clone() };
    let reads_questions = lab.tasks.find(&task).is_ok_and(|task| task.kind == TaskKind::Span);
    let usual = if reads_questions { WindowConfig::default().max_length } else { 128 };
    let max_length = general.max_length.unwrap_or(longest.min(usual));
    ensure!(max_length <= longest, "max_length {max_length}: the backbone takes {longest} at most");
    let reads_pooler = lab.heads.find(&general.head)?.input() == tasks::HeadInput::Pooler;
    ensure!(has_pooler || !reads_pooler, "this backbone has no pooler; use the profile `paper`, or the head `cls`");
    if let Some(metric) = &general.metric {
        lab.metrics.find(metric)?;
    }
    let tuning = general.tuning.unwrap_or_else(|| lab.default_method().to_owned());

    let kind = lab.find_method(&tuning)?;
    let method_keys = only(&all, |key| kind.defaults().contains_key(key));
    for (key, value) in &method_keys {
        // Each alone, so that the error can say which.
        let alone = kind.configure(Keys::from_iter([(key.clone(), value.clone())]));
        alone.map_err(|error| anyhow!("{key} = {value}: {}", in_plain_words(&format!("{error:#}"))))?;
    }
    let method = kind.configure(method_keys)?;
    for (key, needed) in method.run_keys() {
        let said = all.get(&key).unwrap_or(&Value::Null);
        ensure!(*said == needed, "{key} = {said}: `{tuning}` needs {key} = {needed}");
    }
    let shape = network.shape();
    method.check(&shape)?;
    let part = Part::Embeddings;
    let trains_embeddings =
        Kind::ALL.into_iter().any(|kind| method.trains(Role { part, kind, inserted: false }, &shape));
    ensure!(
        !(general.cache_prefix && trains_embeddings),
        "cache_prefix: `{tuning}` trains from the bottom up, so there are no frozen layers to compute once"
    );
    let optimizer = lab.optimizer_defaults(&general.optimizer)?;
    let mut own = only(&all, |key| optimizer.contains_key(key));
    lab.configure_optimizer(&general.optimizer, &own)?;
    let (mut config, defaults) = (method.info().config, kind.defaults());
    config.retain(|key, value| !kind.later_keys().contains(&key.as_str()) || defaults.get(key) != Some(value));
    own.extend(config);
    Ok(RunConfig {
        task,
        backbone: general.backbone.context("give --backbone: a name of `list backbones`, or a folder")?,
        tuning,
        head: general.head,
        head_dropout: general.head_dropout,
        optimizer: general.optimizer,
        train,
        max_length,
        limit: general.limit,
        limit_seed: general.limit_seed,
        limit_validation: general.limit_validation,
        metric: general.metric,
        cache_prefix: general.cache_prefix,
        files,
        own,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn run(keys: Value) -> Result<RunConfig> {
        let Value::Object(mut keys) = keys else { panic!("keys are an object") };
        keys.extend([("task".to_owned(), "cola".into()), ("backbone".to_owned(), "bert".into())]);
        resolve(&Lab::paper(), &keys, &BertConfig::new(768, 12, 12), true)
    }

    #[rstest]
    #[case(json!({"epochs": "many"}), "epochs = \"many\"")]
    #[case(json!({"epochs": 2.5}), "epochs = 2.5: invalid type: floating point `2.5`, expected a whole number")]
    #[case(json!({"init_std": "big"}), "init_std = \"big\": invalid type: string \"big\", expected a number")]
    #[case(json!({"norm": "batches"}), "expected one of `none`, `layer`, `batch`")]
    #[case(json!({"seed": -1}), "seed = -1: invalid value: integer `-1`, expected 0 or more")]
    #[case(json!({"tuning": "top-k"}), "`top-k` needs k: a number from 1 to 12")]
    #[case(json!({"tuning": "top-k", "k": 13}), "the backbone has 12 layers")]
    #[case(json!({"tuning": "adaptors"}), "did you mean `adapters`?")]
    #[case(json!({"beta1": 1.0}), "beta1 1")]
    #[case(json!({"profile": "papr"}), "did you mean `paper`?")]
    #[case(json!({"head": "tail"}), "unknown head `tail`")]
    #[case(json!({"cache_prefix": true}), "trains from the bottom up")]
    #[case(json!({"learning_rate": 1.0}), "unknown key `learning_rate`")]
    fn what_makes_no_sense_is_named(#[case] keys: Value, #[case] message: &str) {
        let error = format!("{:#}", run(keys).unwrap_err());
        assert!(error.contains(message), "{error}");
    }

    /// The keys may be meant for other points of a grid: only whoever gives them for one task alone is told.
    #[test]
    fn keys_of_files_are_refused_where_they_are_given_for_a_known_task() {
        let (lab, files) = (Lab::paper(), json!({"test_file": "x.csv", "validation_file": "y.csv", "lr": 1.0}));
        let given = files.as_object().unwrap();
        let error = FileOptions::check_given(&lab, given, "CoLA").unwrap_err().to_string();
        assert_eq!(error, "`cola` has its own data: validation_file, test_file are for file: and hub: tasks");
        for task in ["file:x.csv", "hub:someone/x", "colla"] {
            FileOptions::check_given(&lab, given, task).unwrap();
        }
        assert!(run(files).is_ok());
    }

    #[test]
    fn what_is_said_wins_over_the_profile_and_is_recorded_once() {
        let keys = run(json!({"profile": "adapter-bert", "activation": "relu"})).unwrap().keys().unwrap();
        assert_eq!((&keys["activation"], &keys["init_std"]), (&json!("relu"), &json!(1e-3)));
        assert!(!keys.values().any(|value| value == "tanh-gelu") && !keys.contains_key("profile"), "{keys:?}");
        assert_eq!((&keys["head"], &keys["weight_decay"]), (&json!("pooler"), &json!(0.01)));
    }

    #[test]
    fn each_key_knows_who_said_it() {
        let layer = |name: &str, keys: Value| (name.to_owned(), keys.as_object().unwrap().clone());
        let layers = [
            layer("environment", json!({"epochs": 5, "lr": 1e-3, "patience": 2})),
            layer("flag", json!({"lr": 3e-3, "profile": "adapter-bert"})),
        ];
        let origins = origins(&Lab::paper(), &layers).unwrap();
        let expected = [
            ("epochs", json!(5), "environment"),
            ("lr", json!(3e-3), "flag"),
            ("init_std", json!(1e-3), "profile adapter-bert"),
            ("adapter_size", json!(64), "default of adapters"),
            ("beta1", json!(0.9), "default of adam"),
            ("batch_size", json!(32), "default"),
            ("keep", json!("best"), "default with patience"),
        ];
        for (key, value, origin) in expected {
            assert_eq!(origins[key], (value, origin.to_owned()), "{key}");
        }
    }

    #[test]
    fn what_decides_nothing_makes_no_other_run() {
        let plain = run(json!({"tuning": "full"})).unwrap();
        assert_eq!(run(json!({"tuning": "full", "adapter_size": 8, "init_std": 1.0})).unwrap(), plain);
        let keys = Keys::from_iter([("tuning".to_owned(), json!("full")), ("adapter_size".to_owned(), json!(8))]);
        assert_eq!(foreign_keys(&Lab::paper(), &keys, &keys).unwrap(), ["adapter_size"]);
    }

    #[test]
    fn a_configuration_is_read_as_it_is_written() {
        let unlimited = run(json!({"limit": "none", "limit_validation": "none"})).unwrap();
        assert_eq!((unlimited.limit, unlimited.limit_validation), (None, None));
        assert!(run(json!({"limit_seed": "none"})).is_err());
        let config = run(json!({"adapter_size": 8, "limit": 5, "lr": 1e-3})).unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<RunConfig>(&text).unwrap(), config);
        assert_eq!(
            (&config.keys().unwrap()["lr"], config.keys().unwrap().contains_key("files")),
            (&json!(1e-3), false)
        );
    }
}
