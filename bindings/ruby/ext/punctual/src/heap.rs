//! A d-ary heap of Ruby values, in the order of scores, and of equal scores in the order of insertion.
//!
//! Scores with ranks sift by comparing numbers. Other scores are compared by Ruby, which may fail half-way: such an operation
//! first finds the *route* of the entry that moves, which changes nothing, and then sends the entry along.
//!
//! A heap with slots also knows the place of each entry, for removal and rescoring.

use std::cmp::Ordering;

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{Error, Ruby, Value};

use crate::ractor::Shareable;
use crate::score::{self, Kind};

/// An entry of the heap: 32 bytes and its score's and value's references.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The rank of the score, and below it the entry's number: unique, so no two keys are equal.
    key: u128,
    pub(crate) score: Opaque<Value>,
    pub(crate) value: Opaque<Value>,
}

impl Entry {
    #[inline]
    fn order(&self) -> u64 {
        self.key as u64
    }

    #[inline]
    fn slot(&self) -> u32 {
        self.key as u32
    }
}

#[inline]
fn key(rank: i64, order: u64) -> u128 {
    // The highest bit turned makes signed ranks sort as unsigned.
    u128::from(rank as u64 ^ 1 << 63) << 64 | u128::from(order)
}

/// Places through which an entry goes, in this order. A heap of 2^32 entries has at most 33 levels.
pub(crate) struct Route {
    places: [u32; 33],
    len: usize,
}

impl Route {
    const NONE: Route = Route {
        places: [0; 33],
        len: 0,
    };

    fn push(&mut self, place: usize) {
        self.places[self.len] = place as u32;
        self.len += 1;
    }
}

/// The places of entries, by slot.
#[derive(Clone, Default)]
struct Slots {
    places: Vec<u32>,
    free: Vec<u32>,
}

#[derive(Clone)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    d: usize,
    kind: Kind,
    /// Insertions so far.
    orders: u64,
    slots: Option<Slots>,
}

/// Entries that a heap can have.
pub(crate) const MAX_LEN: usize = u32::MAX as usize - 1;
/// Memory of so many entries is kept: up to 64 KiB while entries are popped, up to 1 MiB by `clear`.
const KEEP: usize = 2048;
const KEEP_CLEARED: usize = 32_768;

impl Heap {
    pub(crate) fn new(d: usize, capacity: usize, with_slots: bool) -> Self {
        Heap {
            entries: Vec::with_capacity(capacity),
            d,
            kind: Kind::Integers,
            orders: 0,
            slots: with_slots.then(Slots::default),
        }
    }

    pub(crate) fn d(&self) -> usize {
        self.d
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    pub(crate) fn at(&self, place: usize) -> &Entry {
        &self.entries[place]
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes allocated.
    pub(crate) fn memory(&self) -> usize {
        let slots = self.slots.as_ref().map_or(0, |slots| {
            (slots.places.capacity() + slots.free.capacity()) * size_of::<u32>()
        });
        self.entries.capacity() * size_of::<Entry>() + slots
    }

    /// Returns the place of a slot's entry.
    pub(crate) fn place(&self, slot: u32) -> Option<usize> {
        let place = *self.slots.as_ref()?.places.get(slot as usize)? as usize;
        let entry = self.entries.get(place)?;
        (entry.slot() == slot).then_some(place)
    }

    /// Prepares the heap for `score`, and returns its rank. Ranks may change; the order of entries does not.
    #[inline]
    pub(crate) fn admit(&mut self, ruby: &Ruby, score: Value) -> i64 {
        if self.entries.is_empty() {
            self.kind = Kind::of(score);
        }
        match self.kind.rank(score) {
            Some(rank) => rank,
            None => self.widen(ruby, score),
        }
    }

    #[cold]
    fn widen(&mut self, ruby: &Ruby, score: Value) -> i64 {
        loop {
            self.kind = self.kind.wider();
            let Some(rank) = self.kind.rank(score) else {
                continue;
            };
            let ranks: Option<Vec<i64>> = self
                .entries
                .iter()
                .map(|entry| self.kind.rank(ruby.get_inner(entry.score)))
                .collect();
            let Some(ranks) = ranks else {
                continue;
            };
            for (entry, rank) in self.entries.iter_mut().zip(ranks) {
                entry.key = key(rank, entry.order());
            }
            return rank;
        }
    }

    /// Adds an entry whose score has a rank; returns its slot, if the heap has slots.
    #[inline]
    pub(crate) fn push(&mut self, rank: i64, score: Value, value: Value) -> u32 {
        let (place, entry) = self.append(rank, score, value);
        self.sift_up(place, entry);
        entry.slot()
    }

    /// Adds an entry, given its route.
    pub(crate) fn push_along(&mut self, score: Value, value: Value, route: &Route) -> u32 {
        let (place, entry) = self.append(0, score, value);
        self.send(place, entry, route);
        entry.slot()
    }

    #[inline]
    fn append(&mut self, rank: i64, score: Value, value: Value) -> (usize, Entry) {
        let place = self.entries.len();
        let order = self.next_order(None);
        let entry = Entry {
            key: key(rank, order),
            score: score.into(),
            value: value.into(),
        };
        self.entries.push(entry);
        (place, entry)
    }

    /// Takes out the entry at `place`. Scores have ranks.
    #[inline]
    pub(crate) fn remove(&mut self, place: usize) -> Entry {
        let entry = self.take(place);
        if let Some(&last) = self.entries.get(place) {
            self.sift(place, last);
        }
        self.shrink();
        entry
    }

    /// Takes out the entry at `place`, given the route of the last entry.
    pub(crate) fn remove_along(&mut self, place: usize, route: &Route) -> Entry {
        let entry = self.take(place);
        if let Some(&last) = self.entries.get(place) {
            self.send(place, last, route);
        }
        self.shrink();
        entry
    }

    #[inline]
    fn take(&mut self, place: usize) -> Entry {
        let entry = self.entries.swap_remove(place);
        if let Some(slots) = &mut self.slots {
            slots.places[entry.slot() as usize] = u32::MAX;
            slots.free.push(entry.slot());
        }
        entry
    }

    /// Changes the score of the entry at `place`. Scores have ranks.
    pub(crate) fn rescore(&mut self, place: usize, rank: i64, score: Value) {
        let entry = self.renewed(place, rank, score);
        self.sift(place, entry);
    }

    /// Changes the score of the entry at `place`, given its route.
    pub(crate) fn rescore_along(&mut self, place: usize, score: Value, route: &Route) {
        let entry = self.renewed(place, 0, score);
        self.send(place, entry, route);
    }

    fn renewed(&mut self, place: usize, rank: i64, score: Value) -> Entry {
        let old = self.entries[place];
        let order = self.next_order(Some(old.slot()));
        self.entries[place].key = key(rank, order);
        self.entries[place].score = score.into();
        self.entries[place]
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEEP_CLEARED);
        self.kind = Kind::Integers;
        if let Some(slots) = &mut self.slots {
            *slots = Slots::default();
        }
    }

    /// The number of a new or rescored entry. In a heap with slots its lower half is the slot.
    #[inline]
    fn next_order(&mut self, slot: Option<u32>) -> u64 {
        self.orders += 1;
        let Some(slots) = &mut self.slots else {
            return self.orders;
        };
        let slot = slot.or_else(|| slots.free.pop()).unwrap_or_else(|| {
            slots.places.push(u32::MAX);
            (slots.places.len() - 1) as u32
        });
        if self.orders > u64::from(u32::MAX) {
            self.renumber();
        }
        self.orders << 32 | u64::from(slot)
    }

    /// Numbers the entries of a heap with slots anew, from 1, in the old order.
    #[cold]
    fn renumber(&mut self) {
        let mut places: Vec<usize> = (0..self.entries.len()).collect();
        places.sort_unstable_by_key(|&place| self.entries[place].order());
        for (order, place) in (1_u64..).zip(places) {
            let entry = &mut self.entries[place];
            let rank = entry.key >> 64;
            entry.key = rank << 64 | u128::from(order << 32 | u64::from(entry.slot()));
        }
        self.orders = self.entries.len() as u64 + 1;
    }

    /// Gives memory back when three quarters of it are empty.
    #[inline]
    fn shrink(&mut self) {
        let capacity = self.entries.capacity();
        if capacity > KEEP && self.entries.len() < capacity / 4 {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.entries.shrink_to(self.entries.len() * 2);
        // Slots that are taken stay where they are; those behind the last one can go.
        if let Some(slots) = &mut self.slots
            && self.entries.is_empty()
        {
            *slots = Slots::default();
        }
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        if let Some(slots) = &mut self.slots {
            slots.places[entry.slot() as usize] = place as u32;
        }
    }

    #[inline]
    fn sift(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry.key < self.entries[(place - 1) / self.d].key {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, place: usize, entry: Entry) {
        // Division by a constant is a shift.
        if self.d == 4 {
            self.sift_up_by(4, place, entry);
        } else {
            self.sift_up_by(self.d, place, entry);
        }
    }

    #[inline(always)]
    fn sift_up_by(&mut self, d: usize, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / d;
            if entry.key >= self.entries[parent].key {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    #[inline]
    fn sift_down(&mut self, place: usize, entry: Entry) {
        if self.d == 4 {
            self.sift_down_by(4, place, entry);
        } else {
            self.sift_down_by(self.d, place, entry);
        }
    }

    #[inline(always)]
    fn sift_down_by(&mut self, d: usize, mut place: usize, entry: Entry) {
        loop {
            let first = place * d + 1;
            let children = if let Some(children) = self.entries.get(first..first + d) {
                children
            } else if let Some(children) = self.entries.get(first..)
                && !children.is_empty()
            {
                children
            } else {
                break;
            };
            let (mut least, mut least_key) = (0, children[0].key);
            for (child, entry) in children.iter().enumerate().skip(1) {
                let less = entry.key < least_key;
                least = if less { child } else { least };
                least_key = if less { entry.key } else { least_key };
            }
            if entry.key <= least_key {
                break;
            }
            self.put(place, self.entries[first + least]);
            place = first + least;
        }
        self.put(place, entry);
    }

    fn send(&mut self, mut place: usize, entry: Entry, route: &Route) {
        for &next in &route.places[..route.len] {
            self.put(place, self.entries[next as usize]);
            place = next as usize;
        }
        self.put(place, entry);
    }

    pub(crate) fn mark(&self, marker: &Marker) {
        for entry in &self.entries {
            marker.mark_movable(entry.score);
            marker.mark_movable(entry.value);
        }
    }

    /// Updates moved references. Ranks of objects are constant, and other scores do not move or keep their value.
    pub(crate) fn compact(&mut self, compactor: &Compactor) {
        for entry in &mut self.entries {
            entry.score = compactor.location(entry.score);
            entry.value = compactor.location(entry.value);
        }
    }
}

/// Finds routes. Each comparison runs Ruby code, and the heap does not change meanwhile.
pub(crate) struct Router<'a> {
    pub(crate) ruby: &'a Ruby,
    pub(crate) heap: &'a Shareable<Heap>,
}

impl Router<'_> {
    fn entry(&self, place: usize) -> (Value, u64) {
        self.heap.look(|heap| {
            let entry = heap.at(place);
            (self.ruby.get_inner(entry.score), entry.order())
        })
    }

    fn is_before(&self, a: (Value, u64), b: (Value, u64)) -> Result<bool, Error> {
        Ok(match score::compare(self.ruby, a.0, b.0)? {
            Ordering::Less => true,
            Ordering::Equal => a.1 < b.1,
            Ordering::Greater => false,
        })
    }

    /// The route of a new entry.
    pub(crate) fn route_in(&self, score: Value) -> Result<Route, Error> {
        let len = self.heap.look(Heap::len);
        self.up((score, u64::MAX), len)
    }

    /// The route of the last entry, when the one at `place` goes.
    pub(crate) fn route_out(&self, place: usize) -> Result<Route, Error> {
        let last = self.heap.look(Heap::len) - 1;
        if place == last {
            return Ok(Route::NONE);
        }
        self.route(self.entry(last), place, last)
    }

    /// The route of the entry at `place`, when it gets another score.
    pub(crate) fn route_from(&self, place: usize, score: Value) -> Result<Route, Error> {
        let len = self.heap.look(Heap::len);
        self.route((score, u64::MAX), place, len)
    }

    fn route(&self, entry: (Value, u64), hole: usize, len: usize) -> Result<Route, Error> {
        let up = self.up(entry, hole)?;
        if up.len > 0 {
            Ok(up)
        } else {
            self.down(entry, hole, len)
        }
    }

    fn up(&self, entry: (Value, u64), hole: usize) -> Result<Route, Error> {
        let d = self.heap.look(Heap::d);
        let mut route = Route::NONE;
        let mut place = hole;
        while place > 0 {
            place = (place - 1) / d;
            if !self.is_before(entry, self.entry(place))? {
                break;
            }
            route.push(place);
        }
        Ok(route)
    }

    /// Down to the bottom by the least children, and back up to where the entry belongs: fewer comparisons than comparing
    /// the entry on every level (Wegener, 1993).
    fn down(&self, entry: (Value, u64), hole: usize, len: usize) -> Result<Route, Error> {
        let d = self.heap.look(Heap::d);
        let mut route = Route::NONE;
        let mut place = hole;
        loop {
            let first = place * d + 1;
            if first >= len {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + d).min(len) {
                if self.is_before(self.entry(child), self.entry(least))? {
                    least = child;
                }
            }
            route.push(least);
            place = least;
        }
        while route.len > 0
            && self.is_before(entry, self.entry(route.places[route.len - 1] as usize))?
        {
            route.len -= 1;
        }
        Ok(route)
    }
}
