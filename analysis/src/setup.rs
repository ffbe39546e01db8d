//! What a run's configuration says, as far as figures and tables ask.

use std::fmt;

use serde_json::{Map, Value};

use crate::RunRecord;

/// What is trained.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Adapters with a bottleneck of this width, the LayerNorms and the head.
    Adapters(usize),
    /// The highest layers, this many, and the head.
    Top(usize),
    /// The LayerNorms and the head.
    LayerNorm,
    /// The head.
    Head,
    /// Every bias and the head.
    Bias,
    /// Everything.
    Full,
    /// Something that this program does not know.
    Other(String),
}

impl Method {
    fn of(config: &Map<String, Value>) -> Option<Self> {
        let tuning = config.get("tuning")?.as_str()?;
        Some(match tuning {
            "adapters" => Method::Adapters(config.get("adapter")?.get("size")?.as_u64()? as usize),
            "full" => Method::Full,
            "layer-norm" => Method::LayerNorm,
            "head" => Method::Head,
            "bias" => Method::Bias,
            other => match other.strip_prefix("top-").and_then(|k| k.parse().ok()) {
                Some(k) => Method::Top(k),
                None => Method::Other(other.to_owned()),
            },
        })
    }

    /// The width of the adapters, where there are any.
    pub fn adapter_size(&self) -> Option<usize> {
        match self {
            Method::Adapters(size) => Some(*size),
            _ => None,
        }
    }

    /// How many layers are trained, for top-k.
    pub fn top_layers(&self) -> Option<usize> {
        match self {
            Method::Top(k) => Some(*k),
            _ => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Adapters(size) => write!(f, "adapters {size}"),
            Method::Top(k) => write!(f, "top {k}"),
            Method::LayerNorm => f.write_str("LayerNorm only"),
            Method::Head => f.write_str("head only"),
            Method::Bias => f.write_str("biases only"),
            Method::Full => f.write_str("full fine-tuning"),
            Method::Other(name) => f.write_str(name),
        }
    }
}

/// A run and what its configuration says.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was written of it.
    pub record: RunRecord,
    /// The task.
    pub task: String,
    /// The backbone.
    pub backbone: String,
    /// What was trained.
    pub method: Method,
    /// What differs from the paper's adapter, its size and σ aside; empty for the paper's own.
    pub variant: String,
    /// σ of the adapters' initial weights, where there are adapters.
    pub init_std: Option<f64>,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Passes over the training set.
    pub epochs: u64,
    /// The seed.
    pub seed: u64,
}

impl Run {
    /// Reads the configuration of a record. The error names the key that is not there or not of the right kind.
    pub fn new(record: RunRecord) -> Result<Self, &'static str> {
        let config = &record.config;
        let text = |key| config.get(key).and_then(Value::as_str).map(str::to_owned);
        let adapter = config.get("adapter");
        Ok(Self {
            task: text("task").ok_or("task")?,
            backbone: text("backbone").ok_or("backbone")?,
            method: Method::of(config).ok_or("tuning")?,
            variant: adapter.map(variant).unwrap_or_default(),
            init_std: adapter.and_then(|adapter| adapter.get("init_std")?.as_f64()),
            learning_rate: config.get("learning_rate").and_then(Value::as_f64).ok_or("learning_rate")?,
            epochs: config.get("epochs").and_then(Value::as_u64).ok_or("epochs")?,
            seed: config.get("seed").and_then(Value::as_u64).ok_or("seed")?,
            record,
        })
    }

    /// The metric that the run was chosen by.
    pub fn metric(&self) -> Option<&str> {
        self.record.best.as_ref().map(|best| best.metric.as_str())
    }

    /// The validation score of the best evaluation: a fraction.
    pub fn validation(&self) -> Option<f64> {
        let best = self.record.best.as_ref()?;
        best.validation.get(&best.metric).copied().filter(|score| score.is_finite())
    }

    /// Validation accuracy at the best evaluation, for a classification.
    pub fn accuracy(&self) -> Option<f64> {
        self.record.best.as_ref()?.validation.get("accuracy").copied()
    }

    /// The test score in the same metric, where the test set's labels are known: a fraction.
    pub fn test(&self) -> Option<f64> {
        self.record.test.get(self.metric()?).copied().filter(|score| score.is_finite())
    }

    /// Trained parameters as a share of the backbone's.
    pub fn trained_share(&self) -> f64 {
        self.record.params.trained as f64 / self.record.params.backbone.max(1) as f64
    }

    /// In a few words, for a list of runs.
    pub fn summary(&self) -> String {
        let mut text = self.method.to_string();
        if !self.variant.is_empty() {
            text += &format!(", {}", self.variant);
        }
        if let Some(sigma) = self.init_std {
            text += &format!(", σ {sigma:e}");
        }
        format!("{text}, lr {:e}, {} epochs, seed {}", self.learning_rate, self.epochs, self.seed)
    }
}

/// What differs from the paper's adapter.
fn variant(adapter: &Value) -> String {
    let paper = [
        ("sites", serde_json::json!(["attention", "feed-forward"])),
        ("activation", "gelu".into()),
        ("depth", 1.into()),
        ("norm", "none".into()),
        ("placement", "serial".into()),
        ("interaction", "additive".into()),
        ("layer_sizes", serde_json::json!([])),
    ];
    let said = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<String> =
                list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
            items.join(" ")
        }
        other => other.to_string(),
    };
    let differs = paper.iter().filter_map(|(key, usual)| {
        let value = adapter.get(key)?;
        (value != usual).then(|| format!("{} {}", key.replace('_', " "), said(value)))
    });
    differs.collect::<Vec<_>>().join(", ")
}
