//! What to solve: a task's model is a shared backbone, what a tuning makes trainable in it, and a head.
//!
//! [`TaskModel`] puts a [`Head`] on a [`Bert`](bert_backbone::Bert) and says what each of its tensors is, so that
//! every [`Tuning`](adapter_core::Tuning), the parameter count and the per-task file work on it. It does not know
//! how runs are scheduled or stored.
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

mod model;

pub use model::{Head, HeadInput, ModelError, TaskModel, UnknownHeadInput};
