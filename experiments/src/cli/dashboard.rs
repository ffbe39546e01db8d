//! Burn's terminal dashboard around our own loop.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use analysis::Evaluation;
use anyhow::Result;
use burn::train::{
    Interrupter,
    logger::TrainingProgressLogger,
    metric::{MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry, SerializedEntry, format_float},
    renderer::{MetricState, MetricsRenderer, MetricsRendererTraining, tui::TuiMetricsRendererWrapper},
};

use crate::train::{Step, Stop, Watch};

/// Curves of scores, loss, learning rate, speed and adapters on the whole terminal; `q` and then `s` asks to stop.
pub struct Dashboard {
    label: String,
    /// Gone when the user killed it.
    renderer: Option<TuiMetricsRendererWrapper>,
    interrupter: Interrupter,
    stop: Stop,
    registered: BTreeSet<String>,
    /// The epoch that is shown, from 1.
    epoch: usize,
    /// Said when the terminal is ours again.
    notes: Vec<String>,
}

enum Split {
    Train,
    Validation,
}

impl Dashboard {
    /// Takes the terminal over for a run called `label`.
    pub fn new(label: &str, stop: Stop) -> Self {
        let interrupter = Interrupter::new();
        Self {
            label: label.to_owned(),
            renderer: Some(TuiMetricsRendererWrapper::new(interrupter.clone(), None)),
            interrupter,
            stop,
            registered: BTreeSet::new(),
            epoch: 0,
            notes: Vec::new(),
        }
    }

    /// Keeps a note for later.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Draws. Burn's renderer panics when the user kills it: for us that is a wish to stop.
    fn draw(&mut self, draw: impl FnOnce(&mut TuiMetricsRendererWrapper)) {
        let Some(mut renderer) = self.renderer.take() else { return };
        match catch_unwind(AssertUnwindSafe(|| draw(&mut renderer))) {
            Ok(()) => self.renderer = Some(renderer),
            Err(_) => {
                // Dropping it would panic again.
                std::mem::forget(renderer);
                let _ = self.stop.request();
            }
        }
        if self.interrupter.should_stop() {
            let _ = self.stop.request();
        }
        #[cfg(unix)]
        let_ctrl_c_through();
    }

    /// Gives a curve its place: they stand in the order in which they are first named.
    fn register(&mut self, name: &str) -> MetricId {
        let id = MetricId::new(Arc::new(name.to_owned()));
        if self.registered.insert(name.to_owned()) {
            let definition = MetricDefinition {
                metric_id: id.clone(),
                name: Arc::new(name.to_owned()),
                description: None,
                attributes: NumericAttributes { unit: None, higher_is_better: name != LOSS }.into(),
            };
            self.draw(|renderer| renderer.register_metric(definition));
        }
        id
    }

    fn show(&mut self, split: Split, name: &str, value: f64) {
        let id = self.register(name);
        let entry = MetricEntry::new(id, SerializedEntry::new(format_float(value, 4), value.to_string()));
        let state = MetricState::Numeric(entry, Some(NumericEntry::Value(value)));
        self.draw(|renderer| match split {
            Split::Train => renderer.update_train(state),
            Split::Validation => renderer.update_valid(state),
        });
    }
}

/// The dashboard's terminal gives keys as they are typed; Ctrl-C shall be a signal all the same.
#[cfg(unix)]
fn let_ctrl_c_through() {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    if let Ok(mut mode) = tcgetattr(&stdin)
        && !mode.local_modes.contains(LocalModes::ISIG)
    {
        mode.local_modes |= LocalModes::ISIG;
        // Without it `q` still stops.
        let _ = tcsetattr(&stdin, OptionalActions::Now, &mode);
    }
}

const LOSS: &str = "loss";

impl Watch for Dashboard {
    fn scored_by(&mut self, metrics: &[String]) {
        // What a run is judged by is seen without a search.
        metrics.iter().for_each(|metric| drop(self.register(metric)));
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let steps_of_epoch = step.of / step.epochs;
        if self.epoch != step.epoch {
            self.epoch = step.epoch;
            let label = self.label.clone();
            self.draw(|renderer| {
                renderer.start(step.epochs, step.epoch, Some(steps_of_epoch), Some(&label));
                renderer.start_split("train", steps_of_epoch);
            });
        }
        self.show(Split::Train, LOSS, step.loss);
        self.show(Split::Train, "learning rate", step.rate);
        self.show(Split::Train, "tokens per second", step.tokens_per_second);
        // A curve for each place would hide the others; files have all of them.
        if !step.deviations.is_empty() {
            let mean = step.deviations.values().sum::<f64>() / step.deviations.len() as f64;
            let largest = step.deviations.values().copied().fold(0.0, f64::max);
            self.show(Split::Train, "‖Δ‖/‖x‖, mean of all places", mean);
            self.show(Split::Train, "‖Δ‖/‖x‖, largest", largest);
        }
        self.draw(|renderer| renderer.update_split(step.step - (step.epoch - 1) * steps_of_epoch));
        Ok(())
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        for (metric, &score) in &evaluation.validation {
            self.show(Split::Validation, metric, score);
        }
        Ok(())
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Gives the terminal back.
        self.draw(|_| {});
        drop(self.renderer.take());
        self.notes.iter().for_each(|note| super::progress::Notes.note(note));
    }
}
