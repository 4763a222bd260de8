//! *Local keys*: keys of a replica that fall due without its primary.
//!
//! On a replica the wheel has all deadlines but is not polled, because the primary decides which
//! keys expire. A replica that accepts writes has keys that its clients have written and that the
//! primary does not have. These keys are listed here if they have a deadline, and they expire on
//! the replica itself.
//!
//! Invariant: each entry of the list is an existing record with its current deadline.
//! [`Db::set_deadline`] removes the record that it changes from the list, and the commit of a
//! client's write adds it. So a deadline that the primary sets removes the key from the list.

use std::collections::BTreeSet;

use super::{Db, Expiry};
use crate::keyspace::records::Id;
use crate::time::{NEVER, Now};
use crate::value::Value;

/// Records by their deadlines.
pub(super) type LocalKeys = BTreeSet<(u64, Id)>;

impl Db {
    /// Makes this the database of a replica, in which only local keys fall due, or of a primary.
    pub(crate) fn set_following(&mut self, on: bool) {
        if on != self.is_following() {
            self.local_keys = on.then(Box::default);
        }
    }

    /// Returns whether this is the database of a replica.
    pub(crate) fn is_following(&self) -> bool {
        self.local_keys.is_some()
    }

    /// Returns whether a key falls due without this replica's primary.
    pub(crate) fn has_local_keys(&self) -> bool {
        self.local_keys
            .as_ref()
            .is_some_and(|local| !local.is_empty())
    }

    /// Adds a key that a client of the replica has written to the list of local keys, if the key
    /// has a deadline. Timers are not added: they fire after a promotion. O(log local keys).
    pub(crate) fn note_local_key(&mut self, id: Id) {
        let record = self.get(id);
        let (deadline, is_timer) = (record.deadline, matches!(record.value, Value::Timer(_)));
        if deadline != NEVER
            && !is_timer
            && let Some(local) = &mut self.local_keys
        {
            local.insert((deadline, id));
        }
    }

    /// Returns the local key with the earliest deadline if it is due, and removes it from the list.
    /// O(log local keys).
    pub(super) fn next_local_due(&mut self, now: Now, budget: &mut usize) -> Expiry {
        let Some(local) = &mut self.local_keys else {
            return Expiry::Idle;
        };
        match local.first() {
            Some(&(deadline, _)) if now.is_due(deadline) => {}
            _ => return Expiry::Idle,
        }
        if *budget == 0 {
            return Expiry::Busy;
        }
        *budget -= 1;
        local
            .pop_first()
            .map_or(Expiry::Idle, |(_, id)| Expiry::Due(id))
    }
}
