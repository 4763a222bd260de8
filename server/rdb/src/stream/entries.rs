//! Walking over a block's entries, in either direction.

use super::StreamId;
use crate::listpack::{self, Element};

/// The flag of a deleted entry.
pub(super) const DELETED: u8 = 1;
/// The flag of an entry with the same fields as the master entry.
pub(super) const SAME_FIELDS: u8 = 2;

/// Returns the number of elements of an entry, without the last element. The last element stores
/// this number.
#[inline]
pub(super) fn elements(pairs: usize, same_fields: bool) -> usize {
    if same_fields {
        3 + pairs
    } else {
        4 + 2 * pairs
    }
}

/// The start of an entry, up to its fields and values.
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) ms: i64,
    pub(super) seq: i64,
    /// Number of pairs of a field and a value.
    pub(super) count: usize,
    /// Position of the first field or value.
    pub(super) data: usize,
}

impl Header {
    /// Reads the start of the entry at `at`, in a block whose master entry has `fields` fields.
    #[inline]
    pub(super) fn read(bytes: &[u8], at: usize, fields: usize) -> Option<Self> {
        let int = |at| match listpack::next(bytes, at) {
            Some((Element::Int(value), end)) => Some((value, end)),
            _ => None,
        };
        let flags = *bytes.get(at)?;
        // The encoding of an integer below 128 is the integer itself and one byte of backlen.
        if flags > DELETED | SAME_FIELDS {
            return None;
        }
        let (ms, at) = int(at + 2)?;
        let (seq, at) = int(at)?;
        let (count, data) = if flags & SAME_FIELDS != 0 {
            (fields, at)
        } else {
            let (count, data) = int(at)?;
            // Each pair has two elements of at least two bytes, so a higher count is wrong.
            let count = usize::try_from(count).ok().filter(|&n| n <= bytes.len())?;
            (count, data)
        };
        Some(Header {
            flags,
            ms,
            seq,
            count,
            data,
        })
    }

    #[inline]
    pub(super) fn same_fields(&self) -> bool {
        self.flags & SAME_FIELDS != 0
    }

    /// Returns the number of elements of the fields and values.
    #[inline]
    pub(super) fn data_elements(&self) -> usize {
        if self.same_fields() {
            self.count
        } else {
            2 * self.count
        }
    }
}

/// An entry of a block.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'b> {
    /// The entry's ID.
    pub id: StreamId,
    /// The entry's position in the block, for [`Block::delete`](super::Block::delete).
    pub at: usize,
    /// Whether the entry is deleted.
    pub deleted: bool,
    pairs: Pairs<'b>,
}

impl<'b> Entry<'b> {
    /// Iterates over the entry's fields and values.
    #[inline]
    pub fn pairs(&self) -> Pairs<'b> {
        self.pairs
    }
}

/// An iterator over the fields and values of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'b> {
    /// The rest of the master's fields, or `None` if `data` has the fields.
    fields: Option<&'b [u8]>,
    /// The rest of the values, or of the fields and values.
    data: &'b [u8],
    /// Number of remaining pairs.
    left: usize,
}

impl<'b> Iterator for Pairs<'b> {
    type Item = (Element<'b>, Element<'b>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let field = take(self.fields.as_mut().unwrap_or(&mut self.data))?;
        Some((field, take(&mut self.data)?))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

/// Removes the first element from `bytes` and returns it.
#[inline]
pub(super) fn take<'b>(bytes: &mut &'b [u8]) -> Option<Element<'b>> {
    let (element, end) = listpack::next(bytes, 0)?;
    *bytes = &bytes[end..];
    Some(element)
}

/// An iterator over the entries of a block, from either end.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'b> {
    id: StreamId,
    /// The master's fields.
    fields: &'b [u8],
    /// Number of the master's fields.
    count: usize,
    /// All entries of the block.
    bytes: &'b [u8],
    /// Position of the next entry from the front.
    at: usize,
    /// End of the next entry from the back.
    end: usize,
}

impl<'b> Entries<'b> {
    /// Returns an iterator over the entries of `bytes`. `fields` are the master's fields, and
    /// `count` is their number.
    #[inline]
    pub(super) fn new(id: StreamId, fields: &'b [u8], count: usize, bytes: &'b [u8]) -> Self {
        Entries {
            id,
            fields,
            count,
            bytes,
            at: 0,
            end: bytes.len(),
        }
    }

    #[inline]
    fn entry(&self, at: usize, header: &Header, data_end: usize) -> Option<Entry<'b>> {
        Some(Entry {
            id: self.id.offset(header.ms, header.seq),
            at,
            deleted: header.flags & DELETED != 0,
            pairs: Pairs {
                fields: header.same_fields().then_some(self.fields),
                data: self.bytes.get(header.data..data_end)?,
                left: header.count,
            },
        })
    }

    /// Returns the next entry from the front, and its end.
    #[inline]
    fn front(&self) -> Option<(Entry<'b>, usize)> {
        let header = Header::read(self.bytes, self.at, self.count)?;
        let mut end = header.data;
        for _ in 0..header.data_elements() {
            end += listpack::entry_len_at(self.bytes, end)?;
        }
        let entry = self.entry(self.at, &header, end)?;
        Some((entry, end + listpack::entry_len_at(self.bytes, end)?))
    }

    /// Returns the next entry from the back.
    #[inline]
    fn back(&self) -> Option<Entry<'b>> {
        let (Element::Int(elements), data_end) = listpack::prev(self.bytes, self.end)? else {
            return None;
        };
        let mut at = data_end;
        for _ in 0..elements {
            at = listpack::start_before(self.bytes, at)?;
        }
        self.entry(at, &Header::read(self.bytes, at, self.count)?, data_end)
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Entry<'b>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'b>> {
        if self.at >= self.end {
            return None;
        }
        let (entry, end) = self.front()?;
        self.at = end;
        Some(entry)
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let entry = self.back()?;
        self.end = entry.at;
        Some(entry)
    }
}
