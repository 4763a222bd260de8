//! A sorted array of entries beside the timers, and a bag of those that came last.
//!
//! - What is armed goes into the bag, which is not in order and has room for a few dozen entries;
//!   its first entry is known. When it is full, it is sorted, and each entry's place in the array
//!   is found by binary search. While timers are few, all of them are in the bag, nothing is ever
//!   moved, and the first is found by looking at all.
//! - Cancelling touches the timer only: its entry, whose stamp is no longer the timer's, is dead. It
//!   is dropped when it comes first, when the bag is sorted, or when dead entries outnumber living.
//! - Re-arming to a later tick touches the timer only, too. Its entry is *early*: it is filed again
//!   when it comes first. A timeout put off a thousand times is moved as often as its old
//!   deadlines come round.

mod bag;

use super::armings::Armings;
use super::run::Run;
use super::slab::{self, Slab};
use super::wheel::Timer;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::vec::Vec;
use bag::{BAG, Bag, Filed};
use core::mem::size_of;
use core::num::NonZeroU32;

/// With more living entries than these, a full bag is emptied into the run.
const FULL: usize = BAG / 2;

/// The most entries that are looked at for each timer popped.
const SCANNED: usize = 32;

/// A sorted array, searched by bisection, with a bag for what came last: a quick queue for a few
/// dozen timers, and a slow one for many.
///
/// | operation | cost with n timers |
/// |---|---|
/// | [`insert`](DeadlineQueue::insert) | O(1), and once in some 32 times it takes O(n) to sort them in |
/// | [`remove`](DeadlineQueue::remove) | O(1) amortised |
/// | [`reset`](DeadlineQueue::reset) | O(1); the same as `insert` to an earlier tick |
/// | [`pop_due`](DeadlineQueue::pop_due) | O(1) amortised, with a look at up to 64 entries |
/// | [`next_deadline`](DeadlineQueue::next_deadline) | O(1), or the same for each timer at the front that was cancelled or put off |
///
/// [`Adaptive`](super::Adaptive) is as quick or quicker with a dozen timers, and quick with many.
///
/// A timer takes 40 bytes and its value, padded to 8, plus the dead entries, of 24 bytes each, which
/// stay fewer than the living and 64. An empty queue takes no allocation.
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
    run: Run<Filed>,
    bag: Bag,
    armings: Armings,
    /// The clock as last seen.
    now: u64,
}

/// Where the first entry is.
#[derive(Clone, Copy)]
enum First {
    Run(Filed),
    Bag(Filed),
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
            bag: Bag::new(),
            armings: Armings::new(),
            now: 0,
        }
    }

    /// Every timer's entry, filed at its deadline, in order. O(n log n).
    fn standing(&self) -> Vec<Filed> {
        let filed = self.run.as_slice().iter().chain(self.bag.as_slice());
        let mut entries: Vec<Filed> = filed.filter_map(|filed| filed.look(&self.slab)).collect();
        entries.sort_unstable();
        // A timer re-armed earlier sixteen times may have several entries that stand.
        entries.dedup();
        entries
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
        let armed = self.standing();
        let armed = armed.iter().map(|filed| (filed.order, filed.index));
        for (order, index) in self.armings.renumber(armed.collect()) {
            if let Some(timer) = self.slab.at_mut(index) {
                timer.order = order;
            }
        }
        let armed = self.standing();
        self.run.replace(armed);
        self.bag.clear();
    }

    /// Files an entry. O(1), and once in some 32 times O(n).
    #[inline]
    fn file(&mut self, filed: Filed) {
        if self.bag.len() >= BAG {
            self.make_room();
        }
        self.bag.push(filed);
    }

    /// Makes room in the bag.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.bag.clean(&self.slab);
        if self.bag.len() > FULL {
            self.sort_in();
        }
    }

    /// Moves all entries of the bag into the run.
    fn sort_in(&mut self) {
        self.run.merge(self.bag.sorted());
        self.bag.clear();
        self.sweep();
    }

    /// The first entry was popped from the bag. If many are left, to sort them is cheaper than to
    /// look for the first of them again and again.
    #[inline]
    fn find_next(&mut self) {
        if self.bag.len() > SCANNED {
            self.bag.clean(&self.slab);
            if self.bag.len() > SCANNED {
                self.sort_in();
            }
        } else {
            self.bag.find_first();
        }
    }

    /// Drops dead entries of the run when they outnumber the living. O(1) amortised: as many timers
    /// were cancelled or re-armed since the last time.
    #[inline]
    fn sweep(&mut self) {
        if self.run.len() > 2 * self.slab.len() + BAG / 2 {
            let slab = &self.slab;
            self.run.retain(|filed| filed.look(slab).is_some());
        }
    }

    /// The deadline of the first entry of the run; the last tick if it is empty.
    #[inline]
    fn run_deadline(&self) -> u64 {
        self.run.first().map_or(u64::MAX, |first| first.deadline)
    }

    /// No entry has an earlier deadline.
    #[inline]
    fn bound(&self) -> u64 {
        self.bag.deadline().min(self.run_deadline())
    }

    #[inline(never)]
    fn pop_first(&mut self, now: u64) -> Option<Expired<T>> {
        loop {
            let first = self.first_due(now)?;
            if first.filed().is_settled(&self.slab) {
                return self.pop(first);
            }
            self.settle(first);
        }
    }

    #[inline(never)]
    fn find_deadline(&mut self) -> Option<u64> {
        loop {
            let first = self.first_due(u64::MAX)?;
            if first.filed().is_settled(&self.slab) {
                return Some(first.filed().deadline);
            }
            self.settle(first);
        }
    }

    /// The first entry, which may be dead or early; `None` if it is not due at `now`.
    #[inline]
    fn first_due(&self, now: u64) -> Option<First> {
        let bag = self.bag.first().filter(|_| self.bag.deadline() <= now);
        let run = self.run.first().filter(|first| first.deadline <= now);
        match (bag, run) {
            (None, None) => None,
            (Some(&bag), None) => Some(First::Bag(bag)),
            (None, Some(&run)) => Some(First::Run(run)),
            (Some(&bag), Some(&run)) if bag < run => Some(First::Bag(bag)),
            (Some(_), Some(&run)) => Some(First::Run(run)),
        }
    }

    /// Drops the first entry, which is dead, or files it where it belongs.
    #[inline]
    fn settle(&mut self, first: First) {
        match first {
            First::Run(filed) => {
                self.run.pop_first();
                if let Some(later) = filed.look(&self.slab) {
                    self.file(later);
                }
            }
            // Where one is there are others, and to settle them all costs little more.
            First::Bag(_) => self.bag.clean(&self.slab),
        }
    }

    /// Pops the timer of the first entry, which stands at its deadline.
    #[inline]
    fn pop(&mut self, first: First) -> Option<Expired<T>> {
        let filed = *first.filed();
        let timer = self.slab.take(filed.index)?;
        if self.slab.len() == 0 {
            self.tidy();
        } else if let First::Run(_) = first {
            self.run.pop_first();
        } else {
            self.bag.take_first();
            self.find_next();
        }
        Some(Expired {
            key: slab::key(filed.index, timer.stamp),
            deadline: filed.deadline,
            value: timer.value,
        })
    }

    /// The last timer went: dead entries go, too.
    #[inline]
    fn tidy(&mut self) {
        self.bag.clear();
        if !self.run.is_empty() {
            self.run.clear();
        }
        self.slab.release();
    }
}

impl First {
    #[inline]
    fn filed(&self) -> &Filed {
        match self {
            First::Run(filed) | First::Bag(filed) => filed,
        }
    }
}

impl<T> DeadlineQueue<T> for Sorted<T> {
    /// O(1), and once in some 32 times O(n).
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let (index, stamp) = self.slab.insert(|stamp| Timer {
            deadline,
            stamp,
            order,
            value,
        });
        self.file(Filed {
            deadline,
            order,
            index,
            stamp,
        });
        slab::key(index, stamp)
    }

    /// O(1) amortised.
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slab.remove(key)?;
        if self.slab.len() == 0 {
            self.tidy();
        } else {
            self.sweep();
        }
        Some(timer.value)
    }

    /// O(1), and once in some 32 times O(n) if it is to an earlier tick.
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.armings.are_worn() {
            self.renumber();
        }
        let Some(timer) = self.slab.get_mut(key) else {
            return false;
        };
        let earlier = deadline < timer.deadline;
        timer.deadline = deadline;
        timer.order = self.armings.next();
        let alone = self.bag.len() == 1;
        if !(earlier || alone) {
            return true;
        }
        let filed = Filed::of(timer, key.index());
        if let Some(first) = self.bag.first()
            && (first.index, first.stamp) == (filed.index, filed.stamp)
        {
            // It stays the first.
            if alone || filed < *first {
                self.bag.replace_first(filed);
            }
        } else if earlier {
            timer.stamp = slab::next_epoch(timer.stamp);
            let filed = Filed::of(timer, key.index());
            self.file(filed);
            self.sweep();
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
        self.slab.len()
    }

    fn clear(&mut self) {
        self.slab.clear();
        self.run.clear();
        self.bag.clear();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (slab::key(index, timer.stamp), timer.deadline, &timer.value))
    }

    /// O(1) amortised, with a look at up to 64 entries.
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        self.now = now;
        if self.bound() > now {
            return None;
        }
        self.pop_first(now)
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        (self.slab.len() > 0).then(|| self.bound())
    }

    /// O(1) amortised, with a look at up to 64 entries if timers at the front were cancelled or
    /// put off.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        if self.bag.deadline() < self.run_deadline()
            && let Some(first) = self.bag.first()
            && first.is_settled(&self.slab)
        {
            return Some(self.bag.deadline());
        }
        self.find_deadline()
    }

    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        self.now = now;
        loop {
            let Some(first) = self.first_due(now) else {
                return Polled::Idle;
            };
            let Some(left) = budget.checked_sub(1) else {
                return Polled::Busy;
            };
            *budget = left;
            if first.filed().is_settled(&self.slab) {
                return self.pop(first).map_or(Polled::Idle, Polled::Due);
            }
            self.settle(first);
        }
    }

    fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.run.shrink_to_fit();
        self.bag.shrink_to_fit();
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.slab.memory() + self.run.memory() + self.bag.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, ops};
    use crate::queue::model::{Model, Subject};
    use proptest::prelude::*;

    impl Subject for Sorted<u64> {
        fn check(&self) {
            let run = self.run.as_slice();
            assert!(run.is_sorted(), "the run is sorted");
            self.bag.check();
            assert!(
                run.len() <= 2 * self.len() + BAG / 2,
                "dead entries are bounded"
            );
            let filed = run.iter().chain(self.bag.as_slice());
            let standing = filed.filter_map(|filed| Some((filed, filed.look(&self.slab)?)));
            let mut seen: Vec<u32> = standing
                .map(|(filed, timer)| {
                    assert!(filed.deadline <= timer.deadline, "filed too late");
                    filed.index
                })
                .collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(
                seen.len(),
                self.len(),
                "every timer has an entry that stands"
            );
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn the_array_does_what_the_model_does(ops in ops(1..150)) {
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
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
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
