//! Going through a list, towards either end.

use punctual_rdb::listpack::{self, Element};

use super::chunk::Chunk;
use super::{End, List};

/// The elements of a list from one on, towards one end. O(1) each.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    list: &'a List,
    towards: End,
    /// The piece that `entries` are of.
    number: usize,
    entries: &'a [u8],
    /// Where the next entry starts, or, towards the head, where it ends.
    at: usize,
    /// The element of a plain piece, until it is passed.
    text: Option<&'a [u8]>,
}

impl List {
    /// The elements from the head on.
    pub fn iter(&self) -> Walk<'_> {
        self.walk(0, End::Tail)
    }

    /// The elements from the one at `index` on, towards an end; none if there is no such element. O(pieces up to it),
    /// from the nearer end, and the elements of a piece.
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
            // Behind the last piece, where nothing comes.
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

    /// What comes after the piece's entries.
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
