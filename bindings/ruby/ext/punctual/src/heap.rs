//! A d-ary heap of Ruby values, in the order of scores, and of equal scores in the order of
//! insertion.
//!
//! A *rank* is a number that sorts like the score (see `score`). Scores with ranks are compared as
//! numbers. Other scores are compared by Ruby code, which may raise. So an operation has two steps:
//! it finds the new place of the entry that moves, without a change of the heap; then it moves the
//! entry to that place.
//!
//! A *place* is an index into the heap's array. A heap with *slots* numbers its entries and stores
//! the place of each one, so that an entry can be removed or get another score.

use std::cmp::Ordering;

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{Error, Ruby, Value};
use punctual::queue::placed::{find_place, relocate};

use crate::ractor::Shareable;
use crate::score::{self, Kind};

/// An entry of the heap.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Upper half: the rank of the score. Lower half: the entry's order, a number that no other
    /// entry has, so no two keys are equal.
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
    // With its highest bit inverted, a signed rank sorts as an unsigned number.
    u128::from(rank as u64 ^ 1 << 63) << 64 | u128::from(order)
}

/// The places of entries, indexed by slot, and the free slots.
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
    /// Number of insertions and changes of scores, from which the entries get their order.
    orders: u64,
    slots: Option<Slots>,
}

/// Maximum number of entries.
pub(crate) const MAX_LEN: usize = u32::MAX as usize - 1;
/// The heap keeps the memory of up to [`KEEP`] entries while entries are popped, and of up to
/// [`KEEP_CLEARED`] entries in `clear`.
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

    /// Returns the allocated memory in bytes.
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

    /// Prepares the heap for a new score, and returns the score's rank. May give the entries other
    /// ranks, in the same order.
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

    /// Changes the kind of scores until every score, including the new one, has a rank.
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

    /// Adds an entry at the place `to`. Returns its slot; the result means nothing in a heap
    /// without slots.
    #[inline]
    pub(crate) fn push(&mut self, rank: i64, score: Value, value: Value, to: usize) -> u32 {
        let order = self.next_order(None);
        let entry = Entry {
            key: key(rank, order),
            score: score.into(),
            value: value.into(),
        };
        self.entries.push(entry);
        self.relocate(self.len() - 1, to);
        entry.slot()
    }

    /// Removes the entry at `place`. The last entry fills the gap and moves on to the place `to`.
    #[inline]
    pub(crate) fn remove(&mut self, place: usize, to: usize) -> Entry {
        let entry = self.take(place);
        if place < self.len() {
            self.relocate(place, to);
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

    /// Changes the score of the entry at `place`, which moves to the place `to`.
    pub(crate) fn rescore(&mut self, place: usize, rank: i64, score: Value, to: usize) {
        let order = self.next_order(Some(self.entries[place].slot()));
        self.entries[place].key = key(rank, order);
        self.entries[place].score = score.into();
        self.relocate(place, to);
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEEP_CLEARED);
        self.kind = Kind::Integers;
        if let Some(slots) = &mut self.slots {
            *slots = Slots::default();
        }
    }

    /// Returns the order of a new entry, or of an entry that gets another score. In a heap with
    /// slots its lower half is the slot.
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

    /// Renumbers the entries of a heap with slots from 1, in the same order.
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

    /// Releases memory when more than three quarters of it are unused.
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
        // Slots in use cannot move, so the slots are released only when all entries are gone.
        if let Some(slots) = &mut self.slots
            && self.entries.is_empty()
        {
            *slots = Slots::default();
        }
    }

    /// Moves the entry at `from` to `to`.
    #[inline]
    fn relocate(&mut self, from: usize, to: usize) {
        let slots = &mut self.slots;
        relocate(&mut self.entries, self.d, from, to, |entry, place| {
            if let Some(slots) = slots {
                slots.places[entry.slot() as usize] = place as u32;
            }
        });
    }

    pub(crate) fn mark(&self, marker: &Marker) {
        for entry in &self.entries {
            marker.mark_movable(entry.score);
            marker.mark_movable(entry.value);
        }
    }

    /// Updates references to moved objects. Keys stay: a moved score has the same rank.
    pub(crate) fn compact(&mut self, compactor: &Compactor) {
        for entry in &mut self.entries {
            entry.score = compactor.location(entry.score);
            entry.value = compactor.location(entry.value);
        }
    }
}

/// Finds the places of entries that move. Comparisons may run Ruby code, and the heap does not
/// change meanwhile.
pub(crate) struct Finder<'a> {
    pub(crate) ruby: &'a Ruby,
    pub(crate) heap: &'a Shareable<Heap>,
}

/// The key and the score of an entry.
type Ranked = (u128, Value);

impl Finder<'_> {
    #[inline]
    fn entry(&self, place: usize) -> Ranked {
        self.heap.look(|heap| {
            let entry = heap.at(place);
            (entry.key, self.ruby.get_inner(entry.score))
        })
    }

    #[inline]
    fn is_before(&self, a: Ranked, b: Ranked) -> Result<bool, Error> {
        if self.heap.look(Heap::kind) != Kind::Objects {
            return Ok(a.0 < b.0);
        }
        Ok(match score::compare(self.ruby, a.1, b.1)? {
            Ordering::Less => true,
            Ordering::Equal => a.0 < b.0,
            Ordering::Greater => false,
        })
    }

    /// Returns the place that a new entry will have.
    #[inline]
    pub(crate) fn place_in(&self, rank: i64, score: Value) -> Result<usize, Error> {
        let len = self.heap.look(Heap::len);
        self.find((key(rank, u64::MAX), score), len, len)
    }

    /// Returns the place that the last entry will have after the removal of the entry at `place`.
    #[inline]
    pub(crate) fn place_out(&self, place: usize) -> Result<usize, Error> {
        let last = self.heap.look(Heap::len) - 1;
        if place == last {
            return Ok(place);
        }
        self.find(self.entry(last), place, last)
    }

    /// Returns the place that the entry at `place` will have with another score.
    pub(crate) fn place_from(&self, place: usize, rank: i64, score: Value) -> Result<usize, Error> {
        let len = self.heap.look(Heap::len);
        self.find((key(rank, u64::MAX), score), place, len)
    }

    /// Returns the place that `entry`, inserted at `at`, will have among the first `len` entries.
    #[inline]
    fn find(&self, entry: Ranked, at: usize, len: usize) -> Result<usize, Error> {
        let is_before = |a: Option<usize>, b| {
            let a = a.map_or(entry, |place| self.entry(place));
            self.is_before(a, self.entry(b))
        };
        // With a constant of 4, the divisions in `find_place` are shifts.
        match self.heap.look(Heap::d) {
            4 => find_place(4, len, at, is_before),
            d => find_place(d, len, at, is_before),
        }
    }
}
