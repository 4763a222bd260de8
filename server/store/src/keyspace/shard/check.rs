//! Checks of everything that a shard's lock guards.

use super::{NO_WAKEUP, Shard};
use crate::check::Check;

impl Shard {
    /// Checks everything in the shard; `belongs` returns whether a key belongs to the shard.
    pub(crate) fn check(&self, to: &mut Check, belongs: impl Fn(&[u8]) -> bool) {
        for (number, db) in self.dbs.iter().enumerate() {
            to.within(|| format!("db {number}"), |to| db.check(to, &belongs));
        }
        self.watched.check(to, &belongs);
        self.waiters.check(to, &belongs);
        self.tracked.check(to, &belongs);
    }

    /// Checks that the shard's loop wakes up for each deadline, between two turns that change it.
    /// `known` is the wake-up that the loop reads.
    pub(crate) fn check_wakeups(&self, to: &mut Check, known: u64) {
        for (db, &wakeup) in self.dbs.iter().zip(&self.wakeups) {
            let next = db.next_wakeup().unwrap_or(NO_WAKEUP);
            to.holds("the loop wakes up for each database", wakeup <= next);
        }
        let earliest = self.wakeups.iter().copied().min().unwrap_or(NO_WAKEUP);
        to.equal("wake-up", self.earliest, earliest);
        to.equal("wake-up that the loop knows", known, earliest);
    }
}
