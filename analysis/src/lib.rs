//! What runs show: figures, tables and a page from the records of runs, and nothing else.
//!
//! `experiments` writes the records: a [`RunRecord`] of each run, an [`AblationRecord`] of its adapters' removal, a
//! [`StreamRecord`] of several tasks one after the other, and an [`ExperimentRecord`] that says which of them belong
//! together. [`write_report`] reads a folder of them; a [`Store`] is such a folder, a [`Finding`] a verdict on one of the
//! paper's findings. This crate does not know Burn.
//!
//! ```
//! let runs = tempfile::tempdir()?;
//! let out = tempfile::tempdir()?;
//! // No run yet: every figure and table is a marked gap that names the command that fills it.
//! let report = analysis::write_report(runs.path(), out.path())?;
//! assert_eq!((report.runs, report.gaps.len()), (0, 12));
//! assert!(out.path().join("figures/fig4.pdf").exists() && report.page.exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ablation;
mod axis;
mod chart;
mod experiment;
mod figures;
mod findings;
mod page;
mod paper;
mod record;
mod render;
mod report;
mod select;
mod setup;
mod store;
mod stream;
mod svg;
mod table;
mod tables;

pub use ablation::{AblationRecord, SpanScore};
pub use experiment::{ExperimentRecord, FailedRun};
pub use findings::{Finding, findings};
pub use record::{Best, Epoch, Measured, Move, Params, RunRecord, SCHEMA, Status};
pub use render::RenderError;
pub use report::{Report, ReportError, write_report};
pub use select::{Estimate, percentile};
pub use store::{Problem, Store, StoreError};
pub use stream::{Recall, Stage, StreamRecord};
