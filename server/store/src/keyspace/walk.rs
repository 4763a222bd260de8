//! A snapshot's *walk* through one database of one shard: the walk writes the records in index
//! order, some tens of kilobytes a step, and other commands run between the steps. The snapshot
//! shows the keyspace at the instant at which it began:
//!
//! - Before a record that the walk has not reached changes, moves or is removed, the walk writes it
//!   *early* ([`Walk::before_change`]). The walk skips records that are added later.
//! - A record with a large value is *opened* instead: the walk notes its key, deadline and number
//!   of elements. From then on the collection keeps the old state of elements that change
//!   (`value/content.rs`), and the walk writes the record in steps. If the record is removed or
//!   gets another value meanwhile, the walk keeps the old value until the value is written.
//!
//! Ground rules: every change of a record goes through [`Db`](crate::keyspace::db::Db), which calls
//! the walk first. A walk costs one bit a record, and the bytes of early records until the
//! snapshot's thread fetches them.

use std::collections::BTreeMap;

use punctual_rdb::{Dialect, Encoder, Kind, Meta};

use crate::keyspace::records::Id;
use crate::keyspace::records::Record;
use crate::pages::Pages;
use crate::planted::Bug;
use crate::time::NEVER;
use crate::unwritten::Unwritten;
use crate::value::content::millis;
use crate::value::{SETTINGS_FIELD, Value};

/// Bytes of records that one step writes while the shard is locked, which takes some tens of
/// microseconds. In tests a step writes only a few records, so that many commands run between two
/// steps.
pub(crate) const SLICE_BYTES: usize = if cfg!(test) { 60 } else { 32 << 10 };
/// Maximum number of indices that one step visits, free ones included.
const SLICE_INDICES: u32 = 4_096;

/// Options of the encoding of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Compress long strings (`rdbcompression`).
    pub compress: bool,
    /// The servers that will read the records.
    pub dialect: Dialect,
}

/// Result of one step of a walk.
#[derive(Debug, Default)]
pub(crate) struct WalkStep {
    pub(crate) keys: usize,
    /// Bytes of records that were written early.
    pub(crate) early_bytes: usize,
    pub(crate) ended: bool,
    /// A value that only the walk still needed. The caller drops it after it has unlocked the
    /// shard.
    pub(crate) spent: Option<Value>,
}

/// A record with a large value that the walk writes in steps.
struct Opened {
    /// Encoded key, deadline and number of elements.
    start: Vec<u8>,
    kind: Kind,
    place: Place,
}

/// The place of an opened record's value.
enum Place {
    /// In the database.
    Record,
    /// In the walk, because the record was removed or got another value.
    Kept(Value),
    /// The value has moved to another shard or database. The rest of its record is encoded here.
    Written(Vec<u8>),
}

/// Progress of a snapshot in one database.
///
/// The module's documentation describes early and opened records.
pub(crate) struct Walk {
    /// Number of the database when the snapshot began.
    pub(crate) number: usize,
    encoder: Encoder,
    unwritten: Unwritten,
    /// Records that were written early.
    early: Vec<u8>,
    early_keys: usize,
    /// Opened records that the walk has not reached.
    opened: BTreeMap<Id, Opened>,
    /// Opened records whose values left the database before the walk reached them.
    displaced: Vec<Opened>,
    /// The record that is being written.
    current: Option<(Id, Opened)>,
}

impl Walk {
    pub(crate) fn new(number: usize, format: Format, records: &Pages<Record>) -> Self {
        Self {
            number,
            encoder: Encoder::new(format.compress).dialect(format.dialect),
            unwritten: Unwritten::new(records.end()),
            early: Vec::new(),
            early_keys: 0,
            opened: BTreeMap::new(),
            displaced: Vec::new(),
            current: None,
        }
    }

    /// Writes a record early, or opens it, because it is about to change or to be removed.
    #[cold]
    pub(crate) fn before_change(&mut self, id: Id, record: &mut Record) {
        if Bug::WalkMissesChange.is_active() {
            return;
        }
        if !self.unwritten.contains(id) || self.opened.contains_key(&id) {
            return;
        }
        if record.value.content().is_large() {
            let opened = open(&mut self.encoder, record);
            self.opened.insert(id, opened);
        } else {
            write_record(&mut self.encoder, &mut self.early, record);
            self.early_keys += 1;
            self.unwritten.remove(id);
        }
    }

    /// Takes over the value of a removed record, or a replaced value, if it is still needed. Leaves
    /// an empty string.
    pub(crate) fn keep(&mut self, id: Id, value: &mut Value) {
        self.displace(id, |_, _| {
            Place::Kept(std::mem::replace(value, Value::string(b"")))
        });
    }

    /// Writes the rest of an opened record at once, because its value moves to another database or
    /// shard. O(bytes).
    pub(crate) fn finish(&mut self, id: Id, value: &mut Value) {
        self.displace(id, |encoder, kind| {
            let (content, mut rest) = (value.content_mut(), Vec::new());
            while !content.walk_on(kind, encoder, &mut rest, usize::MAX) {}
            Place::Written(rest)
        });
    }

    /// Changes the place of an opened record's value, which leaves the record.
    fn displace(&mut self, id: Id, place: impl FnOnce(&mut Encoder, Kind) -> Place) {
        match &mut self.current {
            Some((current, opened)) if *current == id && matches!(opened.place, Place::Record) => {
                opened.place = place(&mut self.encoder, opened.kind);
            }
            _ => {
                if let Some(mut opened) = self.opened.remove(&id) {
                    opened.place = place(&mut self.encoder, opened.kind);
                    self.unwritten.remove(id);
                    self.displaced.push(opened);
                }
            }
        }
    }

    /// Notes that a record was added, which the snapshot does not contain.
    pub(crate) fn added(&mut self, id: Id) {
        self.unwritten.remove(id);
    }

    /// Appends the records that were written early, and then up to [`SLICE_BYTES`] of the records
    /// that are next in index order.
    pub(crate) fn step(&mut self, records: &mut Pages<Record>, out: &mut Vec<u8>) -> WalkStep {
        let mut step = WalkStep::default();
        let full = out.len() + SLICE_BYTES;
        for _ in 0..SLICE_INDICES {
            if let Some((id, opened)) = &mut self.current {
                let value = match &mut opened.place {
                    Place::Record => records.get_mut(*id).map(|record| &mut record.value),
                    Place::Kept(value) => Some(value),
                    Place::Written(rest) => {
                        out.append(rest);
                        None
                    }
                };
                let content = value.map(Value::content_mut);
                if !content.is_none_or(|c| c.walk_on(opened.kind, &mut self.encoder, out, full)) {
                    return step;
                }
                step.keys += 1;
                if let Some((_, opened)) = self.current.take()
                    && let Place::Kept(value) = opened.place
                {
                    step.spent = Some(value);
                    return step;
                }
            }
            // No record is half written here, so early records may follow.
            if !self.early.is_empty() {
                step.early_bytes += self.early.len();
                out.append(&mut self.early);
                self.early = Vec::new();
                step.keys += std::mem::take(&mut self.early_keys);
            }
            if out.len() >= full {
                return step;
            }
            if let Some(opened) = self.displaced.pop() {
                // The index may have another record now.
                self.begin(Id::MAX, opened, out);
                continue;
            }
            let Some((id, unwritten)) = self.unwritten.take() else {
                step.ended = true;
                return step;
            };
            if let Some(opened) = self.opened.remove(&id) {
                self.begin(id, opened, out);
            } else if unwritten && let Some(record) = records.get_mut(id) {
                if record.value.content().is_large() {
                    let opened = open(&mut self.encoder, record);
                    self.begin(id, opened, out);
                } else {
                    write_record(&mut self.encoder, out, record);
                    step.keys += 1;
                }
            }
        }
        step
    }

    fn begin(&mut self, id: Id, opened: Opened, out: &mut Vec<u8>) {
        out.extend_from_slice(&opened.start);
        self.current = Some((id, opened));
    }

    /// Ends the walks through opened values, because the snapshot was abandoned.
    pub(crate) fn abandon(&mut self, records: &mut Pages<Record>) {
        let current = self.current.take().map(|(id, _)| id);
        for id in std::mem::take(&mut self.opened).into_keys().chain(current) {
            if let Some(record) = records.get_mut(id) {
                record.value.content_mut().end_walk();
            }
        }
    }
}

fn open(encoder: &mut Encoder, record: &mut Record) -> Opened {
    let mut start = Vec::new();
    write_start(encoder, &mut start, record);
    let content = record.value.content_mut();
    let kind = content.kind();
    content.begin_walk(encoder, &mut start);
    Opened {
        start,
        kind,
        place: Place::Record,
    }
}

/// Appends a record. O(bytes).
fn write_record(encoder: &mut Encoder, out: &mut Vec<u8>, record: &Record) {
    write_start(encoder, out, record);
    record.value.content().write(encoder, out);
}

/// Appends a record's key and deadline.
fn write_start(encoder: &mut Encoder, out: &mut Vec<u8>, record: &Record) {
    let deadline = (record.deadline != NEVER).then_some(record.deadline);
    let meta = Meta {
        expire_ms: deadline.map(millis),
        ..Meta::default()
    };
    let content = record.value.content();
    if let Some(settings) = content.settings() {
        encoder.aux(out, SETTINGS_FIELD, &settings);
    }
    encoder.record(out, content.kind(), record.key.as_bytes(), meta);
}
