//! Layers of keys: each says what it knows, and a later one wins.

use adapter_core::Key;
use anyhow::{Result, bail, ensure};
use serde_json::Value;
use tasks::nearest;

use crate::lab::{Keys, Lab, PARTS};

/// Keys of every run, as help shows them.
pub const RUN_KEYS: &[Key] = &[
    Key::new(
        "task",
        "NAME|file:PATH|hub:NAME",
        "A known task (see `list tasks`), file:PATH with a .csv, .tsv, .jsonl, .json or .parquet file of your own, or hub:OWNER/NAME, fetched from the Hugging Face hub",
    ),
    Key::new("backbone", "NAME|FOLDER", "A known name (see `list backbones`) or a folder in Hugging Face layout"),
    Key::new("tuning", "METHOD", "What is trained (see `list methods`)"),
    Key::new(
        "profile",
        "NAME",
        "Defaults for what you do not set: paper, or adapter-bert (the authors' released code)",
    ),
    Key::new("lr", "RATE", "Highest learning rate"),
    Key::new("epochs", "N", "Passes over the training set"),
    Key::new("batch_size", "N", "Examples of a step"),
    Key::new(
        "accumulate",
        "PARTS",
        "Split each step's examples into this many parts, to save memory; their gradients are averaged",
    ),
    Key::new(
        "max_length",
        "TOKENS",
        "Longest sequence in tokens [default: 128, for questions 384, or what the backbone takes]",
    ),
    Key::new("seed", "SEED", "Decides initial values, order and dropout"),
    Key::new("limit", "N", "Use only N training examples, the same for every seed; `none` takes all"),
    Key::new("limit_seed", "SEED", "Decides which examples a limit keeps"),
    Key::new(
        "limit_validation",
        "N",
        "Use only N validation examples, for a quick look; scores are then marked. `none` takes all",
    ),
    Key::new(
        "head",
        "NAME",
        "What the head reads: cls, pooler, mean, or mix (of all layers); with a hidden layer mlp, mean-mlp, mix-mlp. Question answering reads tokens",
    ),
    Key::new("head_dropout", "P", "Dropout in front of the head"),
    Key::new("optimizer", "NAME", "The optimiser"),
    Key::new("schedule", "NAME", "The learning rate over the run: paper or adapter-bert"),
    Key::new("warmup", "SHARE", "Share of the steps that are warm-up"),
    Key::new("clip", "NORM", "Largest norm of all gradients together; 0 clips nothing"),
    Key::new("metric", "NAME", "The metric to choose by [default: the task's own]"),
    Key::new("evaluate_every", "STEPS", "Also evaluate after every STEPS steps"),
    Key::new("evaluate", "WHEN", "When the model is evaluated: at every epoch's end (epoch) or at the end only (end)"),
    Key::new("patience", "N", "End after N evaluations without a better score [default: run to the end]"),
    Key::new(
        "keep",
        "WHICH",
        "The evaluation that a run reports, saves and tests: the last one, as in the paper, or the best [default: last; best with patience]",
    ),
    Key::new(
        "cache_prefix",
        "BOOL",
        "Compute the frozen layers below the lowest trained one only once, without dropout",
    ),
];

/// Keys that say how a file of one's own is read.
pub const FILE_KEYS: &[Key] = &[
    Key::new("text_column", "NAME", "With file:PATH or hub:NAME, the text's column [default: text]"),
    Key::new("pair_column", "NAME", "With file:PATH or hub:NAME, the second text's column"),
    Key::new("label_column", "NAME", "With file:PATH or hub:NAME, the column of labels or scores [default: label]"),
    Key::new(
        "labels",
        "KIND",
        "With file:PATH or hub:NAME, what that column holds: class, score, or several (a JSON list, or divided by |) [default: class]",
    ),
    Key::new(
        "validation_file",
        "FILE",
        "With file:PATH or hub:NAME, examples to choose by [default: a tenth of the file, or the dataset's own]",
    ),
    Key::new(
        "test_file",
        "FILE",
        "With file:PATH or hub:NAME, examples to report on [default: a tenth of the file, or the dataset's own]",
    ),
];

/// Keys whose values are texts.
const TEXT_KEYS: [&str; 14] = [
    "task",
    "backbone",
    "tuning",
    "profile",
    "head",
    "optimizer",
    "schedule",
    "metric",
    "text_column",
    "pair_column",
    "label_column",
    "labels",
    "validation_file",
    "test_file",
];

/// Keys of a search (`kind = "search"`), which no run has.
pub const SEARCH_KEYS: &[Key] = &[
    Key::new("trials", "N", "For a search: trials that are drawn [default: 30]"),
    Key::new("samples", "N,…", "For a search: examples that a trial trains on, at first and as the best third goes on"),
    Key::new("search_seed", "SEED", "For a search: decides what is drawn [default: 0]"),
    Key::new("seeds", "N", "For a search: seeds with which the best trial is trained [default: 3]"),
    Key::new("embeddings", "FILE,…", "For a search: files of word vectors to choose from, `glove-50d`, or none"),
];

/// The names of all keys that every run has.
pub fn general_keys() -> Vec<&'static str> {
    RUN_KEYS.iter().chain(FILE_KEYS).map(|key| key.name).collect()
}

/// Environment variables that begin with this are a layer.
const PREFIX: &str = "ADAPTER_LAB_";

/// Variables that are options of commands, not of runs.
const NOT_OF_RUNS: [&str; 7] = ["DATA", "CACHE", "DEVICE", "PIP", "NPM", "MIRROR", "STALE_AFTER"];

/// Reads layers of keys for a lab, which knows what keys there are.
#[derive(Clone, Copy)]
pub struct Layers<'a> {
    lab: &'a Lab,
}

impl<'a> Layers<'a> {
    /// Layers for the methods and optimisers of `lab`.
    pub fn new(lab: &'a Lab) -> Self {
        Self { lab }
    }

    /// A layer in TOML.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Keys> {
        Ok(toml::from_str(text)?)
    }

    /// The layer of this process's environment: `ADAPTER_LAB_BATCH_SIZE=16` is `batch_size = 16`.
    ///
    /// # Errors
    /// If a variable is no text or names no key.
    pub fn environment(self) -> Result<Keys> {
        let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let ours = ours.filter(|(name, _)| name.starts_with(PREFIX));
        let variables = ours.map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => bail!("{name}: its value is not UTF-8"),
        });
        self.variables(variables.collect::<Result<Vec<_>>>()?)
    }

    /// The layer of some environment variables.
    ///
    /// # Errors
    /// If one names no key.
    pub fn variables(self, variables: impl IntoIterator<Item = (String, String)>) -> Result<Keys> {
        let mut keys = Keys::new();
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !NOT_OF_RUNS.contains(rest)) else { continue };
            let (key, value) = (rest.to_lowercase(), read(&value));
            self.check(&key, &value, &name)?;
            keys.insert(key, value);
        }
        Ok(keys)
    }

    /// The layer of `--set KEY=VALUE`.
    ///
    /// # Errors
    /// If one is no assignment or names no key.
    pub fn assignments(self, texts: &[String]) -> Result<Keys> {
        let mut keys = Keys::new();
        for text in texts {
            let Some((key, value)) = text.split_once('=') else { bail!("--set {text}: give KEY=VALUE") };
            let (key, value) = (key.trim(), read(value.trim()));
            self.check(key, &value, "--set")?;
            keys.insert(key.to_owned(), value);
        }
        Ok(keys)
    }

    /// A value as it is written in a file, or a text.
    pub fn value(self, text: &str) -> Value {
        read(text)
    }

    /// The value of a flag for a key: a text as it is where the key takes one, else a number, a truth value or a list.
    ///
    /// # Errors
    /// If it says nothing.
    pub fn flag(self, key: &str, text: &str) -> Result<Value> {
        let (own, flag) = (self.lab.own_keys(), format!("--{}", key.replace('_', "-")));
        let default = own.get(key).and_then(|key| key.defaults.first());
        if TEXT_KEYS.contains(&key) || default.is_some_and(Value::is_string) {
            return Ok(text.into());
        }
        let number = || {
            let whole = text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from));
            whole.or_else(|_| text.parse::<f64>().map(Value::from))
        };
        let value =
            if default.is_some_and(Value::is_array) { read(text) } else { number().unwrap_or_else(|_| read(text)) };
        self.check(key, &value, &flag)?;
        ensure!(!value.is_array() || default.is_some_and(Value::is_array), "{flag}: one value is needed");
        Ok(value)
    }

    /// Refuses a key that there is not, and suggests the nearest that there is; and a value that says nothing. `place` is
    /// where it was said.
    ///
    /// # Errors
    /// As said.
    pub fn check(self, key: &str, value: &Value, place: &str) -> Result<()> {
        let own = self.lab.own_keys();
        let mut known = general_keys();
        known.extend(own.keys().map(String::as_str).chain(SEARCH_KEYS.iter().map(|key| key.name)));
        if known.contains(&key) {
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            ensure!(!values.is_empty(), "{place}: {key} = [] leaves nothing to run");
            // What JSON cannot write is not a number.
            let infinite = |value: &Value| {
                value.is_null() || value.as_str().is_some_and(|text| text.parse().is_ok_and(|x: f64| !x.is_finite()))
            };
            ensure!(!values.iter().any(infinite), "{place}: {key} needs finite numbers");
            return Ok(());
        }
        known.sort_unstable();
        // Parts of a file, which are no keys of a run.
        let parts = ["about", "kind", "series"].into_iter().chain(PARTS);
        match nearest(key, known.iter().copied().chain(parts)) {
            Some(nearest) => bail!("{place}: unknown key `{key}`; did you mean `{nearest}`?"),
            None => bail!("{place}: unknown key `{key}`; known are {}", known.join(", ")),
        }
    }
}

/// Whether a key takes a limit away that a lower layer has set.
pub(crate) fn is_no_limit(key: &str, value: &Value) -> bool {
    ["limit", "limit_validation"].contains(&key) && *value == "none"
}

/// All layers as one, the lowest first.
pub(crate) fn merge(layers: &[&Keys]) -> Keys {
    layers.iter().flat_map(|layer| layer.iter().map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// A value as TOML writes it, or a list of values separated by commas, or a text.
fn read(text: &str) -> Value {
    let toml = |text: &str| Layers::parse(&format!("value = {text}")).ok().and_then(|mut keys| keys.remove("value"));
    toml(text).unwrap_or_else(|| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if inner.contains(',') {
            inner.split(',').map(|part| read(part.trim())).collect()
        } else {
            Value::String(inner.to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("cola", json!("cola"))]
    #[case("1e-3", json!(1e-3))]
    #[case("32", json!(32))]
    #[case("true", json!(true))]
    #[case("[8, 64]", json!([8, 64]))]
    #[case("8,64", json!([8, 64]))]
    #[case("[cola, mrpc]", json!(["cola", "mrpc"]))]
    #[case("file:a b.csv", json!("file:a b.csv"))]
    fn values_are_read_as_people_write_them(#[case] text: &str, #[case] expected: Value) {
        assert_eq!(read(text), expected);
    }

    #[test]
    fn a_later_layer_wins() {
        let lab = Lab::paper();
        let variables = [("ADAPTER_LAB_EPOCHS", "5"), ("ADAPTER_LAB_LR", "1e-3"), ("ADAPTER_LAB_DATA", "/data")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Layers::new(&lab).variables(variables).unwrap();
        let set = Layers::new(&lab).assignments(&["lr=3e-3".to_owned()]).unwrap();
        assert_eq!(Value::Object(merge(&[&environment, &set])), json!({"epochs": 5, "lr": 3e-3}));
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest() {
        let lab = Lab::paper();
        let error = |text: &str| Layers::new(&lab).assignments(&[text.to_owned()]).unwrap_err().to_string();
        assert_eq!(error("adapter_sise=8"), "--set: unknown key `adapter_sise`; did you mean `adapter_size`?");
        assert!(error("colour=red").contains("known are accumulate, "), "{}", error("colour=red"));
        assert!(error("epochs").contains("give KEY=VALUE"));
        let variable = [("ADAPTER_LAB_EPOCH".to_owned(), "5".to_owned())];
        let error = Layers::new(&lab).variables(variable).unwrap_err().to_string();
        assert_eq!(error, "ADAPTER_LAB_EPOCH: unknown key `epoch`; did you mean `epochs`?");
    }

    #[rstest]
    #[case("lr", ".001", json!(0.001))]
    #[case("seed", "007", json!(7))]
    #[case("seed", "18446744073709551615", json!(u64::MAX))]
    #[case("label_column", "2020", json!("2020"))]
    #[case("label_column", "nan", json!("nan"))]
    #[case("task", "file:b,c.csv", json!("file:b,c.csv"))]
    #[case("activation", "relu", json!("relu"))]
    #[case("layer_sizes", "0,8", json!([0, 8]))]
    #[case("bias_correction", "false", json!(false))]
    fn a_flag_is_read_by_what_its_key_takes(#[case] key: &str, #[case] text: &str, #[case] expected: Value) {
        assert_eq!(Layers::new(&Lab::paper()).flag(key, text).unwrap(), expected);
    }

    #[rstest]
    #[case("lr", "nan")]
    #[case("epochs", "1,2")]
    fn a_flag_that_says_nothing_is_refused(#[case] key: &str, #[case] text: &str) {
        assert!(Layers::new(&Lab::paper()).flag(key, text).is_err());
    }

    #[rstest]
    fn what_is_no_number_is_refused(#[values("lr=nan", "clip=inf", "lr=1e-3,nan", "seed=[]")] text: &str) {
        assert!(Layers::new(&Lab::paper()).assignments(&[text.to_owned()]).is_err());
    }
}
