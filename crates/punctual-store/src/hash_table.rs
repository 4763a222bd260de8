//! From a key's hash to its record's index: a table that never stops to grow.
//!
//! The table is split by the hash's top bits into *parts* of at most `PART_MAX` keys. A part is an open-
//! addressing table of 64-byte *chunks*, each with twelve places: a one-byte tag and a record index per place,
//! so a lookup touches one cache line here and one for the record. A full chunk sends its keys on to the next and
//! counts them (`passed`), so a search knows when to stop and removal leaves no tombstones (the scheme of
//! F14: Bronson and Shi, "Open-sourcing F14", 2019). Parts grow by a third, a part that is full splits in two
//! (extendible hashing: Fagin et al., 1979): no insert moves more than `PART_MAX` keys.
//!
//! Places follow the hash's order (a chunk's number grows with the hash), at every size of a part. So a scan's
//! cursor is a hash: all below it have been seen, whatever grew, split or shrank in between.
//!
//! The table does not know keys: callers say whether an index is the wanted key, and what hash an index has.

/// Number of look-ups that are best warmed at a time: about as many loads as a processor has in flight.
pub const WARM_MAX: usize = 16;

/// Keys in a part before it splits.
const PART_MAX: usize = 4096;
/// Places in a chunk.
const PLACES: usize = 12;
/// A part grows when more than this share of its places, in 1/16, would be taken.
const LOAD_MAX_16: usize = 14;

#[derive(Clone)]
#[repr(C, align(64))]
struct Chunk {
    /// 0: the place is free; else a byte of the hash, never 0.
    tags: [u8; PLACES],
    /// How many keys whose search starts at or before this chunk live behind it.
    passed: u32,
    indices: [u32; PLACES],
}

const _: () = assert!(size_of::<Chunk>() == 64);

impl Chunk {
    const EMPTY: Self = Self {
        tags: [0; PLACES],
        passed: 0,
        indices: [0; PLACES],
    };

    /// Bit i: place i has this tag.
    #[inline]
    fn matching(&self, tag: u8) -> u32 {
        let t = &self.tags;
        let low = u64::from_le_bytes([t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]]);
        let high = u64::from(u32::from_le_bytes([t[8], t[9], t[10], t[11]]));
        (equal_bytes(low, tag) | equal_bytes(high, tag) << 8) & ((1 << PLACES) - 1)
    }
}

/// Bit i: byte i of `bytes` is `byte`. Eight at a time in a register (Warren, "Hacker's Delight", 2002, 6-1).
#[inline]
const fn equal_bytes(bytes: u64, byte: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = bytes ^ (byte as u64).wrapping_mul(0x0101_0101_0101_0101);
    // The top bit of each byte that is zero, and of no other.
    let zero = !(((x & LOW) + LOW) | x | LOW);
    // Gathers the eight top bits.
    (zero.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32
}

/// Chunks in a block.
const BLOCK: usize = 16;

/// Memory is had and given back in blocks of one size, so that a growing table leaves no holes of odd sizes.
type Block = [Chunk; BLOCK];

#[derive(Clone)]
struct Part {
    blocks: Box<[Box<Block>]>,
    len: usize,
    /// How many top bits of the hash all keys in here share.
    bits: u32,
}

/// What a key's full hash gives: where it belongs, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// Orders and places the key; kept in its record.
    pub place: u32,
    tag: u8,
}

impl Hash {
    /// Splits a 64-bit hash. Both halves must be well mixed.
    #[inline]
    pub const fn new(hash: u64) -> Self {
        let low = hash as u8;
        Self {
            place: (hash >> 32) as u32,
            tag: if low == 0 { 1 } else { low },
        }
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

    /// Number of chunks.
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

    /// The chunk where the search for `place` starts; grows with `place`.
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

    #[inline]
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

    /// Needs a free place.
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

    /// Takes `index` out; whether it was here.
    fn take(&mut self, place: u32, index: u32) -> bool {
        let home = self.home(place);
        let mut at = home;
        for _ in 0..self.chunks() {
            let chunk = self.chunk_mut(at);
            let found = (0..PLACES).find(|&i| chunk.tags[i] != 0 && chunk.indices[i] == index);
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

    /// Every key: tag and index.
    fn all(&self) -> impl Iterator<Item = (u8, u32)> {
        self.blocks.iter().flat_map(|b| b.iter()).flat_map(|chunk| {
            (0..PLACES)
                .filter(|&i| chunk.tags[i] != 0)
                .map(|i| (chunk.tags[i], chunk.indices[i]))
        })
    }

    fn places(&self) -> usize {
        self.chunks() * PLACES
    }

    fn resized(&self, blocks: usize, place_of: impl Fn(u32) -> u32) -> Self {
        let mut new = Self::new(blocks, self.bits);
        for (tag, index) in self.all() {
            new.put(place_of(index), tag, index);
        }
        new
    }
}

/// Blocks for `len` keys with room for a third more.
fn blocks_for(len: usize) -> usize {
    (len + len / 3).div_ceil(PLACES * BLOCK)
}

/// The table.
#[derive(Clone)]
pub struct HashTable {
    /// By the hash's top `depth` bits: the part's number. A part with fewer bits stands in several entries.
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

    /// How many keys there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// The index among those with this hash for which `is` holds. O(1).
    #[inline]
    pub fn find(&self, hash: Hash, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts[self.part_of(hash.place)].find(hash, is)
    }

    /// Touches what a look-up of `hash` will touch first, and waits for nothing. The value means nothing.
    #[inline]
    pub(crate) fn warm(&self, hash: Hash) -> u8 {
        let part = &self.parts[self.part_of(hash.place)];
        if part.len == 0 {
            0
        } else {
            part.chunk(part.home(hash.place)).tags[0]
        }
    }

    /// The first index that may be the wanted one.
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

    /// Adds an index that is not there yet. `place_of` gives any index's hash place.
    /// O(1) amortised; at most O(`PART_MAX`) when a part grows or splits.
    pub fn insert(&mut self, hash: Hash, index: u32, place_of: impl Fn(u32) -> u32) {
        let mut number = self.part_of(hash.place);
        if (self.parts[number].len + 1) * 16 > self.parts[number].places() * LOAD_MAX_16 {
            number = self.make_room(number, hash.place, place_of);
        }
        self.parts[number].put(hash.place, hash.tag, index);
        self.len += 1;
    }

    /// Makes room for so many keys in an empty table, as if they had come: none of them will be moved. O(keys).
    pub(crate) fn expect(&mut self, keys: usize) {
        if self.len > 0 || keys <= PART_MAX {
            return;
        }
        // Parts differ by chance: three quarters of what they may hold leaves room for that.
        let parts = (keys.div_ceil(PART_MAX / 4 * 3)).next_power_of_two();
        self.depth = parts.trailing_zeros();
        self.directory = (0..parts as u32).collect();
        let blocks = blocks_for(keys / parts);
        self.parts = (0..parts).map(|_| Part::new(blocks, self.depth)).collect();
    }

    /// Takes an index out; whether it was there. O(1) amortised.
    pub fn remove(&mut self, place: u32, index: u32, place_of: impl Fn(u32) -> u32) -> bool {
        let number = self.part_of(place);
        let part = &mut self.parts[number];
        if !part.take(place, index) {
            return false;
        }
        self.len -= 1;
        if part.len * 4 < part.places() && part.blocks.len() > blocks_for(part.len) {
            *part = part.resized(blocks_for(part.len), place_of);
        }
        true
    }

    /// Makes the part larger, or splits it; gives the number of the part that now takes `place`.
    fn make_room(&mut self, number: usize, place: u32, place_of: impl Fn(u32) -> u32) -> usize {
        let part = &self.parts[number];
        // Keys that share a hash cannot be split: the directory may not grow for them without end.
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
        let ones = part
            .all()
            .filter(|&(_, i)| place_of(i) >> (32 - bits) & 1 == 1)
            .count();
        let mut low = Part::new(blocks_for(part.len - ones + 1), bits);
        let mut high = Part::new(blocks_for(ones + 1), bits);
        for (tag, index) in part.all() {
            let place = place_of(index);
            let half = if place >> (32 - bits) & 1 == 1 {
                &mut high
            } else {
                &mut low
            };
            half.put(place, tag, index);
        }
        let new = self.parts.len() as u32;
        self.parts[number] = low;
        self.parts.push(high);
        // The directory's entries for this part are those that share its old bits.
        let shift = self.depth - bits;
        let first = (u64::from(place) >> (32 - bits) | 1) << shift;
        for entry in &mut self.directory[first as usize..(first + (1 << shift)) as usize] {
            *entry = new;
        }
        self.part_of(place)
    }

    /// Visits the keys of one chunk's worth of hashes from `from` on; gives where to go on, or `None` at
    /// the end. Keys that are there from the first call to the last are visited, each once.
    /// O(1) on average.
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
            for i in 0..PLACES {
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
        // The smallest place whose home is the next chunk; the next part's first at the end.
        // A part without chunks is as one with one that is empty.
        let start = (((home as u64 + 1) << 32).div_ceil(part.chunks().max(1) as u64))
            .div_ceil(1 << part.bits);
        u32::try_from(prefix + start).ok()
    }

    /// Bytes of the table.
    pub fn memory(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
            + self.parts.capacity() * size_of::<Part>()
            + self
                .parts
                .iter()
                .map(|p| p.blocks.len() * (size_of::<Block>() + size_of::<Box<Block>>()))
                .sum::<usize>()
    }

    /// Places in all chunks: how many keys would fill the table.
    pub fn places(&self) -> usize {
        self.parts.iter().map(Part::places).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    /// SplitMix64 (Steele et al., 2014): hashes for index numbers.
    fn mix(n: u32) -> u64 {
        let mut z = u64::from(n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn place(n: u32) -> u32 {
        Hash::new(mix(n)).place
    }

    #[test]
    fn equal_bytes_are_found() {
        for n in 1..=1000 {
            let bytes = mix(n).to_le_bytes();
            for byte in [bytes[0], bytes[3], bytes[7], 0, 1, 0x80, 0xff] {
                let found = equal_bytes(u64::from_le_bytes(bytes), byte);
                for (i, b) in bytes.iter().enumerate() {
                    assert_eq!(found >> i & 1 == 1, *b == byte);
                }
                assert_eq!(found >> 8, 0);
            }
        }
    }

    #[test]
    fn a_hundred_thousand_come_and_go() {
        let mut index = HashTable::default();
        for n in 0..100_000 {
            index.insert(Hash::new(mix(n)), n, place);
        }
        assert_eq!(index.len(), 100_000);
        let load = index.len() as f64 / index.places() as f64;
        assert!((0.6..0.9).contains(&load), "load {load}");
        for n in 0..100_000 {
            assert_eq!(index.find(Hash::new(mix(n)), |i| i == n), Some(n));
        }
        assert_eq!(index.find(Hash::new(mix(100_001)), |i| i == 100_001), None);
        for n in 0..100_000 {
            assert!(index.remove(place(n), n, place));
            assert!(!index.remove(place(n), n, place));
        }
        assert_eq!(index.len(), 0);
        assert!(index.memory() < 32_000, "{} bytes", index.memory());
        assert!(
            index.parts.iter().all(|p| p
                .blocks
                .iter()
                .flat_map(|b| b.iter())
                .all(|c| c.passed == 0)),
            "no key lives behind a chunk any more"
        );
    }

    /// Whatever was expected: more keys come, fewer, or none.
    #[test]
    fn what_was_expected_is_room_and_no_more() {
        for expected in [0, 4_096, 4_097, 50_000, 100_000, 400_000] {
            let mut index = HashTable::default();
            index.expect(expected);
            let parts = index.parts.len();
            for n in 0..100_000 {
                index.insert(Hash::new(mix(n)), n, place);
                assert!(expected < 100_000 || index.parts.len() == parts);
            }
            for n in 0..100_000 {
                assert_eq!(index.find(Hash::new(mix(n)), |i| i == n), Some(n));
            }
            let mut seen = HashSet::new();
            let mut from = Some(0);
            while let Some(at) = from {
                from = index.scan(at, place, |n| assert!(seen.insert(n)));
            }
            assert_eq!(seen.len(), 100_000, "{expected} were expected");
            for n in 0..100_000 {
                assert!(index.remove(place(n), n, place));
            }
            assert!(index.memory() < 200_000, "{} bytes", index.memory());
        }
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let hash = Hash::new(77 << 32 | 5);
        let mut index = HashTable::default();
        for n in 0..5000 {
            index.insert(hash, n, |_| hash.place);
        }
        for n in 0..5000 {
            assert_eq!(index.find(hash, |i| i == n), Some(n));
        }
        let mut seen = HashSet::new();
        let mut from = Some(0);
        while let Some(at) = from {
            from = index.scan(at, |_| hash.place, |i| assert!(seen.insert(i)));
        }
        assert_eq!(seen.len(), 5000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec((0..4u8, 0..20_000u32, 1..2000u32), 1..60)) {
            let mut index = HashTable::default();
            let mut model: HashSet<u32> = HashSet::new();
            for (what, start, count) in steps {
                for n in start..start + count {
                    if what > 0 {
                        if model.insert(n) {
                            index.insert(Hash::new(mix(n)), n, place);
                        }
                    } else {
                        prop_assert_eq!(index.remove(place(n), n, place), model.remove(&n));
                    }
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for n in 0..22_000 {
                prop_assert_eq!(index.find(Hash::new(mix(n)), |i| i == n).is_some(), model.contains(&n));
            }
        }

        /// Keys that stay are seen, each exactly once, whatever comes and goes during the scan.
        #[test]
        fn a_scan_sees_all_that_stay(seed in any::<u32>(), churn in proptest::collection::vec((any::<bool>(), 0..50_000u32, 1..3000u32), 1..30)) {
            let stay: Vec<u32> = (1_000_000..1_003_000).collect();
            let mut index = HashTable::default();
            let mut others: HashSet<u32> = HashSet::new();
            for &n in &stay {
                index.insert(Hash::new(mix(n)), n, place);
            }
            let mut seen: HashMap<u32, u32> = HashMap::new();
            let mut from = Some(0);
            let mut turn = seed;
            while let Some(at) = from {
                from = index.scan(at, place, |i| *seen.entry(i).or_default() += 1);
                turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if turn >> 29 == 0 {
                    let (add, start, count) = churn[turn as usize / 8 % churn.len()];
                    for n in start..start + count {
                        if add && others.insert(n) {
                            index.insert(Hash::new(mix(n)), n, place);
                        } else if !add && others.remove(&n) {
                            index.remove(place(n), n, place);
                        }
                    }
                }
            }
            for n in stay {
                prop_assert_eq!(seen.get(&n), Some(&1));
            }
        }
    }
}
