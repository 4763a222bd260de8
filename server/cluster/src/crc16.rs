//! CRC-16/XMODEM, the checksum of a key's slot: polynomial 0x1021, initial value 0.
//!
//! Each look-up of a key computes it, so it takes eight bytes at a time, whose table look-ups do
//! not depend on each other ("slicing-by-8": Kounavis and Berry, 2005).

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
                crc = crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 };
                bit += 1;
            }
            tables[table][byte] = crc;
            table += 1;
        }
        byte += 1;
    }
    tables
}

/// Returns the checksum. O(length).
#[inline]
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_all_lengths_are_those_of_the_definition() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * n * 7 + 13) as u8).collect();
        for start in 0..9 {
            for end in start..bytes.len() {
                let bytes = &bytes[start..end];
                let mut crc = 0u16;
                for byte in bytes {
                    crc ^= u16::from(*byte) << 8;
                    for _ in 0..8 {
                        crc = if crc >> 15 == 1 {
                            crc << 1 ^ 0x1021
                        } else {
                            crc << 1
                        };
                    }
                }
                assert_eq!(crc16(bytes), crc, "{bytes:?}");
            }
        }
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }
}
