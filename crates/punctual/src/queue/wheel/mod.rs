//! Hierarchical timing wheels: [`Wheel`] keeps its timers, [`RawWheel`] leaves them to their owner.
//!
//! Why this design, against the usual one of doubly linked lists of timers (`make bench-timers`
//! measures both):
//!
//! - **Cancelling touches the timer only.** Unlinking from a list costs two more cache misses than
//!   the record itself. Here the entry stays, and stands for the record's next timer if that is due
//!   later or in the same slot: a program that arms and cancels timeouts hardly files anything.
//! - **Re-arming later touches the timer only.** Its entry is filed again when its slot comes: a
//!   timeout put off a thousand times is moved as often as its old deadlines come round.
//! - **Slots are contiguous.** A cascade streams through small entries instead of chasing nodes.
//! - **What comes is sorted.** A slot of up to 512 entries is fetched and sorted as a whole, from
//!   whatever level, and popped one after another.
//! - **Empty slots cost nothing**: bitmaps find the next one, over all 64 bits of the tick.

mod chunk;
mod cursor;
mod front;
#[cfg(test)]
mod invariants;
mod leftovers;
mod level;
mod place;
mod raw;
mod records;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;

pub use place::Place;
pub use raw::RawWheel;
pub(super) use records::Timer;
pub use timers::{Due, Step, Timers};

use super::adaptive::Migration;
use super::armings::{Arming, Armings};
use super::slab::Tenant;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZeroU32;
use records::Records;

/// Spare entries that may be dropped in one go.
const FEW_SPARE: usize = 256;

/// A hierarchical timing wheel that keeps its timers: arm, cancel and re-arm in O(1), pop in exact
/// order in O(1) amortised, and know the next deadline.
///
/// A timer takes 30 bytes and its value, padded to 8, plus the dead entries, of 12 bytes each,
/// which stay fewer than the living and some 512. A cancelled timer's record and entry wait for the
/// next timer, at the latest until the wheel empties. An empty wheel takes three quarters of a
/// kilobyte and no allocation; the first timer allocates 5 KiB.
///
/// Memory is given back when the last timer goes; that of a crowd not in one call, but a piece with each one that finds
/// the wheel empty or nothing due.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, Wheel};
///
/// let mut timeouts = Wheel::new();
/// let slow = timeouts.insert(1_000, "slow request");
/// let idle = timeouts.insert(5_000, "idle connection");
///
/// timeouts.remove(slow); // it was answered
/// timeouts.reset(idle, 9_000); // it was used
/// assert_eq!(timeouts.next_deadline(), Some(9_000));
/// assert_eq!(timeouts.pop_due(8_999), None);
/// assert_eq!(timeouts.pop_due(9_000).map(|expired| expired.value), Some("idle connection"));
/// ```
#[derive(Debug)]
pub struct Wheel<T> {
    records: Records<T>,
    raw: RawWheel,
    armings: Armings,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Wheel<T> {
    /// An empty wheel. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let wheel: Wheel<u32> = Wheel::new();
    /// assert!(wheel.is_empty());
    /// ```
    pub const fn new() -> Self {
        Wheel {
            records: Records::new(),
            raw: RawWheel::new(),
            armings: Armings::new(),
        }
    }

    /// A wheel of timers that were in another queue; their handles stay good. O(n).
    pub(super) fn take_over(timers: Migration<T>) -> Self {
        let Migration {
            slab,
            armings,
            now,
            entries,
        } = timers;
        let mut wheel = Wheel {
            records: Records::unfiled(slab),
            raw: RawWheel::starting_at(now),
            armings,
        };
        for arming in entries {
            wheel.file(arming.deadline(), arming.index());
        }
        wheel.raw.untidy = wheel.records.slab.is_untidy();
        wheel
    }

    /// Its timers, on the way to another queue; their handles stay good. O(n log n).
    pub(super) fn hand_over(mut self) -> Migration<T> {
        let now = self.raw.now();
        let mut entries = Vec::with_capacity(self.len());
        while let Some(due) = self.raw.pop_due(u64::MAX, &mut self.records) {
            if let Some(timer) = self.records.slab.at(due.index) {
                entries.push(Arming::new(timer.deadline, timer.order, due.index));
            }
        }
        // An old entry may stand again, see `records`.
        entries.sort_unstable();
        entries.dedup();
        Migration {
            slab: self.records.slab,
            armings: self.armings,
            now,
            entries,
        }
    }

    /// Records, free ones included, which another queue would take over. O(1).
    #[inline]
    pub(super) fn records(&self) -> usize {
        self.records.slab.records()
    }

    /// Files an entry for the timer `index`.
    #[inline(never)]
    fn file(&mut self, deadline: u64, index: u32) {
        let tag = self.records.refile(index);
        let place = self.raw.insert(deadline, index, tag);
        self.records.set_place(index, place);
    }

    /// A timer was removed: gives memory back if that was the last of many.
    #[inline]
    fn release(&mut self) {
        if self.records.slab.len() == 0 {
            self.rest();
        }
    }

    /// The last timer is gone.
    #[inline(never)]
    fn rest(&mut self) {
        if self.records.slab.begin_release() {
            self.raw.desert();
            self.records.forget_filings();
        } else {
            self.tidy_up();
        }
    }

    /// Nothing is due: time to give back some of what a crowd has left.
    #[inline]
    fn tidy_up(&mut self) {
        if self.is_untidy() {
            self.tidy();
        }
    }

    /// Whether there may be memory to give back of what a crowd has left. O(1).
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        self.raw.untidy
    }

    /// Gives back a piece of it; tells whether there is more. O(1): some 10 us.
    #[cold]
    #[inline(never)]
    pub(super) fn tidy(&mut self) -> bool {
        self.raw.untidy = self.raw.tidy() | self.records.tidy();
        self.raw.untidy
    }

    /// Drops some of the entries that stand for no timer, if they are many for so few timers; tells whether there are
    /// more. O(1): some microseconds.
    #[cold]
    pub(super) fn purge(&mut self) -> bool {
        self.raw.entries() > 2 * self.len() + FEW_SPARE && {
            self.raw.purge_on(&mut self.records);
            true
        }
    }

    /// Entries filed, those that stand for no timer included. O(1).
    pub(super) fn entries(&self) -> usize {
        self.raw.entries()
    }

    #[inline]
    fn expire(&mut self, due: Due) -> Option<Expired<T>> {
        let timer = self.records.slab.take(due.index)?;
        self.records.set_place(due.index, Place::NOWHERE);
        self.release();
        Some(Expired {
            key: timer.key(due.index),
            deadline: due.deadline,
            value: timer.value,
        })
    }

    #[inline]
    fn next_order(&mut self) -> NonZeroU32 {
        if self.armings.are_worn() {
            self.renumber();
        }
        self.armings.next()
    }

    /// O(n log n), once in two billion armings.
    #[cold]
    fn renumber(&mut self) {
        self.records.slab.renumber(&mut self.armings);
        self.raw.reorder();
    }
}

impl<T> DeadlineQueue<T> for Wheel<T> {
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let key = self.records.slab.insert(|generation| Timer {
            deadline,
            generation,
            order,
            value,
        });
        let index = key.index();
        // The entry of the timer before may do.
        let (place, tag) = self.records.filed(index);
        if !self.raw.reuse(place, deadline, index, tag) {
            self.file(deadline, index);
            if place != Place::NOWHERE {
                self.raw.forget(&mut self.records);
            }
        }
        key
    }

    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.records.slab.remove(key)?;
        self.release();
        Some(timer.value)
    }

    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.records.slab.get(key).is_none() {
            return false;
        }
        let order = self.next_order();
        let Some(timer) = self.records.slab.get_mut(key) else {
            return false;
        };
        timer.order = order;
        let later = deadline > timer.deadline;
        timer.deadline = deadline;
        if !later {
            let (place, tag) = self.records.filed(key.index());
            if !self.raw.reuse(place, deadline, key.index(), tag) {
                self.file(deadline, key.index());
                self.raw.forget(&mut self.records);
            }
        }
        true
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.records.slab.get(key).map(|timer| &timer.value)
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.records.slab.get_mut(key).map(|timer| &mut timer.value)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.records.slab.get(key).map(|timer| timer.deadline)
    }

    #[inline]
    fn len(&self) -> usize {
        self.records.slab.len()
    }

    fn clear(&mut self) {
        self.records.slab.clear();
        self.raw.clear();
        self.records.forget_filings();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.records
            .slab
            .iter()
            .map(|(index, timer)| (timer.key(index), timer.deadline, &timer.value))
    }

    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        // What most pops come to: the next entry of the run, whose timer is as it was. All in one
        // look at the record.
        if let Some(next) = self.raw.peek_run(now)
            && let Some(timer) = self.records.take_due(&next)
        {
            self.raw.popped(&next);
            self.release();
            return Some(Expired {
                key: timer.key(next.index),
                deadline: next.deadline,
                value: timer.value,
            });
        }
        let Some(due) = self.raw.pop_due(now, &mut self.records) else {
            self.tidy_up();
            return None;
        };
        self.expire(due)
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        if self.is_empty() {
            None
        } else {
            self.raw.next_wakeup()
        }
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.raw.next_deadline(&mut self.records)
    }

    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        loop {
            match self.raw.step(now, &mut self.records, budget) {
                Step::Due(due) => {
                    if let Some(expired) = self.expire(due) {
                        return Polled::Due(expired);
                    }
                }
                Step::Busy => return Polled::Busy,
                Step::Idle => {
                    self.tidy_up();
                    return Polled::Idle;
                }
            }
        }
    }

    fn shrink_to_fit(&mut self) {
        self.raw.purge(&mut self.records);
        self.raw.shrink_to_fit();
        self.records.shrink_to_fit();
    }

    /// O(number of pool segments).
    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<RawWheel>() + self.raw.memory() + self.records.memory()
    }
}
