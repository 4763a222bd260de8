//! Measurements and records for INFO, SLOWLOG, LATENCY, MONITOR, the metrics, and crash reports.
//!
//! Each event loop has its own counters and histograms, which only this loop increments; readers
//! sum the counters of all loops. The slow log and LATENCY have a mutex each, which only slow
//! commands, slow expiry and readers lock. The counts of errors by code have one mutex.

pub(crate) mod command_latency;
pub mod error_counts;
pub(crate) mod figures;
pub(crate) mod job_figures;
pub mod latency;
pub(crate) mod monitor;
pub(crate) mod redact;
pub(crate) mod slowlog;
pub mod stats;

use std::sync::atomic::{AtomicBool, AtomicU64};

use error_counts::ErrorCounts;
use job_figures::JobFigures;
use latency::LatencyMonitor;
use slowlog::SlowLog;
use stats::{LoopStats, Rates};

/// Statistics and records of a server.
pub struct Observed {
    /// Statistics by loop number.
    pub stats: Vec<LoopStats>,
    /// Entries of the slow log.
    pub slowlog: SlowLog,
    /// Events of LATENCY.
    pub latency: LatencyMonitor,
    /// Value of `latency-tracking`.
    pub(crate) latency_tracking: AtomicBool,
    /// The smaller of the thresholds of the slow log and of LATENCY, in ns; `u64::MAX` if both are
    /// off.
    pub(crate) slow_ns: AtomicU64,
    /// Number of error replies by code.
    pub errors: ErrorCounts,
    /// Commands and bytes per second.
    pub rates: Rates,
    /// Numbers of jobs in all queues.
    pub(crate) job_figures: JobFigures,
    /// Bytes in use when the server had started, not counting loaded data.
    pub(crate) startup_bytes: AtomicU64,
}

impl Observed {
    /// Creates empty statistics for this number of loops and commands.
    pub(crate) fn new(loops: usize, commands: usize) -> Self {
        Self {
            stats: (0..loops).map(|_| LoopStats::new(commands)).collect(),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            latency_tracking: AtomicBool::new(true),
            slow_ns: AtomicU64::new(u64::MAX),
            errors: ErrorCounts::default(),
            rates: Rates::default(),
            job_figures: JobFigures::default(),
            startup_bytes: AtomicU64::new(0),
        }
    }
}
