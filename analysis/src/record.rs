//! What is written of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the record's form.
pub const SCHEMA: u32 = 2;

/// A run: its configuration, what it ran on, and what came out.
///
/// Everything but [`measured`](Self::measured) is the same to the bit whenever the run is repeated on the same kind of
/// device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of this form.
    pub schema: u32,
    /// A hash of the configuration, the fingerprints, the kind of device and the version of the arithmetic.
    pub id: String,
    /// Whether the run came to its end, or its loss was not finite.
    pub status: Status,
    /// The resolved configuration, flat: the keys of an experiment file, those of the method among them.
    pub config: Map<String, Value>,
    /// What was trained.
    pub method: MethodRecord,
    /// What went in beside the configuration: hashes of `backbone`, `data` and `tokenizer`; the network's `dropout`, the
    /// kind of `device` it was started on, the version of the `numerics`, the `dtype` unless it is f32.
    pub fingerprints: BTreeMap<String, String>,
    /// Its moves from one kind of device to another, if it was resumed elsewhere; it is then not the same to the bit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// Steps that were not taken because their gradients overflowed half precision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_steps: usize,
    /// Versions of what computed it.
    pub software: BTreeMap<String, String>,
    /// Parameters.
    pub params: Params,
    /// Every evaluation, one at least at each epoch's end.
    #[serde(rename = "epochs")]
    pub evaluations: Vec<Evaluation>,
    /// The evaluation with the best validation score.
    pub best: Option<Scored>,
    /// The last evaluation; `None` if the run diverged before the first.
    pub last: Option<Scored>,
    /// Which of the two the run reports: its file, its test scores and its figures.
    #[serde(default)]
    pub kept: Kept,
    /// Validation scores of the trivial answer, every metric: the most frequent class of the training set, the mean for a
    /// regression, no answer for spans. Fractions.
    pub majority: BTreeMap<String, f64>,
    /// Scores of the kept model on further validation sets, by the name of their task: fractions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, BTreeMap<String, f64>>,
    /// Scores of the kept model on the test set, where its labels are known: fractions.
    pub test: BTreeMap<String, f64>,
    /// How many examples it used.
    pub examples: Examples,
    /// Training losses, thinned: a step, and the mean since the point before.
    #[serde(default)]
    pub loss_curve: Vec<(usize, f64)>,
    /// The backbone's shapes.
    #[serde(default)]
    pub network: Network,
    /// Whatever depends on the clock or the host.
    pub measured: Measured,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A run that went on on another kind of device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Steps taken before.
    pub step: usize,
    /// The device until then.
    pub from: String,
    /// The device from then on.
    pub to: String,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// To its end.
    Finished,
    /// Until its loss was not finite: it counts as the trivial answer.
    Diverged,
}

/// The evaluation that a run reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// The last, as in the paper.
    #[default]
    Last,
    /// The best on the validation set.
    Best,
}

/// How many examples a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examples {
    /// To train on.
    pub train: usize,
    /// To validate on.
    pub validation: usize,
    /// To test on: those whose labels are known.
    pub test: usize,
}

/// The shapes of a backbone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Layers.
    pub layers: usize,
    /// Width of a token.
    pub hidden: usize,
    /// Attention heads of a layer.
    pub heads: usize,
    /// Width inside the feed-forward sub-layer.
    pub intermediate: usize,
}

/// A method of tuning, as far as figures and tables ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodRecord {
    /// Its name: the value of `tuning`.
    pub name: String,
    /// What it is called with its size, such as "adapters 64".
    pub label: String,
    /// Its place among methods of its name: the adapters' size, the number of layers.
    pub size: Option<f64>,
    /// The key of the configuration that the size is.
    pub size_key: Option<String>,
    /// What a series over its sizes is called, such as "adapters (by size)".
    pub family: String,
    /// Keys of its configuration that differ from its defaults, the size aside.
    pub variant: BTreeMap<String, Value>,
}

/// Parameters of a tuned model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params {
    /// Trained for the task.
    pub trained: usize,
    /// Of the whole model.
    pub total: usize,
    /// Of the backbone.
    pub backbone: usize,
    /// Whether tasks share one backbone. Not if each needs one of its own, as with full fine-tuning.
    pub shared_backbone: bool,
    /// `trained`, by group.
    pub groups: BTreeMap<String, usize>,
}

/// An evaluation: at the end of an epoch, or in the middle of one where the run asks for more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The epoch's number, from 1.
    pub epoch: usize,
    /// Steps taken since the beginning.
    pub steps: usize,
    /// Mean training loss since the evaluation before.
    pub loss: f64,
    /// Scores on the validation set: fractions.
    pub validation: BTreeMap<String, f64>,
}

/// An evaluation that stands for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Its epoch's number, from 1.
    pub epoch: usize,
    /// Steps taken until then.
    pub steps: usize,
    /// The task's metric, by which runs are chosen.
    pub metric: String,
    /// Its scores on the validation set: fractions.
    pub validation: BTreeMap<String, f64>,
}

/// What depends on the clock or the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time of training, evaluation not included.
    pub training_seconds: f64,
    /// Time of evaluation.
    pub evaluation_seconds: f64,
    /// Processor time of both, over all threads: on a machine that is shared it says more than the clock.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// Tokens trained on in a second.
    pub tokens_per_second: f64,
    /// The process's largest memory, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// How often it was interrupted and continued.
    #[serde(default)]
    pub resumes: usize,
    /// Width of the processor's vectors, on which the last bits of sums depend; unknown on other devices.
    #[serde(default)]
    pub vector_bits: Option<usize>,
    /// Threads that computed it, where it was a CPU.
    #[serde(default)]
    pub threads: Option<usize>,
}

impl Measured {
    /// Time of training without what the run waited for other work on its core, where that can be told: one thread on a CPU takes
    /// as long as its processor time.
    pub fn computing_seconds(&self) -> f64 {
        self.computing_share() * self.training_seconds
    }

    /// How much of its time the run itself computed: 1 where that cannot be told.
    pub fn computing_share(&self) -> f64 {
        let seconds = self.training_seconds + self.evaluation_seconds;
        let computed = self.cpu_seconds.filter(|_| self.threads == Some(1) && seconds > 0.0);
        computed.map_or(1.0, |computed| (computed / seconds).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_shared_core(Some(40.0), Some(1), 20.0)]
    #[case::a_core_of_its_own(Some(81.0), Some(1), 40.0)]
    #[case::several_threads(Some(40.0), Some(2), 40.0)]
    #[case::another_device(Some(40.0), None, 40.0)]
    #[case::an_old_record(None, Some(1), 40.0)]
    fn what_a_run_waited_for_others_is_not_its_computing(
        #[case] cpu_seconds: Option<f64>,
        #[case] threads: Option<usize>,
        #[case] expected: f64,
    ) {
        let measured =
            Measured { training_seconds: 40.0, evaluation_seconds: 40.0, cpu_seconds, threads, ..Measured::default() };
        assert_eq!(measured.computing_seconds(), expected);
    }

    #[test]
    fn a_run_that_took_no_time_computed_all_of_it() {
        let measured = Measured { cpu_seconds: Some(0.0), threads: Some(1), ..Measured::default() };
        assert_eq!(measured.computing_share(), 1.0);
    }
}
