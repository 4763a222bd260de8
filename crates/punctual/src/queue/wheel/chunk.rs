//! The storage of a wheel's entries: chunks of a few entries each, taken from one pool. The
//! [module](super) explains the terms.
//!
//! A slot is a list of chunks. A slot thus grows without copying, the entries of a chunk are
//! contiguous, and other slots reuse the chunks of an emptied slot. The pool grows by whole
//! segments, so it copies no entries when a million timers arrive, and no insertion has to wait for
//! a large copy.

use crate::queue::prefetch::prefetch;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{replace, size_of, swap};

/// No chunk: the end of a list, or an empty slot.
pub(super) const NONE: u32 = u32::MAX;

/// Number of entries in a chunk. A chunk of 20 entries takes 248 bytes, which is 12.4 bytes per
/// entry. Its four or five cache lines are prefetched together. A slot with a single entry wastes
/// little.
pub(super) const CHUNK: usize = 20;

/// Number of chunks in a segment of the pool. A segment is slightly smaller than a page of 4 KiB.
const SEGMENT: usize = 16;

/// Number of segments that one step frees.
const FREE_STEP: usize = 8;

/// A segment is a box, so that no chunk is copied when the pool grows or reuses a segment.
type Segment = Box<[Chunk; SEGMENT]>;

/// An entry of the wheel: a timer's index and generation, filed under a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The deadline, in ticks.
    pub deadline: u64,
    /// The timer's index.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

impl Entry {
    /// Returns the entry under another deadline.
    #[inline]
    pub(super) fn at(self, deadline: u64) -> Self {
        Entry { deadline, ..self }
    }

    /// Returns the entry in the form that slots store.
    #[inline]
    pub(super) fn packed(self) -> Packed {
        Packed {
            low: self.deadline as u32,
            index: self.index,
            generation: self.generation,
        }
    }
}

/// An entry in a slot. It stores the lower 32 bits of its deadline; the slot gives the upper bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed {
    pub(super) low: u32,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Packed {
    /// Returns the entry, given its deadline.
    #[inline]
    pub(super) fn at(self, deadline: u64) -> Entry {
        Entry {
            deadline,
            index: self.index,
            generation: self.generation,
        }
    }
}

/// A list node with the entries `entries[..len]`. A chunk in a slot's list is never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) next: u32,
    len: u8,
    entries: [Packed; CHUNK],
}

impl Chunk {
    #[inline]
    pub(super) fn entries(&self) -> &[Packed] {
        &self.entries[..usize::from(self.len)]
    }
}

/// All chunks of one wheel, used or free.
#[derive(Debug)]
pub(super) struct Pool {
    segments: Vec<Segment>,
    free_head: u32,
    pub(super) used: u32,
    /// The last chunk that the sweep visits in its slot; `NONE` as soon as that chunk is freed.
    pub(super) sweep_end: u32,
    /// Segments of an earlier pool, to be reused or freed.
    leftovers: Vec<Segment>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Pool {
            segments: Vec::new(),
            free_head: NONE,
            used: 0,
            sweep_end: NONE,
            leftovers: Vec::new(),
        }
    }

    /// Takes the segments of an earlier pool, whose chunks are all unused, to reuse them or to free
    /// them in pieces. O(1), or O(segments) if the earlier pool also has leftovers.
    pub(super) fn reclaim(&mut self, before: Pool) {
        let mut segments = before.segments;
        self.leftovers = before.leftovers;
        if self.leftovers.len() < segments.len() {
            swap(&mut self.leftovers, &mut segments);
        }
        self.leftovers.append(&mut segments);
    }

    /// Frees a few leftover segments. Returns whether there are more. O(1).
    pub(super) fn free_piece(&mut self) -> bool {
        self.leftovers
            .truncate(self.leftovers.len().saturating_sub(FREE_STEP));
        if self.leftovers.is_empty() {
            self.free_leftovers();
        }
        !self.leftovers.is_empty()
    }

    /// Frees all leftover segments. O(segments).
    pub(super) fn free_leftovers(&mut self) {
        self.leftovers = Vec::new();
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Chunk {
        &self.segments[id as usize / SEGMENT][id as usize % SEGMENT]
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> &mut Chunk {
        &mut self.segments[id as usize / SEGMENT][id as usize % SEGMENT]
    }

    /// Returns the chunks of a slot, in order. Prefetches the next chunk while the caller visits a
    /// chunk.
    #[inline]
    pub(super) fn chunks(&self, slot: Slot) -> impl Iterator<Item = &Chunk> {
        let mut id = slot.head;
        core::iter::from_fn(move || {
            (id != NONE).then(|| {
                let chunk = self.get(id);
                id = chunk.next;
                self.prefetch(id);
                chunk
            })
        })
    }

    /// Prefetches a chunk that is needed soon. Does nothing if `id` is `NONE`.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        if let Some(segment) = self.segments.get(id as usize / SEGMENT) {
            prefetch(&segment[id as usize % SEGMENT]);
        }
    }

    /// Takes a free chunk. O(1).
    #[inline]
    fn take(&mut self) -> u32 {
        if self.free_head == NONE {
            self.grow();
        }
        let id = self.free_head;
        self.free_head = replace(&mut self.get_mut(id).next, NONE);
        self.used += 1;
        id
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.segments.len() * SEGMENT;
        assert!(
            first < NONE as usize - SEGMENT,
            "a wheel holds at most 2^32 - 1 chunks of entries"
        );
        let reused = self.leftovers.pop();
        let mut segment = reused.unwrap_or_else(|| {
            let (next, len) = (NONE, 0);
            let entries = [Packed::default(); CHUNK];
            Box::new([Chunk { next, len, entries }; SEGMENT])
        });
        for (id, chunk) in (first as u32..).zip(&mut segment[..]) {
            chunk.next = id + 1;
        }
        segment[SEGMENT - 1].next = self.free_head;
        self.free_head = first as u32;
        self.segments.push(segment);
    }

    #[inline]
    fn free_chunk(&mut self, id: u32) {
        if self.sweep_end == id {
            self.sweep_end = NONE;
        }
        let free = replace(&mut self.free_head, id);
        self.get_mut(id).next = free;
        self.used -= 1;
    }

    /// Returns whether so few chunks are used that moving their entries to a new pool pays off. A
    /// move copies less than an eighth of the allocated chunks.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        let allocated = self.segments.len() * SEGMENT;
        allocated > 512 && (self.used as usize) < allocated / 8
    }

    pub(super) fn memory(&self) -> usize {
        (self.segments.len() + self.leftovers.len()) * size_of::<[Chunk; SEGMENT]>()
            + (self.segments.capacity() + self.leftovers.capacity()) * size_of::<Segment>()
    }
}

/// A list of chunks with the entries of one slot, in the order of insertion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        head: NONE,
        tail: NONE,
    };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// Appends an entry. Returns true if it took a new chunk. O(1).
    #[inline(always)]
    pub(super) fn push(&mut self, pool: &mut Pool, entry: Packed) -> bool {
        if self.tail != NONE {
            let chunk = pool.get_mut(self.tail);
            if let Some(place) = chunk.entries.get_mut(usize::from(chunk.len)) {
                *place = entry;
                chunk.len += 1;
                return false;
            }
        }
        let id = pool.take();
        self.append(pool, Slot { head: id, tail: id });
        let chunk = pool.get_mut(id);
        chunk.entries[0] = entry;
        chunk.len = 1;
        true
    }

    /// Removes the first chunk and returns a copy of it; the slot must not be empty. O(1).
    #[inline]
    pub(super) fn pop_chunk(&mut self, pool: &mut Pool) -> Chunk {
        let id = self.head;
        let chunk = *pool.get(id);
        self.head = chunk.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        pool.free_chunk(id);
        pool.prefetch(self.head);
        chunk
    }

    /// Returns whether the slot has at most `limit` entries. O(limit).
    #[inline]
    pub(super) fn has_at_most(self, pool: &Pool, limit: usize) -> bool {
        let left = |left: usize, chunk: &Chunk| left.checked_sub(chunk.entries().len());
        self.head == self.tail || pool.chunks(self).try_fold(limit, left).is_some()
    }

    /// Appends the list of `other`. O(1).
    #[inline]
    pub(super) fn append(&mut self, pool: &mut Pool, other: Slot) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            pool.get_mut(self.tail).next = other.head;
            self.tail = other.tail;
        }
    }
}
