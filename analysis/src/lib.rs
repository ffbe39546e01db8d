//! What runs show: figures, tables and a page from the records of runs, and nothing else.
//!
//! `experiments` writes the records: a [`RunRecord`] of each run, an [`AblationRecord`] of its adapters' removal, a
//! [`StreamRecord`] of several tasks one after the other, and an [`ExperimentRecord`] that says which of them belong
//! together. [`write_report`] reads a folder of them, whose files [`folder`] names; a [`Store`] is such a folder, a
//! [`Finding`] a verdict on one of the paper's findings: [`Effect`]s with their intervals, compared with [`thresholds()`]. This
//! crate does not know Burn.
//!
//! A report shows [`Exhibit`]s: [`paper_exhibits`], and whatever figure or table one adds. An experiment that none of them
//! is made of draws itself: what its runs sweep decides how.
//!
//! ```
//! let runs = tempfile::tempdir()?;
//! let out = tempfile::tempdir()?;
//! // No run yet: every figure and table is a gap.
//! let report = analysis::write_report(runs.path(), out.path(), &analysis::paper_exhibits(), &analysis::Made::default())?;
//! assert_eq!((report.runs, report.gaps.len()), (0, 17));
//! assert!(report.page.exists() && !out.path().join("figures/fig4.pdf").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ablation;
mod axis;
mod chart;
mod diagram;
mod evidence;
mod exhibit;
mod experiment;
mod export;
mod figures;
mod files;
mod findings;
pub mod folder;
mod labels;
mod listing;
mod made;
mod names;
mod own;
mod page;
mod paper;
mod parallel;
mod record;
mod render;
mod report;
mod select;
mod setup;
mod standing;
mod store;
mod stream;
mod svg;
mod table;
mod tables;
mod thresholds;
mod values;

pub use ablation::{AblationRecord, SpanScore};
pub use axis::{AxisSpec, Format};
pub use chart::{Colours, Dot, Figure, Heat, HeatCell, Key, Look, PALETTE, Panel, Plot, Rows, Series};
pub use diagram::{Block, Diagram};
pub use evidence::{Effect, Interval, IntervalMethod, Side, Verdict};
pub use exhibit::{Exhibit, Shown, paper_exhibits};
pub use experiment::{DimensionRecord, ExperimentRecord, FailedRun};
pub use export::{EXPORT, documents, export};
pub use findings::{Finding, findings};
pub use listing::{Listed, RunState, list_runs, run_folders};
pub use made::Made;
pub use names::{task_name, task_title};
pub use record::{
    Evaluation, Examples, Kept, Measured, MethodRecord, Move, Network, Params, RunRecord, SCHEMA, Scored, Status,
};
pub use render::RenderError;
pub use report::{Report, ReportError, write_report};
pub use select::{Estimate, Point, Sweep, best_point, by_method, percentile, sweeps, tasks};
pub use setup::{Names, Run};
pub use store::{Problem, Store, StoreError};
pub use stream::{Recall, Stage, StreamRecord};
pub use svg::Marker;
pub use table::{Cell, Table, csv_cell};
pub use thresholds::{Threshold, thresholds};
