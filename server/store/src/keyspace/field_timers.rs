//! Timers of hash fields, of streams and of queues of jobs, on the wheel that expires the keys.
//!
//! Ground rules: the wheel has one entry a deadline, whether of a key or of a field, and tells them
//! apart by the index's top bit. A key's timer is its record; a field's timer is here and names the
//! record of its hash and the field's number in it. A stream or a queue has at most one timer,
//! whose field number is [`WHOLE`]: it is armed at the value's next deadline or earlier, and its
//! expiry looks at what is due in the value. Only [`Db`](crate::keyspace::db::Db) changes timers,
//! together with the deadlines in the hashes.

use std::num::NonZeroU32;

use punctual::queue::wheel::Timers;

use crate::keyspace::records::Id;
use crate::keyspace::records::Records;
use crate::pages::Pages;

/// Set in the wheel's indices of fields. A database of one shard has fewer keys than this.
pub(crate) const OF_FIELD: u32 = 1 << 31;

/// The field number of a timer of a whole value.
pub(crate) const WHOLE: u32 = u32::MAX;

/// Timer of one field, stream or queue of jobs.
#[derive(Clone, Debug)]
pub(crate) struct FieldTimer {
    /// Unix time in ms.
    pub(crate) deadline: u64,
    /// Number of the arm that filed the live entry in the wheel.
    pub(crate) stamp: NonZeroU32,
    /// Record of the hash. RENAME does not change it.
    pub(crate) record: Id,
    /// Number of the field in the hash, or [`WHOLE`].
    pub(crate) field: u32,
}

/// Bytes of a timer in its page.
pub(crate) const FIELD_TIMER_BYTES: usize = size_of::<Option<FieldTimer>>();
const _: () = assert!(FIELD_TIMER_BYTES == 24);

/// All timers of fields in one database.
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

    /// Reads the timer: a load on which nothing depends, so it does not wait for those before it.
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
