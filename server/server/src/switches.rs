//! Settings that DEBUG changes, for tests.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::client::registry::RecentPeak;

/// Settings of DEBUG.
#[derive(Debug)]
pub(crate) struct Switches {
    /// Scripts may call commands that are normally refused in scripts.
    pub(crate) scripts_call_all: AtomicBool,
    /// Suspends save points, scheduled rewrites, the upkeep of replicas, and shutdowns that a
    /// signal requests or that wait for replicas.
    pub(crate) cron_paused: AtomicBool,
    /// Pause before each write to the append-only file, in microseconds.
    pub(crate) aof_flush_sleep_us: AtomicU64,
    /// Time for which a client's peak of output counts as recent, in milliseconds.
    pub(crate) output_peak_window_ms: AtomicU64,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            scripts_call_all: AtomicBool::new(false),
            cron_paused: AtomicBool::new(false),
            aof_flush_sleep_us: AtomicU64::new(0),
            output_peak_window_ms: AtomicU64::new(RecentPeak::WINDOW_MS),
        }
    }
}
