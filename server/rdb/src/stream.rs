//! Streams: the blocks in which Redis keeps entries, their IDs, and a stream's counters.
//!
//! A [`Block`] is a listpack with many entries. It starts with the *master entry*: the numbers of
//! live and of deleted entries, and the fields of the block's first entry. An entry with the same
//! fields stores only its values. A keyspace can use blocks in memory without converting them.
//!
//! [`Parts`](crate::Parts) reads a stream's record, and [`Encoder`](crate::Encoder) writes it. The
//! format is the one in `t_stream.c` of redis-server 5.0 and later (Sanfilippo, 2018).

mod block;
mod check;
mod entries;
mod id;
#[cfg(test)]
mod tests;

pub use block::{BLOCK_LEN_MAX, Block};
pub use entries::{Entries, Entry, Pairs};

/// The stored number of entries that a group has read if the number is unknown.
pub(crate) const ENTRIES_READ_UNKNOWN: u64 = u64::MAX;

/// The ID of an entry, ordered by time, then sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix milliseconds.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The first ID, 0-0, which no entry has.
    pub const MIN: Self = StreamId { ms: 0, seq: 0 };
    /// The last ID.
    pub const MAX: Self = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// Returns the ID as 16 bytes in big-endian order, which sort like the IDs. A block's key in a
    /// record has this form.
    #[inline]
    pub fn to_be_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// Returns the ID with these big-endian bytes.
    #[inline]
    pub fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        StreamId {
            ms: (both >> 64) as u64,
            seq: both as u64,
        }
    }

    /// Returns the ID whose parts are `ms` and `seq` above the parts of `self`, both modulo 2^64 as
    /// in Redis.
    #[inline]
    fn offset(self, ms: i64, seq: i64) -> Self {
        StreamId {
            ms: self.ms.wrapping_add(ms as u64),
            seq: self.seq.wrapping_add(seq as u64),
        }
    }

    /// Returns the differences between the parts of `self` and of `master`, modulo 2^64:
    /// `master.offset(ms, seq)` is `self`.
    #[inline]
    fn distance(self, master: Self) -> (i64, i64) {
        (
            self.ms.wrapping_sub(master.ms) as i64,
            self.seq.wrapping_sub(master.seq) as i64,
        )
    }
}

/// The counters and IDs of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of entries that are not deleted.
    pub length: u64,
    /// The highest ID that an entry ever had, or that XSETID set.
    pub last_id: StreamId,
    /// The ID of the first entry; 0-0 if the stream is empty.
    pub first_id: StreamId,
    /// The highest ID that was deleted by its ID, for example by XDEL, or that XSETID set; 0-0 if
    /// there is no such ID.
    pub max_deleted_id: StreamId,
    /// Number of entries ever added.
    pub entries_added: u64,
}

impl Totals {
    /// Returns the number of entries ever added up to `id`. Returns `None` if the totals do not
    /// determine the number: if `id` is between the first and the last entry or after the last
    /// entry, or if entries after the first one may have been deleted by their IDs. As in Redis,
    /// the number for an empty stream is `entries_added`, also for an ID before the last one.
    pub fn added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if id == self.last_id || (self.length == 0 && id < self.last_id) {
            return Some(self.entries_added);
        }
        let gaps = self.max_deleted_id != StreamId::MIN && self.max_deleted_id >= self.first_id;
        if id > self.last_id || gaps || id > self.first_id {
            return None;
        }
        let before = self.entries_added.saturating_sub(self.length);
        Some(before + u64::from(id == self.first_id))
    }
}
