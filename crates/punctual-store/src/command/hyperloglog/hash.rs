//! From an element to a register and what it must at least hold: A. Appleby's MurmurHash2 for 64-bit machines
//! ("MurmurHash64A"), with Redis's seed.

/// Bits of the hash that choose the register.
pub(super) const INDEX_BITS: u32 = 14;
/// Bits of the hash in which zeros are counted.
pub(super) const COUNTED_BITS: u32 = 64 - INDEX_BITS;

const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// The register of an element, and the number that the register must at least hold: one more than the zeros at the
/// low end of the other bits of the hash, 1 to 51. O(length).
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let index = hash & ((1 << INDEX_BITS) - 1);
    let counted = (hash >> INDEX_BITS) | 1 << COUNTED_BITS;
    (index as usize, counted.trailing_zeros() as u8 + 1)
}

fn murmur(bytes: &[u8]) -> u64 {
    // The length counts as 32 bits, sign included.
    let len = bytes.len() as i32 as u64;
    let mut hash = SEED ^ len.wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
