//! The commands, one file each.

pub mod ablate;
pub mod baseline;
pub mod bench;
pub mod completions;
pub mod config;
pub mod demo;
pub mod encode;
pub mod eval;
pub mod exchange;
pub mod fetch;
pub mod fill_mask;
pub mod glue_submission;
pub mod list;
pub mod params;
pub mod parity;
pub mod predict;
pub mod pretrain;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod runs;
pub mod train;
pub mod work;
