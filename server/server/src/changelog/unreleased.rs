//! Upper bounds for the log positions of keys' last changes, from which a loop sees whether a read
//! may reveal an unreleased change.
//!
//! A fixed table has two rows of positions. A key has one cell in each row, and the smaller
//! position of both is the bound. If other keys share both cells of a key, the key's bound is too
//! high; this is rare, and only delays a reply. For a change that is not appended yet, the cells
//! get the log's end plus one, which is above every released position. After the change was
//! appended, the cells get the log's new end. Positions only grow. So a key whose position is at
//! most the position that was released when a turn began has no unreleased change.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_store::KeyHash;

/// Number of bits of a cell's index.
const BITS: u32 = 16;

/// The table of positions.
pub(super) struct Unreleased {
    rows: [Box<[AtomicU64]>; 2],
}

impl Default for Unreleased {
    fn default() -> Self {
        let row = || (0..1 << BITS).map(|_| AtomicU64::new(0)).collect();
        Self {
            rows: [row(), row()],
        }
    }
}

impl Unreleased {
    /// Returns the cells of a key. The hash is well mixed, so its bits serve as indices.
    #[inline]
    fn cells(&self, key: KeyHash) -> [&AtomicU64; 2] {
        let [first, second] = &self.rows;
        let cell = |bits: u64| bits as usize & ((1 << BITS) - 1);
        [&first[cell(key.0)], &second[cell(key.0 >> BITS)]]
    }

    /// Records a change at `position` or later.
    #[inline]
    pub(super) fn note(&self, key: KeyHash, position: u64) {
        for cell in self.cells(key) {
            if cell.load(Ordering::Acquire) < position {
                cell.fetch_max(position, Ordering::AcqRel);
            }
        }
    }

    /// Returns an upper bound of the position of a key's last change. A change that is not appended
    /// yet has no position; the result is then above every released position.
    #[inline]
    pub(super) fn position(&self, key: KeyHash) -> u64 {
        let [first, second] = self.cells(key).map(|cell| cell.load(Ordering::Acquire));
        first.min(second)
    }
}
