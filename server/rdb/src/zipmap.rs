//! Zipmaps, the encoding of small hashes before Redis 2.6, which old files may still contain. Read only.
//!
//! A byte with the number of pairs (254 and above: unknown), the pairs, and a final `0xFF`. A pair is the
//! field's length and text, the value's length, a byte with the number of unused bytes after the value, and
//! the value's text. A length is a byte, or `0xFE` and a little-endian `u32`.

use crate::corrupt::{Corrupt, Flaw};
use crate::listpack::{self, Element};

const END: u8 = 0xFF;
const LONG_LEN: u8 = 0xFE;

/// A zipmap whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Zipmap<'a> {
    pairs: &'a [u8],
    count: usize,
}

impl<'a> Zipmap<'a> {
    /// Checks `bytes`: every pair, end mark, count. **O(n)** in pairs.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the offset into `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let Some((&told, rest)) = bytes.split_first() else {
            return Err(Corrupt::new(0, Flaw::Header));
        };
        let Some((&END, pairs)) = rest.split_last() else {
            return Err(Corrupt::new(bytes.len() - 1, Flaw::End));
        };
        let (mut at, mut count) = (0, 0);
        while at < pairs.len() {
            let Some((_, end)) = pair_at(pairs, at) else {
                let reason = if pairs[at] == END {
                    Flaw::End
                } else {
                    Flaw::Entry
                };
                return Err(Corrupt::new(1 + at, reason));
            };
            at = end;
            count += 1;
        }
        if told < LONG_LEN && usize::from(told) != count {
            return Err(Corrupt::new(0, Flaw::Count));
        }
        Ok(Zipmap { pairs, count })
    }

    /// Returns the number of pairs. **O(1)**.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Iterates over fields and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let pairs = self.pairs;
        let mut at = 0;
        std::iter::from_fn(move || {
            let (pair, end) = pair_at(pairs, at)?;
            at = end;
            Some(pair)
        })
    }

    /// Appends the listpack of alternating fields and values.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the listpack would exceed 4 GiB, the format's limit.
    pub fn write_listpack(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let elements = self.iter().flat_map(|(field, value)| [field, value]);
        listpack::wrap_elements(out, 2 * self.count, elements.map(Element::of))
    }
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// Returns the pair at `at` and its end.
fn pair_at(pairs: &[u8], at: usize) -> Option<(Pair<'_>, usize)> {
    let (start, len) = len_at(pairs, at)?;
    let field_end = start.checked_add(len)?;
    let field = pairs.get(start..field_end)?;
    let (unused_at, len) = len_at(pairs, field_end)?;
    let unused = usize::from(*pairs.get(unused_at)?);
    let start = unused_at + 1;
    let value = pairs.get(start..start.checked_add(len)?)?;
    let end = start + len + unused;
    (end <= pairs.len()).then_some(((field, value), end))
}

/// Returns the start of the text whose length is at `at`, and that length.
fn len_at(pairs: &[u8], at: usize) -> Option<(usize, usize)> {
    match *pairs.get(at)? {
        END => None,
        LONG_LEN => {
            let len = pairs.get(at + 1..)?.first_chunk()?;
            Some((at + 5, u32::from_le_bytes(*len) as usize))
        }
        short => Some((at + 1, usize::from(short))),
    }
}
