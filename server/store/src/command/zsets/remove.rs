//! ZREM and ZREMRANGEBY*.

use punctual_resp::{Args, Reply};

use super::query::{By, Part};
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::zset::Zset;

pub(super) fn zrem(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let names = args.skip(2).into_iter();
    let (place, found) = cx.seek_named::<Zset>(key, names.clone())?;
    let mut removed = 0;
    if let Some(id) = found {
        let zset = cx.edit::<Zset>(place, id)?;
        zset.warm_changes(names.clone(), &[]);
        removed = names.filter(|name| zset.remove(name).is_some()).count();
        if removed > 0 {
            cx.commit_elements(place, id, key, Classes::ZSET, "zrem", removed as u64);
        }
    }
    reply.int(removed as i64);
    Ok(())
}

pub(super) fn zremrangebyrank(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    remove_range(cx, args, By::Rank, "zremrangebyrank", reply)
}

pub(super) fn zremrangebyscore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    remove_range(cx, args, By::Score, "zremrangebyscore", reply)
}

pub(super) fn zremrangebylex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    remove_range(cx, args, By::Name, "zremrangebylex", reply)
}

fn remove_range(
    cx: &mut Cx,
    args: Args,
    by: By,
    event: &str,
    reply: &mut Reply,
) -> Result<(), Error> {
    let key = &args[1];
    let part = Part::parse(by, args.at(2), args.at(3))?;
    let (place, found) = cx.seek_as::<Zset>(key)?;
    let mut removed = 0;
    if let Some(id) = found {
        let ranks = part.ranks(cx.view::<Zset>(place, id)?, false);
        removed = ranks.len();
        if removed > 0 {
            cx.edit::<Zset>(place, id)?.remove_ranks(ranks);
            cx.commit_elements(place, id, key, Classes::ZSET, event, removed as u64);
        }
    }
    reply.int(removed as i64);
    Ok(())
}
