//! The hash function of key names.

use ahash::RandomState;
use punctual_cluster::slot;

use crate::hash_table::{Hash, SlotBits};

/// Hashes the names of keys, in cluster mode with the slot first.
#[derive(Clone)]
pub(crate) struct NameHasher {
    random: RandomState,
    slots: SlotBits,
}

impl NameHasher {
    pub(crate) const fn new(random: RandomState, slots: SlotBits) -> Self {
        Self { random, slots }
    }

    /// Returns the hash of a name. O(length).
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> Hash {
        let hash = self.random.hash_one(name);
        if self.slots.any() {
            self.in_slot(hash, name)
        } else {
            Hash::new(hash)
        }
    }

    /// Kept apart so that the code without cluster mode stays small where it is inlined.
    #[inline(never)]
    fn in_slot(&self, hash: u64, name: &[u8]) -> Hash {
        self.slots.hash(hash, slot::of_key(name))
    }

    /// Returns the bits of a hash for the slot; no bits outside of cluster mode.
    #[inline]
    pub(crate) const fn slots(&self) -> SlotBits {
        self.slots
    }
}
