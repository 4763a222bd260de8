//! XREAD and XREADGROUP.
//!
//! Both commands look up all keys before they change a stream. If no stream has entries, the client
//! may wait, and its command runs again when a key has changed. When the wait begins, an explicit
//! ID replaces `$` or `+` in the command.

use std::ops::Range;

use punctual_resp::{Args, Protocol, Reply};
use smallvec::SmallVec;

use super::arguments::id;
use super::budget::Budget;
use super::effects::{log_claims, log_consumer, log_group};
use super::redeliver::{min_idle, reply_deleted, reply_delivered};
use super::reply::{Deferred, no_group, reply_entry};
use crate::arguments::{block_deadline, int, is};
use crate::error::{Error, c_string};
use crate::events::Classes;
use crate::keyspace::records::Id as RecordId;
use crate::keyspace::waiters::{Wait, WaitCondition};
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::stream::{Id, Pending, Stream};

/// The options of a read.
struct Options<'a> {
    /// Maximum number of entries of each stream.
    count: usize,
    /// Maximum number of entries of all streams (Redis 8.10).
    max_count: usize,
    /// MAXSIZE: maximum number of bytes of the reply (Redis 8.10).
    max_size: usize,
    /// BLOCK: waits if no stream has entries. The inner value is the end of the wait in unix ms, or
    /// `None` for a wait without end.
    block: Option<Option<u64>>,
    no_ack: bool,
    /// CLAIM: also takes over pending entries that have been idle for this number of ms.
    claim: Option<u64>,
    /// Names of group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    keys: Range<usize>,
}

/// The entries of a stream that a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Entries with greater IDs; in XREADGROUP, only the consumer's pending entries.
    After(Id),
    /// `>`: the entries that the group has not read.
    Unread,
}

/// A stream to read.
struct Source<'a> {
    key: &'a [u8],
    found: Option<(Place, RecordId)>,
    from: From,
}

type Sources<'a> = SmallVec<[Source<'a>; 4]>;

pub(super) fn xread(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(cx, args, false)?;
    let sources = sources(cx, args, &options)?;
    recount(cx, &sources);
    let now = cx.now();
    let mut ready: SmallVec<[&Source<'_>; 4]> = SmallVec::new();
    for source in &sources {
        if let (Some((place, record)), From::After(after)) = (source.found, source.from)
            && cx.view::<Stream>(place, record)?.shows_after(after, now)
        {
            ready.push(source);
        }
    }
    if ready.is_empty() {
        return wait(cx, args, &options, &sources, reply);
    }
    // Each ready stream has at least one entry, so MAXCOUNT also limits the number of streams.
    ready.truncate(options.max_count);
    let mut budget = Budget::new(reply, options.max_count, options.max_size);
    let mut failed = Ok(());
    Deferred::headed(reply, ready.len(), announce_streams, |reply| {
        let mut served = 0;
        for source in ready {
            let (Some((place, record)), From::After(after)) = (source.found, source.from) else {
                continue;
            };
            let stream = match cx.view::<Stream>(place, record) {
                Ok(stream) if budget.entries() > 0 => stream,
                Ok(_) => break,
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            };
            let begin = reply.len();
            begin_stream(reply, source.key);
            let floor = stream.floor(now).unwrap_or(Id::MIN);
            let start = after.next().map(|start| start.max(floor));
            let entries = start.map(|start| stream.range(start, Id::MAX));
            let count = options.count.min(budget.entries());
            let entries = entries.into_iter().flatten().take(count);
            let written = Deferred::array(reply, count.min(stream.len() as usize), |reply| {
                let fit = |entry: &_| budget.add(reply, |reply| reply_entry(reply, entry));
                entries.take_while(fit).count()
            });
            if written == 0 {
                reply.truncate(begin);
                break;
            }
            served += 1;
        }
        served
    });
    failed
}

pub(super) fn xreadgroup(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(cx, args, true)?;
    let Some((group, consumer)) = options.group else {
        return Err(Error::fixed("ERR Missing GROUP option for XREADGROUP"));
    };
    let sources = sources(cx, args, &options)?;
    recount(cx, &sources);
    let now_ms = cx.now().read_ms();
    let start = reply.len();
    let mut failed = Ok(());
    let mut budget = Budget::new(reply, options.max_count, options.max_size);
    let served = Deferred::headed(reply, sources.len(), announce_streams, |reply| {
        let mut served = 0;
        for source in &sources {
            if budget.entries() == 0 {
                break;
            }
            let mut reader = Reader {
                cx,
                group,
                consumer,
                now_ms,
                count: options.count.min(budget.entries()),
                budget: &mut budget,
                claim: options.claim,
            };
            match reader.read(source, options.no_ack, reply) {
                Ok(found) => served += usize::from(found),
                Err(error) => failed = Err(error),
            }
        }
        served
    });
    failed?;
    if served == 0 {
        reply.truncate(start);
        return wait(cx, args, &options, &sources, reply);
    }
    Ok(())
}

impl<'a> Options<'a> {
    fn parse(cx: &Cx, args: Args<'a>, of_group: bool) -> Result<Self, Error> {
        let mut options = Self {
            count: usize::MAX,
            max_count: usize::MAX,
            max_size: usize::MAX,
            block: None,
            no_ack: false,
            claim: None,
            group: None,
            keys: 0..0,
        };
        let mut at = 1;
        while at < args.len() {
            let (arg, more) = (args.at(at), args.len() - 1 - at);
            if is(arg, "BLOCK") && more > 0 {
                at += 1;
                options.block = Some(block_deadline(cx.now(), &args[at])?);
            } else if is(arg, "COUNT") && more > 0 {
                at += 1;
                options.count = match int(&args[at])? {
                    ..=0 => usize::MAX,
                    count => count as usize,
                };
            } else if is(arg, "MAXCOUNT") && more > 0 {
                at += 1;
                options.max_count = match int(&args[at])? {
                    ..=0 => return Err(Error::fixed("ERR MAXCOUNT must be a positive integer")),
                    count => count as usize,
                };
            } else if is(arg, "MAXSIZE") && more > 0 {
                at += 1;
                options.max_size = match int(&args[at])? {
                    ..=0 => return Err(Error::fixed("ERR MAXSIZE must be a positive integer")),
                    size => size as usize,
                };
            } else if is(arg, "STREAMS") && more > 0 {
                if more % 2 == 1 {
                    return Err(Error::fixed(if of_group {
                        "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
                    } else {
                        "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."
                    }));
                }
                options.keys = at + 1..at + 1 + more / 2;
                break;
            } else if is(arg, "GROUP") && more > 1 {
                if !of_group {
                    return Err(Error::fixed(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                options.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 2;
            } else if is(arg, "CLAIM") && more > 0 {
                if !of_group {
                    return Err(Error::fixed(
                        "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                at += 1;
                options.claim = Some(min_idle(args, at)?);
            } else if is(arg, "NOACK") {
                if !of_group {
                    return Err(Error::fixed(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                options.no_ack = true;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        if options.keys.is_empty() {
            return Err(Error::Syntax);
        }
        if options.count != usize::MAX && options.max_count < options.count {
            return Err(Error::fixed(
                "ERR MAXCOUNT must be greater than or equal to COUNT",
            ));
        }
        Ok(options)
    }
}

/// Looks up all keys, checks their groups, and parses their IDs.
fn sources<'a>(cx: &mut Cx, args: Args<'a>, options: &Options<'_>) -> Result<Sources<'a>, Error> {
    let mut sources = Sources::new();
    for at in options.keys.clone() {
        let (key, from) = (args.at(at), args.at(at + options.keys.len()));
        let (place, record) = cx.seek_to_read(key);
        let stream = match record {
            Some(record) => {
                cx.settle(place, record, key)?;
                Some(cx.view::<Stream>(place, record)?)
            }
            None => None,
        };
        if let Some((group, _)) = options.group
            && stream.and_then(|stream| stream.group(group)).is_none()
        {
            return Err(no_group(&[
                b"No such key '",
                key,
                b"' or consumer group '",
                group,
                b"' in XREADGROUP with GROUP option",
            ]));
        }
        let from = match (c_string(from), options.group) {
            (b"$", None) => From::After(stream.map_or(Id::MIN, Stream::last_id)),
            (b"$", Some(_)) => {
                return Err(Error::fixed(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
                ));
            }
            // Redis 7.4: the last entry, or the next one of an empty stream.
            (b"+", None) => From::After(stream.map_or(Id::MIN, |stream| {
                let last = stream.last_entry_id().and_then(Id::prev);
                last.unwrap_or(stream.last_id())
            })),
            (b"+", Some(_)) => {
                return Err(Error::fixed(
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
                ));
            }
            (b">", Some(_)) => From::Unread,
            (b">", None) => {
                return Err(Error::fixed(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            _ => match id(from)? {
                // Redis treats the greatest ID like `>`.
                Id::MAX if options.group.is_some() => From::Unread,
                after => From::After(after),
            },
        };
        let found = record.map(|record| (place, record));
        sources.push(Source { key, found, from });
    }
    Ok(sources)
}

/// Counts a hit or a miss for each key again, because Redis looks up each key twice.
fn recount(cx: &mut Cx, sources: &[Source<'_>]) {
    for source in sources {
        match source.found {
            Some(_) => cx.turn.stats.hits += 1,
            None => {
                cx.turn.stats.misses += 1;
                cx.announce(Classes::MISSED, "keymiss", source.key);
            }
        }
    }
}

/// Requests a wait if the command has BLOCK and the client may wait. Otherwise replies null.
fn wait(
    cx: &mut Cx,
    args: Args,
    options: &Options<'_>,
    sources: &Sources<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let Some(deadline_ms) = options.block.filter(|_| cx.turn.may_wait()) else {
        reply.null_array();
        return Ok(());
    };
    let read_after = |source: &Source<'_>| match source.from {
        From::After(id) => id,
        From::Unread => Id::MAX,
    };
    let condition = match options.group {
        Some((group, _)) => WaitCondition::Group(group.into(), options.claim),
        None => WaitCondition::Entries(sources.iter().map(read_after).collect()),
    };
    if let (Some((group, _)), Some(idle_ms)) = (options.group, options.claim) {
        for source in sources {
            if let (Some((place, record)), From::Unread) = (source.found, source.from) {
                cx.db_at(place).expect_claims(record, group, idle_ms);
            }
        }
    }
    let ids = options.keys.end..;
    let resolved = ids
        .zip(sources)
        .filter(|(at, _)| matches!(c_string(args.at(*at)), b"$" | b"+"));
    cx.turn.wait = Some(Wait {
        resolved: resolved
            .map(|(at, source)| (at, read_after(source).text()))
            .collect(),
        ..Wait::new(condition, options.keys.clone(), deadline_ms)
    });
    Ok(())
}

/// Writes the header of `count` pairs of a key and its entries.
fn announce_streams(reply: &mut Reply, count: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(count),
        Protocol::Resp3 => reply.map(count),
    }
}

fn begin_stream(reply: &mut Reply, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// An XREADGROUP of one stream for a consumer.
pub(super) struct Reader<'r, 't, 's> {
    pub(super) cx: &'r mut Cx<'t, 's>,
    pub(super) group: &'r [u8],
    pub(super) consumer: &'r [u8],
    now_ms: u64,
    pub(super) count: usize,
    pub(super) budget: &'r mut Budget,
    pub(super) claim: Option<u64>,
}

impl Reader<'_, '_, '_> {
    /// Reads a stream. Returns whether it wrote a reply.
    fn read(
        &mut self,
        source: &Source<'_>,
        no_ack: bool,
        reply: &mut Reply,
    ) -> Result<bool, Error> {
        let Some((place, record)) = source.found else {
            return Ok(false);
        };
        let (key, now_ms, now) = (source.key, self.now_ms, self.cx.now());
        let stream = self.cx.edit::<Stream>(place, record)?;
        let expected = self.count.min(stream.len() as usize);
        let Some(group) = stream.group_mut(self.group) else {
            return Ok(false);
        };
        let known = group.number_of(self.consumer);
        let number = known.unwrap_or_else(|| group.add_consumer(self.consumer, now_ms));
        group.consumer_mut(number).seen_ms = now_ms;
        if known.is_none() {
            log_consumer(self.cx, key, self.group, self.consumer);
        }
        let stream = self.cx.view::<Stream>(place, record)?;
        let Some(group) = stream.group(self.group) else {
            return Ok(false);
        };
        if source.from == From::Unread
            && !stream.shows_after(group.last_id, now)
            && !stream.has_claimable(group, now, self.claim)
        {
            return Ok(false);
        }
        let begin = reply.len();
        begin_stream(reply, key);
        let count = match source.from {
            From::After(after) => self.history(key, (place, record), number, after, reply)?,
            From::Unread => {
                let mut failed = Ok(());
                let count = Deferred::array(reply, expected, |reply| {
                    let found = (place, record);
                    let delivered = self.deliver(key, found, number, no_ack, reply);
                    delivered.unwrap_or_else(|error| {
                        failed = Err(error);
                        0
                    })
                });
                failed?;
                count
            }
        };
        self.cx.rearm(place, record);
        let full = count == 0 && self.budget.entries() == 0;
        if full {
            reply.truncate(begin);
        }
        Ok(!full)
    }

    /// Replies with the pending entries that the consumer takes over, and then with the entries
    /// that the group has not read. Assigns them to the consumer. Returns the number of entries.
    fn deliver(
        &mut self,
        key: &[u8],
        (place, record): (Place, RecordId),
        number: u32,
        no_ack: bool,
        reply: &mut Reply,
    ) -> Result<usize, Error> {
        let taken = match self.claim.is_some() || self.has_timeline(place, record)? {
            true => self.take_over(key, (place, record), number, reply)?,
            false => 0,
        };
        let count = (self.count - taken).min(self.budget.entries());
        let (claim, now) = (self.claim.is_some(), self.cx.now());
        let stream = self.cx.edit::<Stream>(place, record)?;
        let Some(group) = stream.group(self.group) else {
            return Ok(taken);
        };
        if count == 0 || !stream.has_after(group.last_id) {
            return Ok(taken);
        }
        let now_ms = group.delivery_ms(now);
        let before = group.entries_read;
        let mut read = before;
        let mut ids: SmallVec<[Id; 16]> = SmallVec::new();
        let start = group.last_id.next().unwrap_or(Id::MAX);
        for entry in stream.range(start, Id::MAX).take(count) {
            let write = |reply: &mut Reply| reply_delivered(reply, &entry, claim, 0, 0);
            if !self.budget.add(reply, write) {
                break;
            }
            ids.push(entry.id);
            read = stream.entries_read_after(read, entry.id);
        }
        if ids.is_empty() {
            return Ok(taken);
        }
        let Some(group) = stream.group_mut(self.group) else {
            return Ok(taken);
        };
        group.last_id = ids.last().copied().unwrap_or(group.last_id);
        group.entries_read = read;
        let last = group.last_id;
        if !no_ack {
            for id in &ids {
                group.assign(Pending {
                    id: *id,
                    delivered_ms: now_ms,
                    deliveries: 1,
                    consumer: number,
                });
            }
            group.consumer_mut(number).active_ms = Some(now_ms);
        }
        self.cx.turn.commit_group(self.cx.db, key, None, 1);
        if self.cx.is_logged() {
            if !no_ack {
                let entries = ids.iter().map(|id| (*id, now_ms, 1));
                log_claims(self.cx, key, self.group, self.consumer, last, entries);
            }
            if no_ack || before.is_some() || read.is_some() {
                log_group(self.cx, key, self.group, last, read);
            }
        }
        Ok(taken + ids.len())
    }

    /// Returns whether the group has a timeline (its pending entries by time). Without a timeline,
    /// no lease can have ended. O(log groups).
    fn has_timeline(&mut self, place: Place, record: RecordId) -> Result<bool, Error> {
        let group = self.cx.view::<Stream>(place, record)?.group(self.group);
        Ok(group.is_some_and(|group| group.timeline().is_some()))
    }

    /// Replies with the consumer's pending entries after an ID, and counts a delivery of each.
    /// Returns the number of entries.
    fn history(
        &mut self,
        key: &[u8],
        (place, record): (Place, RecordId),
        number: u32,
        after: Id,
        reply: &mut Reply,
    ) -> Result<usize, Error> {
        let now = self.cx.now();
        let stream = self.cx.edit::<Stream>(place, record)?;
        let Some(group) = stream.group(self.group) else {
            return Ok(0);
        };
        let last = group.last_id;
        let pending = group.consumer(number).pending();
        let start = after.next();
        let ids: SmallVec<[Id; 16]> = start
            .into_iter()
            .flat_map(|start| pending.from(start))
            .take(self.count)
            .copied()
            .collect();
        let mut delivered: SmallVec<[(Id, u64, u32); 16]> = SmallVec::new();
        let count = Deferred::array(reply, ids.len(), |reply| {
            let fit = |id: &&Id| {
                let entry = stream.get(**id);
                let write = |reply: &mut Reply| match &entry {
                    Some(entry) => reply_entry(reply, entry),
                    None => reply_deleted(reply, **id),
                };
                let fits = self.budget.add(reply, write);
                if fits && entry.is_some() {
                    delivered.push((**id, 0, 0));
                }
                fits
            };
            ids.iter().take_while(fit).count()
        });
        let Some(group) = stream.group_mut(self.group) else {
            return Ok(count);
        };
        let delivered_ms = group.delivery_ms(now);
        for entry in &mut delivered {
            if let Some(pending) = group.redeliver(entry.0, delivered_ms) {
                (entry.1, entry.2) = (pending.delivered_ms, pending.deliveries);
            }
        }
        if !delivered.is_empty() {
            self.cx.turn.commit_group(self.cx.db, key, None, 1);
            let entries = delivered.into_iter();
            log_claims(self.cx, key, self.group, self.consumer, last, entries);
        }
        Ok(count)
    }
}
