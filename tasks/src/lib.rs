//! What to solve: every task of the paper, or one of your own, from its files to its scores.
//!
//! A [`Task`] reads its original files into a [`Dataset`] or [`Questions`]; [`FileTask`] does so for any table. A
//! [`TokenCache`] makes word pieces of them once, [`Prefetch`] packs them into batches, a [`TaskModel`] puts a [`Head`]
//! on a shared backbone, [`loss`] says what to make small, and [`evaluate`] scores the outcome. It does not know how
//! runs are scheduled or stored.
//!
//! ```
//! use adapter_core::{AdapterConfig, Init, ParamCount, Tuning};
//! use bert_backbone::{Bert, BertConfig};
//! use burn::tensor::Device;
//! use tasks::{Head, HeadInput, TaskModel};
//!
//! let device = Device::flex();
//! let config = BertConfig::new(768, 12, 12);
//! let adapter = AdapterConfig::new(64);
//! let bert = Bert::random(&config, Init::new(0), &device)
//!     .unwrap()
//!     .insert(|place| adapter.init(place, 768, Init::new(0), &device));
//! let head = Head::new(768, 2, HeadInput::Cls, Init::new(0), &device);
//!
//! // Counted from the tensors' shapes: no weight is made.
//! let count = ParamCount::of(&TaskModel::new(bert, head).unwrap(), Tuning::Adapters);
//! assert_eq!(count.groups["adapters"], 24 * (2 * 64 * 768 + 768 + 64));
//! ```

mod additional;
mod answers;
mod batches;
mod catalog;
mod dataset;
mod evaluation;
mod file_task;
mod glue;
mod inference;
pub mod loss;
mod masking;
mod metrics;
mod model;
mod prefix;
mod prepared;
pub mod shuffle;
mod source;
mod squad;
mod submission;
pub mod synthetic;
mod tokenised;
mod windows;

pub use answers::score_answer;
pub use batches::{BatchConfig, NumberedBatch, Prefetch, epoch_batches, in_order};
pub use catalog::{Suite, Task, TaskData, nearest, tasks};
pub use dataset::{Dataset, Example, Target, TaskKind, UnknownKind, majority_accuracy};
pub use evaluation::{Prediction, evaluate, evaluate_answers};
pub use file_task::FileTask;
pub use inference::{by_sequence, outputs};
pub use masking::{MaskConfig, mask_tokens};
pub use metrics::{ConfusionMatrix, Metric, UnknownMetric, pearson, spearman};
pub use prefix::FrozenPrefix;
pub use prepared::{EvaluationSet, TrainingSet};
pub use source::{DataError, FilePlace};
pub use squad::{Answer, Question, Questions, SquadVersion, read_squad};
pub use submission::{SubmissionError, TestSet, submission_files, zip_submission};
pub use tokenised::{TokenCache, TokeniseError, Tokenised};
pub use windows::{AnswerConfig, WindowConfig, Windows, best_answers};

pub use model::{Head, HeadInput, ModelError, TaskModel, UnknownHeadInput};
