//! A run and what its configuration says.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use crate::{Kept, MethodRecord, RunRecord, Scored, Status, paper};

/// A run and what its configuration says.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was written of it.
    pub record: RunRecord,
    /// The task.
    pub task: String,
    /// The backbone; empty for a run without one.
    pub backbone: String,
    /// The seed.
    pub seed: u64,
    /// The task's metric.
    pub(crate) metric: Option<String>,
}

/// The metric of a classification in most of the paper's figures.
pub const ACCURACY: &str = "accuracy";

impl Run {
    /// Reads the configuration of a record.
    ///
    /// # Errors
    /// The key that is not there or not of the right kind.
    pub fn new(record: RunRecord) -> Result<Self, &'static str> {
        let text = |key| record.config.get(key).and_then(Value::as_str).map(str::to_owned);
        let none = (record.method.name == paper::NO_BERT).then(String::new);
        Ok(Self {
            task: text("task").ok_or("task")?,
            backbone: text("backbone").or(none).ok_or("backbone")?,
            seed: record.config.get("seed").and_then(Value::as_u64).ok_or("seed")?,
            metric: record.last.as_ref().or(record.best.as_ref()).map(|scored| scored.metric.clone()),
            record,
        })
    }

    /// What was trained.
    pub fn method(&self) -> &MethodRecord {
        &self.record.method
    }

    /// A value of the configuration; `None` if the key is not there or null.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.record.config.get(key).filter(|value| !value.is_null())
    }

    /// A number of the configuration.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// Whether its loss was not finite. It then counts as the trivial answer.
    pub fn is_diverged(&self) -> bool {
        self.record.status == Status::Diverged
    }

    /// The evaluation that it reports.
    fn kept(&self) -> Option<&Scored> {
        match self.record.kept {
            Kept::Last => self.record.last.as_ref(),
            Kept::Best => self.record.best.as_ref(),
        }
    }

    /// The task's metric, by which runs are chosen; `None` if nothing tells.
    pub fn metric(&self) -> Option<&str> {
        self.metric.as_deref()
    }

    /// The validation score in any metric at the evaluation that it reports, or the trivial answer's if it diverged: a
    /// fraction.
    pub fn score(&self, metric: &str) -> Option<f64> {
        if self.is_diverged() {
            return self.trivial(metric);
        }
        self.kept()?.validation.get(metric).copied().filter(|score| score.is_finite())
    }

    /// The validation score in the task's metric: a fraction.
    pub fn validation(&self) -> Option<f64> {
        self.score(self.metric()?)
    }

    /// Validation accuracy, for a classification: a fraction.
    pub fn accuracy(&self) -> Option<f64> {
        self.score(ACCURACY)
    }

    /// The metric of most of the paper's figures: accuracy for a classification, the task's own otherwise.
    pub fn shown_metric(&self) -> Option<&str> {
        if self.accuracy().is_some() { Some(ACCURACY) } else { self.metric() }
    }

    /// The trivial answer's validation score: a fraction.
    pub fn trivial(&self, metric: &str) -> Option<f64> {
        self.record.majority.get(metric).copied().filter(|score| score.is_finite())
    }

    /// The test score in the task's metric, where the test set's labels are known: a fraction. Of a run that diverged it is
    /// the trivial answer's validation score, because no record holds its test score.
    pub fn test(&self) -> Option<f64> {
        if self.is_diverged() {
            return (self.record.examples.test > 0).then(|| self.validation())?;
        }
        self.record.test.get(self.metric()?).copied().filter(|score| score.is_finite())
    }

    /// Trained parameters.
    pub fn trained(&self) -> usize {
        self.record.params.trained
    }

    /// Trained parameters as a share of the backbone's.
    pub fn trained_share(&self) -> f64 {
        self.trained() as f64 / self.record.params.backbone.max(1) as f64
    }

    /// In a few words, for a list of runs.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.method().label.clone()];
        parts.extend(self.method().variant.iter().map(|(key, value)| said(key, value)));
        parts.extend(self.number("lr").map(|lr| format!("lr {lr:e}")));
        parts.extend(self.value("epochs").map(|epochs| format!("{} epochs", written(epochs))));
        parts.push(format!("seed {}", self.seed));
        parts.extend(self.is_diverged().then(|| "diverged".to_owned()));
        parts.join(", ")
    }
}

/// A configuration as a text that is the same for the same values: 1 and 1.0 are, and so are null and nothing. The seed is no
/// part of it.
pub fn configuration(run: &Run) -> String {
    let keys = run.record.config.iter().filter(|(key, value)| *key != "seed" && !value.is_null());
    keys.map(|(key, value)| format!("{key}={}\n", same(value))).collect()
}

/// A value whose numbers are all written alike.
fn same(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(list) => list.iter().map(same).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), same(value))).collect(),
        other => other.clone(),
    }
}

/// A key and its value in words.
pub fn said(key: &str, value: &Value) -> String {
    format!("{} {}", key.replace('_', " "), written(value))
}

/// A value of a configuration as it is read.
pub fn written(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), crate::axis::exact),
        Value::Array(list) => list.iter().map(written).collect::<Vec<_>>().join(" "),
        Value::Object(_) => value.to_string(),
    }
}

/// The order of methods: by name, then by size, then by whatever else differs. Methods are equal only if nothing differs.
pub fn compare(a: &MethodRecord, b: &MethodRecord) -> Ordering {
    let sizes = match (a.size, b.size) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    a.name.cmp(&b.name).then(sizes).then_with(|| compare_variants(&a.variant, &b.variant))
}

fn compare_variants(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let text = |variant: &BTreeMap<String, Value>| serde_json::json!(variant).to_string();
    a.len().cmp(&b.len()).then_with(|| text(a).cmp(&text(b)))
}

/// What methods are called among some runs: what all runs of a method share is not said.
pub struct Names<'a> {
    /// Keys that differ among the runs of a method, by its name.
    differing: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    /// Among these runs.
    pub fn of(runs: &[&'a Run]) -> Self {
        let mut methods: BTreeMap<&str, Vec<&BTreeMap<String, Value>>> = BTreeMap::new();
        for run in runs {
            methods.entry(&run.method().name).or_default().push(&run.method().variant);
        }
        let differing = |variants: Vec<&'a BTreeMap<String, Value>>| {
            let keys = variants.iter().flat_map(|variant| variant.keys()).map(String::as_str);
            keys.filter(|key| variants.iter().any(|variant| variant.get(*key) != variants[0].get(*key))).collect()
        };
        Self { differing: methods.into_iter().map(|(name, variants)| (name, differing(variants))).collect() }
    }

    /// A method of one size.
    pub fn label(&self, method: &MethodRecord) -> String {
        self.with_variant(&method.label, method)
    }

    /// A method of all sizes.
    pub fn family(&self, method: &MethodRecord) -> String {
        self.with_variant(&method.family, method)
    }

    fn with_variant(&self, called: &str, method: &MethodRecord) -> String {
        let differs = |key: &str| self.differing.get(method.name.as_str()).is_some_and(|keys| keys.contains(key));
        let parts = method.variant.iter().filter(|(key, _)| differs(key)).map(|(key, value)| said(key, value));
        std::iter::once(called.to_owned()).chain(parts).collect::<Vec<_>>().join(", ")
    }
}
