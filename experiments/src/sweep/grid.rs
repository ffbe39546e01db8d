//! The runs that an experiment stands for.

use std::path::Path;

use adapter_core::MethodError;
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::BertConfig;
use serde_json::Value;
use tasks::Task;

use super::{Experiment, Suite, experiment::Series};
use crate::{
    lab::{Keys, Lab},
    run::{RunConfig, file_options, resolve},
    search::{Search, search_options},
};

/// The shape of the backbone called so, and whether it has a pooler.
pub type BackboneShape<'a> = dyn Fn(&str) -> Result<(BertConfig, bool)> + 'a;

/// The runs of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// In the order in which they are run: all of a task together.
    pub runs: Vec<RunConfig>,
    /// Tasks of a suite whose data is not there.
    pub missing: Vec<String>,
    /// Points for which the backbone is too small, and why.
    pub too_large: Vec<String>,
}

impl Experiment {
    /// Every run; `shape` knows the backbones. Tasks of a suite (`task = "glue"`) whose files are not under `data` are left
    /// out, and so are points of a list for which the backbone is too small.
    ///
    /// # Errors
    /// If a run makes no sense.
    pub fn grid(&self, lab: &Lab, shape: &BackboneShape<'_>, data: &Path) -> Result<Grid> {
        let mut grid = Grid::default();
        for series in &self.series {
            let Series { keys, .. } = series;
            let backbone = keys.get("backbone").and_then(Value::as_str);
            let (network, has_pooler) =
                shape(backbone.context("give --backbone: a name of `list backbones`, or a folder")?)?;
            let network = &network;
            let mut points = Vec::new();
            let tasks =
                keys.get("task").map(|tasks| self.task_names(lab, tasks, data, &mut grid.missing)).transpose()?;
            for task in tasks.unwrap_or_else(|| vec![Value::Null]) {
                let mut keys = task.as_str().map_or_else(|| keys.clone(), |task| series.of_task(lab, task));
                keys.insert("task".to_owned(), task);
                keys.retain(|_, value| !value.is_null());
                points.extend(expand(lab, &keys, network)?);
            }
            let (of, mut refused) = (points.len(), Vec::new());
            for mut point in points {
                if let Some(epochs) = paper_epochs(lab, &point)? {
                    point.insert("epochs".to_owned(), epochs.into());
                }
                match resolve(lab, &point, network, has_pooler) {
                    Ok(run) if grid.runs.contains(&run) => {}
                    Ok(run) => grid.runs.push(run),
                    Err(error) => match error.downcast_ref::<MethodError>() {
                        Some(MethodError::TooLarge(reason)) => refused.push(reason.clone()),
                        _ => return Err(error),
                    },
                }
            }
            ensure!(of == 0 || refused.len() < of, "{}", refused.first().map_or("", String::as_str));
            grid.too_large.extend(refused);
        }
        grid.too_large.sort();
        grid.too_large.dedup();
        let mut order: Vec<String> = Vec::new();
        for run in &grid.runs {
            if !order.contains(&run.task) {
                order.push(run.task.clone());
            }
        }
        grid.runs.sort_by_key(|run| order.iter().position(|task| *task == run.task));
        Ok(grid)
    }

    /// The searches of an experiment that is one, and the tasks whose data is not there.
    ///
    /// # Errors
    /// If a search makes no sense.
    pub fn searches(&self, lab: &Lab, data: &Path) -> Result<(Vec<Search>, Vec<String>)> {
        let (mut searches, mut missing) = (Vec::new(), Vec::new());
        for series in &self.series {
            let tasks = series.keys.get("task").context("a search needs a task")?;
            for task in self.task_names(lab, tasks, data, &mut missing)? {
                let task = task.as_str().context("task: a name is needed")?.to_owned();
                let keys = series.of_task(lab, &task);
                let options = search_options(&keys)?;
                options.check()?;
                searches.push(Search::new(lab, &task, file_options(&keys)?, options));
            }
        }
        Ok((searches, missing))
    }

    /// The tasks of a value: names, or suites with those of their tasks whose data is there.
    fn task_names(&self, lab: &Lab, value: &Value, data: &Path, missing: &mut Vec<String>) -> Result<Vec<Value>> {
        let named = match value {
            Value::Array(list) => list.clone(),
            value => vec![value.clone()],
        };
        let stand_in = |task: &Task| lab.tasks.stand_in(task, self.suite.stand_ins()?);
        let mut names: Vec<Value> = Vec::new();
        for name in named {
            let text = name.as_str().context("task: a name is needed")?;
            if !lab.tasks.suites().contains(&text) || lab.tasks.find(text).is_ok() {
                let stand_in = lab.tasks.find(text).ok().and_then(stand_in);
                names.push(stand_in.map_or(name.clone(), |task| task.name.clone().into()));
                continue;
            }
            // The paper leaves WNLI out (§3.2); MNLI-mm is MNLI's model, scored on another set.
            for task in
                lab.tasks.suite(text).into_iter().filter(|task| !["wnli", "mnli-mm"].contains(&task.name.as_str()))
            {
                let present = || task.is_present(data);
                if let Some(stand_in) = stand_in(task) {
                    names.push(stand_in.name.clone().into());
                } else if self.suite != Suite::Paper && task.needs_data() {
                    // The built-in language has no such task.
                } else if present() {
                    names.push(task.name.clone().into());
                } else if !missing.contains(&task.name) {
                    missing.push(task.name.clone());
                }
            }
        }
        Ok(names)
    }
}

/// Points of the largest grid.
const LARGEST: usize = 100_000;

/// Every point of a grid: a list stands for its values.
fn expand(lab: &Lab, keys: &Keys, network: &BertConfig) -> Result<Vec<Keys>> {
    let mut points = vec![Keys::new()];
    for (key, value) in keys {
        let values = match (key.as_str(), value) {
            // A key that takes a list needs a list of lists to be a grid.
            (key, Value::Array(list)) if takes_list(lab, key) && !list.iter().all(Value::is_array) => {
                vec![value.clone()]
            }
            (_, Value::Array(list)) => list.clone(),
            (key, Value::String(all)) if all == "all" => all_values(lab, key, keys.get("tuning"), network)?,
            (_, value) => vec![value.clone()],
        };
        let with = |point: &Keys, value: &Value| {
            let mut point = point.clone();
            point.insert(key.clone(), value.clone());
            point
        };
        let many = points.len().saturating_mul(values.len());
        ensure!(many <= LARGEST, "{key}: with it the grid has {many} points, and {LARGEST} at most are run");
        points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    Ok(points)
}

/// Whether a key's value is itself a list.
fn takes_list(lab: &Lab, key: &str) -> bool {
    lab.own_keys().get(key).is_some_and(|key| key.defaults.iter().any(Value::is_array))
}

/// The values that `key = "all"` stands for, as one of the series' own methods says.
fn all_values(lab: &Lab, key: &str, tuning: Option<&Value>, network: &BertConfig) -> Result<Vec<Value>> {
    let is_named = |name: &str| match tuning {
        Some(Value::Array(names)) => names.iter().any(|known| known == name),
        Some(known) => known == name,
        None => name == lab.default_method(),
    };
    let shape = network.shape();
    let methods = lab.methods().filter(|method| is_named(method.name()));
    let values = methods.map(|method| method.all(key, &shape)).find(|values| !values.is_empty());
    values.with_context(|| match key {
        "limit" | "limit_validation" => format!("{key} = \"all\": write \"none\" to keep all examples"),
        _ => format!("{key} = \"all\": no method of this series says what that stands for"),
    })
}

/// The epochs that the paper gives for a task (§3.3), where a point asks for them.
fn paper_epochs(lab: &Lab, point: &Keys) -> Result<Option<usize>> {
    let asked = match point.get("epochs").and_then(Value::as_str) {
        Some(asked) if asked.starts_with("paper") => asked,
        _ => return Ok(None),
    };
    let task = lab.tasks.find(point.get("task").and_then(Value::as_str).unwrap_or_default())?;
    let epochs = task.paper_epochs.with_context(|| {
        format!("epochs = \"{asked}\": the paper gives none for `{}`; say how many, by --set epochs=N", task.name)
    })?;
    Ok(Some(match asked {
        "paper-fine-tuning" => epochs.fine_tuning,
        "paper-adapters" => epochs.adapters,
        _ => bail!("epochs = \"{asked}\": give a number, \"paper-fine-tuning\" or \"paper-adapters\""),
    }))
}
