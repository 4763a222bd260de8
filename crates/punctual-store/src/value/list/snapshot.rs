//! A snapshot's walk through a list, piece by piece, while the list changes.
//!
//! The walk knows which pieces are still as they were when it began, by their numbers, and keeps copies of the others. Every change of a piece
//! calls [`List::before_change`] first, and pieces that are inserted or removed shift the numbers of those behind them. Early copies
//! cost the memory of the pieces that changed.

use std::collections::VecDeque;
use std::ops::Range;

use super::chunk::Chunk;
use super::{End, List, Piece};

/// The pieces that are still to be written, in order.
#[derive(Debug)]
pub(super) struct SnapshotWalk {
    parts: VecDeque<Part>,
}

#[derive(Debug)]
enum Part {
    /// Numbers of pieces that have not changed. Never empty.
    Same(Range<usize>),
    /// A piece as it was.
    Kept(Chunk),
}

impl SnapshotWalk {
    /// Keeps the piece `number` before it changes or is removed. O(parts).
    fn keep(&mut self, number: usize, chunk: &Chunk) {
        let holds = |part: &Part| matches!(part, Part::Same(range) if range.contains(&number));
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
        self.parts[at] = Part::Kept(chunk.clone());
        if !behind.is_empty() {
            self.parts.insert(at + 1, Part::Same(behind));
        }
        if !before.is_empty() {
            self.parts.insert(at, Part::Same(before));
        }
    }

    /// Notes that a piece was inserted at `number`. O(parts).
    pub(super) fn inserted(&mut self, number: usize) {
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

    /// Notes that the piece `number`, which is kept or written, was removed. O(parts).
    pub(super) fn removed(&mut self, number: usize) {
        for part in &mut self.parts {
            if let Part::Same(range) = part
                && range.start > number
            {
                *range = range.start - 1..range.end - 1;
            }
        }
    }
}

impl List {
    /// Begins a snapshot's walk: from now on it will find the pieces as they are at this moment. O(1).
    pub(crate) fn begin_walk(&mut self) {
        let pieces = self.piece_count();
        let mut parts = VecDeque::new();
        if pieces > 0 {
            parts.push_back(Part::Same(0..pieces));
        }
        self.become_quicklist();
        if let Some(rest) = &mut self.rest {
            rest.walk = Some(Box::new(SnapshotWalk { parts }));
        }
    }

    /// Returns whether a snapshot has not reached the end.
    pub(crate) fn is_walked(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.walk.is_some())
    }

    /// Ends a snapshot's walk.
    pub(crate) fn end_walk(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.walk = None;
        }
    }

    /// Visits pieces of the walk until `visit` returns false. Returns true at the end.
    pub(crate) fn walk_pieces(&mut self, mut visit: impl FnMut(Piece<'_>) -> bool) -> bool {
        let walk = self.rest.as_mut().and_then(|rest| rest.walk.take());
        let Some(mut walk) = walk else {
            return true;
        };
        while let Some(part) = walk.parts.pop_front() {
            let more = match part {
                Part::Kept(chunk) => visit(chunk.piece()),
                Part::Same(range) => {
                    let behind = range.start + 1..range.end;
                    if !behind.is_empty() {
                        walk.parts.push_front(Part::Same(behind));
                    }
                    visit(self.chunk(range.start).piece())
                }
            };
            if !more {
                break;
            }
        }
        let ended = walk.parts.is_empty();
        if !ended && let Some(rest) = &mut self.rest {
            rest.walk = Some(walk);
        }
        ended
    }

    /// Keeps a piece for the snapshot before it changes.
    #[inline]
    pub(super) fn before_change(&mut self, number: usize) {
        if self.is_walked() {
            self.keep_piece(number);
        }
    }

    /// As [`List::before_change`], for the piece at an end.
    #[inline]
    pub(super) fn before_change_at(&mut self, end: End) {
        if self.is_walked() {
            let number = match end {
                End::Head => 0,
                End::Tail => self.chunk_count() - 1,
            };
            self.keep_piece(number);
        }
    }

    #[cold]
    fn keep_piece(&mut self, number: usize) {
        let walk = self.rest.as_mut().and_then(|rest| rest.walk.take());
        if let Some(mut walk) = walk {
            walk.keep(number, self.chunk(number));
            if let Some(rest) = &mut self.rest {
                rest.walk = Some(walk);
            }
        }
    }
}
