//! New timers that need an entry.
//!
//! Whether a timer needs an entry depends on its record, which a cancel has often just fetched from
//! memory. A processor guesses the answer; when it guesses wrong, it has to wait for the record and
//! then start again with everything that follows, such as fetching the next record. So a wheel
//! notes these timers without a branch, and files their entries together when the records have
//! arrived.

use core::mem::take;

/// Number of timers that are filed together.
const BATCH: usize = 32;

/// Indices of timers, in the order of arming. Some of the timers may have been cancelled or
/// re-armed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undecided {
    indices: [u32; BATCH],
    len: usize,
}

impl Undecided {
    pub(super) const fn new() -> Self {
        Undecided {
            indices: [0; BATCH],
            len: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer if `condition` holds for it, without a branch on it. Returns whether there is
    /// no room for another.
    #[inline]
    pub(super) fn push_if(&mut self, condition: bool, index: u32) -> bool {
        self.indices[self.len % BATCH] = index;
        self.len += usize::from(condition);
        self.len == BATCH
    }

    /// Removes all timers. Returns their number.
    #[inline]
    pub(super) fn take(&mut self) -> usize {
        take(&mut self.len).min(BATCH)
    }

    /// Returns one of the timers that `take` removed.
    #[inline]
    pub(super) fn taken(&self, at: usize) -> u32 {
        self.indices[at]
    }
}
