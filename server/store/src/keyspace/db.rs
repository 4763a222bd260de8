//! One database of one shard: its records, the hash table that finds them, and the timing wheel
//! that expires them.
//!
//! An entry of the wheel carries a *stamp*, the number of the operation that filed it. The entry is
//! *live* while its record has the same stamp, otherwise *stale*. Invariant: a record with a
//! deadline has exactly one live entry, filed at the deadline or earlier (a later deadline only
//! rewrites the record); other records have no live entry, and the stamp 0. A due timer that waits
//! for its slot is an exception: it has no entry (`Db::hold_timer`). Every change of a deadline
//! goes through [`Db::set_deadline`], every removal of a key through `Db::unlink`.
//!
//! Values with a *timeline* (times at which something in the value is due, such as the deadlines of
//! hash fields) have timers in the same wheel; `timelines.rs` arms and disarms them.

mod check;
mod evict;
mod hashes;
mod local_keys;
mod memory;
mod slots;
mod timelines;
mod timers;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::Range;

use punctual::queue::wheel::{RawWheel, Step};

use self::local_keys::LocalKeys;
pub use self::memory::DbMemory;
use self::slots::SlotCounts;
use self::timelines::Parts;
use self::timers::ByDeadline;
use crate::hash_table::{Hash, HashTable, WARM_MAX};
use crate::keyspace::key::Key;
use crate::keyspace::name_hash::NameHasher;
use crate::keyspace::records::{Id, Record, Records};
use crate::keyspace::value_timers::{Armed, OF_VALUE, ValueTimers};
use crate::keyspace::walk::{Format, Walk, WalkStep};
use crate::planted::Bug;
use crate::time::NEVER;
use crate::time::Now;
use crate::value::Value;

/// One database of one shard.
pub struct Db {
    index: HashTable,
    records: Records,
    wheel: RawWheel,
    /// Timers of values with a timeline.
    values: ValueTimers,
    /// Numbers of fields and members with a deadline.
    parts: Parts,
    /// Records whose values are timers, by their deadlines; paused timers last.
    timers: ByDeadline,
    /// Records whose values are queues of jobs.
    queues: BTreeSet<Id>,
    /// On a replica, the keys that fall due without the primary; `None` on a primary.
    local_keys: Option<Box<LocalKeys>>,
    names: NameHasher,
    slot_counts: SlotCounts,
    /// The last stamp; stamps are never 0.
    stamp: u32,
    with_deadline: usize,
    /// Walk of a snapshot that has not reached the end of this database.
    walk: Option<Box<Walk>>,
}

/// Result of [`Db::next_due`].
pub enum Expiry {
    /// This record is due. The caller must remove it or, if its value is a timer, file its deadline
    /// in the wheel again.
    Due(Id),
    /// The timer of this record's value has fired and was removed. The caller must process what is
    /// due in the value and arm the timer again.
    DueTimeline(Id),
    /// The budget is used up; more may be due.
    Busy,
    /// Nothing is due.
    Idle,
}

impl Db {
    /// Creates an empty database.
    pub(crate) fn new(names: NameHasher) -> Self {
        Self {
            index: HashTable::new(names.slots()),
            records: Records::default(),
            wheel: RawWheel::new(),
            values: ValueTimers::default(),
            parts: Parts::default(),
            timers: ByDeadline::default(),
            queues: BTreeSet::new(),
            local_keys: None,
            names,
            slot_counts: SlotCounts::default(),
            stamp: 0,
            with_deadline: 0,
            walk: None,
        }
    }

    /// Replaces this database by an empty one with the same hash keys, which belongs to a replica
    /// if the old one did. Returns the old one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let mut empty = Self::new(self.names.clone());
        empty.set_following(self.is_following());
        std::mem::replace(self, empty)
    }

    /// Returns the number of keys, including due keys that have not expired yet.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys with a deadline.
    pub fn with_deadline(&self) -> usize {
        self.with_deadline
    }

    /// Returns the index of the record named `key`, due or not. O(length of the name).
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<Id> {
        self.find_hashed(self.hash(key), key)
    }

    /// Same as [`Db::find`], when the name's [`Db::hash`] is known. O(length of the name).
    #[inline]
    pub fn find_hashed(&self, hash: Hash, key: &[u8]) -> Option<Id> {
        let records = &self.records;
        self.index.find(hash, |id| {
            records.get(id).is_some_and(|r| r.key.as_bytes() == key)
        })
    }

    /// Returns the hash of a name, which is the same in all databases of a keyspace. O(length of
    /// the name).
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        self.names.hash(key)
    }

    /// Loads the cache lines that look-ups of these hashes will need, each in its database. The
    /// cache misses overlap; without this call each look-up would wait for its own.
    pub(crate) fn warm(names: &[(&Self, Hash)]) {
        // The loads of each loop do not depend on each other, so they overlap. The sums keep the
        // compiler from removing the loads.
        let mut sum = 0;
        for (db, hash) in names {
            sum ^= db.index.warm(*hash);
        }
        std::hint::black_box(sum);
        let (mut records, mut count) = ([None; WARM_MAX], 0);
        for (db, hash) in names.iter().take(WARM_MAX) {
            if let Some(id) = db.index.candidate(*hash) {
                records[count] = db.records.get(id);
                count += 1;
            }
        }
        let mut sum = 0;
        for record in records[..count].iter().flatten() {
            sum ^= record.stamp ^ record.hash;
        }
        std::hint::black_box(sum);
        let mut sum = 0;
        for record in records[..count].iter().flatten() {
            sum ^= record.value.warm() ^ record.key.warm();
        }
        std::hint::black_box(sum);
    }

    /// Loads the cache lines that the next calls of [`Db::next_due`] will read, so that the cache
    /// misses overlap.
    pub(crate) fn warm_next_due(&self, now: Now) {
        let armed = Armed {
            records: &self.records,
            values: &self.values,
        };
        self.wheel.prefetch_due(now.read_ms(), WARM_MAX, &armed);
    }

    /// Loads the cache lines that the removal of these records will need, so that the cache misses
    /// overlap: table chunk, page header, name and value.
    pub(crate) fn warm_due(&self, ids: &[Id]) {
        let mut sum = 0;
        for (&id, record) in ids
            .iter()
            .filter_map(|id| Some((id, self.records.get(*id)?)))
        {
            sum ^= u32::from(self.index.warm_place(record.hash));
            sum ^= u32::from(record.value.warm() ^ record.key.warm());
            sum ^= self.records.warm_room(id);
        }
        std::hint::black_box(sum);
    }

    /// Reserves space in the table for `keys` keys. The database must be empty. O(keys).
    pub(crate) fn reserve(&mut self, keys: usize) {
        self.index.reserve(keys);
    }

    /// Loads the first cache line that a look-up of `hash` will need. The caller must use the
    /// returned value, or the compiler removes the load.
    #[inline]
    pub(crate) fn warm_hash(&self, hash: Hash) -> u8 {
        self.index.warm(hash)
    }

    /// Returns the record of `id`.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    #[inline]
    pub fn get(&self, id: Id) -> &Record {
        self.records
            .get(id)
            .expect("the id was found under this lock")
    }

    /// Returns the record of `id` for a change.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> &mut Record {
        self.before_change(id);
        self.records
            .get_mut(id)
            .expect("the id was found under this lock")
    }

    /// Lets a snapshot's walk write the record `id`, or begin its large value, before the record
    /// changes.
    #[inline]
    fn before_change(&mut self, id: Id) {
        if let Some(walk) = &mut self.walk
            && let Some(record) = self.records.get_mut(id)
        {
            walk.before_change(id, record);
        }
    }

    /// Begins a snapshot's walk through this database; `number` is the database's number now, which
    /// SWAPDB may change later. O(records / 64): one bit for each record.
    pub(crate) fn begin_walk(&mut self, number: usize, format: Format) {
        self.walk = Some(Box::new(Walk::new(number, format, &self.records)));
    }

    /// Returns whether this database has a snapshot's walk and had the number `number` when the
    /// walk began.
    pub(crate) fn walks(&self, number: usize) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.number == number)
    }

    /// Returns whether this database has a snapshot's walk that has not ended.
    pub(crate) fn has_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Takes one step of the snapshot's walk, which appends records to `out`.
    pub(crate) fn walk(&mut self, out: &mut Vec<u8>) -> WalkStep {
        let Some(walk) = &mut self.walk else {
            return WalkStep {
                ended: true,
                ..Default::default()
            };
        };
        let step = walk.step(&mut self.records, out);
        if step.ended {
            self.walk = None;
        }
        step
    }

    /// Ends the snapshot's walk and returns it. The walk may hold large values, so the caller drops
    /// it after it has unlocked the shard.
    #[must_use = "it is dropped without a lock"]
    pub(crate) fn end_walk(&mut self) -> Option<Walk> {
        let mut walk = self.walk.take()?;
        walk.abandon(&mut self.records);
        Some(*walk)
    }

    /// Sets the uses of the key `id`: its last access or its access counter, for eviction. Does not
    /// call a snapshot's walk, because a snapshot does not contain uses.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    #[inline]
    pub fn touch(&mut self, id: Id, uses: u32) {
        let record = self.records.get_mut(id);
        record
            .expect("the id was found under this lock")
            .key
            .touch(uses);
    }

    /// Replaces the value of `id` and returns the old value for the caller to drop. If a snapshot's
    /// walk still needs the old value, the walk keeps it and an empty string is returned.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub fn replace(&mut self, id: Id, value: Value) -> Value {
        let record = self.get_mut(id);
        let (mut old, deadline) = (std::mem::replace(&mut record.value, value), record.deadline);
        self.unlist(&old, deadline, id);
        self.disarm_value(&old);
        if let Some(walk) = &mut self.walk {
            walk.keep(id, &mut old);
        }
        self.arm_value(id);
        old
    }

    /// Adds a key that does not exist, and arms the timers in its value. O(length of the name)
    /// amortised, plus O(fields) for a hash whose fields have deadlines.
    pub fn insert(&mut self, key: &[u8], value: Value, uses: u32) -> Id {
        self.insert_hashed(self.hash(key), key, value, uses)
    }

    /// Same as [`Db::insert`], when the name's [`Db::hash`] is known.
    pub fn insert_hashed(&mut self, hash: Hash, key: &[u8], value: Value, uses: u32) -> Id {
        let id = self.records.insert(Record {
            deadline: NEVER,
            stamp: 0,
            hash: hash.place,
            key: Key::new(key, uses),
            value,
        });
        if let Some(walk) = &mut self.walk {
            walk.added(id);
        }
        self.link(hash, id);
        self.arm_value(id);
        id
    }

    /// Removes a key and returns its record, with its deadline, for the caller to drop. If a
    /// snapshot's walk still needs the value, the walk keeps it and the record has an empty string.
    /// Does not compute the name's hash. O(1) amortised, plus O(fields) for a hash whose fields
    /// have deadlines.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub fn remove(&mut self, id: Id) -> Record {
        let mut record = self.unlink_armed(id);
        if let Some(walk) = &mut self.walk {
            walk.keep(id, &mut record.value);
        }
        record
    }

    /// Removes a key and returns its record, which the caller moves to another database or shard.
    /// Takes the time of [`Db::remove`]. If a snapshot's walk has begun to write the value, the
    /// walk first writes all of the value: O(bytes).
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub(crate) fn take_away(&mut self, id: Id) -> Record {
        let mut record = self.unlink_armed(id);
        if let Some(walk) = &mut self.walk {
            walk.finish(id, &mut record.value);
        }
        record
    }

    /// Removes a record from the wheel, the table and the pages. The returned record still has its
    /// deadline.
    fn unlink_armed(&mut self, id: Id) -> Record {
        let deadline = self.get(id).deadline;
        self.set_deadline(id, None);
        let mut record = self.unlink(id);
        record.deadline = deadline;
        record
    }

    /// Removes a record, whose entry has left the wheel, from the table and the pages.
    fn unlink(&mut self, id: Id) -> Record {
        self.before_change(id);
        let hash = self.get(id).hash;
        self.cut(hash, id);
        let record = self.records.remove(id).expect("looked at just now");
        self.unlist(&record.value, record.deadline, id);
        self.disarm_value(&record.value);
        record
    }

    /// Returns the deadline of `id` in Unix ms, if it has one.
    #[inline]
    pub fn deadline(&self, id: Id) -> Option<u64> {
        let deadline = self.get(id).deadline;
        (deadline != NEVER).then_some(deadline)
    }

    /// Sets or removes the deadline of `id`. O(1): a later deadline is only written into the
    /// record, and after a removal the wheel's entry stays as a stale one. For a timer and on a
    /// replica O(log n), because an ordered set also has the deadline.
    pub fn set_deadline(&mut self, id: Id, deadline: Option<u64>) {
        self.before_change(id);
        // u64::MAX stands for no deadline.
        let new = deadline.map_or(NEVER, |d| d.min(NEVER - 1));
        let stamp = self.next_stamp().get();
        let record = self
            .records
            .get_mut(id)
            .expect("the id was found under this lock");
        let old = std::mem::replace(&mut record.deadline, new);
        let filed = record.stamp != 0;
        if let Value::Timer(_) = record.value {
            self.timers.remove((old, id));
            self.timers.insert((new, id));
        }
        if let Some(local) = &mut self.local_keys {
            local.remove(&(old, id));
        }
        match (old, new) {
            (NEVER, NEVER) => {}
            (NEVER, _) => {
                record.stamp = stamp;
                self.with_deadline += 1;
                assert!(id < OF_VALUE, "2^31 keys in one database of a shard");
                self.wheel.insert(new, id, stamp);
            }
            (_, NEVER) => {
                record.stamp = 0;
                self.with_deadline -= 1;
                if filed {
                    self.forget_entry();
                }
            }
            _ if new < old || !filed => {
                record.stamp = stamp;
                self.wheel.insert(new, id, stamp);
                if filed {
                    self.forget_entry();
                }
            }
            _ => {}
        }
    }

    /// Returns a new stamp.
    #[inline]
    fn next_stamp(&mut self) -> NonZeroU32 {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        NonZeroU32::new(self.stamp).expect("at least 1")
    }

    /// Counts an entry of the wheel that has become stale.
    #[inline]
    fn forget_entry(&mut self) {
        if Bug::EntryNotForgotten.is_active() {
            return;
        }
        self.wheel.forget(&mut Armed {
            records: &self.records,
            values: &self.values,
        });
    }

    /// Returns a lower bound of the earliest deadline, at which [`Db::next_due`] must be called.
    /// O(1).
    #[inline]
    pub fn next_wakeup(&self) -> Option<u64> {
        match &self.local_keys {
            None => self.wheel.next_wakeup(),
            Some(local) => local.first().map(|(deadline, _)| *deadline),
        }
    }

    /// Sets the wheel's time, before entries are filed. The wheel files an entry by its distance
    /// from the wheel's time, which otherwise advances only when entries are due. With an old time,
    /// entries are filed too many levels up and have to move down through all of them. O(1).
    #[inline]
    pub(crate) fn set_wheel_time(&mut self, now: Now) {
        let mut armed = Armed {
            records: &self.records,
            values: &self.values,
        };
        // With a budget of 0 the step moves no entries.
        self.wheel.step(now.read_ms(), &mut armed, &mut 0);
    }

    /// Returns the earliest deadline, exactly.
    pub fn next_deadline(&mut self) -> Option<u64> {
        if self.is_following() {
            return self.next_wakeup();
        }
        self.wheel.next_deadline(&mut Armed {
            records: &self.records,
            values: &self.values,
        })
    }

    /// Returns the next due record or value, in exact deadline order; [`Expiry`] says what the
    /// caller must do with it. [`Db::remove_due`] removes a record. Does at most `budget` steps of
    /// work and subtracts the steps from `budget`.
    pub fn next_due(&mut self, now: Now, budget: &mut usize) -> Expiry {
        if self.is_following() {
            return self.next_local_due(now, budget);
        }
        let mut armed = Armed {
            records: &self.records,
            values: &self.values,
        };
        match self.wheel.step(now.read_ms(), &mut armed, budget) {
            Step::Due(due) if due.index & OF_VALUE != 0 => {
                Expiry::DueTimeline(self.timeline_fired(due.index & !OF_VALUE))
            }
            Step::Due(due) => Expiry::Due(due.index),
            Step::Busy => Expiry::Busy,
            Step::Idle => Expiry::Idle,
        }
    }

    /// Removes a record that [`Db::next_due`] has returned, in the time of [`Db::remove`].
    ///
    /// # Panics
    /// If `id` is not the record that was due.
    pub fn remove_due(&mut self, id: Id) -> Record {
        if self.is_following() {
            // The key was taken from `local_keys`, so the wheel still has its entry.
            return self.remove(id);
        }
        self.with_deadline -= 1;
        let mut record = self.unlink(id);
        if let Some(walk) = &mut self.walk {
            walk.keep(id, &mut record.value);
        }
        record
    }

    /// Returns all records in no particular order, due ones included.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &Record)> {
        self.records.iter()
    }

    /// Visits the values of the records with indices in `range`. Returns a number that is greater
    /// than every index. O(length of the range).
    pub(crate) fn visit(&self, range: Range<u32>, mut visit: impl FnMut(&Value)) -> u32 {
        let end = self.records.places();
        for index in range.start..range.end.min(end) {
            if let Some(record) = self.records.get(index) {
                visit(&record.value);
            }
        }
        end
    }

    /// Returns a sample of deadlines: the deadlines of the first thousand records.
    pub fn some_deadlines(&self) -> impl Iterator<Item = u64> {
        self.iter()
            .take(1000)
            .map(|(_, r)| r.deadline)
            .filter(|d| *d != NEVER)
    }

    /// Visits the keys of a small part of the table from `from` on. Returns the place at which to
    /// continue; see [`HashTable::scan`].
    pub fn scan(&self, from: u32, visit: impl FnMut(Id)) -> Option<u32> {
        let records = &self.records;
        self.index.scan(from, |i| place(records, i), visit)
    }

    /// See [`HashTable::order_at`].
    pub(crate) fn scan_order(&self, place: u32) -> u32 {
        self.index.order_at(place)
    }

    /// See [`HashTable::resume`].
    pub(crate) fn resume_scan(&self, place: u32, order: u32) -> u32 {
        self.index.resume(place, order)
    }

    /// Returns a random key, due or not.
    pub fn at_random(&self, random: impl FnMut(u32) -> u32) -> Option<Id> {
        self.records.at_random(random)
    }
}

/// Returns the hash of a record for the table.
fn place(records: &Records, id: Id) -> u32 {
    records.get(id).map_or(0, |r| r.hash)
}
