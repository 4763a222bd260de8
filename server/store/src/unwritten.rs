//! The remaining work of a snapshot: the items of [pages](crate::pages), or the pieces of a
//! sequence, that the snapshot must still write. The snapshot writes each item or piece as it was
//! when the snapshot began.

use std::collections::VecDeque;
use std::ops::Range;

/// The items of pages that a snapshot must still write. The snapshot writes them in ascending order
/// of their indices. The owner of the pages copies or writes an item early, before the item
/// changes. Takes one bit for each place.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// Items below this index are written.
    next: u32,
    /// Items from this index on were added after the snapshot began.
    end: u32,
    /// Bit i is set if item i was copied or written early, or was added after the snapshot began.
    done: Vec<u64>,
}

impl Unwritten {
    /// Creates the work for all items with indices below `end`.
    pub(crate) fn new(end: u32) -> Self {
        Self {
            next: 0,
            end,
            done: vec![0; (end as usize).div_ceil(64)],
        }
    }

    /// Returns whether the snapshot must still write the item, if the item exists.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        (self.next..self.end).contains(&id) && self.done[id as usize / 64] >> (id % 64) & 1 == 0
    }

    /// Excludes an item: the caller has copied or written it early, or has added it.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        if id < self.end {
            self.done[id as usize / 64] |= 1 << (id % 64);
        }
    }

    /// Returns the next index, and whether the snapshot must still write its item. Returns `None`
    /// at the end.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, bool)> {
        if self.next == self.end {
            return None;
        }
        let id = self.next;
        let unwritten = self.contains(id);
        self.next += 1;
        Some((id, unwritten))
    }
}

/// The pieces of a sequence that a snapshot must still write, in order: the numbers of unchanged
/// pieces, and copies of pieces from before they changed.
#[derive(Debug)]
pub(crate) struct UnwrittenPieces<P> {
    parts: VecDeque<Part<P>>,
}

#[derive(Debug)]
enum Part<P> {
    /// Current numbers of pieces that have not changed. Never empty.
    Same(Range<usize>),
    /// Copy of a piece that has changed or was removed.
    Kept(P),
}

/// The next piece to write.
pub(crate) enum Next<P> {
    /// The piece that has this number in the sequence now.
    Same(usize),
    /// A copy of a piece.
    Kept(P),
}

impl<P> UnwrittenPieces<P> {
    /// Creates the work for the first `count` pieces.
    pub(crate) fn new(count: usize) -> Self {
        let all = (count > 0).then_some(Part::Same(0..count));
        Self {
            parts: all.into_iter().collect(),
        }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self) -> Option<Next<P>> {
        Some(match self.parts.pop_front()? {
            Part::Kept(piece) => Next::Kept(piece),
            Part::Same(range) => {
                let behind = range.start + 1..range.end;
                if !behind.is_empty() {
                    self.parts.push_front(Part::Same(behind));
                }
                Next::Same(range.start)
            }
        })
    }

    /// Returns whether no pieces are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Copies the piece `number` before it changes, if it is still to be written. O(parts).
    pub(crate) fn keep(&mut self, number: usize, piece: &P)
    where
        P: Clone,
    {
        self.keep_with(number, || piece.clone());
    }

    fn keep_with(&mut self, number: usize, piece: impl FnOnce() -> P) {
        let holds = |part: &Part<P>| matches!(part, Part::Same(range) if range.contains(&number));
        // Most changes are at the ends.
        let at = match self.parts.back() {
            Some(last) if holds(last) => self.parts.len() - 1,
            _ => match self.parts.iter().position(holds) {
                Some(at) => at,
                None => return,
            },
        };
        let Part::Same(range) = &mut self.parts[at] else {
            return;
        };
        let (before, behind) = (range.start..number, number + 1..range.end);
        self.parts[at] = Part::Kept(piece());
        if !behind.is_empty() {
            self.parts.insert(at + 1, Part::Same(behind));
        }
        if !before.is_empty() {
            self.parts.insert(at, Part::Same(before));
        }
    }

    /// Adjusts the numbers of pieces after a piece was inserted at `number`. O(parts).
    pub(crate) fn inserted(&mut self, number: usize) {
        let mut split = None;
        for (at, part) in self.parts.iter_mut().enumerate() {
            if let Part::Same(range) = part {
                if range.start >= number {
                    *range = range.start + 1..range.end + 1;
                } else if range.end > number {
                    split = Some((at + 1, number + 1..range.end + 1));
                    range.end = number;
                }
            }
        }
        if let Some((at, behind)) = split {
            self.parts.insert(at, Part::Same(behind));
        }
    }

    /// Stores the piece that was removed from `number` if it is still to be written, and adjusts
    /// the numbers of later pieces. O(parts).
    pub(crate) fn removed(&mut self, number: usize, piece: P) {
        self.keep_with(number, || piece);
        for part in &mut self.parts {
            if let Part::Same(range) = part
                && range.start > number
            {
                *range = range.start - 1..range.end - 1;
            }
        }
    }
}
