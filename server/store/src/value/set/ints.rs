//! Integers in ascending order, all as wide as the widest integer requires, in the format of
//! Redis's intset.
//!
//! The header is two little-endian words of four bytes: the width in bytes (2, 4 or 8) and the
//! count. The little-endian integers follow. The width grows when an integer requires it, and never
//! shrinks.

use std::fmt;

use punctual_rdb::Intset;

/// Size of the header in bytes.
const HEADER: usize = 8;

/// Ascending integers in one block of exact size.
#[derive(Clone, PartialEq, Eq)]
pub struct Ints(Box<[u8]>);

/// Returns the number of bytes that `value` needs.
const fn width_of(value: i64) -> usize {
    match value {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}

/// Decodes an integer of two, four or eight bytes.
#[inline]
fn read(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b] => i16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        _ => bytes.try_into().map_or(0, i64::from_le_bytes),
    }
}

impl Default for Ints {
    fn default() -> Self {
        Self::build(2, 0, std::iter::empty())
    }
}

impl Ints {
    /// Creates an empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a block from ascending, distinct integers of `width` bytes each.
    fn build(width: usize, count: usize, ascending: impl Iterator<Item = i64>) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + width * count);
        bytes.extend_from_slice(&(width as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for value in ascending {
            bytes.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        let mut ints = Self(bytes.into_boxed_slice());
        ints.recount();
        ints
    }

    /// Copies a validated intset. O(n).
    pub fn from_intset(intset: Intset<'_>) -> Self {
        Self::build(intset.width() as usize, intset.len(), intset.iter())
    }

    /// Returns the intset: header and integers.
    pub fn as_intset(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    fn width(&self) -> usize {
        usize::from(self.0[0])
    }

    #[inline]
    fn content(&self) -> &[u8] {
        &self.0[HEADER..]
    }

    /// Returns the number of integers. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.content().len() / self.width()
    }

    /// Returns true if there are no integers.
    pub fn is_empty(&self) -> bool {
        self.content().is_empty()
    }

    /// Writes the count into the header.
    fn recount(&mut self) {
        let count = self.len() as u32;
        self.0[4..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    /// Returns the integer at `at`, in ascending order.
    ///
    /// # Panics
    /// If `at` is out of range.
    #[inline]
    pub fn get(&self, at: usize) -> i64 {
        let width = self.width();
        read(&self.content()[at * width..(at + 1) * width])
    }

    /// Returns the smallest and the largest integer.
    pub fn ends(&self) -> Option<(i64, i64)> {
        (!self.is_empty()).then(|| (self.get(0), self.get(self.len() - 1)))
    }

    /// Returns the position of `value`, or as an error the position to insert it at. O(log n), O(1)
    /// if `value` is below the smallest or above the largest integer.
    #[inline]
    pub fn search(&self, value: i64) -> Result<usize, usize> {
        let Some((first, last)) = self.ends() else {
            return Err(0);
        };
        if value > last {
            return Err(self.len());
        }
        if value < first {
            return Err(0);
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let there = self.get(middle);
            if there == value {
                return Ok(middle);
            }
            if there < value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Err(low)
    }

    /// Inserts `value` at the position from [`Ints::search`]. Moves O(n) bytes.
    pub fn insert(&mut self, at: usize, value: i64) {
        let width = self.width();
        if width_of(value) > width {
            // An integer that needs more bytes than all stored ones is the new smallest or largest.
            let (before, after) = if value < 0 {
                (Some(value), None)
            } else {
                (None, Some(value))
            };
            let all = before.into_iter().chain(self.iter()).chain(after);
            *self = Self::build(width_of(value), self.len() + 1, all);
            return;
        }
        let mut bytes = Vec::from(std::mem::take(&mut self.0));
        bytes.reserve_exact(width);
        let start = HEADER + at * width;
        let end = bytes.len();
        bytes.resize(end + width, 0);
        bytes.copy_within(start..end, start + width);
        bytes[start..start + width].copy_from_slice(&value.to_le_bytes()[..width]);
        self.0 = bytes.into_boxed_slice();
        self.recount();
    }

    /// Removes the integer at `at`. Moves O(n) bytes.
    ///
    /// # Panics
    /// If `at` is out of range.
    pub fn remove(&mut self, at: usize) {
        let width = self.width();
        let mut bytes = Vec::from(std::mem::take(&mut self.0));
        bytes.drain(HEADER + at * width..HEADER + (at + 1) * width);
        self.0 = bytes.into_boxed_slice();
        self.recount();
    }

    /// Keeps the integers for which `keep` returns true. Calls it in ascending order. O(n).
    pub fn retain(&mut self, mut keep: impl FnMut(i64) -> bool) {
        let width = self.width();
        let mut bytes = self.0[..HEADER].to_vec();
        for int in self.content().chunks_exact(width) {
            if keep(read(int)) {
                bytes.extend_from_slice(int);
            }
        }
        self.0 = bytes.into_boxed_slice();
        self.recount();
    }

    /// Iterates over all integers in ascending order.
    pub fn iter(&self) -> Ascending<'_> {
        Ascending {
            bytes: self.content(),
            width: self.width(),
        }
    }

    /// Returns the size of the block in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Ints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over integers in ascending order.
#[derive(Clone)]
pub struct Ascending<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl Iterator for Ascending<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        let (int, rest) = self.bytes.split_at_checked(self.width)?;
        self.bytes = rest;
        Some(read(int))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bytes.len() / self.width;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Integers of all widths, including the borders between widths.
    fn int() -> impl Strategy<Value = i64> {
        prop_oneof![
            -40..40i64,
            any::<i16>().prop_map(i64::from),
            any::<i32>().prop_map(i64::from),
            any::<i64>(),
            (0..3usize, 0..2i64, any::<bool>()).prop_map(|(width, over, negative)| {
                let largest = [i64::from(i16::MAX), i64::from(i32::MAX), i64::MAX - 1][width];
                if negative {
                    -(largest + over) - 1
                } else {
                    largest + over
                }
            }),
        ]
    }

    fn read(bytes: &[u8]) -> Option<Ints> {
        Intset::new(bytes).ok().map(Ints::from_intset)
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_set(steps in proptest::collection::vec((int(), any::<bool>()), 1..300)) {
            let mut ints = Ints::new();
            let mut model = BTreeSet::new();
            let mut widest = 2;
            for (value, remove) in steps {
                match ints.search(value) {
                    Ok(at) => {
                        prop_assert!(model.contains(&value));
                        if remove {
                            ints.remove(at);
                            model.remove(&value);
                        }
                    }
                    Err(at) => {
                        prop_assert!(model.insert(value));
                        ints.insert(at, value);
                        widest = widest.max(width_of(value));
                    }
                }
                prop_assert_eq!(ints.len(), model.len());
                prop_assert_eq!(ints.width(), widest);
                prop_assert_eq!(ints.heap_bytes(), 8 + widest * model.len());
            }
            prop_assert!(ints.iter().eq(model.iter().copied()));
            prop_assert_eq!(ints.ends(), model.first().copied().zip(model.last().copied()));
            let again = read(ints.as_intset());
            prop_assert_eq!(again.as_ref(), Some(&ints));
            ints.retain(|value| value % 2 == 0);
            prop_assert!(ints.iter().eq(model.into_iter().filter(|value| value % 2 == 0)));
            prop_assert_eq!(ints.len(), ints.iter().count());
        }

        #[test]
        fn foreign_bytes_are_validated(bytes in proptest::collection::vec(0..9u8, 0..40)) {
            if let Some(ints) = read(&bytes) {
                prop_assert_eq!(ints.as_intset(), &bytes[..]);
                prop_assert_eq!(ints.len(), ints.iter().count());
            }
        }
    }

    #[test]
    fn the_bytes_equal_an_intset() {
        let mut ints = Ints::new();
        for value in [5, -1, 300] {
            ints.insert(ints.search(value).unwrap_err(), value);
        }
        let expected = [2, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 5, 0, 0x2c, 1];
        assert_eq!(ints.as_intset(), expected);
        let mut twice = expected;
        twice[8..10].copy_from_slice(&[5, 0]);
        assert_eq!(read(&twice), None);
        assert_eq!(read(&expected[..13]), None);
    }
}
