//! SET and its variants, which replace the value of a key with a string.

use punctual_resp::{Args, Reply};

use super::compare::Comparison;
use super::reply_str;
use crate::arguments::{DeadlineOption, Pairs, TimeUnit, int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::time::Now;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Value;

/// Change of the key's deadline by a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ttl {
    Clear,
    Keep,
    Until(u64),
}

/// Sets the string of a key and sends the events of SET.
#[inline]
fn put(cx: &mut Cx, key: &[u8], (place, found): (Place, Option<Id>), text: &[u8], ttl: Ttl) {
    let (id, had_deadline) = match found {
        Some(id) => {
            let db = cx.db_at(place);
            match db.get_mut(id).value.as_str_mut() {
                Some(string) => string.set(text),
                None => {
                    db.replace(id, Value::string(text));
                }
            }
            (id, db.deadline(id).is_some())
        }
        None => (cx.add_at(place, key, Value::string(text)), false),
    };
    if ttl == Ttl::Clear {
        match had_deadline {
            true => cx.set_deadline_at(place, id, None),
            false => cx.note_decided(place, id),
        }
    }
    cx.commit(key, Classes::STRING, "set", 1);
    if let Ttl::Until(deadline) = ttl {
        cx.set_deadline_at(place, id, Some(deadline));
        cx.commit(key, Classes::GENERIC, "expire", 0);
        if cx.is_logged() {
            let mut buffer = itoa::Buffer::new();
            cx.effect(&[
                b"SET",
                key,
                text,
                b"PXAT",
                buffer.format(deadline).as_bytes(),
            ]);
        }
    }
}

#[derive(Default)]
struct Options {
    only_new: bool,
    only_existing: bool,
    get: bool,
    keep_ttl: bool,
    deadline: Option<DeadlineOption>,
    /// The condition on the current value, and the position of its operand.
    comparison: Option<(Comparison, usize)>,
}

impl Options {
    fn has_condition(&self) -> bool {
        self.only_new || self.only_existing || self.comparison.is_some()
    }

    /// Returns the change of the deadline. The options must come from the same arguments.
    fn ttl(&self, args: Args, now: Now, command: &'static str) -> Result<Ttl, Error> {
        Ok(match self.deadline {
            Some(option) => Ttl::Until(option.deadline(args, now, command)?),
            None if self.keep_ttl => Ttl::Keep,
            None => Ttl::Clear,
        })
    }

    fn parse(args: Args) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            if is(arg, "NX") && (options.only_new || !options.has_condition()) {
                options.only_new = true;
            } else if is(arg, "XX") && (options.only_existing || !options.has_condition()) {
                options.only_existing = true;
            } else if is(arg, "GET") {
                options.get = true;
            } else if is(arg, "KEEPTTL") && options.deadline.is_none() {
                options.keep_ttl = true;
            } else if let Some(unit) = TimeUnit::of_option(arg)
                && !options.keep_ttl
                // The option may be repeated; the last one counts.
                && options.deadline.is_none_or(|before| before.unit == unit)
                && at < args.len()
            {
                options.deadline = Some(DeadlineOption { unit, amount: at });
                at += 1;
            } else if let Some(comparison) = Comparison::of_option(arg)
                && !options.has_condition()
                && at < args.len()
            {
                comparison.check(&args[at])?;
                options.comparison = Some((comparison, at));
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

pub(super) fn set(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (key, text) = (args.at(1), args.at(2));
    if args.len() == 3 {
        let found = cx.seek_to_write(key);
        put(cx, key, found, text, Ttl::Clear);
        reply.ok();
        return Ok(());
    }
    let options = Options::parse(args.skip(3))?;
    let ttl = options.ttl(args.skip(3), cx.now(), "set")?;
    let (place, found) = if options.get {
        reply_old(cx, key, reply)?
    } else {
        cx.seek_to_write(key)
    };
    let refused = match (options.comparison, found) {
        (Some((comparison, at)), Some(id)) => {
            !comparison.holds(cx.str_at(place, id)?, &args[3 + at])
        }
        (Some((comparison, _)), None) => !comparison.holds_without_key(),
        (None, _) => {
            (options.only_new && found.is_some()) || (options.only_existing && found.is_none())
        }
    };
    if refused {
        if !options.get {
            reply.null();
        }
        return Ok(());
    }
    put(cx, key, (place, found), text, ttl);
    if (options.comparison.is_some() || options.get) && options.deadline.is_none() {
        // As in Redis, the effect lacks GET. It also lacks the comparison, which Redis 7 does not
        // have.
        let of_effect = |word: &&[u8]| is(word, "NX") || is(word, "XX") || is(word, "KEEPTTL");
        let mut words = vec![b"SET", key, text];
        words.extend(args.iter().skip(3).filter(of_effect));
        cx.effect(&words);
    }
    if !options.get {
        reply.ok();
    }
    Ok(())
}

/// Replies with the current string, as GET does. Returns the result of the look-up.
fn reply_old(cx: &mut Cx, key: &[u8], reply: &mut Reply) -> Result<(Place, Option<Id>), Error> {
    let (place, found) = cx.seek_to_read(key);
    match found {
        Some(id) => reply_str(reply, cx.str_at(place, id)?),
        None => reply.null(),
    }
    Ok((place, found))
}

pub(super) fn getset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let found = reply_old(cx, key, reply)?;
    put(cx, key, found, &args[2], Ttl::Clear);
    cx.effect(&[b"SET", key, &args[2]]);
    Ok(())
}

pub(super) fn setnx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let found = cx.seek_to_write(key);
    let new = found.1.is_none();
    if new {
        put(cx, key, found, &args[2], Ttl::Clear);
    }
    reply.int(i64::from(new));
    Ok(())
}

pub(super) fn setex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_for(cx, args, true, "setex", reply)
}

pub(super) fn psetex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    set_for(cx, args, false, "psetex", reply)
}

fn set_for(
    cx: &mut Cx,
    args: Args,
    seconds: bool,
    command: &'static str,
    reply: &mut Reply,
) -> Result<(), Error> {
    let key = &args[1];
    let unit = TimeUnit {
        seconds,
        absolute: false,
    };
    let option = DeadlineOption { unit, amount: 2 };
    let deadline = option.deadline(args, cx.now(), command)?;
    let found = cx.seek_to_write(key);
    put(cx, key, found, &args[3], Ttl::Until(deadline));
    reply.ok();
    Ok(())
}

pub(super) fn mset(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::Arity("mset".into()));
    }
    put_all(cx, args);
    reply.ok();
    Ok(())
}

pub(super) fn msetnx(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::Arity("msetnx".into()));
    }
    let all_new = (1..args.len())
        .step_by(2)
        .all(|at| cx.seek_to_write(&args[at]).1.is_none());
    if all_new {
        put_all(cx, args);
    }
    reply.int(i64::from(all_new));
    Ok(())
}

pub(super) fn msetex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    const NUMBER: Error = Error::fixed("ERR invalid numkeys value");
    const PAIRS: Error = Error::fixed("ERR wrong number of key-value pairs");
    let keys = int(&args[1]).ok().filter(|keys| *keys > 0);
    let keys = keys.and_then(|keys| i32::try_from(keys).ok());
    let len = 2 * keys.ok_or(NUMBER)? as usize;
    if args.len() - 2 < len {
        return Err(PAIRS);
    }
    let (pairs, words) = (args.skip(2).take(len), args.skip(2 + len));
    let options = Options::parse(words)?;
    if options.get || options.comparison.is_some() {
        return Err(Error::Syntax);
    }
    let ttl = options.ttl(words, cx.now(), "msetex")?;
    let refused = options.has_condition()
        && Pairs(pairs).any(|(key, _)| cx.seek_to_write(key).1.is_some() == options.only_new);
    if !refused {
        for (key, text) in Pairs(pairs) {
            let found = cx.seek_to_write(key);
            put(cx, key, found, text, ttl);
            // The effects are commands that Redis 7 has.
            match ttl {
                Ttl::Clear => cx.effect(&[b"SET", key, text]),
                Ttl::Keep => cx.effect(&[b"SET", key, text, b"KEEPTTL"]),
                Ttl::Until(_) => {}
            }
        }
    }
    reply.int(i64::from(!refused));
    Ok(())
}

/// Sets each key to the value after it. If a key is repeated, its last value counts.
fn put_all(cx: &mut Cx, args: Args) {
    for at in (1..args.len()).step_by(2) {
        let key = &args[at];
        let found = cx.seek_to_write(key);
        put(cx, key, found, &args[at + 1], Ttl::Clear);
    }
}
