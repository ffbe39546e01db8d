//! What runs show. So far what is written of them, all that figures and tables will ever read: a [`RunRecord`] of each run,
//! an [`AblationRecord`] of its adapters' removal, a [`StreamRecord`] of several tasks one after the other, and an
//! [`ExperimentRecord`] that says which of them belong together.
//!
//! This crate does not know Burn, so that it builds in seconds.
//!
//! ```
//! use analysis::{RunRecord, SCHEMA};
//!
//! let text = r#"{"schema": 1, "id": "0f", "status": "finished", "config": {"task": "cola"}, "fingerprints": {}, "software": {},
//!     "params": {"trained": 2, "total": 9, "backbone": 7, "groups": {"head": 2}}, "epochs": [], "best": null, "test": {},
//!     "measured": {"training_seconds": 1.5, "evaluation_seconds": 0.1, "tokens_per_second": 100.0, "peak_memory_bytes": null}}"#;
//! let record: RunRecord = serde_json::from_str(text).unwrap();
//! assert_eq!((record.schema, record.config["task"].as_str()), (SCHEMA, Some("cola")));
//! ```

mod ablation;
mod experiment;
mod record;
mod stream;

pub use ablation::{AblationRecord, SpanScore};
pub use experiment::{ExperimentRecord, FailedRun};
pub use record::{Best, Epoch, Measured, Params, RunRecord, SCHEMA, Status};
pub use stream::{Recall, Stage, StreamRecord};
