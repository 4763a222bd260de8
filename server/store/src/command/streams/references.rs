//! XDELEX, XACKDEL (Redis 8.2) and XNACK (8.8), and the trims of XADD and XTRIM. A *reference* to
//! an entry is its place among the pending entries of a consumer group. KEEPREF, DELREF and ACKED
//! say what a deletion does with references ([`References`]).
//!
//! The effects are commands that Redis 7 has: XDEL, XACK, XTRIM and XCLAIM.

use std::collections::BTreeMap;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::arguments::{References, id, ids};
use super::effects::log_claims;
use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::stream::{Group, Id, Pending, Stream, Trim};

/// Outcomes for an ID, as numbers of the reply.
const UNKNOWN: i64 = -1;
const DELETED: i64 = 1;
const KEPT: i64 = 2;

/// Parses `[KEEPREF | DELREF | ACKED] IDS n id ...`, in any order.
fn parse(mut args: Args) -> Result<(References, SmallVec<[Id; 8]>), Error> {
    let (mut references, mut found) = (None, None);
    while let Some(word) = args.get(0) {
        let option = References::parse(word);
        if option.is_some() && references.is_none() {
            references = option;
            args = args.skip(1);
        } else if is(word, "IDS") && found.is_none() {
            let count = args.get(1).and_then(parse_i64);
            let count = count
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| *count > 0)
                .ok_or(Error::fixed("ERR Number of IDs must be a positive integer"))?;
            let rest = args.skip(2);
            if count > rest.len() {
                return Err(Error::fixed(
                    "ERR The `numids` parameter must match the number of arguments",
                ));
            }
            found = Some(rest.take(count));
            args = rest.skip(count);
        } else {
            return Err(Error::Syntax);
        }
    }
    let found = found.ok_or(Error::Syntax)?;
    Ok((references.unwrap_or_default(), ids(found)?))
}

fn reply_outcomes(reply: &mut Reply, outcomes: &[i64]) {
    reply.array(outcomes.len());
    outcomes.iter().for_each(|outcome| reply.int(*outcome));
}

/// The entries that a command has deleted, and the IDs that it has acknowledged by group.
#[derive(Default)]
struct Removed {
    deleted: Vec<Id>,
    acknowledged: BTreeMap<Box<[u8]>, Vec<Id>>,
}

impl Removed {
    fn acknowledge(&mut self, group: &[u8], id: Id) {
        self.acknowledged.entry(group.into()).or_default().push(id);
    }

    /// Deletes an entry, and treats its references as the option says. Returns the outcome.
    fn delete(&mut self, stream: &mut Stream, id: Id, references: References) -> i64 {
        if references == References::Acked && stream.is_referenced(id) {
            return KEPT;
        }
        if references == References::Drop {
            for group in stream.acknowledge_everywhere(id) {
                self.acknowledge(&group, id);
            }
        }
        if !stream.delete(id) {
            return UNKNOWN;
        }
        self.deleted.push(id);
        DELETED
    }

    /// Commits the removals, and adds their effects.
    fn commit(&self, cx: &mut Cx, key: &[u8]) {
        let acknowledged: usize = self.acknowledged.values().map(Vec::len).sum();
        if acknowledged > 0 {
            cx.turn.commit_group(cx.db, key, None, acknowledged as u64);
        }
        if !self.deleted.is_empty() {
            cx.commit(key, Classes::STREAM, "xdel", self.deleted.len() as u64);
        }
        self.log(cx, key);
    }

    fn log(&self, cx: &mut Cx, key: &[u8]) {
        if !cx.is_logged() {
            return;
        }
        for (group, ids) in &self.acknowledged {
            log_ids(cx, &[b"XACK", key, group], ids);
        }
        if !self.deleted.is_empty() {
            log_ids(cx, &[b"XDEL", key], &self.deleted);
        }
    }
}

fn log_ids(cx: &mut Cx, words: &[&[u8]], ids: &[Id]) {
    let texts: Vec<Vec<u8>> = ids.iter().map(|id| id.text()).collect();
    let ids = texts.iter().map(Vec::as_slice);
    let words: Vec<&[u8]> = words.iter().copied().chain(ids).collect();
    cx.effect(&words);
}

pub(super) fn xdelex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_stream(key)?;
    let (references, ids) = parse(args.skip(2))?;
    let mut outcomes = vec![UNKNOWN; ids.len()];
    let mut removed = Removed::default();
    if let Some(record) = found {
        let stream = cx.edit::<Stream>(place, record)?;
        for (id, outcome) in ids.iter().zip(&mut outcomes) {
            *outcome = removed.delete(stream, *id, references);
        }
        removed.commit(cx, key);
    }
    reply_outcomes(reply, &outcomes);
    Ok(())
}

pub(super) fn xackdel(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, name) = (&args[1], &args[2]);
    let (place, found) = cx.seek_stream(key)?;
    let (references, ids) = parse(args.skip(3))?;
    let mut outcomes = vec![UNKNOWN; ids.len()];
    let mut removed = Removed::default();
    if let Some(record) = found {
        let stream = cx.edit::<Stream>(place, record)?;
        for (id, outcome) in ids.iter().zip(&mut outcomes) {
            let pending = stream
                .group_mut(name)
                .and_then(|group| group.acknowledge(*id));
            if pending.is_none() {
                continue;
            }
            removed.acknowledge(name, *id);
            *outcome = match removed.delete(stream, *id, references) {
                // The entry was deleted before. The reply counts the acknowledgement.
                UNKNOWN => DELETED,
                outcome => outcome,
            };
        }
        removed.commit(cx, key);
    }
    reply_outcomes(reply, &outcomes);
    Ok(())
}

/// How XNACK changes the number of deliveries.
#[derive(Clone, Copy)]
enum Count {
    /// SILENT: the last delivery does not count.
    Down,
    /// FAIL: the last delivery counts.
    Keep,
    /// RETRYCOUNT sets the number; FATAL sets the greatest number.
    Exactly(u32),
}

impl Count {
    /// Returns the new number of deliveries; `before` is `None` for an entry that was not pending.
    fn after(self, before: Option<u32>) -> u32 {
        match self {
            Self::Down => before.unwrap_or(0).saturating_sub(1),
            Self::Keep => before.unwrap_or(0),
            Self::Exactly(count) => count,
        }
    }
}

/// Parses `SILENT | FAIL | FATAL IDS n id ... [RETRYCOUNT n] [FORCE]`.
fn parse_nack(args: Args) -> Result<(Count, SmallVec<[Id; 8]>, bool), Error> {
    let mut count = match args.at(0) {
        word if is(word, "SILENT") => Count::Down,
        word if is(word, "FAIL") => Count::Keep,
        word if is(word, "FATAL") => Count::Exactly(u32::MAX),
        _ => {
            return Err(Error::fixed("ERR mode must be SILENT, FAIL, or FATAL"));
        }
    };
    if !is(args.at(1), "IDS") {
        return Err(Error::Syntax);
    }
    let number = parse_i64(args.at(2))
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or(Error::fixed("ERR numids must be a positive integer"))?;
    let rest = args.skip(3);
    if number > rest.len() {
        return Err(Error::fixed("ERR number of IDs doesn't match numids"));
    }
    let ids = rest.take(number).iter().map(id).collect::<Result<_, _>>()?;
    let (mut options, mut force) = (rest.skip(number), false);
    while let Some(option) = options.get(0) {
        if is(option, "FORCE") {
            force = true;
            options = options.skip(1);
        } else if is(option, "RETRYCOUNT")
            && let Some(value) = options.get(1)
        {
            let given = parse_i64(value).and_then(|given| u32::try_from(given).ok());
            count = Count::Exactly(given.ok_or(Error::fixed(
                "ERR Invalid RETRYCOUNT option argument for XNACK",
            ))?);
            options = options.skip(2);
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok((count, ids, force))
}

/// Name of the consumer of released entries (XNACK). Redis 8.8 shows this name for entries without
/// a consumer.
pub(super) const NOBODY: &[u8] = b"";

pub(super) fn xnack(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, name) = (&args[1], &args[2]);
    let (place, found) = cx.seek_stream(key)?;
    let (count, ids, force) = parse_nack(args.skip(3))?;
    let Some(record) = found else {
        reply.int(0);
        return Ok(());
    };
    let now_ms = cx.now().read_ms();
    let stream = cx.edit::<Stream>(place, record)?;
    let exists: SmallVec<[bool; 8]> = ids.iter().map(|id| stream.contains(*id)).collect();
    let Some(group) = stream.group_mut(name) else {
        reply.int(0);
        return Ok(());
    };
    let mut released: SmallVec<[(Id, u64, u32); 16]> = SmallVec::new();
    for (id, exists) in ids.iter().zip(exists) {
        let before = group.pending().get(*id).map(|entry| entry.deliveries);
        if before.is_none() && !(force && exists) {
            continue;
        }
        let deliveries = count.after(before);
        let consumer = nobody(group, now_ms);
        // With the delivery time 0, the entry has been idle for long enough for any claim.
        group.assign(Pending {
            id: *id,
            delivered_ms: 0,
            deliveries,
            consumer,
        });
        released.push((*id, 0, deliveries));
    }
    let last = group.last_id;
    reply.int(released.len() as i64);
    if released.is_empty() {
        return Ok(());
    }
    let count = released.len() as u64;
    cx.turn.commit_group(cx.db, key, None, count);
    log_claims(cx, key, name, NOBODY, last, released.into_iter());
    // Clients that wait with CLAIM get the released entries at once.
    cx.turn.note_ready(cx.db, key);
    cx.rearm(place, record);
    Ok(())
}

fn nobody(group: &mut Group, now_ms: u64) -> u32 {
    group
        .number_of(NOBODY)
        .unwrap_or_else(|| group.add_consumer(NOBODY, now_ms))
}

/// The removals of a trim by XADD or XTRIM.
#[derive(Default)]
pub(super) struct Trimmed {
    /// Number of removed entries.
    pub(super) count: u64,
    /// The removed entries, if ACKED selected them one by one, and the references that DELREF
    /// removed.
    removed: Removed,
}

impl Trimmed {
    /// Trims a stream. A stream without groups has no references, so the option has no effect.
    pub(super) fn of(stream: &mut Stream, trim: Trim, references: References) -> Self {
        let mut trimmed = Self::default();
        if references == References::Acked && !stream.groups().is_empty() {
            trimmed.removed.deleted = stream.trim_unreferenced(trim);
            trimmed.count = trimmed.removed.deleted.len() as u64;
            return trimmed;
        }
        let first = stream.first_id();
        trimmed.count = stream.trim(trim);
        if references == References::Drop && trimmed.count > 0 {
            let dropped = stream.acknowledge_trimmed(first);
            trimmed.removed.acknowledged = dropped.into_iter().collect();
        }
        trimmed
    }

    /// Adds effects for the removals that XADD or XTRIM of Redis 7 would not make.
    pub(super) fn log(&self, cx: &mut Cx, key: &[u8]) {
        self.removed.log(cx, key);
    }

    /// Returns whether ACKED selected entries one by one.
    pub(super) fn one_by_one(&self) -> bool {
        !self.removed.deleted.is_empty()
    }
}
