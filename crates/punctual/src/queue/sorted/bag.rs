//! The bag: the entries that came last, in no order, but for the first of them, which is known.

use crate::queue::slab::Slab;
use crate::queue::wheel::Timer;
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZeroU32;

/// The room in the bag.
pub(super) const BAG: usize = 64;

/// An entry: an arming of a timer that had this stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Filed {
    pub(super) deadline: u64,
    pub(super) order: NonZeroU32,
    pub(super) index: u32,
    pub(super) stamp: u32,
}

impl Filed {
    #[inline]
    pub(super) fn of<T>(timer: &Timer<T>, index: u32) -> Self {
        Filed {
            deadline: timer.deadline,
            order: timer.order,
            index,
            stamp: timer.stamp,
        }
    }

    /// The entry of the same timer at the deadline it has now; `None` if this one is dead.
    #[inline]
    pub(super) fn look<T>(&self, slab: &Slab<Timer<T>>) -> Option<Filed> {
        match slab.at(self.index) {
            Some(timer) if timer.stamp == self.stamp => Some(Filed::of(timer, self.index)),
            _ => None,
        }
    }

    /// Whether it stands, and at its timer's deadline.
    #[inline]
    pub(super) fn is_settled<T>(&self, slab: &Slab<Timer<T>>) -> bool {
        matches!(slab.at(self.index),
            Some(timer) if timer.stamp == self.stamp && timer.order == self.order)
    }
}

/// Up to [`BAG`] entries.
#[derive(Debug)]
pub(super) struct Bag {
    entries: Vec<Filed>,
    /// The deadline of the first entry; the last tick if there is none.
    deadline: u64,
    /// Where it lies.
    first: usize,
}

impl Bag {
    pub(super) const fn new() -> Self {
        Bag {
            entries: Vec::new(),
            deadline: u64::MAX,
            first: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Filed] {
        &self.entries
    }

    /// The deadline of the first entry; the last tick if there is none. O(1).
    #[inline]
    pub(super) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// O(1).
    #[inline]
    pub(super) fn first(&self) -> Option<&Filed> {
        self.entries.get(self.first)
    }

    /// Puts an entry in. O(1).
    #[inline]
    pub(super) fn push(&mut self, filed: Filed) {
        let is_first = filed.deadline < self.deadline
            || filed.deadline == self.deadline && self.first().is_none_or(|first| filed < *first);
        if is_first {
            self.deadline = filed.deadline;
            self.first = self.entries.len();
        }
        self.entries.push(filed);
    }

    /// Puts an entry in the stead of the first, which stays the first. O(1).
    #[inline]
    pub(super) fn replace_first(&mut self, filed: Filed) {
        if let Some(first) = self.entries.get_mut(self.first) {
            *first = filed;
            self.deadline = filed.deadline;
        }
    }

    /// Takes the first entry out; the next one must be found then. O(1).
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.entries.swap_remove(self.first);
    }

    /// Finds the first entry. O(bag).
    #[inline]
    pub(super) fn find_first(&mut self) {
        // Least numbers take no branches, which would be taken by surprise.
        let deadlines = self.entries.iter().map(|filed| filed.deadline);
        let least = deadlines.fold(u64::MAX, u64::min);
        // Of those due then, the one armed first; its place in the same number.
        let entries = self.entries.iter().zip(0u64..);
        let armed = entries.fold(u64::MAX, |first, (filed, at)| {
            let later = u64::from(filed.deadline != least).wrapping_neg();
            first.min(later | u64::from(filed.order.get()) << 32 | at)
        });
        self.deadline = least;
        self.first = armed as u32 as usize;
    }

    /// Drops dead entries, files the early ones where they belong, and finds the first. O(bag).
    pub(super) fn clean<T>(&mut self, slab: &Slab<Timer<T>>) {
        // No branch on what a look says.
        let mut kept = 0;
        for at in 0..self.entries.len() {
            let filed = self.entries[at];
            let standing = filed.look(slab);
            self.entries[kept] = standing.unwrap_or(filed);
            kept += usize::from(standing.is_some());
        }
        self.entries.truncate(kept);
        self.find_first();
    }

    /// Its entries in order; nothing else may be asked of it before it is emptied. O(b log b).
    pub(super) fn sorted(&mut self) -> &[Filed] {
        self.entries.sort_unstable();
        &self.entries
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.deadline = u64::MAX;
        self.first = 0;
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Filed>()
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.entries.len() <= BAG);
        let first = self.entries.iter().min();
        assert_eq!(
            self.deadline,
            first.map_or(u64::MAX, |first| first.deadline)
        );
        assert_eq!(self.first(), first);
    }
}
