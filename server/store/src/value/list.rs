//! Lists: elements in pieces of contiguous memory, O(1) at both ends.
//!
//! A piece (a `Chunk`) holds its elements as the entries of a listpack, so a snapshot copies them
//! unchanged. `list-max-listpack-size` limits a piece ([`PieceSize`]). A larger element gets a
//! piece of its own, a *plain* piece, which holds only the text. The list itself contains the first
//! piece, which is enough for a small list. The headers of the other pieces lie side by side in a
//! ring, so locating an index reads their counts in sequence.
//!
//! Ground rules: an empty list has one empty piece; other lists have no empty piece. `rest` is
//! present if and only if OBJECT ENCODING replies with `quicklist`; a list without `rest` has no
//! plain piece. This file has the operations at the ends, `edit` has the operations in the middle,
//! `walk` iterates, `search` finds a text, and `content` has a snapshot's walk.

mod chunk;
mod content;
mod edit;
mod piece;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::VecDeque;

use punctual_rdb::listpack::{Element, validate_entries};

use crate::check::Check;
use crate::unwritten::UnwrittenPieces;
use chunk::Chunk;
pub use piece::PieceSize;
pub use search::Position;
pub use walk::Walk;

/// The ring of headers does not shrink below this capacity.
const RING_MIN: usize = 64;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Left: index 0.
    Head,
    /// Right: index -1.
    Tail,
}

impl End {
    /// Returns the other end.
    #[inline]
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Head => Self::Tail,
            Self::Tail => Self::Head,
        }
    }
}

/// A list.
#[derive(Clone, Debug, Default)]
pub struct List {
    first: Chunk,
    rest: Option<Box<Rest>>,
}

const _: () = assert!(size_of::<List>() == 40);

/// The pieces after the first one.
#[derive(Debug, Default)]
struct Rest {
    chunks: VecDeque<Chunk>,
    /// Number of elements in all pieces of `chunks`.
    count: usize,
    /// The walk of a snapshot that has not reached the end of the list.
    walk: Option<Box<UnwrittenPieces<Chunk>>>,
}

impl Clone for Rest {
    /// Copies the pieces. A snapshot does not walk through the copy.
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            count: self.count,
            walk: None,
        }
    }
}

impl Rest {
    /// Prepares for a piece that the caller will add: counts its elements and reserves its place.
    /// The ring grows by a quarter, where a `VecDeque` would double. O(1) amortised.
    fn reserve(&mut self, chunk: &Chunk) {
        self.count += chunk.count();
        let len = self.chunks.len();
        if len == self.chunks.capacity() {
            self.chunks.reserve_exact(len / 4 + 1);
        }
    }

    /// Drops a removed piece, or hands it to the snapshot's walk if the walk has not reached it.
    fn removed(&mut self, number: usize, chunk: Chunk) {
        if let Some(walk) = &mut self.walk {
            walk.removed(number, chunk);
        }
    }
}

/// A piece of a list in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bare entries of a listpack and their number.
    Entries(&'a [u8], usize),
    /// One element.
    Plain(&'a [u8]),
}

impl List {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of elements. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.first.count() + self.rest.as_ref().map_or(0, |rest| rest.count)
    }

    /// Returns true if there are no elements. O(1).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.count() == 0
    }

    /// Returns the element at an end. O(1).
    #[inline]
    pub fn at_end(&self, end: End) -> Option<Element<'_>> {
        self.end_chunk(end).at_end(end)
    }

    /// Returns the element at an index. O(pieces between it and the nearer end) plus O(elements of
    /// a piece).
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        let (number, within) = self.locate(index)?;
        self.chunk(number).get(within)
    }

    /// Pushes elements at an end, one after another. O(length) each, amortised.
    #[inline]
    pub fn push<'t>(
        &mut self,
        end: End,
        texts: impl Iterator<Item = &'t [u8]> + Clone,
        limit: PieceSize,
    ) {
        if self.rest.is_none() {
            let (mut bytes, mut count) = (0, 0);
            for text in texts.clone() {
                bytes += text.len();
                count += 1;
            }
            if !limit.holds(self.first.len() + bytes, self.first.count() + count) {
                self.become_quicklist();
            } else if self.first.heap_bytes() == 0 {
                // Two bytes surround each short text.
                self.first.make_room(end, bytes + 2 * count, 0);
            }
        }
        for text in texts {
            self.push_text(end, text, limit);
        }
    }

    #[inline]
    fn push_text(&mut self, end: End, text: &[u8], limit: PieceSize) {
        let element = Element::of(text);
        let bytes_max = limit.bytes();
        if self.rest.is_none() {
            // Redis checks only the length of the texts, so the overhead of the entries may push
            // the first piece above the limit. Here the piece may have at most twice the limit.
            if self.first.len() + element.entry_len() <= 2 * bytes_max {
                return self.first.push(end, element, bytes_max);
            }
            self.become_quicklist();
        }
        self.before_change_at(end);
        let (chunk, mut count) = match (end, &mut self.rest) {
            (End::Tail, Some(rest)) => match rest.chunks.back_mut() {
                Some(last) => (last, Some(&mut rest.count)),
                None => (&mut self.first, None),
            },
            _ => (&mut self.first, None),
        };
        if chunk.takes(text.len(), limit) || (chunk.count() == 0 && !limit.is_large(text.len())) {
            chunk.push(end, element, bytes_max);
            if let Some(count) = &mut count {
                **count += 1;
            }
            return;
        }
        // The next elements go into a new piece, so this one needs no spare room.
        chunk.trim();
        let begun = chunk.len() / 4;
        self.add_chunk(
            end,
            if limit.is_large(text.len()) {
                Chunk::plain(text)
            } else {
                let mut chunk = Chunk::with_room(end, begun.max(element.entry_len()));
                chunk.push(end, element, bytes_max);
                chunk
            },
        );
    }

    /// Removes up to `number` elements from an end. O(removed pieces) plus O(elements of a piece).
    #[inline]
    pub fn drop_end(&mut self, end: End, number: usize, limit: PieceSize) {
        let mut left = number;
        while left > 0 && !self.is_empty() {
            let count = self.end_chunk(end).count();
            if left >= count {
                left -= count;
                self.remove_end_chunk(end);
                continue;
            }
            self.before_change_at(end);
            match (end, &mut self.rest) {
                (End::Tail, Some(rest)) if !rest.chunks.is_empty() => {
                    if let Some(last) = rest.chunks.back_mut() {
                        last.drop_end(end, left);
                    }
                    rest.count -= left;
                }
                _ => self.first.drop_end(end, left),
            }
            left = 0;
        }
        self.shrink(limit);
    }

    /// Removes the elements outside of `start..end`. O(removed pieces) plus O(elements of two
    /// pieces).
    pub fn keep(&mut self, start: usize, end: usize, limit: PieceSize) {
        let len = self.len();
        let end = end.min(len);
        let start = start.min(end);
        self.drop_end(End::Tail, len - end, limit);
        self.drop_end(End::Head, start, limit);
    }

    /// Iterates over the pieces for a snapshot.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.chunks().map(Chunk::piece)
    }

    /// Appends a piece of `count` bare entries, which the caller has validated. O(bytes).
    ///
    /// After the last piece, the caller must [normalize](Self::normalize) the list.
    pub fn push_piece(&mut self, entries: &[u8], count: usize) {
        if count > 0 {
            self.add_chunk(End::Tail, Chunk::from_entries(entries, count));
        }
    }

    /// Appends an element as a piece of its own. O(length). See [`List::push_piece`].
    pub fn push_plain(&mut self, text: &[u8]) {
        self.become_quicklist();
        // A snapshot cannot hold an empty plain piece.
        let chunk = match text {
            [] => Chunk::single(Element::Bytes(text)),
            _ => Chunk::plain(text),
        };
        self.add_chunk(End::Tail, chunk);
    }

    /// Chooses between `listpack` and `quicklist` for a list that was built from pieces.
    pub fn normalize(&mut self, limit: PieceSize) {
        let (len, count) = (self.first.len(), self.first.count());
        let small = self.first.text().is_none() && limit.holds(len, count);
        match &self.rest {
            Some(rest) if rest.chunks.is_empty() && small => self.rest = None,
            None if !small => self.become_quicklist(),
            _ => {}
        }
    }

    /// Converts a list of one piece, which fills at most half the limit, back to a `listpack`, and
    /// releases spare room of the piece.
    #[inline]
    fn shrink(&mut self, limit: PieceSize) {
        if let Some(rest) = &self.rest {
            let (len, count) = (self.first.len(), self.first.count());
            if !rest.chunks.is_empty()
                || rest.walk.is_some()
                || self.first.text().is_some()
                || !limit.half_holds(len, count)
            {
                return;
            }
            self.rest = None;
        }
        self.first.shrink();
    }

    /// Converts the list to a `quicklist`.
    fn become_quicklist(&mut self) {
        self.rest.get_or_insert_default();
    }

    /// Returns the number of pieces. O(1).
    pub(crate) fn piece_count(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.chunk_count()
        }
    }

    fn chunk_count(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.chunks.len())
    }

    /// Returns the piece with this number.
    ///
    /// # Panics
    /// If the number is out of range.
    fn chunk(&self, number: usize) -> &Chunk {
        match (number, &self.rest) {
            (1.., Some(rest)) => &rest.chunks[number - 1],
            _ => &self.first,
        }
    }

    /// Checks the ground rules of the module, and the number of elements.
    fn check_pieces(&self, to: &mut Check) {
        let mut count = 0;
        for (number, chunk) in self.chunks().enumerate() {
            count += chunk.count();
            to.within(
                || format!("piece {number}"),
                |to| match chunk.text() {
                    Some(_) => {
                        to.holds(
                            "a list without rest has no plain piece",
                            self.rest.is_some(),
                        );
                        to.equal("elements of a plain piece", chunk.count(), 1);
                    }
                    None => {
                        let counted = validate_entries(chunk.entries()).ok();
                        to.equal("elements", Some(chunk.count()), counted);
                        to.holds("it is not empty", chunk.count() > 0);
                    }
                },
            );
        }
        to.equal("elements", self.len(), count);
    }

    fn chunks(&self) -> impl DoubleEndedIterator<Item = &Chunk> {
        let rest = self.rest.iter().flat_map(|rest| rest.chunks.iter());
        let first = (!self.is_empty()).then_some(&self.first);
        first.into_iter().chain(rest)
    }

    #[inline]
    fn end_chunk(&self, end: End) -> &Chunk {
        match (end, &self.rest) {
            (End::Tail, Some(rest)) => rest.chunks.back().unwrap_or(&self.first),
            _ => &self.first,
        }
    }

    /// Returns the number of the piece that holds an index, and the element's number in the piece.
    /// O(pieces between it and the nearer end).
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        let mut left = index;
        if left < self.first.count() {
            return Some((0, left));
        }
        left -= self.first.count();
        let rest = self.rest.as_ref()?;
        if left >= rest.count {
            return None;
        }
        if left <= rest.count / 2 {
            for (i, chunk) in rest.chunks.iter().enumerate() {
                if left < chunk.count() {
                    return Some((i + 1, left));
                }
                left -= chunk.count();
            }
        } else {
            let mut behind = rest.count;
            for (i, chunk) in rest.chunks.iter().enumerate().rev() {
                behind -= chunk.count();
                if left >= behind {
                    return Some((i + 1, left - behind));
                }
            }
        }
        None
    }

    /// Adds a piece at an end.
    fn add_chunk(&mut self, end: End, chunk: Chunk) {
        if self.is_empty() {
            self.first = chunk;
            return;
        }
        let rest = self.rest.get_or_insert_default();
        match end {
            End::Head => {
                if let Some(walk) = &mut rest.walk {
                    walk.inserted(0);
                }
                let second = std::mem::replace(&mut self.first, chunk);
                rest.reserve(&second);
                rest.chunks.push_front(second);
            }
            End::Tail => {
                rest.reserve(&chunk);
                rest.chunks.push_back(chunk);
            }
        }
    }

    /// Removes the piece at an end. If it is the only piece, it is emptied instead.
    fn remove_end_chunk(&mut self, end: End) {
        if let Some(rest) = &mut self.rest {
            let number = rest.chunks.len();
            let taken = match end {
                End::Head => rest.chunks.pop_front(),
                End::Tail => rest.chunks.pop_back(),
            };
            if let Some(taken) = taken {
                rest.count -= taken.count();
                let (len, capacity) = (rest.chunks.len(), rest.chunks.capacity());
                if capacity > RING_MIN && len < capacity / 8 {
                    rest.chunks.shrink_to(2 * len);
                }
                match end {
                    End::Head => {
                        let first = std::mem::replace(&mut self.first, taken);
                        rest.removed(0, first);
                    }
                    End::Tail => rest.removed(number, taken),
                }
                return;
            }
        }
        self.before_change(0);
        self.first.clear();
    }
}
