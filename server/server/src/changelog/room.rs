//! The bound on the bytes that are kept in memory for the append-only file.
//!
//! Bytes are kept until they are written, and until they are synced if the configuration promises a
//! sync. If the disk is slower than the clients, event loops wait before a turn, without any lock,
//! while more than [`KEPT_MAX`] bytes are kept. While the disk fails, loops do not wait, because
//! writes are refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Maximum number of bytes kept for the file. A single turn may exceed it.
const KEPT_MAX: u64 = if cfg!(test) { 4 << 20 } else { 256 << 20 };
/// Number of unsynced bytes at which `everysec` syncs before its second has passed. It is smaller
/// than the number at which loops wait.
pub(crate) const UNSYNCED_MAX: u64 = KEPT_MAX / 2;
/// Interval at which waiting loops check again.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Room {
    /// Position of the first byte that is kept; `u64::MAX` without a file.
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
    /// Sets the position at which a file begins; `None` without a file.
    pub(super) fn reset(&self, from: Option<u64>) {
        self.from.store(from.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn set_from(&self, from: u64) {
        // If the file was detached meanwhile, `fetch_max` keeps the value `u64::MAX`.
        self.from.fetch_max(from, Ordering::Relaxed);
        self.changed.notify_all();
    }

    #[inline]
    pub(super) fn is_full(&self, end: u64) -> bool {
        end.saturating_sub(self.from.load(Ordering::Relaxed)) > KEPT_MAX
    }

    pub(super) fn wait(&self) {
        // If the notification precedes the wait, the loop waits for one interval.
        let mut guard = self.lock.lock();
        self.changed.wait_for(&mut guard, CHECK_INTERVAL);
    }
}
