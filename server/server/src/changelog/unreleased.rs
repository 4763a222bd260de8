//! Keys with changes that replies may not reveal yet.
//!
//! A fixed table has two rows of log positions. A key has one cell in each row, and the lower of
//! both positions is an upper bound of its own: the key waits for changes of other keys only if two
//! of them share its cells, which is rare and harmless. A change that is not appended stores the
//! log's end plus one, which is a lower bound of its position, and its position once the turn has
//! appended it. Positions only grow. So with `since`, the released position at the start of a turn,
//! a key whose position is not above it has no unreleased change, neither of another turn nor of
//! this one.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_store::KeyHash;

/// Number of bits of a cell's number.
const BITS: u32 = 16;

/// Positions of the last changes, by groups of keys.
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
    /// Returns the cells of a key. The hash is mixed already.
    #[inline]
    fn cells(&self, key: KeyHash) -> [&AtomicU64; 2] {
        let [first, second] = &self.rows;
        let cell = |bits: u64| bits as usize & ((1 << BITS) - 1);
        [&first[cell(key.0)], &second[cell(key.0 >> BITS)]]
    }

    /// Notes a change at `position` or later.
    #[inline]
    pub(super) fn note(&self, key: KeyHash, position: u64) {
        for cell in self.cells(key) {
            if cell.load(Ordering::Acquire) < position {
                cell.fetch_max(position, Ordering::AcqRel);
            }
        }
    }

    /// Returns the position of the last change of a key or more, or a lower bound of it during the
    /// turn that makes the change.
    #[inline]
    pub(super) fn position(&self, key: KeyHash) -> u64 {
        let [first, second] = self.cells(key).map(|cell| cell.load(Ordering::Acquire));
        first.min(second)
    }
}
