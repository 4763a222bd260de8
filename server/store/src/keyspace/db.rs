//! One database of one shard: records, the hash table that finds them, and the wheel that expires
//! them.
//!
//! Invariant: a record has a deadline if and only if exactly one entry in the wheel carries its
//! stamp; that entry is filed at the deadline or earlier (a later deadline only rewrites the
//! record). Every change of a deadline goes through [`Db::set_deadline`], every removal of a record
//! through [`Db::remove`]. Hash fields with deadlines are timers of the same wheel; every value
//! that is added or removed passes `fields`.

mod evict;
mod fields;
mod own;
mod timelines;
mod timers;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use ahash::RandomState;
use punctual::queue::wheel::{RawWheel, Step};

use self::own::Own;
use self::timers::ByDeadline;
use crate::hash_table::{Hash, HashTable, WARM_MAX};
use crate::keyspace::field_timers::{Armed, FIELD_TIMER_BYTES, FieldTimers, OF_FIELD, WHOLE};
use crate::keyspace::key::Key;
use crate::keyspace::records::{Id, RECORD_BYTES, Record, Records};
use crate::keyspace::walk::{Format, Walk, WalkStep};
use crate::time::NEVER;
use crate::time::Now;
use crate::value::Value;

/// Size of a wheel entry: the low half of the deadline, the record's index, its stamp.
const WHEEL_ENTRY_BYTES: usize = 3 * size_of::<u32>();
/// Size of an entry of the ordered set of timers, with the part of its node that is empty.
const TIMER_ENTRY_BYTES: usize = 18;
/// As [`TIMER_ENTRY_BYTES`], for the set of queues.
const QUEUE_ENTRY_BYTES: usize = 8;

/// One database of one shard.
pub struct Db {
    index: HashTable,
    records: Records,
    wheel: RawWheel,
    /// Timers of hash fields, and of values with a timeline.
    fields: FieldTimers,
    /// Number of those of values.
    timelines: usize,
    /// The values that are timers, by their deadlines; paused ones last.
    timers: ByDeadline,
    /// The values that are queues of jobs.
    queues: BTreeSet<Id>,
    /// The keys that fall due on a replica; `None` on a primary.
    own: Option<Box<Own>>,
    hasher: RandomState,
    /// Number of the last arm; stamps are never 0.
    stamp: u32,
    with_deadline: usize,
    /// The walk of a snapshot that has not reached the end of this database.
    walk: Option<Box<Walk>>,
}

/// Result of [`Db::next_due`].
pub enum Expiry {
    /// This record is due; it is still there.
    Due(Id),
    /// This timer of a hash field is due; the field is still there.
    DueField(u32),
    /// The timer of this record, whose value has a timeline, has fired and is gone. The value may
    /// have another deadline.
    DueTimeline(Id),
    /// The budget is used up, there may be more.
    Busy,
    /// Nothing is due.
    Idle,
}

impl Db {
    /// Creates an empty database.
    pub fn new(hasher: RandomState) -> Self {
        Self {
            index: HashTable::default(),
            records: Records::default(),
            wheel: RawWheel::new(),
            fields: FieldTimers::default(),
            timelines: 0,
            timers: ByDeadline::default(),
            queues: BTreeSet::new(),
            own: None,
            hasher,
            stamp: 0,
            with_deadline: 0,
            walk: None,
        }
    }

    /// Replaces this database by an empty one with the same hash keys and role, and returns the old
    /// one.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let mut empty = Self::new(self.hasher.clone());
        empty.set_following(self.is_following());
        std::mem::replace(self, empty)
    }

    /// Returns the number of keys, due ones that have not expired yet included.
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

    /// As [`Db::find`], when the name's [`Db::hash`] is known. O(length of the name).
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
        Hash::new(self.hasher.hash_one(key))
    }

    /// Fetches the cache lines that look-ups of these hashes will need, each in its database, side
    /// by side. A pipeline of look-ups would wait for memory one after the other. Changes nothing.
    pub(crate) fn warm(names: &[(&Self, Hash)]) {
        // Each loop's loads do not depend on one another, so they run at once; the sums keep them
        // alive.
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

    /// Fetches what [`Db::next_due`] reads of the next entries that are due, side by side. Changes
    /// nothing.
    pub(crate) fn warm_next_due(&self, now: Now) {
        let armed = Armed {
            records: &self.records,
            fields: &self.fields,
        };
        self.wheel.prefetch_due(now.read_ms(), WARM_MAX, &armed);
    }

    /// Fetches the cache lines that the removal of these records will need, side by side: their
    /// place in the table, the room of their page, their names and their values. Changes nothing.
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

    /// Makes room for `keys` keys in an empty database. O(keys).
    pub(crate) fn expect(&mut self, keys: usize) {
        self.index.reserve(keys);
    }

    /// Fetches the first cache line that a look-up of `hash` will need. The returned value keeps
    /// the load alive.
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

    /// Has the snapshot's walk write `id` before it changes or is removed.
    #[inline]
    fn before_change(&mut self, id: Id) {
        if let Some(walk) = &mut self.walk
            && let Some(record) = self.records.get_mut(id)
        {
            walk.before_change(id, record);
        }
    }

    /// Begins a snapshot's walk through this database, whose number is `number`. O(records / 64).
    pub(crate) fn begin_walk(&mut self, number: usize, format: Format) {
        self.walk = Some(Box::new(Walk::new(number, format, &self.records)));
    }

    /// Returns whether a snapshot walks here that began when this database had the number `number`.
    pub(crate) fn walks(&self, number: usize) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.number == number)
    }

    /// Returns whether a snapshot has not reached the end of this database.
    pub(crate) fn has_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Takes a step of the snapshot's walk: appends records to `out`.
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

    /// Ends the snapshot's walk. The caller drops what it returns without a lock: it may have large
    /// values.
    #[must_use = "it is dropped without a lock"]
    pub(crate) fn end_walk(&mut self) -> Option<Walk> {
        let mut walk = self.walk.take()?;
        walk.abandon(&mut self.records);
        Some(*walk)
    }

    /// Notes a use of `id`, which is no change of its value.
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

    /// Replaces the value of `id`, whatever its type, and returns the old one to drop; a snapshot
    /// may have taken it.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub fn replace(&mut self, id: Id, value: Value) -> Value {
        let record = self.get_mut(id);
        let (mut old, deadline) = (std::mem::replace(&mut record.value, value), record.deadline);
        self.unlist(&old, deadline, id);
        self.disarm_fields(&old);
        if let Some(walk) = &mut self.walk {
            walk.keep(id, &mut old);
        }
        self.arm_fields(id);
        old
    }

    /// Adds a key that does not exist. O(length of the name) amortised.
    pub fn insert(&mut self, key: &[u8], value: Value, uses: u32) -> Id {
        self.insert_hashed(self.hash(key), key, value, uses)
    }

    /// As [`Db::insert`], when the name's [`Db::hash`] is known. O(1) amortised besides the copy of
    /// the name.
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
        let records = &self.records;
        self.index.insert(hash, id, |i| place(records, i));
        self.arm_fields(id);
        id
    }

    /// Removes a key and returns its record to drop, deadline included; a snapshot may have taken
    /// the value. O(1) amortised; hashes nothing.
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

    /// Removes a key and returns its record, which goes to another database or shard. O(1)
    /// amortised. If a snapshot has written a part of the value, the rest is written first:
    /// O(bytes).
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

    /// Removes a record and its deadline, which stays in the record.
    fn unlink_armed(&mut self, id: Id) -> Record {
        let deadline = self.get(id).deadline;
        self.set_deadline(id, None);
        let mut record = self.unlink(id);
        record.deadline = deadline;
        record
    }

    /// Removes a record from the table and the pages.
    fn unlink(&mut self, id: Id) -> Record {
        self.before_change(id);
        let hash = self.get(id).hash;
        let records = &self.records;
        self.index.remove(hash, id, |i| place(records, i));
        let record = self.records.remove(id).expect("looked at just now");
        self.unlist(&record.value, record.deadline, id);
        self.disarm_fields(&record.value);
        record
    }

    /// Returns the deadline of `id` in unix ms, if it has one.
    #[inline]
    pub fn deadline(&self, id: Id) -> Option<u64> {
        let deadline = self.get(id).deadline;
        (deadline != NEVER).then_some(deadline)
    }

    /// Sets or removes the deadline of `id`. O(1): a later deadline only rewrites the record, a
    /// removal only marks it.
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
        if let Value::Timer(_) = record.value {
            self.timers.remove((old, id));
            self.timers.insert((new, id));
        }
        if let Some(own) = &mut self.own {
            own.remove(&(old, id));
        }
        match (old, new) {
            (NEVER, NEVER) => {}
            (NEVER, _) => {
                record.stamp = stamp;
                self.with_deadline += 1;
                assert!(id < OF_FIELD, "2^31 keys in one database of a shard");
                self.wheel.insert(new, id, stamp);
            }
            (_, NEVER) => {
                record.stamp = 0;
                self.with_deadline -= 1;
                self.forget_entry();
            }
            _ if new < old => {
                record.stamp = stamp;
                self.wheel.insert(new, id, stamp);
                self.forget_entry();
            }
            _ => {}
        }
    }

    /// Returns the number of the next arm.
    #[inline]
    fn next_stamp(&mut self) -> NonZeroU32 {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        NonZeroU32::new(self.stamp).expect("at least 1")
    }

    /// Counts an entry of the wheel that has become stale.
    #[inline]
    fn forget_entry(&mut self) {
        self.wheel.forget(&mut Armed {
            records: &self.records,
            fields: &self.fields,
        });
    }

    /// Returns a lower bound of the earliest deadline, at which the wheel must be polled. O(1).
    #[inline]
    pub fn next_wakeup(&self) -> Option<u64> {
        match &self.own {
            None => self.wheel.next_wakeup(),
            Some(own) => own.first().map(|(deadline, _)| *deadline),
        }
    }

    /// Tells the wheel the time. It files entries by their distance from the time that it knows,
    /// and a wheel that nothing was due in knows an old one: a million entries would move down
    /// through all of its levels when the first is due. O(1).
    #[inline]
    pub(crate) fn tell_time(&mut self, now: Now) {
        let mut armed = Armed {
            records: &self.records,
            fields: &self.fields,
        };
        // Without a budget the step moves nothing.
        self.wheel.step(now.read_ms(), &mut armed, &mut 0);
    }

    /// Returns the earliest deadline, exactly.
    pub fn next_deadline(&mut self) -> Option<u64> {
        if self.is_following() {
            return self.next_wakeup();
        }
        self.wheel.next_deadline(&mut Armed {
            records: &self.records,
            fields: &self.fields,
        })
    }

    /// Returns the next due record or field, in exact deadline order. The caller must remove it
    /// with [`Db::remove_due`] or `Db::remove_due_field`. Does at most `budget` steps of work and
    /// subtracts them.
    pub fn next_due(&mut self, now: Now, budget: &mut usize) -> Expiry {
        if self.is_following() {
            return self.next_own_due(now, budget);
        }
        let mut armed = Armed {
            records: &self.records,
            fields: &self.fields,
        };
        match self.wheel.step(now.read_ms(), &mut armed, budget) {
            Step::Due(due) if due.index & OF_FIELD != 0 => {
                let timer = due.index & !OF_FIELD;
                let armed = self.fields.get(timer).expect("it was due");
                if armed.field == WHOLE {
                    return Expiry::DueTimeline(self.timeline_fired(timer));
                }
                Expiry::DueField(timer)
            }
            Step::Due(due) => Expiry::Due(due.index),
            Step::Busy => Expiry::Busy,
            Step::Idle => Expiry::Idle,
        }
    }

    /// Removes a record that [`Db::next_due`] has returned. O(1).
    ///
    /// # Panics
    /// If `id` is not the record that was due.
    pub fn remove_due(&mut self, id: Id) -> Record {
        if self.is_following() {
            // The wheel still has its entry.
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

    /// Returns a sample of deadlines: those among the first thousand records.
    pub fn some_deadlines(&self) -> impl Iterator<Item = u64> {
        self.iter()
            .take(1000)
            .map(|(_, r)| r.deadline)
            .filter(|d| *d != NEVER)
    }

    /// Visits the keys of a small piece of the table from `from` on, and returns where to continue.
    /// See [`HashTable::scan`].
    pub fn scan(&self, from: u32, visit: impl FnMut(Id)) -> Option<u32> {
        let records = &self.records;
        self.index.scan(from, |i| place(records, i), visit)
    }

    /// Returns a random key, due or not.
    pub fn at_random(&self, random: impl FnMut(u32) -> u32) -> Option<Id> {
        self.records.at_random(random)
    }

    /// Returns the bytes of records, table and wheel, without the values' own memory.
    pub fn memory(&self) -> DbMemory {
        DbMemory {
            records: self.records.memory(),
            index: self.index.memory(),
            wheel: self.wheel.memory()
                + self.fields.memory()
                + self.timers.len() * TIMER_ENTRY_BYTES
                + self.queues.len() * QUEUE_ENTRY_BYTES,
            index_slots: self.index.slots(),
        }
    }

    /// Returns the bytes of one key: its record, memory of its name and value, its share of the
    /// table, and its wheel entry if it has a deadline. O(parts of the table).
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub fn key_memory(&self, id: Id) -> usize {
        let record = self.get(id);
        let table = self.index.memory().div_ceil(self.len().max(1));
        let entry = if record.deadline == NEVER {
            0
        } else {
            WHEEL_ENTRY_BYTES
        };
        let fields = match &record.value {
            Value::Hash(hash) => hash.with_deadline() * (FIELD_TIMER_BYTES + WHEEL_ENTRY_BYTES),
            Value::Timer(_) => TIMER_ENTRY_BYTES,
            value if value.timeline_timer().is_some() => FIELD_TIMER_BYTES + WHEEL_ENTRY_BYTES,
            _ => 0,
        };
        let value = record.value.content().heap_bytes();
        RECORD_BYTES + record.key.heap_bytes() + value + table + entry + fields
    }

    /// Returns the number of entries in the wheel, stale ones included.
    pub fn wheel_entries(&self) -> usize {
        self.wheel.entries()
    }
}

/// Memory of a database in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DbMemory {
    /// Pages of records.
    pub records: usize,
    /// The table.
    pub index: usize,
    /// The wheel, and the timers of fields.
    pub wheel: usize,
    /// Places in the table (a count, not bytes).
    pub index_slots: usize,
}

/// Returns the hash of a record for the table.
fn place(records: &Records, id: Id) -> u32 {
    records.get(id).map_or(0, |r| r.hash)
}
