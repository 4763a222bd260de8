//! The memory in use, and the limits `maxmemory` and `maxmemory-clients`.
//!
//! - [`counters`] count the bytes that the allocator has handed out. A program whose allocator does
//!   not count reports resident memory instead and has no limit, because resident memory does not
//!   shrink when keys are removed.
//! - `Memory` has the state of the limits. A loop sums all counters only when its own counter has
//!   grown by its share of the bytes left below `maxmemory`; until then a command costs one
//!   comparison. At the limit, a loop checks before each command that may need memory:
//!   `reclaim/limit.rs` evicts keys in bounded steps, and refuses the command if no key can be
//!   evicted.
//! - `clients` keeps the clients' memory below `maxmemory-clients`.
//! - `reclaim` has the state of the worker that drops large values and returns free memory to the
//!   system.

pub(crate) mod clients;
pub mod counters;
pub(crate) mod reclaim;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::Now;

use crate::config::Settings;
use crate::world::process;

/// State of the limits, shared by the loops.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Maximum number of bytes in use that any check has found.
    peak: AtomicU64,
    /// `maxmemory` in bytes; 0 without a limit, or if the allocator does not count.
    pub(crate) limit: AtomicU64,
    /// By loop: value of the loop's counter above which the loop compares the bytes in use with the
    /// limit. `i64::MIN` if the last check found the memory at the limit, so that each command
    /// checks again.
    pub(crate) check_at: Box<[PerLoop]>,
    /// Maximum time of one step of eviction, in µs.
    pub(crate) step_us: AtomicU64,
    /// `replica-ignore-maxmemory`.
    pub(crate) replica_ignores: AtomicBool,
    /// Bytes of evicted values that the worker has yet to drop.
    pub(crate) dropping: AtomicU64,
    /// Bytes of the messages that the current turns of all loops have sent to invalidate
    /// client-side caches.
    pub(crate) invalidations: AtomicU64,
    /// Unix time in µs since which the memory has been above the limit; 0 if it is not above.
    over_since_us: AtomicU64,
    /// Total time of earlier periods above the limit, in µs.
    over_us: AtomicU64,
    /// Bytes of all clients by loop, while `maxmemory-clients` is set.
    pub(crate) clients: Box<[PerLoop]>,
    /// Locked by the loop that is disconnecting clients.
    pub(crate) evicting_clients: Mutex<()>,
    /// Number of clients disconnected because of `maxmemory-clients`.
    pub(crate) evicted_clients: AtomicU64,
}

/// A figure of one loop, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct PerLoop(pub(crate) AtomicI64);

impl Memory {
    pub(crate) fn new(loops: usize) -> Self {
        let figures = |first: i64| (0..loops).map(|_| PerLoop(AtomicI64::new(first))).collect();
        Self {
            peak: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            check_at: figures(i64::MAX),
            step_us: AtomicU64::new(0),
            replica_ignores: AtomicBool::new(true),
            dropping: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            over_since_us: AtomicU64::new(0),
            over_us: AtomicU64::new(0),
            clients: figures(0),
            evicting_clients: Mutex::new(()),
            evicted_clients: AtomicU64::new(0),
        }
    }

    /// Returns the bytes in use according to the allocator, or the resident bytes if it does not
    /// count.
    pub(crate) fn used(&self) -> u64 {
        let used = counters::used().unwrap_or_else(|| process::memory().0);
        self.note(used);
        used
    }

    /// Returns true if a loop's last check found the memory at the limit.
    pub(crate) fn is_full(&self, loop_number: usize) -> bool {
        self.check_at[loop_number].0.load(Ordering::Relaxed) == i64::MIN
    }

    /// Updates the peak with a number of bytes in use.
    #[inline]
    pub(crate) fn note(&self, used: u64) {
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Returns the maximum number of bytes in use that any check has found.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Resets the statistics (CONFIG RESETSTAT).
    pub(crate) fn reset(&self) {
        self.peak.store(0, Ordering::Relaxed);
        self.used();
        self.over_us.store(0, Ordering::Relaxed);
        self.evicted_clients.store(0, Ordering::Relaxed);
    }

    /// Records whether the memory is above the limit.
    pub(crate) fn set_over(&self, over: bool, now: Now) {
        let since = &self.over_since_us;
        let before = since.load(Ordering::Relaxed);
        if over && before == 0 {
            since.store(now.micros(), Ordering::Relaxed);
        } else if !over && before > 0 {
            let us = now
                .micros()
                .saturating_sub(since.swap(0, Ordering::Relaxed));
            self.over_us.fetch_add(us, Ordering::Relaxed);
        }
    }

    /// Returns the total and the current time above the limit, in ms.
    pub(crate) fn over_ms(&self, now: Now) -> (u64, u64) {
        let current = match self.over_since_us.load(Ordering::Relaxed) {
            0 => 0,
            since => now.micros().saturating_sub(since),
        };
        let total = self.over_us.load(Ordering::Relaxed) + current;
        (total / 1_000, current / 1_000)
    }

    /// Applies the settings. Each loop checks the limit before its next command.
    pub(crate) fn apply(&self, settings: &Settings) {
        let bytes = counters::used().map_or(0, |_| settings.maxmemory);
        self.limit.store(bytes, Ordering::Relaxed);
        let step_us = step_us(settings.eviction_tenacity);
        self.step_us.store(step_us, Ordering::Relaxed);
        self.replica_ignores
            .store(settings.replica_ignores_maxmemory, Ordering::Relaxed);
        let check = if bytes == 0 { i64::MAX } else { i64::MIN };
        for at in &self.check_at {
            at.0.store(check, Ordering::Relaxed);
        }
    }
}

/// Returns Redis's time limit for one step of eviction with this `maxmemory-eviction-tenacity`, in
/// µs.
fn step_us(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50 * u64::from(tenacity),
        // A geometric progression up to about two minutes.
        11..=99 => (500.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_step_takes_as_long_as_in_redis() {
        let steps = [0, 5, 10, 11, 50, 99, 100].map(super::step_us);
        assert_eq!(steps[..4], [0, 250, 500, 575]);
        assert_eq!((steps[4], steps[6]), (133_931, u64::MAX));
        assert!(
            (120_000_000..140_000_000).contains(&steps[5]),
            "{}",
            steps[5]
        );
    }
}
