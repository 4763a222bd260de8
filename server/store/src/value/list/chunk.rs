//! A piece of a list: consecutive listpack entries with spare room on either side, or one large
//! text.
//!
//! Ground rules: `start..end` of the buffer holds `count` whole entries in order. Positions are
//! byte offsets into [`Chunk::entries`]. A *plain* chunk holds one text, which fills the buffer; it
//! has no entries and a count of 1. Spare room makes a push at either end O(length of the element).

use std::ops::Range;

use punctual_rdb::listpack::{self, Element};

use super::piece::PieceSize;
use super::{End, Piece};

/// The size of a new buffer with spare room is a multiple of this.
const STEP: usize = 16;

/// [`Chunk::shrink`] keeps buffers that are smaller than this.
const SHRINK_FROM: usize = 256;

/// A piece of a list: a header of 32 bytes and a buffer.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    start: u32,
    end: u32,
    count: u32,
    plain: bool,
}

const _: () = assert!(size_of::<Chunk>() == 32);

impl Chunk {
    /// Creates a plain chunk. O(length).
    pub(super) fn plain(text: &[u8]) -> Self {
        Self {
            bytes: text.into(),
            start: 0,
            end: 0,
            count: 1,
            plain: true,
        }
    }

    /// Creates an empty chunk with room to push `bytes` bytes of entries at `end`.
    pub(super) fn with_room(end: End, bytes: usize) -> Self {
        let bytes = vec![0; bytes.next_multiple_of(STEP)].into_boxed_slice();
        let at = match end {
            End::Head => bytes.len() as u32,
            End::Tail => 0,
        };
        Self {
            bytes,
            start: at,
            end: at,
            count: 0,
            plain: false,
        }
    }

    /// Copies entries into a buffer without spare room. O(bytes).
    pub(super) fn from_entries(entries: &[u8], count: usize) -> Self {
        Self {
            bytes: entries.into(),
            start: 0,
            end: entries.len() as u32,
            count: count as u32,
            plain: false,
        }
    }

    /// Creates a chunk of one entry.
    pub(super) fn single(element: Element<'_>) -> Self {
        let mut chunk = Self::default();
        chunk.push(End::Tail, element, 0);
        chunk
    }

    /// Returns the number of elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the text of a plain chunk.
    #[inline]
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.plain.then_some(&self.bytes)
    }

    /// Returns the content for a snapshot.
    pub(super) fn piece(&self) -> Piece<'_> {
        match self.text() {
            Some(text) => Piece::Plain(text),
            None => Piece::Entries(self.entries(), self.count()),
        }
    }

    /// Returns the entries; an empty slice for a plain chunk.
    #[inline]
    pub(super) fn entries(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }

    /// Returns the length of the entries in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the size of the buffer in bytes.
    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if a text of this length still fits into the piece.
    #[inline]
    pub(super) fn takes(&self, text_len: usize, limit: PieceSize) -> bool {
        !self.plain && limit.takes(self.len(), self.count(), text_len)
    }

    /// Returns the element at an end. O(1).
    #[inline]
    pub(super) fn at_end(&self, end: End) -> Option<Element<'_>> {
        if let Some(text) = self.text() {
            return Some(Element::of(text));
        }
        let found = match end {
            End::Head => listpack::next(self.entries(), 0),
            End::Tail => listpack::prev(self.entries(), self.len()),
        };
        found.map(|(element, _)| element)
    }

    /// Returns the element with this number. O(elements between it and the nearer end).
    pub(super) fn get(&self, number: usize) -> Option<Element<'_>> {
        match self.text() {
            Some(text) => Some(Element::of(text)),
            None => listpack::next(self.entries(), self.offset(number)).map(|(element, _)| element),
        }
    }

    /// Returns the offset of the entry with this number, or the end of the entries if `number` is
    /// the count. O(entries between it and the nearer end).
    #[inline]
    pub(super) fn offset(&self, number: usize) -> usize {
        let entries = self.entries();
        if number <= self.count() / 2 {
            let mut at = 0;
            for _ in 0..number {
                at += listpack::entry_len_at(entries, at).unwrap_or_default();
            }
            at
        } else {
            let mut end = entries.len();
            for _ in number..self.count() {
                end = listpack::prev(entries, end).map_or(0, |(_, start)| start);
            }
            end
        }
    }

    /// Returns the range of the entry with this number. O(entries between it and the nearer end).
    pub(super) fn range(&self, number: usize) -> Range<usize> {
        let start = self.offset(number);
        start..start + listpack::entry_len_at(self.entries(), start).unwrap_or_default()
    }

    /// Pushes an element at an end. A full buffer doubles, up to `bytes_max` bytes, or grows by as
    /// much as the element requires. O(length) amortised.
    #[inline]
    pub(super) fn push(&mut self, end: End, element: Element<'_>, bytes_max: usize) {
        let len = element.entry_len();
        if self.room(end) < len {
            self.make_room(end, len, bytes_max);
        }
        let place = match end {
            End::Head => {
                self.start -= len as u32;
                self.start as usize
            }
            End::Tail => {
                self.end += len as u32;
                self.end as usize - len
            }
        };
        listpack::write(&mut self.bytes[place..place + len], element);
        self.count += 1;
    }

    /// Returns the number of free bytes at a side.
    #[inline]
    fn room(&self, end: End) -> usize {
        match end {
            End::Head => self.start as usize,
            End::Tail => self.bytes.len() - self.end as usize,
        }
    }

    /// Makes room for `need` bytes at a side: moves the entries within the buffer, or to a larger
    /// buffer, which doubles up to `bytes_max` bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, end: End, need: usize, bytes_max: usize) {
        let (len, capacity) = (self.len(), self.bytes.len());
        let total = len + need;
        // A move costs O(entries), so the entries stay in the buffer only if a quarter of it is
        // still free afterwards, or if the buffer has its maximum size.
        let stays =
            total <= capacity && (total + capacity / 4 <= capacity || capacity >= bytes_max);
        let start = if stays {
            // Each side gets half of the free bytes, because the next push may be at either end.
            let half = (capacity - total) / 2;
            let start = match end {
                End::Head => half + need,
                End::Tail => half,
            };
            self.bytes
                .copy_within(self.start as usize..self.end as usize, start);
            start
        } else {
            let capacity = total
                .max((2 * capacity).min(bytes_max))
                .next_multiple_of(STEP);
            let start = match end {
                End::Head => capacity - len,
                End::Tail => 0,
            };
            self.move_to(capacity, start);
            start
        };
        self.start = start as u32;
        self.end = (start + len) as u32;
    }

    /// Moves the entries to another buffer.
    fn move_to(&mut self, capacity: usize, start: usize) {
        let mut bytes = vec![0; capacity].into_boxed_slice();
        let len = self.len();
        bytes[start..start + len].copy_from_slice(self.entries());
        self.bytes = bytes;
        self.start = start as u32;
        self.end = (start + len) as u32;
    }

    /// Releases spare room that is more than a sixteenth of the buffer. O(bytes).
    pub(super) fn trim(&mut self) {
        if !self.plain && (self.bytes.len() - self.len()) * 16 > self.bytes.len() {
            self.move_to(self.len(), 0);
        }
    }

    /// Releases spare room if the entries fill at most an eighth of the buffer. O(bytes), amortised
    /// over the removals.
    #[inline]
    pub(super) fn shrink(&mut self) {
        let (len, capacity) = (self.len(), self.bytes.len());
        if !self.plain && capacity >= SHRINK_FROM && len <= capacity / 8 {
            let capacity = (2 * len).next_multiple_of(STEP);
            self.move_to(capacity, (capacity - len) / 2);
        }
    }

    /// Removes `number` elements from an end without moving the remaining ones. O(number), or
    /// O(remaining elements) if these are fewer.
    #[inline]
    pub(super) fn drop_end(&mut self, end: End, number: usize) {
        if number >= self.count() {
            return self.clear();
        }
        match end {
            End::Head => self.start += self.offset(number) as u32,
            End::Tail => self.end = self.start + self.offset(self.count() - number) as u32,
        }
        self.count -= number as u32;
    }

    /// Removes all elements.
    pub(super) fn clear(&mut self) {
        if self.plain {
            *self = Self::default();
        }
        self.start = 0;
        self.end = 0;
        self.count = 0;
    }

    /// Inserts an element before the entry at `at`, or at the end. A full buffer may double up to
    /// `bytes_max` bytes. O(bytes on the shorter side), O(bytes) if that side has no room.
    pub(super) fn insert(&mut self, at: usize, element: Element<'_>, bytes_max: usize) {
        let (len, entry) = (self.len(), element.entry_len());
        let side = if at < len - at { End::Head } else { End::Tail };
        let side = if self.room(side) < entry {
            side.other()
        } else {
            side
        };
        if self.room(side) < entry {
            self.make_room(side, entry, bytes_max);
        }
        let (start, end) = (self.start as usize, self.end as usize);
        let place = match side {
            End::Head => {
                self.bytes.copy_within(start..start + at, start - entry);
                self.start -= entry as u32;
                start + at - entry
            }
            End::Tail => {
                self.bytes.copy_within(start + at..end, start + at + entry);
                self.end += entry as u32;
                start + at
            }
        };
        listpack::write(&mut self.bytes[place..place + entry], element);
        self.count += 1;
    }

    /// Removes one entry. O(bytes on the shorter side).
    pub(super) fn remove(&mut self, entry: Range<usize>) {
        let (start, end) = (self.start as usize, self.end as usize);
        if entry.start < self.len() - entry.end {
            self.bytes
                .copy_within(start..start + entry.start, start + entry.len());
            self.start += entry.len() as u32;
        } else {
            self.bytes
                .copy_within(start + entry.end..end, start + entry.start);
            self.end -= entry.len() as u32;
        }
        self.count -= 1;
    }

    /// Replaces an entry with an element. O(length) if the lengths are equal, otherwise the time of
    /// [`Chunk::remove`] and [`Chunk::insert`].
    pub(super) fn replace(&mut self, entry: Range<usize>, element: Element<'_>, bytes_max: usize) {
        if entry.len() == element.entry_len() {
            let start = self.start as usize;
            listpack::write(
                &mut self.bytes[start + entry.start..start + entry.end],
                element,
            );
        } else {
            let at = entry.start;
            self.remove(entry);
            self.insert(at, element, bytes_max);
        }
    }

    /// Removes at most `count_max` elements with this text, from an end on. Returns their number.
    /// `found` is scratch space. O(entries).
    pub(super) fn remove_all(
        &mut self,
        text: &[u8],
        from: End,
        count_max: usize,
        found: &mut Vec<Range<usize>>,
    ) -> usize {
        if let Some(own) = self.text() {
            let same = own == text;
            if same {
                self.clear();
            }
            return usize::from(same);
        }
        found.clear();
        self.find_all(text, from, count_max, found);
        // Moves each run of entries that stay towards the front, once.
        let start = self.start as usize;
        let mut to = found.first().map_or(self.len(), |first| first.start);
        for (i, gap) in found.iter().enumerate() {
            let next = found.get(i + 1).map_or(self.len(), |next| next.start);
            self.bytes
                .copy_within(start + gap.end..start + next, start + to);
            to += next - gap.end;
        }
        self.end = (start + to) as u32;
        self.count -= found.len() as u32;
        found.len()
    }

    /// Returns whether an element has this text. O(entries).
    pub(super) fn contains(&self, text: &[u8]) -> bool {
        match self.text() {
            Some(own) => own == text,
            None => listpack::find(self.entries(), 0, text, 0).is_some(),
        }
    }

    /// Collects the ranges of at most `count_max` entries with this text, from an end on, in
    /// ascending order.
    fn find_all(&self, text: &[u8], from: End, count_max: usize, found: &mut Vec<Range<usize>>) {
        let entries = self.entries();
        match from {
            End::Head => {
                let mut at = 0;
                while found.len() < count_max
                    && let Some((start, end)) = listpack::find(entries, at, text, 0)
                {
                    found.push(start..end);
                    at = end;
                }
            }
            End::Tail => {
                let wanted = Element::of(text);
                let mut end = entries.len();
                while found.len() < count_max
                    && let Some((element, start)) = listpack::prev(entries, end)
                {
                    if element == wanted {
                        found.push(start..end);
                    }
                    end = start;
                }
                found.reverse();
            }
        }
    }

    /// Splits off the entries from `at` on. O(bytes).
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let (mut before, mut walked) = (0, 0);
        while walked < at
            && let Some(len) = listpack::entry_len_at(self.entries(), walked)
        {
            walked += len;
            before += 1;
        }
        let right = Self::from_entries(&self.entries()[at..], self.count() - before);
        self.end = self.start + at as u32;
        self.count = before as u32;
        self.trim();
        right
    }

    /// Appends the entries of `other`. Neither chunk is plain. O(bytes).
    pub(super) fn append(&mut self, other: &Self) {
        let len = other.len();
        if self.room(End::Tail) < len {
            self.make_room(End::Tail, len, self.len() + len);
        }
        let end = self.end as usize;
        self.bytes[end..end + len].copy_from_slice(other.entries());
        self.end += len as u32;
        self.count += other.count;
    }
}

impl Clone for Chunk {
    /// Copies the entries without spare room. O(bytes).
    fn clone(&self) -> Self {
        match self.text() {
            Some(text) => Self::plain(text),
            None => Self::from_entries(self.entries(), self.count()),
        }
    }
}
