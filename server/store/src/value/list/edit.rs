//! Changes in the middle of a list: a piece that grows too large is split, small neighbours are
//! joined.

use punctual_rdb::listpack::Element;

use super::chunk::Chunk;
use super::piece::PieceSize;
use super::search::Position;
use super::{End, List};

impl List {
    /// Inserts an element beside another one: before it if `side` is the head, after it if `side`
    /// is the tail. O(bytes of a piece) plus O(pieces) for a split.
    pub fn insert(&mut self, beside: &Position, side: End, text: &[u8], piece: PieceSize) {
        self.grow_for(text, piece);
        let at = match side {
            End::Head => beside.entry.start,
            End::Tail => beside.entry.end,
        };
        self.insert_at(beside.chunk, at, text, piece);
    }

    /// Replaces the element at `index`. Returns false if `index` is out of range. O(pieces between
    /// it and the nearer end) plus O(bytes of a piece).
    pub fn set(&mut self, index: usize, text: &[u8], piece: PieceSize) -> bool {
        let Some((number, within)) = self.locate(index) else {
            return false;
        };
        self.grow_for(text, piece);
        let element = Element::of(text);
        let large = piece.is_large(text.len());
        let chunk = self.chunk(number);
        if large && chunk.count() == 1 || chunk.text().is_some() {
            let new = alone(element, text, piece);
            self.change(number, |chunk| *chunk = new);
        } else {
            let entry = chunk.range(within);
            let len = chunk.len() - entry.len() + element.entry_len();
            let fits = chunk.count() == 1 || piece.holds(len, chunk.count());
            if self.rest.is_none() || (fits && !large) {
                self.change(number, |chunk| {
                    chunk.replace(entry, element, piece.bytes());
                });
            } else {
                let at = entry.start;
                self.change(number, |chunk| chunk.remove(entry));
                self.insert_at(number, at, text, piece);
            }
        }
        self.join_around(number, piece);
        self.shrink(piece);
        true
    }

    /// Removes at most `most` elements with this text, from an end on. Returns their number.
    /// O(elements).
    pub fn remove(&mut self, text: &[u8], from: End, most: usize, piece: PieceSize) -> usize {
        let mut found = Vec::new();
        let mut removed = 0;
        let (mut touched, mut last) = (0, 0);
        let chunks = self.chunk_count();
        for step in 0..chunks {
            let number = match from {
                End::Head => step,
                End::Tail => chunks - 1 - step,
            };
            if self.is_walked() && !self.chunk(number).contains(text) {
                continue;
            }
            let here = self.change(number, |chunk| {
                chunk.remove_all(text, from, most - removed, &mut found)
            });
            if here > 0 {
                touched += 1;
                last = number;
                removed += here;
            }
            if removed == most {
                break;
            }
        }
        match touched {
            0 => return 0,
            1 if self.chunk(last).count() == 0 => {
                self.remove_chunk(last);
                if last > 0 {
                    self.join(last - 1, piece);
                }
            }
            1 => self.join_around(last, piece),
            _ => self.rebuild(piece),
        }
        self.shrink(piece);
        removed
    }

    /// Converts a `listpack` to a `quicklist` if it has no room for this text.
    fn grow_for(&mut self, text: &[u8], piece: PieceSize) {
        let (len, count) = (self.first.len() + text.len(), self.first.count() + 1);
        if self.rest.is_none() && !piece.holds(len, count) {
            self.become_quicklist();
        }
    }

    /// Inserts an element at offset `at` of a piece. If the piece has no room, the element goes
    /// into a neighbour or, in the middle of the piece, between its two halves.
    fn insert_at(&mut self, number: usize, at: usize, text: &[u8], piece: PieceSize) {
        let element = Element::of(text);
        let most = piece.bytes();
        let chunk = self.chunk(number);
        if self.rest.is_none() || chunk.takes(text.len(), piece) {
            return self.change(number, |chunk| chunk.insert(at, element, most));
        }
        let at_start = at == 0;
        let at_end = at
            == if chunk.text().is_some() {
                1
            } else {
                chunk.len()
            };
        if at_start && number > 0 && self.chunk(number - 1).takes(text.len(), piece) {
            return self.change(number - 1, |chunk| chunk.push(End::Tail, element, most));
        }
        let next = number + 1;
        if at_end && next < self.chunk_count() && self.chunk(next).takes(text.len(), piece) {
            return self.change(next, |chunk| chunk.push(End::Head, element, most));
        }
        if at_start || at_end {
            let place = if at_start { number } else { next };
            self.insert_chunk(place, alone(element, text, piece));
            return;
        }
        let right = self.change(number, |chunk| chunk.split_off(at));
        self.insert_chunk(next, right);
        if self.chunk(number).takes(text.len(), piece) {
            self.change(number, |chunk| chunk.push(End::Tail, element, most));
        } else if self.chunk(next).takes(text.len(), piece) {
            self.change(next, |chunk| chunk.push(End::Head, element, most));
        } else {
            self.insert_chunk(next, alone(element, text, piece));
        }
        self.join_around(next, piece);
        self.join_around(number, piece);
    }

    /// Changes a piece and updates the element count.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Chunk) -> R) -> R {
        self.before_change(number);
        match (number, &mut self.rest) {
            (1.., Some(rest)) => {
                let chunk = &mut rest.chunks[number - 1];
                let before = chunk.count();
                let done = change(chunk);
                rest.count = rest.count - before + chunk.count();
                done
            }
            _ => change(&mut self.first),
        }
    }

    /// Inserts a piece at `number`. O(pieces).
    fn insert_chunk(&mut self, number: usize, chunk: Chunk) {
        if number == 0 {
            return self.add_chunk(End::Head, chunk);
        }
        let rest = self.rest.get_or_insert_default();
        if let Some(walk) = &mut rest.walk {
            walk.inserted(number);
        }
        rest.reserve(&chunk);
        rest.chunks.insert(number - 1, chunk);
    }

    /// Removes a piece. O(pieces).
    fn remove_chunk(&mut self, number: usize) {
        match (number, &mut self.rest) {
            (1.., Some(rest)) => {
                if let Some(chunk) = rest.chunks.remove(number - 1) {
                    rest.count -= chunk.count();
                    rest.removed(number, chunk);
                }
            }
            _ => self.remove_end_chunk(End::Head),
        }
    }

    /// Joins a piece with its neighbours if they are small.
    fn join_around(&mut self, number: usize, piece: PieceSize) {
        self.join(number, piece);
        if number > 0 {
            self.join(number - 1, piece);
        }
    }

    /// Joins a piece with the next one if both together are at most half a piece, so that the
    /// result is not soon split again. O(pieces) for a join.
    fn join(&mut self, number: usize, piece: PieceSize) {
        if number + 1 >= self.chunk_count() {
            return;
        }
        let (left, right) = (self.chunk(number), self.chunk(number + 1));
        if !are_joined(left, right, piece) {
            return;
        }
        let right = right.clone();
        self.remove_chunk(number + 1);
        self.change(number, |chunk| chunk.append(&right));
    }

    /// Removes empty pieces and joins small neighbours in the whole list. O(pieces).
    fn rebuild(&mut self, piece: PieceSize) {
        for number in 0..self.chunk_count() {
            self.before_change(number);
        }
        let first = std::mem::take(&mut self.first);
        let Some(rest) = &mut self.rest else {
            self.first = first;
            return;
        };
        rest.count = 0;
        let old = std::mem::take(&mut rest.chunks);
        for chunk in std::iter::once(first).chain(old) {
            if chunk.count() == 0 {
                continue;
            }
            let last = self.chunk_count() - 1;
            if !self.is_empty() && are_joined(self.chunk(last), &chunk, piece) {
                self.change(last, |last| last.append(&chunk));
            } else {
                self.add_chunk(End::Tail, chunk);
            }
        }
    }
}

/// Returns true if two neighbours are small enough to be joined.
fn are_joined(left: &Chunk, right: &Chunk, piece: PieceSize) -> bool {
    let (len, count) = (left.len() + right.len(), left.count() + right.count());
    left.text().is_none()
        && right.text().is_none()
        && piece.holds(len, count)
        && piece.half_holds(len, count)
}

/// Creates a piece of one element.
fn alone(element: Element<'_>, text: &[u8], piece: PieceSize) -> Chunk {
    if piece.is_large(text.len()) {
        Chunk::plain(text)
    } else {
        Chunk::single(element)
    }
}
