//! State of snapshots: the running save or load, and the last result.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::Now;

use crate::changelog::ChangeLog;
use crate::config::Settings;
use crate::durability::aof::Aof;
use crate::world::disk::Disk;

/// State of snapshots, of the append-only file, and the log of changes.
#[derive(Default)]
pub(crate) struct Durability {
    /// The log of changes.
    pub(crate) changelog: ChangeLog,
    /// The files that snapshots are written to.
    pub(crate) disk: Disk,
    /// True while a save runs.
    pub(crate) saving: AtomicBool,
    /// True if a save begins as soon as none runs (BGSAVE SCHEDULE or in a transaction).
    pub(crate) scheduled: AtomicBool,
    /// True if the running save must end without a result.
    pub(crate) abort: AtomicBool,
    /// Lock held while a file gets its final name.
    pub(crate) naming: Mutex<()>,
    /// Start of the running save, unix ms.
    pub(crate) began_ms: AtomicU64,
    /// Number of keys in the running save, for the log and INFO.
    pub(crate) keys: AtomicU64,
    /// Number of keys that the running save has written.
    pub(crate) keys_written: AtomicU64,
    /// Number of keyspace changes contained in the last good snapshot.
    pub(crate) saved_changes: AtomicU64,
    /// Instant of the last good snapshot, unix ms.
    pub(crate) last_save_ms: AtomicU64,
    /// Start of the last background save, unix ms.
    pub(crate) last_try_ms: AtomicU64,
    /// True if the last background save failed and no save has succeeded since.
    pub(crate) failed: AtomicBool,
    /// Duration of the last background save in seconds; -1 if there was none.
    pub(crate) last_seconds: AtomicI64,
    /// Number of snapshots saved since the start.
    pub(crate) saves: AtomicU64,
    /// Bytes of records that the last save copied before concurrent writes.
    pub(crate) early_bytes: AtomicU64,
    pub(crate) loading: Loading,
    pub(crate) aof: Aof,
    /// Thread of the background save; held while a caller waits for its end.
    pub(crate) thread: Mutex<Option<std::thread::JoinHandle<()>>>,
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

    /// Returns whether a save runs.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Begins a walk through the keyspace: only one goes on at a time. Returns false if one does.
    pub(crate) fn begin_walk(&self) -> bool {
        !self.saving.swap(true, Ordering::AcqRel)
    }

    /// Ends what [`Durability::begin_walk`] began.
    pub(crate) fn end_walk(&self) {
        self.saving.store(false, Ordering::Release);
    }

    /// Returns whether a load runs.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.active.load(Ordering::Acquire)
    }

    /// Returns whether writes must be rejected because the last background save failed.
    pub(crate) fn refuses_writes(&self, settings: &Settings) -> bool {
        settings.stop_writes_on_save_error
            && !settings.save.is_empty()
            && self.failed.load(Ordering::Acquire)
    }

    /// Records a good snapshot of the instant `now` that contains the first `changes` changes.
    pub(crate) fn saved(&self, changes: u64, now: Now) {
        // A background save that ends after a later save of FLUSHALL must not lower the number.
        self.saved_changes.fetch_max(changes, Ordering::AcqRel);
        self.last_save_ms.store(now.read_ms(), Ordering::Release);
        self.failed.store(false, Ordering::Release);
    }

    /// Aborts the running save, if any. Blocks until its thread has ended.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
        self.wait();
        self.abort.store(false, Ordering::Release);
    }

    /// Blocks until the background save has ended. The caller holds no shard lock that the save may
    /// need.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // The panic hook has printed the message of a panic.
            let _ = thread.join();
        }
    }
}
