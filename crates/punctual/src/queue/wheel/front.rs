//! The front: entries in the order of (deadline, arming order), ready to be popped.
//!
//! - The *run* is the sorted entries of a slot that became due. (The bottom of the ladder queue of Tang,
//!   Goh and Thng, 2005.) A slot of few entries comes here from any level at once, instead of being
//!   distributed over the levels below, one after another.
//! - The *heap* has entries that cannot wait for the next run: entries before the cursor (deadlines in the
//!   past, and timers armed after the cursor ran ahead of the clock), ticks that were out of arming
//!   order, and slots that become due before the run is used up.
//! - A new entry before the cursor is only *staged*, because an insertion has no access to the owner, which
//!   has the arming order. The next call with access moves it to the heap, unless it died meanwhile.

use crate::queue::shorten::lengthen;
use alloc::vec::Vec;
use core::mem::{replace, size_of, take};

/// An entry of the run or the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Early {
    pub(super) deadline: u64,
    pub(super) order: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Early {
    const NONE: Early = Early {
        deadline: 0,
        order: 0,
        index: 0,
        generation: 0,
    };

    /// Compares the deadlines; equal ones by arming order.
    #[inline]
    fn is_before(&self, other: &Early) -> bool {
        (self.deadline, self.order) < (other.deadline, other.order)
    }
}

/// Number of upper bits of a deadline by which a run is bucketed.
const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// Number of staged entries whose memory is kept.
const STAGE: usize = 64;

/// Maximum number of entries sorted by insertion.
const FEW: usize = 24;

/// Number of entries above which all buckets are used.
const MANY: usize = 128;

/// Sorts in O(n + moves).
#[inline]
fn insertion_sort(entries: &mut [Early]) {
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

/// An entry as inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) deadline: u64,
    pub(super) index: u32,
    pub(super) generation: u32,
}

#[derive(Debug)]
pub(super) struct Front {
    /// Entries of one slot, in order; those before `head` are already popped.
    run: Vec<Early>,
    head: usize,
    /// A binary heap, the earliest entry at 0.
    heap: Vec<Early>,
    staged: Vec<Staged>,
    /// A lower bound of the staged deadlines.
    staged_min: u64,
}

impl Front {
    pub(super) const fn new() -> Self {
        Front {
            run: Vec::new(),
            head: 0,
            heap: Vec::new(),
            staged: Vec::new(),
            staged_min: u64::MAX,
        }
    }

    #[inline]
    pub(super) fn stage(&mut self, entry: Staged) {
        self.staged_min = self.staged_min.min(entry.deadline);
        lengthen(&mut self.staged);
        self.staged.push(entry);
    }

    #[inline]
    pub(super) fn unstage(&mut self) -> Option<Staged> {
        let entry = self.staged.pop();
        if self.staged.is_empty() {
            self.staged_min = u64::MAX;
            if self.staged.capacity() > STAGE {
                self.staged = Vec::new();
            }
        }
        entry
    }

    /// Takes all entries that are not in the run, in no order.
    pub(super) fn take_waiting(&mut self) -> Vec<Staged> {
        self.staged_min = u64::MAX;
        let mut waiting = take(&mut self.staged);
        let heap = take(&mut self.heap).into_iter();
        waiting.extend(heap.map(|early| Staged {
            deadline: early.deadline,
            index: early.index,
            generation: early.generation,
        }));
        waiting
    }

    #[inline]
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.staged.len() + self.run.len() - self.head
    }

    /// Returns a lower bound of all deadlines here, or the last tick if there are none. O(1).
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.peek()
            .map_or(u64::MAX, |top| top.deadline)
            .min(self.staged_min)
    }

    /// Returns the earliest entry that is not staged.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Early> {
        match (self.run.get(self.head), self.heap.first()) {
            (Some(next), Some(top)) if top.is_before(next) => Some(top),
            (None, top) => top,
            (next, _) => next,
        }
    }

    /// Removes the entry that `peek` returns. O(1) for the run, O(log n) for the heap.
    #[inline]
    pub(super) fn pop(&mut self) {
        match (self.run.get(self.head), self.heap.first()) {
            (Some(next), Some(top)) if top.is_before(next) => {
                self.remove(0);
            }
            (None, None) => {}
            (None, Some(_)) => {
                self.remove(0);
            }
            (Some(_), _) => self.advance(),
        }
    }

    /// Adds an entry of a slot that moves here as a whole; call `sort` or `push_gathered` after the last one.
    #[inline]
    pub(super) fn gather(&mut self, entry: Early) {
        self.run.push(entry);
    }

    /// Returns the next entry of the run.
    #[inline]
    pub(super) fn next(&self) -> Option<&Early> {
        self.run.get(self.head)
    }

    /// Returns the entries of the run that are still to be popped, in order.
    #[inline]
    pub(super) fn coming(&self) -> &[Early] {
        &self.run[self.head..]
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

    /// Returns the number of entries in the run, popped ones included.
    #[inline]
    pub(super) fn run_len(&self) -> usize {
        self.run.len()
    }

    /// Moves the entries gathered behind the first `before` of the run to the heap. O(n log n).
    pub(super) fn push_gathered(&mut self, before: usize) {
        while self.run.len() > before
            && let Some(entry) = self.run.pop()
        {
            self.push(entry);
        }
    }

    /// Sorts the gathered run of a slot that starts at `start` and spans `1 << bits` ticks. O(n) if the
    /// deadlines are spread over the slot, otherwise O(n log n).
    ///
    /// A counting sort by the upper bits moves every entry near its final position and keeps the order of
    /// equal ones, usually the arming order. An insertion sort does the rest.
    pub(super) fn sort(&mut self, start: u64, bits: u32) {
        let count = self.run.len();
        if count > FEW {
            // Few entries use fewer buckets, because every bucket costs time too.
            let used = if count > MANY {
                BUCKET_BITS
            } else {
                BUCKET_BITS - 2
            };
            let shift = bits.saturating_sub(used);
            let bucket = |entry: &Early| (entry.deadline.wrapping_sub(start) >> shift) as usize;
            let mut counts = [0u16; BUCKETS];
            for entry in &self.run {
                counts[bucket(entry) % BUCKETS] += 1;
            }
            let (mut before, mut most) = (0, 0);
            for count in &mut counts[..1 << used] {
                most = most.max(*count);
                before += replace(count, before);
            }
            if usize::from(most) > FEW {
                self.run.sort_by_key(|entry| (entry.deadline, entry.order));
                return;
            }
            self.run.resize(2 * count, Early::NONE);
            let (gathered, sorted) = self.run.split_at_mut(count);
            for entry in gathered {
                let place = &mut counts[bucket(entry) % BUCKETS];
                if let Some(to) = sorted.get_mut(usize::from(*place)) {
                    *to = *entry;
                }
                *place += 1;
            }
            self.head = count;
            // A bucket of a single tick is in the order of arming, unless timers were armed again. To see this takes no branch
            // for each entry.
            let in_order = |sorted, pair: &[Early]| {
                sorted & ((pair[0].deadline != pair[1].deadline) | (pair[0].order <= pair[1].order))
            };
            if shift == 0 && self.coming().windows(2).fold(true, in_order) {
                return;
            }
        }
        insertion_sort(&mut self.run[self.head..]);
    }

    /// Removes the dead entries from the run and returns them. O(run).
    pub(super) fn extract_dead(&mut self, mut is_dead: impl FnMut(&Early) -> bool) -> Vec<Early> {
        self.run.drain(..self.head);
        self.head = 0;
        self.run.extract_if(.., |entry| is_dead(entry)).collect()
    }

    /// Returns the number of entries in the heap, which `at` and `remove` index from 0.
    pub(super) fn heap_len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn at(&self, place: usize) -> Option<&Early> {
        self.heap.get(place)
    }

    /// Adds an entry to the heap. O(log n).
    pub(super) fn push(&mut self, entry: Early) {
        lengthen(&mut self.heap);
        self.heap.push(entry);
        self.rise(self.heap.len() - 1);
    }

    /// Removes the entry at `place`, which must exist. O(log n). Entries before `place`
    /// stay at or before it, so a sweep from the back that checks `place` again misses none.
    pub(super) fn remove(&mut self, place: usize) -> Early {
        let entry = self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sink(place);
            self.rise(place);
        }
        entry
    }

    /// Stages all entries again, after the owner has renumbered the arming order. O(n).
    pub(super) fn restage(&mut self) {
        let run = self.run.drain(..).skip(take(&mut self.head));
        let early: Vec<Early> = run.chain(self.heap.drain(..)).collect();
        for early in early {
            let Early {
                deadline,
                index,
                generation,
                ..
            } = early;
            self.stage(Staged {
                deadline,
                index,
                generation,
            });
        }
    }

    /// Frees memory when little of it is used.
    pub(super) fn trim(&mut self) {
        fn trim<E>(entries: &mut Vec<E>) {
            if entries.capacity() > 256 && entries.len() < entries.capacity() / 8 {
                entries.shrink_to(entries.len() * 2);
            }
        }
        trim(&mut self.heap);
        trim(&mut self.run);
        trim(&mut self.staged);
    }

    pub(super) fn memory(&self) -> usize {
        (self.run.capacity() + self.heap.capacity()) * size_of::<Early>()
            + self.staged.capacity() * size_of::<Staged>()
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.heap[place].is_before(&self.heap[parent]) {
                return;
            }
            self.heap.swap(place, parent);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].is_before(&self.heap[child]) {
                child += 1;
            }
            if !self.heap[child].is_before(&self.heap[place]) {
                return;
            }
            self.heap.swap(place, child);
            place = child;
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let run = &self.run[self.head..];
        assert!(
            run.windows(2).all(|pair| !pair[1].is_before(&pair[0])),
            "the run is in order"
        );
        for place in 1..self.heap.len() {
            let parent = (place - 1) / 2;
            assert!(
                !self.heap[place].is_before(&self.heap[parent]),
                "the front is a heap"
            );
        }
        assert!(
            self.staged
                .iter()
                .all(|staged| staged.deadline >= self.staged_min)
        );
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u32, u32)> + '_ {
        let heap = self.run[self.head..]
            .iter()
            .chain(&self.heap)
            .map(|e| (e.deadline, e.index, e.generation));
        heap.chain(
            self.staged
                .iter()
                .map(|e| (e.deadline, e.index, e.generation)),
        )
    }
}
