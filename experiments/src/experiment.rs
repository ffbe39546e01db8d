//! An experiment: a short file that stands for a grid of runs.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use bert_backbone::BertConfig;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tasks::{Suite, Task, nearest, tasks};

use crate::{
    layers::{self, Keys},
    run_config::RunConfig,
};

/// The experiments of the paper, by name.
pub const PRESETS: [(&str, &str); 11] = [
    ("table1", include_str!("../presets/table1.toml")),
    ("table2", include_str!("../presets/table2.toml")),
    ("fig3", include_str!("../presets/fig3.toml")),
    ("fig4", include_str!("../presets/fig4.toml")),
    ("fig5", include_str!("../presets/fig5.toml")),
    ("fig6-spans", include_str!("../presets/fig6-spans.toml")),
    ("fig6-init", include_str!("../presets/fig6-init.toml")),
    ("fig7", include_str!("../presets/fig7.toml")),
    ("sizes", include_str!("../presets/sizes.toml")),
    ("variants", include_str!("../presets/variants.toml")),
    ("stream", include_str!("../presets/stream.toml")),
];

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A small grid on part of the data, to see the shape of a result
    #[default]
    Quick,
    /// The paper's grid
    Paper,
}

/// Which tasks an experiment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Tasks {
    /// The paper's, from their files
    Paper,
    /// Those over the built-in language that take their place
    Synthetic,
}

impl Tasks {
    /// The default for a backbone: `nano` knows only the built-in language.
    pub fn of_backbone(name: &str) -> Self {
        if name == "nano" { Tasks::Synthetic } else { Tasks::Paper }
    }
}

/// What is done with the runs of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// They are trained.
    #[default]
    Train,
    /// They are trained, and then their adapters are removed from every span of layers.
    Ablate,
    /// They are trained one after the other over one backbone, and the earlier tasks evaluated again after each.
    Stream,
}

/// An experiment as it is written down.
#[derive(Deserialize)]
struct ExperimentFile {
    #[serde(default)]
    about: String,
    #[serde(default)]
    kind: Kind,
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
    /// What it shows.
    pub about: String,
    /// What is done with its runs.
    pub kind: Kind,
    /// Which tasks it is about.
    pub tasks: Tasks,
    /// Keys by series; a list is a grid.
    series: Vec<Keys>,
}

/// The runs of an experiment.
#[derive(Clone, Debug)]
pub struct Grid {
    /// In the order in which they are run: all of a task together.
    pub runs: Vec<RunConfig>,
    /// Tasks of a suite whose data is not there.
    pub missing: Vec<&'static str>,
    /// Values of `k` that are more than the backbone's layers.
    pub too_high: Vec<u64>,
}

impl Experiment {
    /// Reads a preset, or a file of the same form. `above` are the layers above it, the lowest first.
    ///
    /// # Errors
    /// If there is no such experiment, or it says what makes no sense.
    pub fn load(name: &str, scale: Scale, tasks: Tasks, above: &[&Keys]) -> Result<Self> {
        let (text, name) = match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((_, text)) => (text.to_string(), name.to_owned()),
            None if name.contains(['.', '/']) => {
                let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
                (text, Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned())
            }
            None => {
                let known: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                match nearest(name, known.iter().copied()) {
                    Some(nearest) => bail!("no experiment `{name}`; did you mean `{nearest}`?"),
                    None => bail!("no experiment `{name}`; known are {}, or give a .toml file", known.join(", ")),
                }
            }
        };
        Self::parse(&text, &name, scale, tasks, above).with_context(|| format!("experiment `{name}`"))
    }

    fn parse(text: &str, name: &str, scale: Scale, tasks: Tasks, above: &[&Keys]) -> Result<Self> {
        let file: ExperimentFile = serde_json::from_value(Value::Object(layers::parse(text)?))?;
        let defaults = layers::defaults()?;
        let (is_quick, is_synthetic) = (scale == Scale::Quick, scale == Scale::Quick && tasks == Tasks::Synthetic);
        let only = |applies: bool, keys: Keys| if applies { keys } else { Keys::new() };
        let (quick, synthetic) = (only(is_quick, file.quick), only(is_synthetic, file.synthetic));
        let check = |keys: &Keys| keys.iter().try_for_each(|(key, value)| layers::check(key, value, name));
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
            let mut merged = vec![&defaults, &file.keys, &quick, &synthetic, &own, &own_quick, &own_synthetic];
            merged.extend(above);
            layers::merge(&merged)
        });
        Ok(Self {
            name: name.to_owned(),
            about: file.about,
            kind: file.kind,
            tasks,
            series: series.collect::<Result<_>>()?,
        })
    }

    /// The backbone that all runs share.
    ///
    /// # Errors
    /// If none is given, or several.
    pub fn backbone(&self) -> Result<String> {
        let named = self.series.iter().filter_map(|keys| keys.get("backbone"));
        let mut names: Vec<&str> =
            named.map(|name| name.as_str().context("one backbone is needed")).collect::<Result<_>>()?;
        names.dedup();
        match names[..] {
            [name] => Ok(name.to_owned()),
            [] => bail!("give --backbone: a name of `list backbones`, or a folder"),
            _ => bail!("an experiment has one backbone, not {}", names.join(" and ")),
        }
    }

    /// Every run, on a backbone of this shape. Tasks of a suite (`task = "glue"`) whose files are not under `data` are left
    /// out.
    ///
    /// # Errors
    /// If a run makes no sense.
    pub fn grid(&self, network: &BertConfig, has_pooler: bool, data: Option<&Path>) -> Result<Grid> {
        let mut grid = Grid { runs: Vec::new(), missing: Vec::new(), too_high: Vec::new() };
        for keys in &self.series {
            let mut points = vec![Keys::new()];
            for (key, value) in keys {
                let values = match (key.as_str(), value) {
                    ("task", value) => task_names(value, self.tasks, data, &mut grid.missing)?,
                    ("k", Value::String(all)) if all == "all" => {
                        (1..=network.num_hidden_layers).map(Value::from).collect()
                    }
                    // The paper's values of k are for 12 layers; a smaller network has fewer.
                    ("k", Value::Array(list)) => {
                        let layers = network.num_hidden_layers as u64;
                        let too_high = |k: &Value| k.as_u64().filter(|&k| k > layers);
                        grid.too_high.extend(list.iter().filter_map(too_high));
                        let fit: Vec<Value> = list.iter().filter(|k| too_high(k).is_none()).cloned().collect();
                        ensure!(!fit.is_empty(), "k = {value}: the backbone has {layers} layers");
                        fit
                    }
                    (_, Value::Array(list)) => list.clone(),
                    (_, value) => vec![value.clone()],
                };
                let with = |point: &Keys, value: &Value| {
                    let mut point = point.clone();
                    point.insert(key.clone(), value.clone());
                    point
                };
                points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
            }
            for mut point in points {
                if point.get("tuning").is_some_and(|tuning| tuning != "top-k") {
                    point.remove("k");
                }
                if point.get("epochs").is_some_and(|epochs| epochs == "paper") {
                    point.insert("epochs".to_owned(), paper_epochs(&point)?.into());
                }
                let run = layers::options(&point)?.resolve(network, has_pooler)?;
                if !grid.runs.contains(&run) {
                    grid.runs.push(run);
                }
            }
        }
        grid.too_high.sort_unstable();
        grid.too_high.dedup();
        let mut order: Vec<String> = Vec::new();
        for run in &grid.runs {
            if !order.contains(&run.task) {
                order.push(run.task.clone());
            }
        }
        grid.runs.sort_by_key(|run| order.iter().position(|task| *task == run.task));
        Ok(grid)
    }
}

/// The tasks of a value: names, or suites with those of their tasks whose data is there.
fn task_names(value: &Value, which: Tasks, data: Option<&Path>, missing: &mut Vec<&'static str>) -> Result<Vec<Value>> {
    let named = match value {
        Value::Array(list) => list.clone(),
        value => vec![value.clone()],
    };
    let mut names: Vec<Value> = Vec::new();
    for name in named {
        let suite = [Suite::Glue, Suite::Additional].into_iter().find(|suite| name == suite.to_string().as_str());
        let Some(suite) = suite else {
            let stand_in = name.as_str().and_then(|name| Task::find(name).ok()?.stand_in());
            names.push(stand_in.filter(|_| which == Tasks::Synthetic).map_or(name, |task| task.name.into()));
            continue;
        };
        if which == Tasks::Synthetic {
            let stand_in = |task: Task| Some(task.stand_in()?.name.into());
            names.extend(tasks().into_iter().filter(|task| task.suite == suite).filter_map(stand_in));
            continue;
        }
        // The paper leaves WNLI out (§3.2).
        for task in tasks().into_iter().filter(|task| task.suite == suite && task.name != "wnli") {
            match data.is_some_and(|data| task.is_present(data)) {
                true => names.push(task.name.into()),
                false if missing.contains(&task.name) => {}
                false => missing.push(task.name),
            }
        }
    }
    Ok(names)
}

/// The epochs that the paper gives for a task (§3.3).
fn paper_epochs(point: &Keys) -> Result<usize> {
    let task = Task::find(point.get("task").and_then(Value::as_str).unwrap_or_default())?;
    let epochs = task.paper_epochs.with_context(|| format!("the paper gives no epochs for `{}`", task.name))?;
    let adapters = point.get("tuning").is_some_and(|tuning| tuning == "adapters");
    Ok(epochs[usize::from(adapters)])
}
