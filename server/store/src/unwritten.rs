//! What a snapshot has still to write: items of [pages](crate::pages), and pieces of a sequence.

use std::collections::VecDeque;
use std::ops::Range;

/// Indices that were taken when the snapshot began and are not written yet. The snapshot goes
/// through them in ascending order; an item that changes before its turn is written early. One bit
/// an item.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// Items below this index are written.
    next: u32,
    /// Items from this index on were added after the snapshot began.
    end: u32,
    /// Bit i: item i was written early, or was added after the snapshot began.
    done: Vec<u64>,
}

impl Unwritten {
    /// Starts with all items of pages that end at `end`.
    pub(crate) fn new(end: u32) -> Self {
        Self {
            next: 0,
            end,
            done: vec![0; (end as usize).div_ceil(64)],
        }
    }

    /// Returns whether the item is still to be written, if it exists.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        (self.next..self.end).contains(&id) && self.done[id as usize / 64] >> (id % 64) & 1 == 0
    }

    /// Takes an item out of turn: it was written early, or added.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        if id < self.end {
            self.done[id as usize / 64] |= 1 << (id % 64);
        }
    }

    /// Takes the next index, and whether its item is still to be written. `None` at the end.
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

/// The pieces of a sequence that a snapshot has still to write, in order: numbers of those that
/// have not changed since it began, and copies of the others.
#[derive(Debug)]
pub(crate) struct UnwrittenPieces<P> {
    parts: VecDeque<Part<P>>,
}

#[derive(Debug)]
enum Part<P> {
    /// Numbers of pieces that have not changed. Never empty.
    Same(Range<usize>),
    /// A piece as it was.
    Kept(P),
}

/// A piece that is to be written.
pub(crate) enum Next<P> {
    /// The piece with this number.
    Same(usize),
    /// A copy.
    Kept(P),
}

impl<P> UnwrittenPieces<P> {
    /// Starts with pieces 0 to `count`.
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

    /// Returns whether every piece was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Keeps a copy of the piece `number` before it changes. O(parts).
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

    /// Notes that a piece was inserted at `number`. O(parts).
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

    /// Takes over the piece that was removed from `number`. O(parts).
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
