//! LZF, the compression of strings in snapshots (Marc Lehmann's LibLZF format).
//!
//! After a control byte n below 32, n + 1 literal bytes follow. Any other control byte starts a
//! copy of earlier output. Its upper three bits are the length minus 2; if they are 7, a further
//! byte is added to the length. Its lower five bits and the next byte are the distance minus one.

use std::ops::RangeInclusive;

use crate::corrupt::{Corrupt, Flaw};

/// Maximum number of literal bytes after one control byte.
const LITERALS_MAX: usize = 32;
/// Minimum length of a copy.
const COPY_MIN: usize = 3;
/// Maximum length of a copy.
const COPY_MAX: usize = 264;
/// Maximum distance of a copy.
const BACK_MAX: usize = 1 << 13;
/// Maximum factor of expansion: three bytes encode the longest copy.
pub(crate) const EXPANSION_MAX: u64 = COPY_MAX as u64 / 3;

/// Appends to `out` the `len` bytes to which `packed` expands.
///
/// # Errors
///
/// [`Corrupt`] with the offset into `packed`. In this case, `out` may have some of the bytes. If
/// `packed` is too short to expand to `len` bytes, the error comes before memory is reserved.
pub fn unpack(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    if len as u64 > (packed.len() as u64).saturating_mul(EXPANSION_MAX) {
        return Err(Corrupt::new(0, Flaw::Compression));
    }
    out.reserve(len);
    let base = out.len();
    let mut at = 0;
    let damaged = |at| Corrupt::new(at, Flaw::Compression);
    while let Some(&control) = packed.get(at) {
        let start = at;
        at += 1;
        let written = out.len() - base;
        if control < 32 {
            let end = at + usize::from(control) + 1;
            let literals = packed.get(at..end).ok_or(damaged(start))?;
            if written + literals.len() > len {
                return Err(damaged(start));
            }
            out.extend_from_slice(literals);
            at = end;
            continue;
        }
        let mut count = usize::from(control >> 5) + 2;
        if count == 9 {
            count += usize::from(*packed.get(at).ok_or(damaged(start))?);
            at += 1;
        }
        let low = usize::from(*packed.get(at).ok_or(damaged(start))?);
        at += 1;
        let back = (usize::from(control & 0x1F) << 8 | low) + 1;
        if back > written || written + count > len {
            return Err(damaged(start));
        }
        // A copy that is longer than its distance repeats its own output. Each round copies all
        // output from `from` on, so the piece doubles.
        let from = out.len() - back;
        while count > 0 {
            let piece = count.min(out.len() - from);
            out.extend_from_within(from..from + piece);
            count -= piece;
        }
    }
    if out.len() - base != len {
        return Err(damaged(packed.len()));
    }
    Ok(())
}

/// Sizes of the table: for short inputs, which DUMP and MIGRATE have most often, clearing a large
/// table would take longer than the compression.
const TABLE_BITS: RangeInclusive<u32> = 8..=14;

/// Compresses strings. The packer reuses its table for all strings.
pub struct Packer {
    /// The last position of each hash of three bytes, counted over all inputs. A position below
    /// `base` belongs to an earlier input, so the table need not be cleared between inputs.
    table: Vec<u32>,
    /// Number of bits of a hash that the current input uses. It depends on nothing else than the
    /// input's length, so the output depends on nothing else than the input.
    bits: u32,
    /// Position of the current input's first byte.
    base: u32,
}

impl Packer {
    /// Returns a packer. Its table grows with the inputs to at most 64 KiB.
    pub fn new() -> Self {
        Packer {
            table: Vec::new(),
            bits: *TABLE_BITS.start(),
            base: 1,
        }
    }

    /// Appends `text` compressed. Returns false, and leaves `out` unchanged, if the compressed text
    /// would have more than `len_max` bytes. **O(n)** in the bytes of `text`.
    pub fn pack(&mut self, text: &[u8], len_max: usize, out: &mut Vec<u8>) -> bool {
        let Ok(len) = u32::try_from(text.len()) else {
            return false;
        };
        if self.base.checked_add(len).is_none() {
            self.table.fill(0);
            self.base = 1;
            if len == u32::MAX {
                return false;
            }
        }
        // At least four places for each position, so that few positions overwrite each other.
        let bits = u32::BITS - len.leading_zeros() + 2;
        self.bits = bits.clamp(*TABLE_BITS.start(), *TABLE_BITS.end());
        if self.table.len() < 1 << self.bits {
            self.table.resize(1 << self.bits, 0);
        }
        let start = out.len();
        let fits = self.pack_within(text, start + len_max, out);
        self.base += len;
        if !fits {
            out.truncate(start);
        }
        fits
    }

    fn pack_within(&mut self, text: &[u8], end_max: usize, out: &mut Vec<u8>) -> bool {
        let (mut at, mut literals) = (0, 0);
        while let Some(&three) = text
            .get(at..)
            .and_then(|rest| rest.first_chunk::<COPY_MIN>())
        {
            let Some(from) = self
                .last_position(three, at)
                .filter(|&from| at - from <= BACK_MAX && text[from..from + COPY_MIN] == three)
            else {
                // Steps grow with the number of bytes without a repetition, so that
                // incompressible text takes little time.
                at += 1 + ((at - literals) >> 7);
                continue;
            };
            let same_max = COPY_MAX.min(text.len() - at);
            let same = (COPY_MIN..same_max)
                .find(|&n| text[from + n] != text[at + n])
                .unwrap_or(same_max);
            write_literals(&text[literals..at], out);
            write_copy(at - from, same, out);
            if out.len() > end_max {
                return false;
            }
            // Later copies often start at the end of this copy, so its last positions go into the
            // table.
            let next = at + same;
            for position in (next - 2).max(at + 1)..next {
                if let Some(&three) = text[position..].first_chunk::<COPY_MIN>() {
                    self.last_position(three, position);
                }
            }
            (at, literals) = (next, next);
        }
        write_literals(&text[literals..], out);
        out.len() <= end_max
    }

    /// Returns the last position in this input of three bytes with the hash of `three`, and stores
    /// `at` as the last position.
    #[inline]
    fn last_position(&mut self, [a, b, c]: [u8; COPY_MIN], at: usize) -> Option<usize> {
        let bits = u32::from_le_bytes([a, b, c, 0]);
        let slot = (bits.wrapping_mul(0x9E37_79B1) >> (32 - self.bits)) as usize;
        let last = std::mem::replace(&mut self.table[slot], self.base + at as u32);
        last.checked_sub(self.base).map(|at| at as usize)
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

fn write_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn write_copy(back: usize, count: usize, out: &mut Vec<u8>) {
    let (back, count) = (back - 1, count - 2);
    let high = (back >> 8) as u8;
    if count < 7 {
        out.push((count as u8) << 5 | high);
    } else {
        out.extend_from_slice(&[7 << 5 | high, (count - 7) as u8]);
    }
    out.push(back as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpacked(packed: &[u8], len: usize) -> Result<Vec<u8>, Corrupt> {
        let mut out = b"before".to_vec();
        unpack(packed, len, &mut out).map(|()| out.split_off(6))
    }

    #[test]
    fn the_format_by_hand() {
        assert_eq!(unpacked(&[2, b'a', b'b', b'c'], 3).unwrap(), b"abc");
        // A copy of seven bytes from a distance of three, which repeats its own output.
        let packed = [2, b'a', b'b', b'c', 5 << 5, 2];
        assert_eq!(unpacked(&packed, 10).unwrap(), b"abcabcabca");
        assert_eq!(
            unpacked(&[0, b'x', 7 << 5, 255, 0], 265).unwrap(),
            [b'x'; 265]
        );
        let refused = |packed: &[u8], len| unpacked(packed, len).unwrap_err().offset;
        assert_eq!(refused(&packed, 11), 6);
        assert_eq!(refused(&packed, 9), 4);
        assert_eq!(refused(&[1, b'a'], 2), 0);
        // A copy from before the start of the unpacked bytes. `out` has other bytes there.
        assert_eq!(refused(&[0, b'a', 1 << 5, 1], 4), 2);
        assert_eq!(refused(&[0, b'a'], usize::MAX), 0);
    }

    #[test]
    fn text_that_does_not_shrink_leaves_the_output_unchanged() {
        let mut out = vec![1];
        assert!(!Packer::new().pack(b"abcdefghijklmnopqrstuvwxyz", 22, &mut out));
        assert_eq!(out, [1]);
        assert!(Packer::new().pack(&[0; 1000], 20, &mut out));
    }

    #[test]
    fn positions_restart_before_they_overflow() {
        let mut packer = Packer::new();
        packer.base = u32::MAX - 500;
        for _ in 0..3 {
            let text = b"again and again and again and again".repeat(10);
            let mut out = Vec::new();
            assert!(packer.pack(&text, 60, &mut out));
            assert_eq!(unpacked(&out, text.len()).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn packed_text_unpacks(
            texts in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..1000),
                    prop::collection::vec(0u8..3, 0..3000),
                    ("[a-c]{1,9}", 1usize..2000).prop_map(|(piece, n)| piece.repeat(n).into_bytes()),
                ],
                1..5,
            ),
        ) {
            let mut packer = Packer::new();
            for text in texts {
                let mut out = Vec::new();
                prop_assert!(packer.pack(&text, usize::MAX / 2, &mut out));
                prop_assert_eq!(unpacked(&out, text.len()).unwrap(), text);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(packed in prop::collection::vec(any::<u8>(), 0..80), len in 0usize..4000) {
            if let Ok(out) = unpacked(&packed, len) {
                prop_assert_eq!(out.len(), len);
            }
        }
    }
}
