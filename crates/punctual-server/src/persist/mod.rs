//! Snapshots on disk: when they are made, where they are, how they are read at the start.
//!
//! Ground rules: one snapshot is made at a time. A file appears under its name only when it is whole and synced; whatever
//! goes wrong before that leaves the old file as it was. Files are read and written with no lock held but the shard
//! that a few records come from or go to, by a thread of their own; only SAVE, DEBUG RELOAD and a shutdown write on
//! an event loop, which is what they are asked for. These threads may use a stopwatch; what time it is they are told.

pub(crate) mod load;
pub(crate) mod save;
mod schedule;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::log;
use crate::shared::Shared;

pub(crate) use schedule::{next_check_ms, save_if_due};

/// What the server knows of its snapshots.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    /// A snapshot is being made.
    saving: AtomicBool,
    /// One is to begin as soon as none is being made (BGSAVE in a transaction).
    pub(crate) scheduled: AtomicBool,
    /// The one that is being made is not wanted any more.
    abort: AtomicBool,
    /// Held while a file gets its final name.
    naming: Mutex<()>,
    /// When the one that is being made began, unix ms.
    pub(crate) began_ms: AtomicU64,
    /// Keys that it will have and has, for the log and INFO.
    pub(crate) keys: AtomicU64,
    pub(crate) keys_written: AtomicU64,
    /// Changes of the keyspace that the last good snapshot has.
    saved_changes: AtomicU64,
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
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
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
    fn saved(&self, changes: u64, now: Now) {
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

impl Shared {
    /// Changes of the keyspace since the start, without those of turns that have not ended.
    pub(crate) fn changes(&self) -> u64 {
        self.stats.iter().map(|stats| stats.dirty.get()).sum()
    }

    /// Makes a snapshot if there are save points, and asks the server to stop; it goes on if that fails.
    pub fn save_and_stop(&self) {
        let mut sink = Silent;
        let mut turn = Turn::new(&self.store, self.clock.now(), &mut sink, Classes::none());
        match save::before_exit(self, &mut turn, None) {
            // The turn still holds what SAVE has locked: nothing is written between the two.
            Ok(()) => self.stop(),
            Err(error) => {
                log::warning!(
                    self.logger,
                    "Error trying to save the DB, can't exit: {error}"
                );
            }
        }
    }

    /// Follows FLUSHALL, in its turn: gives up a snapshot that is being made and, with save points, replaces the file
    /// before the client gets its reply. Every shard is still locked, so no other write comes between the two.
    pub(crate) fn flushed_all(&self, turn: &Turn<'_>) {
        let state = &self.persistence;
        // Not waited for: its thread may need a shard that this turn holds.
        let naming = state.naming.lock();
        state.abort.store(true, Ordering::Release);
        drop(naming);
        if self.settings().save.is_empty() {
            return;
        }
        // As in Redis, the client is not told.
        if let Err(error) = save::empty(self, turn) {
            log::warning!(self.logger, "FLUSHALL could not save: {error}");
        }
    }

    /// Looks anew whether commands must be kept out.
    pub(crate) fn set_gate(&self) {
        let state = &self.persistence;
        let closed = state.is_loading() || state.refuses_writes(&self.settings());
        self.gate_closed.store(closed, Ordering::SeqCst);
        // A stop closes it for good; it may have come before the line above.
        if self.stopping.load(Ordering::SeqCst) {
            self.gate_closed.store(true, Ordering::SeqCst);
        }
    }

    /// Changes that the last good snapshot does not have. `more` are those of the turn that asks.
    pub(crate) fn unsaved_changes(&self, more: u64) -> u64 {
        let saved = self.persistence.saved_changes.load(Ordering::Acquire);
        (self.changes() + more).saturating_sub(saved)
    }
}
