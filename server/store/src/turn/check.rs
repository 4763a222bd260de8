//! The check of the whole keyspace. Each structure has its own; see [`crate::check`].

use std::sync::atomic::Ordering;

use super::{Touched, Turn};
use crate::check::Check;

impl Turn<'_> {
    /// Checks that the indexes and counters of the whole keyspace agree with the data. Locks every
    /// shard. O(n) for all keys and their elements.
    pub fn check(&mut self, to: &mut Check) {
        self.lock_all();
        let (store, settled) = (self.store, self.touched == Touched::None);
        let (mut waiting, mut keys, mut items) = (0, 0, 0);
        for (number, shard) in self.held_shards() {
            to.within(
                || format!("shard {number}"),
                |to| shard.check(to, |key| store.shard_of(key) == number),
            );
            if settled {
                let known = store.wakeups[number].load(Ordering::SeqCst);
                to.within(
                    || format!("shard {number}"),
                    |to| shard.check_wakeups(to, known),
                );
            }
            waiting += shard.waiters.queues() as u64;
            let tracked = shard.tracked.totals();
            (keys, items) = (keys + tracked.0 as u64, items + tracked.1 as u64);
        }
        to.equal("keys with waiting clients", store.waiting_keys(), waiting);
        to.equal("tracked keys and readers", store.tracked(), (keys, items));
    }
}
