//! An experiment: a short file that stands for a grid of runs.

use std::{collections::BTreeMap, fmt, path::Path, str::FromStr};

use adapter_core::read_file;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tasks::nearest;

use crate::{
    lab::{Keys, Lab, PARTS},
    run::{Layers, is_own_data},
};

/// Bytes of the longest experiment file.
const LARGEST: u64 = 16 << 20;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A small grid on part of the data, to see the shape of a result.
    #[default]
    Quick,
    /// Real data on a small real BERT, with three seeds wherever a verdict rests on them: all presets take most of a day on two cores.
    Desk,
    /// The runs of `Desk`, and more seeds, rates, sizes, layers and tasks.
    Wide,
    /// The paper's grid.
    Paper,
}

impl Scale {
    /// Every scale, the smallest first.
    pub const ALL: [Scale; 4] = [Scale::Quick, Scale::Desk, Scale::Wide, Scale::Paper];

    /// The parts of an experiment's file that apply at this scale, the lowest first.
    fn parts(self, suite: Suite) -> &'static [&'static str] {
        match (self, suite) {
            (Scale::Quick, Suite::Paper) => &["quick"],
            (Scale::Quick, Suite::Synthetic | Suite::Tuning) => &["quick", "synthetic"],
            (Scale::Desk, _) => &["desk"],
            (Scale::Wide, _) => &["desk", "wide"],
            (Scale::Paper, _) => &[],
        }
    }
}

/// Which tasks an experiment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The paper's, from their files.
    Paper,
    /// Those over the built-in language that take their place.
    Synthetic,
    /// The same with other examples to validate by, to choose settings.
    Tuning,
}

impl Suite {
    /// The default for a backbone: `nano` knows only the built-in language.
    pub fn of_backbone(name: &str) -> Self {
        if name == "nano" { Suite::Synthetic } else { Suite::Paper }
    }

    /// What the tasks' own suite is called, where they take the place of the paper's.
    pub(super) fn stand_ins(self) -> Option<&'static str> {
        match self {
            Suite::Paper => None,
            Suite::Synthetic => Some("synthetic"),
            Suite::Tuning => Some("tuning"),
        }
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
    /// There are none: classifiers without BERT are drawn from a space, trained and compared.
    Search,
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
named!(Scale, Scale::Quick, Scale::Desk, Scale::Wide, Scale::Paper);
named!(Suite, Suite::Paper, Suite::Synthetic, Suite::Tuning);
named!(ExperimentKind, ExperimentKind::Train, ExperimentKind::Ablate, ExperimentKind::Stream, ExperimentKind::Search);

/// A part of a file.
struct Layer {
    /// What it is called.
    name: String,
    keys: Keys,
    /// What differs on some tasks.
    by_task: BTreeMap<String, Keys>,
}

/// Takes a key out of `keys` that is not a run's.
fn take_own<T: DeserializeOwned + Default>(keys: &mut Keys, key: &str) -> Result<T> {
    let Some(value) = keys.remove(key) else { return Ok(T::default()) };
    T::deserialize(&value).with_context(|| format!("{key} = {value}"))
}

/// Takes a part out of `keys`.
fn take(keys: &mut Keys, part: &str) -> Result<Option<Keys>> {
    match keys.remove(part) {
        Some(Value::Object(own)) => Ok(Some(own)),
        Some(other) => bail!("{part} = {other}: it needs keys"),
        None => Ok(None),
    }
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
    /// Options of Slurm's jobs.
    pub slurm: Keys,
    /// What differs between the methods that are compared.
    pub(super) series: Vec<Series>,
}

/// A series of an experiment, its layers merged.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Its keys; a list is a grid.
    pub keys: Keys,
    /// What differs on some tasks.
    pub by_task: BTreeMap<String, Keys>,
    /// What each part of the file says, the lowest first.
    pub said: Vec<(String, Keys)>,
}

impl Series {
    /// Its keys for a task, however that is spelled.
    pub fn of_task(&self, lab: &Lab, task: &str) -> Keys {
        let known = lab.tasks.find(task).map_or(task, |task| &task.name);
        let mut keys = self.keys.clone();
        keys.extend(self.by_task.get(known).cloned().unwrap_or_default());
        keys
    }
}

/// The part of an experiment file, or of one of its parts, that says what differs on some tasks.
const BY_TASK: &str = "by_task";

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
                let hint = || format!("cannot read {name}");
                let bytes = read_file(Path::new(name), LARGEST).with_context(hint)?;
                let text = String::from_utf8(bytes).with_context(hint)?;
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
        let mut keys = Layers::parse(text)?;
        let (about, kind) = (take_own(&mut keys, "about")?, take_own(&mut keys, "kind")?);
        // Options of Slurm's jobs; what differs between the methods that are compared.
        let (slurm, series): (Keys, Vec<Keys>) = (take_own(&mut keys, "slurm")?, take_own(&mut keys, "series")?);
        let layers = Layers::new(lab);
        let check = |keys: &Keys| keys.iter().try_for_each(|(key, value)| layers.check(key, value, "the file"));
        // A layer, and what it says of some tasks.
        let by_task = |name: String, mut keys: Keys| -> Result<Layer> {
            let mut by_task = BTreeMap::new();
            for (task, own) in take(&mut keys, BY_TASK)?.unwrap_or_default() {
                let Value::Object(own) = own else { bail!("{BY_TASK}.{task} = {own}: it needs keys") };
                check(&own)?;
                let known = if is_own_data(&task) { task } else { lab.tasks.find(&task)?.name.clone() };
                by_task.insert(known, own);
            }
            check(&keys)?;
            Ok(Layer { name, keys, by_task })
        };
        // What is said, and above it what some scales say; all is checked, whichever of it applies.
        let divided = |name: &str, mut keys: Keys| -> Result<Vec<Layer>> {
            let mut applying = Vec::new();
            for part in PARTS {
                let own = take(&mut keys, part)?.map(|own| by_task(format!("{name}, [{part}]"), own)).transpose()?;
                applying.extend(own.filter(|_| scale.parts(suite).contains(&part)));
            }
            applying.insert(0, by_task(name.to_owned(), keys)?);
            Ok(applying)
        };
        let common = divided("the file", keys)?;
        let series = if series.is_empty() { vec![Keys::new()] } else { series };
        let series = series.into_iter().map(|own| {
            let own = divided("its series", own)?;
            let layers: Vec<&Layer> = common.iter().chain(&own).collect();
            let merged: Vec<&Keys> = layers.iter().map(|layer| &layer.keys).chain(above.iter().copied()).collect();
            let mut by_task: BTreeMap<String, Keys> = BTreeMap::new();
            for (task, own) in layers.iter().flat_map(|layer| &layer.by_task) {
                by_task.entry(task.clone()).or_default().extend(own.clone());
            }
            // What is said from outside holds for every task.
            by_task.values_mut().for_each(|own| own.retain(|key, _| !above.iter().any(|keys| keys.contains_key(key))));
            let said = layers.iter().map(|layer| (layer.name.clone(), layer.keys.clone())).collect();
            Ok(Series { keys: crate::run::merge(&merged), by_task, said })
        });
        Ok(Self {
            name: name.to_owned(),
            preset: false,
            about,
            kind,
            suite,
            slurm,
            series: series.collect::<Result<_>>()?,
        })
    }

    /// What each of its series says, part by part, the lowest first; and what differs on some tasks.
    pub fn said(&self) -> impl Iterator<Item = (&[(String, Keys)], &BTreeMap<String, Keys>)> {
        self.series.iter().map(|series| (series.said.as_slice(), &series.by_task))
    }
}
