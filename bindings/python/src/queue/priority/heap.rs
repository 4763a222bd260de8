//! A binary heap with comparisons that may fail.
//!
//! The engine's heaps compare while they sift, which must not fail half-way. Here an operation first computes the
//! *route* of an entry, which compares and changes nothing, and then moves the entry along it, which cannot fail. A
//! route down follows the lesser children to the bottom and goes back up to the entry's place (Wegener, 1993, after
//! Floyd): about log2 n comparisons instead of twice as many, which dominate when Python compares.

use std::mem::take;

use punctual::TimerKey;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::rank::Priority;

/// No slot: the end of the free list.
const NONE: u32 = u32::MAX;
/// An empty heap with more slots than this releases its memory.
const KEEP_SLOTS: usize = 1024;

/// An entry of the heap.
struct Entry {
    priority: Priority,
    /// Tie-breaker between entries of equal priorities.
    order: u64,
    slot: u32,
}

/// A key's value and the place of its entry.
struct Slot {
    /// Generation of the entry; a key with another one is stale.
    generation: u32,
    /// The entry's place in the heap, or the next free slot if this one is free.
    place: u32,
    value: Option<Py<PyAny>>,
}

/// The places through which an entry moves, starting next to its own.
pub(super) struct Route {
    places: [u32; 32],
    len: usize,
}

pub(super) struct Heap {
    /// Greatest priority first.
    reverse: bool,
    entries: Vec<Entry>,
    slots: Vec<Slot>,
    free: u32,
    /// First generation of new slots: higher than those of all released slots.
    generation: u32,
    /// Number of orders assigned so far, including those of changed entries.
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

    /// Returns the bytes of all allocations.
    pub(super) fn allocated(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.slots.capacity() * size_of::<Slot>()
    }

    /// Returns the place of a key's entry.
    #[inline]
    pub(super) fn place(&self, key: TimerKey) -> Option<usize> {
        let slot = self.slots.get(key.index() as usize)?;
        (slot.value.is_some() && slot.generation == key.generation()).then_some(slot.place as usize)
    }

    /// Returns the priority and the value of the entry at a place.
    pub(super) fn at(&self, py: Python<'_>, place: usize) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let entry = self.entries.get(place)?;
        let value = self.slots[entry.slot as usize].value.as_ref()?;
        Some((entry.priority.object().clone_ref(py), value.clone_ref(py)))
    }

    /// Iterates over the keys in no particular order.
    pub(super) fn keys(&self) -> impl Iterator<Item = TimerKey> {
        self.entries.iter().map(|entry| self.key(entry.slot))
    }

    /// Iterates over keys, priorities and values in no particular order.
    pub(super) fn all(
        &self,
        py: Python<'_>,
    ) -> impl Iterator<Item = (TimerKey, Py<PyAny>, Py<PyAny>)> {
        (0..self.len()).filter_map(move |place| {
            let (priority, value) = self.at(py, place)?;
            Some((self.key(self.entries[place].slot), priority, value))
        })
    }

    /// Computes the route of a new entry.
    #[inline]
    pub(super) fn route_in(&self, py: Python<'_>, priority: &Priority) -> PyResult<Route> {
        self.route_up(py, (priority, self.orders), self.len())
    }

    /// Adds an entry along its route.
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

    /// Computes the route of the last entry into the hole that the removal of the one at `place` leaves.
    #[inline]
    pub(super) fn route_out(&self, py: Python<'_>, place: usize) -> PyResult<Route> {
        let len = self.len() - 1;
        if place == len {
            return Ok(Route::NONE);
        }
        let last = &self.entries[len];
        self.route(py, (&last.priority, last.order), place, len)
    }

    /// Removes the entry at `place`; `route` is that of the last entry.
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

    /// Computes the route of the entry at `place` with a new priority.
    pub(super) fn route_from(
        &self,
        py: Python<'_>,
        place: usize,
        priority: &Priority,
    ) -> PyResult<Route> {
        self.route(py, (priority, self.orders), place, self.len())
    }

    /// Changes the priority of the entry at `place` and moves it along its route. Returns the old priority.
    pub(super) fn change(&mut self, place: usize, priority: Priority, route: &Route) -> Py<PyAny> {
        let order = self.next_order();
        let entry = &mut self.entries[place];
        entry.order = order;
        let old = std::mem::replace(&mut entry.priority, priority);
        self.send(place, route);
        old.into_object()
    }

    /// Empties the heap. The caller drops the result after releasing the lock.
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

    /// Makes a slot's key stale and removes its value.
    #[inline]
    fn vacate(&mut self, slot: u32) -> Option<Py<PyAny>> {
        let tenant = &mut self.slots[slot as usize];
        let value = tenant.value.take();
        // A slot is retired after its last generation: 24 bytes per four billion entries.
        if let Some(next) = tenant.generation.checked_add(1) {
            tenant.generation = next;
            tenant.place = self.free;
            self.free = slot;
        }
        value
    }

    /// Releases the slots of an empty heap, and records their highest generation.
    #[cold]
    fn give_back(&mut self) {
        let highest = self.slots.iter().map(|slot| slot.generation).max();
        // Retired slots stay.
        if let Some(highest) = highest.filter(|&highest| highest < u32::MAX) {
            self.generation = highest;
            self.slots = Vec::new();
            self.entries = Vec::new();
            self.free = NONE;
        }
    }

    /// Returns true if `a` precedes `b`. Equal entries keep their order, so only a lesser younger one precedes.
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

    /// Computes the route of an entry from a hole among the first `len` places.
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

    /// Moves the entry at `place` along its route; each entry that it passes moves one step the other way.
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

    /// Called at most 32 times per route: a heap of 2^32 entries has no more levels.
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
