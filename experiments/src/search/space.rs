//! The space of the search (the paper's Table 5) as data: what can be chosen, and a trial as a choice.

use adapter_core::mix;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tasks::nearest;

use crate::lab::Keys;

/// A choice that a trial makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// The key of a trial's configuration.
    pub key: &'static str,
    /// What it decides.
    pub about: &'static str,
    /// What it can be.
    pub domain: Domain,
    /// Another key and the values of it without which this one decides nothing.
    pub when: Option<(&'static str, &'static [&'static str])>,
}

/// The values of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// One of these.
    Choice(Vec<Value>),
    /// A number from the first to the second, in this many equal steps.
    Steps(f64, f64, u32),
}

impl Domain {
    fn of(values: &[impl Clone + Into<Value>]) -> Self {
        Domain::Choice(values.iter().cloned().map(Into::into).collect())
    }

    /// All values.
    pub fn values(&self) -> Vec<Value> {
        match self {
            Domain::Choice(values) => values.clone(),
            Domain::Steps(low, high, steps) => {
                let value = |step: u32| low + (high - low) * f64::from(step) / f64::from(*steps);
                // Whole numbers stay whole, and others get no digits that nobody asked for.
                let rounded = |value: f64| (value * 1e6).round() / 1e6;
                let whole = low.fract() == 0.0 && (high - low) / f64::from(*steps) >= 1.0;
                let written = |value: f64| if whole { (value.round() as u64).into() } else { rounded(value).into() };
                (0..=*steps).map(|step| written(value(step))).collect()
            }
        }
    }

    fn in_words(&self) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = self.values();
        match (self, values.first(), values.last()) {
            (Domain::Steps(..), Some(low), Some(high)) => {
                let step = values[1].as_f64().unwrap_or_default() - values[0].as_f64().unwrap_or_default();
                format!("{} to {} in steps of {}", text(low), text(high), (step * 1e6).round() / 1e6)
            }
            _ => values.iter().map(text).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Every choice of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    dimensions: Vec<Dimension>,
}

/// A trial's choices; a choice that decides nothing is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialConfig {
    /// The task.
    pub task: String,
    /// Always `no-bert`.
    pub tuning: String,
    /// Decides initial values, order and dropout.
    pub seed: u64,
    /// Examples that are trained on, counted again in every epoch.
    pub samples: usize,
    /// Training examples that are kept; `None` keeps all.
    pub limit: Option<usize>,
    /// Decides which a limit keeps.
    pub limit_seed: u64,
    /// Validation examples that are kept; `None` keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_validation: Option<usize>,
    /// What is chosen from the space.
    #[serde(flatten)]
    pub chosen: Keys,
}

/// The name of what a trial trains, where a run has its method's.
pub const NO_BERT: &str = "no-bert";

const ACTIVATIONS: [&str; 6] = ["relu", "relu6", "leaky-relu", "swish", "sigmoid", "tanh"];
const DEEP: &[&str] = &["deep", "both"];
const WIDE: &[&str] = &["wide", "both"];
const CONVOLUTION: &[&str] = &["true"];
const LAYERS: &[&str] = &["1", "2", "3", "5"];

impl Space {
    /// The paper's Table 5, with these embeddings to choose from.
    pub fn paper(embeddings: &[String]) -> Self {
        let rates = || Domain::of(&[0.001, 0.005, 0.01, 0.05, 0.1, 0.5]);
        let penalties = || Domain::of(&[0.0, 1e-4, 1e-3, 1e-2]);
        let dimension = |key, about, domain, when| Dimension { key, about, domain, when };
        let conv = Some(("convolution", CONVOLUTION));
        let layers = Some(("hidden_layers", LAYERS));
        let dimensions = vec![
            dimension(
                "towers",
                "deep network, wide linear model, or both",
                Domain::of(&["both", "deep", "wide"]),
                None,
            ),
            dimension("lower_case", "texts in lower case", Domain::of(&[true, false]), None),
            dimension("strip", "only letters and digits are kept", Domain::of(&[true, false]), None),
            dimension("embeddings", "embedding of words", Domain::of(embeddings), Some(("towers", DEEP))),
            dimension(
                "tune_embeddings",
                "embeddings are trained too",
                Domain::of(&[true, false]),
                Some(("towers", DEEP)),
            ),
            dimension("convolution", "convolution over the words", Domain::of(&[true, false]), Some(("towers", DEEP))),
            dimension("embedding_dropout", "dropout on what the filters read", Domain::Steps(0.0, 0.4, 8), conv),
            dimension("max_ngram", "words of the widest filter", Domain::of(&[2, 3]), conv),
            dimension("filters", "filters of each width", Domain::Steps(50.0, 200.0, 6), conv),
            dimension("conv_activation", "activation of the filters", Domain::of(&ACTIVATIONS), conv),
            dimension("conv_batch_norm", "batch normalisation of the filters", Domain::of(&[true, false]), conv),
            dimension("conv_dropout", "dropout on the filters", Domain::Steps(0.0, 0.4, 8), conv),
            dimension("hidden_layers", "hidden layers", Domain::of(&[0, 1, 2, 3, 5]), Some(("towers", DEEP))),
            dimension("hidden_size", "width of a hidden layer", Domain::of(&[64, 128, 256]), layers),
            dimension("activation", "activation of hidden layers", Domain::of(&ACTIVATIONS), layers),
            dimension("norm", "normalisation of hidden layers", Domain::of(&["none", "batch", "layer"]), layers),
            dimension("dropout", "dropout on hidden layers", Domain::of(&[0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]), layers),
            dimension("lr", "learning rate of the deep network", rates(), Some(("towers", DEEP))),
            dimension("l2", "L2 penalty of the deep network", penalties(), Some(("towers", DEEP))),
            dimension(
                "wide_ngram",
                "words of the longest n-gram of the wide model",
                Domain::of(&[1, 2]),
                Some(("towers", WIDE)),
            ),
            dimension("wide_lr", "learning rate of the wide model", rates(), Some(("towers", WIDE))),
            dimension("wide_l2", "L2 penalty of the wide model", penalties(), Some(("towers", WIDE))),
        ];
        Self { dimensions }
    }

    /// Its dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// How many examples a random search may train on; successive halving has its own.
    pub const SAMPLES: [usize; 5] = [100_000, 200_000, 500_000, 1_000_000, 2_000_000];

    /// The choices of trial `number` of the search on a task with `seed`. What is `fixed` is not drawn. Each choice is a function
    /// of the task, the seed, the number and the key alone: a new dimension changes no other.
    ///
    /// # Errors
    /// If a fixed value is not in the space.
    pub fn draw(&self, task: &str, seed: u64, number: u64, fixed: &Keys) -> Result<Keys> {
        let fixed = self.checked(fixed)?;
        let mut chosen = Keys::new();
        for Dimension { key, domain, .. } in &self.dimensions {
            let values = domain.values();
            let drawn = || values[(draw(task, seed, number, key) % values.len() as u64) as usize].clone();
            chosen.insert(key.to_string(), fixed.get(*key).cloned().unwrap_or_else(drawn));
        }
        // A dimension stands behind those that it depends on: what depends on something that decides nothing decides nothing.
        for Dimension { key, when, .. } in &self.dimensions {
            let Some((other, values)) = when else { continue };
            let decides = chosen.get(*other).is_some_and(|value| values.contains(&text(value).as_str()));
            if !decides {
                chosen.remove(*key);
            }
        }
        Ok(chosen)
    }

    /// The samples of trial `number` of a random search on a task.
    pub fn draw_samples(task: &str, seed: u64, number: u64) -> usize {
        Self::SAMPLES[(draw(task, seed, number, "samples") % Self::SAMPLES.len() as u64) as usize]
    }

    /// The same choices as the space writes them.
    fn checked(&self, fixed: &Keys) -> Result<Keys> {
        let mut checked = Keys::new();
        for (key, value) in fixed {
            let Some(dimension) = self.dimensions.iter().find(|dimension| dimension.key == key) else {
                let known = self.dimensions.iter().map(|dimension| dimension.key);
                match nearest(key, known) {
                    Some(nearest) => bail!("unknown key `{key}`; did you mean `{nearest}`?"),
                    None => bail!("unknown key `{key}`; `baseline --explain` prints the space"),
                }
            };
            let values = dimension.domain.values();
            let same =
                |known: &Value| known == value || known.as_f64().is_some_and(|known| value.as_f64() == Some(known));
            let written = values.iter().find(|known| same(known));
            ensure!(written.is_some(), "{key} = {}: give one of {}", text(value), dimension.domain.in_words());
            checked.extend(written.map(|written| (key.clone(), written.clone())));
        }
        Ok(checked)
    }

    /// As a report writes it down.
    pub fn record(&self) -> Vec<analysis::DimensionRecord> {
        let record = |dimension: &Dimension| analysis::DimensionRecord {
            key: dimension.key.to_owned(),
            about: dimension.about.to_owned(),
            values: dimension.domain.in_words(),
            when: dimension.when.map(|(key, values)| format!("{key} = {}", values.join(" or "))),
        };
        self.dimensions.iter().map(record).collect()
    }
}

/// Tasks have draws of their own: together they see much more of the space than one of them.
fn draw(task: &str, seed: u64, number: u64, key: &str) -> u64 {
    let hash = |name: &str| {
        let hash = blake3::hash(name.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap_or_default())
    };
    mix(&[hash(task), seed, number, hash(key)])
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl TrialConfig {
    /// The keys that decide the trial.
    ///
    /// # Errors
    /// If a value has no written form.
    pub fn keys(&self) -> Result<Keys> {
        match serde_json::to_value(self)? {
            Value::Object(keys) => Ok(keys),
            _ => bail!("a configuration is an object"),
        }
    }

    /// A choice; one that decides nothing is the type's default.
    pub(super) fn get<T: serde::de::DeserializeOwned + Default>(&self, key: &str) -> Result<T> {
        match self.chosen.get(key) {
            Some(value) => serde_json::from_value(value.clone()).with_context(|| format!("{key} = {value}")),
            None => Ok(T::default()),
        }
    }

    /// In short, for lists and logs.
    pub fn describe(&self) -> String {
        let shown = ["towers", "embeddings", "convolution", "hidden_layers", "lr", "wide_lr"];
        let parts = shown.iter().filter_map(|key| Some(format!("{key} {}", text(self.chosen.get(*key)?))));
        let parts: Vec<String> = parts.collect();
        format!("{} {NO_BERT} {} samples {} seed {}", self.task, parts.join(" "), self.samples, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn space() -> Space {
        Space::paper(&["glove", "pieces", "random-50", "random-128", "random-512"].map(str::to_owned))
    }

    #[test]
    fn every_value_of_every_dimension_is_drawn_by_some_trial() {
        let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let (space, mut samples) = (space(), BTreeSet::new());
        for number in 0..1000 {
            let chosen = space.draw("topic", 0, number, &Keys::new()).unwrap();
            for dimension in space.dimensions() {
                seen.entry(dimension.key).or_default().extend(chosen.get(dimension.key).map(text));
            }
            samples.insert(Space::draw_samples("topic", 0, number));
        }
        for Dimension { key, domain, .. } in space.dimensions() {
            let all: BTreeSet<String> = domain.values().iter().map(text).collect();
            assert_eq!(seen[key], all, "{key}");
        }
        assert_eq!(samples.len(), Space::SAMPLES.len());
    }

    #[test]
    fn what_decides_nothing_is_left_out() {
        let space = space();
        let fixed =
            |pairs: &[(&str, Value)]| pairs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        let wide = space.draw("topic", 0, 3, &fixed(&[("towers", "wide".into())])).unwrap();
        let keys: Vec<&str> = wide.keys().map(String::as_str).collect();
        assert_eq!(keys, ["lower_case", "strip", "towers", "wide_l2", "wide_lr", "wide_ngram"]);
        let flat: Keys =
            fixed(&[("towers", "deep".into()), ("convolution", false.into()), ("hidden_layers", 0.into())]);
        let flat = space.draw("topic", 0, 3, &flat).unwrap();
        assert!(!["filters", "activation", "wide_lr"].iter().any(|key| flat.contains_key(*key)), "{flat:?}");
    }

    #[test]
    fn a_choice_depends_on_task_seed_number_and_key_alone() {
        let space = space();
        let draw = |seed, number| space.draw("topic", seed, number, &Keys::new()).unwrap();
        assert_eq!(draw(0, 7), draw(0, 7));
        assert_ne!(draw(0, 7), space.draw("spam", 0, 7, &Keys::new()).unwrap());
        assert_ne!(draw(0, 7), draw(0, 8));
        assert_ne!(draw(0, 7), draw(1, 7));
        let fixed = Keys::from_iter([("lower_case".to_owned(), true.into())]);
        let with = space.draw("topic", 0, 7, &fixed).unwrap();
        assert!(with.iter().all(|(key, value)| key == "lower_case" || draw(0, 7).get(key) == Some(value)));
    }

    #[test]
    fn a_value_outside_the_space_is_refused() {
        let refused = |key: &str, value: Value| {
            space().draw("topic", 0, 0, &Keys::from_iter([(key.to_owned(), value)])).unwrap_err().to_string()
        };
        assert!(refused("hidden_size", 65.into()).contains("give one of 64, 128, 256"));
        assert!(refused("filters", 60.into()).contains("50 to 200 in steps of 25"));
        assert!(refused("dropout", 0.15.into()).contains("give one of 0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5"));
        // However it is written, it is the same choice.
        let drawn = |value: Value| space().draw("topic", 0, 0, &Keys::from_iter([("l2".to_owned(), value)])).unwrap();
        assert_eq!(drawn(0.into()), drawn(0.0.into()));
        assert!(refused("hiden_size", 64.into()).contains("did you mean `hidden_size`?"));
    }
}
