//! The records of a database: one cache line a key, in [pages](crate::pages).
//!
//! A record's index is what the table and the timing wheel hold.

use punctual::queue::wheel::Timers;

use crate::keyspace::key::Key;
use crate::pages::Pages;
use crate::time::Now;
use crate::value::Value;

/// Index of a key's record in its database: valid until the key is removed.
pub type Id = u32;

/// One key with its value and its deadline.
#[derive(Debug)]
#[repr(align(64))]
pub struct Record {
    /// Deadline in unix ms; `u64::MAX` without a TTL.
    pub(crate) deadline: u64,
    /// Number of the arm that filed this key's live entry in the wheel; 0: none is filed.
    pub(crate) stamp: u32,
    /// The hash that places the key in the table.
    pub(crate) hash: u32,
    /// The name.
    pub key: Key,
    /// The value.
    pub value: Value,
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
const _: () = assert!(RECORD_BYTES == 64, "a key must stay one cache line");

/// All records of one database.
pub type Records = Pages<Record>;

impl Timers for Records {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let record = self.get(index)?;
        (record.stamp == generation).then_some(record.deadline)
    }
}
