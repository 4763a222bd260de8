//! Iteration over the entries of a stream.

use std::collections::vec_deque;
use std::iter::Rev;

use punctual_rdb::stream::{Block, Entries, Entry};

use super::{Id, Stream};

/// Iterator over the entries of a range in ascending order.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    entries: Option<Entries<'a>>,
    blocks: vec_deque::Iter<'a, Block>,
    start: Id,
    end: Id,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            for entry in self.entries.as_mut()? {
                if entry.id > self.end {
                    self.entries = None;
                    return None;
                }
                if entry.id >= self.start && !entry.deleted {
                    return Some(entry);
                }
            }
            self.entries = self.blocks.next().map(Block::entries);
        }
    }
}

/// Iterator over the entries of a range in descending order.
#[derive(Clone, Debug)]
pub struct WalkBack<'a> {
    entries: Option<Rev<Entries<'a>>>,
    blocks: Rev<vec_deque::Iter<'a, Block>>,
    start: Id,
    end: Id,
}

impl<'a> Iterator for WalkBack<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            for entry in self.entries.as_mut()? {
                if entry.id < self.start {
                    self.entries = None;
                    return None;
                }
                if entry.id <= self.end && !entry.deleted {
                    return Some(entry);
                }
            }
            self.entries = self.blocks.next().map(|block| block.entries().rev());
        }
    }
}

impl Stream {
    /// Iterates over the entries from `start` to `end`, both included. O(log blocks + entries of a
    /// block) to begin.
    pub fn range(&self, start: Id, end: Id) -> Walk<'_> {
        let first = self.blocks.partition_point(|block| block.last_id() < start);
        let mut blocks = self.blocks.range(first..);
        Walk {
            entries: blocks.next().map(Block::entries),
            blocks,
            start,
            end,
        }
    }

    /// Same as [`Stream::range`], in descending order.
    pub fn range_back(&self, start: Id, end: Id) -> WalkBack<'_> {
        let count = self.blocks.partition_point(|block| block.id() <= end);
        let mut blocks = self.blocks.range(..count).rev();
        WalkBack {
            entries: blocks.next().map(|block| block.entries().rev()),
            blocks,
            start,
            end,
        }
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> Walk<'_> {
        self.range(Id::MIN, Id::MAX)
    }
}
