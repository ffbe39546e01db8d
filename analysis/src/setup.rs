//! A run and what its configuration says.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Examples, Kept, Measured, MethodRecord, Network, Params, RunRecord, Scored, Status, paper};

/// What figures and tables ask of a run. Its curves stay in its [record](crate::Store::records).
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The task.
    pub task: String,
    /// The backbone; empty for a run without one.
    pub backbone: String,
    /// The seed.
    pub seed: u64,
    /// How far it came.
    pub status: Status,
    /// The resolved configuration, the seed aside.
    pub config: Arc<Map<String, Value>>,
    /// What was trained.
    pub method: Arc<MethodRecord>,
    /// What went in beside the configuration.
    pub fingerprints: Arc<BTreeMap<String, String>>,
    /// Versions of what computed it.
    pub software: Arc<BTreeMap<String, String>>,
    /// Parameters.
    pub params: Arc<Params>,
    /// The evaluation that it reports.
    pub kept: Option<Scored>,
    /// Validation scores of the trivial answer: fractions.
    pub majority: Arc<BTreeMap<String, f64>>,
    /// Scores on further validation sets, by the name of their task: fractions.
    pub extra: BTreeMap<String, BTreeMap<String, f64>>,
    /// Scores on the test set: fractions.
    pub test: BTreeMap<String, f64>,
    /// How many examples it used.
    pub examples: Examples,
    /// The backbone's shapes.
    pub network: Network,
    /// Whatever depends on the clock or the host.
    pub measured: Measured,
    /// The task's metric.
    pub(crate) metric: Option<String>,
}

/// Parts that many runs have in common, each kept once.
#[derive(Default)]
pub(crate) struct Common {
    configs: Pool<Map<String, Value>>,
    methods: Pool<MethodRecord>,
    params: Pool<Params>,
    texts: Pool<BTreeMap<String, String>>,
    scores: Pool<BTreeMap<String, f64>>,
}

/// Values, by how they are written.
type Pool<T> = HashMap<String, Arc<T>>;

/// The value of a pool that is equal to this.
fn pooled<T: Serialize>(pool: &mut Pool<T>, value: T) -> Arc<T> {
    match serde_json::to_string(&value) {
        Ok(written) => pool.entry(written).or_insert_with(|| Arc::new(value)).clone(),
        Err(_) => Arc::new(value),
    }
}

/// The metric of a classification in most of the paper's figures.
pub const ACCURACY: &str = "accuracy";
/// The metric of questions.
pub const ANSWER_F1: &str = "answer_f1";

impl Run {
    /// What there is to ask of a record.
    ///
    /// # Errors
    /// The key of its configuration that is not there or not of the right kind.
    pub(crate) fn new(mut record: RunRecord, common: &mut Common) -> Result<Self, &'static str> {
        let text = |key| record.config.get(key).and_then(Value::as_str).map(str::to_owned);
        let none = (record.method.name == paper::NO_BERT).then(String::new);
        let (task, backbone) = (text("task").ok_or("task")?, text("backbone").or(none).ok_or("backbone")?);
        let seed = record.config.get("seed").and_then(Value::as_u64).ok_or("seed")?;
        record.config.remove("seed");
        Ok(Self {
            id: record.id,
            task,
            backbone,
            seed,
            status: record.status,
            metric: record.last.as_ref().or(record.best.as_ref()).map(|scored| scored.metric.clone()),
            config: pooled(&mut common.configs, record.config),
            method: pooled(&mut common.methods, record.method),
            fingerprints: pooled(&mut common.texts, record.fingerprints),
            software: pooled(&mut common.texts, record.software),
            params: pooled(&mut common.params, record.params),
            kept: match record.kept {
                Kept::Last => record.last,
                Kept::Best => record.best,
            },
            majority: pooled(&mut common.scores, record.majority),
            extra: record.extra,
            test: record.test,
            examples: record.examples,
            network: record.network,
            measured: record.measured,
        })
    }

    /// What was trained.
    pub fn method(&self) -> &MethodRecord {
        &self.method
    }

    /// A value of the configuration, the seed aside; `None` if the key is not there or null.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.config.get(key).filter(|value| !value.is_null())
    }

    /// A number of the configuration.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// Whether its loss was not finite. It then counts as the trivial answer.
    pub fn is_diverged(&self) -> bool {
        self.status == Status::Diverged
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
        self.kept.as_ref()?.validation.get(metric).copied().filter(|score| score.is_finite())
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

    /// The score on a further validation set in the task's metric: a fraction. Of a run that diverged it is the trivial answer's
    /// on the task's own, because no record holds another.
    pub fn extra(&self, set: &str) -> Option<f64> {
        if self.is_diverged() {
            return self.validation();
        }
        self.extra.get(set)?.get(self.metric()?).copied().filter(|score| score.is_finite())
    }

    /// The trivial answer's validation score: a fraction.
    ///
    /// Where that answer is "no" for every example, its F1 is 0 by definition. The other constant answer then has a better one,
    /// which follows from the share of "yes" among the examples.
    pub fn trivial(&self, metric: &str) -> Option<f64> {
        let of = |metric: &str| self.majority.get(metric).copied().filter(|score| score.is_finite());
        match (of(metric)?, of(ACCURACY)) {
            (0.0, Some(accuracy)) if metric == "f1" => Some(2.0 * (1.0 - accuracy) / (2.0 - accuracy)),
            (score, _) => Some(score),
        }
    }

    /// The test score in the task's metric, where the test set's labels are known: a fraction. Of a run that diverged it is
    /// the trivial answer's validation score, because no record holds its test score.
    pub fn test(&self) -> Option<f64> {
        if self.is_diverged() {
            return (self.examples.test > 0).then(|| self.validation())?;
        }
        self.test.get(self.metric()?).copied().filter(|score| score.is_finite())
    }

    /// Trained parameters.
    pub fn trained(&self) -> usize {
        self.params.trained
    }

    /// Trained parameters as a share of the backbone's.
    pub fn trained_share(&self) -> f64 {
        self.trained() as f64 / self.params.backbone.max(1) as f64
    }

    /// How many epochs it was trained for, in words.
    pub(crate) fn epochs(&self) -> Option<String> {
        let one = self.number("epochs") == Some(1.0);
        Some(format!("{} {}", written(self.value("epochs")?), if one { "epoch" } else { "epochs" }))
    }

    /// In a few words, for a list of runs.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.method().label.clone()];
        parts.extend(self.method().variant.iter().map(|(key, value)| said(key, value)));
        parts.extend(self.number("lr").map(|lr| format!("lr {lr:e}")));
        parts.extend(self.epochs());
        parts.push(format!("seed {}", self.seed));
        parts.extend(self.is_diverged().then(|| "diverged".to_owned()));
        parts.join(", ")
    }
}

/// A configuration as a text that is the same for the same values: 1 and 1.0 are, and so are null and nothing. The seed is no
/// part of it.
pub fn configuration(run: &Run) -> String {
    let keys = run.config.iter().filter(|(_, value)| !value.is_null());
    keys.map(|(key, value)| format!("{key}={}\n", same(value))).collect()
}

/// A value whose numbers are all written alike.
pub fn same(value: &Value) -> Value {
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
