//! Frees the memory of a raw wheel in pieces, and packs the entries of a pool that is mostly
//! unused.

use super::chunk::{Pool, Slot};
use super::level::Level;
use super::raw::RawWheel;
use core::mem::{replace, take};

impl RawWheel {
    /// Drops all entries. Later calls of [`Pool::free_piece`] free the memory in pieces. O(1).
    pub(super) fn clear_lazily(&mut self) {
        let old = take(self);
        self.now = old.now;
        self.pool.reclaim(old.pool);
        self.has_memory_to_free = true;
    }

    /// Packs the entries into as few chunks as they need. O(entries).
    pub(super) fn pack(&mut self) {
        let mut pool = Pool::new();
        for level in &mut self.levels {
            if level.occupied == 0 {
                *level = Level::EMPTY;
            }
            for slot in level.slots.iter_mut().flat_map(|slots| slots.iter_mut()) {
                let mut packed = Slot::EMPTY;
                for chunk in self.pool.chunks(*slot) {
                    for &entry in chunk.entries() {
                        packed.push(&mut pool, entry);
                    }
                }
                *slot = packed;
            }
        }
        let before = replace(&mut self.pool, pool);
        self.pool.reclaim(before);
        self.has_memory_to_free = true;
    }

    /// Packs the entries if most chunks are unused; otherwise frees a piece of the leftovers. Also
    /// trims the front.
    #[inline]
    pub(super) fn trim(&mut self) {
        if self.pool.is_sparse() {
            self.pack();
        } else if self.has_memory_to_free {
            self.pool.free_piece();
        }
        self.front.trim();
    }
}
