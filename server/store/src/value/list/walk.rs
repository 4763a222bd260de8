//! Iteration over a list towards either end.

use punctual_rdb::listpack::{self, Element};

use super::chunk::Chunk;
use super::{End, List};

/// Iterator over the elements of a list towards one end. O(1) each.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    list: &'a List,
    towards: End,
    /// Number of the piece that contains `entries`.
    number: usize,
    entries: &'a [u8],
    /// Offset of the next entry: its start when iterating towards the tail, its end when iterating
    /// towards the head.
    at: usize,
    /// The element of a plain piece, until it is returned.
    text: Option<&'a [u8]>,
}

impl List {
    /// Iterates over all elements from the head on.
    pub fn iter(&self) -> Walk<'_> {
        self.walk(0, End::Tail)
    }

    /// Iterates towards an end from the element at `index` on. Returns an empty iterator if `index`
    /// is out of range. O(pieces between it and the nearer end) plus O(elements of a piece).
    pub fn walk(&self, index: usize, towards: End) -> Walk<'_> {
        let mut walk = Walk {
            list: self,
            towards,
            number: 0,
            entries: &[],
            at: 0,
            text: None,
        };
        let Some((number, within)) = self.locate(index) else {
            // Past the last piece: the iterator is empty.
            walk.number = match towards {
                End::Head => 0,
                End::Tail => self.chunk_count(),
            };
            return walk;
        };
        let chunk = self.chunk(number);
        walk.enter(number, chunk);
        if chunk.text().is_none() {
            walk.at = match towards {
                End::Tail => chunk.offset(within),
                End::Head => chunk.offset(within + 1),
            };
        }
        walk
    }
}

impl<'a> Walk<'a> {
    fn enter(&mut self, number: usize, chunk: &'a Chunk) {
        self.number = number;
        self.entries = chunk.entries();
        self.text = chunk.text();
        self.at = match self.towards {
            End::Tail => 0,
            End::Head => self.entries.len(),
        };
    }

    /// Returns the next element when the entries of the current piece are used up: a plain piece's
    /// text, or the first element of the next piece.
    #[cold]
    fn after(&mut self) -> Option<Element<'a>> {
        if let Some(text) = self.text.take() {
            return Some(Element::of(text));
        }
        let number = match self.towards {
            End::Tail => Some(self.number + 1).filter(|n| *n < self.list.chunk_count())?,
            End::Head => self.number.checked_sub(1)?,
        };
        let list = self.list;
        self.enter(number, list.chunk(number));
        self.next()
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let step = match self.towards {
            End::Tail => listpack::next(self.entries, self.at),
            End::Head => listpack::prev(self.entries, self.at),
        };
        match step {
            Some((element, at)) => {
                self.at = at;
                Some(element)
            }
            None => self.after(),
        }
    }
}
