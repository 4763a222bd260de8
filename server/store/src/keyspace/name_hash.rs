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
        if self.slots.any() {
            self.hash_in_slot(name)
        } else {
            Hash::new(self.random.hash_one(name))
        }
    }

    /// Kept apart so that the code without cluster mode stays small where it is inlined.
    #[inline(never)]
    fn hash_in_slot(&self, name: &[u8]) -> Hash {
        self.hash_and_slot(name).0
    }

    /// Returns the hash of a name in cluster mode, and its slot. O(length).
    #[inline]
    pub(crate) fn hash_and_slot(&self, name: &[u8]) -> (Hash, u16) {
        let hash = self.random.hash_one(name);
        let slot = slot::of_key(name);
        (self.slots.hash(hash, slot), slot)
    }

    /// Returns the bits of a hash for the slot; no bits outside of cluster mode.
    #[inline]
    pub(crate) const fn slots(&self) -> SlotBits {
        self.slots
    }
}
