//! Hashes of keys. In cluster mode a key's hash begins with the key's *hash slot*.
//!
//! The bits of the slot are rotated: its low bits come first and select the shard, so a shard has
//! all keys of a slot, and the slots of one node, mostly neighbours, spread over all shards. The
//! other bits, which tell the slots of one shard apart, are the top bits of the place, so
//! neighbours in a shard are neighbours in its table.

use punctual_cluster::slot::SLOTS;

/// Number of bits of a slot.
const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// A hash of a key and its database. Only the low 48 bits depend on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

/// The parts of a key's hash: its place and its tag for the table, and bits for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// High half of the hash. Determines the order of keys and their chunk. The key's record stores
    /// it.
    pub place: u32,
    spread: u16,
    pub(super) tag: u8,
}

impl Hash {
    /// Splits a 64-bit hash. Both halves must be well mixed.
    #[inline]
    pub const fn new(hash: u64) -> Self {
        let low = hash as u8;
        Self {
            place: (hash >> 32) as u32,
            spread: (hash >> 8) as u16,
            tag: if low == 0 { 1 } else { low },
        }
    }

    /// Returns the hash of the key and of its database.
    #[inline]
    pub const fn in_db(self, db: usize) -> KeyHash {
        let bits = (self.place as u64) << u16::BITS | self.spread as u64;
        KeyHash(bits ^ (db as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the shard of the key, out of at most 2^16 shards.
    pub const fn shard(self, shards: usize) -> usize {
        (self.spread as usize * shards) >> u16::BITS
    }
}

/// The slot's share of a hash in cluster mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotBits {
    /// Number of top bits of a place that tell the slots of one shard apart; 0 outside of cluster
    /// mode.
    pub(super) bits: u32,
    /// Number of low bits of a slot that come first.
    rotation: u32,
}

impl SlotBits {
    /// Returns the bits for a keyspace with this number of shards in cluster mode.
    pub const fn for_shards(shards: usize) -> Self {
        let slots = (SLOTS as usize).div_ceil(shards);
        let bits = slots.next_power_of_two().trailing_zeros();
        Self {
            // 0 bits would stand for a place outside of cluster mode.
            bits: if bits == 0 { 1 } else { bits },
            rotation: shards.next_power_of_two().trailing_zeros(),
        }
    }

    /// Returns whether hashes begin with the slot.
    #[inline]
    pub const fn any(self) -> bool {
        self.bits > 0
    }

    /// Splits a 64-bit hash of a key in this slot.
    #[inline]
    pub const fn hash(self, hash: u64, slot: u16) -> Hash {
        let rotated = rotated(slot, self.rotation);
        let hash = Hash::new(hash);
        let place = (rotated as u64) << u32::BITS | hash.place as u64;
        Hash {
            place: (place >> self.bits) as u32,
            spread: rotated << (u16::BITS - SLOT_BITS),
            tag: hash.tag,
        }
    }

    /// Returns the slot of a hash that [`SlotBits::hash`] has returned.
    #[inline]
    pub(crate) const fn slot(self, hash: Hash) -> u16 {
        let bits = hash.spread >> (u16::BITS - SLOT_BITS);
        rotated(bits, SLOT_BITS - self.rotation)
    }

    /// Returns the number of the place's slot among the slots of its shard.
    #[inline]
    pub(crate) const fn number(self, place: u32) -> usize {
        (place >> (u32::BITS - self.bits)) as usize
    }

    /// Returns the maximum number of slots of a shard.
    pub(crate) const fn numbers(self) -> usize {
        1 << self.bits
    }
}

/// Rotates the bits of a slot to the right.
#[inline]
const fn rotated(slot: u16, by: u32) -> u16 {
    let twice = slot as u32 | (slot as u32) << SLOT_BITS;
    (twice >> by) as u16 % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_one_shard_and_a_number_of_its_own_there() {
        for shards in [1, 2, 3, 16, 100, 5_000, 16_384] {
            let bits = SlotBits::for_shards(shards);
            let mut taken = std::collections::HashSet::new();
            let mut sizes = vec![0usize; shards];
            for slot in 0..SLOTS {
                let hashes = [0, u64::MAX, 0x1234_5678_9abc_def0].map(|hash| bits.hash(hash, slot));
                let [hash, others @ ..] = hashes;
                let (shard, number) = (hash.shard(shards), bits.number(hash.place));
                assert!(
                    taken.insert((shard, number)),
                    "{shards} shards, slot {slot}"
                );
                assert!(number < bits.numbers());
                assert_eq!(bits.slot(hash), slot);
                for other in others {
                    assert_eq!(
                        (other.shard(shards), bits.number(other.place)),
                        (shard, number)
                    );
                }
                sizes[shard] += 1;
            }
            let fair = usize::from(SLOTS).div_ceil(shards);
            assert!(
                sizes
                    .iter()
                    .all(|size| (fair - 1..=fair + 1).contains(size))
            );
        }
    }

    #[test]
    fn neighbours_spread_over_all_shards() {
        let (shards, bits) = (64, SlotBits::for_shards(64));
        let mut sizes = vec![0; shards];
        for slot in 5_461..10_922 {
            sizes[bits.hash(0, slot).shard(shards)] += 1;
        }
        assert!(
            sizes.iter().all(|size| [85, 86].contains(size)),
            "{sizes:?}"
        );
    }
}
