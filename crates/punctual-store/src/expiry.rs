//! From the wheel to the event: how keys end at their deadlines.
//!
//! Two ways lead here: the wheel brings a due key ([`Turn::expire`], [`Turn::advance`]), or a command meets one that
//! the wheel has not got to ([`Turn::expire_touched`]). All remove it, tell the sink and count it; a key goes once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::db::{Expiry, Id};
use crate::events::Classes;
use crate::records::Record;
use crate::time::Now;
use crate::turn::Turn;

impl Turn<'_> {
    /// Expires what is due in shard `number`, in deadline order within each database, with at most `budget`
    /// steps of work; whether everything that is due is gone. O(budget).
    pub fn expire(&mut self, number: usize, budget: &mut usize) -> bool {
        self.lock_one(number);
        let now = self.now;
        for db in 0..self.store.databases() {
            if !self.expire_db(number, db, now, budget) {
                return false;
            }
        }
        true
    }

    /// Expires what is due at `until` in one database of a shard that is held; whether all of that is gone.
    pub(crate) fn expire_db(&mut self, number: usize, db: usize, until: Now, budget: &mut usize) -> bool {
        loop {
            let part = self.shard_db(number, db);
            if part.next_wakeup().is_none_or(|at| !until.is_due(at)) {
                return true;
            }
            if *budget == 0 {
                return false;
            }
            match part.next_due(until, budget) {
                Expiry::Due(id) => {
                    let record = part.remove_due(id);
                    self.expired(db, &record);
                }
                Expiry::Busy => return false,
                Expiry::Idle => return true,
            }
        }
    }

    /// A command met a due key: it goes now.
    #[cold]
    pub(crate) fn expire_touched(&mut self, db: usize, key: &[u8], id: Id) {
        self.expire_met(self.store.shard_of(key), db, id);
    }

    /// As [`Turn::expire_touched`], of a shard that is known.
    pub(crate) fn expire_met(&mut self, number: usize, db: usize, id: Id) {
        let record = self.shard_db(number, db).remove(id);
        self.stats.expired_on_touch += 1;
        self.expired(db, &record);
    }

    fn expired(&mut self, db: usize, record: &Record) {
        let key = record.key.as_bytes();
        let value = record.value.as_str().map(|s| s.bytes());
        self.stats.expired += 1;
        self.sink.expired(db, key, value.as_deref(), record.deadline);
        self.notify(db, Classes::EXPIRED, "expired", key);
    }

    /// Moves the instant to `to` and expires all that is due by then, in exact deadline order over all shards and
    /// databases, each key at the instant of its own deadline: for a clock that is moved by hand. Only moves the
    /// instant if `to` is earlier, or if due keys do not go by themselves. Locks everything, however long it takes:
    /// O(n log (shards · databases)) for n keys.
    pub fn advance(&mut self, to: Now) {
        if self.store.active_expire() {
            self.lock_all();
            let mut heads: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
            for (number, shard) in self.held_shards() {
                for (db, part) in shard.dbs.iter_mut().enumerate() {
                    heads.extend(part.next_deadline().map(|at| Reverse((at, number, db))));
                }
            }
            while let Some(Reverse((deadline, number, db))) = heads.pop()
                && to.is_due(deadline)
            {
                let instant = Now::from_ms(deadline);
                self.now = self.now.max(instant);
                // Not by the turn's instant: what was overdue before goes in deadline order too.
                while !self.expire_db(number, db, instant, &mut { usize::MAX }) {}
                let next = self.shard_db(number, db).next_deadline();
                heads.extend(next.map(|at| Reverse((at, number, db))));
            }
        }
        self.now = to;
    }

    /// The earliest deadline of all shards and databases, exactly. Locks everything.
    pub fn next_deadline(&mut self) -> Option<u64> {
        self.lock_all();
        self.held_shards()
            .flat_map(|(_, shard)| shard.dbs.iter_mut())
            .filter_map(|db| db.next_deadline())
            .min()
    }
}
