//! State of the append-only file that the loops, the writer and INFO share.

use crate::world::JoinHandle;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::durability::files::AofFiles;

/// State of the append-only file, from `appendonly no` to a complete set of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing is appended.
    Off,
    /// Changes are appended, but the first base file (a snapshot) is not complete: a restart would
    /// not find the changes.
    Starting,
    /// The files contain the whole keyspace.
    On,
}

/// State of the append-only file.
#[derive(Debug, Default)]
pub(crate) struct Aof {
    phase: AtomicU8,
    /// Whether writing or syncing fails. Commands that write are then refused.
    failing: AtomicBool,
    /// Reason of the last failure.
    pub(crate) error: Mutex<String>,
    /// The files on disk.
    pub(crate) files: Mutex<AofFiles>,
    /// Name of the incremental file in [`Phase::Starting`], which is not in the manifest yet.
    pub(crate) starting: Mutex<Option<String>>,
    pub(crate) writer: Mutex<Option<JoinHandle<()>>>,
    /// Locked while CONFIG SET begins or ends appending. This lock is taken before the shards'
    /// locks.
    pub(crate) switching: Mutex<()>,
    /// Total length of all files in bytes.
    pub(crate) current_bytes: AtomicU64,
    /// Total length of all files in bytes after the last rewrite or the start.
    pub(crate) base_bytes: AtomicU64,
    /// Log position up to which everything is written.
    pub(crate) written: AtomicU64,
    /// Bytes that the writer has taken from the log and not yet written to the file.
    pub(crate) queued_bytes: AtomicU64,
    /// Number of times that a loop has waited for the disk.
    pub(crate) delays: AtomicU64,
    pub(crate) rewrite: Rewrite,
}

/// State of rewrites of the append-only file.
#[derive(Debug)]
pub(crate) struct Rewrite {
    /// True while a rewrite runs.
    pub(crate) active: AtomicBool,
    /// A rewrite begins as soon as no other walk runs (a walk is a snapshot's way through the
    /// keyspace).
    pub(crate) scheduled: AtomicBool,
    /// The running rewrite must stop without a result.
    pub(crate) abort: AtomicBool,
    pub(crate) failed: AtomicBool,
    pub(crate) began_ms: AtomicU64,
    /// Duration of the last rewrite in seconds; -1 before the first rewrite.
    pub(crate) last_seconds: AtomicI64,
    /// Bytes of records that the last rewrite copied early because they were about to change.
    pub(crate) early_bytes: AtomicU64,
    pub(crate) count: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Start of the last attempt, in unix ms.
    pub(crate) last_try_ms: AtomicU64,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
}

impl Default for Rewrite {
    fn default() -> Self {
        Self {
            active: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            began_ms: AtomicU64::new(0),
            last_seconds: AtomicI64::new(-1),
            early_bytes: AtomicU64::new(0),
            count: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_try_ms: AtomicU64::new(0),
            thread: Mutex::new(None),
        }
    }
}

impl Aof {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Off,
            1 => Phase::Starting,
            _ => Phase::On,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns true if the file cannot be written or synced.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    pub(crate) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Returns the reason of the last failure.
    pub(crate) fn error(&self) -> String {
        self.error.lock().clone()
    }
}
