//! Complete listpacks: the header and the end mark around the entries, and the checks of untrusted
//! listpacks.

use std::collections::HashSet;

use super::edit::append;
use super::entry::{Element, backlen_before, body_at, next, prev};
use crate::corrupt::{Corrupt, Flaw};

/// Length of a listpack's header: `u32` total bytes and `u16` entries, both little-endian.
pub const HEADER_LEN: usize = 6;
const END: u8 = 0xFF;
/// A count in the header that means "unknown".
const COUNT_UNKNOWN: u16 = u16::MAX;

/// A complete listpack whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Listpack<'a> {
    entries: &'a [u8],
    count: usize,
}

impl<'a> Listpack<'a> {
    /// Checks `bytes` like [`validate`]. **O(n)** in entries.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the bytes are inconsistent.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let count = validate(bytes)?;
        Ok(Listpack {
            entries: &bytes[HEADER_LEN..bytes.len() - 1],
            count,
        })
    }

    /// Returns the number of entries. **O(1)**.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bare entries.
    pub fn entries(&self) -> &'a [u8] {
        self.entries
    }

    /// Returns true if two entries at multiples of `stride` are equal. With `stride` 2, the method
    /// compares the fields among fields and values. **O(n)** in entries, in time and memory.
    pub fn has_duplicates(&self, stride: usize) -> bool {
        let mut heads = self.iter().step_by(stride).map(Element::canonical);
        if self.count / stride <= 8 {
            let mut few = [Element::Int(0); 9];
            return heads.enumerate().any(|(seen, head)| {
                few[seen] = head;
                few[..seen].contains(&head)
            });
        }
        let mut seen = HashSet::with_capacity(self.count / stride);
        !heads.all(|head| seen.insert(head))
    }

    /// Iterates over the elements, from either end.
    pub fn iter(&self) -> Entries<'a> {
        Entries::new(self.entries)
    }
}

impl<'a> IntoIterator for Listpack<'a> {
    type Item = Element<'a>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

/// An iterator over the elements of bare entries, from either end.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Returns an iterator over bare entries. Bytes that are not an entry end the iteration.
    pub fn new(entries: &'a [u8]) -> Self {
        Entries { bytes: entries }
    }

    /// Returns the remaining entries.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (element, end) = next(self.bytes, 0)?;
        self.bytes = &self.bytes[end..];
        Some(element)
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (element, start) = prev(self.bytes, self.bytes.len())?;
        self.bytes = &self.bytes[..start];
        Some(element)
    }
}

/// Checks a complete untrusted listpack (header, every entry, every backlen, end mark, count) and
/// returns its number of entries. **O(n)** in entries.
///
/// # Errors
///
/// [`Corrupt`] with the offset into `bytes`.
pub fn validate(bytes: &[u8]) -> Result<usize, Corrupt> {
    let Some((&header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(Corrupt::new(0, Flaw::Header));
    };
    let [a, b, c, d, low, high] = header;
    if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
        return Err(Corrupt::new(0, Flaw::Length));
    }
    let Some((&END, entries)) = rest.split_last() else {
        return Err(Corrupt::new(bytes.len() - 1, Flaw::End));
    };
    let count = validate_entries(entries).map_err(|corrupt| Corrupt {
        offset: HEADER_LEN + corrupt.offset,
        ..corrupt
    })?;
    match u16::from_le_bytes([low, high]) {
        COUNT_UNKNOWN => Ok(count),
        stored if usize::from(stored) == count => Ok(count),
        _ => Err(Corrupt::new(4, Flaw::Count)),
    }
}

/// Checks untrusted bare entries and returns their number. **O(n)** in entries.
///
/// # Errors
///
/// [`Corrupt`] with the offset into `entries`.
pub fn validate_entries(entries: &[u8]) -> Result<usize, Corrupt> {
    let mut at = 0;
    let mut count = 0;
    while at < entries.len() {
        let Some((_, body)) = body_at(entries, at) else {
            return Err(Corrupt::new(
                at,
                match entries[at] {
                    END => Flaw::End,
                    0xF5..END => Flaw::Encoding,
                    _ => Flaw::Entry,
                },
            ));
        };
        let backlen = at + body;
        at = backlen + super::entry::backlen_len(body);
        if at > entries.len() {
            return Err(Corrupt::new(backlen, Flaw::Entry));
        }
        if backlen_before(entries, at) != Some((body, backlen)) {
            return Err(Corrupt::new(backlen, Flaw::Backlen));
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the length of the listpack around `entries_len` bytes of entries.
#[inline]
pub const fn wrapped_len(entries_len: usize) -> usize {
    HEADER_LEN + entries_len + 1
}

/// Returns the listpack of `count` bare entries. One allocation, one copy.
///
/// # Panics
///
/// If the result would exceed 4 GiB, the format's limit.
pub fn wrap(entries: &[u8], count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(wrapped_len(entries.len()));
    wrap_into(&mut out, entries, count);
    out
}

/// Appends the listpack of `count` bare entries to `out`.
///
/// # Panics
///
/// Like [`wrap`].
pub fn wrap_into(out: &mut Vec<u8>, entries: &[u8], count: usize) {
    wrap_written(out, wrapped_len(entries.len()), count, |out| {
        out.extend_from_slice(entries);
    });
}

/// Appends a listpack of `len` bytes, whose `count` entries `write` appends.
pub(crate) fn wrap_written(
    out: &mut Vec<u8>,
    len: usize,
    count: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    let len_field = u32::try_from(len).expect("a listpack is shorter than 4 GiB");
    let count_field = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    out.reserve(len);
    out.extend_from_slice(&len_field.to_le_bytes());
    out.extend_from_slice(&count_field.to_le_bytes());
    write(out);
    out.push(END);
    debug_assert_eq!(out.len() - start, len);
}

/// Appends the listpack of `count` elements. Returns [`Flaw::Length`] if the listpack would exceed
/// 4 GiB, the format's limit.
pub(crate) fn wrap_elements<'e>(
    out: &mut Vec<u8>,
    count: usize,
    elements: impl Iterator<Item = Element<'e>>,
) -> Result<(), Corrupt> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    for element in elements {
        append(out, element);
    }
    out.push(END);
    let Ok(len_field) = u32::try_from(out.len() - start) else {
        return Err(Corrupt::new(0, Flaw::Length));
    };
    let count_field = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    out[start..start + 4].copy_from_slice(&len_field.to_le_bytes());
    out[start + 4..start + HEADER_LEN].copy_from_slice(&count_field.to_le_bytes());
    Ok(())
}
