//! Measurements and records for INFO, SLOWLOG, HOTKEYS, LATENCY, MONITOR and crash reports.

pub(crate) mod command_latency;
pub mod error_counts;
pub(crate) mod hot_keys;
pub(crate) mod job_figures;
pub mod latency;
pub(crate) mod monitor;
pub(crate) mod redact;
pub(crate) mod slowlog;
pub mod stats;
