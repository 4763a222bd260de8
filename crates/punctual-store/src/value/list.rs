//! Lists: elements in pieces of contiguous memory, O(1) at both ends.
//!
//! A piece holds its elements as the entries of a listpack, so a snapshot copies them as they are; it is at most as
//! large as `list-max-listpack-size` says, and an element larger than that is a piece of its own. The first piece is in
//! the list itself, which is all that a small list needs. The others stand side by side in a ring, so that the way to
//! an index reads their counts in a row.
//!
//! Ground rules: no piece is empty but the only one of an empty list; `rest` is there if and only if the list is
//! Redis's `quicklist`, and a list without it has no plain piece. Ends are in this file, the middle is in `edit`,
//! iteration in `walk`, the search for a text in `search`.

mod chunk;
mod edit;
mod piece;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::VecDeque;

use punctual_rdb::listpack::Element;

use chunk::Chunk;
pub use piece::PieceSize;
pub use search::Position;
pub use walk::Walk;

/// A ring of no more pieces is not made smaller.
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
    /// The other end.
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

/// The pieces behind the first.
#[derive(Clone, Debug, Default)]
struct Rest {
    chunks: VecDeque<Chunk>,
    /// Elements in all of them.
    count: usize,
}

impl Rest {
    /// Counts a piece in that is going to be added, and makes room for it: a quarter more, where a ring would double by
    /// itself. O(1) amortised.
    fn expect(&mut self, chunk: &Chunk) {
        self.count += chunk.count();
        let len = self.chunks.len();
        if len == self.chunks.capacity() {
            self.chunks.reserve_exact(len / 4 + 1);
        }
    }
}

/// A piece of a list, as a snapshot keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bare entries of a listpack, and how many.
    Entries(&'a [u8], usize),
    /// One element.
    Plain(&'a [u8]),
}

impl List {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many elements it has. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.first.count() + self.rest.as_ref().map_or(0, |rest| rest.count)
    }

    /// Whether it has no elements. O(1).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.count() == 0
    }

    /// Redis's name for the form: `listpack` while the list is one small piece, else `quicklist`.
    pub fn encoding(&self) -> &'static str {
        match self.rest {
            None => "listpack",
            Some(_) => "quicklist",
        }
    }

    /// Bytes outside of the value itself. O(pieces).
    pub fn heap_bytes(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let buffers: usize = rest.chunks.iter().map(Chunk::heap_bytes).sum();
            size_of::<Rest>() + rest.chunks.capacity() * size_of::<Chunk>() + buffers
        });
        self.first.heap_bytes() + rest
    }

    /// A byte of what a reader will need next. Means nothing.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        self.first.count() as u8
    }

    /// The element at an end. O(1).
    #[inline]
    pub fn at_end(&self, end: End) -> Option<Element<'_>> {
        self.end_chunk(end).at_end(end)
    }

    /// The element at an index. O(pieces up to it), from the nearer end, and the elements of a piece.
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        let (number, within) = self.locate(index)?;
        self.chunk(number).get(within)
    }

    /// Adds elements at an end, one after the other. O(1) each.
    #[inline]
    pub fn push<'t>(
        &mut self,
        end: End,
        texts: impl Iterator<Item = &'t [u8]> + Clone,
        piece: PieceSize,
    ) {
        if self.rest.is_none() {
            let (mut bytes, mut count) = (0, 0);
            for text in texts.clone() {
                bytes += text.len();
                count += 1;
            }
            if !piece.holds(self.first.len() + bytes, self.first.count() + count) {
                self.become_pieces();
            } else if self.first.heap_bytes() == 0 {
                // Two bytes go with a short text.
                self.first.make_room(end, bytes + 2 * count, 0);
            }
        }
        for text in texts {
            self.push_text(end, text, piece);
        }
    }

    #[inline]
    fn push_text(&mut self, end: End, text: &[u8], piece: PieceSize) {
        let element = Element::of(text);
        let most = piece.bytes();
        if self.rest.is_none() {
            // Redis has counted only the texts: what goes with them may make the one piece larger than others, though
            // not without bound here.
            if self.first.len() + element.entry_len() <= 2 * most {
                return self.first.push(end, element, most);
            }
            self.become_pieces();
        }
        let (chunk, mut count) = match (end, &mut self.rest) {
            (End::Tail, Some(rest)) => match rest.chunks.back_mut() {
                Some(last) => (last, Some(&mut rest.count)),
                None => (&mut self.first, None),
            },
            _ => (&mut self.first, None),
        };
        if chunk.takes(text.len(), piece) || (chunk.count() == 0 && !piece.is_large(text.len())) {
            chunk.push(end, element, most);
            if let Some(count) = &mut count {
                **count += 1;
            }
            return;
        }
        // No more will come here.
        chunk.trim();
        let begun = chunk.len() / 4;
        self.add_chunk(
            end,
            if piece.is_large(text.len()) {
                Chunk::plain(text)
            } else {
                let mut chunk = Chunk::with_room(end, begun.max(element.entry_len()));
                chunk.push(end, element, most);
                chunk
            },
        );
    }

    /// Takes up to `number` elements off an end. O(pieces of them), and the elements of a piece.
    #[inline]
    pub fn drop_end(&mut self, end: End, number: usize, piece: PieceSize) {
        let mut left = number;
        while left > 0 && !self.is_empty() {
            let count = self.end_chunk(end).count();
            if left >= count {
                left -= count;
                self.remove_end_chunk(end);
                continue;
            }
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
        self.shrunk(piece);
    }

    /// Keeps the elements from `start` to before `end`. O(pieces that go), and the elements of two pieces.
    pub fn keep(&mut self, start: usize, end: usize, piece: PieceSize) {
        let len = self.len();
        let end = end.min(len);
        let start = start.min(end);
        self.drop_end(End::Tail, len - end, piece);
        self.drop_end(End::Head, start, piece);
    }

    /// The pieces, as a snapshot keeps them.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.chunks().map(|chunk| match chunk.text() {
            Some(text) => Piece::Plain(text),
            None => Piece::Entries(chunk.entries(), chunk.count()),
        })
    }

    /// Adds a piece at the end: bare entries that were checked, and how many they are. O(bytes).
    ///
    /// Whoever makes a list of pieces must [settle](Self::settle) it.
    pub fn push_piece(&mut self, entries: &[u8], count: usize) {
        if count > 0 {
            self.add_chunk(End::Tail, Chunk::from_entries(entries, count));
        }
    }

    /// Adds an element that is a piece of its own at the end. O(length). As [`List::push_piece`].
    pub fn push_plain(&mut self, text: &[u8]) {
        self.become_pieces();
        // A snapshot cannot hold an empty plain piece.
        let chunk = match text {
            [] => Chunk::single(Element::Bytes(text)),
            _ => Chunk::plain(text),
        };
        self.add_chunk(End::Tail, chunk);
    }

    /// Gives a list that was made of pieces the form that it has in Redis.
    pub fn settle(&mut self, piece: PieceSize) {
        let (len, count) = (self.first.len(), self.first.count());
        let small = self.first.text().is_none() && piece.holds(len, count);
        match &self.rest {
            Some(rest) if rest.chunks.is_empty() && small => self.rest = None,
            None if !small => self.become_pieces(),
            _ => {}
        }
    }

    /// Elements went: one piece that has become small is Redis's `listpack` again.
    #[inline]
    fn shrunk(&mut self, piece: PieceSize) {
        if let Some(rest) = &self.rest {
            let (len, count) = (self.first.len(), self.first.count());
            if !rest.chunks.is_empty()
                || self.first.text().is_some()
                || !piece.half_holds(len, count)
            {
                return;
            }
            self.rest = None;
        }
        self.first.shrink();
    }

    /// From now on a `quicklist`.
    fn become_pieces(&mut self) {
        self.rest.get_or_insert_default();
    }

    fn chunk_count(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.chunks.len())
    }

    /// The piece with this number.
    ///
    /// # Panics
    /// If there is none.
    fn chunk(&self, number: usize) -> &Chunk {
        match (number, &self.rest) {
            (1.., Some(rest)) => &rest.chunks[number - 1],
            _ => &self.first,
        }
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

    /// The number of the piece that holds an index, and the element's number in there. O(pieces up to it), from the
    /// nearer end.
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
                let second = std::mem::replace(&mut self.first, chunk);
                rest.expect(&second);
                rest.chunks.push_front(second);
            }
            End::Tail => {
                rest.expect(&chunk);
                rest.chunks.push_back(chunk);
            }
        }
    }

    /// Takes the piece at an end out; the list is empty if that was its only one.
    fn remove_end_chunk(&mut self, end: End) {
        let taken = self.rest.as_mut().and_then(|rest| {
            let chunk = match end {
                End::Head => rest.chunks.pop_front()?,
                End::Tail => rest.chunks.pop_back()?,
            };
            rest.count -= chunk.count();
            let (len, capacity) = (rest.chunks.len(), rest.chunks.capacity());
            if capacity > RING_MIN && len < capacity / 8 {
                rest.chunks.shrink_to(2 * len);
            }
            Some(chunk)
        });
        match (end, taken) {
            (End::Head, Some(second)) => self.first = second,
            (End::Tail, Some(_)) => {}
            (_, None) => self.first.clear(),
        }
    }
}
