//! An unordered array of entries: the queue that [`Adaptive`](super::Adaptive) uses for few timers.
//!
//! - Every timer has one entry and every entry a timer. A cancel removes the entry at once, and the last
//!   entry takes its position. A re-arm overwrites the entry in place. Nothing is searched and only
//!   that one entry moves, so there are no branches to mispredict.
//! - The earliest deadline is cached. When its timer leaves or is re-armed later, the cached value remains
//!   as a lower bound; the next query scans all entries.
//! - In a record, `order` is the position of the timer's entry. The entry has the arming order.

use super::adaptive::Migration;
use super::armings::{Arming, Armings};
use super::slab::{Slab, Tenant};
use super::wheel::Timer;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::vec::Vec;
use core::mem::{replace, size_of};
use core::num::NonZeroU32;

/// Timers in an unordered array.
#[derive(Debug)]
pub(super) struct Few<T> {
    slab: Slab<Timer<T>>,
    entries: Vec<Arming>,
    /// A lower bound of all deadlines; the last tick if there are no timers.
    bound: u64,
    /// Whether a timer has exactly that deadline.
    exact: bool,
    armings: Armings,
    /// The last `now`.
    now: u64,
}

/// Encodes an entry's position for a record, where it is never 0.
#[inline]
fn position_bits(position: usize) -> NonZeroU32 {
    NonZeroU32::MIN | (position as u32) << 1
}

#[inline]
fn position(position_bits: NonZeroU32) -> usize {
    (position_bits.get() >> 1) as usize
}

/// Returns the least `value` of all entries, four at a time: compilers turn a scan one by one into branches,
/// which mispredict.
#[inline]
fn least(entries: &[Arming], value: impl Fn(Arming) -> u64) -> u64 {
    let (fours, rest) = entries.as_chunks::<4>();
    let fours = fours.iter().fold(u64::MAX, |least, four| {
        let [a, b, c, d] = four.map(&value);
        least.min(a.min(b).min(c.min(d)))
    });
    rest.iter()
        .fold(fours, |least, &arming| least.min(value(arming)))
}

impl<T> Few<T> {
    pub(super) const fn new() -> Self {
        Few {
            slab: Slab::new(),
            entries: Vec::new(),
            bound: u64::MAX,
            exact: false,
            armings: Armings::new(),
            now: 0,
        }
    }

    /// Builds the array from the timers of another queue. Their handles stay valid. O(n).
    pub(super) fn from_migration(timers: Migration<T>) -> Self {
        let mut few = Few {
            slab: timers.slab,
            armings: timers.armings,
            now: timers.now,
            ..Self::new()
        };
        for entry in timers.entries {
            if let Some(timer) = few.slab.at_mut(entry.index()) {
                timer.order = position_bits(few.entries.len());
                few.entries.push(entry);
            }
        }
        few.find_bound();
        few
    }

    /// Converts the array into timers for another queue. Their handles stay valid. O(n log n).
    pub(super) fn into_migration(mut self) -> Migration<T> {
        let mut entries = Vec::with_capacity(self.entries.len());
        for arming in &self.entries {
            if let Some(timer) = self.slab.at_mut(arming.index()) {
                timer.order = arming.order();
                entries.push(*arming);
            }
        }
        entries.sort_unstable();
        Migration {
            slab: self.slab,
            armings: self.armings,
            now: self.now,
            entries,
        }
    }

    #[inline]
    fn next_order(&mut self) -> NonZeroU32 {
        if self.armings.must_renumber() {
            self.renumber();
        }
        self.armings.next()
    }

    /// Renumbers the arming order of all entries. O(n log n), once in two billion armings.
    #[cold]
    #[inline(never)]
    fn renumber(&mut self) {
        let armed = self.entries.iter().enumerate();
        let armed = armed.map(|(at, arming)| (arming.order(), at)).collect();
        for (order, at) in self.armings.renumber::<usize>(armed) {
            self.entries[at] = self.entries[at].renumbered(order);
        }
    }

    /// Removes the timer of a record and its entry. O(1).
    #[inline]
    fn take(&mut self, index: u32) -> Option<Timer<T>> {
        let at = position(self.slab.at(index)?.order);
        // If the removed entry is the last one, this changes nothing, and needs no branch.
        let last = *self.entries.last()?;
        self.slab.at_mut(last.index())?.order = position_bits(at);
        let removed = replace(self.entries.get_mut(at)?, last);
        self.entries.pop();
        self.exact &= removed.deadline() != self.bound;
        let timer = self.slab.take(index);
        if self.entries.is_empty() {
            self.bound = u64::MAX;
            self.slab.begin_release();
        }
        timer
    }

    /// Recomputes the cached deadline. O(n).
    #[inline]
    fn find_bound(&mut self) {
        self.bound = least(&self.entries, Arming::deadline);
        self.exact = !self.entries.is_empty();
    }

    /// Returns whether memory may be waiting to be freed. O(1).
    #[cfg(feature = "std")]
    pub(super) fn has_memory_to_free(&self) -> bool {
        self.slab.has_memory_to_free()
    }

    /// Returns the index of the first timer, whose deadline is the bound. O(n).
    #[inline]
    fn first(&self) -> u32 {
        let bound = self.bound;
        least(&self.entries, |arming| {
            arming.order_and_index() | u64::from(arming.deadline() != bound).wrapping_neg()
        }) as u32
    }

    /// Pops the first timer if it is due. O(n).
    #[inline(never)]
    fn pop_first(&mut self, now: u64) -> Option<Expired<T>> {
        if self.next_deadline()? > now {
            return None;
        }
        let index = self.first();
        let timer = self.take(index)?;
        Some(Expired {
            key: timer.key(index),
            deadline: timer.deadline,
            value: timer.value,
        })
    }
}

impl<T> DeadlineQueue<T> for Few<T> {
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let position = position_bits(self.entries.len());
        let (key, _) = self.slab.insert(|generation| Timer {
            deadline,
            generation,
            order: position,
            value,
        });
        self.entries.push(Arming::new(deadline, order, key.index()));
        self.exact |= deadline <= self.bound;
        self.bound = self.bound.min(deadline);
        key
    }

    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.slab.get(key)?;
        let timer = self.take(key.index())?;
        Some(timer.value)
    }

    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        let order = self.next_order();
        let Some(timer) = self.slab.get_mut(key) else {
            return false;
        };
        timer.deadline = deadline;
        let arming = Arming::new(deadline, order, key.index());
        let Some(entry) = self.entries.get_mut(position(timer.order)) else {
            return false; // unreachable: every timer has an entry
        };
        let before = replace(entry, arming);
        let is_first = (self.entries.len() == 1) | (deadline <= self.bound);
        self.exact = is_first | (self.exact & (before.deadline() != self.bound));
        self.bound = if is_first { deadline } else { self.bound };
        true
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.slab.get(key).map(|timer| &timer.value)
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slab.get_mut(key).map(|timer| &mut timer.value)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.slab.get(key).map(|timer| timer.deadline)
    }

    #[inline]
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn clear(&mut self) {
        self.slab.clear();
        self.entries.clear();
        self.find_bound();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (timer.key(index), timer.deadline, &timer.value))
    }

    /// O(n); O(1) if nothing is due.
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        self.now = now;
        if self.bound > now {
            return None;
        }
        self.pop_first(now)
    }

    /// O(n); O(1) if nothing is due.
    #[inline]
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            self.slab.free_piece_if_any();
            return Polled::Idle;
        }
        let Some(left) = budget.checked_sub(1) else {
            return Polled::Busy;
        };
        *budget = left;
        self.pop_due(now).map_or(Polled::Idle, Polled::Due)
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        (!self.entries.is_empty()).then_some(self.bound)
    }

    /// O(1); O(n) if the first timer left or was re-armed later.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        if !self.exact {
            self.find_bound();
        }
        self.exact.then_some(self.bound)
    }

    fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.slab.memory() + self.entries.capacity() * size_of::<Arming>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, ops};
    use crate::queue::model::{Model, Subject};
    use proptest::prelude::*;

    impl Subject for Few<u64> {
        fn check(&self) {
            assert_eq!(self.entries.len(), self.slab.len(), "one entry per timer");
            for (at, entry) in self.entries.iter().enumerate() {
                let timer = self.slab.at(entry.index()).expect("one timer per entry");
                assert_eq!(position(timer.order), at);
                assert_eq!(timer.deadline, entry.deadline());
            }
            let earliest = self.entries.iter().map(|arming| arming.deadline()).min();
            assert!(self.bound <= earliest.unwrap_or(self.bound));
            assert!(!self.exact || earliest == Some(self.bound));
            assert!(earliest.is_some() || self.bound == u64::MAX);
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn the_array_matches_the_model(ops in ops(1..150)) {
            Model::new(Few::new()).run(ops);
        }
    }

    #[test]
    fn arming_order_survives_renumbering() {
        let mut queue = Few::new();
        queue.armings = Armings::with_remaining(10);
        let keys: Vec<_> = (0..8).map(|n| queue.insert(700, n)).collect();
        assert!(queue.reset(keys[2], 700));
        assert!(queue.reset(keys[5], 800));
        (8..20).for_each(|n| {
            queue.insert(700, n);
        });
        queue.check();
        assert!(queue.reset(keys[5], 700));
        let popped: Vec<u64> = core::iter::from_fn(|| queue.pop_due(700))
            .map(|expired| expired.value)
            .collect();
        let expected = [0, 1, 3, 4, 6, 7, 2].into_iter().chain(8..20).chain([5]);
        assert_eq!(popped, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_last_tick_is_a_deadline_like_others() {
        let mut queue = Few::new();
        assert_eq!(
            (queue.next_deadline(), queue.pop_due(u64::MAX)),
            (None, None)
        );
        let key = queue.insert(u64::MAX, 1);
        assert_eq!(queue.next_wakeup(), Some(u64::MAX));
        assert_eq!(queue.next_deadline(), Some(u64::MAX));
        assert_eq!(queue.pop_due(u64::MAX - 1), None);
        assert!(queue.reset(key, 5) && queue.reset(key, u64::MAX));
        queue.check();
        assert_eq!(
            queue.pop_due(u64::MAX).map(|expired| expired.value),
            Some(1)
        );
        assert_eq!(queue.next_deadline(), None);
        queue.check();
    }
}
