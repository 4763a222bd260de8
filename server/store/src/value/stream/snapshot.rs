//! Streams in snapshots.

use punctual_rdb::stream::Block;
use punctual_rdb::{Element, Encoder, Kind, Source};
use punctual_rdb::{Parts, StreamPart};

use super::{Group, Id, Pending, Stream};
use crate::unwritten::{Next, UnwrittenPieces};
use crate::value::decode::Unreadable;
use crate::value::encode::millis;

/// The kind of record that is written; redis-server 7.0 reads it.
pub(crate) const KIND: Kind = Kind::Stream2;

/// A snapshot's walk through a stream.
#[derive(Debug)]
pub(super) struct SnapshotWalk {
    blocks: UnwrittenPieces<Block>,
    /// Encoded totals and groups.
    rest: Vec<u8>,
}

impl Stream {
    /// Appends the stream without its type. O(bytes).
    pub(crate) fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.blocks.len() as u64);
        for block in &self.blocks {
            to.stream_block(out, block);
        }
        self.write_rest(to, out);
    }

    /// Appends what follows the blocks. O(pending entries).
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

    /// Begins a snapshot's walk: from now on it will find the stream as it is at this moment. O(pending entries): they are
    /// encoded at once.
    pub(crate) fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.blocks.len() as u64);
        let mut rest = Vec::new();
        self.write_rest(to, &mut rest);
        let blocks = UnwrittenPieces::new(self.blocks.len());
        self.aside_mut().walk = Some(SnapshotWalk { blocks, rest });
    }

    /// Ends a snapshot's walk.
    pub(crate) fn end_walk(&mut self) {
        self.aside_mut().walk = None;
        self.drop_empty_aside();
    }

    /// Appends blocks of the walk until `out` has `full` bytes, and at last what follows them. Returns true at the end.
    pub(crate) fn walk_on(&mut self, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        let Some(walk) = self.aside.as_mut().and_then(|aside| aside.walk.as_mut()) else {
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

    /// Keeps a block for the snapshot before it changes.
    #[inline]
    pub(super) fn before_change(&mut self, number: usize) {
        if let Some(aside) = &mut self.aside
            && let Some(walk) = &mut aside.walk
            && let Some(block) = self.blocks.get(number)
        {
            walk.blocks.keep(number, block);
        }
    }

    /// Removes a block. A snapshot takes it over if it needs it.
    pub(super) fn remove_block(&mut self, number: usize) {
        if let Some(block) = self.blocks.remove(number)
            && let Some(aside) = &mut self.aside
            && let Some(walk) = &mut aside.walk
        {
            walk.blocks.removed(number, block);
        }
    }

    /// Reads a stream. O(bytes).
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read<S: Source>(mut parts: Parts<'_, S>) -> Result<Self, Unreadable<S::Error>> {
        let mut stream = Self::new();
        let mut reading: Option<Reading> = None;
        while let Some(part) = parts.next()? {
            match part {
                // As after a trim, no block is without a live entry.
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
                    let reading = reading.as_mut().ok_or(Unreadable::Deliveries)?;
                    reading.add(part).ok_or(Unreadable::Deliveries)?;
                }
            }
        }
        if let Some(done) = reading {
            done.end(&mut stream);
        }
        Ok(stream)
    }
}

/// A group whose parts are read.
struct Reading {
    name: Box<[u8]>,
    group: Group,
    /// Pending entries whose consumer is not known yet: ID, time, number of deliveries.
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

    /// Adds a part. Returns `None` for one that cannot be kept.
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

/// Returns a time in unix ms; one before the epoch is the epoch.
fn past(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
