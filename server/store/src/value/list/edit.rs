//! Changes in the middle of a list: a piece that grows too large is split, small neighbours are
//! joined.

use punctual_rdb::listpack::Element;

use super::chunk::Chunk;
use super::piece::PieceSize;
use super::search::Position;
use super::{End, List};

impl List {
    /// Inserts an element beside another one: before it if `side` is the head, after it if `side`
    /// is the tail. O(bytes of a piece), plus O(pieces) if the number of pieces changes.
    pub fn insert(&mut self, beside: &Position, side: End, text: &[u8], limit: PieceSize) {
        self.grow_for(text, limit);
        let at = match side {
            End::Head => beside.entry.start,
            End::Tail => beside.entry.end,
        };
        self.insert_at(beside.chunk, at, text, limit);
    }

    /// Replaces the element at `index`. Returns false if `index` is out of range. O(pieces between
    /// it and the nearer end) plus O(bytes of a piece), plus O(pieces) if their number changes.
    pub fn set(&mut self, index: usize, text: &[u8], limit: PieceSize) -> bool {
        let Some((number, within)) = self.locate(index) else {
            return false;
        };
        self.grow_for(text, limit);
        let element = Element::of(text);
        let large = limit.is_large(text.len());
        let chunk = self.chunk(number);
        if large && chunk.count() == 1 || chunk.text().is_some() {
            let new = alone(element, text, limit);
            self.change(number, |chunk| *chunk = new);
        } else {
            let entry = chunk.range(within);
            let len = chunk.len() - entry.len() + element.entry_len();
            let fits = chunk.count() == 1 || limit.holds(len, chunk.count());
            if self.rest.is_none() || (fits && !large) {
                self.change(number, |chunk| {
                    chunk.replace(entry, element, limit.bytes());
                });
            } else {
                let at = entry.start;
                self.change(number, |chunk| chunk.remove(entry));
                self.insert_at(number, at, text, limit);
            }
        }
        self.join_around(number, limit);
        self.shrink(limit);
        true
    }

    /// Removes at most `count_max` elements with this text, from an end on. Returns their number.
    /// O(bytes).
    pub fn remove(&mut self, text: &[u8], from: End, count_max: usize, limit: PieceSize) -> usize {
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
                chunk.remove_all(text, from, count_max - removed, &mut found)
            });
            if here > 0 {
                touched += 1;
                last = number;
                removed += here;
            }
            if removed == count_max {
                break;
            }
        }
        match touched {
            0 => return 0,
            1 if self.chunk(last).count() == 0 => {
                self.remove_chunk(last);
                if last > 0 {
                    self.join(last - 1, limit);
                }
            }
            1 => self.join_around(last, limit),
            _ => self.rebuild(limit),
        }
        self.shrink(limit);
        removed
    }

    /// Converts a `listpack` to a `quicklist` if it has no room for this text.
    fn grow_for(&mut self, text: &[u8], limit: PieceSize) {
        let (len, count) = (self.first.len() + text.len(), self.first.count() + 1);
        if self.rest.is_none() && !limit.holds(len, count) {
            self.become_quicklist();
        }
    }

    /// Inserts an element at offset `at` of a piece. If the piece has no room, an element at its
    /// start or end goes into the neighbour or into a new piece. For an element in the middle, the
    /// piece is split in two.
    fn insert_at(&mut self, number: usize, at: usize, text: &[u8], limit: PieceSize) {
        let element = Element::of(text);
        let bytes_max = limit.bytes();
        let chunk = self.chunk(number);
        if self.rest.is_none() || chunk.takes(text.len(), limit) {
            return self.change(number, |chunk| chunk.insert(at, element, bytes_max));
        }
        let at_start = at == 0;
        let at_end = at
            == if chunk.text().is_some() {
                1
            } else {
                chunk.len()
            };
        if at_start && number > 0 && self.chunk(number - 1).takes(text.len(), limit) {
            return self.change(number - 1, |chunk| {
                chunk.push(End::Tail, element, bytes_max)
            });
        }
        let next = number + 1;
        if at_end && next < self.chunk_count() && self.chunk(next).takes(text.len(), limit) {
            return self.change(next, |chunk| chunk.push(End::Head, element, bytes_max));
        }
        if at_start || at_end {
            let place = if at_start { number } else { next };
            self.insert_chunk(place, alone(element, text, limit));
            return;
        }
        let right = self.change(number, |chunk| chunk.split_off(at));
        self.insert_chunk(next, right);
        if self.chunk(number).takes(text.len(), limit) {
            self.change(number, |chunk| chunk.push(End::Tail, element, bytes_max));
        } else if self.chunk(next).takes(text.len(), limit) {
            self.change(next, |chunk| chunk.push(End::Head, element, bytes_max));
        } else {
            self.insert_chunk(next, alone(element, text, limit));
        }
        self.join_around(next, limit);
        self.join_around(number, limit);
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
    fn join_around(&mut self, number: usize, limit: PieceSize) {
        self.join(number, limit);
        if number > 0 {
            self.join(number - 1, limit);
        }
    }

    /// Joins a piece with the next one if both together have at most half the size limit, so that
    /// the result is not soon split again. O(pieces) for a join.
    fn join(&mut self, number: usize, limit: PieceSize) {
        if number + 1 >= self.chunk_count() {
            return;
        }
        let (left, right) = (self.chunk(number), self.chunk(number + 1));
        if !are_joined(left, right, limit) {
            return;
        }
        let right = right.clone();
        self.remove_chunk(number + 1);
        self.change(number, |chunk| chunk.append(&right));
    }

    /// Removes empty pieces and joins small neighbours in the whole list. O(pieces + joined bytes);
    /// during a snapshot's walk, O(bytes), because the walk keeps copies.
    fn rebuild(&mut self, limit: PieceSize) {
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
            if !self.is_empty() && are_joined(self.chunk(last), &chunk, limit) {
                self.change(last, |last| last.append(&chunk));
            } else {
                self.add_chunk(End::Tail, chunk);
            }
        }
    }
}

/// Returns true if two neighbours are small enough to be joined.
fn are_joined(left: &Chunk, right: &Chunk, limit: PieceSize) -> bool {
    let (len, count) = (left.len() + right.len(), left.count() + right.count());
    left.text().is_none()
        && right.text().is_none()
        && limit.holds(len, count)
        && limit.half_holds(len, count)
}

/// Creates a piece of one element.
fn alone(element: Element<'_>, text: &[u8], limit: PieceSize) -> Chunk {
    if limit.is_large(text.len()) {
        Chunk::plain(text)
    } else {
        Chunk::single(element)
    }
}
