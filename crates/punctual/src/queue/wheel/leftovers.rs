//! Blocks of memory of an emptied wheel, to be freed in pieces.
//!
//! Freeing the blocks of a million timers takes hundreds of microseconds. So a wheel that becomes empty only moves
//! them here, and frees a few with each call that finds nothing due.

use alloc::vec::Vec;
use core::mem::size_of;

/// Number of blocks freed in a step.
const FREE_STEP: usize = 8;

/// Blocks to be freed.
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

    /// Adds blocks. O(1), unless there are some already, which then move.
    pub(super) fn add(&mut self, mut blocks: Vec<B>) {
        if self.0.len() <= blocks.len() {
            core::mem::swap(&mut self.0, &mut blocks);
        }
        self.0.append(&mut blocks);
    }

    /// Takes a block for reuse.
    pub(super) fn take(&mut self) -> Option<B> {
        self.0.pop()
    }

    /// Frees a few blocks. O(1).
    pub(super) fn give_back(&mut self) {
        self.0.truncate(self.0.len().saturating_sub(FREE_STEP));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Returns the bytes of the list, without the blocks.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<B>()
    }
}
