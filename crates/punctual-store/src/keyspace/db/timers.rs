//! Timers in a database, ordered by their deadlines.
//!
//! Invariant: `timers` has an entry for each record whose value is a timer, with the record's deadline. It answers what is due when; what
//! fires is the wheel's business, as for any key.

use std::collections::BTreeSet;

use super::Db;
use crate::keyspace::records::Id;
use crate::time::NEVER;
use crate::value::timer::Timer;
use crate::value::{Kind, Value};

/// Records by their deadlines.
#[derive(Default)]
pub(super) struct ByDeadline {
    all: BTreeSet<(u64, Id)>,
    /// Number of those that are not paused.
    armed: usize,
}

impl ByDeadline {
    pub(super) fn insert(&mut self, (deadline, id): (u64, Id)) {
        let new = self.all.insert((deadline, id));
        self.armed += usize::from(new && deadline != NEVER);
    }

    pub(super) fn remove(&mut self, (deadline, id): &(u64, Id)) {
        let there = self.all.remove(&(*deadline, *id));
        self.armed -= usize::from(there && *deadline != NEVER);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Db {
    /// Returns the number of keys that may be evicted: all of them, or those with a deadline. O(1).
    pub(crate) fn evictable(&self, volatile: bool) -> usize {
        match volatile {
            true => self.with_deadline() - self.timers.armed,
            false => self.len() - self.timers.len(),
        }
    }

    /// Returns the number of timers, paused ones included.
    pub fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// Returns the timers whose deadlines are in a range, in order, with their deadlines.
    pub(crate) fn timers_between(
        &self,
        range: std::ops::RangeInclusive<u64>,
    ) -> impl Iterator<Item = (u64, Id)> {
        let (from, to) = (*range.start(), *range.end());
        self.timers.all.range((from, 0)..=(to, Id::MAX)).copied()
    }

    /// Returns the timer of a record, if it is one.
    pub(crate) fn timer(&self, id: Id) -> Option<&Timer> {
        Timer::of(&self.get(id).value)
    }

    /// Replaces a timer's parts; its deadline stays.
    pub(crate) fn set_timer(&mut self, id: Id, timer: Timer) {
        self.get_mut(id).value = Value::Timer(timer);
    }

    /// Files the entry of a record that [`Db::next_due`] has returned once more, at the same deadline, if it is a timer: whatever
    /// happens until it fires, the wheel has it. Returns false, and does nothing, for other values. O(1).
    pub(crate) fn refile_timer(&mut self, id: Id) -> bool {
        let stamp = self.next_stamp().get();
        match self.records.get_mut(id) {
            Some(record) if matches!(record.value, Value::Timer(_)) => {
                record.stamp = stamp;
                self.wheel.insert(record.deadline, id, stamp);
                true
            }
            _ => false,
        }
    }
}
