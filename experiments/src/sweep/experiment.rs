//! An experiment: a short file that stands for a grid of runs.

use std::{fmt, path::Path, str::FromStr};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tasks::nearest;

use crate::{
    lab::{Keys, Lab},
    run::Layers,
};

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A small grid on part of the data, to see the shape of a result.
    #[default]
    Quick,
    /// The paper's grid.
    Paper,
}

/// Which tasks an experiment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The paper's, from their files.
    Paper,
    /// Those over the built-in language that take their place.
    Synthetic,
}

impl Suite {
    /// The default for a backbone: `nano` knows only the built-in language.
    pub fn of_backbone(name: &str) -> Self {
        if name == "nano" { Suite::Synthetic } else { Suite::Paper }
    }
}

/// What is done with the runs of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentKind {
    /// They are trained.
    #[default]
    Train,
    /// They are trained, and then what was inserted is removed from every span of layers.
    Ablate,
    /// They are trained one after the other over one backbone, and the earlier tasks evaluated again after each.
    Stream,
}

/// A name that is none of those.
#[derive(Debug, thiserror::Error)]
#[error("unknown name `{0}`")]
pub struct UnknownName(String);

/// Names of an enum that serde writes as one word.
macro_rules! named {
    ($type:ty, $($value:expr),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{self:?}").to_lowercase())
            }
        }
        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(name: &str) -> Result<Self, Self::Err> {
                [$($value),+].into_iter().find(|value| value.to_string() == name).ok_or_else(|| UnknownName(name.to_owned()))
            }
        }
    };
}
named!(Scale, Scale::Quick, Scale::Paper);
named!(Suite, Suite::Paper, Suite::Synthetic);
named!(ExperimentKind, ExperimentKind::Train, ExperimentKind::Ablate, ExperimentKind::Stream);

/// An experiment as it is written down.
#[derive(Deserialize)]
struct ExperimentFile {
    #[serde(default)]
    about: String,
    #[serde(default)]
    kind: ExperimentKind,
    /// What differs between the methods that are compared.
    #[serde(default)]
    series: Vec<Keys>,
    /// What differs at quick scale; a series can have its own.
    #[serde(default)]
    quick: Keys,
    /// What differs on synthetic tasks at quick scale; a series can have its own.
    #[serde(default)]
    synthetic: Keys,
    /// What all have in common.
    #[serde(flatten)]
    keys: Keys,
}

/// An experiment, its layers merged.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: a preset's, or that of its file.
    pub name: String,
    /// Whether it is one of the program's own presets.
    pub preset: bool,
    /// What it shows.
    pub about: String,
    /// What is done with its runs.
    pub kind: ExperimentKind,
    /// Which tasks it is about.
    pub suite: Suite,
    /// Keys by series; a list is a grid.
    pub(super) series: Vec<Keys>,
}

impl Experiment {
    /// Reads a preset, or a file of the same form. `above` are the layers above it, the lowest first.
    ///
    /// # Errors
    /// If there is no such experiment, or it says what makes no sense.
    pub fn load(lab: &Lab, name: &str, scale: Scale, suite: Suite, above: &[&Keys]) -> Result<Self> {
        let preset = lab.presets().iter().find(|preset| preset.name == name);
        let (text, name, preset) = match preset {
            Some(preset) => (preset.text.clone(), name.to_owned(), true),
            None if name.contains(['.', '/']) => {
                let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
                let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                // A file never takes the place of a preset, whose figures are the paper's.
                let taken = lab.presets().iter().any(|preset| preset.name == stem);
                (text, if taken { format!("own-{stem}") } else { stem }, false)
            }
            None => {
                let known: Vec<&str> = lab.presets().iter().map(|preset| preset.name.as_str()).collect();
                match nearest(name, known.iter().copied()) {
                    Some(nearest) => bail!("no experiment `{name}`; did you mean `{nearest}`?"),
                    None => bail!("no experiment `{name}`; known are {}, or give a .toml file", known.join(", ")),
                }
            }
        };
        let experiment = Self::parse(lab, &text, &name, scale, suite, above);
        Ok(Self { preset, ..experiment.with_context(|| format!("experiment `{name}`"))? })
    }

    fn parse(lab: &Lab, text: &str, name: &str, scale: Scale, suite: Suite, above: &[&Keys]) -> Result<Self> {
        let file: ExperimentFile = serde_json::from_value(Value::Object(Layers::parse(text)?))?;
        let layers = Layers::new(lab);
        let (is_quick, is_synthetic) = (scale == Scale::Quick, scale == Scale::Quick && suite == Suite::Synthetic);
        let only = |applies: bool, keys: Keys| if applies { keys } else { Keys::new() };
        let (quick, synthetic) = (only(is_quick, file.quick), only(is_synthetic, file.synthetic));
        let check = |keys: &Keys| keys.iter().try_for_each(|(key, value)| layers.check(key, value, "the file"));
        [&file.keys, &quick, &synthetic].into_iter().try_for_each(check)?;
        let series = if file.series.is_empty() { vec![Keys::new()] } else { file.series };
        let series = series.into_iter().map(|mut own| {
            let mut part = |part: &str| match own.remove(part) {
                Some(Value::Object(keys)) => Ok(keys),
                Some(other) => bail!("{part} = {other}: it needs keys"),
                None => Ok(Keys::new()),
            };
            let (own_quick, own_synthetic) = (only(is_quick, part("quick")?), only(is_synthetic, part("synthetic")?));
            [&own, &own_quick, &own_synthetic].into_iter().try_for_each(check)?;
            let mut merged = vec![&file.keys, &quick, &synthetic, &own, &own_quick, &own_synthetic];
            merged.extend(above);
            crate::run::merge(&merged)
        });
        Ok(Self {
            name: name.to_owned(),
            preset: false,
            about: file.about,
            kind: file.kind,
            suite,
            series: series.collect::<Result<_>>()?,
        })
    }
}
