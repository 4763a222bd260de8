//! INCR, APPEND, SETRANGE and their variants, which change a string and keep the key's deadline.

use punctual_resp::{Args, Reply};

use crate::arguments::int;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Value;
use crate::value::float::Float;
use crate::value::string::Str;

const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
const DECREMENT_OVERFLOW: Error = Error::fixed("ERR decrement would overflow");
const NOT_FINITE: Error = Error::fixed("ERR increment would produce NaN or Infinity");

pub(super) fn incr(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    add(cx, &args[1], 1, reply)
}

pub(super) fn decr(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    add(cx, &args[1], -1, reply)
}

pub(super) fn incrby(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    add(cx, &args[1], int(&args[2])?, reply)
}

pub(super) fn decrby(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let by = int(&args[2])?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(cx, &args[1], by, reply)
}

#[inline]
fn add(cx: &mut Cx, key: &[u8], by: i64, reply: &mut Reply) -> Result<(), Error> {
    let (place, found) = cx.seek_to_write(key);
    let sum = match found {
        Some(id) => {
            let string = cx.str_at(place, id)?;
            let old = string.as_int().ok_or(Error::NotInteger)?;
            let sum = old.checked_add(by).ok_or(OVERFLOW)?;
            *string = Str::Int(sum.into());
            sum
        }
        None => {
            cx.add_at(place, key, Value::from_str(Str::Int(by.into())));
            by
        }
    };
    cx.commit(key, Classes::STRING, "incrby", 1);
    reply.int(sum);
    Ok(())
}

pub(super) fn incrbyfloat(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (place, found) = cx.seek_to_write(key);
    let old = match found {
        None => Float::from(0),
        Some(id) => cx.str_at(place, id)?.as_float().ok_or(Error::NotFloat)?,
    };
    let by = Float::parse(&args[2]).ok_or(Error::NotFloat)?;
    let sum = old.plus(by);
    if !sum.is_finite() {
        return Err(NOT_FINITE);
    }
    let text = sum.text();
    // As in Redis, the encoding is not `int` even if the text is an integer.
    let string = Str::plain(&text);
    match found {
        Some(id) => *cx.str_at(place, id)? = string,
        None => {
            cx.add_at(place, key, Value::from_str(string));
        }
    }
    cx.commit(key, Classes::STRING, "incrbyfloat", 1);
    cx.effect(&[b"SET", key, &text, b"KEEPTTL"]);
    reply.bulk(&text);
    Ok(())
}

/// Returns `offset + more`, or an error if it exceeds the maximum length of a string.
fn grown_len(cx: &Cx, offset: u64, more: usize) -> Result<u64, Error> {
    offset
        .checked_add(more as u64)
        .filter(|&len| len <= cx.store().string_max())
        .ok_or(Error::TooLong)
}

pub(super) fn append(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, more) = (&args[1], &args[2]);
    let (place, found) = cx.seek_to_write(key);
    let len = match found {
        None => {
            cx.add_at(place, key, Value::string(more));
            more.len() as u64
        }
        Some(id) => {
            let old = cx.str_at(place, id)?.len() as u64;
            let len = grown_len(cx, old, more.len())?;
            cx.str_at(place, id)?.append(more);
            len
        }
    };
    cx.commit(key, Classes::STRING, "append", 1);
    reply.int(len as i64);
    Ok(())
}

pub(super) fn setrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, text) = (&args[1], &args[3]);
    let offset = u64::try_from(int(&args[2])?).map_err(|_| Error::OffsetRange)?;
    let (place, found) = cx.seek_to_write(key);
    let old = match found {
        Some(id) => cx.str_at(place, id)?.len(),
        None => 0,
    };
    if text.is_empty() {
        reply.int(old as i64);
        return Ok(());
    }
    let end = grown_len(cx, offset, text.len())?;
    let offset = usize::try_from(offset).map_err(|_| Error::TooLong)?;
    match found {
        Some(id) => cx.str_at(place, id)?.overwrite(offset, text),
        None => {
            let mut string = Str::plain(b"");
            string.overwrite(offset, text);
            cx.add_at(place, key, Value::from_str(string));
        }
    }
    cx.commit(key, Classes::STRING, "setrange", 1);
    reply.int(end.max(old as u64) as i64);
    Ok(())
}
