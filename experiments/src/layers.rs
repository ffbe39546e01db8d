//! Layered configuration: each layer says what it knows, and a later one wins.

use anyhow::{Context, Result, bail, ensure};
use config::{Config, File, FileFormat};
use serde_json::{Map, Value};
use tasks::nearest;

use crate::options::Options;

/// Keys with their values; a list stands for a run with each of its values.
pub type Keys = Map<String, Value>;

/// Environment variables that begin with this are a layer.
const PREFIX: &str = "ADAPTER_LAB_";

/// Variables that are options of commands, not of runs.
const NOT_OF_RUNS: [&str; 4] = ["DATA", "CACHE", "DEVICE", "PIP"];

/// The lowest layer.
pub fn defaults() -> Result<Keys> {
    parse(include_str!("../defaults.toml")).context("the built-in defaults")
}

/// Reads a layer in TOML.
pub fn parse(text: &str) -> Result<Keys> {
    Ok(Config::builder().add_source(File::from_str(text, FileFormat::Toml)).build()?.try_deserialize()?)
}

/// The environment variables that are meant for us.
///
/// # Errors
/// If one of them is no text.
pub fn variables() -> Result<Vec<(String, String)>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| name.starts_with(PREFIX));
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => bail!("{name}: its value is not UTF-8"),
    })
    .collect()
}

/// The layer of environment variables: `ADAPTER_LAB_BATCH_SIZE=16` is `batch_size = 16`.
pub fn environment(variables: impl IntoIterator<Item = (String, String)>) -> Result<Keys> {
    let mut keys = Keys::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !NOT_OF_RUNS.contains(rest)) else { continue };
        let (key, value) = (rest.to_lowercase(), read(&value));
        check(&key, &value, &name)?;
        keys.insert(key, value);
    }
    Ok(keys)
}

/// The layer of `--set KEY=VALUE`.
pub fn assignments(texts: &[String]) -> Result<Keys> {
    let mut keys = Keys::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else { bail!("--set {text}: give KEY=VALUE") };
        let (key, value) = (key.trim(), read(value.trim()));
        check(key, &value, "--set")?;
        keys.insert(key.to_owned(), value);
    }
    Ok(keys)
}

/// The layer of options that were given as flags.
pub fn flags(options: &Options) -> Result<Keys> {
    for (name, value) in [("lr", options.lr), ("init-std", options.init_std), ("clip", options.clip)] {
        ensure!(value.is_none_or(f64::is_finite), "--{name}: a finite number is needed");
    }
    let Value::Object(mut keys) = serde_json::to_value(options)? else { bail!("options are an object") };
    keys.retain(|_, value| !value.is_null());
    Ok(keys)
}

/// All layers as one, the lowest first.
pub fn merge(layers: &[&Keys]) -> Result<Keys> {
    let mut builder = Config::builder();
    for &layer in layers {
        builder = builder.add_source(Config::try_from(layer)?);
    }
    Ok(builder.build()?.try_deserialize()?)
}

/// Refuses a key that is no option of a run, and suggests the nearest that is; and a value that says nothing. `place` is
/// where it was said.
pub fn check(key: &str, value: &Value, place: &str) -> Result<()> {
    let Value::Object(known) = serde_json::to_value(Options::default())? else { bail!("options are an object") };
    if known.contains_key(key) {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        ensure!(!values.is_empty(), "{place}: {key} = [] leaves nothing to run");
        // What JSON cannot write is not a number.
        ensure!(!values.contains(&Value::Null), "{place}: {key} needs finite numbers");
        return Ok(());
    }
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    match nearest(key, known.iter().copied()) {
        Some(nearest) => bail!("{place}: unknown key `{key}`; did you mean `{nearest}`?"),
        None => bail!("{place}: unknown key `{key}`; known are {}", known.join(", ")),
    }
}

/// The options of one run.
pub fn options(keys: &Keys) -> Result<Options> {
    for (key, value) in keys {
        // Each alone, so that the error can say which.
        let alone = Keys::from_iter([(key.clone(), value.clone())]);
        let read: serde_json::Result<Options> = serde_json::from_value(Value::Object(alone));
        read.with_context(|| format!("{key} = {value}"))?;
    }
    Ok(serde_json::from_value(Value::Object(keys.clone()))?)
}

/// A value as TOML writes it, or a list of values divided by commas, or a text.
fn read(text: &str) -> Value {
    let toml = |text: &str| parse(&format!("value = {text}")).ok().and_then(|mut keys| keys.remove("value"));
    toml(text).unwrap_or_else(|| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match inner.contains(',') {
            true => inner.split(',').map(|part| read(part.trim())).collect(),
            false => Value::String(inner.to_owned()),
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
        let variables = [("ADAPTER_LAB_EPOCHS", "5"), ("ADAPTER_LAB_LR", "1e-3"), ("ADAPTER_LAB_DATA", "/data")];
        let environment = environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
        let set = assignments(&["lr=3e-3".to_owned()]).unwrap();
        let merged = options(&merge(&[&defaults().unwrap(), &environment, &set]).unwrap()).unwrap();
        assert_eq!((merged.epochs, merged.lr, merged.batch_size), (Some(5), Some(3e-3), Some(32)));
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest() {
        let error = |text: &str| assignments(&[text.to_owned()]).unwrap_err().to_string();
        assert_eq!(error("adapter_sise=8"), "--set: unknown key `adapter_sise`; did you mean `adapter_size`?");
        assert!(error("colour=red").contains("known are accumulate, "), "{}", error("colour=red"));
        assert!(error("epochs").contains("give KEY=VALUE"));
        let variable = [("ADAPTER_LAB_EPOCH".to_owned(), "5".to_owned())];
        let error = environment(variable).unwrap_err().to_string();
        assert_eq!(error, "ADAPTER_LAB_EPOCH: unknown key `epoch`; did you mean `epochs`?");
    }

    #[rstest]
    fn what_is_no_number_is_refused(#[values("lr=nan", "clip=inf", "lr=1e-3,nan", "seed=[]")] text: &str) {
        assert!(assignments(&[text.to_owned()]).is_err());
    }

    #[test]
    fn a_flag_that_is_no_number_is_refused() {
        assert!(flags(&Options { lr: Some(f64::NAN), ..Options::default() }).is_err());
        assert!(flags(&Options { clip: Some(f64::INFINITY), ..Options::default() }).is_err());
    }

    #[rstest]
    #[case("epochs=many", "epochs = \"many\"")]
    #[case("epochs=2.5", "epochs = 2.5")]
    #[case("norm=batches", "expected one of `none`, `layer`, `batch`")]
    fn a_value_of_the_wrong_kind_is_named_with_its_key(#[case] text: &str, #[case] expected: &str) {
        let error = format!("{:#}", options(&assignments(&[text.to_owned()]).unwrap()).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }

    /// Whatever a command reads from the environment must not stop a run.
    #[test]
    fn variables_of_commands_are_no_keys_of_runs() {
        fn variables(command: &clap::Command) -> Vec<(String, String)> {
            let own = command.get_arguments().filter_map(|argument| argument.get_env());
            let own = own.map(|name| (name.to_string_lossy().into_owned(), "x".to_owned()));
            own.chain(command.get_subcommands().flat_map(variables)).collect()
        }
        let variables = variables(&<crate::Cli as clap::CommandFactory>::command());
        assert!(variables.iter().any(|(name, _)| name == "ADAPTER_LAB_DEVICE"));
        assert!(environment(variables).unwrap().is_empty());
    }
}
