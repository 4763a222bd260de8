//! Timers of hash fields, of streams and of queues of jobs, on the wheel that expires the keys.
//!
//! Ground rules: the wheel has one live entry for each deadline. The top bit of an entry's index,
//! [`OF_FIELD`], marks the entry of a timer in this file; without the bit the index is the index of
//! a key's record. A field's timer names the record of its hash and the number of the field in that
//! hash. A stream or a queue has at most one timer, whose field number is [`WHOLE`]: the timer is
//! armed at the value's next deadline or earlier, and when it fires, expiry processes all entries
//! or jobs of the value that are due. Only [`Db`](crate::keyspace::db::Db) changes timers, together
//! with the deadlines in the values.

use std::num::NonZeroU32;

use punctual::queue::wheel::Timers;

use crate::keyspace::records::Id;
use crate::keyspace::records::Records;
use crate::pages::Pages;

/// Bit that is set in the wheel's index of a field timer. A database has fewer records in a shard
/// than this number.
pub(crate) const OF_FIELD: u32 = 1 << 31;

/// The field number of a timer of a whole value.
pub(crate) const WHOLE: u32 = u32::MAX;

/// Timer of one field, stream or queue of jobs.
#[derive(Clone, Debug)]
pub(crate) struct FieldTimer {
    /// Unix time in ms.
    pub(crate) deadline: u64,
    /// Stamp of the timer's live entry in the wheel.
    pub(crate) stamp: NonZeroU32,
    /// Record of the hash, stream or queue. RENAME does not change it.
    pub(crate) record: Id,
    /// Number of the field in the hash, or [`WHOLE`].
    pub(crate) field: u32,
}

/// Bytes of a timer in its page.
pub(crate) const FIELD_TIMER_BYTES: usize = size_of::<Option<FieldTimer>>();
const _: () = assert!(FIELD_TIMER_BYTES == 24);

/// All timers of fields, streams and queues in one database.
pub(crate) type FieldTimers = Pages<FieldTimer>;

/// Lets the wheel tell live entries from stale ones.
pub(crate) struct Armed<'a> {
    pub(crate) records: &'a Records,
    pub(crate) fields: &'a FieldTimers,
}

impl Timers for Armed<'_> {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        if index & OF_FIELD == 0 {
            return self.records.deadline(index, generation);
        }
        let timer = self.fields.get(index & !OF_FIELD)?;
        (timer.stamp.get() == generation).then_some(timer.deadline)
    }

    /// Reads the timer's record to load its cache line. Loads that do not depend on each other
    /// overlap.
    #[inline]
    fn prefetch(&self, index: u32) {
        std::hint::black_box(if index & OF_FIELD == 0 {
            self.records.get(index).map(|record| record.stamp)
        } else {
            let timer = self.fields.get(index & !OF_FIELD);
            timer.map(|timer| timer.stamp.get())
        });
    }
}
