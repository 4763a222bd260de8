//! XCLAIM and XAUTOCLAIM.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::arguments::{id, start};
use super::effects::{log_claims, log_consumer, log_group};
use super::pending::no_such_key_or_group;
use super::reply::{Deferred, reply_entry, reply_id};
use crate::arguments::is;
use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::stream::{Id, Pending, Stream};

/// Options of XCLAIM.
#[derive(Default)]
struct Options {
    /// Time of delivery in unix ms (IDLE or TIME); `None` means now.
    time_ms: Option<i64>,
    deliveries: Option<u32>,
    force: bool,
    just_id: bool,
    last_id: Id,
}

impl Options {
    fn parse(mut args: Args, now_ms: i64) -> Result<Self, Error> {
        let mut options = Self::default();
        while let Some(option) = args.get(0) {
            let value = args.get(1);
            if is(option, "FORCE") {
                options.force = true;
                args = args.skip(1);
                continue;
            }
            if is(option, "JUSTID") {
                options.just_id = true;
                args = args.skip(1);
                continue;
            }
            match value {
                Some(value) if is(option, "IDLE") => {
                    let idle = number(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                    options.time_ms = Some(now_ms.wrapping_sub(idle));
                }
                Some(value) if is(option, "TIME") => {
                    let time = number(value, "ERR Invalid TIME option argument for XCLAIM")?;
                    options.time_ms = Some(time);
                }
                Some(value) if is(option, "RETRYCOUNT") => {
                    const INVALID: &str = "ERR Invalid RETRYCOUNT option argument for XCLAIM";
                    let count = number(value, INVALID)?;
                    // A negative count is ignored, and a count that does not fit is an error.
                    options.deliveries = match u64::try_from(count) {
                        Ok(count) => Some(u32::try_from(count).map_err(|_| Error::fixed(INVALID))?),
                        Err(_) => None,
                    };
                }
                Some(value) if is(option, "LASTID") => options.last_id = id(value)?,
                _ => {
                    return Err(Error::repeating(
                        "ERR Unrecognized XCLAIM option '",
                        option,
                        "'",
                    ));
                }
            }
            args = args.skip(2);
        }
        Ok(options)
    }
}

fn number(arg: &[u8], error: &'static str) -> Result<i64, Error> {
    punctual_resp::decimal::parse_i64(arg).ok_or(Error::fixed(error))
}

/// Finds the stream of a group, and removes the entries that are older than its retention.
fn find(
    cx: &mut Cx,
    args: Args,
    (place, found): (Place, Option<RecordId>),
) -> Result<(Place, RecordId), Error> {
    if let Some(record) = found
        && cx.view::<Stream>(place, record)?.group(&args[2]).is_some()
    {
        cx.settle(place, record, &args[1])?;
        return Ok((place, record));
    }
    Err(no_such_key_or_group(args))
}

/// A consumer that claims entries, with the entries that it has claimed so far.
struct Claimer<'a> {
    args: Args<'a>,
    place: Place,
    record: RecordId,
    /// Number of the consumer.
    consumer: u32,
    min_idle_ms: i64,
    now_ms: u64,
    time_ms: u64,
    deliveries: Option<u32>,
    just_id: bool,
    force: bool,
    /// Claimed entries: the ID, the delivery time in unix ms and the number of deliveries.
    claimed: SmallVec<[(Id, u64, u32); 16]>,
    /// Pending entries that are no longer in the stream; a claim acknowledges them.
    gone: Vec<Id>,
}

impl<'a> Claimer<'a> {
    /// Creates the consumer if it does not exist, even if it will claim nothing.
    fn new(
        cx: &mut Cx,
        args: Args<'a>,
        (place, record): (Place, RecordId),
        min_idle_ms: i64,
    ) -> Result<Self, Error> {
        let now = cx.now();
        let [_, key, group_name, name] = [0, 1, 2, 3].map(|at| args.at(at));
        let stream = cx.edit::<Stream>(place, record)?;
        let group = stream.group_mut(group_name);
        let group = group.ok_or_else(|| no_such_key_or_group(args))?;
        let time_ms = group.delivery_ms(now);
        let known = group.number_of(name);
        let consumer = known.unwrap_or_else(|| group.add_consumer(name, now.read_ms()));
        group.consumer_mut(consumer).seen_ms = now.read_ms();
        if known.is_none() {
            log_consumer(cx, key, group_name, name);
        }
        Ok(Self {
            args,
            place,
            record,
            consumer,
            min_idle_ms,
            now_ms: now.read_ms(),
            time_ms,
            deliveries: None,
            just_id: false,
            force: false,
            claimed: SmallVec::new(),
            gone: Vec::new(),
        })
    }

    /// Claims an entry and replies with it. Returns false if the entry cannot be claimed.
    fn claim(&mut self, cx: &mut Cx, id: Id, reply: &mut Reply) -> Result<bool, Error> {
        let stream = cx.edit::<Stream>(self.place, self.record)?;
        let exists = stream.contains(id);
        let Some(group) = stream.group_mut(&self.args[2]) else {
            return Ok(false);
        };
        let before = group.pending().get(id).copied();
        if !exists {
            if before.is_some() {
                group.acknowledge(id);
                self.gone.push(id);
            }
            return Ok(false);
        }
        if before.is_none() && !self.force {
            return Ok(false);
        }
        if before.is_some_and(|entry| {
            self.min_idle_ms > 0
                && self.now_ms as i64 - (entry.delivered_ms as i64) < self.min_idle_ms
        }) {
            return Ok(false);
        }
        let consumer = self.consumer;
        let count = before.map_or(1, |entry| entry.deliveries);
        let deliveries = match self.deliveries {
            Some(count) => count,
            None if self.just_id => count,
            None => count.saturating_add(1),
        };
        group.assign(Pending {
            id,
            delivered_ms: self.time_ms,
            deliveries,
            consumer,
        });
        group.consumer_mut(consumer).active_ms = Some(self.now_ms);
        self.claimed.push((id, self.time_ms, deliveries));
        match stream.get(id) {
            Some(entry) if !self.just_id => reply_entry(reply, &entry),
            _ => reply_id(reply, id),
        }
        Ok(true)
    }

    /// Commits the claims and adds their effects. `moved` is true if LASTID has changed the group.
    fn commit(&self, cx: &mut Cx, moved: bool) -> Result<(), Error> {
        let (key, group) = (self.args.at(1), self.args.at(2));
        let changes = self.claimed.len() + self.gone.len();
        if changes == 0 && !moved {
            return Ok(());
        }
        let count = changes.max(1) as u64;
        cx.turn.commit_group(cx.db, key, None, count);
        cx.rearm(self.place, self.record);
        if !cx.is_logged() {
            return Ok(());
        }
        let stream = cx.view::<Stream>(self.place, self.record)?;
        let Some((last, read)) = stream.group(group).map(|g| (g.last_id, g.entries_read)) else {
            return Ok(());
        };
        if !self.gone.is_empty() {
            let ids: Vec<Vec<u8>> = self.gone.iter().map(|id| id.text()).collect();
            let mut words: Vec<&[u8]> = vec![b"XACK", key, group];
            words.extend(ids.iter().map(Vec::as_slice));
            cx.effect(&words);
        }
        let claimed = self.claimed.iter().copied();
        log_claims(cx, key, group, self.args.at(3), last, claimed);
        if moved && self.claimed.is_empty() {
            log_group(cx, key, group, last, read);
        }
        Ok(())
    }
}

pub(super) fn xclaim(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let found = cx.seek_to_read(&args[1]);
    let found = find(cx, args, found)?;
    let min_idle = number(&args[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
    let ids: SmallVec<[Id; 8]> = args
        .skip(5)
        .iter()
        .map_while(|arg| Id::parse(arg, 0))
        .collect();
    let now_ms = cx.now().read_ms();
    let options = Options::parse(args.skip(5 + ids.len()), now_ms as i64)?;
    let stream = cx.edit::<Stream>(found.0, found.1)?;
    let mut moved = false;
    if let Some(group) = stream.group_mut(&args[2]) {
        moved = options.last_id > group.last_id;
        group.last_id = group.last_id.max(options.last_id);
    }
    let mut claimer = Claimer::new(cx, args, found, min_idle)?;
    // The times in a log may be later than the clock of this machine.
    let time_ms = options.time_ms.and_then(|time| u64::try_from(time).ok());
    claimer.time_ms = time_ms
        .filter(|time| *time <= now_ms || cx.turn.replays())
        .unwrap_or(claimer.time_ms);
    claimer.deliveries = options.deliveries;
    claimer.just_id = options.just_id;
    claimer.force = options.force;
    let mut failed = Ok(());
    Deferred::array(reply, ids.len(), |reply| {
        let mut claimed = 0;
        for id in &ids {
            match claimer.claim(cx, *id, reply) {
                Ok(done) => claimed += usize::from(done),
                Err(error) => failed = Err(error),
            }
        }
        claimed
    });
    failed?;
    claimer.commit(cx, moved)
}

pub(super) fn xautoclaim(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    /// Number of entries that the command visits for each entry of COUNT.
    const ATTEMPTS: u64 = 10;
    const COUNT_MAX: i64 = i64::MAX / 16;
    let found = cx.seek_to_read(&args[1]);
    let min_idle = number(
        &args[4],
        "ERR Invalid min-idle-time argument for XAUTOCLAIM",
    )?;
    let start = start(&args[5])?;
    let (mut count, mut just_id) = (100u64, false);
    let mut options = args.skip(6);
    while let Some(option) = options.get(0) {
        match options.get(1) {
            Some(value) if is(option, "COUNT") => {
                let given = punctual_resp::decimal::parse_i64(value);
                let given = given.filter(|count| (1..=COUNT_MAX).contains(count));
                count = given.ok_or(Error::fixed("ERR COUNT must be > 0"))? as u64;
                options = options.skip(2);
            }
            _ if is(option, "JUSTID") => {
                just_id = true;
                options = options.skip(1);
            }
            _ => return Err(Error::Syntax),
        }
    }
    let found = find(cx, args, found)?;
    let mut claimer = Claimer::new(cx, args, found, min_idle)?;
    claimer.just_id = just_id;
    // `seen` has the pending entries to visit and one more, the start of the next call.
    let visits_max = usize::try_from(count.saturating_mul(ATTEMPTS)).unwrap_or(usize::MAX);
    let stream = cx.view::<Stream>(found.0, found.1)?;
    let group = stream.group(&args[2]);
    let group = group.ok_or_else(|| no_such_key_or_group(args))?;
    let seen = group
        .pending()
        .from(start)
        .take(visits_max.saturating_add(1));
    let seen: Vec<Id> = seen.map(|entry| entry.id).collect();
    let mut bodies = Vec::new();
    let mut claimed = 0;
    let mut next = Id::MIN;
    for (visited, id) in seen.iter().enumerate() {
        if visited == visits_max || claimed + claimer.gone.len() as u64 == count {
            next = *id;
            break;
        }
        let mut body = Reply::new(&mut bodies, reply.protocol());
        claimed += u64::from(claimer.claim(cx, *id, &mut body)?);
    }
    reply.array(3);
    reply_id(reply, next);
    reply.array(claimed as usize);
    reply.out().extend_from_slice(&bodies);
    reply.array(claimer.gone.len());
    for id in &claimer.gone {
        reply_id(reply, *id);
    }
    claimer.commit(cx, false)
}
