//! Snapshots on disk: saving, save points, and loading at startup.
//!
//! The server makes one snapshot at a time. A file gets its final name only when it is complete and
//! synced; an earlier failure leaves the old file unchanged. A separate thread reads or writes the
//! file and holds at most the lock of the shard whose records it transfers. Only SAVE, DEBUG
//! RELOAD, FLUSHALL and a shutdown write on an event loop. These threads measure durations
//! themselves and receive the current instant from their caller.

pub(crate) mod aof;
mod delay;
pub(crate) mod encode;
pub(crate) mod load;
pub(crate) mod place;
#[cfg(test)]
mod tests {
    mod power_cuts;
}
pub(crate) mod save;
mod schedule;

use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;

pub(crate) use schedule::{next_check_ms, save_if_due};

impl Shared {
    /// Returns the number of keyspace changes since the start, except those of running turns.
    pub(crate) fn changes(&self) -> u64 {
        self.counted().dirty
    }

    /// Completes FLUSHALL: aborts a running save and, with save points, replaces the file before
    /// the client gets its reply. The turn still holds every shard lock, so no other write runs in
    /// between.
    pub(crate) fn after_flushall(&self, turn: &mut Turn) {
        let state = &self.durability;
        if state.is_loading() {
            return;
        }
        // Does not wait for the thread, which may need a shard lock that this turn holds.
        let naming = state.naming.lock();
        state.abort.store(true, Ordering::Release);
        drop(naming);
        if self.settings().save.is_empty() {
            return;
        }
        // As in Redis, the reply does not show the error.
        if let Err(error) = save::write_empty(self, turn) {
            log::warning!(self.logger, "FLUSHALL could not save: {error}");
        }
    }

    /// Notes whether writes are refused because the last background save has failed.
    pub(crate) fn note_save(&self) {
        let refuses = self.durability.refuses_writes(&self.settings());
        self.gate.set(Reason::FailedSave, refuses);
    }

    /// Returns the number of changes since the last good snapshot, including `more` changes of the
    /// calling turn.
    pub(crate) fn unsaved_changes(&self, more: u64) -> u64 {
        let saved = self.durability.saved_changes.load(Ordering::Acquire);
        (self.changes() + more).saturating_sub(saved)
    }
}
