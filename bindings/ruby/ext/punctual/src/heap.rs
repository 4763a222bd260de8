//! A d-ary heap of Ruby values, in the order of scores, and of equal scores in the order of
//! insertion.
//!
//! - A *key* is one number of 128 bits: the rank of the score (see `score`), the entry's *order* (a
//!   number that grows with each insertion or change of a score), and its slot. Keys of numeric
//!   scores are compared as numbers and lie in one array, so an operation follows no pointer and
//!   calls no Ruby code. With four children, the children of an entry fill one cache line (`keys`).
//! - A *slot* has the value and the score. An entry keeps its slot while its key moves in the heap,
//!   so an operation reads one slot only.
//! - A *place* is an index into the array of keys. A *tracked* heap stores the place of each slot,
//!   so that an entry can be removed or get another score.
//! - Scores that are not numbers are compared by Ruby code, which may raise. So such an operation
//!   has two steps: it finds the new place of the entry that moves, without a change of the heap;
//!   then it moves the entry to that place.

use std::cmp::Ordering;

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{Error, Ruby, Value};
use punctual::queue::placed::{find_place, prefetch, relocate};

use crate::keys::{self, Key, Keys};
use crate::ractor::Shareable;
use crate::score::{self, Kind};

/// The value and the score of an entry. Both are nil in a free slot.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) score: Opaque<Value>,
    pub(crate) value: Opaque<Value>,
}

#[derive(Clone)]
pub(crate) struct Heap {
    keys: Keys,
    /// The entries, indexed by slot.
    slots: Vec<Entry>,
    /// The places of the entries of a tracked heap, indexed by slot.
    places: Option<Vec<u32>>,
    d: usize,
    kind: Kind,
    /// Number of insertions and changes of scores since the last `renumber`; entries get their
    /// order from it.
    orders: u32,
}

/// Maximum number of entries.
pub(crate) const MAX_LEN: usize = u32::MAX as usize - 1;

impl Heap {
    pub(crate) fn new(d: usize, capacity: usize, tracked: bool) -> Self {
        Heap {
            keys: Keys::with_capacity(capacity),
            slots: Vec::with_capacity(capacity),
            places: tracked.then(Vec::new),
            d,
            kind: Kind::Integers,
            orders: 0,
        }
    }

    pub(crate) fn d(&self) -> usize {
        self.d
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(crate) fn is_numeric(&self) -> bool {
        self.kind != Kind::Objects
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Entry> {
        let key = self.keys.as_slice().first()?;
        self.slots.get(key.slot() as usize)
    }

    pub(crate) fn at(&self, place: usize) -> &Entry {
        &self.slots[self.keys.as_slice()[place].slot() as usize]
    }

    /// Returns the entries in the order of their places.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.keys
            .as_slice()
            .iter()
            .map(|key| &self.slots[key.slot() as usize])
    }

    /// Returns the allocated memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let places = self.places.as_ref().map_or(0, Vec::capacity);
        self.keys.capacity() * size_of::<Key>()
            + self.slots.capacity() * size_of::<Entry>()
            + places * size_of::<u32>()
    }

    /// Returns the place of a slot's entry in a tracked heap.
    pub(crate) fn place(&self, slot: u32) -> Option<usize> {
        let place = *self.places.as_ref()?.get(slot as usize)? as usize;
        let key = self.keys.as_slice().get(place)?;
        (key.slot() == slot).then_some(place)
    }

    /// Returns the rank of a number. Returns `None` if the score needs `admit`: it is NaN, no
    /// number, or of another kind than the scores in the heap.
    #[inline]
    pub(crate) fn rank(&mut self, score: Value) -> Option<i64> {
        if self.keys.is_empty() {
            self.kind = Kind::of(score);
        }
        if self.is_numeric() {
            self.kind.rank(score)
        } else {
            None
        }
    }

    /// Prepares the heap for a new score, and returns the score's rank. May give the entries other
    /// ranks, in the same order.
    #[cold]
    pub(crate) fn admit(&mut self, ruby: &Ruby, score: Value) -> i64 {
        if self.keys.is_empty() {
            self.kind = Kind::of(score);
        }
        if let Some(rank) = self.kind.rank(score) {
            return rank;
        }
        loop {
            self.kind = self.kind.wider();
            let Some(rank) = self.kind.rank(score) else {
                continue;
            };
            let ranks: Option<Vec<i64>> = self
                .entries()
                .map(|entry| self.kind.rank(ruby.get_inner(entry.score)))
                .collect();
            let Some(ranks) = ranks else {
                continue;
            };
            for (key, rank) in self.keys.as_mut_slice().iter_mut().zip(ranks) {
                *key = Key::new(rank, key.order(), key.slot());
            }
            return rank;
        }
    }

    /// Adds an entry with a numeric score. Returns its slot. O(log n).
    #[inline(always)]
    pub(crate) fn push(&mut self, rank: i64, score: Value, value: Value) -> u32 {
        let key = self.append(rank, score, value);
        self.rise(self.keys.len() - 1, key);
        key.slot()
    }

    /// Adds an entry at the place `to`. Returns its slot. O(log n).
    pub(crate) fn push_at(&mut self, rank: i64, score: Value, value: Value, to: usize) -> u32 {
        let key = self.append(rank, score, value);
        self.relocate(self.keys.len() - 1, to);
        key.slot()
    }

    #[inline(always)]
    fn append(&mut self, rank: i64, score: Value, value: Value) -> Key {
        let entry = Entry {
            score: score.into(),
            value: value.into(),
        };
        let order = self.next_order();
        let key = self.keys.push(rank, order);
        if let Some(slot) = self.slots.get_mut(key.slot() as usize) {
            *slot = entry;
        } else {
            self.slots.push(entry);
            if let Some(places) = &mut self.places {
                places.push(u32::MAX);
            }
        }
        key
    }

    /// Removes the entry at `place`, in a heap of numeric scores. O(log n).
    #[inline]
    pub(crate) fn remove(&mut self, place: usize, nil: Value) -> Entry {
        let (entry, last) = self.take(place, nil);
        if let Some(last) = last {
            self.settle(place, last);
        }
        self.shrink();
        // The next pop reads the slot of the new first entry.
        if let Some(first) = self.first() {
            prefetch(first);
        }
        entry
    }

    /// Removes the entry at `place`. The last entry fills the gap and moves on to the place `to`.
    pub(crate) fn remove_at(&mut self, place: usize, to: usize, nil: Value) -> Entry {
        let (entry, last) = self.take(place, nil);
        if let Some(last) = last {
            self.keys.as_mut_slice()[place] = last;
            self.relocate(place, to);
        }
        self.shrink();
        entry
    }

    /// Frees the slot of the entry at `place`, and takes the last key from the array. Returns the
    /// entry, and the key unless it was the one at `place`.
    #[inline]
    fn take(&mut self, place: usize, nil: Value) -> (Entry, Option<Key>) {
        let slot = self.keys.as_slice()[place].slot();
        let nil = nil.into();
        let free = Entry {
            score: nil,
            value: nil,
        };
        let entry = std::mem::replace(&mut self.slots[slot as usize], free);
        if let Some(places) = &mut self.places {
            places[slot as usize] = u32::MAX;
        }
        let last = self.keys.pop(slot);
        (entry, (place < self.keys.len()).then_some(last))
    }

    /// Changes the score of the entry at `place`, in a heap of numeric scores. O(log n).
    pub(crate) fn rescore(&mut self, place: usize, rank: i64, score: Value) {
        let key = self.with_score(place, rank, score);
        self.settle(place, key);
    }

    /// Changes the score of the entry at `place`, which moves to the place `to`. O(log n).
    pub(crate) fn rescore_at(&mut self, place: usize, rank: i64, score: Value, to: usize) {
        let key = self.with_score(place, rank, score);
        self.keys.as_mut_slice()[place] = key;
        self.relocate(place, to);
    }

    fn with_score(&mut self, place: usize, rank: i64, score: Value) -> Key {
        let order = self.next_order();
        let slot = self.keys.as_slice()[place].slot();
        self.slots[slot as usize].score = score.into();
        Key::new(rank, order, slot)
    }

    pub(crate) fn clear(&mut self) {
        let keep = self.keys.clear();
        self.slots.clear();
        self.slots.shrink_to(keep);
        if let Some(places) = &mut self.places {
            *places = Vec::new();
        }
        self.kind = Kind::Integers;
        self.orders = 0;
    }

    /// Returns the order of a new entry, or of an entry that gets another score.
    #[inline]
    fn next_order(&mut self) -> u32 {
        if self.orders == u32::MAX {
            self.renumber();
        }
        self.orders += 1;
        self.orders
    }

    /// Renumbers the entries from 1, in the same order.
    #[cold]
    fn renumber(&mut self) {
        let mut places: Vec<usize> = (0..self.len()).collect();
        let keys = self.keys.as_mut_slice();
        places.sort_unstable_by_key(|&place| keys[place].order());
        for (order, place) in (1_u32..).zip(places) {
            keys[place] = keys[place].with_order(order);
        }
        self.orders = keys.len() as u32;
    }

    /// Releases memory when more than three quarters of it are unused.
    #[inline]
    fn shrink(&mut self) {
        if self.keys.wastes_memory() {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        if let Some(places) = &mut self.places {
            // The caller of a tracked heap knows the slots, so slots in use cannot move.
            if !self.keys.is_empty() {
                return;
            }
            *places = Vec::new();
        }
        let mut slots = Vec::with_capacity(self.keys.len() * 2);
        let old = &self.slots;
        self.keys.compact(|slot| slots.push(old[slot as usize]));
        self.slots = slots;
    }

    /// Moves the key at `from` to `to`.
    fn relocate(&mut self, from: usize, to: usize) {
        let places = &mut self.places;
        relocate(self.keys.as_mut_slice(), self.d, from, to, |key, place| {
            if let Some(places) = places {
                places[key.slot() as usize] = place as u32;
            }
        });
    }

    /// Puts a key at `hole` or above it.
    #[inline(always)]
    fn rise(&mut self, hole: usize, key: Key) {
        let keys = self.keys.as_mut_slice();
        match (&mut self.places, self.d) {
            (None, 4) => keys::rise(keys, 4, 0, hole, key, |_, _| ()),
            (None, d) => keys::rise(keys, d, 0, hole, key, |_, _| ()),
            (Some(places), d) => keys::rise(keys, d, 0, hole, key, |key, place| {
                places[key.slot() as usize] = place as u32;
            }),
        }
    }

    /// Puts a key at `hole`, above it or below it.
    #[inline(always)]
    fn settle(&mut self, hole: usize, key: Key) {
        let keys = self.keys.as_mut_slice();
        match (&mut self.places, self.d) {
            (None, 4) => keys::settle_4(keys, hole, key, |_, _| ()),
            (None, d) => keys::settle(keys, d, hole, key, |_, _| ()),
            (Some(places), 4) => keys::settle_4(keys, hole, key, |key, place| {
                places[key.slot() as usize] = place as u32;
            }),
            (Some(places), d) => keys::settle(keys, d, hole, key, |key, place| {
                places[key.slot() as usize] = place as u32;
            }),
        }
    }

    pub(crate) fn mark(&self, marker: &Marker) {
        for entry in &self.slots {
            marker.mark_movable(entry.score);
            marker.mark_movable(entry.value);
        }
    }

    /// Updates references to moved objects. Keys stay: a moved score has the same rank.
    pub(crate) fn compact(&mut self, compactor: &Compactor) {
        for entry in &mut self.slots {
            entry.score = compactor.location(entry.score);
            entry.value = compactor.location(entry.value);
        }
    }
}

/// Finds the places of entries whose scores are objects. Comparisons run Ruby code, and the heap
/// does not change meanwhile.
pub(crate) struct Finder<'a> {
    pub(crate) ruby: &'a Ruby,
    pub(crate) heap: &'a Shareable<Heap>,
}

/// The order and the score of an entry.
type Ranked = (u32, Value);

impl Finder<'_> {
    fn entry(&self, place: usize) -> Ranked {
        self.heap.look(|heap| {
            let score = self.ruby.get_inner(heap.at(place).score);
            (heap.keys.as_slice()[place].order(), score)
        })
    }

    fn is_before(&self, a: Ranked, b: Ranked) -> Result<bool, Error> {
        Ok(match score::compare(self.ruby, a.1, b.1)? {
            Ordering::Less => true,
            Ordering::Equal => a.0 < b.0,
            Ordering::Greater => false,
        })
    }

    /// Returns the place that a new entry will have.
    pub(crate) fn place_in(&self, score: Value) -> Result<usize, Error> {
        let len = self.heap.look(Heap::len);
        self.find((u32::MAX, score), len, len)
    }

    /// Returns the place that the last entry will have after the removal of the entry at `place`.
    pub(crate) fn place_out(&self, place: usize) -> Result<usize, Error> {
        let last = self.heap.look(Heap::len) - 1;
        if place == last {
            return Ok(place);
        }
        self.find(self.entry(last), place, last)
    }

    /// Returns the place that the entry at `place` will have with another score.
    pub(crate) fn place_from(&self, place: usize, score: Value) -> Result<usize, Error> {
        let len = self.heap.look(Heap::len);
        self.find((u32::MAX, score), place, len)
    }

    /// Returns the place that `entry`, inserted at `at`, will have among the first `len` entries.
    fn find(&self, entry: Ranked, at: usize, len: usize) -> Result<usize, Error> {
        let d = self.heap.look(Heap::d);
        find_place(d, len, at, |a, b| {
            let a = a.map_or(entry, |place| self.entry(place));
            self.is_before(a, self.entry(b))
        })
    }
}
