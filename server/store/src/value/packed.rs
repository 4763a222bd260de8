//! The compact form of small collections: one block of exact size that holds all elements as
//! listpack entries.
//!
//! A snapshot copies the entries of hashes and sorted sets. A lookup compares entry after entry.
//! For a few hundred short entries, this is faster than a table, and takes a fraction of the
//! memory. Positions are byte offsets into [`Packed::entries`]; a change of length moves all later
//! entries.

use std::fmt;
use std::ops::Range;

use punctual_rdb::listpack::{self, Element, Entries};

use crate::check::Check;
use crate::unaligned::UnalignedBox;

/// Size of the entry count, which precedes the entries. It is small because the allocator rounds
/// the size of a block up to a class, and many hashes of a few fields just miss a class.
const COUNT_BYTES: usize = size_of::<u16>();
/// The count that stands for itself and for every larger one. The entries then have to be counted.
const MANY: usize = u16::MAX as usize;

/// Returns the bytes of the entry count.
fn count_bytes(count: usize) -> [u8; COUNT_BYTES] {
    (count.min(MANY) as u16).to_le_bytes()
}

/// Entries in one block, in 16 bytes.
#[derive(Clone)]
pub struct Packed(UnalignedBox<[u8]>);

impl Packed {
    /// Creates an empty block.
    pub fn new() -> Self {
        Self::of_bytes(vec![0; COUNT_BYTES])
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice().into())
    }

    /// Copies `count` bare entries, which the caller has validated. O(bytes).
    pub fn from_entries(entries: &[u8], count: usize) -> Self {
        let mut bytes = Vec::with_capacity(COUNT_BYTES + entries.len());
        bytes.extend_from_slice(&count_bytes(count));
        bytes.extend_from_slice(entries);
        Self::of_bytes(bytes)
    }

    /// Creates a block of alternating names and values. For a duplicate name, the last value stays.
    /// One allocation, O(pairs²) comparisons of lengths.
    pub fn of_pairs<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Self {
        let room = |(name, value)| Element::of(name).entry_len() + Element::of(value).entry_len();
        let room: usize = pairs.clone().map(room).sum();
        let mut bytes = Vec::with_capacity(COUNT_BYTES + room);
        bytes.extend_from_slice(&[0; COUNT_BYTES]);
        let mut count = 0;
        for (name, value) in pairs {
            match listpack::find(&bytes, COUNT_BYTES, name, 1) {
                Some((_, end)) => {
                    let old = listpack::entry_len_at(&bytes, end).unwrap_or_default();
                    listpack::replace(&mut bytes, end..end + old, Element::of(value));
                }
                None => {
                    listpack::encode(&mut bytes, name);
                    listpack::encode(&mut bytes, value);
                    count += 2;
                }
            }
        }
        bytes[..COUNT_BYTES].copy_from_slice(&count_bytes(count));
        Self::of_bytes(bytes)
    }

    /// Returns the number of entries. O(1) below 65,535 entries, otherwise O(entries).
    #[inline]
    pub fn len(&self) -> usize {
        let [a, b, ..] = *self.0 else {
            return 0;
        };
        match usize::from(u16::from_le_bytes([a, b])) {
            MANY => self.counted(),
            count => count,
        }
    }

    #[cold]
    fn counted(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bare entries.
    #[inline]
    pub fn entries(&self) -> &[u8] {
        &self.0[COUNT_BYTES..]
    }

    /// Iterates over the elements from either end.
    pub fn iter(&self) -> Entries<'_> {
        Entries::new(self.entries())
    }

    /// Returns the element at `at` and its end, or `None` at the end. O(1).
    #[inline]
    pub fn next(&self, at: usize) -> Option<(Element<'_>, usize)> {
        listpack::next(self.entries(), at)
    }

    /// Returns the element that ends at `end` and its start, or `None` at the start. O(1).
    #[inline]
    pub fn prev(&self, end: usize) -> Option<(Element<'_>, usize)> {
        listpack::prev(self.entries(), end)
    }

    /// Returns the range of the first entry with this text. Skips `skip` entries after each
    /// compared entry: with 1, only the names of pairs are compared. O(entries).
    #[inline]
    pub fn find(&self, text: &[u8], skip: usize) -> Option<Range<usize>> {
        listpack::find(self.entries(), 0, text, skip).map(|(start, end)| start..end)
    }

    /// Returns the range of the entry with this number. O(entries between it and the nearer end).
    pub fn position(&self, number: usize) -> Option<Range<usize>> {
        let (len, entries) = (self.len(), self.entries());
        if number >= len {
            return None;
        }
        if number <= len / 2 {
            let mut at = 0;
            for _ in 0..number {
                at += listpack::entry_len_at(entries, at)?;
            }
            Some(at..at + listpack::entry_len_at(entries, at)?)
        } else {
            let mut end = entries.len();
            for _ in number + 1..len {
                end = listpack::prev(entries, end)?.1;
            }
            Some(listpack::prev(entries, end)?.1..end)
        }
    }

    /// Returns the number of the entry that begins at `start`. O(entries before it).
    pub fn number_at(&self, start: usize) -> usize {
        let (mut at, mut number) = (0, 0);
        while at < start
            && let Some(len) = listpack::entry_len_at(self.entries(), at)
        {
            at += len;
            number += 1;
        }
        number
    }

    /// Appends an element. O(length) if the allocator grows the block in place, otherwise O(bytes).
    pub fn push(&mut self, element: Element<'_>) {
        self.insert(self.entries().len(), element);
    }

    /// Appends two elements. O(length) if the allocator grows the block in place, otherwise
    /// O(bytes).
    pub fn push_pair(&mut self, name: Element<'_>, value: Element<'_>) {
        self.edit(2, name.entry_len() + value.entry_len(), |bytes| {
            listpack::append(bytes, name);
            listpack::append(bytes, value);
        });
    }

    /// Inserts an element before the entry at `at`. Returns its end. O(later bytes) if the
    /// allocator grows the block in place, otherwise O(bytes).
    pub fn insert(&mut self, at: usize, element: Element<'_>) -> usize {
        self.edit(1, element.entry_len(), |bytes| {
            listpack::insert(bytes, at + COUNT_BYTES, element)
        }) - COUNT_BYTES
    }

    /// Replaces one entry with an element. Returns its end. O(length) if the lengths are equal,
    /// otherwise O(bytes).
    pub fn replace(&mut self, entry: Range<usize>, element: Element<'_>) -> usize {
        let range = entry.start + COUNT_BYTES..entry.end + COUNT_BYTES;
        let len = element.entry_len();
        if len == entry.len() {
            listpack::write(&mut self.0[range], element);
            return entry.end;
        }
        self.edit(0, len.saturating_sub(entry.len()), |bytes| {
            listpack::replace(bytes, range, element)
        }) - COUNT_BYTES
    }

    /// Removes a range that consists of `count` entries. O(bytes).
    pub fn remove(&mut self, entries: Range<usize>, count: usize) {
        self.edit(-(count as i64), 0, |bytes| {
            bytes.drain(entries.start + COUNT_BYTES..entries.end + COUNT_BYTES);
        });
    }

    /// Changes the bytes, which may grow by at most `more`, and adds `count` to the entry count.
    /// The block keeps its exact size, so the allocator can often grow it in place.
    fn edit<R>(&mut self, count: i64, more: usize, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let len = (self.len() as i64 + count) as usize;
        let mut bytes = Vec::from(std::mem::take(&mut self.0).into_box());
        bytes.reserve_exact(more);
        let done = change(&mut bytes);
        bytes[..COUNT_BYTES].copy_from_slice(&count_bytes(len));
        self.0 = bytes.into_boxed_slice().into();
        done
    }

    /// Checks the entries and their number.
    pub(crate) fn check(&self, to: &mut Check) {
        let counted = listpack::validate_entries(self.entries()).ok();
        to.equal("entries of the listpack", Some(self.len()), counted);
    }

    /// Returns the size of the block in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }
}

impl Default for Packed {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(packed: &Packed) -> Vec<Vec<u8>> {
        let text = |element: Element<'_>| {
            let mut text = Vec::new();
            element.write_text(&mut text);
            text
        };
        packed.iter().map(text).collect()
    }

    #[test]
    fn many_entries_are_counted() {
        let mut packed = Packed::from_entries(&[1, 1].repeat(MANY - 1), MANY - 1);
        for len in MANY - 1..MANY + 2 {
            assert_eq!(packed.len(), len);
            packed.push(Element::Int(1));
        }
        for len in (MANY - 1..MANY + 2).rev() {
            packed.remove(0..2, 1);
            assert_eq!(packed.len(), len);
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector(steps in proptest::collection::vec((0..4u8, any::<u16>(), "[a-z]{0,70}|-?[0-9]{1,18}"), 1..200)) {
            let mut packed = Packed::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for (kind, pick, text) in steps {
                let text = text.into_bytes();
                let number = usize::from(pick) % (model.len() + 1);
                let found = packed.position(number);
                prop_assert_eq!(found.is_some(), number < model.len());
                match (kind, found) {
                    (0, Some(range)) => {
                        packed.remove(range, 1);
                        model.remove(number);
                    }
                    (1, Some(range)) => {
                        packed.replace(range, Element::of(&text));
                        model[number] = text;
                    }
                    (2, Some(range)) => {
                        packed.insert(range.start, Element::of(&text));
                        model.insert(number, text);
                    }
                    _ => {
                        packed.push(Element::of(&text));
                        model.push(text);
                    }
                }
                prop_assert_eq!(packed.len(), model.len());
            }
            for text in &model {
                let first = model.iter().position(|t| t == text).unwrap();
                prop_assert_eq!(packed.find(text, 0), packed.position(first));
            }
            prop_assert_eq!(texts(&packed), model);
        }
    }
}
