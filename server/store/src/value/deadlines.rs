//! The deadlines of some elements of a collection, the earliest first: a 4-ary heap (Johnson,
//! "Priority queues with update", 1975) of 12 bytes a deadline.
//!
//! Ground rules:
//!
//! - Each element holds the place of its deadline in the heap, its *slot*, so a deadline is found,
//!   changed and removed without a search. A slot takes four bytes, which were padding.
//! - [`Keyed`](super::keyed::Keyed) has the heap and the elements, and is the only caller of the
//!   methods that change the heap. Each of them reports the new slots of all elements that moved.
//! - The heap arms no timer. While the collection is in a database, the database arms one timer at
//!   the earliest deadline (`keyspace/db/timelines.rs`), and keeps the timer's number here.

use crate::time::NEVER;

/// The slot of an element without a deadline.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Number of children of a place in the heap.
const CHILDREN: usize = 4;

/// The deadline of one element.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// The two halves of the deadline in Unix ms. A `u64` would align the struct to 16 bytes.
    high: u32,
    low: u32,
    /// Index of the element in its collection.
    element: u32,
}

const _: () = assert!(size_of::<Due>() == 12);

impl Due {
    const fn new(deadline: u64, element: u32) -> Self {
        Self {
            high: (deadline >> 32) as u32,
            low: deadline as u32,
            element,
        }
    }

    #[inline]
    fn deadline(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

/// The deadlines of a collection's elements.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: Vec<Due>,
    /// Number of the collection's timer in its database.
    timer: Option<u32>,
    /// Number of these deadlines that the database has counted.
    counted: usize,
}

impl Clone for Deadlines {
    /// Copies the deadlines. The copy belongs to no database.
    fn clone(&self) -> Self {
        Self {
            heap: self.heap.clone(),
            timer: None,
            counted: 0,
        }
    }
}

impl Deadlines {
    /// Returns the number of deadlines.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns the earliest deadline in Unix ms; `u64::MAX` without deadlines. O(1).
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.heap.first().map_or(NEVER, |due| due.deadline())
    }

    /// Returns the element with the earliest deadline. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.heap.first().map(|due| due.element)
    }

    /// Returns the deadline of the element with this slot. O(1).
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> u64 {
        self.heap
            .get(slot as usize)
            .map_or(NEVER, |due| due.deadline())
    }

    /// Returns the number of the collection's timer in its database.
    #[inline]
    pub(crate) fn timer(&self) -> Option<u32> {
        self.timer
    }

    /// Stores the number of the collection's timer. Without a timer, the database has counted no
    /// deadline.
    pub(crate) fn set_timer(&mut self, timer: Option<u32>) {
        self.timer = timer;
        if timer.is_none() {
            self.counted = 0;
        }
    }

    /// Returns the number of deadlines that the database has counted.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    /// Notes that the database counts all deadlines. Returns the number that it counted before.
    pub(crate) fn count(&mut self) -> usize {
        std::mem::replace(&mut self.counted, self.heap.len())
    }

    /// Sets the deadline of the element with this slot, or adds a deadline for `NO_SLOT`. `moved`
    /// gets each element that has a new slot, and the slot. O(log deadlines), O(1) on average for
    /// an added one.
    pub(super) fn set(
        &mut self,
        slot: u32,
        element: u32,
        deadline: u64,
        moved: impl FnMut(u32, u32),
    ) {
        let due = Due::new(deadline, element);
        let at = match slot {
            NO_SLOT => {
                // The default growth by half of the capacity is a waste for long-lived collections.
                if self.heap.len() == self.heap.capacity() {
                    self.heap.reserve_exact(self.heap.len() / 8 + 1);
                }
                self.heap.push(due);
                self.heap.len() - 1
            }
            slot => {
                self.heap[slot as usize] = due;
                slot as usize
            }
        };
        self.settle(at, moved);
    }

    /// Removes the deadline of the element with this slot. O(log deadlines).
    pub(super) fn remove(&mut self, slot: u32, moved: impl FnMut(u32, u32)) {
        let at = slot as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at, moved);
        }
        if self.heap.len() < self.heap.capacity() / 2 {
            self.heap.shrink_to(self.heap.len() * 5 / 4);
        }
    }

    /// Moves the deadline at `at` up or down to its place.
    fn settle(&mut self, at: usize, mut moved: impl FnMut(u32, u32)) {
        let due = self.heap[at];
        let deadline = due.deadline();
        let mut hole = at;
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.heap[parent].deadline() <= deadline {
                break;
            }
            hole = self.fill(hole, parent, &mut moved);
        }
        if hole == at {
            while let Some(child) = self.earliest_child(hole)
                && self.heap[child].deadline() < deadline
            {
                hole = self.fill(hole, child, &mut moved);
            }
        }
        self.heap[hole] = due;
        moved(due.element, hole as u32);
    }

    /// Moves the deadline at `from` to `hole`. Returns `from`.
    fn fill(&mut self, hole: usize, from: usize, moved: &mut impl FnMut(u32, u32)) -> usize {
        self.heap[hole] = self.heap[from];
        moved(self.heap[hole].element, hole as u32);
        from
    }

    fn earliest_child(&self, parent: usize) -> Option<usize> {
        let first = parent * CHILDREN + 1;
        let children = first..self.heap.len().min(first + CHILDREN);
        children.min_by_key(|child| self.heap[*child].deadline())
    }

    /// Returns the number of heap bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.heap.capacity() * size_of::<Due>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_deadline_is_the_earliest(
            steps in proptest::collection::vec((0..3u8, 0..40u32, any::<u16>()), 1..300),
        ) {
            let mut deadlines = Deadlines::default();
            let mut slots: BTreeMap<u32, u32> = BTreeMap::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for (kind, element, deadline) in steps {
                // Both halves of the deadline vary.
                let deadline = u64::from(deadline) << 24;
                let slot = slots.get(&element).copied().unwrap_or(NO_SLOT);
                if kind == 0 && slot != NO_SLOT {
                    slots.remove(&element);
                    model.remove(&element);
                    deadlines.remove(slot, |element, slot| {
                        slots.insert(element, slot);
                    });
                } else {
                    model.insert(element, deadline);
                    deadlines.set(slot, element, deadline, |element, slot| {
                        slots.insert(element, slot);
                    });
                }
                prop_assert_eq!(deadlines.len(), model.len());
                prop_assert_eq!(deadlines.next(), model.values().copied().min().unwrap_or(NEVER));
                prop_assert_eq!(
                    deadlines.first().map(|first| model[&first]),
                    model.values().copied().min()
                );
                for (element, deadline) in &model {
                    prop_assert_eq!(deadlines.at(slots[element]), *deadline);
                }
            }
        }
    }
}
