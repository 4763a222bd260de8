//! Expiry of keys, from the wheel to the event. `parts.rs`, `streams.rs` and `jobs.rs` process what
//! is due in hashes, sets and sorted sets, in streams, and in queues of jobs.
//!
//! The wheel returns due keys and values ([`Turn::expire`], [`Turn::advance`]), or a command looks
//! up a due key first ([`Turn::expire_touched`]). In both cases the key is removed, reported to the
//! sink and counted once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::events::Classes;
use crate::hash_table::WARM_MAX;
use crate::keyspace::db::Expiry;
use crate::keyspace::records::Id;
use crate::keyspace::records::Record;
use crate::keyspace::shard::Touched;
use crate::time::Now;
use crate::turn::Turn;
use crate::value::Value;

/// Number of steps of expiry in one database before the next database has its turn.
const SLICE: usize = 64;

/// A copy of a key's name, for use while its record changes.
pub(super) type Name = SmallVec<[u8; 32]>;

impl Turn<'_> {
    /// Expires everything that is due in shard `number`, in deadline order within each database,
    /// with at most `budget` steps of work. Returns true if nothing due is left. The databases
    /// alternate after `SLICE` steps, so that a million keys in one database do not delay a few
    /// keys in another. O(budget + databases).
    ///
    /// Stops when timers are due: the caller takes them by [`Turn::take_due_timers`], fires them
    /// and calls again.
    pub fn expire(&mut self, number: usize, budget: &mut usize) -> bool {
        self.lock_one(number);
        self.hashed_key = super::ahead::Name::NONE;
        self.deadlines_may_change(Touched::Any);
        let now = self.now;
        loop {
            let mut done = true;
            for db in 0..self.store.databases() {
                let slice = SLICE.min(*budget);
                let mut left = slice;
                done &= self.expire_and_append(number, db, now, &mut left);
                *budget -= slice - left;
            }
            if done || *budget == 0 || self.has_due_timers() {
                self.move_dead_letters();
                return done;
            }
        }
    }

    /// Same as [`Turn::expire_db`], outside of any command. Also appends the entries of NOTIFY.
    fn expire_and_append(
        &mut self,
        number: usize,
        db: usize,
        until: Now,
        budget: &mut usize,
    ) -> bool {
        if !self.recorder.any() {
            return self.expire_db(number, db, until, budget);
        }
        self.framed(|turn| turn.expire_db(number, db, until, budget))
    }

    /// Expires everything that is due at `until` in one database of a held shard. Returns
    /// true if nothing due is left.
    pub(crate) fn expire_db(
        &mut self,
        number: usize,
        db: usize,
        until: Now,
        budget: &mut usize,
    ) -> bool {
        let wakeup = self.shard_db(number, db).next_wakeup();
        if wakeup.is_none_or(|at| !until.is_due(at)) {
            return true;
        }
        let mut batch: SmallVec<[Id; WARM_MAX]> = SmallVec::new();
        // The loop goes on until the wheel returns `Idle`, because the wheel then frees unneeded
        // memory.
        loop {
            let part = self.shard_db(number, db);
            part.warm_next_due(until);
            let last = loop {
                match part.next_due(until, budget) {
                    Expiry::Due(id) => batch.push(id),
                    other => break Some(other),
                }
                if batch.len() == WARM_MAX {
                    break None;
                }
            };
            // The batch may contain the key of the due value, which is then removed together with
            // the key.
            let last = last.filter(|last| match last {
                Expiry::DueTimeline(id) => !batch.contains(id),
                _ => true,
            });
            // The records are probably not in the processor's cache; their cache misses overlap
            // here.
            if batch.len() > 1 {
                part.warm_due(&batch);
            }
            for id in batch.drain(..) {
                let part = self.shard_db(number, db);
                if part.refile_timer(id) {
                    self.timer_is_due(number, db, id);
                    continue;
                }
                let record = self.shard_db(number, db).remove_due(id);
                self.expired(db, &record);
                self.discarded.value(record.value);
            }
            match last {
                Some(Expiry::Busy | Expiry::Idle) if self.has_due_timers() => return false,
                None | Some(Expiry::Due(_)) => {}
                Some(Expiry::DueTimeline(id)) => match self.shard_db(number, db).get(id).value {
                    Value::Jobs(_) => self.jobs_due(number, db, id, until, budget),
                    Value::Stream(_) => self.stream_due(number, db, id, until, budget),
                    _ => self.parts_due(number, db, id, until, budget),
                },
                Some(Expiry::Busy) => return false,
                Some(Expiry::Idle) => return true,
            }
            if self.has_due_timers() {
                return false;
            }
        }
    }

    /// Expires a due key that a command has looked up, unless the turn is [frozen](Turn::frozen).
    /// Returns whether the key is hidden from the command: false for a timer, which stays until its
    /// loop fires it.
    #[cold]
    pub(crate) fn expire_touched(&mut self, db: usize, key: &[u8], id: Id) -> bool {
        let number = self.store.shard_of(key);
        if matches!(self.shard_db(number, db).get(id).value, Value::Timer(_)) {
            return false;
        }
        if !self.frozen {
            self.deadlines_may_change(Touched::One(db));
            self.expire_due(number, db, id);
        }
        true
    }

    /// Expires a due key of shard `number` that is not a timer, unless the turn is frozen.
    pub(crate) fn expire_due(&mut self, number: usize, db: usize, id: Id) {
        if self.frozen {
            return;
        }
        let record = self.shard_db(number, db).remove(id);
        self.stats.expired_on_touch += 1;
        self.expired(db, &record);
        self.discarded.value(record.value);
    }

    fn expired(&mut self, db: usize, record: &Record) {
        let key = record.key.as_bytes();
        let value = record.value.as_str().map(|s| s.bytes());
        self.stats.expired += 1;
        self.sink
            .expired(self.now, db, key, value.as_deref(), record.deadline);
        self.expiry_effect(db, &[b"DEL", key]);
        self.commit_expiry(db, key, Classes::EXPIRED, "expired", Some(&record.value));
    }

    /// Moves the turn's instant to `to`, for a virtual clock; `to` may be earlier than the instant.
    /// Expires everything that is due at `to` in exact deadline order over all shards and
    /// databases, each key at the instant of its own deadline. Expires nothing if active expiry is
    /// off. Locks every shard. O(n log (shards · databases)) for n keys.
    ///
    /// Returns false if timers are due at `to` or before. The turn's instant is then their
    /// deadline, or unchanged if it is later. The caller takes the timers by
    /// [`Turn::take_due_timers`], fires them and calls again.
    #[must_use = "timers may be due before the instant"]
    pub fn advance(&mut self, to: Now) -> bool {
        if self.store.active_expire() {
            self.lock_all();
            self.deadlines_may_change(Touched::Any);
            let mut heads: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
            for (number, shard) in self.held_shards() {
                for (db, part) in shard.dbs.iter_mut().enumerate() {
                    heads.extend(part.next_deadline().map(|at| Reverse((at, number, db))));
                }
            }
            let mut fires_at = None;
            while let Some(Reverse((deadline, number, db))) = heads.pop()
                && deadline <= fires_at.unwrap_or(deadline)
                && to.is_due(deadline)
            {
                let instant = Now::from_ms(deadline);
                self.now = self.now.max(instant);
                let found = self.due_timers.len();
                // `instant` is used instead of the turn's instant, so that overdue keys also expire
                // in deadline order.
                let mut done = false;
                while !done && self.due_timers.len() == found {
                    done = self.expire_and_append(number, db, instant, &mut { usize::MAX });
                }
                if self.due_timers.len() > found {
                    // Timers of other shards with the same deadline fire together with these.
                    // Otherwise timers that this shard's timers create would fire first, and could
                    // create further timers without end.
                    fires_at = Some(deadline);
                    continue;
                }
                let next = self.shard_db(number, db).next_deadline();
                heads.extend(next.map(|at| Reverse((at, number, db))));
                if self.move_dead_letters() {
                    // The target streams may be in any shard and may have got new deadlines.
                    for (number, shard) in self.held_shards() {
                        let next = shard.dbs[db].next_deadline();
                        heads.extend(next.map(|at| Reverse((at, number, db))));
                    }
                }
            }
            if fires_at.is_some() {
                return false;
            }
        }
        self.now = to;
        true
    }

    /// Returns the exact earliest deadline of all shards and databases. Locks every shard.
    pub fn next_deadline(&mut self) -> Option<u64> {
        self.lock_all();
        self.held_shards()
            .flat_map(|(_, shard)| shard.dbs.iter_mut())
            .filter_map(|db| db.next_deadline())
            .min()
    }
}

#[cfg(test)]
mod tests {
    use punctual_resp::{OwnedArgs, Protocol, Reply};

    use crate::command;
    use crate::events::{Classes, Sink};
    use crate::{Now, Store, StoreOptions, Turn};

    /// Deadlines and databases of expired keys in their order, and the greatest lateness in ms.
    #[derive(Default)]
    struct Expired(Vec<(u64, usize)>, u64);

    impl Sink for Expired {
        fn keyspace(&mut self, _: usize, _: Classes, _: &str, _: &[u8]) {}
        fn expired(&mut self, now: Now, db: usize, _: &[u8], _: Option<&[u8]>, deadline_ms: u64) {
            self.0.push((deadline_ms, db));
            self.1 = self.1.max(now.read_ms() - deadline_ms);
        }
        fn wake(&mut self, _: usize, _: u64) {}
    }

    fn run(turn: &mut Turn, db: usize, line: &str) {
        let args: OwnedArgs = line.split(' ').collect();
        let row = command::find(args.as_args()[0].to_ascii_lowercase().as_slice()).unwrap();
        let mut out = Vec::new();
        turn.run(
            row,
            db,
            true,
            args.as_args(),
            &mut Reply::new(&mut out, Protocol::Resp2),
        )
        .unwrap();
    }

    /// Returns a store of `keys` keys in three databases; key n has the deadline `deadline(n)`.
    fn filled(shards: usize, keys: u64, deadline: impl Fn(u64) -> u64) -> Store {
        let store = Store::new(StoreOptions {
            shards,
            databases: 3,
            cluster: false,
            seed: 1,
            nap: std::thread::sleep,
        });
        let mut sink = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
        for n in 0..keys {
            let at = deadline(n);
            run(
                &mut turn,
                (n % 3) as usize,
                &format!("SET key:{n} v PXAT {at}"),
            );
        }
        drop(turn);
        store
    }

    #[test]
    fn an_advance_expires_in_deadline_order_over_everything() {
        let spread = |n: u64| 2_000 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_003;
        let store = filled(8, 100_000, spread);
        let mut gone = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut gone, Classes::none());
        assert_eq!(turn.next_deadline(), (0..100_000).map(spread).min());
        assert!(turn.advance(Now::from_ms(600_000)));
        assert!(turn.advance(Now::from_ms(1_500_000)));
        assert_eq!(turn.stats.expired, 100_000);
        assert_eq!(turn.now, Now::from_ms(1_500_000));
        assert_eq!(turn.next_deadline(), None);
        drop(turn);
        assert_eq!(gone.1, 0, "each key went at its deadline");
        let mut expected: Vec<(u64, usize)> = (0..100_000)
            .map(|n| (spread(n), (n % 3) as usize))
            .collect();
        expected.sort_unstable();
        assert!(gone.0.is_sorted_by_key(|(deadline, _)| *deadline));
        gone.0.sort_unstable();
        assert_eq!(gone.0, expected);
    }

    #[test]
    fn an_advance_stops_where_it_is_told() {
        let store = filled(4, 100, |n| 2_000 + n);
        let mut gone = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut gone, Classes::none());
        assert!(turn.advance(Now::from_ms(1_999)));
        assert_eq!(turn.stats.expired, 0);
        assert!(turn.advance(Now::from_micros(2_049_999)));
        assert_eq!(turn.stats.expired, 50);
        assert!(turn.advance(Now::from_ms(500)));
        assert_eq!((turn.now, turn.stats.expired), (Now::from_ms(500), 50));
        store.set_active_expire(false);
        assert!(turn.advance(Now::from_ms(9_000)));
        assert_eq!((turn.now, turn.stats.expired), (Now::from_ms(9_000), 50));
        assert_eq!(turn.next_deadline(), Some(2_050));
    }

    /// Keys that were overdue before the advance also expire in deadline order.
    #[test]
    fn overdue_keys_expire_in_order() {
        let store = filled(8, 1_000, |n| 2_000 + n * 7919 % 100);
        let mut gone = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(50_000), &mut gone, Classes::none());
        assert!(turn.advance(Now::from_ms(50_001)));
        assert_eq!(turn.stats.expired, 1_000);
        drop(turn);
        assert!(gone.0.is_sorted_by_key(|(deadline, _)| *deadline));
    }

    #[test]
    fn a_crowded_database_does_not_delay_another() {
        let store = Store::new(StoreOptions {
            shards: 1,
            databases: 3,
            cluster: false,
            seed: 1,
            nap: std::thread::sleep,
        });
        let mut gone = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut gone, Classes::none());
        for n in 0..5_000 {
            run(&mut turn, 0, &format!("SET key:{n} v PX 1"));
        }
        run(&mut turn, 2, "SET alone v PX 2");
        turn.now = Now::from_ms(1_002);
        assert!(!turn.expire(0, &mut 200));
        drop(turn);
        assert!(gone.0.contains(&(1_002, 2)));
        assert!(gone.0.len() <= 200, "{}", gone.0.len());
    }

    /// Entries that are filed before anything was due lie at the right level of the wheel, so the
    /// first key expires without a move of all other entries.
    #[test]
    fn the_first_of_many_keys_expires_at_once() {
        // The first millisecond of a slot of four minutes, so that all deadlines are in it.
        const START: u64 = 1_790_000_000_000 >> 18 << 18;
        for shards in [1, 4] {
            let store = Store::new(StoreOptions {
                shards,
                databases: 1,
                cluster: false,
                seed: 1,
                nap: std::thread::sleep,
            });
            let mut gone = Expired::default();
            let mut turn = Turn::new(&store, Now::from_ms(START), &mut gone, Classes::none());
            for n in 0..20_000 {
                run(
                    &mut turn,
                    0,
                    &format!("SET key:{n} v PXAT {}", START + 1 + 10 * n),
                );
            }
            turn.now = Now::from_ms(START + 1);
            // One slot of four seconds has 410 keys.
            for shard in 0..shards {
                turn.expire(shard, &mut 1_000);
            }
            assert_eq!(turn.stats.expired, 1, "{shards} shards");
        }
    }

    /// With the smallest budget no key is lost, and no key expires twice.
    #[test]
    fn small_budgets_get_there() {
        let store = filled(1, 1_000, |n| 2_000 + n % 3);
        let mut gone = Expired::default();
        let mut turn = Turn::new(&store, Now::from_ms(2_001), &mut gone, Classes::none());
        let mut calls = 0;
        while !turn.expire(0, &mut 1) {
            calls += 1;
            assert!(calls < 100_000, "each call does some of the work");
        }
        assert_eq!(turn.stats.expired, 667);
        assert!(calls > 600, "each call stays within its budget of one step");
    }
}
