//! XACK and XPENDING.

use punctual_resp::{Args, Reply};

use super::arguments::{end, ids, start};
use super::references::NOBODY;
use super::reply::{Deferred, no_group, reply_id};
use crate::arguments::{int, is};
use crate::error::Error;
use crate::planted::Bug;
use crate::turn::Cx;
use crate::value::stream::{Group, Id, Pending, Stream};

pub(super) fn xack(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (place, found) = cx.seek_to_read(&args[1]);
    let group = match found {
        Some(record) => cx.view::<Stream>(place, record)?.group(&args[2]),
        None => None,
    };
    let (Some(record), true) = (found, group.is_some()) else {
        reply.int(0);
        return Ok(());
    };
    let ids = ids(args.skip(3))?;
    let group = cx.edit::<Stream>(place, record)?.group_mut(&args[2]);
    let acknowledged = group.map_or(0, |group| {
        ids.iter().filter_map(|id| group.acknowledge(*id)).count()
    });
    if acknowledged > 0 && !Bug::AckNotLogged.is_active() {
        cx.turn
            .commit_group(cx.db, &args[1], None, acknowledged as u64);
    }
    reply.int(acknowledged as i64);
    Ok(())
}

/// A range of pending entries, as the arguments of XPENDING name it.
struct Range<'a> {
    idle_ms: i64,
    start: Id,
    end: Id,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    /// Parses the arguments after the group.
    fn parse(args: Args<'a>) -> Result<Self, Error> {
        let mut idle_ms = 0;
        let mut rest = args.skip(3);
        if is(&rest[0], "IDLE") {
            idle_ms = int(&rest[1])?;
            if args.len() < 8 {
                return Err(Error::Syntax);
            }
            rest = rest.skip(2);
        }
        let count = usize::try_from(int(&rest[2])?).unwrap_or(0);
        Ok(Self {
            idle_ms,
            start: start(&rest[0])?,
            end: end(&rest[1])?,
            count,
            consumer: rest.get(3),
        })
    }
}

pub(super) fn xpending(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let range = match args.len() {
        3 => None,
        6..=9 => Some(Range::parse(args)?),
        _ => return Err(Error::Syntax),
    };
    let now_ms = cx.now().read_ms();
    let stream = cx.read_as::<Stream>(&args[1])?;
    let group = stream.and_then(|stream| stream.group(&args[2]));
    let group = group.ok_or_else(|| no_such_key_or_group(args))?;
    match range {
        None => summary(group, reply),
        Some(range) => list(group, &range, now_ms, reply),
    }
    Ok(())
}

/// The error of a command on a group that does not exist.
pub(super) fn no_such_key_or_group(args: Args) -> Error {
    no_group(&[
        b"No such key '",
        args.at(1),
        b"' or consumer group '",
        args.at(2),
        b"'",
    ])
}

fn summary(group: &Group, reply: &mut Reply) {
    let pending = group.pending();
    reply.array(4);
    reply.int(pending.len() as i64);
    let (Some(first), Some(last)) = (pending.first(), pending.last()) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first.id);
    reply_id(reply, last.id);
    Deferred::array(reply, group.consumer_count(), |reply| {
        let busy = group.consumers().filter(|c| !c.pending().is_empty());
        busy.map(|consumer| {
            reply.array(2);
            reply.bulk(consumer.name());
            reply.bulk_int(consumer.pending().len() as i64);
        })
        .count()
    });
}

fn list(group: &Group, range: &Range<'_>, now_ms: u64, reply: &mut Reply) {
    let idle_ms = |entry: &Pending| now_ms as i64 - entry.delivered_ms as i64;
    let wanted = |entry: &&Pending| range.idle_ms == 0 || idle_ms(entry) >= range.idle_ms;
    let (pending, end, count) = (group.pending(), range.end, range.count);
    match range.consumer.map(|name| group.number_of(name)) {
        Some(None) => reply.array(0),
        Some(Some(number)) => {
            let ids = group.consumer(number).pending();
            let expected = count.min(ids.len());
            Deferred::array(reply, expected, |reply| {
                let ids = ids.from(range.start).take_while(|id| **id <= end);
                ids.filter_map(|id| pending.get(*id))
                    .filter(wanted)
                    .take(count)
                    .map(|entry| reply_pending(reply, group, entry, idle_ms(entry)))
                    .count()
            });
        }
        None => {
            Deferred::array(reply, count.min(pending.len()), |reply| {
                let entries = pending
                    .from(range.start)
                    .take_while(|entry| entry.id <= end);
                entries
                    .filter(wanted)
                    .take(count)
                    .map(|entry| reply_pending(reply, group, entry, idle_ms(entry)))
                    .count()
            });
        }
    }
}

fn reply_pending(reply: &mut Reply, group: &Group, entry: &Pending, idle_ms: i64) {
    let consumer = group.consumer(entry.consumer).name();
    reply.array(4);
    reply_id(reply, entry.id);
    reply.bulk(consumer);
    reply.int(match consumer {
        // XNACK has released the entry; Redis 8.8 shows -1.
        NOBODY if entry.delivered_ms == 0 => -1,
        _ => idle_ms.max(0),
    });
    reply.int(entry.deliveries.into());
}
