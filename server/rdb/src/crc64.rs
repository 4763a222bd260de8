//! The checksum of snapshots and DUMP payloads: CRC-64 with Jones's polynomial (2006), bits
//! reflected, without inversion.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

/// Processes sixteen bytes per step, with 32 KiB of tables.
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Returns the checksum of `bytes`. **O(n)** in bytes, sixteen bytes per step.
///
/// ```
/// assert_eq!(punctual_rdb::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
/// ```
pub fn crc64(bytes: &[u8]) -> u64 {
    CRC64.checksum(bytes)
}

/// A checksum that is computed incrementally.
#[derive(Clone)]
pub(crate) struct Sum(Digest<'static, u64, Table<16>>);

impl Sum {
    pub(crate) fn new() -> Self {
        Sum(CRC64.digest())
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}
