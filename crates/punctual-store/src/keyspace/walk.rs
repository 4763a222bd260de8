//! A snapshot's walk through one database.

use punctual_rdb::{Encoder, Meta};

use crate::keyspace::records::Id;
use crate::keyspace::records::Record;
use crate::pages::Pages;
use crate::time::NEVER;
use crate::value::encode::{kind, millis, write_value};

/// Bytes of records that one step writes while the shard is locked: some tens of microseconds. In tests only a few records,
/// so that much happens between two steps.
pub(crate) const SLICE_BYTES: usize = if cfg!(test) { 60 } else { 32 << 10 };
/// Number of indices that one step visits, free ones included.
const SLICE_INDICES: u32 = 4_096;

/// Format of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Compress long strings (`rdbcompression`).
    pub compress: bool,
}

/// Result of one step of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WalkStep {
    pub(crate) keys: usize,
    /// Bytes of records that were written early.
    pub(crate) early_bytes: usize,
    pub(crate) ended: bool,
}

/// Progress of a snapshot in one database.
pub(crate) struct Walk {
    /// Number of the database when the snapshot began.
    pub(crate) number: usize,
    encoder: Encoder,
    /// Records below this index have been written.
    next: Id,
    /// Records from this index on were added after the snapshot began.
    end: Id,
    /// Bit i: record i was written early, or was added after the snapshot began.
    done: Vec<u64>,
    /// Records that were written early.
    early: Vec<u8>,
    early_keys: usize,
}

impl Walk {
    pub(crate) fn new(number: usize, format: Format, records: &Pages<Record>) -> Self {
        let end = records.end();
        Self {
            number,
            encoder: Encoder::new(format.compress),
            next: 0,
            end,
            done: vec![0; (end as usize).div_ceil(64)],
            early: Vec::new(),
            early_keys: 0,
        }
    }

    /// Returns whether the record is still to be written.
    fn needs(&self, id: Id) -> bool {
        (self.next..self.end).contains(&id) && self.done[id as usize / 64] >> (id % 64) & 1 == 0
    }

    fn set_done(&mut self, id: Id) {
        if id < self.end {
            self.done[id as usize / 64] |= 1 << (id % 64);
        }
    }

    /// Writes a record early, because it is about to change or to be removed.
    #[cold]
    pub(crate) fn before_change(&mut self, id: Id, record: &Record) {
        if self.needs(id) {
            write_record(&mut self.encoder, &mut self.early, record);
            self.early_keys += 1;
            self.set_done(id);
        }
    }

    /// Notes that a record was added, which the snapshot does not contain.
    pub(crate) fn added(&mut self, id: Id) {
        self.set_done(id);
    }

    /// Appends the records that were written early, and those of one slice.
    pub(crate) fn step(&mut self, records: &Pages<Record>, out: &mut Vec<u8>) -> WalkStep {
        let early_bytes = self.early.len();
        out.append(&mut self.early);
        self.early = Vec::new();
        let mut keys = std::mem::take(&mut self.early_keys);
        let full = out.len() + SLICE_BYTES;
        let last = self.end.min(self.next.saturating_add(SLICE_INDICES));
        while self.next < last && out.len() < full {
            if self.needs(self.next)
                && let Some(record) = records.get(self.next)
            {
                write_record(&mut self.encoder, out, record);
                keys += 1;
            }
            self.next += 1;
        }
        WalkStep {
            keys,
            early_bytes,
            ended: self.next == self.end,
        }
    }
}

/// Appends a record. O(bytes).
fn write_record(encoder: &mut Encoder, out: &mut Vec<u8>, record: &Record) {
    let deadline = (record.deadline != NEVER).then_some(record.deadline);
    let meta = Meta {
        expire_ms: deadline.map(millis),
        ..Meta::default()
    };
    encoder.record(out, kind(&record.value), record.key.as_bytes(), meta);
    write_value(encoder, out, &record.value);
}
