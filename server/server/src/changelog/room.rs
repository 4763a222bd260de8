//! The bound on what is kept for the append-only file.
//!
//! Bytes stay in memory until they are written, and until they are synced, if a sync is promised.
//! If the disk is slower than the clients, event loops wait before a turn, with no lock held, while
//! more than [`MOST_KEPT`] bytes are in memory. While the disk fails they do not wait, because
//! writes are refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Bytes that are kept for the file, beyond what a single turn appends.
const MOST_KEPT: u64 = if cfg!(test) { 4 << 20 } else { 256 << 20 };
/// Bytes that `everysec` leaves unsynced until the second has passed: fewer than those for which
/// loops wait.
pub(crate) const MOST_UNSYNCED: u64 = MOST_KEPT / 2;
/// Interval at which waiting loops check whether they must still wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Room {
    /// Position from which on bytes are kept; `u64::MAX` without a file.
    from: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            from: AtomicU64::new(u64::MAX),
            lock: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Room {
    /// Notes that a file begins at a position, or that there is none.
    pub(super) fn reset(&self, from: Option<u64>) {
        self.from.store(from.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn note(&self, from: u64) {
        // A file that was detached meanwhile stays so.
        self.from.fetch_max(from, Ordering::Relaxed);
        self.changed.notify_all();
    }

    #[inline]
    pub(super) fn is_full(&self, end: u64) -> bool {
        end.saturating_sub(self.from.load(Ordering::Relaxed)) > MOST_KEPT
    }

    pub(super) fn wait(&self) {
        // A notification that comes before the wait costs one interval.
        let mut guard = self.lock.lock();
        self.changed.wait_for(&mut guard, CHECK_INTERVAL);
    }
}
