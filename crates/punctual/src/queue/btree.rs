//! A `BTreeMap` from (deadline, arming) to the timer: the queue that is right at a glance.

use super::armings::Armings;
use super::slab::{self, Slab};
use super::wheel::Timer;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::collections::BTreeMap;
use core::mem::size_of;
use core::num::NonZeroU32;

/// A B-tree of deadlines: what many programs use, and a reference for the other queues.
///
/// [`insert`](DeadlineQueue::insert), [`remove`](DeadlineQueue::remove),
/// [`reset`](DeadlineQueue::reset) and [`pop_due`](DeadlineQueue::pop_due) are O(log n), whatever
/// the deadlines; the next deadline is O(log n), too, but quick.
///
/// A timer takes 16 bytes and its value, padded to 8, and some 24 in the tree.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, queue::BTree};
///
/// let mut timeouts = BTree::new();
/// let slow = timeouts.insert(1_000, "slow request");
/// timeouts.insert(5_000, "idle connection");
/// timeouts.remove(slow);
/// assert_eq!(timeouts.next_deadline(), Some(5_000));
/// ```
#[derive(Debug)]
pub struct BTree<T> {
    slab: Slab<Timer<T>>,
    tree: BTreeMap<(u64, NonZeroU32), u32>,
    armings: Armings,
}

impl<T> Default for BTree<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> BTree<T> {
    /// An empty queue. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, queue::BTree};
    /// let queue: BTree<u32> = BTree::new();
    /// assert!(queue.is_empty());
    /// ```
    pub const fn new() -> Self {
        BTree {
            slab: Slab::new(),
            tree: BTreeMap::new(),
            armings: Armings::new(),
        }
    }

    fn next_order(&mut self) -> NonZeroU32 {
        if self.armings.are_worn() {
            self.renumber();
        }
        self.armings.next()
    }

    /// O(n log n), once in two billion armings.
    #[cold]
    fn renumber(&mut self) {
        self.slab.renumber(&mut self.armings);
        self.tree = self
            .slab
            .iter()
            .map(|(index, timer)| ((timer.deadline, timer.order), index))
            .collect();
    }
}

impl<T> DeadlineQueue<T> for BTree<T> {
    /// O(log n).
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let (index, stamp) = self.slab.insert(|stamp| Timer {
            deadline,
            stamp,
            order,
            value,
        });
        self.tree.insert((deadline, order), index);
        slab::key(index, stamp)
    }

    /// O(log n).
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slab.remove(key)?;
        self.tree.remove(&(timer.deadline, timer.order));
        self.slab.release();
        Some(timer.value)
    }

    /// O(log n).
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.slab.get(key).is_none() {
            return false;
        }
        let order = self.next_order();
        let Some(timer) = self.slab.get_mut(key) else {
            return false;
        };
        self.tree.remove(&(timer.deadline, timer.order));
        (timer.deadline, timer.order) = (deadline, order);
        self.tree.insert((deadline, order), key.index());
        true
    }

    fn get(&self, key: TimerKey) -> Option<&T> {
        self.slab.get(key).map(|timer| &timer.value)
    }

    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slab.get_mut(key).map(|timer| &mut timer.value)
    }

    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.slab.get(key).map(|timer| timer.deadline)
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn clear(&mut self) {
        self.slab.clear();
        self.tree.clear();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (slab::key(index, timer.stamp), timer.deadline, &timer.value))
    }

    /// O(log n).
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        let first = self.tree.first_entry()?;
        let (deadline, _) = *first.key();
        if deadline > now {
            return None;
        }
        let index = first.remove();
        let timer = self.slab.take(index)?;
        self.slab.release();
        Some(Expired {
            key: slab::key(index, timer.stamp),
            deadline,
            value: timer.value,
        })
    }

    /// O(log n), and exact.
    fn next_wakeup(&self) -> Option<u64> {
        self.tree
            .first_key_value()
            .map(|(&(deadline, _), _)| deadline)
    }

    /// O(log n).
    fn next_deadline(&mut self) -> Option<u64> {
        self.next_wakeup()
    }

    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.next_wakeup().is_none_or(|first| first > now) {
            return Polled::Idle;
        }
        let Some(left) = budget.checked_sub(1) else {
            return Polled::Busy;
        };
        *budget = left;
        self.pop_due(now).map_or(Polled::Idle, Polled::Due)
    }

    /// The tree gives its memory back as it shrinks.
    fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
    }

    /// What the tree takes is reckoned from its length: leaves of 11 entries, two thirds full, and
    /// a tenth of it above them.
    fn memory(&self) -> usize {
        const LEAF: usize = 11 * (size_of::<(u64, NonZeroU32)>() + size_of::<u32>()) + 16;
        size_of::<Self>() + self.slab.memory() + self.tree.len() * LEAF * 3 / 2 / 11 * 11 / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, ops};
    use crate::queue::model::{Model, Subject};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    impl Subject for BTree<u64> {
        fn check(&self) {
            assert_eq!(self.tree.len(), self.slab.len());
            for (&(deadline, order), &index) in &self.tree {
                let timer = self.slab.at(index).expect("a timer for each entry");
                assert_eq!((timer.deadline, timer.order), (deadline, order));
            }
        }
    }

    proptest! {
        #![proptest_config(cases(128))]

        #[test]
        fn the_tree_does_what_the_model_does(ops in ops(1..150)) {
            Model::new(BTree::new()).run(ops);
        }
    }

    #[test]
    fn arming_order_outlives_its_numbers() {
        let mut queue = BTree::new();
        queue.armings = Armings::left(10);
        let keys: Vec<_> = (0..9).map(|n| queue.insert(700, n)).collect();
        assert!(queue.reset(keys[2], 700));
        assert!(queue.reset(keys[4], 700));
        queue.check();
        let popped: Vec<u64> = core::iter::from_fn(|| queue.pop_due(700))
            .map(|expired| expired.value)
            .collect();
        assert_eq!(popped, [0, 1, 3, 5, 6, 7, 8, 2, 4]);
    }
}
