//! Keys of a replica that fall due without its primary.
//!
//! On a replica the wheel keeps all deadlines and nothing in it is due, because the primary decides
//! what expires. The keys that clients of a replica write, if it accepts writes, are not among the
//! primary's: they are listed here, and fall due as on a primary.
//!
//! Invariant: the list has records only, each with its deadline: [`Db::set_deadline`] removes what
//! it changes, and a commit of a client's write adds it. So a deadline that the primary sets takes
//! the key off the list.

use std::collections::BTreeSet;

use super::{Db, Expiry};
use crate::keyspace::records::Id;
use crate::time::{NEVER, Now};
use crate::value::Value;

/// Records by their deadlines.
pub(super) type Own = BTreeSet<(u64, Id)>;

impl Db {
    /// Makes this the database of a replica, in which only its own keys fall due, or of a primary.
    pub(crate) fn set_following(&mut self, on: bool) {
        if on != self.is_following() {
            self.own = on.then(Box::default);
        }
    }

    /// Returns whether this is the database of a replica.
    pub(crate) fn is_following(&self) -> bool {
        self.own.is_some()
    }

    /// Lists a key of a replica that a client has written, if it has a deadline. Timers wait for
    /// the promotion. O(log keys).
    pub(crate) fn note_own(&mut self, id: Id) {
        let record = self.get(id);
        let (deadline, is_timer) = (record.deadline, matches!(record.value, Value::Timer(_)));
        if deadline != NEVER
            && !is_timer
            && let Some(own) = &mut self.own
        {
            own.insert((deadline, id));
        }
    }

    /// Removes the next key from the list and returns it if it is due. O(log keys).
    pub(super) fn next_own_due(&mut self, now: Now, budget: &mut usize) -> Expiry {
        let Some(own) = &mut self.own else {
            return Expiry::Idle;
        };
        match own.first() {
            Some(&(deadline, _)) if now.is_due(deadline) => {}
            _ => return Expiry::Idle,
        }
        if *budget == 0 {
            return Expiry::Busy;
        }
        *budget -= 1;
        own.pop_first()
            .map_or(Expiry::Idle, |(_, id)| Expiry::Due(id))
    }
}
