//! The records of a database: 56 bytes a key, in [pages](crate::pages).
//!
//! A record's index is what the table and the timing wheel hold.

use punctual::queue::wheel::Timers;

use crate::keyspace::key::Key;
use crate::pages::Pages;
use crate::time::Now;
use crate::value::Value;

/// Index of a key's record in its database: valid until the key is removed.
pub type Id = u32;

/// One key with its value and its deadline. It may lie in two cache lines: the wheel needs only the
/// start, and a read of both ends fetches all of it.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// Deadline in unix ms; `u64::MAX` without a TTL.
    pub(crate) deadline: u64,
    /// Number of the arm that filed this key's live entry in the wheel; 0: none is filed.
    pub(crate) stamp: u32,
    /// The name.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// The hash that places the key in the table.
    pub(crate) hash: u32,
}

impl Record {
    /// Returns whether the key has expired: nobody sees it any more. A timer stays until it fires.
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
