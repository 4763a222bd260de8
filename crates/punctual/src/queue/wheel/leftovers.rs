//! Blocks of memory that a crowd has left, on their way back to the system.
//!
//! Freeing the blocks of a million timers takes hundreds of microseconds. So when a wheel empties it only puts them
//! here, and frees a few with each call that finds it empty or nothing due.

use alloc::vec::Vec;
use core::mem::size_of;

/// So many blocks are freed in a step.
const STEP: usize = 8;

/// The blocks.
#[derive(Debug)]
pub(super) struct Leftovers<B>(Vec<B>);

impl<B> Default for Leftovers<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Leftovers<B> {
    pub(super) const fn new() -> Self {
        Leftovers(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes blocks in. O(1), unless there are some left already, which then move.
    pub(super) fn leave(&mut self, mut blocks: Vec<B>) {
        if self.0.len() <= blocks.len() {
            core::mem::swap(&mut self.0, &mut blocks);
        }
        self.0.append(&mut blocks);
    }

    /// A block to use again.
    pub(super) fn take(&mut self) -> Option<B> {
        self.0.pop()
    }

    /// Frees some blocks. O(1).
    pub(super) fn give_back(&mut self) {
        self.0.truncate(self.0.len().saturating_sub(STEP));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Bytes of the list, without the blocks.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<B>()
    }
}
