//! Tasks one after the other over one backbone: what is remembered, and what is forgotten.

use std::{rc::Rc, sync::Arc, thread};

use adapter_core::TaskFile;
use analysis::{Recall, SCHEMA, Stage, StreamRecord};
use anyhow::{Context, Result, ensure};
use bert_backbone::Backbone;
use tasks::EvaluationSet;

use crate::{
    lab::{AnyModel, Inference},
    run::{BUSY_PAUSE, RunConfig, Runner, kept_evaluation},
    train::{Ended, RunError, Silent, SweepWatch},
};

/// A task that was learnt.
struct Learnt {
    task: String,
    metric: String,
    score: f64,
    file: TaskFile,
    /// As it was when it was learnt.
    model: Box<dyn AnyModel>,
    validation: EvaluationSet,
    /// What the model said of every validation example.
    outputs: Vec<Vec<f32>>,
    batch_size: usize,
}

/// Learns the tasks of `runs` in their order and evaluates all earlier ones again after each.
///
/// What a method trains is put on the backbone for its task and taken off again: the backbone stays as it was. A method that
/// trains all of the backbone changes the backbone itself, and the next task starts with what the one before left; what an
/// earlier task keeps is its head.
///
/// # Errors
/// If the runs do not belong together, or one of them fails.
pub fn stream(
    runner: &mut Runner<'_>,
    runs: &[RunConfig],
    watch: &mut dyn SweepWatch,
) -> Result<StreamRecord, RunError> {
    let first = runs.first().context("a stream needs tasks")?;
    let start = runner.backbone(&first.backbone, &mut *watch.run(&first.describe(runner.lab())))?;
    let mut backbone = start.clone();
    let (mut stages, mut learnt): (Vec<Stage>, Vec<Learnt>) = (Vec::new(), Vec::new());
    let mut total = 0;
    for config in runs {
        check(config, first, &learnt)?;
        let label = config.describe(runner.lab());
        let run = loop {
            match runner.run_on(&backbone, config, &mut *watch.run(&label)) {
                Err(RunError::Busy { .. }) if !runner.stop().requested() => thread::sleep(BUSY_PAUSE),
                ended => break ended?,
            }
        };
        let (done, before) = (stages.len() + 1, run.was_finished());
        watch.ended(Ended { done, of: runs.len(), label: &label, result: Ok(&run.record), before });
        let (record, file) = (&run.record, runner.trained(&run)?);
        let kept = kept_evaluation(record).context("the run diverged: a stream cannot continue from it")?;
        let model = runner.lab().load(&backbone, file.clone(), runner.device())?;
        let shared = record.params.shared_backbone;
        if !shared {
            let name = format!("{}+{}", backbone.name, file.info.task);
            backbone = Rc::new(backbone.with_weights(name, model.bert()));
        }
        let mut task = Learnt {
            task: config.task.clone(),
            metric: kept.metric.clone(),
            score: kept.validation[&kept.metric],
            file,
            model,
            validation: runner.validation(config, &backbone, &mut Silent)?,
            outputs: Vec::new(),
            batch_size: 2 * config.train.batch_size,
        };
        task.outputs = task.outputs(&*task.model, &backbone, runner)?;
        learnt.push(task);

        total += match (shared, stages.is_empty()) {
            (true, true) => record.params.backbone + record.params.trained,
            (true, false) => record.params.trained,
            (false, true) => record.params.total,
            (false, false) => record.params.total - record.params.backbone,
        };
        let recall = learnt.iter().map(|task| task.recall(&backbone, shared, runner));
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
        backbone: start.name.clone(),
        tuning: first.tuning.clone(),
        seed: first.train.seed,
        stages,
    })
}

fn check(config: &RunConfig, first: &RunConfig, learnt: &[Learnt]) -> Result<()> {
    let together = (&config.tuning, config.train.seed) == (&first.tuning, first.train.seed);
    ensure!(together && !learnt.iter().any(|other| other.task == config.task), "a stream has each task once");
    Ok(())
}

impl Learnt {
    /// Evaluates the task again with the backbone as it is now.
    fn recall(&self, backbone: &Backbone, shared: bool, runner: &Runner<'_>) -> Result<Recall> {
        let model = if shared {
            runner.lab().load(backbone, self.file.clone(), runner.device())?
        } else {
            self.model.on(backbone.bert.clone())?
        };
        let now = self.outputs(&*model, backbone, runner)?;
        let bits = |rows: &[Vec<f32>]| rows.iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
        Ok(Recall {
            task: self.task.clone(),
            metric: self.metric.clone(),
            then: self.score,
            now: self.validation.score(&now)[&self.metric],
            identical: bits(&now) == bits(&self.outputs),
        })
    }

    fn outputs(&self, model: &dyn AnyModel, backbone: &Backbone, runner: &Runner<'_>) -> Result<Vec<Vec<f32>>> {
        let tokens = Arc::clone(self.validation.tokens());
        let model = model.boxed_clone().in_precision(runner.precision());
        let how = Inference { network: &backbone.config, batch_size: self.batch_size, device: runner.device() };
        model.outputs(&tokens, how)
    }
}
