//! What runs show: selection, statistics, figures, tables and the report.
//!
//! This crate will read run records and nothing else; it does not know Burn, so that it builds in seconds.
