//! CRC-16/XMODEM, the checksum of a key's slot: polynomial x^16 + x^12 + x^5 + 1, initial value 0.
//!
//! Each look-up of a key computes the checksum and looks for a brace. On x86-64 both happen in one
//! pass and without tables (`carryless`). Other processors take eight bytes at a time by tables,
//! whose look-ups do not depend on each other ("slicing-by-8": Kounavis and Berry, 2005).

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod carryless;

use crate::slot::hash_tag;

/// The polynomial without x^16.
const POLYNOMIAL: u16 = 0x1021;

/// Entry `n` of `TABLES[k]` is the checksum of byte `n` followed by `k` bytes of 0.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut table = 0;
        while table < 8 {
            let mut bit = 0;
            // The first table has the byte itself; each further one has eight more bits of 0.
            while bit < 8 {
                crc = crc << 1 ^ if crc >> 15 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            tables[table][byte] = crc;
            table += 1;
        }
        byte += 1;
    }
    tables
}

/// Returns the checksum of a key's hash tag. O(length).
#[inline]
pub(crate) fn of_hash_tag(key: &[u8]) -> u16 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(crc) = carryless::of_hash_tag(key) {
        return crc;
    }
    of_hash_tag_by_tables(key)
}

/// Kept apart so that [`of_hash_tag`] stays small where it is inlined.
#[inline(never)]
fn of_hash_tag_by_tables(key: &[u8]) -> u16 {
    match has_brace(key) {
        false => by_tables(key),
        true => by_tables(hash_tag(key)),
    }
}

#[inline]
fn by_tables(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = 0u16;
    for &[a, b, c, d, e, f, g, h] in eights {
        let [high, low] = crc.to_be_bytes();
        let of = |zeros: usize, byte: u8| TABLES[zeros][usize::from(byte)];
        crc = of(7, a ^ high)
            ^ of(6, b ^ low)
            ^ of(5, c)
            ^ of(4, d)
            ^ of(3, e)
            ^ of(2, f)
            ^ of(1, g)
            ^ of(0, h);
    }
    for &byte in rest {
        let [high, low] = crc.to_be_bytes();
        crc = u16::from(low) << 8 ^ TABLES[0][usize::from(byte ^ high)];
    }
    crc
}

/// Returns whether there is an opening brace. Most keys have none, so this is faster than a search
/// for its place. Looks at eight bytes at a time (Warren, "Hacker's Delight", 2002, 6-1).
#[inline]
fn has_brace(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.contains(&b'{');
    };
    let braces = |eight: &[u8; 8]| {
        let zero = u64::from_ne_bytes(*eight) ^ (ONES * b'{' as u64);
        zero.wrapping_sub(ONES) & !zero & (ONES << 7)
    };
    // The last eight bytes may overlap the ones before.
    let (eights, _) = bytes.as_chunks::<8>();
    let found = braces(last);
    eights
        .iter()
        .fold(found, |found, eight| found | braces(eight))
        != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: a division of polynomials, bit by bit.
    fn defined(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                crc << 1 ^ if crc >> 15 == 1 { POLYNOMIAL } else { 0 }
            })
        })
    }

    fn check(bytes: &[u8]) {
        let brace = bytes.contains(&b'{');
        assert_eq!(of_hash_tag(bytes), defined(hash_tag(bytes)), "{bytes:?}");
        assert_eq!(by_tables(bytes), defined(bytes), "{bytes:?}");
        assert_eq!(has_brace(bytes), brace, "{bytes:?}");
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(found) = carryless::crc16(bytes) {
            assert_eq!(found, (defined(bytes), brace), "{bytes:?}");
        }
    }

    #[test]
    fn checksums_of_all_lengths_are_those_of_the_definition() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * n * 7 + 13) as u8).collect();
        for start in 0..9 {
            (start..bytes.len()).for_each(|end| check(&bytes[start..end]));
        }
        assert_eq!(of_hash_tag(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_brace_is_found_at_each_place_and_nowhere_else() {
        for len in 1..70 {
            // Bytes whose difference from a brace has few bits, or only the highest one.
            for other in [b'z', b'|', b'{' | 0x80, 0, 0xff] {
                let mut bytes = vec![other; len];
                check(&bytes);
                for at in 0..len {
                    bytes[at] = b'{';
                    check(&bytes);
                    bytes[at] = other;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn checksums_of_random_bytes_are_those_of_the_definition(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            check(&bytes);
        }

        #[test]
        fn checksums_of_texts_are_those_of_the_definition(text in "[x-}0]{0,40}") {
            check(text.as_bytes());
        }
    }
}
