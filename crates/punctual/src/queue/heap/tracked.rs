//! A heap that finds entries by handle: each timer's record holds the position of its entry.
//!
//! [`Heap`](super::Heap) uses it with deadlines, and [`PriorityQueue`](crate::PriorityQueue) with
//! priorities. The Python package uses it with Python objects as priorities, through `placed`.

use super::entry::{Entry, Sifted};
use super::sift::{Arity, sift, sift_down, sift_up};
use crate::TimerKey;
use crate::queue::armings::ArmingCounter;
use crate::queue::slab::{RECORDS_KEPT, RecordBody, Slab};
use alloc::vec::Vec;
use core::mem::{replace, size_of};
use core::num::NonZeroU32;

/// A timer's record in the slab. It takes 16 bytes for an 8-byte value.
#[derive(Debug)]
pub(super) struct TimerRecord<T> {
    /// The entry's position, counted from 1, so that 0 can mark a free record.
    place: NonZeroU32,
    generation: u32,
    pub(super) value: T,
}

const _: () = assert!(Slab::<TimerRecord<u64>>::RECORD == 16);

impl<T> TimerRecord<T> {
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.place.get() as usize - 1
    }
}

impl<T> RecordBody for TimerRecord<T> {
    type Kept = ();
    const NEW: () = ();

    #[inline]
    fn generation(&self) -> u32 {
        self.generation
    }
}

/// Counts a position from 1. The result fits in 32 bits, because a heap has at most 2^32 - 1
/// entries.
#[inline]
fn encode_place(place: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(place as u32)
}

/// Entries in a heap of arity `D`, and the records of their timers.
#[derive(Debug)]
pub struct TrackedHeap<E, T, const D: usize> {
    pub(super) entries: Vec<E>,
    pub(super) slab: Slab<TimerRecord<T>>,
    arming_counter: ArmingCounter,
}

impl<E: Entry, T, const D: usize> TrackedHeap<E, T, D> {
    /// Returns an empty heap whose first handles have this generation.
    pub const fn new(generation: u32) -> Self {
        const { Arity::<D>::CHECKED };
        TrackedHeap {
            entries: Vec::new(),
            slab: Slab::new(generation),
            arming_counter: ArmingCounter::new(),
        }
    }

    /// Returns the entry and the value of a handle. O(1).
    #[inline]
    pub(in crate::queue) fn get(&self, key: TimerKey) -> Option<(&E, &T)> {
        let timer = self.slab.get(key)?;
        Some((self.entries.get(timer.place())?, &timer.value))
    }

    /// Returns the value of an entry. O(1).
    #[inline]
    pub fn value(&self, entry: &E) -> Option<&T> {
        self.slab.at(entry.index()).map(|timer| &timer.value)
    }

    #[inline]
    pub(in crate::queue) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slab.get_mut(key).map(|timer| &mut timer.value)
    }

    /// Returns the entries in heap order: the first entry is the least.
    #[inline]
    pub fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Iterates over all timers, in the order of their entries in the heap.
    pub fn iter(&self) -> impl Iterator<Item = (TimerKey, &E, &T)> {
        self.entries.iter().filter_map(|entry| {
            let index = entry.index();
            let timer = self.slab.at(index)?;
            Some((timer.key(index), entry, &timer.value))
        })
    }

    /// Returns the bytes of the allocations. O(1).
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<E>() + self.slab.memory()
    }

    /// Adds a timer, with its entry at the end of the heap. The caller must sift the entry.
    #[inline]
    pub(super) fn append(&mut self, value: T, make: impl FnOnce(NonZeroU32, u32) -> E) -> TimerKey {
        let sequence = self.next_sequence();
        let place = encode_place(self.entries.len());
        let (key, _) = self.slab.insert(|generation| TimerRecord {
            place,
            generation,
            value,
        });
        self.entries.push(make(sequence, key.index()));
        key
    }

    /// Returns the entries, and a function that stores an entry's new position in its record.
    #[inline]
    pub(super) fn entries_and_moved(&mut self) -> (&mut [E], impl FnMut(&E, usize)) {
        let slab = &mut self.slab;
        let moved = |entry: &E, place| {
            if let Some(timer) = slab.at_mut(entry.index()) {
                timer.place = encode_place(place);
            }
        };
        (&mut self.entries, moved)
    }

    /// Frees memory if a large heap has just become empty. O(1) otherwise.
    #[inline]
    pub(super) fn free_if_empty(&mut self) {
        self.slab.free_if_empty();
        if self.entries.is_empty() && self.entries.capacity() > RECORDS_KEPT {
            self.entries.shrink_to(RECORDS_KEPT);
        }
    }

    #[inline]
    pub(super) fn next_sequence(&mut self) -> NonZeroU32 {
        if self.arming_counter.must_renumber() {
            self.renumber();
        }
        self.arming_counter.next()
    }

    /// Renumbers the armings. The entries stay where they are, because their order does not change.
    #[cold]
    fn renumber(&mut self) {
        let armed = (0..)
            .zip(&self.entries)
            .map(|(place, entry)| (entry.sequence(), place));
        for (sequence, place) in self
            .arming_counter
            .renumber(armed.collect::<Vec<(_, usize)>>())
        {
            self.entries[place].set_sequence(sequence);
        }
    }

    /// Makes the heap renumber its armings after `left` more armings.
    #[cfg(test)]
    pub(in crate::queue) fn renumber_after(&mut self, left: u32) {
        self.arming_counter = ArmingCounter::with_remaining(left);
    }
}

impl<E: Sifted, T, const D: usize> TrackedHeap<E, T, D> {
    /// Adds a value with the entry that `make` builds from its sequence and its index. O(log n).
    #[inline]
    pub(in crate::queue) fn insert(
        &mut self,
        value: T,
        make: impl FnOnce(NonZeroU32, u32) -> E,
    ) -> TimerKey {
        let key = self.append(value, make);
        let (entries, moved) = self.entries_and_moved();
        sift_up::<E, D>(entries, entries.len() - 1, moved);
        key
    }

    /// Adds k values. O(n), or O(k log n) if k is at most a quarter of the old number of values.
    pub(in crate::queue) fn extend<I>(&mut self, values: impl IntoIterator<Item = (I, T)>)
    where
        I: FnOnce(NonZeroU32, u32) -> E,
    {
        let old = self.entries.len();
        for (make, value) in values {
            self.append(value, make);
        }
        let len = self.entries.len();
        let (entries, mut moved) = self.entries_and_moved();
        if len - old > old / 4 {
            super::sift::heapify::<E, D>(entries);
            for (place, entry) in entries.iter().enumerate() {
                moved(entry, place);
            }
        } else {
            for place in old..len {
                sift_up::<E, D>(&mut entries[..=place], place, &mut moved);
            }
        }
    }

    /// Replaces a timer's entry and returns the old entry. O(log n).
    #[inline]
    pub(in crate::queue) fn reset(
        &mut self,
        key: TimerKey,
        make: impl FnOnce(NonZeroU32, u32) -> E,
    ) -> Option<E> {
        let place = self.slab.get(key)?.place();
        let sequence = self.next_sequence();
        let entry = self.entries.get_mut(place)?;
        let old = replace(entry, make(sequence, key.index()));
        let (entries, moved) = self.entries_and_moved();
        sift::<E, D>(entries, place, moved);
        Some(old)
    }

    /// Removes a timer. O(log n).
    #[inline]
    pub(in crate::queue) fn remove(&mut self, key: TimerKey) -> Option<(E, T)> {
        let timer = self.slab.remove(key)?;
        let place = timer.place();
        let entry = self.entries.swap_remove(place);
        if place < self.entries.len() {
            let (entries, moved) = self.entries_and_moved();
            sift::<E, D>(entries, place, moved);
        }
        self.free_if_empty();
        Some((entry, timer.value))
    }

    /// Removes the first timer if `is_wanted` returns true for it. O(log n).
    #[inline]
    pub(in crate::queue) fn pop_if(
        &mut self,
        is_wanted: impl FnOnce(&E) -> bool,
    ) -> Option<(TimerKey, E, T)> {
        if !is_wanted(self.entries.first()?) {
            return None;
        }
        let entry = self.entries.swap_remove(0);
        if !self.entries.is_empty() {
            let (entries, moved) = self.entries_and_moved();
            sift_down::<E, D>(entries, 0, moved);
        }
        let index = entry.index();
        let timer = self.slab.take(index)?;
        self.free_if_empty();
        Some((timer.key(index), entry, timer.value))
    }

    /// Removes the first timer and adds another timer. O(log n), with half the work of a pop and an
    /// insertion.
    #[inline]
    pub(in crate::queue) fn pop_insert(
        &mut self,
        value: T,
        make: impl FnOnce(NonZeroU32, u32) -> E,
    ) -> (TimerKey, Option<(TimerKey, E, T)>) {
        if self.entries.is_empty() {
            return (self.insert(value, make), None);
        }
        // Frees the old record before taking the new one, so that the slab does not grow.
        let index = self.entries[0].index();
        let timer = self.slab.take(index);
        let key = self.append(value, make);
        let entry = self.entries.swap_remove(0);
        let (entries, moved) = self.entries_and_moved();
        sift_down::<E, D>(entries, 0, moved);
        let popped = timer.map(|timer| (timer.key(index), entry, timer.value));
        (key, popped)
    }

    /// Returns all timers in order. O(n log n).
    pub(in crate::queue) fn into_sorted(mut self) -> Vec<(E, T)> {
        self.entries.sort_unstable();
        self.take_all()
    }

    pub(in crate::queue) fn clear(&mut self) {
        self.entries.clear();
        self.slab.clear();
        self.free_if_empty();
    }

    pub(in crate::queue) fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.slab.shrink_to_fit(usize::MAX);
    }

    /// Panics if an invariant is violated.
    #[cfg(test)]
    pub(in crate::queue) fn check(&self) {
        super::sift::check::<E, D>(&self.entries);
        assert_eq!(self.entries.len(), self.slab.len());
        for (place, entry) in self.entries.iter().enumerate() {
            let timer = self.slab.at(entry.index()).expect("a live timer");
            assert_eq!(timer.place(), place, "a record has its entry's position");
        }
    }
}
