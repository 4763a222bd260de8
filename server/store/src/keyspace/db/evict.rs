//! Operations for eviction: keys in the order of their deadlines, free places for records, and
//! compaction, which moves records into free places.

use punctual::queue::wheel::{Entry, Step};
use smallvec::SmallVec;

use super::Db;
use crate::keyspace::records::{Id, RECORD_BYTES, Record};
use crate::keyspace::value_timers::{Armed, OF_VALUE};
use crate::value::Value;
use crate::value::content::Facts;

/// Maximum number of wheel entries that are set aside to find the first evictable key.
const ASIDE_MAX: usize = 1_000;

impl Db {
    /// Returns the record at `id`, if there is one.
    #[inline]
    pub(crate) fn peek(&self, id: Id) -> Option<&Record> {
        self.records.get(id)
    }

    /// Returns whether a record may be evicted. A timer may not, because it must fire; a queue of
    /// jobs may not, because its jobs must be done.
    #[inline]
    pub(crate) fn is_evictable(record: &Record) -> bool {
        !record.value.facts().has(Facts::ACTS)
    }

    /// Returns a number that is greater than the index of every record.
    pub(crate) fn end(&self) -> u32 {
        self.records.end()
    }

    /// Returns the number of places for records in the pages, including free places.
    pub(crate) fn places(&self) -> u32 {
        self.records.places()
    }

    /// Returns the bytes of free places for records. O(1).
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.records.room() * RECORD_BYTES
    }

    /// Takes the evictable key with the earliest deadline, due or not, from the wheel. The caller
    /// removes the key with [`Db::remove_due`] or files its deadline again with [`Db::put_back`].
    /// Entries that belong to no evictable key are set aside during the search. After [`ASIDE_MAX`]
    /// such entries the search gives up. O(1) amortised, besides the entries set aside.
    pub(crate) fn take_earliest(&mut self) -> Option<Id> {
        if self.with_deadline == 0 {
            return None;
        }
        let mut aside: SmallVec<[Entry; 8]> = SmallVec::new();
        let mut found = None;
        while found.is_none() && aside.len() < ASIDE_MAX {
            let Some(at) = self.next_deadline() else {
                break;
            };
            let mut armed = Armed {
                records: &self.records,
                values: &self.values,
            };
            match self.wheel.step(at, &mut armed, &mut usize::MAX.clone()) {
                Step::Due(due) if due.index & OF_VALUE != 0 => aside.push(due),
                // Timers and queues of jobs are not evicted.
                Step::Due(due) if !self.peek(due.index).is_some_and(Self::is_evictable) => {
                    aside.push(due)
                }
                Step::Due(due) => found = Some(due.index),
                Step::Busy | Step::Idle => break,
            }
        }
        for due in aside {
            self.wheel.insert(due.deadline, due.index, due.generation);
        }
        found
    }

    /// Files the deadline of a key that [`Db::take_earliest`] has returned, in the wheel again.
    pub(crate) fn put_back(&mut self, id: Id) {
        if let Some(record) = self.records.get(id) {
            self.wheel.insert(record.deadline, id, record.stamp);
        }
    }

    /// Moves the records of the page with the fewest records into free places of other pages, and
    /// frees the page. Returns the number of bytes that were freed, and pairs of old and new
    /// indices, ascending by old index. Moves nothing if there are too few free places, or while a
    /// snapshot walks through the records in index order. O(pages + records of a page + fields of
    /// moved hashes whose fields have deadlines).
    pub(crate) fn compact(&mut self) -> (usize, Vec<(Id, Id)>) {
        if self.walk.is_some() {
            return (0, Vec::new());
        }
        let room = self.room();
        let old = self.records.close_sparsest().unwrap_or_default();
        let moved = old
            .into_iter()
            .filter_map(|id| Some((id, self.relocate(id)?)));
        let moved = moved.collect();
        (room - self.room(), moved)
    }

    /// Moves a record to another place, and updates the table, the wheel and the timers. Returns
    /// the new index.
    fn relocate(&mut self, old: Id) -> Option<Id> {
        let stamp = self.next_stamp().get();
        let mut record = self.records.remove(old)?;
        let (hash, deadline, armed) = (record.hash, record.deadline, record.stamp != 0);
        if armed {
            record.stamp = stamp;
        }
        let new = self.records.insert(record);
        let renumbered = self.index.renumber(hash, old, new);
        debug_assert!(renumbered, "the table has each record");
        if armed {
            self.wheel.insert(deadline, new, stamp);
            self.forget_entry();
        }
        if self.queues.remove(&old) {
            self.queues.insert(new);
        }
        if let Some(local) = &mut self.local_keys
            && local.remove(&(deadline, old))
        {
            local.insert((deadline, new));
        }
        match self.records.get(new).map(|record| &record.value) {
            Some(Value::Timer(_)) => {
                self.timers.remove((deadline, old));
                self.timers.insert((deadline, new));
            }
            Some(value) => {
                let timer = value.timeline_timer();
                if let Some(timer) = timer.and_then(|timer| self.values.get_mut(timer)) {
                    timer.record = new;
                }
            }
            None => {}
        }
        Some(new)
    }
}
