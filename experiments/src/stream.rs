//! Tasks one after the other over one backbone: what is remembered, and what is forgotten.

use std::{rc::Rc, sync::Arc};

use adapter_core::{Adapter, NoInsertion, TaskFile, Tuning};
use analysis::{Recall, SCHEMA, Stage, StreamRecord};
use anyhow::{Context, Result, ensure};
use bert_backbone::Backbone;
use tasks::{EvaluationSet, Head, Metric, TaskModel, outputs};

use crate::{progress::Progress, run_config::RunConfig, runner::Runner, sweep::when_free};

/// A task that was learnt.
struct Learnt {
    task: String,
    metric: Metric,
    score: f64,
    file: TaskFile,
    head: Head,
    validation: EvaluationSet,
    /// What the model said of every validation example.
    outputs: Vec<Vec<f32>>,
    batch_size: usize,
}

/// Learns the tasks of `runs` in their order and evaluates all earlier ones again after each.
///
/// Adapters and heads are put on the backbone and taken off again: it stays as it was. Every other tuning changes the
/// backbone itself, and the next task begins with what the one before left; what an earlier task keeps is its head.
///
/// # Errors
/// If the runs do not belong together, or one of them fails.
pub fn stream(
    runner: &mut Runner<'_>,
    runs: &[RunConfig],
    mut progress: impl FnMut(&RunConfig) -> Progress,
) -> Result<StreamRecord> {
    let first = runs.first().context("a stream needs tasks")?;
    let begun = runner.backbone(&first.backbone)?;
    let mut backbone = begun.clone();
    let (mut stages, mut learnt): (Vec<Stage>, Vec<Learnt>) = (Vec::new(), Vec::new());
    let mut total = 0;
    for config in runs {
        let together = (config.tuning, config.seed) == (first.tuning, first.seed);
        ensure!(together && !learnt.iter().any(|other| other.task == config.task), "a stream has each task once");
        let ran = when_free(|| runner.run_on(&backbone, config, &mut progress(config)))?;
        let (record, file) = (&ran.record, runner.trained(&ran)?);
        let best = record.best.as_ref().context("a finished run has a best evaluation")?;
        let model = TaskModel::load(&backbone, file.clone(), runner.device())?;
        let keeps_backbone = matches!(config.tuning, Tuning::Adapters | Tuning::HeadOnly);
        if !keeps_backbone {
            let name = format!("{}+{}", backbone.name, file.info.task);
            backbone = Rc::new(backbone.with_weights(name, model.bert().clone().insert(|_| NoInsertion)));
        }
        let mut task = Learnt {
            task: config.task.clone(),
            metric: best.metric.parse()?,
            score: best.validation[&best.metric],
            head: model.head().clone(),
            file,
            validation: runner.validation(config, &backbone)?,
            outputs: Vec::new(),
            batch_size: 2 * config.batch_size,
        };
        task.outputs = task.say(&model, &backbone, runner)?;
        learnt.push(task);

        total += match (keeps_backbone, stages.is_empty()) {
            (true, true) => record.params.backbone + record.params.trained,
            (true, false) => record.params.trained,
            (false, true) => record.params.total,
            (false, false) => record.params.total - record.params.backbone,
        };
        let recall = learnt.iter().map(|task| task.recall(&backbone, keeps_backbone, runner));
        stages.push(Stage {
            task: config.task.clone(),
            run: record.id.clone(),
            trained: record.params.trained,
            total,
            recall: recall.collect::<Result<_>>()?,
        });
    }
    let ids: Vec<&str> = stages.iter().map(|stage| stage.run.as_str()).collect();
    Ok(StreamRecord {
        schema: SCHEMA,
        id: blake3::hash(ids.join(" ").as_bytes()).to_hex()[..16].to_owned(),
        backbone: begun.name.clone(),
        tuning: first.tuning.to_string(),
        seed: first.seed,
        stages,
    })
}

impl Learnt {
    /// Evaluates the task again with the backbone as it is now.
    fn recall(&self, backbone: &Backbone, keeps_backbone: bool, runner: &Runner<'_>) -> Result<Recall> {
        let model = match keeps_backbone {
            true => TaskModel::load(backbone, self.file.clone(), runner.device())?,
            false => TaskModel::new(backbone.bert.clone().insert(|_| None::<Adapter>), self.head.clone())?,
        };
        let now = self.say(&model, backbone, runner)?;
        let bits = |rows: &[Vec<f32>]| rows.iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
        Ok(Recall {
            task: self.task.clone(),
            metric: self.metric.to_string(),
            then: self.score,
            now: self.validation.score(&now)[&self.metric],
            identical: bits(&now) == bits(&self.outputs),
        })
    }

    fn say(
        &self,
        model: &TaskModel<Option<Adapter>>,
        backbone: &Backbone,
        runner: &Runner<'_>,
    ) -> Result<Vec<Vec<f32>>> {
        let tokens = Arc::clone(self.validation.tokens());
        let model = runner.precision().of(model.clone());
        Ok(outputs(&model, &tokens, &backbone.config, self.batch_size, runner.device())?)
    }
}
