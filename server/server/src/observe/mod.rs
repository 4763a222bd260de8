//! Measurements and records for INFO, SLOWLOG, LATENCY, MONITOR and crash reports.

pub(crate) mod command_latency;
pub mod error_counts;
pub(crate) mod job_figures;
pub mod latency;
pub(crate) mod monitor;
pub(crate) mod redact;
pub(crate) mod slowlog;
pub mod stats;
