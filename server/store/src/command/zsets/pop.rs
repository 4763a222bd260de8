//! ZPOPMIN, ZPOPMAX and ZMPOP, and the functions that their blocking variants call.

use punctual_resp::{Args, Protocol, Reply};

use super::{not_negative, reply_name};
use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::zset::Zset;

const NEGATIVE: Error = Error::fixed("ERR value is out of range, must be positive");

/// End of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Lowest scores first.
    Min,
    /// Highest scores first.
    Max,
}

impl End {
    const fn event(self) -> &'static str {
        match self {
            Self::Min => "zpopmin",
            Self::Max => "zpopmax",
        }
    }

    /// Name of the command that pops from this end.
    pub(crate) const fn command(self) -> &'static [u8] {
        match self {
            Self::Min => b"ZPOPMIN",
            Self::Max => b"ZPOPMAX",
        }
    }
}

/// Format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Alternating names and scores.
    Flat,
    /// Pairs.
    Pairs,
    /// Key, name, score.
    KeyAndOne,
    /// Key, and an array of pairs.
    KeyAndPairs,
}

/// Pops up to `count` entries (at least 1), replies with them and sends the events. Returns the
/// number of entries; 0, without a reply, if the key does not exist.
fn pop(
    cx: &mut Cx,
    key: &[u8],
    end: End,
    count: usize,
    shape: Shape,
    reply: &mut Reply,
) -> Result<usize, Error> {
    let (place, found) = cx.seek_as::<Zset>(key)?;
    let Some(id) = found else {
        return Ok(0);
    };
    let zset = cx.edit::<Zset>(place, id)?;
    let (len, count) = (zset.len(), count.min(zset.len()));
    match shape {
        Shape::Flat => reply.array(count * 2),
        Shape::Pairs => reply.array(count),
        Shape::KeyAndOne => {
            reply.array(count * 2 + 1);
            reply.bulk(key);
        }
        Shape::KeyAndPairs => {
            reply.array(2);
            reply.bulk(key);
            reply.array(count);
        }
    }
    let ranks = match end {
        End::Min => 0..count,
        End::Max => len - count..len,
    };
    for (name, score) in zset.walk(ranks.clone(), end == End::Max) {
        if matches!(shape, Shape::Pairs | Shape::KeyAndPairs) {
            reply.array(2);
        }
        reply_name(reply, name);
        reply.double(score);
    }
    zset.remove_ranks(ranks);
    cx.commit_elements(place, id, key, Classes::ZSET, end.event(), count as u64);
    Ok(count)
}

/// Pops one entry for BZPOPMIN and BZPOPMAX, and replies with key, name and score. Returns false,
/// without a reply, if the key does not exist.
///
/// # Errors
/// [`Error::WrongType`] if the key holds another type.
pub(crate) fn pop_one(cx: &mut Cx, key: &[u8], end: End, reply: &mut Reply) -> Result<bool, Error> {
    Ok(pop(cx, key, end, 1, Shape::KeyAndOne, reply)? > 0)
}

/// Pops entries from the first existing key for ZMPOP and BZMPOP, and replies with the key and
/// pairs of name and score. As in Redis, the effect is a ZPOPMIN or ZPOPMAX with the number of
/// entries that were popped. Returns false, without a reply, if no key exists.
///
/// # Errors
/// [`Error::WrongType`] if the first existing key does not hold a sorted set.
pub(crate) fn pop_first(cx: &mut Cx, pops: MultiPop, reply: &mut Reply) -> Result<bool, Error> {
    let MultiPop { keys, end, count } = pops;
    for key in keys {
        let popped = pop(cx, key, end, count, Shape::KeyAndPairs, reply)?;
        if popped > 0 {
            let mut buffer = itoa::Buffer::new();
            cx.effect(&[end.command(), key, buffer.format(popped).as_bytes()]);
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn zpopmin(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop_of_key(cx, args, End::Min, reply)
}

pub(super) fn zpopmax(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop_of_key(cx, args, End::Max, reply)
}

fn pop_of_key(cx: &mut Cx, args: Args, end: End, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    if args.len() > 3 {
        return Err(Error::Syntax);
    }
    let count = args
        .get(2)
        .map(|arg| not_negative(arg, NEGATIVE))
        .transpose()?;
    let shape = match reply.protocol() {
        Protocol::Resp3 if count.is_some() => Shape::Pairs,
        _ => Shape::Flat,
    };
    let popped = match count.unwrap_or(1) {
        0 => cx.seek_as::<Zset>(key).map(|_| 0)?,
        count => pop(cx, key, end, count, shape, reply)?,
    };
    if popped == 0 {
        reply.array(0);
    }
    Ok(())
}

/// Arguments of ZMPOP and BZMPOP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MultiPop<'a> {
    /// Keys, in the order of the look-ups.
    pub(crate) keys: Args<'a>,
    pub(crate) end: End,
    /// Maximum number of entries, at least 1.
    pub(crate) count: usize,
}

impl<'a> MultiPop<'a> {
    /// Parses arguments that begin with the number of keys.
    ///
    /// # Errors
    /// Redis's errors, in Redis's order.
    pub(crate) fn parse(args: Args<'a>) -> Result<Self, Error> {
        const FEW_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
        const FEW: Error = Error::fixed("ERR count should be greater than 0");
        let keys = Some(not_negative(args.at(0), FEW_KEYS)?).filter(|&keys| keys > 0);
        let keys = keys.ok_or(FEW_KEYS)?;
        let end_at = keys.saturating_add(1);
        let end = match args.get(end_at).ok_or(Error::Syntax)? {
            word if is(word, "MIN") => End::Min,
            word if is(word, "MAX") => End::Max,
            _ => return Err(Error::Syntax),
        };
        let mut count = None;
        let mut options = args.skip(end_at + 1);
        while let Some(option) = options.get(0) {
            let value = options
                .get(1)
                .filter(|_| count.is_none() && is(option, "COUNT"));
            let value = not_negative(value.ok_or(Error::Syntax)?, FEW)?;
            count = Some(Some(value).filter(|&value| value > 0).ok_or(FEW)?);
            options = options.skip(2);
        }
        Ok(Self {
            keys: args.skip(1).take(keys),
            end,
            count: count.unwrap_or(1),
        })
    }
}

pub(super) fn zmpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !pop_first(cx, MultiPop::parse(args.skip(1))?, reply)? {
        reply.null_array();
    }
    Ok(())
}
