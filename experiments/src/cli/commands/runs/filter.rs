//! `--where`: which runs.

use std::{cmp::Ordering, str::FromStr};

use analysis::Listed;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::written;

/// A condition on a run, such as `task=cola` or `lr>1e-4`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    key: String,
    relation: Relation,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Is,
    IsNot,
    Below,
    Above,
}

impl FromStr for Condition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let relations = [("!=", Relation::IsNot), ("=", Relation::Is), ("<", Relation::Below), (">", Relation::Above)];
        let place = text.find(['!', '=', '<', '>']).with_context(|| format!("`{text}`: give KEY=VALUE"))?;
        let rest = &text[place..];
        let (sign, relation) = relations
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .with_context(|| format!("`{text}`: give KEY=VALUE, or !=, <, >"))?;
        let (key, value) = (text[..place].trim().to_owned(), rest[sign.len()..].trim().to_owned());
        ensure!(!key.is_empty(), "`{text}`: give KEY=VALUE");
        Ok(Self { key, relation, value })
    }
}

impl Condition {
    /// The key that it is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it holds. What a run does not say is neither more nor less than anything.
    pub fn holds(&self, run: &Listed) -> bool {
        let value = match self.key.as_str() {
            // By its name or by the name with its size.
            "method" if run.config.get("tuning").is_some_and(|name| written(name) == self.value) => {
                Some(Value::from(self.value.clone()))
            }
            key => run.value(key),
        };
        let said = value.map(|value| compare(&value, &self.value));
        match self.relation {
            Relation::Is => said == Some(Ordering::Equal),
            Relation::IsNot => said != Some(Ordering::Equal),
            Relation::Below => said == Some(Ordering::Less),
            Relation::Above => said == Some(Ordering::Greater),
        }
    }
}

/// Compares numbers as numbers, and everything else as it is written.
fn compare(value: &Value, text: &str) -> Ordering {
    match (value.as_f64(), text.parse::<f64>()) {
        (Some(value), Ok(number)) => value.total_cmp(&number),
        _ => written(value).as_str().cmp(text),
    }
}

/// The order of two values: numbers before words, what is missing last.
pub fn order(a: &Option<Value>, b: &Option<Value>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Greater,
        (_, None) => Ordering::Less,
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => written(a).cmp(&written(b)),
        },
    }
}

#[cfg(test)]
mod tests {
    use analysis::RunState;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("task=cola", true)]
    #[case("task!=cola", false)]
    #[case("lr>1e-4", true)]
    #[case("lr=0.001", true)]
    #[case("lr=1e-3", true)]
    #[case("lr<1e-3", false)]
    #[case("method=adapters", true)]
    #[case("method=adapters 8", true)]
    #[case("method=full", false)]
    #[case("matthews>0.5", true)]
    #[case("validation<0.5", false)]
    #[case("state=finished", true)]
    #[case("clip=1", false)]
    #[case("clip!=1", true)]
    fn conditions(#[case] condition: &str, #[case] holds: bool) {
        let run = Listed {
            id: "a".to_owned(),
            state: RunState::Finished,
            method: "adapters 8".to_owned(),
            metric: Some("matthews".to_owned()),
            validation: Some(0.6),
            test: None,
            trained: Some(7),
            seconds: Some(1.0),
            config: json!({"task": "cola", "lr": 1e-3, "tuning": "adapters"}).as_object().unwrap().clone(),
        };
        assert_eq!(condition.parse::<Condition>().unwrap().holds(&run), holds);
    }

    #[rstest]
    #[case("task")]
    #[case("=cola")]
    #[case("a!b")]
    fn nonsense(#[case] condition: &str) {
        assert!(condition.parse::<Condition>().is_err());
    }
}
