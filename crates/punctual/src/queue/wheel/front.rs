//! The front: entries that are popped next, in the order of (deadline, sequence of arming). The
//! [module](super) explains the other terms.
//!
//! - The *run* is the sorted entries of one opened slot. (It is the "bottom" of the ladder queue of
//!   Tang, Goh and Thng, 2005.) A slot with few entries moves here from any level at once, instead
//!   of cascading through each level below.
//! - The *heap* has entries that cannot wait for the next run: entries before the cursor (deadlines
//!   in the past, or timers armed while the cursor is ahead of the clock), entries whose timer was
//!   armed again for the same tick, and entries of slots that become due before the run is empty.
//! - A new entry before the cursor is *staged*: an insertion cannot read the entry's sequence,
//!   because it has no access to the timers. The next call that has access moves the entry to the
//!   heap, or drops it if it is dead.

use super::chunk::Entry;
use crate::queue::shorten::{growth, lengthen};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem::{replace, size_of, take};

/// An entry of the run or the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    pub(super) deadline: u64,
    pub(super) sequence: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Ready {
    #[inline]
    pub(super) fn new(entry: Entry, sequence: u32) -> Self {
        Ready {
            deadline: entry.deadline,
            sequence,
            index: entry.index,
            generation: entry.generation,
        }
    }

    #[inline]
    pub(super) fn entry(self) -> Entry {
        Entry {
            deadline: self.deadline,
            index: self.index,
            generation: self.generation,
        }
    }

    /// Compares the deadlines, and the sequences of arming if the deadlines are equal.
    #[inline]
    fn is_before(&self, other: &Ready) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// Number of bits of a deadline that select a bucket of the counting sort: the upper bits in its
/// slot.
const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// Capacity of `staged` up to which its memory is kept.
const STAGED_KEPT: usize = 64;

/// Maximum number of entries that an insertion sort alone sorts, and maximum number of entries in a
/// bucket of the counting sort.
const INSERTION_MAX: usize = 24;

/// Maximum number of entries for which the counting sort uses a quarter of the buckets, because
/// every bucket costs time.
const FEW_BUCKETS_MAX: usize = 128;

/// Sorts entries that are nearly in order. O(n + moves).
#[inline]
fn insertion_sort(entries: &mut [Ready]) {
    for end in 1..entries.len() {
        let entry = entries[end];
        let mut place = end;
        while place > 0 && entry.is_before(&entries[place - 1]) {
            entries[place] = entries[place - 1];
            place -= 1;
        }
        entries[place] = entry;
    }
}

#[derive(Debug)]
pub(super) struct Front {
    /// Entries of one slot, in order. The entries before `head` are already popped.
    run: Vec<Ready>,
    head: usize,
    /// Entries of the run that are due before this tick precede all other entries of the wheel.
    pub(super) run_first_until: u64,
    heap: BinaryHeap<Reverse<Ready>>,
    staged: Vec<Entry>,
}

impl Front {
    pub(super) const fn new() -> Self {
        Front {
            run: Vec::new(),
            head: 0,
            run_first_until: 0,
            heap: BinaryHeap::new(),
            staged: Vec::new(),
        }
    }

    /// Adds an entry whose sequence was not read yet. O(1).
    #[inline]
    pub(super) fn stage(&mut self, entry: Entry) {
        self.run_first_until = 0;
        lengthen(&mut self.staged);
        self.staged.push(entry);
    }

    /// Lowers `run_first_until` for an entry due at `deadline` that is not in the run.
    #[inline]
    pub(super) fn limit_run_first(&mut self, deadline: u64) {
        self.run_first_until = self.run_first_until.min(deadline);
    }

    /// Removes a staged entry.
    #[inline]
    pub(super) fn unstage(&mut self) -> Option<Entry> {
        let entry = self.staged.pop();
        if self.staged.is_empty() && self.staged.capacity() > STAGED_KEPT {
            self.staged = Vec::new();
        }
        entry
    }

    /// Moves all entries to the stage, because the owner has renumbered the armings or a sweep
    /// checks all entries. O(n).
    pub(super) fn restage(&mut self) {
        let run = self.run.drain(..).skip(take(&mut self.head));
        let heap = take(&mut self.heap).into_iter().map(|Reverse(ready)| ready);
        self.staged.extend(run.chain(heap).map(Ready::entry));
        self.run_first_until = 0;
    }

    /// Removes and returns all entries, in no particular order. O(n).
    pub(super) fn take_all(&mut self) -> Vec<Entry> {
        self.restage();
        take(&mut self.staged)
    }

    #[inline]
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.staged.len() + self.run.len() - self.head
    }

    /// Returns the earliest entry that is not staged.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Ready> {
        match (self.next(), self.heap.peek()) {
            (Some(next), Some(Reverse(top))) if top.is_before(next) => Some(top),
            (None, top) => top.map(|Reverse(top)| top),
            (next, _) => next,
        }
    }

    /// Removes the entry that `peek` returns. O(1) for the run, O(log n) for the heap.
    #[inline]
    pub(super) fn pop(&mut self) {
        match (self.next(), self.heap.peek()) {
            (Some(next), top) if top.is_none_or(|Reverse(top)| !top.is_before(next)) => {
                self.advance();
            }
            _ => {
                self.heap.pop();
            }
        }
    }

    /// Adds an entry to the heap. O(log n).
    pub(super) fn push(&mut self, entry: Ready) {
        self.run_first_until = 0;
        if self.heap.len() == self.heap.capacity() {
            self.heap.reserve_exact(growth(self.heap.len()));
        }
        self.heap.push(Reverse(entry));
    }

    /// Adds an entry to the unsorted run; call [`sort`](Self::sort) after the last entry.
    #[inline]
    pub(super) fn push_unsorted(&mut self, entry: Ready) {
        self.run.push(entry);
    }

    /// Returns the next entry of the run.
    #[inline]
    pub(super) fn next(&self) -> Option<&Ready> {
        self.run.get(self.head)
    }

    /// Returns the entries of the run that are not popped yet, in order.
    #[inline]
    pub(super) fn remaining_run(&self) -> &[Ready] {
        &self.run[self.head..]
    }

    /// Returns the heap's entries, roughly in order: the first entry is popped next, and the entry
    /// that is popped after it is the second or the third.
    #[inline]
    pub(super) fn heap_entries(&self) -> impl Iterator<Item = &Ready> {
        self.heap.as_slice().iter().map(|Reverse(ready)| ready)
    }

    /// Removes the next entry of the run, which must exist.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.head += 1;
        if self.head == self.run.len() {
            self.run.clear();
            self.head = 0;
        }
    }

    /// Returns whether the heap and the stage are empty.
    #[inline]
    pub(super) fn is_run_only(&self) -> bool {
        self.heap.is_empty() && self.staged.is_empty()
    }

    /// Sorts the gathered run of a slot that starts at `start` and spans `1 << bits` ticks. O(n) if
    /// the deadlines are spread over the slot, otherwise O(n log n).
    ///
    /// A counting sort by the upper bits moves every entry near its final position. It keeps the
    /// order of entries in the same bucket, which is usually the sequence of arming. An insertion
    /// sort moves the entries to their final positions. If a bucket is too full, the standard
    /// library sorts the run instead.
    pub(super) fn sort(&mut self, start: u64, bits: u32) {
        let count = self.run.len();
        if count > INSERTION_MAX {
            let used = BUCKET_BITS - if count > FEW_BUCKETS_MAX { 0 } else { 2 };
            let shift = bits.saturating_sub(used);
            let bucket = |entry: &Ready| (entry.deadline.wrapping_sub(start) >> shift) as usize;
            let mut places = [0u16; BUCKETS];
            for entry in &self.run {
                places[bucket(entry) % BUCKETS] += 1;
            }
            let (mut before, mut most) = (0, 0);
            for place in &mut places[..1 << used] {
                most = most.max(*place);
                before += replace(place, before);
            }
            if usize::from(most) > INSERTION_MAX {
                return self.run.sort_unstable();
            }
            self.run.resize(2 * count, Ready::default());
            let (gathered, sorted) = self.run.split_at_mut(count);
            for entry in gathered {
                let place = &mut places[bucket(entry) % BUCKETS];
                if let Some(to) = sorted.get_mut(usize::from(*place)) {
                    *to = *entry;
                }
                *place += 1;
            }
            self.head = count;
            // If a bucket spans a single tick, its entries are already in order, unless timers were
            // armed again. This check needs no branch for each entry; an insertion sort would have
            // branches that the processor predicts wrong.
            let in_order = |sorted, pair: &[Ready]| {
                let is_other_tick = pair[0].deadline != pair[1].deadline;
                sorted & (is_other_tick | (pair[0].sequence <= pair[1].sequence))
            };
            if shift == 0 && self.remaining_run().windows(2).fold(true, in_order) {
                return;
            }
        }
        insertion_sort(&mut self.run[self.head..]);
    }

    /// Frees memory of the heap if less than an eighth of it is used.
    pub(super) fn trim(&mut self) {
        if self.heap.capacity() > 256 && self.heap.len() < self.heap.capacity() / 8 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    pub(super) fn memory(&self) -> usize {
        (self.run.capacity() + self.heap.capacity()) * size_of::<Ready>()
            + self.staged.capacity() * size_of::<Entry>()
    }

    /// Returns whether the run is in order.
    #[cfg(test)]
    pub(super) fn is_sorted(&self) -> bool {
        let coming = self.remaining_run();
        coming.windows(2).all(|pair| !pair[1].is_before(&pair[0]))
    }

    /// Returns all entries, in no particular order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let coming = self.remaining_run();
        let ready = coming
            .iter()
            .chain(self.heap_entries())
            .map(|ready| ready.entry());
        ready.chain(self.staged.iter().copied())
    }
}
