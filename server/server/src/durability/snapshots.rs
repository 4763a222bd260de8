//! State of snapshots: the running save or load, and the result of the last save.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::Now;

use crate::changelog::ChangeLog;
use crate::config::Settings;
use crate::durability::aof::Aof;
use crate::durability::backup::Backup;
use crate::world::disk::Disk;

/// State of a server's persistence: snapshots, the append-only file, and the log of changes.
#[derive(Default)]
pub(crate) struct Durability {
    /// The log of changes.
    pub(crate) changelog: ChangeLog,
    /// Access to the file system.
    pub(crate) disk: Disk,
    /// True while a walk runs. A walk is a snapshot's way through the keyspace, for a save, a
    /// rewrite or a full synchronization.
    pub(crate) saving: AtomicBool,
    /// A save begins as soon as no walk runs (BGSAVE SCHEDULE, or BGSAVE in a transaction).
    pub(crate) scheduled: AtomicBool,
    /// Whether the running save must stop without a result.
    pub(crate) abort: AtomicBool,
    /// Locked while a file gets its final name.
    pub(crate) naming: Mutex<()>,
    /// Start of the running save, unix ms.
    pub(crate) began_ms: AtomicU64,
    /// Number of keys in the running save, for the log and INFO.
    pub(crate) keys: AtomicU64,
    /// Number of keys that the running save has written.
    pub(crate) keys_written: AtomicU64,
    /// Number of keyspace changes that the last successful snapshot contains.
    pub(crate) saved_changes: AtomicU64,
    /// Instant of the last successful snapshot, in unix ms.
    pub(crate) last_save_ms: AtomicU64,
    /// Start of the last background save, unix ms.
    pub(crate) last_try_ms: AtomicU64,
    /// Whether the last background save failed and no save has succeeded since.
    pub(crate) failed: AtomicBool,
    /// Duration of the last background save in seconds; -1 before the first one.
    pub(crate) last_seconds: AtomicI64,
    /// Number of snapshots saved since the start.
    pub(crate) saves: AtomicU64,
    /// Bytes of records that the last save copied early because they were about to change.
    pub(crate) early_bytes: AtomicU64,
    pub(crate) loading: Loading,
    pub(crate) aof: Aof,
    pub(crate) backup: Backup,
    /// Thread of the background save. Locked while a caller waits for the thread's end.
    pub(crate) thread: Mutex<Option<crate::world::JoinHandle<()>>>,
}

/// Progress of a load.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    pub(crate) active: AtomicBool,
    pub(crate) began_ms: AtomicU64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) loaded_bytes: AtomicU64,
    pub(crate) keys_loaded: AtomicU64,
    pub(crate) keys_expired: AtomicU64,
}

impl Durability {
    /// Creates the state of a server that starts at `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            last_save_ms: now_ms.into(),
            last_seconds: (-1).into(),
            ..Self::default()
        }
    }

    /// Returns true while a walk runs: a save, a rewrite or a full synchronization.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Begins a walk through the keyspace. Returns false if another walk runs, because only one may
    /// run at a time.
    pub(crate) fn begin_walk(&self) -> bool {
        !self.saving.swap(true, Ordering::AcqRel)
    }

    /// Ends the walk that [`Durability::begin_walk`] began.
    pub(crate) fn end_walk(&self) {
        self.saving.store(false, Ordering::Release);
    }

    /// Returns true while the server loads its files at startup.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.active.load(Ordering::Acquire)
    }

    /// Returns true if writes must be refused because the last background save failed.
    pub(crate) fn refuses_writes(&self, settings: &Settings) -> bool {
        settings.stop_writes_on_save_error
            && !settings.save.is_empty()
            && self.failed.load(Ordering::Acquire)
    }

    /// Records a successful snapshot of the instant `now`, which contains the first `changes`
    /// changes.
    pub(crate) fn saved(&self, changes: u64, now: Now) {
        // FLUSHALL may save a later snapshot before a background save ends; the number must not go
        // down.
        self.saved_changes.fetch_max(changes, Ordering::AcqRel);
        self.last_save_ms.store(now.read_ms(), Ordering::Release);
        self.failed.store(false, Ordering::Release);
    }

    /// Aborts the running save, if there is one. Blocks until its thread has ended.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
        self.wait();
        self.abort.store(false, Ordering::Release);
    }

    /// Blocks until the background save has ended. The caller must not hold a shard lock, because
    /// the save may need it.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }
}
