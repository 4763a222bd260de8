//! The timers of a queue, in one growing array: records that never move, found by index, each with
//! a generation that tells its tenants apart.
//!
//! A record is 24 bytes for an 8-byte value. Its `stamp` is 28 bits of generation, which the
//! handle carries, and 4 bits of epoch, which only the wheel's entries carry: an earlier re-arm
//! takes a new epoch, so the handle stays good while the old entry dies. (Should a timer be
//! re-armed earlier sixteen times while its first entry is still filed, that entry stands again.
//! It is then one more entry of a living timer: whichever comes first fires it.)
//!
//! A record whose generations are used up is never used again, so that no handle is ever mistaken
//! for another one: 24 bytes lost in 268 million timers.

use super::TimerKey;
use alloc::vec::Vec;
use core::mem::{replace, size_of};
use core::num::NonZeroU32;

const EPOCH_BITS: u32 = 4;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;
const LAST_GENERATION: u32 = u32::MAX >> EPOCH_BITS;

/// The stamp of a free record whose generations are used up.
const SPENT: u32 = u32::MAX;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// Records kept when the slab empties. They are the ones used most, and keep their generations.
const KEPT: usize = 1024;

/// A living timer. The arming order is never 0, which is how a free record is told.
#[derive(Debug)]
pub(super) struct Timer<T> {
    pub(super) deadline: u64,
    pub(super) stamp: u32,
    pub(super) order: NonZeroU32,
    pub(super) value: T,
}

#[derive(Debug)]
enum Record<T> {
    Live(Timer<T>),
    Free { stamp: u32, next: u32 },
}

const _: () = assert!(size_of::<Record<u64>>() == 24);

/// The records.
#[derive(Debug)]
pub(super) struct Slab<T> {
    records: Vec<Record<T>>,
    free: u32,
    live: usize,
    /// The generation of new records: higher than any that given-back records had.
    floor: u32,
    /// The highest generation of the records that may be given back.
    spent: u32,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab {
            records: Vec::new(),
            free: NONE,
            live: 0,
            floor: 0,
            spent: 0,
        }
    }

    /// O(1) amortised.
    ///
    /// # Panics
    ///
    /// If there would be more than 2^32 - 1 records.
    #[inline]
    pub(super) fn insert(&mut self, deadline: u64, order: NonZeroU32, value: T) -> (u32, u32) {
        let index = self.free;
        let stamp = match self.records.get(index as usize) {
            Some(&Record::Free { stamp, next }) => {
                self.free = next;
                stamp
            }
            _ => return self.grow(deadline, order, value),
        };
        self.records[index as usize] = Record::Live(Timer {
            deadline,
            stamp,
            order,
            value,
        });
        self.live += 1;
        (index, stamp)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, deadline: u64, order: NonZeroU32, value: T) -> (u32, u32) {
        let index = self.records.len();
        assert!(
            index < NONE as usize,
            "a queue holds at most 2^32 - 1 timers"
        );
        let stamp = self.floor << EPOCH_BITS;
        self.records.push(Record::Live(Timer {
            deadline,
            stamp,
            order,
            value,
        }));
        self.live += 1;
        (index as u32, stamp)
    }

    /// The timer of a handle, if it lives. O(1).
    #[inline]
    pub(super) fn get(&self, key: TimerKey) -> Option<&Timer<T>> {
        match self.records.get(key.index as usize) {
            Some(Record::Live(timer)) if timer.stamp >> EPOCH_BITS == key.generation => Some(timer),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut Timer<T>> {
        match self.records.get_mut(key.index as usize) {
            Some(Record::Live(timer)) if timer.stamp >> EPOCH_BITS == key.generation => Some(timer),
            _ => None,
        }
    }

    /// The timer at `index`, whoever it is.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&Timer<T>> {
        match self.records.get(index as usize) {
            Some(Record::Live(timer)) => Some(timer),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut Timer<T>> {
        match self.records.get_mut(index as usize) {
            Some(Record::Live(timer)) => Some(timer),
            _ => None,
        }
    }

    /// Removes the timer of a handle. O(1).
    #[inline]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<Timer<T>> {
        self.take_if(key.index, |stamp| stamp >> EPOCH_BITS == key.generation)
    }

    /// Removes the timer at `index`, whoever it is. O(1).
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> Option<Timer<T>> {
        self.take_if(index, |_| true)
    }

    #[inline]
    fn take_if(&mut self, index: u32, is_meant: impl Fn(u32) -> bool) -> Option<Timer<T>> {
        let record = self.records.get_mut(index as usize)?;
        let stamp = match record {
            Record::Live(timer) if is_meant(timer.stamp) => timer.stamp,
            _ => return None,
        };
        let free = match (stamp | EPOCH_MASK).checked_add(1) {
            Some(stamp) => Record::Free {
                stamp,
                next: replace(&mut self.free, index),
            },
            None => Record::Free {
                stamp: SPENT,
                next: NONE,
            }, // and not in the free list
        };
        if index as usize >= KEPT {
            self.spent = self.spent.max(stamp >> EPOCH_BITS);
        }
        self.live -= 1;
        match replace(record, free) {
            Record::Live(timer) => Some(timer),
            Record::Free { .. } => None,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The handle of the timer with this index and stamp.
    #[inline]
    pub(super) fn key(index: u32, stamp: u32) -> TimerKey {
        TimerKey::new(index, stamp >> EPOCH_BITS)
    }

    /// All timers, by index. O(records).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Timer<T>)> {
        (0..)
            .zip(&self.records)
            .filter_map(|(index, record)| match record {
                Record::Live(timer) => Some((index, timer)),
                Record::Free { .. } => None,
            })
    }

    /// Removes all timers. O(records).
    pub(super) fn clear(&mut self) {
        for index in 0..self.records.len() {
            self.take(index as u32);
        }
        self.release();
    }

    /// Gives memory back if the slab has just emptied after being large. O(1) otherwise.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.live == 0 && self.records.capacity() > KEPT {
            self.shrink_to_fit();
        }
    }

    /// Gives back the free records at the end. O(records).
    #[cold]
    pub(super) fn shrink_to_fit(&mut self) {
        let mut len = self.records.len();
        if self.live == 0 {
            len = len.min(KEPT);
        } else {
            while len > KEPT && matches!(self.records[len - 1], Record::Free { .. }) {
                len -= 1;
            }
        }
        // New records begin above every generation given back. Half of the generations may go
        // that way; from then on the records stay.
        if len < self.records.len() {
            if self.spent >= LAST_GENERATION / 2 {
                return;
            }
            self.floor = self.floor.max(self.spent + 1);
            self.records.truncate(len);
        }
        self.records.shrink_to_fit();
        self.free = NONE;
        for (index, record) in self.records.iter_mut().enumerate().rev() {
            if let Record::Free { stamp, next } = record
                && *stamp != SPENT
            {
                *next = replace(&mut self.free, index as u32);
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * size_of::<Record<T>>()
    }
}

impl<T> Timer<T> {
    /// Kills the timer's entry: its stamp is no longer the timer's.
    #[inline]
    pub(super) fn next_epoch(&mut self) {
        self.stamp = (self.stamp & !EPOCH_MASK) | (self.stamp.wrapping_add(1) & EPOCH_MASK);
    }

    #[inline]
    pub(super) fn key(&self, index: u32) -> TimerKey {
        TimerKey::new(index, self.stamp >> EPOCH_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(slab: &Slab<u32>, (index, _): (u32, u32)) -> TimerKey {
        slab.at(index)
            .map(|timer| timer.key(index))
            .expect("a living timer")
    }

    #[test]
    fn a_reused_record_refuses_the_handle_before() {
        let mut slab = Slab::new();
        let at = slab.insert(1, NonZeroU32::MIN, 10);
        let old = key_of(&slab, at);
        assert_eq!(slab.remove(old).map(|timer| timer.value), Some(10));
        let at = slab.insert(2, NonZeroU32::MIN, 20);
        let new = key_of(&slab, at);
        assert_eq!(old.index, new.index);
        assert!(slab.get(old).is_none() && slab.remove(old).is_none());
        assert_eq!(slab.get(new).map(|timer| timer.value), Some(20));
    }

    #[test]
    fn an_epoch_changes_the_stamp_and_never_the_handle() {
        let mut slab = Slab::new();
        let at = slab.insert(1, NonZeroU32::MIN, 0);
        let key = key_of(&slab, at);
        for _ in 0..40 {
            let timer = slab.get_mut(key).expect("the handle stays good");
            let stamp = timer.stamp;
            timer.next_epoch();
            assert_ne!(timer.stamp, stamp);
        }
    }

    #[test]
    fn a_record_out_of_generations_is_not_used_again() {
        let mut slab = Slab::new();
        let at = slab.insert(1, NonZeroU32::MIN, 0);
        slab.at_mut(at.0).expect("alive").stamp = LAST_GENERATION << EPOCH_BITS;
        let last = key_of(&slab, at);
        assert!(slab.remove(last).is_some());
        for _ in 0..3 {
            let next = slab.insert(1, NonZeroU32::MIN, 0);
            assert_ne!(next.0, at.0);
            assert!(slab.get(last).is_none());
        }
        slab.clear();
        slab.shrink_to_fit();
        assert_ne!(slab.insert(1, NonZeroU32::MIN, 0).0, at.0);
    }

    #[test]
    fn handles_stay_stale_when_the_records_were_given_back() {
        let mut slab = Slab::new();
        let keys: Vec<_> = (0..3 * KEPT as u32)
            .map(|value| {
                let at = slab.insert(1, NonZeroU32::MIN, value);
                key_of(&slab, at)
            })
            .collect();
        keys.iter()
            .for_each(|&key| assert!(slab.remove(key).is_some()));
        slab.release();
        assert!(slab.memory() <= KEPT * size_of::<Record<u32>>());
        for value in 0..3 * KEPT as u32 {
            slab.insert(1, NonZeroU32::MIN, value);
        }
        assert!(keys.iter().all(|&key| slab.get(key).is_none()));
    }
}
