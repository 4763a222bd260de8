//! Which keys have changes that are not on the device yet, for `appendfsync always`.
//!
//! A fixed table has a log position for each group of keys. A change stores what is behind the log's end at that moment, which
//! is a lower bound of its own position, and its own position once the turn has appended it; positions only grow. So with
//! `since`, the synced position at the start of a turn, a key whose position is not above it has no unsynced change, neither of
//! another turn nor of this one. Keys that share a group wait for each other's changes, which is harmless.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of groups; a power of two.
const GROUPS: usize = 1 << 16;

/// Positions of the last changes, by groups of keys.
pub(super) struct Unsynced {
    positions: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for Unsynced {
    fn default() -> Self {
        Self {
            positions: (0..GROUPS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Unsynced {
    /// Returns the group of a key.
    pub(super) fn group(&self, db: usize, key: &[u8]) -> usize {
        self.hasher.hash_one((db, key)) as usize % GROUPS
    }

    /// Notes a change at `position` or later.
    pub(super) fn note(&self, group: usize, position: u64) {
        self.positions[group].fetch_max(position, Ordering::AcqRel);
    }

    /// Returns the position of the last change in a group, or a lower bound of it during the turn that makes the change.
    pub(super) fn position(&self, group: usize) -> u64 {
        self.positions[group].load(Ordering::Acquire)
    }
}
