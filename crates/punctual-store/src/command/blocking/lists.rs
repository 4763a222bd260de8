//! BLPOP, BRPOP, BLMOVE, BRPOPLPUSH and BLMPOP.

use punctual_resp::{Args, Reply};

use super::{deadline, wait};
use crate::command::lists::{Mpop, end_named, find, mpop, pop_one, transfer};
use crate::error::Error;
use crate::keyspace::waiters::Wants;
use crate::turn::Cx;
use crate::value::list::End;

pub(super) fn blpop(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    pop(cx, args, End::Head, reply)
}

pub(super) fn brpop(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    pop(cx, args, End::Tail, reply)
}

fn pop(cx: &mut Cx<'_, '_>, args: Args<'_>, end: End, reply: &mut Reply<'_>) -> Result<(), Error> {
    let last = args.len() - 1;
    let until = deadline(cx, &args[last])?;
    for key in args.take(last).skip(1) {
        if let Some(found) = find(cx, key)? {
            reply.array(2);
            reply.bulk(key);
            return pop_one(cx, found, end, reply);
        }
    }
    if !wait(cx, Wants::List, 1..last, until) {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn blmove(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let (from, to) = (end_named(&args[3])?, end_named(&args[4])?);
    let until = deadline(cx, &args[5])?;
    move_or_wait(cx, args, (from, to), until, reply)
}

pub(super) fn brpoplpush(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let until = deadline(cx, &args[3])?;
    move_or_wait(cx, args, (End::Tail, End::Head), until, reply)
}

fn move_or_wait(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    (from, to): (End, End),
    until: Option<u64>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    if let Some(source) = find(cx, &args[1])? {
        return transfer(cx, source, from, &args[2], to, reply);
    }
    if !wait(cx, Wants::List, 1..2, until) {
        reply.null();
    }
    Ok(())
}

pub(super) fn blmpop(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    // Redis parses the timeout last.
    let asked = Mpop::parse(args, 2)?;
    let until = deadline(cx, &args[1])?;
    if !mpop(cx, asked, reply)? && !wait(cx, Wants::List, 3..3 + asked.keys.len(), until) {
        reply.null_array();
    }
    Ok(())
}
