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
pub(super) struct Run {
    /// Behind `head`, in order; before it, what was taken.
    entries: Vec<Entry>,
    head: usize,
}

impl Run {
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
        self.head == self.entries.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.get(self.head)
    }

    // What was taken goes when nothing is behind it, so the array's last entry is the run's.

    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut Entry> {
        self.entries.last_mut()
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }

    pub(super) fn as_slice(&self) -> &[Entry] {
        &self.entries[self.head..]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Entry] {
        &mut self.entries[self.head..]
    }

    /// Appends an entry that is not less than any. O(1) amortised.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() == self.entries.capacity() {
            self.make_room();
        }
        self.entries.push(entry);
    }

    /// Puts an entry that was armed after all others where it belongs. O(n), and O(1) at the end.
    #[inline]
    pub(super) fn file_youngest(&mut self, entry: Entry) {
        if self.entries.len() == self.entries.capacity() {
            self.make_room();
        }
        let behind = |other: &Entry| other.deadline <= entry.deadline;
        if self.entries.last().is_none_or(behind) {
            self.entries.push(entry);
        } else {
            let place = self.head + self.as_slice().partition_point(behind);
            self.entries.insert(place, entry);
        }
    }

    /// Takes out the first entry. O(1).
    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<Entry> {
        let first = *self.entries.get(self.head)?;
        self.head += 1;
        self.settle();
        Some(first)
    }

    /// Takes out the last entry. O(1).
    #[inline]
    pub(super) fn pop_last(&mut self) -> Option<Entry> {
        let last = self.entries.pop();
        self.settle();
        last
    }

    /// The place of an entry; it may be filed under an earlier deadline. O(log n) if it is not.
    #[inline]
    pub(super) fn find(&self, entry: &Entry) -> Option<usize> {
        let entries = self.as_slice();
        if entries.len() > SCANNED
            && let Ok(place) = entries.binary_search(entry)
        {
            return Some(place);
        }
        entries.iter().position(|other| other.index == entry.index)
    }

    /// Takes out the entry at `place`. O(n), and O(1) at both ends.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        if place == 0 {
            self.head += 1;
        } else {
            self.entries.remove(self.head + place);
        }
        self.settle();
    }

    /// Puts `entry`, which is less than the one at `place`, where it belongs, in the other's
    /// stead. O(n).
    #[inline]
    pub(super) fn advance(&mut self, place: usize, entry: Entry) {
        let entries = &mut self.entries[self.head..=self.head + place];
        let to = entries.partition_point(|other| *other < entry);
        entries.copy_within(to..place, to + 1);
        entries[to] = entry;
    }

    /// Puts `entry`, which is not less than the first, where it belongs, in the first's stead. O(n).
    #[inline]
    pub(super) fn put_off(&mut self, entry: Entry) {
        let entries = &mut self.entries[self.head..];
        let to = entries.partition_point(|other| *other < entry);
        if let Some(to) = to.checked_sub(1) {
            entries.copy_within(1..=to, 0);
            entries[to] = entry;
        }
    }

    /// Drops all entries but those that `keep`. O(n).
    pub(super) fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
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
    pub(super) fn replace(&mut self, entries: Vec<Entry>) {
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
        self.entries.capacity() * size_of::<Entry>()
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

/// Up to so many entries, looking at the indices of all is quicker than a binary search.
const SCANNED: usize = 16;
