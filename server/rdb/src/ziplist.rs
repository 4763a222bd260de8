//! Ziplists, the encoding of small collections up to Redis 6.2. The crate reads them and does not
//! write them.
//!
//! A ziplist has a header (`u32` total bytes, `u32` offset of the last entry, `u16` entries, where
//! 65535 means "unknown"), the entries, and a final `0xFF`. An entry has the length of the previous
//! entry (a byte, or `0xFE` and a `u32`), an encoding, and the data.

use crate::corrupt::{Corrupt, Flaw};
use crate::listpack::{self, Element};

const HEADER_LEN: usize = 10;
const END: u8 = 0xFF;
const LONG_LEN: u8 = 0xFE;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// A ziplist whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Ziplist<'a> {
    entries: &'a [u8],
    count: usize,
}

impl<'a> Ziplist<'a> {
    /// Checks `bytes`: header, every entry, every previous length, end mark. **O(n)** in entries.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the offset into `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Corrupt::new(0, Flaw::Header));
        };
        let [a, b, c, d, e, f, g, h, low, high] = *header;
        if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
            return Err(Corrupt::new(0, Flaw::Length));
        }
        let Some((&END, entries)) = rest.split_last() else {
            return Err(Corrupt::new(bytes.len() - 1, Flaw::End));
        };
        let (mut at, mut count, mut last, mut last_len) = (0, 0, 0, 0);
        while at < entries.len() {
            let corrupt = |reason| Corrupt::new(HEADER_LEN + at, reason);
            if entries[at] == END {
                return Err(corrupt(Flaw::End));
            }
            let (before, head) = previous_len(entries, at).ok_or(corrupt(Flaw::Entry))?;
            if before != last_len {
                return Err(corrupt(Flaw::Backlen));
            }
            let Some((_, end)) = data_at(entries, at + head) else {
                return Err(corrupt(match entries.get(at + head).copied() {
                    Some(0xC1..=0xCF | 0xD1..=0xDF | 0xE1..=0xEF | END) => Flaw::Encoding,
                    _ => Flaw::Entry,
                }));
            };
            (last, last_len, at) = (at, end - at, end);
            count += 1;
        }
        if u32::from_le_bytes([e, f, g, h]) as usize != HEADER_LEN + last {
            return Err(Corrupt::new(4, Flaw::Tail));
        }
        match u16::from_le_bytes([low, high]) {
            COUNT_UNKNOWN => {}
            stored if usize::from(stored) == count => {}
            _ => return Err(Corrupt::new(8, Flaw::Count)),
        }
        Ok(Ziplist { entries, count })
    }

    /// Returns the number of entries. **O(1)**.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let entries = self.entries;
        let mut at = 0;
        std::iter::from_fn(move || {
            let (_, head) = previous_len(entries, at)?;
            let (element, end) = data_at(entries, at + head)?;
            at = end;
            Some(element)
        })
    }

    /// Appends the listpack of the same elements.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the listpack would exceed 4 GiB, the format's limit.
    pub fn write_listpack(&self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        // A listpack stores the text of an integer as an integer, so that equal elements have equal
        // bytes.
        listpack::wrap_elements(out, self.count, self.iter().map(Element::canonical))
    }
}

/// Returns the length of the previous entry, which is stored at `at`, and the number of bytes in
/// which it is stored.
fn previous_len(entries: &[u8], at: usize) -> Option<(usize, usize)> {
    match *entries.get(at)? {
        LONG_LEN => {
            let len = entries.get(at + 1..)?.first_chunk()?;
            Some((u32::from_le_bytes(*len) as usize, 5))
        }
        short => Some((usize::from(short), 1)),
    }
}

/// Returns the element whose encoding is at `at`, after the previous length, and its end.
fn data_at(entries: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let first = *entries.get(at)?;
    let rest = &entries[at + 1..];
    let text = |head: usize, len: usize| {
        let start = at + head;
        let end = start.checked_add(len)?;
        Some((Element::Bytes(entries.get(start..end)?), end))
    };
    let int = |value: i64, len: usize| Some((Element::Int(value), at + 1 + len));
    match first {
        0x00..0x40 => text(1, usize::from(first)),
        0x40..0x80 => text(
            2,
            usize::from(first & 0x3F) << 8 | usize::from(*rest.first()?),
        ),
        0x80..0xC0 => text(5, u32::from_be_bytes(*rest.first_chunk()?) as usize),
        0xC0 => int(i64::from(i16::from_le_bytes(*rest.first_chunk()?)), 2),
        0xD0 => int(i64::from(i32::from_le_bytes(*rest.first_chunk()?)), 4),
        0xE0 => int(i64::from_le_bytes(*rest.first_chunk()?), 8),
        0xF0 => {
            let &[a, b, c] = rest.first_chunk()?;
            int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 3)
        }
        0xF1..=0xFD => int(i64::from(first - 0xF1), 0),
        0xFE => int(i64::from(*rest.first()? as i8), 1),
        _ => None,
    }
}
