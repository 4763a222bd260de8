//! Eviction: removing keys because memory is short.
//!
//! The caller measures memory and decides when enough keys are evicted; [`crate::eviction`] has the
//! policies. The effect of an eviction is a DEL in the log of changes, before the command that
//! needs the memory. Like an expiry, an eviction does not count as a change by that command.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::events::Classes;
use crate::eviction::{Evicted, Eviction, EvictionOrder};
use crate::keyspace::candidates::Batch;
use crate::keyspace::db::Db;
use crate::keyspace::records::{Id, Record};
use crate::keyspace::shard::{NO_WAKEUP, Touched};
use crate::time::NEVER;
use crate::turn::Turn;

/// Number of keys that are taken at a time, so that the cache misses of their removals overlap.
const TOGETHER: usize = 4;
/// Maximum time to wait for the lock of a shard.
const PATIENCE: Duration = Duration::from_millis(1);

impl Turn<'_> {
    /// Evicts keys until `enough` returns true; it is called before each eviction. Begins with the
    /// shards whose numbers equal `first` modulo `stride`, which are the shards of the caller's
    /// loop, and continues with all others. `volatile-ttl` instead takes the earliest deadline of
    /// all shards. No shard may be pinned. O(1) amortised for each key, O(shards + databases) with
    /// `volatile-ttl`.
    pub fn evict(
        &mut self,
        policy: Eviction,
        first: usize,
        stride: usize,
        enough: &mut dyn FnMut(&mut Self) -> bool,
    ) -> Evicted {
        if policy.order == EvictionOrder::Ttl {
            let done = self.evict_by_deadline(enough);
            if done != Evicted::Nothing {
                return done;
            }
            // The search gives up after very many deadlines of other entries (hash fields, streams,
            // timers, queues of jobs), so keys may be left.
        }
        let shards = self.store.shards();
        let stride = stride.max(1);
        let own = (first % stride..shards).step_by(stride);
        let others = (0..shards).filter(|n| n % stride != first % stride);
        let mut left = Evicted::Nothing;
        for number in own.chain(others) {
            if !self.try_lock_one(number, PATIENCE) {
                left = Evicted::Unfinished;
                continue;
            }
            match self.framed(|turn| turn.evict_from(number, policy, enough)) {
                Evicted::Nothing => {}
                Evicted::Unfinished => left = Evicted::Unfinished,
                Evicted::Enough => return Evicted::Enough,
            }
        }
        left
    }

    /// Evicts keys of a held shard.
    fn evict_from(
        &mut self,
        number: usize,
        policy: Eviction,
        enough: &mut dyn FnMut(&mut Self) -> bool,
    ) -> Evicted {
        self.deadlines_may_change(Touched::Any);
        let (now, uses) = (self.now, self.limits.uses);
        loop {
            if enough(self) {
                return Evicted::Enough;
            }
            let shard = self.shard_mut(number);
            let mut batch = Batch::new();
            let (candidates, dbs) = (&mut shard.candidates, &shard.dbs);
            let ended = candidates.take(dbs, policy, uses, now, TOGETHER, &mut batch);
            if batch.is_empty() {
                return if ended {
                    Evicted::Nothing
                } else {
                    Evicted::Unfinished
                };
            }
            for (db, id) in &batch {
                dbs[*db].warm_due(&[*id]);
            }
            for (n, (db, id)) in batch.into_iter().enumerate() {
                if n > 0 && enough(self) {
                    return Evicted::Enough;
                }
                let record = self.shard_db(number, db).remove(id);
                self.evicted(db, record);
            }
        }
    }

    /// Evicts the keys with the earliest deadlines of all shards and databases.
    fn evict_by_deadline(&mut self, enough: &mut dyn FnMut(&mut Self) -> bool) -> Evicted {
        if self.store.shards() > 1 {
            // The release brings the shards' wake-ups up to date.
            self.release();
        }
        let bound = |at: &std::sync::atomic::AtomicU64| at.load(Ordering::SeqCst);
        // Lower bounds of the earliest deadlines of the shards, exact after a shard was searched.
        let mut bounds: Vec<u64> = match self.store.shards() {
            1 => vec![0],
            _ => self.store.wakeups.iter().map(bound).collect(),
        };
        let mut asked = false;
        while let Some((number, &at)) = bounds.iter().enumerate().min_by_key(|(_, at)| **at)
            && at != NO_WAKEUP
        {
            if !std::mem::replace(&mut asked, true) && enough(self) {
                return Evicted::Enough;
            }
            if !self.try_lock_one(number, PATIENCE) {
                return Evicted::Unfinished;
            }
            self.deadlines_may_change(Touched::Any);
            let Some((db, id, deadline)) = self.earliest_in(number) else {
                bounds[number] = NO_WAKEUP;
                continue;
            };
            bounds[number] = deadline;
            if bounds.iter().any(|other| *other < deadline) {
                self.shard_db(number, db).put_back(id);
                continue;
            }
            asked = false;
            self.framed(|turn| {
                let record = turn.shard_db(number, db).remove_due(id);
                turn.evicted(db, record);
            });
        }
        match !asked && enough(self) {
            true => Evicted::Enough,
            false => Evicted::Nothing,
        }
    }

    /// Takes the key with the earliest deadline of a held shard from its wheel. Returns the key's
    /// database, record and deadline.
    fn earliest_in(&mut self, number: usize) -> Option<(usize, Id, u64)> {
        let mut best: Option<(usize, Id, u64)> = None;
        for db in 0..self.store.databases() {
            let part = self.shard_db(number, db);
            let earlier = |at: u64| best.is_none_or(|best| at < best.2);
            if !part.next_wakeup().is_some_and(earlier) {
                continue;
            }
            let Some(id) = part.take_earliest() else {
                continue;
            };
            let deadline = part.deadline(id).unwrap_or(NEVER);
            if !earlier(deadline) {
                part.put_back(id);
            } else if let Some((db, id, _)) = best.replace((db, id, deadline)) {
                self.shard_db(number, db).put_back(id);
            }
        }
        best
    }

    fn evicted(&mut self, db: usize, record: Record) {
        let key = record.key.as_bytes();
        self.stats.evicted += 1;
        self.expiry_effect(db, &[b"DEL", key]);
        self.commit_expiry(db, key, Classes::EVICTED, "evicted", Some(&record.value));
        self.discarded.evicted(record.value);
    }

    /// Returns the bytes of free places for records in all shards. The figure of a shard that is
    /// not held is from the last time that a turn unlocked it while
    /// [`Store::set_counts_room`](crate::Store::set_counts_room) was on. O(shards + held
    /// databases).
    pub fn room(&mut self) -> u64 {
        let store = self.store;
        self.publish_rooms();
        let rooms = store.rooms.iter();
        rooms.map(|room| room.load(Ordering::Relaxed)).sum()
    }

    /// Stores the bytes of free places of the held shards where all threads can read them.
    #[cold]
    pub(super) fn publish_rooms(&mut self) {
        let store = self.store;
        for (number, shard) in self.held_shards() {
            store.rooms[number].store(shard.room() as u64, Ordering::Relaxed);
        }
    }

    /// Returns whether a snapshot walks through records of a held shard, so that they must not
    /// move.
    pub fn is_walked(&mut self) -> bool {
        self.held_shards()
            .any(|(_, shard)| shard.dbs.iter().any(Db::has_walk))
    }

    /// Moves records so that a page becomes free and is returned, in the shard and the database
    /// with the most free places. Returns the number of freed bytes. Locks one shard.
    pub fn compact(&mut self) -> u64 {
        let rooms = self
            .store
            .rooms
            .iter()
            .map(|room| room.load(Ordering::Relaxed));
        let Some((number, _)) = rooms.enumerate().max_by_key(|(_, room)| *room) else {
            return 0;
        };
        if !self.try_lock_one(number, PATIENCE) {
            return 0;
        }
        let shard = self.shard_mut(number);
        let dbs = shard.dbs.iter_mut().enumerate();
        let Some((number, db)) = dbs.max_by_key(|(_, db)| db.room()) else {
            return 0;
        };
        let (freed, moved) = db.compact();
        shard.candidates.moved(number, &moved);
        let freed = freed as u64;
        self.deadlines_may_change(Touched::Any);
        self.publish_rooms();
        freed
    }
}

#[cfg(test)]
mod tests;
