//! [`Content`] of streams, and reading streams from snapshots.

use punctual_rdb::stream::Block;
use punctual_rdb::{Element, Encoder, Kind, Source};
use punctual_rdb::{Parts, StreamPart};

use super::settings::Extras;
use super::{Group, Id, Pending, Stream};
use crate::check::Check;
use crate::unwritten::{Next, UnwrittenPieces};
use crate::value::content::{Content, DROPPED_MAX, Facts, LARGE_PIECES, Read, Unreadable, millis};
use crate::value::digest::Digest;

/// The kind under which snapshots write streams; redis-server 7.0 can read it.
const KIND: Kind = Kind::Stream2;

/// A removed stream with more allocations is dropped after the turn instead of at once. Redis has
/// the same limit for freeing a value on another thread.
const ALLOCATIONS_MAX: usize = 64;

/// Error for a pending entry whose delivery count does not fit into 32 bits.
const DELIVERIES: &str = "more than 4294967295 deliveries of a stream's entry";

/// A snapshot's walk through a stream.
#[derive(Debug)]
pub(super) struct SnapshotWalk {
    blocks: UnwrittenPieces<Block>,
    /// Encoded totals and groups, which follow the blocks.
    rest: Vec<u8>,
}

const MARKS: u8 = Facts::STAYS_EMPTY + Facts::AWAITED;

impl Content for Stream {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("stream", 6, MARKS)
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len() as usize
    }

    /// O(blocks + consumers + pieces of pending entries + messages of producers).
    fn heap_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Block::capacity).sum();
        let groups: usize = self
            .groups
            .iter()
            .map(|(name, group)| name.len() + size_of::<(Box<[u8]>, Group)>() + group.heap_bytes())
            .sum();
        let extras = self.extras.as_ref().map_or(0, |_| size_of::<Extras>());
        let blocks = blocks + self.blocks.capacity() * size_of::<Block>();
        size_of::<Self>() + blocks + groups + extras + self.idempotence_bytes()
    }

    fn next_due(&self) -> Option<u64> {
        self.next_deadline()
    }

    fn check(&self, to: &mut Check) {
        let mut length = 0;
        for block in &self.blocks {
            let (deleted, live) = block.entries().fold((0, 0), |(deleted, live), entry| {
                let is_deleted = usize::from(entry.deleted);
                (deleted + is_deleted, live + 1 - is_deleted)
            });
            to.equal(
                "entries of a block",
                (block.live(), block.deleted()),
                (live, deleted),
            );
            length += live as u64;
        }
        to.equal("length", self.len(), length);
        let first = self.iter().next().map_or(Id::MIN, |entry| entry.id);
        to.equal("first ID", self.first_id(), first);
        let last = self.last_entry_id().unwrap_or(Id::MIN);
        to.holds("no entry is after the last ID", last <= self.last_id());
        for (name, group) in &self.groups {
            to.within(
                || format!("group {}", name.escape_ascii()),
                |to| group.check(to),
            );
        }
        if let Some(kept) = self.idempotence() {
            kept.check(to);
        }
    }

    /// Estimates the number of allocations as Redis does: blocks, groups and pending entries. The
    /// estimate assumes that each group has as many pending entries as the first one.
    fn drops_late(&self) -> bool {
        let first = self.groups.values().next();
        let pending = first.map_or(0, |group| group.pending().len());
        let allocations = self.blocks() + self.groups.len() * (1 + pending);
        self.elements() > DROPPED_MAX || allocations > ALLOCATIONS_MAX
    }

    #[inline]
    fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        self.is_timed()
            .then(|| (self.timer(), self.next_deadline()))
    }

    fn timer(&self) -> Option<u32> {
        self.extras.as_ref()?.timer
    }

    fn set_timer(&mut self, timer: Option<u32>) {
        if timer.is_some() || self.extras.is_some() {
            self.extras_mut().timer = timer;
            self.drop_empty_extras();
        }
    }

    fn settings(&self) -> Option<Vec<u8>> {
        self.written_settings()
    }

    fn apply_settings(&mut self, settings: &[u8]) -> Option<()> {
        self.read_settings(settings)
    }

    fn kind(&self) -> Kind {
        KIND
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.blocks.len() as u64);
        for block in &self.blocks {
            to.stream_block(out, block);
        }
        self.write_rest(to, out);
    }

    fn is_large(&self) -> bool {
        self.blocks() >= LARGE_PIECES
    }

    /// O(pending entries), because they are encoded now.
    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.blocks.len() as u64);
        let mut rest = Vec::new();
        self.write_rest(to, &mut rest);
        let blocks = UnwrittenPieces::new(self.blocks.len());
        self.extras_mut().walk = Some(SnapshotWalk { blocks, rest });
    }

    fn walk_on(&mut self, _: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        let Some(walk) = self.extras.as_mut().and_then(|extras| extras.walk.as_mut()) else {
            return true;
        };
        while let Some(next) = walk.blocks.take() {
            match next {
                Next::Kept(block) => to.stream_block(out, &block),
                Next::Same(number) => to.stream_block(out, &self.blocks[number]),
            }
            if out.len() >= full {
                return false;
            }
        }
        out.append(&mut walk.rest);
        self.end_walk();
        true
    }

    fn end_walk(&mut self) {
        self.extras_mut().walk = None;
        self.drop_empty_extras();
    }

    fn digest(&self, to: &mut Digest) {
        for entry in self.iter() {
            to.chain(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.pairs() {
                name.with_text(|text| to.chain(text));
                value.with_text(|text| to.chain(text));
            }
        }
    }
}

impl Stream {
    /// Appends the totals and the groups. O(pending entries).
    fn write_rest(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.stream_totals(out, &self.totals);
        to.len(out, self.groups.len() as u64);
        for (name, group) in &self.groups {
            to.stream_group(out, name, group.last_id, group.entries_read);
            to.len(out, group.pending().len() as u64);
            for entry in group.pending().iter() {
                let delivered_ms = millis(entry.delivered_ms);
                to.stream_pending(out, entry.id, delivered_ms, entry.deliveries.into());
            }
            to.len(out, group.consumer_count() as u64);
            for consumer in group.consumers() {
                let active_ms = consumer.active_ms.map_or(-1, millis);
                let seen_ms = millis(consumer.seen_ms);
                to.stream_consumer(out, KIND, consumer.name(), seen_ms, active_ms);
                to.len(out, consumer.pending().len() as u64);
                for id in consumer.pending().iter() {
                    to.stream_owned(out, *id);
                }
            }
        }
    }

    /// Copies a block before it changes if a snapshot's walk has not written it.
    #[inline]
    pub(super) fn before_change(&mut self, number: usize) {
        if let Some(extras) = &mut self.extras
            && let Some(walk) = &mut extras.walk
            && let Some(block) = self.blocks.get(number)
        {
            walk.blocks.keep(number, block);
        }
    }

    /// Removes a block. Hands it to the snapshot's walk if the walk has not reached it.
    pub(super) fn remove_block(&mut self, number: usize) {
        if let Some(block) = self.blocks.remove(number)
            && let Some(extras) = &mut self.extras
            && let Some(walk) = &mut extras.walk
        {
            walk.blocks.removed(number, block);
        }
    }

    /// Reads a stream. O(bytes + n log n) for n pending entries.
    ///
    /// # Errors
    /// [`Unreadable`] if reading fails, or if a delivery count does not fit into 32 bits.
    pub(crate) fn read<S: Source>(mut parts: Parts<'_, S>) -> Read<Self, S> {
        let mut stream = Self::new();
        let mut reading: Option<Reading> = None;
        while let Some(part) = parts.next()? {
            match part {
                // A stream has no block without a live entry; see the ground rules of the module.
                StreamPart::Block(block) if block.live() == 0 => {}
                StreamPart::Block(block) => stream.blocks.push_back(block.to_owned()),
                StreamPart::Totals(totals) => stream.totals = totals,
                StreamPart::Group {
                    name,
                    last_id,
                    entries_read,
                } => {
                    let next = Reading::new(name, last_id, entries_read);
                    if let Some(done) = reading.replace(next) {
                        done.end(&mut stream);
                    }
                }
                part => {
                    let reading = reading.as_mut().ok_or(Unreadable::Content(DELIVERIES))?;
                    reading.add(part).ok_or(Unreadable::Content(DELIVERIES))?;
                }
            }
        }
        if let Some(done) = reading {
            done.end(&mut stream);
        }
        Ok(stream)
    }
}

/// A group while its parts are read.
struct Reading {
    name: Box<[u8]>,
    group: Group,
    /// Pending entries, whose consumers follow in later parts: ID, time of the last delivery in
    /// Unix ms, number of deliveries.
    pending: Vec<(Id, u64, u32)>,
    consumer: u32,
}

impl Reading {
    fn new(name: Element<'_>, last_id: Id, entries_read: Option<u64>) -> Self {
        Self {
            name: name.with_text(|text| text.into()),
            group: Group::new(last_id, entries_read),
            pending: Vec::new(),
            consumer: 0,
        }
    }

    /// Adds a part. Returns `None` if its numbers are out of range.
    fn add(&mut self, part: StreamPart<'_>) -> Option<()> {
        match part {
            StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            } => {
                let deliveries = u32::try_from(deliveries).ok()?;
                self.pending.push((id, past(delivered_ms), deliveries));
            }
            StreamPart::Consumer {
                name,
                seen_ms,
                active_ms,
            } => {
                let group = &mut self.group;
                self.consumer = name.with_text(|name| group.add_consumer(name, past(seen_ms)));
                group.consumer_mut(self.consumer).active_ms = u64::try_from(active_ms).ok();
            }
            StreamPart::Owned { id, index } => {
                let (_, delivered_ms, deliveries) = *self.pending.get(index)?;
                self.group.assign(Pending {
                    id,
                    delivered_ms,
                    deliveries,
                    consumer: self.consumer,
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn end(self, stream: &mut Stream) {
        stream.groups.insert(self.name, self.group);
    }
}

/// Converts signed Unix ms; times before the epoch become the epoch.
fn past(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
