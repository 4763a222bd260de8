//! Measurements and records for INFO, SLOWLOG, LATENCY, MONITOR and crash reports.

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

/// Statistics and logs of commands.
pub struct Observed {
    /// Statistics by loop number.
    pub stats: Vec<LoopStats>,
    /// The slow log.
    pub slowlog: SlowLog,
    /// Latency events of LATENCY.
    pub latency: LatencyMonitor,
    /// `latency-tracking`.
    pub(crate) latency_tracking: AtomicBool,
    /// Duration in ns from which the slow log and LATENCY consider a command; `u64::MAX` disables both.
    pub(crate) slow_ns: AtomicU64,
    /// Number of error replies by code word.
    pub errors: ErrorCounts,
    /// Commands and bytes per second.
    pub rates: Rates,
    /// Numbers of jobs in all queues.
    pub(crate) job_figures: JobFigures,
    /// Bytes in use when the server had started, without what it has loaded.
    pub(crate) startup_bytes: AtomicU64,
}

impl Observed {
    /// Returns empty statistics for so many loops and commands.
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
