//! Slots of cluster mode that move between this node and another one, with CLUSTER SETSLOT.
//!
//! While a slot moves, a key of it that is missing may be at the other node. So a timer, and a job
//! or an entry that must move to another key, wait until the slot is stable. The server sets the
//! slots; a turn reads them under the lock of the slot's shard.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use punctual_cluster::slot;

use super::shard::Store;

/// The slots that move.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// Whether a slot moves. Otherwise no slot of a key is computed.
    any: AtomicBool,
    slots: RwLock<Slots>,
    /// Whether a timer has waited for a slot since the start.
    has_waited: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    migrating: BTreeSet<u16>,
    importing: BTreeSet<u16>,
}

impl Slots {
    fn all(&self) -> impl Iterator<Item = u16> {
        self.migrating.union(&self.importing).copied()
    }

    fn contains(&self, slot: u16) -> bool {
        self.migrating.contains(&slot) || self.importing.contains(&slot)
    }
}

impl Store {
    /// Sets the slots that leave this node and the slots that arrive. Returns true if a slot has
    /// become stable: the caller then calls [`Turn::resume_timers`](crate::Turn::resume_timers) for
    /// all shards. O(slots).
    pub fn set_moving_slots(
        &self,
        migrating: impl Iterator<Item = u16>,
        importing: impl Iterator<Item = u16>,
    ) -> bool {
        let new = Slots {
            migrating: migrating.collect(),
            importing: importing.collect(),
        };
        let mut slots = self.moving.slots.write();
        let some_ended = slots.all().any(|slot| !new.contains(slot));
        let any = new.all().next().is_some();
        *slots = new;
        self.moving.any.store(any, Ordering::SeqCst);
        some_ended
    }

    /// Returns whether the slot of a key moves.
    pub(crate) fn moves(&self, key: &[u8]) -> bool {
        self.in_moving(key, Slots::contains)
    }

    /// Returns whether the slot of a key arrives at this node.
    pub(crate) fn imports(&self, key: &[u8]) -> bool {
        self.in_moving(key, |slots, slot| slots.importing.contains(&slot))
    }

    #[inline]
    fn in_moving(&self, key: &[u8], is_in: impl FnOnce(&Slots, u16) -> bool) -> bool {
        let moving = &self.moving;
        moving.any.load(Ordering::SeqCst) && is_in(&moving.slots.read(), slot::of_key(key))
    }

    /// Notes that a timer waits for its slot.
    pub(crate) fn note_waiting_timer(&self) {
        self.moving.has_waited.store(true, Ordering::SeqCst);
    }

    /// Returns whether timers may wait for their slots.
    pub fn may_have_waiting_timers(&self) -> bool {
        self.moving.has_waited.load(Ordering::SeqCst)
    }
}
