//! What lies before the wheel's cursor: deadlines in the past, deadlines armed after the cursor
//! ran ahead of the clock, and ticks whose entries came out of arming order.
//!
//! New entries are only noted (`staged`), because the owner, who knows their arming order, is not
//! at hand when they come; the next look with the owner moves them to a binary heap ordered by
//! (deadline, arming order). Entries that died meanwhile never reach the heap.

use alloc::vec::Vec;
use core::mem::size_of;

/// An entry of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Early {
    pub(super) deadline: u64,
    pub(super) order: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Early {
    /// Deadline first; among equals, who was armed first (order numbers may wrap around).
    #[inline]
    fn is_before(&self, other: &Early) -> bool {
        if self.deadline != other.deadline {
            return self.deadline < other.deadline;
        }
        (self.order.wrapping_sub(other.order) as i32) < 0
    }
}

/// An entry as it was inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) deadline: u64,
    pub(super) index: u32,
    pub(super) generation: u32,
}

#[derive(Debug)]
pub(super) struct Front {
    /// A binary heap, the earliest at 0.
    heap: Vec<Early>,
    staged: Vec<Staged>,
    /// No staged entry has an earlier deadline.
    staged_min: u64,
}

impl Front {
    pub(super) const fn new() -> Self {
        Front {
            heap: Vec::new(),
            staged: Vec::new(),
            staged_min: u64::MAX,
        }
    }

    #[inline]
    pub(super) fn stage(&mut self, entry: Staged) {
        self.staged_min = self.staged_min.min(entry.deadline);
        self.staged.push(entry);
    }

    #[inline]
    pub(super) fn unstage(&mut self) -> Option<Staged> {
        let entry = self.staged.pop();
        if self.staged.is_empty() {
            self.staged_min = u64::MAX;
        }
        entry
    }

    #[inline]
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.staged.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.staged.len()
    }

    /// A lower bound of all deadlines here; the last tick if there are none. O(1).
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.heap
            .first()
            .map_or(u64::MAX, |top| top.deadline)
            .min(self.staged_min)
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<&Early> {
        self.heap.first()
    }

    /// Entries in the heap, which `at` and `remove` number from 0.
    pub(super) fn heap_len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn at(&self, place: usize) -> Option<&Early> {
        self.heap.get(place)
    }

    /// O(log n).
    pub(super) fn push(&mut self, entry: Early) {
        self.heap.push(entry);
        self.rise(self.heap.len() - 1);
    }

    /// Removes the earliest. O(log n).
    pub(super) fn pop(&mut self) -> Option<Early> {
        if self.heap.is_empty() {
            None
        } else {
            Some(self.remove(0))
        }
    }

    /// Removes the entry at `place`, which must exist. O(log n). Entries that stood before `place`
    /// stay at or before it, so a sweep from the back that looks at `place` again misses none.
    pub(super) fn remove(&mut self, place: usize) -> Early {
        let entry = self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sink(place);
            self.rise(place);
        }
        entry
    }

    /// Back to staged, to be ordered anew: the owner gave new order numbers. O(n).
    pub(super) fn restage(&mut self) {
        for early in core::mem::take(&mut self.heap) {
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

    /// Gives memory back when little of it is in use.
    pub(super) fn trim(&mut self) {
        fn trim<E>(entries: &mut Vec<E>) {
            if entries.capacity() > 256 && entries.len() < entries.capacity() / 8 {
                entries.shrink_to(entries.len() * 2);
            }
        }
        trim(&mut self.heap);
        trim(&mut self.staged);
    }

    pub(super) fn memory(&self) -> usize {
        self.heap.capacity() * size_of::<Early>() + self.staged.capacity() * size_of::<Staged>()
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
        let heap = self
            .heap
            .iter()
            .map(|e| (e.deadline, e.index, e.generation));
        heap.chain(
            self.staged
                .iter()
                .map(|e| (e.deadline, e.index, e.generation)),
        )
    }
}
