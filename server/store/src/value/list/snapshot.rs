//! A snapshot's walk through a list, piece by piece, while the list changes.
//!
//! [`UnwrittenPieces`] has the numbers of the pieces that are still as they were, and copies of the others. Every change of a piece calls [`List::before_change`] first, and pieces that are inserted or removed shift the numbers of those behind them. Early copies
//! cost the memory of the pieces that changed.

use super::{End, List, Piece};
use crate::unwritten::{Next, UnwrittenPieces};

impl List {
    /// Begins a snapshot's walk: from now on it will find the pieces as they are at this moment. O(1).
    pub(crate) fn begin_walk(&mut self) {
        let walk = UnwrittenPieces::new(self.piece_count());
        self.become_quicklist();
        if let Some(rest) = &mut self.rest {
            rest.walk = Some(Box::new(walk));
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
        while let Some(next) = walk.take() {
            let more = match next {
                Next::Kept(chunk) => visit(chunk.piece()),
                Next::Same(number) => visit(self.chunk(number).piece()),
            };
            if !more {
                break;
            }
        }
        let ended = walk.is_empty();
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
