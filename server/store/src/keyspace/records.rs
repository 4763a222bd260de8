//! The records of a database: one record of 56 bytes a key, in [pages](crate::pages) of 256
//! records.
//!
//! The index of a record stays the same while the key exists, unless compaction moves the record
//! (`db/evict.rs`). The hash table and the timing wheel hold only this index, so expiry needs no
//! hash. The record's *stamp* is the number of the last operation that filed an entry for it in the
//! wheel; the wheel compares it with the entry's stamp to find out whether the entry is live.
//!
//! Memory per key with name and value in place: 56 bytes of record, about 6.7 bytes of hash table,
//! and about 12.8 bytes of wheel entry if the key has a deadline. Longer names and values are in
//! boxes of their own.

use punctual::queue::wheel::Timers;

use crate::keyspace::key::Key;
use crate::pages::Pages;
use crate::time::Now;
use crate::value::Value;

/// Index of a key's record in its database: valid until the key is removed or compaction moves the
/// record.
pub type Id = u32;

/// One key with its value and its deadline. A record may lie in two cache lines. The wheel reads
/// only its start; a read of its first and its last field fetches both lines.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// Deadline in Unix ms; `u64::MAX` without a TTL.
    pub(crate) deadline: u64,
    /// Stamp of this key's live entry in the wheel; 0 if the key has no entry.
    pub(crate) stamp: u32,
    /// Name, and uses for eviction.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// The hash that places the key in the table.
    pub(crate) hash: u32,
}

impl Record {
    /// Returns whether the deadline has passed, so that commands must not see the key. Always false
    /// for timers, which stay until they fire.
    #[inline]
    pub(crate) fn has_expired(&self, now: Now) -> bool {
        now.is_due(self.deadline) && !matches!(self.value, Value::Timer(_))
    }
}

/// Bytes of a record in its page.
pub const RECORD_BYTES: usize = size_of::<Option<Record>>();
const _: () = assert!(RECORD_BYTES == 56, "memory a key");

/// All records of one database.
pub type Records = Pages<Record>;

impl Timers for Records {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let record = self.get(index)?;
        (record.stamp == generation).then_some(record.deadline)
    }
}
