//! Names of the files and folders that runs are kept in.

/// What came out of a run: a [`RunRecord`](crate::RunRecord). It is written last, so a run that has one is finished.
pub const RECORD: &str = "record.json";
/// How a run was started.
pub const RUN: &str = "run.json";
/// The state of a run that is under way.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The trained parameters v.
pub const PARAMETERS: &str = "v.safetensors";
/// What each step did, one JSON document a line.
pub const STEPS: &str = "steps.jsonl";
/// Held by the process that computes the run.
pub const LOCK: &str = "lock";
/// Beside the lock, for machines that do not see each other's: `claim-` and a number, whose process that is, and a point for each
/// heartbeat.
pub const CLAIM: &str = "claim-";
/// Scores without the adapters of spans of layers: an [`AblationRecord`](crate::AblationRecord).
pub const ABLATION: &str = "ablation.json";

/// Sub-folder of the runs' folder: an [`ExperimentRecord`](crate::ExperimentRecord) for each experiment.
pub const EXPERIMENTS: &str = "experiments";
/// Sub-folder of the runs' folder: a [`StreamRecord`](crate::StreamRecord) for each stream.
pub const STREAMS: &str = "streams";
/// Sub-folder of the runs' folder: what processes print.
pub const LOGS: &str = "logs";
/// Sub-folder of the runs' folder: what TensorBoard reads, a folder for each run.
pub const TENSORBOARD: &str = "tensorboard";
/// Sub-folder of the runs' folder: a folder for each piece of work that several processes share.
pub const QUEUES: &str = "queues";

/// Whether a folder of this name in a folder of runs may be a run: these sub-folders are not.
pub fn is_run(name: &str) -> bool {
    ![EXPERIMENTS, STREAMS, LOGS, TENSORBOARD, QUEUES].contains(&name)
}
