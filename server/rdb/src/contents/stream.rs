//! Reading the record of a stream, part by part.

use std::collections::HashSet;

use crate::contents::Rest;
use crate::error::{Reason, StreamFlaw};
use crate::input::{Fallible, Input, Span};
use crate::kind::Kind;
use crate::listpack::Element;
use crate::source::Source;
use crate::stream::{Block, ENTRIES_READ_UNKNOWN, StreamId, Totals};

/// Minimum length of a pending entry: ID, time, number of deliveries.
const PENDING_LEN_MIN: u64 = 16 + 8 + 1;
const OWNED_LEN: u64 = 16;

/// A part of a stream.
///
/// First all blocks, then the totals, then the groups. After each group come its pending entries,
/// then its consumers; after each consumer, its pending entries.
#[derive(Debug)]
pub enum StreamPart<'n> {
    /// Entries, after those of the blocks before. [`Block::live`] may be 0.
    Block(Block<&'n [u8]>),
    /// The totals, which agree with the blocks. [`Totals::first_id`] is that of the blocks,
    /// whatever the record says.
    Totals(Totals),
    /// A consumer group. Its name is unique.
    Group {
        /// The name.
        name: Element<'n>,
        /// The ID of the last entry that was delivered.
        last_id: StreamId,
        /// Number of entries delivered from the start of the stream, if known.
        entries_read: Option<u64>,
    },
    /// A pending entry of the group. The IDs ascend.
    Pending {
        /// The entry, which may be deleted.
        id: StreamId,
        /// The time of the last delivery in Unix milliseconds.
        delivered_ms: i64,
        /// Number of deliveries.
        deliveries: u64,
    },
    /// A consumer of the group. Its name is unique in the group.
    Consumer {
        /// The name.
        name: Element<'n>,
        /// The time of its last attempt to read, in Unix milliseconds.
        seen_ms: i64,
        /// The time of its last successful read; -1 if none. Servers before 7.2 do not know it:
        /// then it is `seen_ms`.
        active_ms: i64,
    },
    /// A pending entry of the consumer. Each pending entry of the group comes exactly once.
    Owned {
        /// The entry.
        id: StreamId,
        /// Its position among the pending entries of the group.
        index: usize,
    },
}

/// The place in a record that is read, and what its checks need.
pub(crate) struct Progress {
    kind: Kind,
    stage: Stage,
    /// Number of blocks, groups, pending entries, consumers and their pending entries that are
    /// still to come.
    blocks: u64,
    groups: u64,
    pending: u64,
    consumers: u64,
    owned: u64,
    /// Of the blocks.
    live: u64,
    first_id: Option<StreamId>,
    last_id: Option<StreamId>,
    totals: Totals,
    names: HashSet<Vec<u8>>,
    /// Of the group.
    consumer_names: HashSet<Vec<u8>>,
    ids: Vec<StreamId>,
    /// Whether each of `ids` has a consumer, and how many do.
    taken: Vec<bool>,
    taken_count: usize,
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

/// A part without borrowed data.
enum Step {
    Block(StreamId, Span, u64),
    Totals,
    Group(Span, StreamId, Option<u64>),
    Pending(StreamId, i64, u64),
    Consumer(Span, i64, i64),
    Owned(StreamId, usize),
}

impl Progress {
    /// Starts reading a record.
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
            names: HashSet::new(),
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
                    if !self.names.insert(text(input, name)) {
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

/// Takes one of `left`.
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
    /// All parts are checked, against each other too, but the last one only when the next one is
    /// requested: use the stream after `None` only. Memory: the names of groups, and the names and
    /// IDs of one group.
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
