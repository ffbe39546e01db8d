//! What to solve: every task of the paper, or one of your own, from its files to its scores.
//!
//! [`Tasks`] knows every [`Task`] of the paper and takes a program's own; [`Metrics`] does the same for every [`Metric`].
//! A task reads its original files into a [`Dataset`] or [`Questions`]; [`FileTask`] does so for any table. A
//! [`TokenCache`] makes word pieces of them once, [`Prefetch`] packs them into batches, a [`TaskModel`] puts a [`Head`]
//! on a shared backbone, [`loss`] says what to make small, and [`Metrics::evaluate`] scores the outcome. It does not
//! know how runs are scheduled or stored.
//!
//! ```
//! use adapter_core::{AdapterConfig, Init, ParamCount};
//! use bert_backbone::{Bert, BertConfig};
//! use burn::tensor::Device;
//! use tasks::{Head, HeadInput, TaskModel};
//!
//! let device = Device::flex();
//! let config = BertConfig::new(768, 12, 12);
//! let adapter = AdapterConfig::new(64);
//! let bert = Bert::random(&config, Init::new(0), &device).unwrap();
//! let head = Head::new(&config.shape(), 2, HeadInput::Cls, Init::new(0), &device);
//! let model = TaskModel::tuned(&adapter, bert, head, Init::new(0), &device).unwrap();
//!
//! // Counted from the tensors' shapes: no weight is made.
//! let count = ParamCount::of(&model, &adapter);
//! assert_eq!(count.groups["adapters"], 24 * (2 * 64 * 768 + 768 + 64));
//! ```

mod additional;
mod answers;
mod batches;
mod catalog;
mod dataset;
mod evaluation;
mod file_task;
mod fingerprint;
mod glue;
mod head;
mod home;
mod hub_task;
mod inference;
pub mod loss;
mod masking;
mod metrics;
mod model;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
mod prefix;
mod sets;
pub mod shuffle;
mod source;
mod squad;
mod statistics;
mod submission;
pub mod synthetic;
mod task;
mod tokenised;
mod windows;

pub use adapter_core::nearest;
pub use answers::score_answer;
pub use batches::{BatchConfig, NumberedBatch, Prefetch, epoch_batches, in_order};
pub use catalog::Tasks;
pub use dataset::{Dataset, Example, Target, TaskKind, UnknownKind, majority_accuracy};
pub use evaluation::{Prediction, evaluate, evaluate_answers};
pub use file_task::FileTask;
pub use home::{DataFetchError, FetchedTask, Home};
pub use hub_task::HubTask;
pub use inference::{by_sequence, outputs};
pub use masking::{MaskConfig, mask_tokens};
pub use metrics::{Judged, Metric, MetricError, Metrics, Scores};
pub use prefix::{FrozenPrefix, PrefixError};
pub use sets::{EvaluationSet, SetError, TrainingSet};
pub use source::{DataError, FilePlace};
pub use squad::{Answer, Question, Questions, SquadVersion, read_squad};
pub use statistics::{ConfusionMatrix, pearson, spearman};
pub use submission::{SubmissionError, TestSet, submission_files, zip_submission};
pub use task::{PaperEpochs, Task, TaskData, TaskSource};
pub use tokenised::{TokenCache, TokeniseError, Tokenised};
pub use windows::{AnswerConfig, WindowConfig, Windows, best_answers};

pub use head::{Head, HeadInput, HeadKind, Heads, TwoLayerHead, UnknownHead};
pub use model::{ModelError, TaskModel};
