//! A binary heap whose comparisons may fail.
//!
//! The engine's heaps compare while they sift, which cannot fail half-way. Here an operation first finds the *route* that
//! an entry will take, which compares and changes nothing, and then sends it there, which cannot fail. A route down goes
//! to the bottom by the lesser children and then back up to where the entry belongs (Wegener, 1993, after Floyd): about
//! log2 n comparisons instead of twice as many, which is what costs when Python compares.

use std::mem::take;

use punctual::TimerKey;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::rank::Priority;

/// "No slot": the end of the list of free ones.
const NONE: u32 = u32::MAX;
/// An empty heap with more slots gives its memory back.
const KEEP_SLOTS: usize = 1024;

/// What is in the heap.
struct Entry {
    priority: Priority,
    /// Entries of equal priorities sort by it.
    order: u64,
    slot: u32,
}

/// Where the heap's entry for a key is, and its value.
struct Slot {
    /// The tenant's number; a key with another is stale.
    generation: u32,
    /// The entry's place in the heap; of a free slot, the next free one.
    place: u32,
    value: Option<Py<PyAny>>,
}

/// The places through which an entry goes, from where it is.
pub(super) struct Route {
    places: [u32; 32],
    len: usize,
}

pub(super) struct Heap {
    /// Greatest first.
    reverse: bool,
    entries: Vec<Entry>,
    slots: Vec<Slot>,
    free: u32,
    /// New slots begin with it: higher than all that were given up.
    generation: u32,
    /// Entries so far, changed ones included.
    orders: u64,
}

impl Heap {
    pub(super) fn new(reverse: bool) -> Self {
        Heap {
            reverse,
            entries: Vec::new(),
            slots: Vec::new(),
            free: NONE,
            generation: 1,
            orders: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes in allocations.
    pub(super) fn allocated(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.slots.capacity() * size_of::<Slot>()
    }

    /// The place of the entry that a key stands for.
    #[inline]
    pub(super) fn place(&self, key: TimerKey) -> Option<usize> {
        let slot = self.slots.get(key.index() as usize)?;
        (slot.value.is_some() && slot.generation == key.generation()).then_some(slot.place as usize)
    }

    /// The priority and the value of the entry at a place.
    pub(super) fn at(&self, py: Python<'_>, place: usize) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let entry = self.entries.get(place)?;
        let value = self.slots[entry.slot as usize].value.as_ref()?;
        Some((entry.priority.object().clone_ref(py), value.clone_ref(py)))
    }

    /// The keys, in no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = TimerKey> {
        self.entries.iter().map(|entry| self.key(entry.slot))
    }

    /// Keys, priorities and values, in no order.
    pub(super) fn all(
        &self,
        py: Python<'_>,
    ) -> impl Iterator<Item = (TimerKey, Py<PyAny>, Py<PyAny>)> {
        (0..self.len()).filter_map(move |place| {
            let (priority, value) = self.at(py, place)?;
            Some((self.key(self.entries[place].slot), priority, value))
        })
    }

    /// The route of a new entry.
    #[inline]
    pub(super) fn route_in(&self, py: Python<'_>, priority: &Priority) -> PyResult<Route> {
        self.route_up(py, (priority, self.orders), self.len())
    }

    /// Adds an entry, given its route.
    ///
    /// # Panics
    /// If there are 2^32 - 1 entries already.
    #[inline]
    pub(super) fn push(&mut self, priority: Priority, value: Py<PyAny>, route: &Route) -> TimerKey {
        let slot = if self.free == NONE {
            assert!(
                self.slots.len() < NONE as usize,
                "a PriorityQueue holds at most 2^32 - 1 entries"
            );
            self.slots.push(Slot {
                generation: self.generation,
                place: 0,
                value: None,
            });
            (self.slots.len() - 1) as u32
        } else {
            self.free
        };
        let tenant = &mut self.slots[slot as usize];
        if self.free != NONE {
            self.free = tenant.place;
        }
        tenant.value = Some(value);
        let order = self.next_order();
        self.entries.push(Entry {
            priority,
            order,
            slot,
        });
        self.send(self.len() - 1, route);
        self.key(slot)
    }

    /// The route of the last entry, when the one at `place` goes and leaves a hole.
    #[inline]
    pub(super) fn route_out(&self, py: Python<'_>, place: usize) -> PyResult<Route> {
        let len = self.len() - 1;
        if place == len {
            return Ok(Route::NONE);
        }
        let last = &self.entries[len];
        self.route(py, (&last.priority, last.order), place, len)
    }

    /// Takes out the entry at `place`, given the route of the last one.
    #[inline]
    pub(super) fn take_out(
        &mut self,
        place: usize,
        route: &Route,
    ) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let entry = self.entries.swap_remove(place);
        if place < self.len() {
            self.send(place, route);
        }
        let value = self.vacate(entry.slot)?;
        if self.entries.is_empty() && self.slots.len() > KEEP_SLOTS {
            self.give_back();
        }
        Some((entry.priority.into_object(), value))
    }

    /// The route of the entry at `place`, if its priority changes.
    pub(super) fn route_from(
        &self,
        py: Python<'_>,
        place: usize,
        priority: &Priority,
    ) -> PyResult<Route> {
        self.route(py, (priority, self.orders), place, self.len())
    }

    /// Changes the priority of the entry at `place`, given its route; the old one.
    pub(super) fn change(&mut self, place: usize, priority: Priority, route: &Route) -> Py<PyAny> {
        let order = self.next_order();
        let entry = &mut self.entries[place];
        entry.order = order;
        let old = std::mem::replace(&mut entry.priority, priority);
        self.send(place, route);
        old.into_object()
    }

    /// Empties the heap. What was in it is dropped by the caller, after the lock.
    pub(super) fn clear(&mut self) -> impl Sized + use<> {
        let entries = take(&mut self.entries);
        let values: Vec<_> = entries
            .iter()
            .map(|entry| self.vacate(entry.slot))
            .collect();
        if self.slots.len() > KEEP_SLOTS {
            self.give_back();
        }
        (
            entries
                .into_iter()
                .map(|entry| entry.priority)
                .collect::<Vec<_>>(),
            values,
        )
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for entry in &self.entries {
            visit.call(entry.priority.object())?;
            visit.call(&self.slots[entry.slot as usize].value)?;
        }
        Ok(())
    }

    #[inline]
    fn key(&self, slot: u32) -> TimerKey {
        TimerKey::new(slot, self.slots[slot as usize].generation)
    }

    #[inline]
    fn next_order(&mut self) -> u64 {
        let order = self.orders;
        self.orders += 1;
        order
    }

    /// Makes a slot's key stale and takes its value.
    #[inline]
    fn vacate(&mut self, slot: u32) -> Option<Py<PyAny>> {
        let tenant = &mut self.slots[slot as usize];
        let value = tenant.value.take();
        // After its last generation a slot is not used again: 24 bytes in four billion entries.
        if let Some(next) = tenant.generation.checked_add(1) {
            tenant.generation = next;
            tenant.place = self.free;
            self.free = slot;
        }
        value
    }

    /// Gives the slots of an empty heap back, but remembers which keys they gave.
    #[cold]
    fn give_back(&mut self) {
        let highest = self.slots.iter().map(|slot| slot.generation).max();
        // Slots that have been used up stay as they are.
        if let Some(highest) = highest.filter(|&highest| highest < u32::MAX) {
            self.generation = highest;
            self.slots = Vec::new();
            self.entries = Vec::new();
            self.free = NONE;
        }
    }

    /// Whether `a` goes before `b`. Of equal ones the older does, so it is the younger that must be less.
    #[inline]
    fn is_before(
        &self,
        py: Python<'_>,
        a: (&Priority, u64),
        b: (&Priority, u64),
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
    fn ranked(&self, place: usize) -> (&Priority, u64) {
        let entry = &self.entries[place];
        (&entry.priority, entry.order)
    }

    /// The route of an entry from a hole among the first `len` places.
    fn route(
        &self,
        py: Python<'_>,
        entry: (&Priority, u64),
        hole: usize,
        len: usize,
    ) -> PyResult<Route> {
        let up = self.route_up(py, entry, hole)?;
        if up.len > 0 {
            Ok(up)
        } else {
            self.route_down(py, entry, hole, len)
        }
    }

    #[inline]
    fn route_up(&self, py: Python<'_>, entry: (&Priority, u64), hole: usize) -> PyResult<Route> {
        let mut route = Route::NONE;
        let mut place = hole;
        while place > 0 {
            place = (place - 1) / 2;
            if !self.is_before(py, entry, self.ranked(place))? {
                break;
            }
            route.push(place);
        }
        Ok(route)
    }

    #[inline]
    fn route_down(
        &self,
        py: Python<'_>,
        entry: (&Priority, u64),
        hole: usize,
        len: usize,
    ) -> PyResult<Route> {
        let mut route = Route::NONE;
        let mut place = hole;
        loop {
            let left = 2 * place + 1;
            if left >= len {
                break;
            }
            let right = left + 1;
            let right_first =
                right < len && self.is_before(py, self.ranked(right), self.ranked(left))?;
            place = if right_first { right } else { left };
            route.push(place);
        }
        while let Some(last) = route.last()
            && self.is_before(py, entry, self.ranked(last))?
        {
            route.len -= 1;
        }
        Ok(route)
    }

    /// Sends the entry at `place` on its route; those it passes take a step the other way.
    #[inline]
    fn send(&mut self, mut place: usize, route: &Route) {
        for &next in &route.places[..route.len] {
            self.entries.swap(place, next as usize);
            self.slots[self.entries[place].slot as usize].place = place as u32;
            place = next as usize;
        }
        self.slots[self.entries[place].slot as usize].place = place as u32;
    }
}

impl Route {
    const NONE: Route = Route {
        places: [0; 32],
        len: 0,
    };

    /// At most 32 times: a heap of 2^32 entries has no more levels.
    #[inline]
    fn push(&mut self, place: usize) {
        self.places[self.len] = place as u32;
        self.len += 1;
    }

    #[inline]
    fn last(&self) -> Option<usize> {
        self.places[..self.len].last().map(|&place| place as usize)
    }
}
