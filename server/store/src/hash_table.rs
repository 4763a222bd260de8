//! A hash table from a key's hash to its record's index, without long pauses for resizing.
//!
//! The top bits of the hash split the table into *parts* of about `PART_MAX` keys at most. A part
//! is an open-addressing table of 64-byte *chunks*. A chunk has twelve slots, each with a one-byte
//! tag and a record index, so a lookup touches one cache line here and one for the record. A key
//! that finds its chunk full goes into the next chunk with a free slot, and each full chunk that it
//! passes counts it in `passed`. So a search can stop early, and a removal leaves no tombstone (the
//! scheme of F14: Bronson and Shi, "Open-sourcing F14", 2019). A full part grows, or splits in two
//! (extendible hashing: Fagin et al., 1979), so an insert moves the keys of one part at most.
//!
//! Chunk numbers follow the order of hashes at every size of a part. So a scan's cursor is a hash:
//! the scan has visited every key with a lower hash, even if parts grow, split or shrink meanwhile.
//!
//! In cluster mode a hash begins with the key's slot (`hash.rs`), so the keys of a slot are in one
//! part or fill whole parts. If most keys of a part have few of its slots, they would crowd into
//! few chunks. Such a part is *mixed*: the slot does not count for the numbers of its chunks. A
//! part becomes mixed, or ceases to be mixed, when it is built again to grow, split or shrink.
//!
//! The table does not store keys. The caller passes functions that compare the key at an index and
//! that return an index's *place*, the high half of the key's hash.

mod directory;
mod hash;
mod mixed;
mod scan;
#[cfg(test)]
mod tests;

use self::directory::{Directory, NESTED};
pub use self::hash::{Hash, KeyHash, SlotBits};
use crate::check::Check;

/// Number of lookups to warm (load cache lines for) together: about as many loads as a processor
/// keeps in flight.
pub const WARM_MAX: usize = 16;

/// A full part with fewer keys grows until at least a quarter of its slots is free. A full part
/// with this many keys or more splits in two, or grows if many keys share almost all top bits.
const PART_MAX: usize = 2048;
/// Slots in a chunk.
const SLOTS: usize = 12;
/// A part is full when an insert would fill more than this share of its slots, in 1/16.
const LOAD_MAX_16: usize = 14;

#[derive(Clone)]
#[repr(C, align(64))]
struct Chunk {
    /// For each slot, 0 if it is free, otherwise the tag: a byte of the hash, with 0 replaced by 1.
    tags: [u8; SLOTS],
    /// Number of keys in later chunks that passed this chunk because it was full.
    passed: u32,
    indices: [u32; SLOTS],
}

const _: () = assert!(size_of::<Chunk>() == 64);

impl Chunk {
    const EMPTY: Self = Self {
        tags: [0; SLOTS],
        passed: 0,
        indices: [0; SLOTS],
    };

    /// Returns a mask in which bit i is set if slot i has this tag.
    #[inline]
    fn matching(&self, tag: u8) -> u32 {
        let t = &self.tags;
        let low = u64::from_le_bytes([t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]]);
        let high = u64::from(u32::from_le_bytes([t[8], t[9], t[10], t[11]]));
        (equal_bytes(low, tag) | equal_bytes(high, tag) << 8) & ((1 << SLOTS) - 1)
    }
}

/// Returns a mask in which bit i is set if byte i of `bytes` equals `byte` (Warren, "Hacker's
/// Delight", 2002, 6-1).
#[inline]
const fn equal_bytes(bytes: u64, byte: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = bytes ^ (byte as u64).wrapping_mul(0x0101_0101_0101_0101);
    // Sets the top bit of each byte that is zero, and no other bit.
    let zero = !(((x & LOW) + LOW) | x | LOW);
    // Gathers the eight top bits.
    (zero.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32
}

/// Chunks in a block.
const BLOCK: usize = 16;

/// The unit of allocation. Equal sizes keep a growing table from fragmenting the heap.
type Block = [Chunk; BLOCK];

#[derive(Clone)]
struct Part {
    blocks: Box<[Box<Block>]>,
    len: usize,
    /// Number of top bits that the hashes of all keys in this part share.
    bits: u32,
    /// Number of top bits that do not count for the order of the chunks: `bits`, in a mixed part
    /// all bits of the slot.
    skip: u32,
}

impl Part {
    fn new(blocks: usize, bits: u32) -> Self {
        Self {
            blocks: (0..blocks)
                .map(|_| Box::new([Chunk::EMPTY; BLOCK]))
                .collect(),
            len: 0,
            bits,
            skip: bits,
        }
    }

    /// Returns whether the slot does not count for the order of the chunks.
    fn is_mixed(&self) -> bool {
        self.skip > self.bits
    }

    /// Returns the number of chunks.
    #[inline]
    fn chunks(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    #[inline]
    fn chunk(&self, at: usize) -> &Chunk {
        &self.blocks[at / BLOCK][at % BLOCK]
    }

    #[inline]
    fn chunk_mut(&mut self, at: usize) -> &mut Chunk {
        &mut self.blocks[at / BLOCK][at % BLOCK]
    }

    /// Returns the bits of a place that determine its chunk.
    #[inline]
    fn local(&self, place: u32) -> u32 {
        place << self.skip
    }

    /// Returns the chunk where the search for `place` starts. Monotonic in [`Part::local`].
    #[inline]
    fn home(&self, place: u32) -> usize {
        ((u64::from(self.local(place)) * self.chunks() as u64) >> 32) as usize
    }

    /// Returns the first place of the part that has this place.
    fn first(&self, place: u32) -> u64 {
        u64::from(place) >> (32 - self.bits) << (32 - self.bits)
    }

    /// Returns the number of places of the part.
    fn span(&self) -> u64 {
        1 << (32 - self.bits)
    }

    fn next(&self, chunk: usize) -> usize {
        if chunk + 1 == self.chunks() {
            0
        } else {
            chunk + 1
        }
    }

    #[inline(always)]
    fn find(&self, hash: Hash, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash.place);
        for _ in 0..self.chunks() {
            let chunk = self.chunk(at);
            let mut bits = chunk.matching(hash.tag);
            while bits != 0 {
                let index = chunk.indices[bits.trailing_zeros() as usize];
                if is(index) {
                    return Some(index);
                }
                bits &= bits - 1;
            }
            if chunk.passed == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Adds an index. The part must have a free slot.
    fn put(&mut self, place: u32, tag: u8, index: u32) {
        let mut at = self.home(place);
        loop {
            let chunk = self.chunk_mut(at);
            let free = chunk.matching(0);
            if free != 0 {
                let i = free.trailing_zeros() as usize;
                chunk.tags[i] = tag;
                chunk.indices[i] = index;
                self.len += 1;
                return;
            }
            chunk.passed += 1;
            at = self.next(at);
        }
    }

    /// Removes `index`. Returns false if the part does not hold it.
    fn take(&mut self, place: u32, index: u32) -> bool {
        let home = self.home(place);
        let mut at = home;
        for _ in 0..self.chunks() {
            let chunk = self.chunk_mut(at);
            let found = (0..SLOTS).find(|&i| chunk.tags[i] != 0 && chunk.indices[i] == index);
            if let Some(i) = found {
                chunk.tags[i] = 0;
                self.len -= 1;
                let mut back = home;
                while back != at {
                    self.chunk_mut(back).passed -= 1;
                    back = self.next(back);
                }
                return true;
            }
            if chunk.passed == 0 {
                return false;
            }
            at = self.next(at);
        }
        false
    }

    /// Calls `visit` with the place, the tag and the index of every key.
    fn each(&self, place_of: impl Fn(u32) -> u32, mut visit: impl FnMut(u32, u8, u32)) {
        if self.len == 0 {
            return;
        }
        let mut keys = [(0, 0, 0); SLOTS * BLOCK];
        for block in &self.blocks {
            read_block(block, &place_of, &mut keys)
                .iter()
                .for_each(|&(place, tag, index)| visit(place, tag, index));
        }
    }

    fn slots(&self) -> usize {
        self.chunks() * SLOTS
    }

    fn resized(&self, blocks: usize, slots: SlotBits, place_of: impl Fn(u32) -> u32) -> Self {
        let mut new = Self::new(blocks, self.bits);
        new.mix_if_crowded(slots, |visit| {
            self.each(&place_of, |place, _, _| visit(place))
        });
        self.each(place_of, |place, tag, index| new.put(place, tag, index));
        new
    }
}

/// Reads the place, the tag and the index of each key in a block. Reads all places before the
/// caller uses the first of them, so that the cache misses of these reads overlap.
fn read_block<'k>(
    block: &Block,
    place_of: impl Fn(u32) -> u32,
    keys: &'k mut [(u32, u8, u32); SLOTS * BLOCK],
) -> &'k [(u32, u8, u32)] {
    let mut count = 0;
    for chunk in block {
        for (&tag, &index) in chunk.tags.iter().zip(&chunk.indices) {
            keys[count] = (0, tag, index);
            count += usize::from(tag != 0);
        }
    }
    let keys = &mut keys[..count];
    keys.iter_mut().for_each(|key| key.0 = place_of(key.2));
    keys
}

/// Returns the number of blocks with room for `len` keys and a third more.
fn blocks_for(len: usize) -> usize {
    (len + len / 3).div_ceil(SLOTS * BLOCK)
}

/// A hash table of record indices.
#[derive(Clone)]
pub struct HashTable {
    /// Maps the top bits of a place to the number of its part. A part with fewer `bits` has several
    /// entries.
    directory: Directory,
    parts: Vec<Part>,
    len: usize,
    /// Additions of cluster mode.
    cluster: Option<Box<Cluster>>,
}

/// Additions to a table in cluster mode.
#[derive(Clone)]
struct Cluster {
    slots: SlotBits,
    /// Directories of parts that the table's directory is not deep enough to divide.
    nested: Vec<Directory>,
}

impl Default for HashTable {
    fn default() -> Self {
        Self::new(SlotBits::default())
    }
}

impl HashTable {
    /// Creates an empty table for hashes with these bits of the slot.
    pub(crate) fn new(slots: SlotBits) -> Self {
        let nested = Vec::new();
        Self {
            directory: Directory::of_parts(0),
            parts: vec![Part::new(0, 0)],
            len: 0,
            cluster: slots.any().then(|| Box::new(Cluster { slots, nested })),
        }
    }

    fn slot_bits(&self) -> SlotBits {
        self.cluster
            .as_ref()
            .map_or(SlotBits::default(), |c| c.slots)
    }

    #[inline(always)]
    fn part(&self, place: u32) -> &Part {
        match self.parts.get(self.directory.entry(place) as usize) {
            Some(part) => part,
            None => &self.parts[self.nested_part(place)],
        }
    }

    /// Returns the number of the part for `place`.
    #[inline]
    fn part_of(&self, place: u32) -> usize {
        let entry = self.directory.entry(place);
        if entry < NESTED {
            entry as usize
        } else {
            self.nested_part(place)
        }
    }

    /// Same as [`HashTable::part_of`], for a part in a nested directory.
    #[inline(never)]
    fn nested_part(&self, place: u32) -> usize {
        let entry = self.directory.entry(place);
        let cluster = self.cluster.as_ref().expect("an entry is a part's number");
        cluster.nested[(entry - NESTED) as usize].nested_entry(place) as usize
    }

    /// Returns the directory with the parts near `place`.
    fn directory_of(&mut self, place: u32) -> &mut Directory {
        let entry = self.directory.entry(place);
        match &mut self.cluster {
            Some(cluster) if entry >= NESTED => &mut cluster.nested[(entry - NESTED) as usize],
            _ => &mut self.directory,
        }
    }

    /// Checks the numbers of keys; `keys` keys must be in the table.
    pub(crate) fn check(&self, to: &mut Check, keys: usize) {
        to.equal("keys of the table", self.len, keys);
        let mut len = 0;
        for part in &self.parts {
            let chunks = part.blocks.iter().flat_map(|block| block.iter());
            let tags = chunks.flat_map(|chunk| &chunk.tags);
            let taken = tags.filter(|tag| **tag != 0).count();
            to.equal("keys of a part", part.len, taken);
            len += taken;
        }
        to.equal("keys of all parts", self.len, len);
    }

    /// Returns the number of keys.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// Returns the index with this hash for which `is` returns true. O(1) on average.
    #[inline(always)]
    pub fn find(&self, hash: Hash, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.part(hash.place).find(hash, is)
    }

    /// Loads the chunk that a lookup of `hash` reads first. The result is arbitrary. Callers sum
    /// the results so that the compiler keeps the loads, and discard the sum.
    #[inline]
    pub(crate) fn warm(&self, hash: Hash) -> u8 {
        self.warm_place(hash.place)
    }

    /// Same as [`HashTable::warm`], for a removal, which needs only the hash's place.
    #[inline]
    pub(crate) fn warm_place(&self, place: u32) -> u8 {
        let part = self.part(place);
        if part.len == 0 {
            0
        } else {
            part.chunk(part.home(place)).tags[0]
        }
    }

    /// Returns the first index in the hash's first chunk whose tag matches: the key's record,
    /// probably.
    #[inline]
    pub(crate) fn candidate(&self, hash: Hash) -> Option<u32> {
        let part = self.part(hash.place);
        if part.len == 0 {
            return None;
        }
        let chunk = part.chunk(part.home(hash.place));
        let bits = chunk.matching(hash.tag);
        (bits != 0).then(|| chunk.indices[bits.trailing_zeros() as usize])
    }

    /// Adds an index that the table does not hold. `place_of` returns the hash place of any index.
    /// O(1) amortised; at most O(`PART_MAX` + keys / `PART_MAX`), when a part grows or splits and
    /// the directory doubles.
    pub fn insert(&mut self, hash: Hash, index: u32, place_of: impl Fn(u32) -> u32) {
        let mut number = self.part_of(hash.place);
        if (self.parts[number].len + 1) * 16 > self.parts[number].slots() * LOAD_MAX_16 {
            number = self.make_room(number, hash.place, place_of);
        }
        self.parts[number].put(hash.place, hash.tag, index);
        self.len += 1;
    }

    /// Reserves room for `keys` keys if the table is empty, so that inserting these keys moves few
    /// or none of them. Does nothing in cluster mode, where few parts may get most of the keys.
    /// O(keys).
    pub(crate) fn reserve(&mut self, keys: usize) {
        if self.len > 0 || keys <= PART_MAX || self.cluster.is_some() {
            return;
        }
        // The sizes of parts vary at random, so each part is planned for three quarters of its
        // limit.
        let parts = (keys.div_ceil(PART_MAX / 4 * 3)).next_power_of_two();
        let depth = parts.trailing_zeros();
        self.directory = Directory::of_parts(depth);
        let new = || Part::new(blocks_for(keys / parts), depth);
        self.parts = (0..parts).map(|_| new()).collect();
    }

    /// Removes an index. Returns false if the table does not hold it. O(1) amortised.
    pub fn remove(&mut self, place: u32, index: u32, place_of: impl Fn(u32) -> u32) -> bool {
        let number = self.part_of(place);
        let part = &mut self.parts[number];
        if !part.take(place, index) {
            return false;
        }
        self.len -= 1;
        if part.len * 4 < part.slots() && part.blocks.len() > blocks_for(part.len) {
            let blocks = blocks_for(part.len);
            self.parts[number] = self.parts[number].resized(blocks, self.slot_bits(), place_of);
        }
        true
    }

    /// Replaces an index by another one for the same key. Returns false if the table does not hold
    /// it. O(1).
    pub(crate) fn renumber(&mut self, place: u32, old: u32, new: u32) -> bool {
        let number = self.part_of(place);
        let part = &mut self.parts[number];
        let mut at = part.home(place);
        for _ in 0..part.chunks() {
            let chunk = part.chunk_mut(at);
            let is_old = |&i: &usize| chunk.tags[i] != 0 && chunk.indices[i] == old;
            if let Some(i) = (0..SLOTS).find(is_old) {
                chunk.indices[i] = new;
                return true;
            }
            if chunk.passed == 0 {
                return false;
            }
            at = part.next(at);
        }
        false
    }

    /// Grows or splits a part. Returns the number of the part that now holds `place`.
    fn make_room(&mut self, number: usize, place: u32, place_of: impl Fn(u32) -> u32) -> usize {
        let part = &self.parts[number];
        let (len, bits, slots) = (part.len, part.bits + 1, self.slot_bits());
        if len < PART_MAX || !self.make_entries(number, place) {
            self.parts[number] = self.parts[number].resized(blocks_for(len + 1), slots, place_of);
            return number;
        }
        let part = &self.parts[number];
        let is_high = |place: u32| place >> (32 - bits) & 1 == 1;
        let mut ones = 0;
        part.each(&place_of, |place, _, _| ones += usize::from(is_high(place)));
        let mut halves = [
            Part::new(blocks_for(len - ones + 1), bits),
            Part::new(blocks_for(ones + 1), bits),
        ];
        for (half, high) in halves.iter_mut().zip([false, true]) {
            half.mix_if_crowded(slots, |visit| {
                part.each(&place_of, |place, _, _| {
                    if is_high(place) == high {
                        visit(place);
                    }
                });
            });
        }
        part.each(&place_of, |place, tag, index| {
            halves[usize::from(is_high(place))].put(place, tag, index);
        });
        let [low, high] = halves;
        let new = self.parts.len() as u32;
        self.parts[number] = low;
        self.parts.push(high);
        // The new part takes the directory entries that share its bits.
        let first = place | 1 << (32 - bits);
        self.directory_of(place).set_all(first, bits, new);
        self.part_of(place)
    }

    /// Makes sure that part `number`, which has `place`, has several entries in a directory, so
    /// that it may split. Returns false if the directory would be too large.
    fn make_entries(&mut self, number: usize, place: u32) -> bool {
        // A split does not separate keys with equal hashes. The limits keep such keys from doubling
        // a directory again and again.
        let (max, nested_max) = (64 + 16 * (self.len / PART_MAX), 64 + self.len / 8);
        let bits = self.parts[number].bits;
        let is_nested = self.directory.entry(place) >= NESTED;
        let directory = self.directory_of(place);
        if bits < directory.bits() || directory.double(if is_nested { nested_max } else { max }) {
            return true;
        }
        match &mut self.cluster {
            Some(cluster) if !is_nested => {
                self.directory
                    .set(place, NESTED + cluster.nested.len() as u32);
                cluster.nested.push(Directory::nested(bits, number as u32));
                true
            }
            _ => false,
        }
    }

    /// Returns the size of the table in bytes. O(parts).
    pub fn memory(&self) -> usize {
        let nested = self.cluster.iter().flat_map(|cluster| &cluster.nested);
        self.directory.memory()
            + nested
                .map(|directory| size_of::<Directory>() + directory.memory())
                .sum::<usize>()
            + self.parts.capacity() * size_of::<Part>()
            + self
                .parts
                .iter()
                .map(|p| p.blocks.len() * (size_of::<Block>() + size_of::<Box<Block>>()))
                .sum::<usize>()
    }

    /// Returns the number of slots in all chunks. O(parts).
    pub fn slots(&self) -> usize {
        self.parts.iter().map(Part::slots).sum()
    }
}
