//! Measurements and records for INFO, SLOWLOG, LATENCY, MONITOR and crash reports.

pub(crate) mod command_latency;
pub mod crash_report;
pub mod error_counts;
pub mod latency;
pub(crate) mod monitor;
pub(crate) mod redact;
pub(crate) mod slowlog;
pub mod stats;
