//! ZRANGE and its variants, and ZRANGESTORE.

use punctual_resp::{Args, Reply};

use super::query::{By, Query};
use super::{reply_entries, store};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::zset::Zset;

fn range(
    cx: &mut Cx,
    args: Args,
    by: Option<By>,
    backwards: Option<bool>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let query = Query::parse(args.skip(2), by, backwards, false)?;
    let Some(zset) = cx.read_as::<Zset>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(zset);
    let count = ranks.len();
    let entries = zset.walk(ranks, query.backwards);
    reply_entries(reply, entries, count, query.with_scores);
    Ok(())
}

pub(super) fn zrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, None, None, reply)
}

pub(super) fn zrevrange(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, Some(By::Rank), Some(true), reply)
}

pub(super) fn zrangebyscore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, Some(By::Score), Some(false), reply)
}

pub(super) fn zrevrangebyscore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, Some(By::Score), Some(true), reply)
}

pub(super) fn zrangebylex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, Some(By::Name), Some(false), reply)
}

pub(super) fn zrevrangebylex(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    range(cx, args, Some(By::Name), Some(true), reply)
}

pub(super) fn zrangestore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let query = Query::parse(args.skip(3), None, None, true)?;
    let limits = cx.limits();
    let result = match cx.read_as::<Zset>(&args[2])? {
        None => Zset::default(),
        Some(zset) => {
            let ranks = query.ranks(zset);
            // Redis adds the entries one by one to a listpack, which stores -0 as 0, until an entry
            // needs a skiplist. A range of ranks that is too long for a listpack begins as a
            // skiplist.
            let mut compact = !query.is_by_rank() || ranks.len() <= limits.zset_entries;
            let entries = zset.walk(ranks, query.backwards).enumerate();
            let entries = entries.map(|(i, (name, score))| {
                compact &= i < limits.zset_entries && name.text_len() <= limits.zset_value;
                (name, if compact { score + 0.0 } else { score })
            });
            Zset::from_unique(entries, limits)
        }
    };
    store(cx, &args[1], result, "zrangestore", reply);
    Ok(())
}
