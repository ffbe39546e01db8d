//! A run: from its keys to its record.

mod claim;
mod config;
mod context;
mod data;
mod keys;
mod resolve;
mod runner;
mod speed;
mod step_log;
mod store;
mod track;

pub use claim::{ClaimLost, Owner, STALE_AFTER, cluster_job, owner_of};
pub(crate) use claim::{lost_is_busy, stale_after};
pub use config::{BURN_VERSION, NUMERICS, RunConfig};
pub use context::{FileOptions, Labels, RunContext, file_options, is_own_data};
pub use data::PreparedData;
pub(crate) use data::limited;
pub use keys::{FILE_KEYS, Layers, RUN_KEYS, SEARCH_KEYS, general_keys};
pub(crate) use keys::{is_no_limit, merge};
pub(crate) use resolve::read_keys;
pub use resolve::{effective_keys, foreign_keys, origins, resolve};
pub use runner::{FinishedRun, Runner};
pub use speed::{Speed, Workload};
pub use step_log::{StepLine, StepLog};
pub(crate) use store::BUSY_PAUSE;
pub use store::{
    Imported, OpenRun, Origin, RunManifest, RunStore, StoredRun, differences, kept_evaluation, run_id, write_json,
};
pub use track::{Mlflow, MlflowError, Sent, Tracking, UnknownTracking, settle_tracking};
pub(crate) use track::{Trackers, deliver_finished, unix_time};
