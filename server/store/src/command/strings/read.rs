//! GET and other readers of strings, GETDEL and GETEX.

use punctual_resp::{Args, Reply};

use super::reply_str;
use crate::arguments::{DeadlineOption, TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;

pub(super) fn get(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match cx.read_str(&args[1])? {
        Some(string) => reply_str(reply, string),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn mget(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let keys = args.skip(1);
    reply.array(keys.len());
    for key in keys {
        match cx.read_str(key) {
            Ok(Some(string)) => reply_str(reply, string),
            Ok(None) | Err(_) => reply.null(),
        }
    }
    Ok(())
}

pub(super) fn strlen(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let len = cx.read_str(&args[1])?.map_or(0, |string| string.len());
    reply.int(len as i64);
    Ok(())
}

pub(super) fn getrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (start, end) = (int(&args[2])?, int(&args[3])?);
    let Some(string) = cx.read_str(&args[1])? else {
        reply.bulk(b"");
        return Ok(());
    };
    let mut buffer = itoa::Buffer::new();
    let text = string.text(&mut buffer);
    reply.bulk(part(text, start, end));
    Ok(())
}

/// Returns the bytes from `start` to `end`, both inclusive, negative positions from the end. As in
/// Redis, positions before the first byte mean the first byte, except if both are negative and in
/// the wrong order.
fn part(text: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = text.len() as i64;
    let from_front = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end {
        return b"";
    }
    &text[start as usize..=end as usize]
}

pub(super) fn getdel(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_to_read(key);
    let Some(id) = found else {
        reply.null();
        return Ok(());
    };
    reply_str(reply, cx.str_at(place, id)?);
    cx.db_at(place).remove(id);
    cx.commit(key, Classes::GENERIC, "del", 1);
    cx.effect(&[b"DEL", key]);
    Ok(())
}

/// Change of the deadline by GETEX.
enum Change {
    Nothing,
    Persist,
    Deadline(DeadlineOption),
}

impl Change {
    fn parse(args: Args) -> Result<Self, Error> {
        let mut change = Self::Nothing;
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            change = match (change, TimeUnit::of_option(arg)) {
                (Self::Nothing | Self::Persist, None) if is(arg, "PERSIST") => Self::Persist,
                // The option may be repeated; the last one counts.
                (change, Some(unit)) if at < args.len() && change.takes(unit) => {
                    at += 1;
                    Self::Deadline(DeadlineOption {
                        unit,
                        amount: at - 1,
                    })
                }
                _ => return Err(Error::Syntax),
            };
        }
        Ok(change)
    }

    /// Returns true if an option in `unit` may follow.
    fn takes(&self, unit: TimeUnit) -> bool {
        match self {
            Self::Nothing => true,
            Self::Persist => false,
            Self::Deadline(before) => before.unit == unit,
        }
    }
}

pub(super) fn getex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, options) = (&args[1], args.skip(2));
    let change = Change::parse(options)?;
    let (place, found) = cx.seek_to_read(key);
    // As in Redis, the amount is parsed only if the key exists.
    let Some(id) = found else {
        reply.null();
        return Ok(());
    };
    reply_str(reply, cx.str_at(place, id)?);
    match change {
        Change::Nothing => return Ok(()),
        Change::Persist => {
            if cx.db_at(place).deadline(id).is_none() {
                return Ok(());
            }
            cx.set_deadline_at(place, id, None);
            cx.commit(key, Classes::GENERIC, "persist", 1);
            cx.effect(&[b"PERSIST", key]);
        }
        Change::Deadline(option) => {
            let deadline = option.deadline(options, cx.now(), "getex")?;
            if option.unit.absolute && cx.now().is_due(deadline) {
                cx.db_at(place).remove(id);
                cx.commit(key, Classes::GENERIC, "del", 1);
                cx.effect(&[b"DEL", key]);
            } else {
                cx.set_deadline_at(place, id, Some(deadline));
                cx.commit(key, Classes::GENERIC, "expire", 1);
                cx.effect_at("PEXPIREAT", key, deadline);
            }
        }
    }
    Ok(())
}
