//! The keys of a heap: an array of numbers, and the operations that move them.
//!
//! A key of 16 bytes is a quarter of a cache line. The array is laid out so that the keys 1 to 4
//! fill a line, and so do the next four: with four children per entry, the children of an entry
//! share one line.

use std::hint::select_unpredictable;

use punctual::queue::placed::prefetch;

/// Upper half: the rank of the score. Lower half: the entry's order, and its slot. No two entries
/// of a heap have the same order, so no two keys are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(u128);

impl Key {
    #[inline]
    pub(crate) fn new(rank: i64, order: u32, slot: u32) -> Self {
        // With its highest bit inverted, a signed rank sorts as an unsigned number.
        let rank = rank as u64 ^ 1 << 63;
        let low = u64::from(order) << 32 | u64::from(slot);
        Key(u128::from(rank) << 64 | u128::from(low))
    }

    #[inline]
    pub(crate) fn order(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn with_order(self, order: u32) -> Self {
        Key(self.0 & !(u128::from(u32::MAX) << 32) | u128::from(order) << 32)
    }

    pub(crate) fn with_slot(self, slot: u32) -> Self {
        Key(self.0 & !u128::from(u32::MAX) | u128::from(slot))
    }
}

const LINE: usize = 64;
const KEYS_PER_LINE: usize = LINE / size_of::<Key>();

/// A heap with memory for up to this many entries releases none. A larger heap releases memory if
/// less than a quarter is in use: a pop keeps twice what the entries need (a tracked heap keeps all
/// until it is empty), and `clear` keeps the memory of this many entries.
const KEEP: usize = 2048;

/// An array of keys, whose second key is at the start of a cache line.
///
/// The keys have the slots from 0 on. The rest of the array holds the free slots: a removed key
/// leaves a key with its slot there, and the next key takes that slot.
#[derive(Default)]
pub(crate) struct Keys {
    /// `skipped` unused keys, `len` keys in use, and keys with free slots.
    memory: Vec<Key>,
    skipped: usize,
    len: usize,
    /// Below this number of keys in use, memory should be released.
    few: usize,
}

impl Keys {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut keys = Keys::default();
        if capacity > 0 {
            keys.move_to(capacity);
        }
        keys
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Key] {
        &self.memory[self.skipped..][..self.len]
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [Key] {
        &mut self.memory[self.skipped..][..self.len]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Returns true if more than three quarters of a large memory are unused.
    #[inline]
    pub(crate) fn wastes_memory(&self) -> bool {
        self.len < self.few
    }

    /// Appends a key with a free slot, and returns it. Without a free slot, its slot is the number
    /// of keys.
    #[inline]
    pub(crate) fn push(&mut self, rank: i64, order: u32) -> Key {
        let key = if let Some(place) = self.memory.get_mut(self.skipped + self.len) {
            *place = Key::new(rank, order, place.slot());
            *place
        } else {
            let key = Key::new(rank, order, self.len as u32);
            if self.memory.len() == self.memory.capacity() {
                self.move_to(self.len * 2 + 8);
            }
            self.memory.push(key);
            key
        };
        self.len += 1;
        key
    }

    /// Removes the last key and returns it. The slot `free` becomes free.
    ///
    /// # Panics
    /// If there are no keys.
    #[inline]
    pub(crate) fn pop(&mut self, free: u32) -> Key {
        self.len -= 1;
        let place = &mut self.memory[self.skipped + self.len];
        std::mem::replace(place, Key(u128::from(free)))
    }

    /// Removes all keys and slots. Keeps the memory if at least a quarter was in use, and otherwise
    /// the memory of `KEEP` keys. Returns the number of entries for which memory is kept.
    pub(crate) fn clear(&mut self) -> usize {
        // A queue that was more than a quarter full is often filled again.
        let keep = if self.len < self.memory.capacity() / 4 {
            KEEP
        } else {
            usize::MAX
        };
        self.len = 0;
        self.memory.truncate(self.skipped);
        if self.memory.capacity() > keep.saturating_add(KEYS_PER_LINE) {
            self.move_to(keep);
        }
        keep
    }

    /// Gives the keys the slots from 0 on, in the order of their places, and releases memory. Calls
    /// `moved` with the slot of each key before.
    pub(crate) fn compact(&mut self, mut moved: impl FnMut(u32)) {
        self.memory.truncate(self.skipped + self.len);
        for (key, slot) in self.memory[self.skipped..].iter_mut().zip(0..) {
            moved(key.slot());
            *key = key.with_slot(slot);
        }
        self.move_to(self.len * 2);
    }

    /// Moves the keys into other memory, which has room for `capacity` keys.
    #[cold]
    fn move_to(&mut self, capacity: usize) {
        let mut memory = Vec::with_capacity(capacity + KEYS_PER_LINE - 1);
        let offset = memory.as_ptr() as usize % LINE / size_of::<Key>();
        let skipped = (KEYS_PER_LINE - 1 + KEYS_PER_LINE - offset) % KEYS_PER_LINE;
        memory.resize(skipped, Key(0));
        memory.extend_from_slice(&self.memory[self.skipped..]);
        let capacity = memory.capacity();
        self.few = if capacity > KEEP { capacity / 4 } else { 0 };
        (self.memory, self.skipped) = (memory, skipped);
    }
}

impl Clone for Keys {
    fn clone(&self) -> Self {
        let known = &self.memory[self.skipped..];
        let mut copy = Keys::with_capacity(known.len());
        copy.memory.extend_from_slice(known);
        copy.len = self.len;
        copy
    }
}

/// Puts `key` at `hole` or above it, but not above `top`. The keys on the way move down. Calls
/// `moved` with every key that moved, and its place.
#[inline(always)]
pub(crate) fn rise(
    keys: &mut [Key],
    d: usize,
    top: usize,
    mut hole: usize,
    key: Key,
    mut moved: impl FnMut(Key, usize),
) {
    while hole > top {
        let parent = (hole - 1) / d;
        let above = keys[parent];
        if above < key {
            break;
        }
        keys[hole] = above;
        moved(above, hole);
        hole = parent;
    }
    keys[hole] = key;
    moved(key, hole);
}

/// Puts `key` at `hole`, above it or below it. The keys on the way move to the hole.
///
/// On the way down, the least children move up to the bottom of the heap, and then the key rises:
/// most keys belong near the bottom (I. Wegener, "Bottom-up-heapsort", Theoretical Computer Science
/// 118, 1993).
#[inline(always)]
pub(crate) fn settle(
    keys: &mut [Key],
    d: usize,
    hole: usize,
    key: Key,
    mut moved: impl FnMut(Key, usize),
) {
    if hole > 0 && key < keys[(hole - 1) / d] {
        return rise(keys, d, 0, hole, key, moved);
    }
    let mut at = hole;
    loop {
        let first = at * d + 1;
        let last = keys.len().min(first.saturating_add(d));
        if first >= last {
            break;
        }
        let (mut least, mut place) = (keys[first], first);
        for (child, &other) in (first + 1..).zip(&keys[first + 1..last]) {
            let less = other < least;
            place = select_unpredictable(less, child, place);
            least = select_unpredictable(less, other, least);
        }
        keys[at] = least;
        moved(least, at);
        at = place;
    }
    rise(keys, d, hole, at, key, moved);
}

/// Does the same as [`settle`] with four children per entry.
#[inline(always)]
pub(crate) fn settle_4(keys: &mut [Key], hole: usize, key: Key, mut moved: impl FnMut(Key, usize)) {
    if hole > 0 && key < keys[(hole - 1) / 4] {
        return rise(keys, 4, 0, hole, key, moved);
    }
    let mut at = hole;
    loop {
        let first = at * 4 + 1;
        let Some(&[a, b, c, d]) = keys.get(first..).and_then(|rest| rest.first_chunk()) else {
            break;
        };
        // The children of a, b, c and d are the next four lines. One of them is read next, and the
        // processor cannot guess which one.
        if let Some(next) = keys.get(first * 4 + 1..first * 4 + 17) {
            prefetch(&next[0]);
            prefetch(&next[4]);
            prefetch(&next[8]);
            prefetch(&next[12]);
        }
        let (is_b, is_d) = (b < a, d < c);
        let (left, right) = (
            select_unpredictable(is_b, b, a),
            select_unpredictable(is_d, d, c),
        );
        let is_right = right < left;
        let place = select_unpredictable(
            is_right,
            first + 2 + usize::from(is_d),
            first + usize::from(is_b),
        );
        let least = select_unpredictable(is_right, right, left);
        keys[at] = least;
        moved(least, at);
        at = place;
    }
    // The last entry with children may have fewer than four.
    let first = at * 4 + 1;
    if let Some((&first_key, rest)) = keys.get(first..).and_then(<[Key]>::split_first) {
        let (mut least, mut place) = (first_key, first);
        for (other, child) in rest.iter().zip(first + 1..) {
            if *other < least {
                (least, place) = (*other, child);
            }
        }
        keys[at] = least;
        moved(least, at);
        at = place;
    }
    rise(keys, 4, hole, at, key, moved);
}
