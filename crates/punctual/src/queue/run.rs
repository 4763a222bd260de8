//! A run: entries in ascending order, taken from its front.
//!
//! The front is a gap in an array, not its beginning, so that the earliest entry is taken out in
//! O(1) and the latest is put in in O(1).

use super::wheel::Timer;
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZeroU32;

/// Entries' room that is kept when a run empties.
const KEPT: usize = 1024;

/// What a queue that compares deadlines keeps of an arming: when, the how manieth, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) deadline: u64,
    pub(super) order: NonZeroU32,
    pub(super) index: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl<T> Timer<T> {
    /// The entry of its last arming.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> Entry {
        Entry {
            deadline: self.deadline,
            order: self.order,
            index,
        }
    }
}

/// Entries in ascending order.
#[derive(Debug)]
pub(super) struct Run<E> {
    /// From `head` on, in order; before it, what was taken. When nothing is left, what was taken
    /// goes, too, so the array's last entry is the run's.
    entries: Vec<E>,
    head: usize,
}

impl<E: Copy + Ord> Run<E> {
    pub(super) const fn new() -> Self {
        Run {
            entries: Vec::new(),
            head: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.head
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&E> {
        self.entries.get(self.head)
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&E> {
        self.entries.last()
    }

    pub(super) fn as_slice(&self) -> &[E] {
        &self.entries[self.head..]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [E] {
        &mut self.entries[self.head..]
    }

    /// Appends an entry that is not less than any. O(1) amortised.
    #[inline]
    pub(super) fn push(&mut self, entry: E) {
        if self.entries.len() == self.entries.capacity() {
            self.make_room();
        }
        self.entries.push(entry);
    }

    /// Puts entries, which are in order, where they belong, each behind those that are not greater.
    /// O(k log n + n), and O(k) if all belong at the end.
    pub(super) fn merge(&mut self, entries: &[E]) {
        let mut unmoved = self.entries.len();
        if self.entries.capacity() - unmoved < entries.len() {
            self.make_room();
            unmoved = self.entries.len();
        }
        self.entries.extend_from_slice(entries);
        for (before, entry) in entries.iter().enumerate().rev() {
            let rest = &self.entries[self.head..unmoved];
            let place = self.head + rest.partition_point(|other| other <= entry);
            // Makes room for this entry and all before it.
            self.entries.copy_within(place..unmoved, place + before + 1);
            self.entries[place + before] = *entry;
            unmoved = place;
        }
    }

    /// Takes out the first entry. O(1).
    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<E> {
        let first = *self.entries.get(self.head)?;
        self.head += 1;
        self.settle();
        Some(first)
    }

    /// Takes out the last entry. O(1).
    #[inline]
    pub(super) fn pop_last(&mut self) -> Option<E> {
        let last = self.entries.pop();
        self.settle();
        last
    }

    /// Drops all entries but those that `keep`. O(n).
    pub(super) fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        // No branch on what a look says: the looks' cache misses overlap.
        let mut kept = 0;
        for at in self.head..self.entries.len() {
            let entry = self.entries[at];
            self.entries[kept] = entry;
            kept += usize::from(keep(&entry));
        }
        self.entries.truncate(kept);
        self.head = 0;
        if self.entries.capacity() > KEPT && kept < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * kept);
        }
    }

    /// Takes these entries, which are in order, for its own.
    pub(super) fn replace(&mut self, entries: Vec<E>) {
        debug_assert!(entries.is_sorted());
        self.entries = entries;
        self.head = 0;
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.settle();
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.entries.drain(..self.head);
        self.head = 0;
        self.entries.shrink_to_fit();
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<E>()
    }

    /// Closes the gap when it is all there is.
    #[inline]
    fn settle(&mut self) {
        if self.head >= self.entries.len() {
            self.entries.clear();
            self.head = 0;
            if self.entries.capacity() > KEPT {
                self.entries = Vec::new();
            }
        }
    }

    /// The array is full: closes the gap if that is worth it. O(1) amortised: as many entries were
    /// taken since as are moved.
    #[cold]
    fn make_room(&mut self) {
        if self.head > self.entries.len() / 2 {
            self.entries.drain(..self.head);
            self.head = 0;
        } else {
            self.entries.reserve(1);
        }
    }
}
