//! The directory: from the top bits of a place to the number of a part.
//!
//! A table has one directory. In cluster mode the keys of one slot may be a large share of all
//! keys, and a directory that is deep enough to divide them would be large. Such a part gets a
//! *nested* directory of its own instead.

/// From this number on, an entry is the number of a nested directory, not of a part.
pub(super) const NESTED: u32 = 1 << 31;
/// Maximum number of top bits that select a part.
const BITS_MAX: u32 = 30;

/// Maps some bits of a place to numbers of parts.
#[derive(Clone)]
pub(super) struct Directory {
    /// Number of top bits before the bits of this directory.
    above: u32,
    /// Number of bits of this directory.
    depth: u32,
    entries: Vec<u32>,
}

impl Directory {
    /// Creates a directory of 2^depth different parts.
    pub(super) fn of_parts(depth: u32) -> Self {
        Self {
            above: 0,
            depth,
            entries: (0..1 << depth).collect(),
        }
    }

    /// Creates a directory with two entries for this part, whose places share the top `above` bits.
    pub(super) fn nested(above: u32, part: u32) -> Self {
        Self {
            above,
            depth: 1,
            entries: vec![part; 2],
        }
    }

    /// Returns the entry for a place, in a directory that is not nested.
    #[inline]
    pub(super) fn entry(&self, place: u32) -> u32 {
        self.entries[(u64::from(place) << self.depth >> 32) as usize]
    }

    /// Same as [`Directory::entry`], in a nested directory.
    pub(super) fn nested_entry(&self, place: u32) -> u32 {
        self.entry(place << self.above)
    }

    /// Returns the number of top bits that this directory tells apart.
    pub(super) fn bits(&self) -> u32 {
        self.above + self.depth
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }

    /// Uses one bit more, if there are then at most `max` entries. Returns whether it does. O(len).
    pub(super) fn double(&mut self, max: usize) -> bool {
        let may = self.len() * 2 <= max && self.bits() < BITS_MAX;
        if may {
            self.entries = self.entries.iter().flat_map(|&n| [n, n]).collect();
            self.depth += 1;
        }
        may
    }

    /// Sets the entry for the top [`bits`](Directory::bits) of a place.
    pub(super) fn set(&mut self, place: u32, entry: u32) {
        let bits = self.bits();
        self.set_all(place, bits, entry);
    }

    /// Sets all entries for the top `bits` bits of a place. The directory must have these bits.
    pub(super) fn set_all(&mut self, place: u32, bits: u32, entry: u32) {
        let bits = bits - self.above;
        let shift = self.depth - bits;
        let first = u64::from(place << self.above) >> (32 - bits) << shift;
        self.entries[first as usize..(first + (1 << shift)) as usize].fill(entry);
    }
}
