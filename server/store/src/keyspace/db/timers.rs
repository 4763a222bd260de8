//! Timers in a database, ordered by their deadlines.
//!
//! Invariant: `timers` has an entry for each record whose value is a timer, with the record's
//! deadline. Commands that count or list timers use this set. The wheel decides when a timer fires,
//! as it decides when a key expires.

use std::ops::Range;

use super::Db;
use crate::keyspace::records::Id;
use crate::time::{NEVER, Now};
use crate::tree::{Slot, Tree, TreeSlot as _};
use crate::value::timer::Timer;
use crate::value::{Kind, Value};

/// Records by their deadlines.
#[derive(Default)]
pub(super) struct ByDeadline(Tree<Slot>);

impl ByDeadline {
    pub(super) fn insert(&mut self, (deadline, id): (u64, Id)) {
        self.0.add(Slot::new(deadline, id));
    }

    pub(super) fn remove(&mut self, (deadline, id): (u64, Id)) {
        self.0.discard(Slot::new(deadline, id));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a record is listed at this deadline. O(log timers).
    pub(super) fn contains(&self, (deadline, id): (u64, Id)) -> bool {
        self.0.contains(Slot::new(deadline, id))
    }

    /// Returns the number of timers that are not paused.
    fn armed(&self) -> usize {
        self.0.before(NEVER)
    }
}

impl Db {
    /// Returns the number of evictable keys, which are neither timers nor queues of jobs. With
    /// `volatile`, only keys with a deadline count. That number may include queues, but is 0 only
    /// if there is no evictable key with a deadline. O(log timers), or O(queues) if there are at
    /// least as many queues as keys with a deadline.
    pub(crate) fn evictable(&self, volatile: bool) -> usize {
        if !volatile {
            return self.len() - self.timers.len() - self.queues.len();
        }
        let keys = self.with_deadline() - self.timers.armed();
        if keys > self.queues.len() {
            return keys;
        }
        let has_deadline = |id: &&Id| self.get(**id).deadline != NEVER;
        keys - self.queues.iter().filter(has_deadline).count()
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
        let tree = &self.timers.0;
        let end = range.end().checked_add(1);
        let ranks = tree.before(*range.start())..end.map_or(tree.len(), |end| tree.before(end));
        let slots = tree.walk(ranks, false);
        slots.map(|slot| (slot.ordinal(), slot.id))
    }

    /// Returns the number of timers that are due before `ms`. Paused timers do not count;
    /// with `u64::MAX` all other timers count. O(log timers).
    pub fn timers_before(&self, ms: u64) -> usize {
        self.timers.0.before(ms)
    }

    /// Divides a range of time evenly into as many parts as `counts` has elements, and adds to each
    /// element the number of timers that are due in its part. O(log timers · log parts) for each
    /// part with timers.
    pub(crate) fn spread_timers(&self, range: Range<u64>, counts: &mut [u64]) {
        self.timers.0.spread(range, 0, counts);
    }

    /// Removes a record from the set of timers or of queues if `value`, which the record no longer
    /// has, is a timer or a queue of jobs.
    pub(super) fn unlist(&mut self, value: &Value, deadline: u64, id: Id) {
        match value {
            Value::Timer(_) => {
                self.timers.remove((deadline, id));
                // Another value that keeps the deadline of a held timer expires.
                if deadline != NEVER && self.records.get(id).is_some_and(|r| r.stamp == 0) {
                    self.file_again(id);
                }
            }
            Value::Jobs(_) => {
                self.queues.remove(&id);
            }
            _ => {}
        }
    }

    /// Returns the value of a record if it is a timer.
    pub(crate) fn timer(&self, id: Id) -> Option<&Timer> {
        Timer::of(&self.get(id).value)
    }

    /// Replaces a timer; its deadline stays.
    pub(crate) fn set_timer(&mut self, id: Id, timer: Timer) {
        self.get_mut(id).value = Value::Timer(timer);
    }

    /// Leaves a timer that [`Db::next_due`] has returned out of the wheel, until
    /// [`Db::refile_timer`]. Its deadline stays.
    pub(crate) fn hold_timer(&mut self, id: Id) {
        if let Some(record) = self.records.get_mut(id) {
            // The entry that `refile_timer` has filed becomes stale.
            record.stamp = 0;
            self.forget_entry();
        }
    }

    /// Returns the timers that are due and left out of the wheel, in the order of their deadlines.
    /// O(due timers).
    pub fn held_timers(&self, now: Now) -> Vec<Id> {
        let due = self.timers_between(0..=now.read_ms());
        let held = due.filter(|(_, id)| self.get(*id).stamp == 0);
        held.map(|(_, id)| id).collect()
    }

    /// Files the entry of a timer that [`Db::next_due`] has returned in the wheel again, at the
    /// same deadline, so that the timer is not lost before it fires. Returns false, and does
    /// nothing, if the record's value is not a timer. O(1).
    pub(crate) fn refile_timer(&mut self, id: Id) -> bool {
        match self.records.get(id) {
            Some(record) if matches!(record.value, Value::Timer(_)) => {
                self.file_again(id);
                true
            }
            _ => false,
        }
    }

    fn file_again(&mut self, id: Id) {
        let stamp = self.next_stamp().get();
        if let Some(record) = self.records.get_mut(id) {
            record.stamp = stamp;
            self.wheel.insert(record.deadline, id, stamp);
        }
    }
}
