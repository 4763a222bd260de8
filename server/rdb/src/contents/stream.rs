//! Reading the record of a stream, part by part. [`StreamPart`] describes the parts.

use std::collections::HashSet;

use crate::contents::Rest;
use crate::error::{Reason, StreamFlaw};
use crate::input::{Fallible, Input, Span};
use crate::kind::Kind;
use crate::listpack::Element;
use crate::source::Source;
use crate::stream::{Block, ENTRIES_READ_UNKNOWN, StreamId, Totals};

/// Minimum length in bytes of a group's pending entry: ID, time, number of deliveries.
const PENDING_LEN_MIN: u64 = 16 + 8 + 1;
/// Length in bytes of a consumer's pending entry: its ID.
const OWNED_LEN: u64 = 16;

/// A part of a stream.
///
/// The order is: all blocks, the totals, the groups. A group is followed by its pending entries and
/// its consumers. A consumer is followed by its pending entries.
#[derive(Debug)]
pub enum StreamPart<'n> {
    /// A block of entries, whose IDs are higher than the IDs in the blocks before it.
    /// [`Block::live`] may be 0.
    Block(Block<&'n [u8]>),
    /// The totals, which agree with the blocks. [`Totals::first_id`] is computed from the blocks;
    /// the ID in the record is ignored.
    Totals(Totals),
    /// A consumer group. Its name is unique in the stream.
    Group {
        /// The group's name.
        name: Element<'n>,
        /// The ID of the last entry that was delivered.
        last_id: StreamId,
        /// Number of entries delivered from the start of the stream, if known.
        entries_read: Option<u64>,
    },
    /// A pending entry of the group. The IDs ascend.
    Pending {
        /// The ID of the entry. The stream may no longer have the entry.
        id: StreamId,
        /// The time of the last delivery in Unix milliseconds.
        delivered_ms: i64,
        /// Number of deliveries.
        deliveries: u64,
    },
    /// A consumer of the group. Its name is unique in the group.
    Consumer {
        /// The consumer's name.
        name: Element<'n>,
        /// The time of its last attempt to read, in Unix milliseconds.
        seen_ms: i64,
        /// The time of its last successful read in Unix milliseconds; -1 if it has read nothing.
        /// Equal to `seen_ms` in records of servers before 7.2, which do not store this time.
        active_ms: i64,
    },
    /// A pending entry of the consumer. Each pending entry of the group comes exactly once.
    Owned {
        /// The ID of the entry.
        id: StreamId,
        /// The position of the ID among the pending entries of the group.
        index: usize,
    },
}

/// The position within a stream's record, and the data for checking the record.
pub(crate) struct Progress {
    kind: Kind,
    stage: Stage,
    /// Number of unread blocks.
    blocks: u64,
    /// Number of unread groups.
    groups: u64,
    /// Number of unread pending entries of the current group.
    pending: u64,
    /// Number of unread consumers of the current group.
    consumers: u64,
    /// Number of unread pending entries of the current consumer.
    owned: u64,
    /// Number of entries in the blocks that are not deleted.
    live: u64,
    /// The ID of the first entry in the blocks that is not deleted.
    first_id: Option<StreamId>,
    /// The ID of the last entry in the blocks.
    last_id: Option<StreamId>,
    totals: Totals,
    group_names: HashSet<Vec<u8>>,
    /// Names of the current group's consumers.
    consumer_names: HashSet<Vec<u8>>,
    /// IDs of the current group's pending entries, in ascending order.
    ids: Vec<StreamId>,
    /// For each of `ids`, whether a consumer has the pending entry.
    taken: Vec<bool>,
    /// Number of true values in `taken`.
    taken_count: usize,
    /// The last ID that was read of the current consumer's pending entries.
    last_owned: Option<StreamId>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Blocks,
    Groups,
    Pending,
    Consumers,
    Owned,
}

/// A [`StreamPart`] without borrowed data.
enum Step {
    Block(StreamId, Span, u64),
    Totals,
    Group(Span, StreamId, Option<u64>),
    Pending(StreamId, i64, u64),
    Consumer(Span, i64, i64),
    Owned(StreamId, usize),
}

impl Progress {
    /// Starts reading a record after its key.
    pub(crate) fn open<S: Source>(input: &mut Input<S>, kind: Kind) -> Fallible<Self, S> {
        Ok(Progress {
            kind,
            stage: Stage::Blocks,
            blocks: input.count(2)?,
            groups: 0,
            pending: 0,
            consumers: 0,
            owned: 0,
            live: 0,
            first_id: None,
            last_id: None,
            totals: Totals::default(),
            group_names: HashSet::new(),
            consumer_names: HashSet::new(),
            ids: Vec::new(),
            taken: Vec::new(),
            taken_count: 0,
            last_owned: None,
        })
    }

    /// Returns the next part, or `None` at the end.
    pub(crate) fn next<'n, S: Source>(
        &mut self,
        input: &'n mut Input<S>,
    ) -> Fallible<Option<StreamPart<'n>>, S> {
        let Some(step) = self.step(input)? else {
            return Ok(None);
        };
        let input = &*input;
        Ok(Some(match step {
            Step::Block(id, span, start) => {
                let block = Block::read(id, input.blob(span))
                    .map_err(|corrupt| input.error(start, Reason::Compact(corrupt)))?;
                self.live += block.live() as u64;
                self.last_id = Some(block.last_id());
                if self.first_id.is_none() {
                    let first = block.entries().find(|entry| !entry.deleted);
                    self.first_id = first.map(|entry| entry.id);
                }
                StreamPart::Block(block)
            }
            Step::Totals => StreamPart::Totals(self.totals),
            Step::Group(name, last_id, entries_read) => StreamPart::Group {
                name: input.element(name),
                last_id,
                entries_read,
            },
            Step::Pending(id, delivered_ms, deliveries) => StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            },
            Step::Consumer(name, seen_ms, active_ms) => StreamPart::Consumer {
                name: input.element(name),
                seen_ms,
                active_ms,
            },
            Step::Owned(id, index) => StreamPart::Owned { id, index },
        }))
    }

    fn step<S: Source>(&mut self, input: &mut Input<S>) -> Fallible<Option<Step>, S> {
        loop {
            input.start_item();
            let start = input.offset();
            let wrong = |input: &Input<S>, flaw| Err(input.error(start, Reason::Stream(flaw)));
            match self.stage {
                Stage::Blocks if take(&mut self.blocks) => {
                    let key = input.string()?;
                    let Some(id) = block_id(input, key) else {
                        return wrong(input, StreamFlaw::BlockId);
                    };
                    if self.last_id.is_some_and(|last| id <= last) {
                        return wrong(input, StreamFlaw::Order);
                    }
                    let start = input.offset();
                    return Ok(Some(Step::Block(id, input.string()?, start)));
                }
                Stage::Blocks => {
                    self.read_totals(input)?;
                    self.groups = input.count(5)?;
                    self.stage = Stage::Groups;
                    return Ok(Some(Step::Totals));
                }
                Stage::Groups if take(&mut self.groups) => {
                    let name = input.string()?;
                    if !self.group_names.insert(text(input, name)) {
                        return wrong(input, StreamFlaw::GroupName);
                    }
                    let last_id = read_id(input)?;
                    let entries_read = if self.kind == Kind::Stream {
                        self.totals.added_up_to(last_id)
                    } else {
                        match input.number()? {
                            ENTRIES_READ_UNKNOWN => None,
                            number if i64::try_from(number).is_ok() => Some(number),
                            _ => return wrong(input, StreamFlaw::Totals),
                        }
                    };
                    self.pending = input.count(PENDING_LEN_MIN)?;
                    self.ids.clear();
                    self.taken.clear();
                    self.consumer_names.clear();
                    self.taken_count = 0;
                    self.stage = Stage::Pending;
                    return Ok(Some(Step::Group(name, last_id, entries_read)));
                }
                Stage::Groups => return Ok(None),
                Stage::Pending if take(&mut self.pending) => {
                    let id = StreamId::from_be_bytes(input.bytes()?);
                    if self.ids.last().is_some_and(|last| id <= *last) {
                        return wrong(input, StreamFlaw::Order);
                    }
                    self.ids.push(id);
                    let delivered_ms = input.millis()?;
                    return Ok(Some(Step::Pending(id, delivered_ms, input.number()?)));
                }
                Stage::Pending => {
                    self.taken.resize(self.ids.len(), false);
                    self.consumers = input.count(1 + 8 + 1)?;
                    self.stage = Stage::Consumers;
                }
                Stage::Consumers if take(&mut self.consumers) => {
                    let name = input.string()?;
                    if !self.consumer_names.insert(text(input, name)) {
                        return wrong(input, StreamFlaw::ConsumerName);
                    }
                    let seen_ms = input.millis()?;
                    let active_ms = match self.kind {
                        Kind::Stream3 => input.millis()?,
                        _ => seen_ms,
                    };
                    self.owned = input.count(OWNED_LEN)?;
                    self.last_owned = None;
                    self.stage = Stage::Owned;
                    return Ok(Some(Step::Consumer(name, seen_ms, active_ms)));
                }
                Stage::Consumers => {
                    if self.taken_count != self.ids.len() {
                        return wrong(input, StreamFlaw::Owner);
                    }
                    self.stage = Stage::Groups;
                }
                Stage::Owned if take(&mut self.owned) => {
                    let id = StreamId::from_be_bytes(input.bytes()?);
                    if self.last_owned.replace(id).is_some_and(|last| id <= last) {
                        return wrong(input, StreamFlaw::Order);
                    }
                    match self.ids.binary_search(&id) {
                        Ok(index) if !self.taken[index] => {
                            self.taken[index] = true;
                            self.taken_count += 1;
                            return Ok(Some(Step::Owned(id, index)));
                        }
                        _ => return wrong(input, StreamFlaw::Owner),
                    }
                }
                Stage::Owned => self.stage = Stage::Consumers,
            }
        }
    }

    fn read_totals<S: Source>(&mut self, input: &mut Input<S>) -> Fallible<(), S> {
        let start = input.offset();
        let mut totals = Totals {
            length: input.number()?,
            last_id: read_id(input)?,
            first_id: self.first_id.unwrap_or_default(),
            ..Totals::default()
        };
        if self.kind == Kind::Stream {
            totals.entries_added = totals.length;
        } else {
            read_id(input)?;
            totals.max_deleted_id = read_id(input)?;
            totals.entries_added = input.number()?;
        }
        let wrong = totals.length != self.live
            || totals.last_id < self.last_id.unwrap_or_default()
            || totals.last_id < totals.max_deleted_id
            || totals.entries_added < totals.length
            || i64::try_from(totals.entries_added).is_err();
        if wrong {
            return Err(input.error(start, Reason::Stream(StreamFlaw::Totals)));
        }
        self.totals = totals;
        Ok(())
    }
}

/// Reduces `left` by one. Returns false, and changes nothing, if it is 0.
fn take(left: &mut u64) -> bool {
    let some = *left > 0;
    *left -= u64::from(some);
    some
}

fn text<S: Source>(input: &Input<S>, span: Span) -> Vec<u8> {
    input.element(span).with_text(<[u8]>::to_vec)
}

fn block_id<S: Source>(input: &Input<S>, key: Span) -> Option<StreamId> {
    input.blob(key).try_into().ok().map(StreamId::from_be_bytes)
}

fn read_id<S: Source>(input: &mut Input<S>) -> Fallible<StreamId, S> {
    Ok(StreamId {
        ms: input.number()?,
        seq: input.number()?,
    })
}

/// The parts of a stream.
pub struct Parts<'r, S> {
    pub(crate) input: &'r mut Input<S>,
    pub(crate) rest: &'r mut Rest,
}

impl<S: Source> Parts<'_, S> {
    /// Returns the next part, or `None` at the end.
    ///
    /// All parts are checked, alone and against each other. The last check happens when the method
    /// returns `None`, so a caller must not use the stream before. Memory: the names of all groups,
    /// and the consumers' names and the pending IDs of one group.
    ///
    /// # Errors
    ///
    /// [`Failure`](crate::Failure); the reader cannot be used after that.
    #[expect(clippy::should_implement_trait, reason = "parts borrow from the input")]
    pub fn next(&mut self) -> Fallible<Option<StreamPart<'_>>, S> {
        match self.rest {
            Rest::Stream(progress) => progress.next(self.input),
            _ => Ok(None),
        }
    }

    /// Returns the number of bytes read from the input: the progress within a long value.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }
}
