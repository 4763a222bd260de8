//! Snapshots on disk: saving, save points, and loading at startup.
//!
//! A snapshot is the keyspace at one instant, without fork. It begins in a turn that holds every
//! shard. Then a *walk* ([`Snapshot`](punctual_store::snapshot::Snapshot)) writes the records of
//! each database in small steps while commands run; a record that changes before the walk reaches
//! it is written first. Only one walk runs at a time: a save, a rewrite of the append-only file, or
//! a full synchronization of replicas.
//!
//! Ground rules: a file gets its final name only when it is complete and synced, so a failure
//! leaves the old file unchanged. A thread other than the event loops writes the file, and holds at
//! most one shard's lock. Only SAVE, DEBUG RELOAD, FLUSHALL, a restart and a shutdown write in
//! their own turn, with every shard locked. The threads receive the instant of the snapshot from
//! their caller and measure durations themselves.

pub(crate) mod aof;
pub(crate) mod backup;
mod delay;
pub(crate) mod encode;
pub(crate) mod history;
pub(crate) mod load;
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
    /// Returns the number of keyspace changes since the start, except changes of running turns.
    pub(crate) fn changes(&self) -> u64 {
        self.counted().dirty
    }

    /// Completes FLUSHALL: aborts a running save and, if there are save points, replaces the file
    /// with an empty snapshot before the client gets its reply. The turn still holds every shard's
    /// lock, so no other write runs in between.
    pub(crate) fn after_flushall(&self, turn: &mut Turn) {
        let state = &self.durability;
        if state.is_loading() {
            return;
        }
        // This does not wait for the thread of the save, which may need a lock that this turn
        // holds.
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

    /// Makes the server refuse or accept writes, depending on the result of the last background
    /// save.
    pub(crate) fn note_save(&self) {
        let refuses = self.durability.refuses_writes(&self.settings());
        self.gate.set(Reason::FailedSave, refuses);
    }

    /// Returns the number of changes since the last successful save, including `more` changes of
    /// the calling turn.
    pub(crate) fn unsaved_changes(&self, more: u64) -> u64 {
        let saved = self.durability.saved_changes.load(Ordering::Acquire);
        (self.changes() + more).saturating_sub(saved)
    }
}
