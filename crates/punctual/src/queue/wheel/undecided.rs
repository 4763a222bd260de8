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
        if let Some(place) = self.indices.get_mut(self.len) {
            *place = index;
            self.len += 1;
        }
        self.len == MOST
    }

    /// Removes all timers and returns them.
    #[inline]
    pub(super) fn take(&mut self) -> impl Iterator<Item = u32> + use<> {
        let len = take(&mut self.len);
        self.indices.into_iter().take(len)
    }
}
