//! Timers of values in which something is due at certain times: hashes, sets and sorted sets whose
//! elements have deadlines, streams and queues of jobs. They are on the wheel that expires the
//! keys.
//!
//! Ground rules: the wheel has one live entry for each deadline. The top bit of an entry's index,
//! [`OF_VALUE`], marks the entry of a timer in this file; without the bit the index is the index of
//! a key's record. A value has at most one timer. It is armed at the value's next deadline or
//! earlier, and when it fires, expiry processes everything in the value that is due. Only
//! [`Db`](crate::keyspace::db::Db) changes timers (`db/timelines.rs`).

use std::num::NonZeroU32;

use punctual::queue::wheel::Timers;

use crate::keyspace::records::Id;
use crate::keyspace::records::Records;
use crate::pages::Pages;

/// Bit that is set in the wheel's index of a value's timer. A database has fewer records in a shard
/// than this number.
pub(crate) const OF_VALUE: u32 = 1 << 31;

/// Timer of one value.
#[derive(Clone, Debug)]
pub(crate) struct ValueTimer {
    /// Unix time in ms.
    pub(crate) deadline: u64,
    /// Stamp of the timer's live entry in the wheel.
    pub(crate) stamp: NonZeroU32,
    /// Record of the value. RENAME does not change it.
    pub(crate) record: Id,
}

/// Bytes of a timer in its page.
pub(crate) const VALUE_TIMER_BYTES: usize = size_of::<Option<ValueTimer>>();
const _: () = assert!(VALUE_TIMER_BYTES == 16);

/// All timers of values in one database.
pub(crate) type ValueTimers = Pages<ValueTimer>;

/// Lets the wheel tell live entries from stale ones.
pub(crate) struct Armed<'a> {
    pub(crate) records: &'a Records,
    pub(crate) values: &'a ValueTimers,
}

impl Timers for Armed<'_> {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        if index & OF_VALUE == 0 {
            return self.records.deadline(index, generation);
        }
        let timer = self.values.get(index & !OF_VALUE)?;
        (timer.stamp.get() == generation).then_some(timer.deadline)
    }

    /// Reads the timer's record to load its cache line. Loads that do not depend on each other
    /// overlap.
    #[inline]
    fn prefetch(&self, index: u32) {
        std::hint::black_box(if index & OF_VALUE == 0 {
            self.records.get(index).map(|record| record.stamp)
        } else {
            let timer = self.values.get(index & !OF_VALUE);
            timer.map(|timer| timer.stamp.get())
        });
    }
}
