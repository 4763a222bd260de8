//! BZPOPMIN, BZPOPMAX and BZMPOP.

use punctual_resp::{Args, Reply};

use super::{deadline, wait};
use crate::command::zsets::{End, MultiPop, pop_first, pop_one};
use crate::error::Error;
use crate::keyspace::waiters::WaitCondition;
use crate::turn::Cx;

pub(super) fn bzpopmin(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Min, reply)
}

pub(super) fn bzpopmax(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    pop(cx, args, End::Max, reply)
}

fn pop(cx: &mut Cx, args: Args, end: End, reply: &mut Reply) -> Result<(), Error> {
    let last = args.len() - 1;
    let until = deadline(cx, &args[last])?;
    for key in args.take(last).skip(1) {
        if pop_one(cx, key, end, reply)? {
            cx.effect(&[end.command(), key]);
            return Ok(());
        }
    }
    if !wait(cx, WaitCondition::Zset, 1..last, until) {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // Redis parses the timeout last.
    let pops = MultiPop::parse(args.skip(2))?;
    let until = deadline(cx, &args[1])?;
    if !pop_first(cx, pops, reply)? && !wait(cx, WaitCondition::Zset, 3..3 + pops.keys.len(), until)
    {
        reply.null_array();
    }
    Ok(())
}
