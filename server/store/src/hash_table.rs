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
//! The table does not store keys. The caller passes functions that compare the key at an index and
//! that return an index's *place*, the high half of the key's hash.

#[cfg(test)]
mod tests;

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
}

/// A hash of a key and its database. Only the low 48 bits depend on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

/// The parts of a key's hash: its place and its tag for the table, and bits for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// High half of the hash. Determines the order of keys and their chunk. The key's record stores
    /// it.
    pub place: u32,
    spread: u16,
    tag: u8,
}

impl Hash {
    /// Splits a 64-bit hash. Both halves must be well mixed.
    #[inline]
    pub const fn new(hash: u64) -> Self {
        let low = hash as u8;
        Self {
            place: (hash >> 32) as u32,
            spread: (hash >> 8) as u16,
            tag: if low == 0 { 1 } else { low },
        }
    }

    /// Returns the hash of the key and of its database.
    #[inline]
    pub const fn in_db(self, db: usize) -> KeyHash {
        let bits = (self.place as u64) << u16::BITS | self.spread as u64;
        KeyHash(bits ^ (db as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the shard of the key, out of at most 2^16 shards.
    pub const fn shard(self, shards: usize) -> usize {
        (self.spread as usize * shards) >> u16::BITS
    }
}

impl Part {
    fn new(blocks: usize, bits: u32) -> Self {
        Self {
            blocks: (0..blocks)
                .map(|_| Box::new([Chunk::EMPTY; BLOCK]))
                .collect(),
            len: 0,
            bits,
        }
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

    /// Returns the chunk where the search for `place` starts. Monotonic in `place`.
    #[inline]
    fn home(&self, place: u32) -> usize {
        let local = ((u64::from(place)) << self.bits) & 0xffff_ffff;
        ((local * self.chunks() as u64) >> 32) as usize
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

    /// Calls `visit` with the place, the tag and the index of every key. Reads the places of all
    /// keys of a block before it visits the first of them, so that the cache misses of these reads
    /// overlap.
    fn each(&self, place_of: impl Fn(u32) -> u32, mut visit: impl FnMut(u32, u8, u32)) {
        let mut keys = [(0, 0, 0); SLOTS * BLOCK];
        for block in &self.blocks {
            let mut count = 0;
            for chunk in block.iter() {
                for (&tag, &index) in chunk.tags.iter().zip(&chunk.indices) {
                    keys[count] = (0, tag, index);
                    count += usize::from(tag != 0);
                }
            }
            let keys = &mut keys[..count];
            keys.iter_mut().for_each(|key| key.0 = place_of(key.2));
            keys.iter()
                .for_each(|&(place, tag, index)| visit(place, tag, index));
        }
    }

    fn slots(&self) -> usize {
        self.chunks() * SLOTS
    }

    fn resized(&self, blocks: usize, place_of: impl Fn(u32) -> u32) -> Self {
        let mut new = Self::new(blocks, self.bits);
        self.each(place_of, |place, tag, index| new.put(place, tag, index));
        new
    }
}

/// Returns the number of blocks with room for `len` keys and a third more.
fn blocks_for(len: usize) -> usize {
    (len + len / 3).div_ceil(SLOTS * BLOCK)
}

/// A hash table of record indices.
#[derive(Clone)]
pub struct HashTable {
    /// Maps the top `depth` bits of a hash to the number of its part. A part with fewer `bits` has
    /// several entries.
    directory: Vec<u32>,
    depth: u32,
    parts: Vec<Part>,
    len: usize,
}

impl Default for HashTable {
    fn default() -> Self {
        Self {
            directory: vec![0],
            depth: 0,
            parts: vec![Part::new(0, 0)],
            len: 0,
        }
    }
}

impl HashTable {
    #[inline]
    fn part_of(&self, place: u32) -> usize {
        self.directory[(u64::from(place) << self.depth >> 32) as usize] as usize
    }

    /// Returns the number of keys.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// Returns the index with this hash for which `is` returns true. O(1) on average.
    #[inline(always)]
    pub fn find(&self, hash: Hash, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts[self.part_of(hash.place)].find(hash, is)
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
        let part = &self.parts[self.part_of(place)];
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
        let part = &self.parts[self.part_of(hash.place)];
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
    /// or none of them. O(keys).
    pub(crate) fn reserve(&mut self, keys: usize) {
        if self.len > 0 || keys <= PART_MAX {
            return;
        }
        // The sizes of parts vary at random, so each part is planned for three quarters of its
        // limit.
        let parts = (keys.div_ceil(PART_MAX / 4 * 3)).next_power_of_two();
        self.depth = parts.trailing_zeros();
        self.directory = (0..parts as u32).collect();
        let blocks = blocks_for(keys / parts);
        self.parts = (0..parts).map(|_| Part::new(blocks, self.depth)).collect();
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
            *part = part.resized(blocks_for(part.len), place_of);
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
        // A split does not separate keys with equal hashes. The limit keeps such keys from doubling
        // the directory again and again.
        let directory_max = 64 + 16 * (self.len / PART_MAX);
        let may_split = part.bits < self.depth || self.directory.len() * 2 <= directory_max;
        if part.len < PART_MAX || !may_split {
            self.parts[number] = part.resized(blocks_for(part.len + 1), place_of);
            return number;
        }
        if part.bits == self.depth {
            self.directory = self.directory.iter().flat_map(|&n| [n, n]).collect();
            self.depth += 1;
        }
        let bits = part.bits + 1;
        let is_high = |place: u32| place >> (32 - bits) & 1 == 1;
        let mut ones = 0;
        part.each(&place_of, |place, _, _| ones += usize::from(is_high(place)));
        let mut halves = [
            Part::new(blocks_for(part.len - ones + 1), bits),
            Part::new(blocks_for(ones + 1), bits),
        ];
        part.each(&place_of, |place, tag, index| {
            halves[usize::from(is_high(place))].put(place, tag, index);
        });
        let [low, high] = halves;
        let new = self.parts.len() as u32;
        self.parts[number] = low;
        self.parts.push(high);
        // The new part takes the directory entries that share its bits.
        let shift = self.depth - bits;
        let first = (u64::from(place) >> (32 - bits) | 1) << shift;
        for entry in &mut self.directory[first as usize..(first + (1 << shift)) as usize] {
            *entry = new;
        }
        self.part_of(place)
    }

    /// Visits the keys with a place of at least `from` whose search starts in the same chunk as a
    /// search for `from`. Returns the place to continue at, or `None` at the end. A scan from 0 to
    /// the end visits exactly once every key that is present all the time. O(1) on average.
    pub fn scan(
        &self,
        from: u32,
        place_of: impl Fn(u32) -> u32,
        mut visit: impl FnMut(u32),
    ) -> Option<u32> {
        let part = &self.parts[self.part_of(from)];
        let home = part.home(from);
        let prefix = u64::from(from) >> (32 - part.bits) << (32 - part.bits);
        let mut at = home;
        for _ in 0..part.chunks() {
            let chunk = part.chunk(at);
            for i in 0..SLOTS {
                if chunk.tags[i] != 0 {
                    let place = place_of(chunk.indices[i]);
                    if place >= from && part.home(place) == home {
                        visit(chunk.indices[i]);
                    }
                }
            }
            if chunk.passed == 0 {
                break;
            }
            at = part.next(at);
        }
        // The scan continues at the smallest place whose home is the next chunk, or at the next
        // part's first place. A part without chunks counts as one empty chunk.
        let start = (((home as u64 + 1) << 32).div_ceil(part.chunks().max(1) as u64))
            .div_ceil(1 << part.bits);
        u32::try_from(prefix + start).ok()
    }

    /// Returns the size of the table in bytes. O(parts).
    pub fn memory(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
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
