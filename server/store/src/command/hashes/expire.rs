//! HEXPIRE, HTTL, HPERSIST and their variants: the deadlines of fields, as in Redis 7.4.
//!
//! As with deadlines of keys, relative and remaining times count from the current time rounded up
//! to a millisecond.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::find_to_read;
use crate::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::value::hash::Hash;

/// Latest deadline of a field in unix ms, as in Redis.
const DEADLINE_MAX_MS: i64 = (1 << 46) - 1;

// Outcomes for a field, as numbers of the reply.
const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// Condition for setting a deadline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// NX: the field has no deadline.
    None,
    /// XX: the field has a deadline.
    Some,
    /// GT: the new deadline is later; no deadline counts as the latest.
    Later,
    /// LT: the new deadline is earlier.
    Earlier,
}

impl Condition {
    /// Parses a condition; `None` if `option` is another word.
    fn parse(option: &[u8]) -> Option<Self> {
        Some(match () {
            () if is(option, "NX") => Self::None,
            () if is(option, "XX") => Self::Some,
            () if is(option, "GT") => Self::Later,
            () if is(option, "LT") => Self::Earlier,
            () => return None,
        })
    }

    fn holds(self, current: u64, new: u64) -> bool {
        match self {
            Self::Always => true,
            Self::None => current == NEVER,
            Self::Some => current != NEVER,
            Self::Later => current != NEVER && new > current,
            Self::Earlier => new < current,
        }
    }
}

/// Parses `FIELDS numfields field ...`, which must be the rest of the arguments, and returns the
/// fields.
pub(super) fn fields<'a>(args: Args<'a>, wrong_number: &'static str) -> Result<Args<'a>, Error> {
    if !args.get(0).is_some_and(|word| is(word, "FIELDS")) {
        return Err(Error::fixed(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let number = args.get(1).and_then(parse_i64).filter(|&n| n > 0);
    let number = number.ok_or(Error::fixed(wrong_number))?;
    let fields = args.skip(2);
    if number != fields.len() as i64 {
        return Err(Error::fixed(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(fields)
}

const NOT_GREATER: &str = "ERR Parameter `numFields` should be greater than 0";
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

pub(super) fn hexpire(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadlines(cx, args, reply, (1000, false), "hexpire")
}

pub(super) fn hpexpire(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadlines(cx, args, reply, (1, false), "hpexpire")
}

pub(super) fn hexpireat(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadlines(cx, args, reply, (1000, true), "hexpireat")
}

pub(super) fn hpexpireat(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_deadlines(cx, args, reply, (1, true), "hpexpireat")
}

/// Converts `amount` units to a deadline in unix ms.
pub(super) fn deadline(
    cx: &Cx,
    amount: i64,
    (unit_ms, absolute): (i64, bool),
    command: &'static str,
) -> Result<u64, Error> {
    if amount < 0 {
        return Err(Error::fixed("ERR invalid expire time, must be >= 0"));
    }
    let base = if absolute { 0 } else { cx.now().base_ms() };
    let deadline = i64::try_from(base)
        .ok()
        .and_then(|base| amount.checked_mul(unit_ms)?.checked_add(base))
        .filter(|&at| at <= DEADLINE_MAX_MS)
        .ok_or(Error::ExpireTime(command))?;
    Ok(deadline.unsigned_abs())
}

fn set_deadlines(
    cx: &mut Cx,
    args: Args,
    reply: &mut Reply,
    unit: (i64, bool),
    command: &'static str,
) -> Result<(), Error> {
    let key = &args[1];
    // Redis checks the key's type before the arguments.
    let (place, found) = cx.seek_as::<Hash>(key)?;
    let amount = int(&args[2])?;
    let deadline = deadline(cx, amount, unit, command)?;
    // A relative time counts from the current time rounded up, so a deadline 0 ms from now may not
    // be due yet.
    let past = cx.now().is_due(deadline) || (amount == 0 && !unit.1);
    let condition = Condition::parse(&args[3]);
    let options = args.skip(if condition.is_some() { 4 } else { 3 });
    let condition = condition.unwrap_or(Condition::Always);
    let fields = fields(options, NOT_GREATER)?;
    let found = found.and_then(|id| cx.expire_due_fields(place, id, key, fields.iter()));
    reply.array(fields.len());
    let Some(id) = found else {
        fields.iter().for_each(|_| reply.int(NO_FIELD));
        return Ok(());
    };
    let db = cx.db_at(place);
    let (mut set, mut deleted) = (0, 0);
    let mut changed: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for name in fields {
        let answer = match db.hash_at(id).get(name) {
            None => NO_FIELD,
            Some((_, current)) if !condition.holds(current, deadline) => REFUSED,
            Some(_) if past => {
                db.remove_field(id, name);
                deleted += 1;
                DELETED
            }
            Some(_) => {
                db.set_field_deadline(id, name, Some(deadline));
                set += 1;
                DONE
            }
        };
        if matches!(answer, DELETED | DONE) {
            changed.push(name);
        }
        reply.int(answer);
    }
    if set + deleted == 0 {
        return Ok(());
    }
    cx.turn.stats.expired_fields += deleted;
    let event = if deleted > 0 { "hdel" } else { "hexpire" };
    cx.commit_elements(place, id, key, Classes::HASH, event, set + deleted);
    match past {
        true => delete_effect(cx, key, changed.into_iter()),
        false => deadline_effect(cx, key, deadline, changed.into_iter()),
    }
    Ok(())
}

/// Adds HDEL of the fields as an effect.
pub(super) fn delete_effect<'a>(cx: &mut Cx, key: &[u8], names: impl Iterator<Item = &'a [u8]>) {
    if cx.is_logged() {
        let mut words: Vec<&[u8]> = vec![b"HDEL", key];
        names.for_each(|name| words.push(name));
        cx.effect(&words);
    }
}

/// Adds HPEXPIREAT of the fields as an effect.
pub(super) fn deadline_effect<'a>(
    cx: &mut Cx,
    key: &[u8],
    deadline: u64,
    names: impl Iterator<Item = &'a [u8]>,
) {
    let mut buffer = itoa::Buffer::new();
    let deadline = buffer.format(deadline).as_bytes();
    fields_effect(cx, &[b"HPEXPIREAT", key, deadline], names);
}

/// Adds an effect that ends with `FIELDS count field ...`.
pub(super) fn fields_effect<'a>(
    cx: &mut Cx,
    head: &[&[u8]],
    names: impl Iterator<Item = &'a [u8]>,
) {
    if !cx.is_logged() {
        return;
    }
    let names: SmallVec<[&[u8]; 8]> = names.collect();
    let mut count = itoa::Buffer::new();
    let mut words = [head, &[b"FIELDS", count.format(names.len()).as_bytes()]].concat();
    names.iter().for_each(|name| words.push(name));
    cx.effect(&words);
}

pub(super) fn httl(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadlines(cx, args, reply, (1000, false))
}

pub(super) fn hpttl(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadlines(cx, args, reply, (1, false))
}

pub(super) fn hexpiretime(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadlines(cx, args, reply, (1000, true))
}

pub(super) fn hpexpiretime(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply_deadlines(cx, args, reply, (1, true))
}

/// Replies with deadlines or remaining times, rounded up to the unit.
fn reply_deadlines(
    cx: &mut Cx,
    args: Args,
    reply: &mut Reply,
    (unit_ms, absolute): (u64, bool),
) -> Result<(), Error> {
    let now = cx.now();
    let base = if absolute { 0 } else { now.base_ms() };
    // Redis checks the key's type before the arguments.
    let found = find_to_read(cx, &args[1], std::iter::empty())?;
    let fields = fields(args.skip(2), NOT_POSITIVE)?;
    let found = found.and_then(|(place, id)| {
        Some((
            place,
            cx.expire_due_fields(place, id, &args[1], fields.iter())?,
        ))
    });
    let hash = match found {
        Some((place, id)) => Some(cx.view::<Hash>(place, id)?),
        None => None,
    };
    reply.array(fields.len());
    for name in fields {
        reply.int(match hash.and_then(|hash| hash.get(name)) {
            None => NO_FIELD,
            Some((_, NEVER)) => NO_DEADLINE,
            Some((_, deadline)) if now.is_due(deadline) => NO_FIELD,
            Some((_, deadline)) => deadline.saturating_sub(base).div_ceil(unit_ms) as i64,
        });
    }
    Ok(())
}

pub(super) fn hpersist(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_as::<Hash>(key)?;
    let fields = fields(args.skip(2), NOT_POSITIVE)?;
    let found = found.and_then(|id| cx.expire_due_fields(place, id, key, fields.iter()));
    reply.array(fields.len());
    let Some(id) = found else {
        fields.iter().for_each(|_| reply.int(NO_FIELD));
        return Ok(());
    };
    let db = cx.db_at(place);
    let mut changed = false;
    for name in fields {
        reply.int(match db.hash_at(id).get(name) {
            None => NO_FIELD,
            Some((_, NEVER)) => NO_DEADLINE,
            Some(_) => {
                db.set_field_deadline(id, name, None);
                changed = true;
                DONE
            }
        });
    }
    if changed {
        cx.commit(key, Classes::HASH, "hpersist", 1);
    }
    Ok(())
}
