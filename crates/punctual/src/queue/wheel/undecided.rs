//! Timers of a large wheel that may still need an entry.
//!
//! Whether a timer needs an entry depends on its record, which a cancel has often just fetched from memory. A
//! processor guesses the answer; when it guesses wrong, it has to wait for the record and then start again with
//! everything that follows, such as fetching the next record. So a large wheel only notes its new timers, and
//! decides when their records have arrived.

use core::mem::take;

/// Number of timers that are decided together.
const MOST: usize = 32;

/// Indices of timers, in the order of arming. Some of the timers may have been cancelled or re-armed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undecided {
    indices: [u32; MOST],
    len: usize,
}

impl Default for Undecided {
    fn default() -> Self {
        Self::new()
    }
}

impl Undecided {
    pub(super) const fn new() -> Self {
        Undecided {
            indices: [0; MOST],
            len: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer. Returns whether there is no room for another.
    #[inline]
    pub(super) fn push(&mut self, index: u32) -> bool {
        self.indices[self.len % MOST] = index;
        self.len += 1;
        self.len == MOST
    }

    /// Removes all timers, and moves those for which `condition` holds to the front, without a branch on it. Returns
    /// their number.
    #[inline]
    pub(super) fn choose(&mut self, condition: impl Fn(u32) -> bool) -> usize {
        let mut count = 0;
        for at in 0..take(&mut self.len).min(MOST) {
            let index = self.indices[at];
            self.indices[count] = index;
            count += usize::from(condition(index));
        }
        count
    }

    /// Returns one of the timers that were moved to the front.
    #[inline]
    pub(super) fn chosen(&self, at: usize) -> u32 {
        self.indices[at]
    }
}
