//! A sorted array of entries beside the timers: the quickest queue for a few dozen timers.
//!
//! - Every timer has one entry, filed at its deadline or, if it was put off, before it.
//! - A new timer's place is found by binary search, from the far end: most are the latest.
//! - Re-arming to a later tick leaves the entry where it is. It is moved when it comes to the
//!   front: a timeout put off a thousand times is moved as often as its old deadlines come round.
//! - Cancelling takes the entry out, so there are never dead ones.

use super::adaptive::Migration;
use super::armings::Armings;
use super::run::{Entry, Run};
use super::slab::{self, Slab};
use super::wheel::Timer;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZeroU32;

/// A sorted array, searched by bisection: the quickest queue for a few dozen timers, and a slow one
/// for many.
///
/// | operation | cost with n timers |
/// |---|---|
/// | [`insert`](DeadlineQueue::insert) | O(log n) and moving the entries that are later: none if it is the latest, O(n) at worst |
/// | [`remove`](DeadlineQueue::remove) | the same; O(1) for the first and the last |
/// | [`reset`](DeadlineQueue::reset), later | O(1), and one move of O(n) when the old deadline comes |
/// | `reset`, earlier | O(n) |
/// | [`pop_due`](DeadlineQueue::pop_due) | O(1) |
/// | [`next_deadline`](DeadlineQueue::next_deadline) | O(1), or a move of O(n) for each timer put off since |
///
/// What is moved are 16 bytes an entry, without a branch: with 64 timers that is some nanoseconds.
/// [`Adaptive`](super::adaptive::Adaptive) is this array while timers are few and a wheel when they
/// are many.
///
/// A timer takes 32 bytes and its value, padded to 8. An empty queue takes no allocation.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, queue::Sorted};
///
/// let mut connection = Sorted::new();
/// let idle = connection.insert(30_000, "idle");
/// let ack = connection.insert(25, "acknowledge");
///
/// connection.reset(idle, 30_020); // something came
/// assert_eq!(connection.next_deadline(), Some(25));
/// assert_eq!(connection.remove(ack), Some("acknowledge")); // it went with other data
/// assert_eq!(connection.next_deadline(), Some(30_020));
/// ```
#[derive(Debug)]
pub struct Sorted<T> {
    slab: Slab<Timer<T>>,
    run: Run,
    armings: Armings,
    /// The clock as last seen.
    now: u64,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sorted<T> {
    /// An empty queue. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, queue::Sorted};
    /// let queue: Sorted<u32> = Sorted::new();
    /// assert!(queue.is_empty());
    /// ```
    pub const fn new() -> Self {
        Sorted {
            slab: Slab::new(),
            run: Run::new(),
            armings: Armings::new(),
            now: 0,
        }
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
        let armed = self.slab.iter().map(|(index, timer)| (timer.order, index));
        for (order, index) in self.armings.renumber(armed.collect()) {
            if let Some(timer) = self.slab.at_mut(index) {
                timer.order = order;
            }
        }
        self.run.replace(self.settled());
    }

    /// Every timer's entry, in order. O(n log n).
    fn settled(&self) -> Vec<Entry> {
        let entries = self.run.as_slice().iter().map(|entry| entry.index);
        let mut entries: Vec<Entry> = entries
            .filter_map(|index| self.slab.at(index).map(|timer| timer.entry(index)))
            .collect();
        entries.sort_unstable();
        entries
    }

    /// A queue of timers that were in another one; their handles stay good. O(n).
    pub(super) fn take_over(timers: Migration<T>) -> Self {
        let Migration {
            slab,
            armings,
            now,
            entries,
        } = timers;
        let mut run = Run::new();
        run.replace(entries);
        Sorted {
            slab,
            run,
            armings,
            now,
        }
    }

    /// Its timers, on the way to another queue; their handles stay good. O(n log n).
    pub(super) fn hand_over(self) -> Migration<T> {
        let entries = self.settled();
        Migration {
            slab: self.slab,
            armings: self.armings,
            now: self.now,
            entries,
        }
    }

    /// Moves the first entry to where it belongs, its timer having been put off. Tells whether the
    /// first entry was where it belongs.
    #[inline]
    fn is_first_settled(&mut self, first: Entry) -> bool {
        match self.slab.at(first.index) {
            Some(timer) if timer.order == first.order => true,
            Some(timer) => {
                self.run.put_off(timer.entry(first.index));
                false
            }
            None => {
                debug_assert!(false, "every entry has a timer");
                self.run.remove(0);
                false
            }
        }
    }

    #[inline]
    fn pop_first(&mut self, first: Entry) -> Option<Expired<T>> {
        let timer = self.slab.take(first.index)?;
        self.run.pop_first();
        self.slab.release();
        Some(Expired {
            key: slab::key(first.index, timer.stamp),
            deadline: first.deadline,
            value: timer.value,
        })
    }
}

impl<T> DeadlineQueue<T> for Sorted<T> {
    /// O(log n) and moving the entries that are later.
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let (index, stamp) = self.slab.insert(|stamp| Timer {
            deadline,
            stamp,
            order,
            value,
        });
        self.run.file_youngest(Entry {
            deadline,
            order,
            index,
        });
        slab::key(index, stamp)
    }

    /// O(log n) and moving the entries that are later.
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slab.remove(key)?;
        if let Some(place) = self.run.find(&timer.entry(key.index())) {
            self.run.remove(place);
        }
        self.slab.release();
        Some(timer.value)
    }

    /// O(1) to a later tick, O(n) to an earlier one.
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.armings.are_worn() && self.slab.get(key).is_some() {
            self.renumber();
        }
        let Some(timer) = self.slab.get_mut(key) else {
            return false;
        };
        let old = timer.entry(key.index());
        timer.deadline = deadline;
        timer.order = self.armings.next();
        let new = timer.entry(key.index());
        if deadline >= old.deadline {
            if let Some(last) = self.run.last_mut()
                && last.index == new.index
            {
                *last = new;
            }
        } else if let Some(place) = self.run.find(&old)
            && new < self.run.as_slice()[place]
        {
            self.run.advance(place, new);
        }
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
        self.run.len()
    }

    fn clear(&mut self) {
        self.slab.clear();
        self.run.clear();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (slab::key(index, timer.stamp), timer.deadline, &timer.value))
    }

    /// O(1), and a move of O(n) for each timer put off whose old deadline came.
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        self.now = now;
        loop {
            let &first = self.run.first()?;
            if first.deadline > now {
                return None;
            }
            if self.is_first_settled(first) {
                return self.pop_first(first);
            }
        }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        self.run.first().map(|first| first.deadline)
    }

    /// O(1), and a move of O(n) for each timer put off that comes first.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        loop {
            let &first = self.run.first()?;
            if self.is_first_settled(first) {
                return Some(first.deadline);
            }
        }
    }

    /// O(budget x n).
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        self.now = now;
        loop {
            let Some(&first) = self.run.first().filter(|first| first.deadline <= now) else {
                return Polled::Idle;
            };
            let Some(left) = budget.checked_sub(1) else {
                return Polled::Busy;
            };
            *budget = left;
            if self.is_first_settled(first) {
                return self.pop_first(first).map_or(Polled::Idle, Polled::Due);
            }
        }
    }

    fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.run.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.slab.memory() + self.run.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, op};
    use crate::queue::model::{Model, Subject};
    use proptest::prelude::*;

    impl Subject for Sorted<u64> {
        fn check(&self) {
            let entries = self.run.as_slice();
            assert!(entries.is_sorted(), "the run is sorted");
            assert_eq!(entries.len(), self.slab.len(), "one entry a timer");
            let mut seen: Vec<u32> = entries.iter().map(|entry| entry.index).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), entries.len(), "one timer an entry");
            for entry in entries {
                let timer = self.slab.at(entry.index).expect("a timer for each entry");
                assert!(*entry <= timer.entry(entry.index), "filed too late");
            }
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn the_array_does_what_the_model_does(ops in prop::collection::vec(op(), 1..150)) {
            Model::new(Sorted::new()).run(ops);
        }
    }

    #[test]
    fn arming_order_outlives_its_numbers() {
        let mut queue = Sorted::new();
        queue.armings = Armings::left(10);
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
    fn what_was_taken_does_not_pile_up() {
        let mut queue = Sorted::new();
        (0..100).for_each(|n| {
            queue.insert(n, n);
        });
        for n in 100..100_000 {
            queue.insert(n, n);
            assert!(queue.pop_due(n).is_some());
        }
        assert!(queue.memory() < 16_000, "{} bytes", queue.memory());
        queue.check();
    }
}
