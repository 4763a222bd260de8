//! A binary heap (the library's [`TrackedHeap`]) with comparisons that run Python code and may
//! raise.
//!
//! A *place* is an index into the array of the heap. An operation has two steps. The `place_`
//! method finds the new place of an entry: its comparisons may raise, and it does not change the
//! heap. The other method moves the entry to the new place, which cannot fail.

use std::num::NonZeroU32;

use punctual::TimerKey;
use punctual::queue::placed::{self, TrackedHeap, find_place};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::rank::Priority;

/// Number of children per entry. A binary heap needs the fewest comparisons, and comparisons in
/// Python take most of the time.
const ARITY: usize = 2;

/// An entry of the heap.
struct Entry {
    priority: Priority,
    /// Tie-breaker between entries of equal priorities: the smaller number comes first.
    sequence: NonZeroU32,
    /// Index of the entry in the slab of values; part of its key.
    index: u32,
}

impl placed::Entry for Entry {
    #[inline]
    fn index(&self) -> u32 {
        self.index
    }

    fn sequence(&self) -> NonZeroU32 {
        self.sequence
    }

    fn set_sequence(&mut self, sequence: NonZeroU32) {
        self.sequence = sequence;
    }
}

pub(super) struct Heap {
    /// Greatest priority first.
    reverse: bool,
    entries: TrackedHeap<Entry, Py<PyAny>, ARITY>,
}

impl Heap {
    pub(super) fn new(reverse: bool) -> Self {
        Heap {
            reverse,
            // The generation of the first keys: no key is 0.
            entries: TrackedHeap::new(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.entries().len()
    }

    /// Returns the bytes of all allocations.
    pub(super) fn allocated(&self) -> usize {
        self.entries.memory()
    }

    /// Returns the place of a key's entry.
    #[inline]
    pub(super) fn place(&self, key: TimerKey) -> Option<usize> {
        self.entries.place(key)
    }

    /// Returns the priority and the value of the entry at a place.
    pub(super) fn at(&self, py: Python<'_>, place: usize) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let entry = self.entries.entries().get(place)?;
        let value = self.entries.value(entry)?;
        Some((entry.priority.object().clone_ref(py), value.clone_ref(py)))
    }

    /// Iterates over keys, priorities and values in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TimerKey, &Py<PyAny>, &Py<PyAny>)> {
        let all = self.entries.iter();
        all.map(|(key, entry, value)| (key, entry.priority.object(), value))
    }

    /// Returns the place that a new entry will have.
    #[inline]
    pub(super) fn place_in(&self, py: Python<'_>, priority: &Priority) -> PyResult<usize> {
        self.find(py, (priority, NonZeroU32::MAX), self.len(), self.len())
    }

    /// Adds an entry at the place that [`place_in`](Heap::place_in) has returned.
    ///
    /// # Panics
    /// If there are 2^32 - 1 entries already.
    #[inline]
    pub(super) fn push(&mut self, priority: Priority, value: Py<PyAny>, to: usize) -> TimerKey {
        self.entries.insert_at(to, value, ranked(priority))
    }

    /// Returns the place that the last entry will have after the removal of the entry at `place`.
    #[inline]
    pub(super) fn place_out(&self, py: Python<'_>, place: usize) -> PyResult<usize> {
        let last = self.len() - 1;
        if place == last {
            return Ok(place);
        }
        self.find(py, self.ranked(last), place, last)
    }

    /// Removes the entry at `place`. The last entry fills the gap and moves on to the place `to`.
    #[inline]
    pub(super) fn take_out(&mut self, place: usize, to: usize) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let (entry, value) = self.entries.remove_at(place, to)?;
        Some((entry.priority.into_object(), value))
    }

    /// Returns the place that the entry at `place` will have with a new priority.
    pub(super) fn place_from(
        &self,
        py: Python<'_>,
        place: usize,
        priority: &Priority,
    ) -> PyResult<usize> {
        self.find(py, (priority, NonZeroU32::MAX), place, self.len())
    }

    /// Changes the priority of the entry at `place`, moves the entry to the place `to`, and returns
    /// the old priority.
    pub(super) fn change(&mut self, place: usize, priority: Priority, to: usize) -> Py<PyAny> {
        let old = self.entries.reset_at(place, to, ranked(priority));
        old.priority.into_object()
    }

    /// Empties the heap and returns its content, which the caller drops after releasing the lock.
    pub(super) fn clear(&mut self) -> impl Sized + use<> {
        self.entries.take_all()
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.iter().try_for_each(|(_, priority, value)| {
            visit.call(priority)?;
            visit.call(value)
        })
    }

    /// Returns true if `a` comes before `b`: if its priority comes first, or if the priorities are
    /// equal and `a` has the smaller sequence number. Takes one comparison of priorities.
    #[inline]
    fn is_before(
        &self,
        py: Python<'_>,
        a: (&Priority, NonZeroU32),
        b: (&Priority, NonZeroU32),
    ) -> PyResult<bool> {
        if a.1 < b.1 {
            Ok(!self.precedes(py, b.0, a.0)?)
        } else {
            self.precedes(py, a.0, b.0)
        }
    }

    #[inline]
    fn precedes(&self, py: Python<'_>, a: &Priority, b: &Priority) -> PyResult<bool> {
        if self.reverse {
            b.is_less(py, a)
        } else {
            a.is_less(py, b)
        }
    }

    #[inline]
    fn ranked(&self, place: usize) -> (&Priority, NonZeroU32) {
        let entry = &self.entries.entries()[place];
        (&entry.priority, entry.sequence)
    }

    /// Returns the place that `entry`, inserted at `at`, will have among the first `len` entries.
    #[inline]
    fn find(
        &self,
        py: Python<'_>,
        entry: (&Priority, NonZeroU32),
        at: usize,
        len: usize,
    ) -> PyResult<usize> {
        find_place(ARITY, len, at, |a, b| {
            let a = a.map_or(entry, |place| self.ranked(place));
            self.is_before(py, a, self.ranked(b))
        })
    }
}

#[inline]
fn ranked(priority: Priority) -> impl FnOnce(NonZeroU32, u32) -> Entry {
    |sequence, index| Entry {
        priority,
        sequence,
        index,
    }
}
