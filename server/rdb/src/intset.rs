//! Intsets: the ascending integers of a small set, all of the same width.
//!
//! The format is a header of two little-endian `u32` (the width in bytes, and the number of
//! members), followed by the members in ascending order.

use crate::corrupt::{Corrupt, Flaw};

const HEADER_LEN: usize = 8;

/// Number of bytes per member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Members are `i16`.
    Two = 2,
    /// Members are `i32`.
    Four = 4,
    /// Members are `i64`.
    Eight = 8,
}

impl Width {
    /// Returns the smallest width that holds `value`.
    pub fn of(value: i64) -> Self {
        if i16::try_from(value).is_ok() {
            Width::Two
        } else if i32::try_from(value).is_ok() {
            Width::Four
        } else {
            Width::Eight
        }
    }
}

/// An intset whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Intset<'a> {
    width: Width,
    members: &'a [u8],
}

impl<'a> Intset<'a> {
    /// Checks `bytes`: the length, the width, and that the members ascend. **O(n)** in members.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the offset into `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let Some((header, members)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Corrupt::new(0, Flaw::Header));
        };
        let [a, b, c, d, e, f, g, h] = *header;
        let width = match u32::from_le_bytes([a, b, c, d]) {
            2 => Width::Two,
            4 => Width::Four,
            8 => Width::Eight,
            _ => return Err(Corrupt::new(0, Flaw::Encoding)),
        };
        let count = u64::from(u32::from_le_bytes([e, f, g, h]));
        if count * width as u64 != members.len() as u64 {
            return Err(Corrupt::new(4, Flaw::Length));
        }
        let set = Intset { width, members };
        let mut last = None;
        for (index, member) in set.iter().enumerate() {
            if last >= Some(member) {
                return Err(Corrupt::new(
                    HEADER_LEN + index * width as usize,
                    Flaw::Order,
                ));
            }
            last = Some(member);
        }
        Ok(set)
    }

    /// Returns the number of members. **O(1)**.
    pub fn len(&self) -> usize {
        self.members.len() / self.width as usize
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the number of bytes per member.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Returns the members without the header, little-endian, [`width`](Self::width) bytes each.
    pub fn members(&self) -> &'a [u8] {
        self.members
    }

    /// Iterates over the members in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> + DoubleEndedIterator + use<'a> {
        let width = self.width;
        self.members.chunks_exact(width as usize).map(move |bytes| {
            // The bytes go to the upper end of the `i64`; the shift then extends the sign.
            let mut wide = [0; 8];
            wide[8 - width as usize..].copy_from_slice(bytes);
            i64::from_le_bytes(wide) >> (64 - 8 * width as u32)
        })
    }
}

/// Appends the intset of `members`, which must ascend and fit in `width`. **O(n)** in members.
///
/// # Panics
///
/// If there are more than `u32::MAX` members, the format's limit.
pub fn write(out: &mut Vec<u8>, width: Width, members: impl ExactSizeIterator<Item = i64>) {
    let count = u32::try_from(members.len()).expect("an intset has less than 2^32 members");
    out.reserve(HEADER_LEN + members.len() * width as usize);
    out.extend_from_slice(&(width as u32).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    for member in members {
        debug_assert!(Width::of(member) <= width);
        out.extend_from_slice(&member.to_le_bytes()[..width as usize]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_format_by_hand() {
        let bytes = [2, 0, 0, 0, 2, 0, 0, 0, 0xFE, 0xFF, 5, 0];
        let set = Intset::new(&bytes).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [-2, 5]);
        let refused = |at: usize, byte| {
            let mut bad = bytes;
            bad[at] = byte;
            Intset::new(&bad).unwrap_err()
        };
        assert_eq!(refused(0, 3), Corrupt::new(0, Flaw::Encoding));
        assert_eq!(refused(0, 4), Corrupt::new(4, Flaw::Length));
        assert_eq!(refused(7, 1), Corrupt::new(4, Flaw::Length));
        assert_eq!(refused(11, 0xFF), Corrupt::new(10, Flaw::Order));
        assert_eq!(Intset::new(&bytes[..7]).unwrap_err().reason, Flaw::Header);
    }

    proptest! {
        #[test]
        fn written_sets_read_back(
            members in prop::collection::btree_set(
                prop_oneof![-70_000i64..70_000, any::<i32>().prop_map(i64::from), any::<i64>()], 0..50,
            ),
        ) {
            let width = members.iter().map(|&m| Width::of(m)).max().unwrap_or(Width::Two);
            let mut out = Vec::new();
            write(&mut out, width, members.iter().copied().collect::<Vec<_>>().into_iter());
            let set = Intset::new(&out).unwrap();
            prop_assert_eq!(set.len(), members.len());
            prop_assert!(set.iter().eq(members));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(0u8..10, 0..60)) {
            if let Ok(set) = Intset::new(&bytes) {
                prop_assert_eq!(set.iter().count(), set.len());
            }
        }
    }
}
