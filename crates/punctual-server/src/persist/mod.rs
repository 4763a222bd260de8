//! Snapshots on disk: when they are made, where they are, how they are read at the start.
//!
//! Ground rules: one snapshot is made at a time. A file appears under its name only when it is whole and synced; whatever
//! goes wrong before that leaves the old file as it was. Files are read and written with no lock held but the shard
//! that a few records come from or go to, by a thread of their own; only SAVE, DEBUG RELOAD and a shutdown write on
//! an event loop, which is what they are asked for. These threads may use a stopwatch; what time it is they are told.

pub(crate) mod load;
pub(crate) mod save;
mod schedule;
pub(crate) mod state;

use std::sync::atomic::Ordering;

use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use crate::log;
use crate::shared::Shared;

pub(crate) use schedule::{next_check_ms, save_if_due};

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
    pub(crate) fn after_flushall(&self, turn: &Turn<'_>) {
        let state = &self.persistence;
        // Not waited for: its thread may need a shard that this turn holds.
        let naming = state.naming.lock();
        state.abort.store(true, Ordering::Release);
        drop(naming);
        if self.settings().save.is_empty() {
            return;
        }
        // As in Redis, the client is not told.
        if let Err(error) = save::write_empty(self, turn) {
            log::warning!(self.logger, "FLUSHALL could not save: {error}");
        }
    }

    /// Looks anew whether commands must be kept out.
    pub(crate) fn update_gate(&self) {
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
