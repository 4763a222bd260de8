//! Hashes of keys. In cluster mode a key's hash begins with the key's *hash slot*.
//!
//! The slot is first multiplied by an odd constant (Fibonacci hashing: Knuth, "The Art of Computer
//! Programming", vol. 3, 6.4), so that neighbouring slots, which one node mostly owns, spread over
//! all shards and over the whole table. The top bits of the product select the shard, so a shard
//! has all keys of a slot. The low bits, which tell the slots of one shard apart, are the top bits
//! of the place.

use punctual_cluster::slot::SLOTS;

/// 2^14 divided by the golden ratio, rounded to an odd number.
const FACTOR: u16 = 10_125;
/// The inverse of [`FACTOR`]: their product is 1 modulo 2^14.
const INVERSE: u16 = inverse(FACTOR);

/// Returns the inverse of an odd number modulo 2^16, by Newton's method.
const fn inverse(odd: u16) -> u16 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 4 {
        inverse = inverse.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

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

/// The bits of a place that tell the slots of one shard apart: its top bits in cluster mode, no
/// bits otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotBits(pub(super) u32);

impl SlotBits {
    /// Returns the bits for a keyspace with this number of shards in cluster mode.
    pub const fn for_shards(shards: usize) -> Self {
        let slots = (SLOTS as usize).div_ceil(shards);
        let bits = slots.next_power_of_two().trailing_zeros();
        // A place needs at least one of these bits to be a place of cluster mode.
        Self(if bits == 0 { 1 } else { bits })
    }

    /// Returns whether hashes begin with the slot.
    #[inline]
    pub const fn any(self) -> bool {
        self.0 > 0
    }

    /// Splits a 64-bit hash of a key in this slot.
    pub const fn hash(self, hash: u64, slot: u16) -> Hash {
        let mixed = slot.wrapping_mul(FACTOR) % SLOTS;
        let hash = Hash::new(hash);
        Hash {
            place: (mixed as u32) << (u32::BITS - self.0) | hash.place >> self.0,
            spread: mixed << (u16::BITS - SLOT_BITS),
            tag: hash.tag,
        }
    }

    /// Returns the slot of a hash that [`SlotBits::hash`] has returned.
    pub(crate) const fn slot(hash: Hash) -> u16 {
        (hash.spread >> (u16::BITS - SLOT_BITS)).wrapping_mul(INVERSE) % SLOTS
    }

    /// Returns the number of the place's slot among the slots of its shard.
    #[inline]
    pub(crate) const fn number(self, place: u32) -> usize {
        (place >> (u32::BITS - self.0)) as usize
    }

    /// Returns the maximum number of slots of a shard.
    pub(crate) const fn numbers(self) -> usize {
        1 << self.0
    }
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
                assert_eq!(SlotBits::slot(hash), slot);
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
    fn a_node_s_range_of_slots_spreads_over_all_shards() {
        let (shards, bits) = (64, SlotBits::for_shards(64));
        let mut sizes = vec![0; shards];
        for slot in 5_461..10_922 {
            sizes[bits.hash(0, slot).shard(shards)] += 1;
        }
        assert!(
            sizes.iter().all(|size| (70..=100).contains(size)),
            "{sizes:?}"
        );
    }
}
