//! State of the snapshots: which one is being made or loaded, and how the last one went.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::Now;

use crate::config::Settings;

/// What the server knows of its snapshots.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    /// A snapshot is being made.
    pub(super) saving: AtomicBool,
    /// One is to begin as soon as none is being made (BGSAVE in a transaction).
    pub(crate) scheduled: AtomicBool,
    /// The one that is being made is not wanted any more.
    pub(super) abort: AtomicBool,
    /// Held while a file gets its final name.
    pub(super) naming: Mutex<()>,
    /// When the one that is being made began, unix ms.
    pub(crate) began_ms: AtomicU64,
    /// Keys that it will have and has, for the log and INFO.
    pub(crate) keys: AtomicU64,
    pub(crate) keys_written: AtomicU64,
    /// Changes of the keyspace that the last good snapshot has.
    pub(super) saved_changes: AtomicU64,
    /// When that was begun, unix ms.
    pub(crate) last_save_ms: AtomicU64,
    /// When the last one in the background was tried, unix ms.
    pub(crate) last_try_ms: AtomicU64,
    /// The last one in the background failed, and none has been made since.
    pub(crate) failed: AtomicBool,
    /// Seconds that the last one in the background took; -1: there was none.
    pub(crate) last_seconds: AtomicI64,
    /// Snapshots made since the start.
    pub(crate) saves: AtomicU64,
    /// Bytes of records that the last one wrote early.
    pub(crate) early_bytes: AtomicU64,
    pub(crate) loading: Loading,
    /// Whoever waits for the end of the one that is being made takes this lock.
    pub(super) thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// How far the loading of a snapshot is.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    pub(crate) active: AtomicBool,
    pub(crate) began_ms: AtomicU64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) loaded_bytes: AtomicU64,
    pub(crate) keys_loaded: AtomicU64,
    pub(crate) keys_expired: AtomicU64,
}

impl Persistence {
    /// Of a server that starts at `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            last_save_ms: now_ms.into(),
            last_seconds: (-1).into(),
            ..Self::default()
        }
    }

    /// Whether a snapshot is being made.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Whether a snapshot is being loaded.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.active.load(Ordering::Acquire)
    }

    /// Whether writes must be refused, since they could not be saved.
    pub(crate) fn refuses_writes(&self, settings: &Settings) -> bool {
        settings.stop_writes_on_save_error
            && !settings.save.is_empty()
            && self.failed.load(Ordering::Acquire)
    }

    /// A snapshot that has all but later changes is on disk; it is of the instant `now`.
    pub(super) fn saved(&self, changes: u64, now: Now) {
        // A background save that ends late must not hide that FLUSHALL has saved since.
        self.saved_changes.fetch_max(changes, Ordering::AcqRel);
        self.last_save_ms.store(now.read_ms(), Ordering::Release);
        self.failed.store(false, Ordering::Release);
    }

    /// Gives up the snapshot that is being made, if there is one, and waits until it is gone.
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Release);
        self.wait();
        self.abort.store(false, Ordering::Release);
    }

    /// Waits for the end of the snapshot that is being made. The caller holds no lock of a shard.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic in there has been printed.
            let _ = thread.join();
        }
    }
}
