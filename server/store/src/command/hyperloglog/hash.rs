//! Hash of an element, which determines its register and the register's value. The hash is A.
//! Appleby's MurmurHash2 for 64-bit machines ("MurmurHash64A"), with Redis's seed.

/// Number of hash bits that select the register.
pub(super) const INDEX_BITS: u32 = 14;
/// Number of hash bits whose trailing zeros count.
pub(super) const COUNTED_BITS: u32 = 64 - INDEX_BITS;

const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Returns the register of an element and its value: the number of trailing zeros of the other hash
/// bits plus one, 1 to 51. O(length).
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let index = hash & ((1 << INDEX_BITS) - 1);
    let counted = (hash >> INDEX_BITS) | 1 << COUNTED_BITS;
    (index as usize, counted.trailing_zeros() as u8 + 1)
}

fn murmur(bytes: &[u8]) -> u64 {
    // As in Redis, the length is a signed 32-bit number.
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
