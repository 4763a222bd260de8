//! HEXPIRE, HTTL, HPERSIST and their variants, as in Redis 7.4, and the same commands for other
//! collections whose elements may have deadlines. Each handler is written once, for a type that
//! implements [`Timed`]; [`Words`] has the words in which the types differ.
//!
//! As with deadlines of keys, relative and remaining times count from the current time rounded up
//! to a millisecond.

pub(super) mod add;
pub(super) mod options;
#[cfg(test)]
mod tests;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use crate::arguments::{int, is};
use crate::error::Error;
use crate::keyspace::records::Id;
use crate::time::NEVER;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::deadlines::DEADLINE_MAX_MS;
use crate::value::parts::{Timed, Words};

// Outcomes for an element, as numbers of the reply.
const ABSENT: i64 = -2;
const NO_DEADLINE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// Condition for setting a deadline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// NX: the element has no deadline.
    None,
    /// XX: the element has a deadline.
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

/// Parses `FIELDS numfields field ...`, or the words of another type, which must be the rest of the
/// arguments. Returns the names.
pub(super) fn names<'a>(
    args: Args<'a>,
    words: &Words,
    wrong_number: &'static str,
) -> Result<Args<'a>, Error> {
    if !args.get(0).is_some_and(|word| is(word, words.keyword)) {
        return Err(Error::fixed(words.missing));
    }
    let number = args.get(1).and_then(parse_i64).filter(|&n| n > 0);
    let number = number.ok_or(Error::fixed(wrong_number))?;
    let names = args.skip(2);
    if number != names.len() as i64 {
        return Err(Error::fixed(words.wrong_count));
    }
    Ok(names)
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
        .and_then(|at| u64::try_from(at).ok())
        .filter(|&at| at <= DEADLINE_MAX_MS);
    deadline.ok_or(Error::ExpireTime(command))
}

/// Expires those of the named elements that are due, and begins the reply. Returns the record of
/// the collection; without a collection, replies that each element is absent.
fn begin_changes(
    cx: &mut Cx,
    (place, found): (Place, Option<Id>),
    key: &[u8],
    names: Args,
    reply: &mut Reply,
) -> Option<Id> {
    let found = found.and_then(|id| cx.expire_due_parts(place, id, key, names.iter()));
    reply.array(names.len());
    if found.is_none() {
        names.iter().for_each(|_| reply.int(ABSENT));
    }
    found
}

/// HEXPIRE and its variants. `UNIT_MS` is the unit of the time; `ABSOLUTE` is true for a Unix time.
pub(super) fn expire<K: Kind + Timed, const UNIT_MS: i64, const ABSOLUTE: bool>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (key, words) = (&args[1], K::WORDS);
    // Redis checks the key's type before the arguments.
    let (place, found) = cx.seek_typed::<K>(key)?;
    let amount = int(&args[2])?;
    let command = words.expire_commands[usize::from(ABSOLUTE)][usize::from(UNIT_MS == 1)];
    let deadline = deadline(cx, amount, (UNIT_MS, ABSOLUTE), command)?;
    // A relative time counts from the current time rounded up, so a deadline 0 ms from now may not
    // be due yet.
    let past = cx.now().is_due(deadline) || (amount == 0 && !ABSOLUTE);
    let condition = Condition::parse(&args[3]);
    let options = args.skip(if condition.is_some() { 4 } else { 3 });
    let condition = condition.unwrap_or(Condition::Always);
    let names = names(options, words, words.not_greater)?;
    let Some(id) = begin_changes(cx, (place, found), key, names, reply) else {
        return Ok(());
    };
    let limits = cx.limits();
    let (mut set, mut deleted) = (0, 0);
    let mut changed: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for name in names {
        let answer = match cx.view::<K>(place, id)?.deadline(name) {
            None => ABSENT,
            Some(current) if !condition.holds(current, deadline) => REFUSED,
            Some(_) if past => {
                cx.edit::<K>(place, id)?.remove_part(name);
                deleted += 1;
                DELETED
            }
            Some(_) => {
                cx.edit::<K>(place, id)?
                    .set_deadline(name, deadline, &limits);
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
    let event = if deleted > 0 {
        words.removed
    } else {
        words.expire
    };
    let subkeys = changed.iter().copied();
    cx.commit_subkeys(key, words.class, event, set + deleted, subkeys);
    cx.keep_elements(place, id, key);
    match past {
        true => remove_effect(cx, key, words, changed.into_iter()),
        false => deadline_effect(cx, key, words, deadline, changed.into_iter()),
    }
    Ok(())
}

/// Adds the removal of elements as an effect: HDEL.
pub(super) fn remove_effect<'a>(
    cx: &mut Cx,
    key: &[u8],
    words: &Words,
    names: impl Iterator<Item = &'a [u8]>,
) {
    if cx.is_logged() {
        let mut effect: Vec<&[u8]> = vec![words.remove, key];
        names.for_each(|name| effect.push(name));
        cx.effect(&effect);
    }
}

/// Adds the deadline of elements as an effect: HPEXPIREAT.
pub(super) fn deadline_effect<'a>(
    cx: &mut Cx,
    key: &[u8],
    words: &Words,
    deadline: u64,
    names: impl Iterator<Item = &'a [u8]>,
) {
    let mut buffer = itoa::Buffer::new();
    let deadline = buffer.format(deadline).as_bytes();
    names_effect(cx, &[words.expire_at, key, deadline], words, names);
}

/// Adds an effect that ends with `FIELDS count field ...`.
pub(super) fn names_effect<'a>(
    cx: &mut Cx,
    head: &[&[u8]],
    words: &Words,
    names: impl Iterator<Item = &'a [u8]>,
) {
    if !cx.is_logged() {
        return;
    }
    let names: SmallVec<[&[u8]; 8]> = names.collect();
    let mut count = itoa::Buffer::new();
    let count = count.format(names.len()).as_bytes();
    let mut effect = [head, &[words.keyword.as_bytes(), count]].concat();
    names.iter().for_each(|name| effect.push(name));
    cx.effect(&effect);
}

/// HTTL and its variants: replies with deadlines or remaining times, rounded up to the unit.
pub(super) fn ttl<K: Kind + Timed, const UNIT_MS: u64, const ABSOLUTE: bool>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (key, words, now) = (&args[1], K::WORDS, cx.now());
    let base = if ABSOLUTE { 0 } else { now.base_ms() };
    // Redis checks the key's type before the arguments.
    let (place, found) = cx.seek_to_read(key);
    if let Some(id) = found {
        cx.view::<K>(place, id)?;
    }
    let names = names(args.skip(2), words, words.not_positive)?;
    let found = found.and_then(|id| cx.expire_due_parts(place, id, key, names.iter()));
    let parts = match found {
        Some(id) => Some(cx.view::<K>(place, id)?),
        None => None,
    };
    reply.array(names.len());
    for name in names {
        reply.int(match parts.and_then(|parts| parts.deadline(name)) {
            None => ABSENT,
            Some(NEVER) => NO_DEADLINE,
            Some(deadline) if now.is_due(deadline) => ABSENT,
            Some(deadline) => deadline.saturating_sub(base).div_ceil(UNIT_MS) as i64,
        });
    }
    Ok(())
}

/// HPERSIST.
pub(super) fn persist<K: Kind + Timed>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (key, words) = (&args[1], K::WORDS);
    let (place, found) = cx.seek_typed::<K>(key)?;
    let names = names(args.skip(2), words, words.not_positive)?;
    let Some(id) = begin_changes(cx, (place, found), key, names, reply) else {
        return Ok(());
    };
    let limits = cx.limits();
    let mut changed = false;
    let mut persisted = cx.subkeys(words.class);
    for name in names {
        reply.int(match cx.view::<K>(place, id)?.deadline(name) {
            None => ABSENT,
            Some(NEVER) => NO_DEADLINE,
            Some(_) => {
                cx.edit::<K>(place, id)?.set_deadline(name, NEVER, &limits);
                persisted.push(name);
                changed = true;
                DONE
            }
        });
    }
    if changed {
        cx.commit_subkeys(key, words.class, words.persist, 1, persisted.iter());
        cx.keep_elements(place, id, key);
    }
    Ok(())
}
