//! The deadlines of some elements of a collection, the earliest first: a 4-ary heap (Johnson,
//! "Priority queues with update", 1975) of 12 bytes a deadline, or 8 bytes in a compact collection.
//!
//! Ground rules:
//!
//! - Each element of a table holds the place of its deadline in the heap, its *slot*, so a deadline
//!   is found, changed and removed without a search. A slot takes four bytes, which were padding.
//!   The elements of a compact collection have no slots ([`Timed`]).
//! - [`Keyed`](super::keyed::Keyed) has the heap and the elements, and is the only caller of the
//!   methods that change the heap. Each of them reports the new slots of all elements that moved.
//! - The heap arms no timer. While the collection is in a database, the database arms one timer at
//!   the earliest deadline (`keyspace/db/timelines.rs`), and keeps the timer's number here.

use std::collections::BTreeSet;

use crate::check::Check;
use crate::time::NEVER;

/// Latest deadline of an element in Unix ms, as in Redis.
pub(crate) const DEADLINE_MAX_MS: u64 = (1 << 46) - 1;

/// The slot of an element without a deadline.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Number of children of a place in the heap.
const CHILDREN: usize = 4;

/// The deadline of one element, as the heap stores it.
trait Due: Copy {
    fn new(deadline: u64, element: u32) -> Self;
    fn deadline(self) -> u64;
    fn element(self) -> u32;
}

/// The deadline of an element of a large collection, in 12 bytes.
#[derive(Clone, Copy, Debug)]
struct Wide {
    /// The two halves of the deadline in Unix ms. A `u64` would align the struct to 16 bytes.
    high: u32,
    low: u32,
    /// Index of the element in its collection.
    element: u32,
}

const _: () = assert!(size_of::<Wide>() == 12);

impl Due for Wide {
    #[inline]
    fn new(deadline: u64, element: u32) -> Self {
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

    #[inline]
    fn element(self) -> u32 {
        self.element
    }
}

/// The deadline of an element of a compact collection: the deadline in 48 bits, and the position of
/// the element in 16 bits.
#[derive(Clone, Copy, Debug)]
struct Narrow(u64);

/// Number of bits of an element's position in a [`Narrow`].
const POSITION_BITS: u32 = 16;

const _: () = assert!(DEADLINE_MAX_MS << POSITION_BITS >> POSITION_BITS == DEADLINE_MAX_MS);

impl Due for Narrow {
    #[inline]
    fn new(deadline: u64, element: u32) -> Self {
        Self(deadline << POSITION_BITS | u64::from(element))
    }

    #[inline]
    fn deadline(self) -> u64 {
        self.0 >> POSITION_BITS
    }

    #[inline]
    fn element(self) -> u32 {
        self.0 as u32 & ((1 << POSITION_BITS) - 1)
    }
}

#[derive(Clone, Debug)]
enum Heap {
    Wide(Vec<Wide>),
    Narrow(Vec<Narrow>),
}

impl Default for Heap {
    fn default() -> Self {
        Self::Wide(Vec::new())
    }
}

/// Evaluates an expression for the heap of either kind.
macro_rules! heap {
    ($heap:expr, $name:ident => $value:expr) => {
        match $heap {
            Heap::Wide($name) => $value,
            Heap::Narrow($name) => $value,
        }
    };
}

/// The deadlines of a collection's elements.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: Heap,
    /// Number of the collection's timer in its database.
    timer: Option<u32>,
    /// Number of these deadlines that the database has counted.
    counted: u32,
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
    /// Creates the deadlines of a [`Timed`] collection.
    fn narrow() -> Self {
        Self {
            heap: Heap::Narrow(Vec::new()),
            ..Self::default()
        }
    }

    /// Returns the number of deadlines.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        heap!(&self.heap, heap => heap.len())
    }

    /// Returns the earliest deadline in Unix ms; `u64::MAX` without deadlines. O(1).
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.at(0)
    }

    /// Returns the element with the earliest deadline. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        heap!(&self.heap, heap => heap.first().map(|due| due.element()))
    }

    /// Returns the deadline of the element with this slot. O(1).
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> u64 {
        heap!(&self.heap, heap => heap.get(slot as usize).map_or(NEVER, |due| due.deadline()))
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

    /// Takes over the timer of the same collection in its previous form.
    pub(super) fn adopt(&mut self, before: &Self) {
        (self.timer, self.counted) = (before.timer, before.counted);
    }

    /// Returns the number of deadlines that the database has counted.
    pub(crate) fn counted(&self) -> usize {
        self.counted as usize
    }

    /// Notes that the database counts all deadlines. Returns the number that it counted before.
    pub(crate) fn count(&mut self) -> usize {
        let len = self.len() as u32;
        std::mem::replace(&mut self.counted, len) as usize
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
        heap!(&mut self.heap, heap => set(heap, slot, element, deadline, moved));
    }

    /// Removes the deadline of the element with this slot. O(log deadlines).
    pub(super) fn remove(&mut self, slot: u32, moved: impl FnMut(u32, u32)) {
        heap!(&mut self.heap, heap => remove(heap, slot, moved));
    }

    /// Returns the number of heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        heap!(&self.heap, heap => bytes(heap))
    }

    /// Returns the element whose deadline is in this slot.
    pub(super) fn element_at(&self, slot: u32) -> Option<u32> {
        heap!(&self.heap, heap => heap.get(slot as usize).map(|due| due.element()))
    }

    /// Checks the order of the heap.
    pub(crate) fn check(&self, to: &mut Check) {
        let in_order = (1..self.len() as u32).all(|slot| {
            let parent = (slot - 1) / CHILDREN as u32;
            self.at(parent) <= self.at(slot)
        });
        to.holds("no deadline is before its parent in the heap", in_order);
    }
}

/// Adds or changes a deadline; see [`Deadlines::set`].
fn set<D: Due>(
    heap: &mut Vec<D>,
    slot: u32,
    element: u32,
    deadline: u64,
    moved: impl FnMut(u32, u32),
) {
    let due = D::new(deadline, element);
    let at = match slot {
        NO_SLOT => {
            // The default growth by half of the capacity is a waste for long-lived collections.
            if heap.len() == heap.capacity() {
                heap.reserve_exact(heap.len() / 8 + 1);
            }
            heap.push(due);
            heap.len() - 1
        }
        slot => {
            heap[slot as usize] = due;
            slot as usize
        }
    };
    settle(heap, at, moved);
}

/// Removes a deadline; see [`Deadlines::remove`].
fn remove<D: Due>(heap: &mut Vec<D>, slot: u32, moved: impl FnMut(u32, u32)) {
    let at = slot as usize;
    heap.swap_remove(at);
    if at < heap.len() {
        settle(heap, at, moved);
    }
    if heap.len() < heap.capacity() / 2 {
        heap.shrink_to(heap.len() * 5 / 4);
    }
}

/// Moves the deadline at `at` up or down to its place.
fn settle<D: Due>(heap: &mut [D], at: usize, mut moved: impl FnMut(u32, u32)) {
    let due = heap[at];
    let deadline = due.deadline();
    let mut fill = |heap: &mut [D], hole: usize, from: usize| {
        heap[hole] = heap[from];
        moved(heap[hole].element(), hole as u32);
        from
    };
    let mut hole = at;
    while hole > 0 {
        let parent = (hole - 1) / CHILDREN;
        if heap[parent].deadline() <= deadline {
            break;
        }
        hole = fill(heap, hole, parent);
    }
    if hole == at {
        while let Some(child) = earliest_child(heap, hole)
            && heap[child].deadline() < deadline
        {
            hole = fill(heap, hole, child);
        }
    }
    heap[hole] = due;
    moved(due.element(), hole as u32);
}

fn bytes<D>(heap: &Vec<D>) -> usize {
    heap.capacity() * size_of::<D>()
}

fn earliest_child<D: Due>(heap: &[D], parent: usize) -> Option<usize> {
    let first = parent * CHILDREN + 1;
    let children = first..heap.len().min(first + CHILDREN);
    children.min_by_key(|child| heap[*child].deadline())
}

/// A compact collection whose elements have, or had, deadlines: a listpack, and a heap of eight
/// bytes a deadline. There are no slots: a deadline is found by a search in the heap, which is as
/// short as the listpack. Positions of elements change when an element before them is added or
/// removed, so each such change calls [`Timed::added`] or [`Timed::removed`].
#[derive(Clone, Debug)]
pub(super) struct Timed<C> {
    pub(super) compact: C,
    pub(super) deadlines: Deadlines,
}

impl<C> Timed<C> {
    /// Maximum number of elements.
    pub(super) const MAX: usize = 1 << POSITION_BITS;

    pub(super) fn new(compact: C) -> Self {
        Self {
            compact,
            deadlines: Deadlines::narrow(),
        }
    }

    fn heap(&mut self) -> &mut Vec<Narrow> {
        match &mut self.deadlines.heap {
            Heap::Narrow(heap) => heap,
            Heap::Wide(_) => unreachable!("created with a narrow heap"),
        }
    }

    fn slot(&self, position: usize) -> u32 {
        let slot = match &self.deadlines.heap {
            Heap::Narrow(heap) => heap
                .iter()
                .position(|due| due.element() as usize == position),
            Heap::Wide(_) => None,
        };
        slot.map_or(NO_SLOT, |slot| slot as u32)
    }

    /// Returns the deadline of the element at `position`; `u64::MAX` without a deadline.
    /// O(deadlines).
    pub(super) fn deadline(&self, position: usize) -> u64 {
        self.deadlines.at(self.slot(position))
    }

    /// Returns the deadlines of `len` elements by position. O(len + deadlines).
    pub(super) fn all(&self, len: usize) -> Vec<u64> {
        let mut all = vec![NEVER; len];
        if let Heap::Narrow(heap) = &self.deadlines.heap {
            heap.iter()
                .for_each(|due| all[due.element() as usize] = due.deadline());
        }
        all
    }

    /// Checks that each deadline belongs to a position of its own below `len`.
    pub(super) fn check(&self, to: &mut Check, len: usize) {
        self.deadlines.check(to);
        let heap = 0..self.deadlines.len() as u32;
        let positions: BTreeSet<u32> = heap
            .filter_map(|slot| self.deadlines.element_at(slot))
            .filter(|position| (*position as usize) < len)
            .collect();
        to.equal(
            "positions with a deadline",
            self.deadlines.len(),
            positions.len(),
        );
    }

    /// Sets the deadline of the element at `position`, or removes it for `NEVER`. O(deadlines).
    pub(super) fn set_deadline(&mut self, position: usize, deadline: u64) {
        match self.slot(position) {
            NO_SLOT if deadline == NEVER => {}
            slot if deadline == NEVER => self.deadlines.remove(slot, |_, _| {}),
            slot => self
                .deadlines
                .set(slot, position as u32, deadline, |_, _| {}),
        }
    }

    /// Notes that an element was added at `position`. O(deadlines).
    pub(super) fn added(&mut self, position: usize) {
        for due in self.heap() {
            if due.element() as usize >= position {
                // The position takes the lowest bits.
                due.0 += 1;
            }
        }
    }

    /// Notes that the element at `position` was removed, with its deadline. O(deadlines).
    pub(super) fn removed(&mut self, position: usize) {
        self.set_deadline(position, NEVER);
        for due in self.heap() {
            if due.element() as usize > position {
                due.0 -= 1;
            }
        }
    }

    /// Notes that an element has moved from one position to another. O(deadlines).
    pub(super) fn moved(&mut self, from: usize, to: usize) {
        if from != to {
            let deadline = self.deadline(from);
            self.removed(from);
            self.added(to);
            self.set_deadline(to, deadline);
        }
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

        #[test]
        fn deadlines_follow_their_elements(
            steps in proptest::collection::vec((0..5u8, any::<u8>(), any::<u8>(), 1..2000u64), 1..200),
        ) {
            let mut timed = Timed::new(());
            let mut model: Vec<u64> = Vec::new();
            for (kind, at, to, deadline) in steps {
                let position = usize::from(at) % (model.len() + 1);
                let target = usize::from(to) % model.len().max(1);
                match kind {
                    0 | 1 => {
                        model.insert(position, NEVER);
                        timed.added(position);
                    }
                    2 if position < model.len() => {
                        model.remove(position);
                        timed.removed(position);
                    }
                    3 if position < model.len() => {
                        let moved = model.remove(position);
                        model.insert(target, moved);
                        timed.moved(position, target);
                    }
                    _ if position < model.len() => {
                        model[position] = if deadline > 1500 { NEVER } else { deadline };
                        timed.set_deadline(position, model[position]);
                    }
                    _ => {}
                }
                for (position, deadline) in model.iter().enumerate() {
                    prop_assert_eq!(timed.deadline(position), *deadline);
                }
                prop_assert_eq!(timed.all(model.len()), model.clone());
                prop_assert_eq!(timed.deadlines.next(), model.iter().copied().min().unwrap_or(NEVER));
            }
        }
    }
}
