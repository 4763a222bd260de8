//! BLPOP, BRPOP, BLMOVE, BLMOVEM, BRPOPLPUSH and BLMPOP.

use punctual_resp::{Args, Reply};

use super::{deadline, wait};
use crate::command::lists::{Movem, Mpop, end_named, find, mpop, pop_name, pop_one, transfer};
use crate::error::Error;
use crate::keyspace::waiters::WaitCondition;
use crate::turn::Cx;
use crate::value::list::End;

pub(super) fn blpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Head, reply)
}

pub(super) fn brpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Tail, reply)
}

fn pop(cx: &mut Cx, args: Args, end: End, reply: &mut Reply) -> Result<(), Error> {
    let last = args.len() - 1;
    let until = deadline(cx, &args[last])?;
    for key in args.take(last).skip(1) {
        if let Some(found) = find(cx, key)? {
            reply.array(2);
            reply.bulk(key);
            pop_one(cx, found, end, reply)?;
            cx.effect(&[pop_name(end), key]);
            return Ok(());
        }
    }
    if !wait(cx, WaitCondition::List(1), 1..last, until) {
        reply.null_array();
    }
    Ok(())
}

const fn end_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LEFT",
        End::Tail => b"RIGHT",
    }
}

pub(super) fn blmove(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (from, to) = (end_named(&args[3])?, end_named(&args[4])?);
    let until = deadline(cx, &args[5])?;
    let moved: [&[u8]; 5] = [b"LMOVE", &args[1], &args[2], end_name(from), end_name(to)];
    move_or_wait(cx, &moved, (from, to), until, reply)
}

pub(super) fn blmovem(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let moves = Movem::parse(args, 6)?;
    let until = deadline(cx, &args[5])?;
    if !moves.run(cx, args, reply)? && !wait(cx, WaitCondition::List(moves.len_min()), 1..2, until)
    {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn brpoplpush(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let until = deadline(cx, &args[3])?;
    let moved: [&[u8]; 3] = [b"RPOPLPUSH", &args[1], &args[2]];
    move_or_wait(cx, &moved, (End::Tail, End::Head), until, reply)
}

/// Moves an element, or waits for an element in the source list. `moved` is the command's form that
/// does not block (LMOVE or RPOPLPUSH), which is the effect.
fn move_or_wait(
    cx: &mut Cx,
    moved: &[&[u8]],
    (from, to): (End, End),
    until: Option<u64>,
    reply: &mut Reply,
) -> Result<(), Error> {
    if let Some(source) = find(cx, moved[1])? {
        transfer(cx, source, from, moved[2], to, reply)?;
        cx.effect(moved);
        return Ok(());
    }
    if !wait(cx, WaitCondition::List(1), 1..2, until) {
        reply.null();
    }
    Ok(())
}

pub(super) fn blmpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // Redis parses the timeout last.
    let pops = Mpop::parse(args, 2)?;
    let until = deadline(cx, &args[1])?;
    if !mpop(cx, pops, reply)? && !wait(cx, WaitCondition::List(1), 3..3 + pops.keys.len(), until) {
        reply.null_array();
    }
    Ok(())
}
