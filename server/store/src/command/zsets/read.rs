//! Look-ups of scores, ranks and counts, and ZSCAN.

use punctual_resp::{Args, Reply, decimal};

use super::query::{By, Part};
use crate::arguments::is;
use crate::command::element_scan::scan;
use crate::command::scan::ScanOf::Elements;
use crate::error::Error;
use crate::time::Now;
use crate::turn::Cx;
use crate::value::keyed::Element as _;
use crate::value::zset::{View, Zset};

pub(super) fn zcard(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let zset = cx.read_as::<Zset>(&args[1])?;
    reply.int(zset.map_or(0, Zset::len) as i64);
    Ok(())
}

pub(super) fn zscore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (name, now) = (args.at(2), cx.now());
    let zset = cx.read_named::<Zset>(&args[1], std::iter::once(name))?;
    reply_score(reply, zset, name, now);
    Ok(())
}

pub(super) fn zmscore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let (names, now) = (args.skip(2), cx.now());
    let zset = cx.read_named::<Zset>(&args[1], names.iter())?;
    if let Some(zset) = zset {
        zset.warm_names(names.iter());
    }
    reply.array(names.len());
    for name in names {
        reply_score(reply, zset, name, now);
    }
    Ok(())
}

fn reply_score(reply: &mut Reply, zset: Option<&Zset>, name: &[u8], now: Now) {
    match zset.and_then(|zset| zset.live_score(name, now)) {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub(super) fn zcount(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    count(cx, args, By::Score, reply)
}

pub(super) fn zlexcount(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    count(cx, args, By::Name, reply)
}

fn count(cx: &mut Cx, args: Args, by: By, reply: &mut Reply) -> Result<(), Error> {
    let part = Part::parse(by, args.at(2), args.at(3))?;
    let zset = cx.read_as::<Zset>(&args[1])?;
    reply.int(zset.map_or(0, |zset| part.ranks(zset, false).len()) as i64);
    Ok(())
}

pub(super) fn zrank(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    rank(cx, args, "zrank", false, reply)
}

pub(super) fn zrevrank(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    rank(cx, args, "zrevrank", true, reply)
}

fn rank(
    cx: &mut Cx,
    args: Args,
    command: &'static str,
    backwards: bool,
    reply: &mut Reply,
) -> Result<(), Error> {
    let with_score = match args.get(3) {
        _ if args.len() > 4 => return Err(Error::Arity(command.into())),
        None => false,
        Some(option) if is(option, "WITHSCORE") => true,
        Some(_) => return Err(Error::Syntax),
    };
    let zset = cx.read_as::<Zset>(&args[1])?;
    let found = zset.and_then(|zset| {
        let (rank, score) = zset.rank(&args[2])?;
        let rank = if backwards {
            zset.len() - 1 - rank
        } else {
            rank
        };
        Some((rank as i64, score))
    });
    match found {
        Some((rank, score)) if with_score => {
            reply.array(2);
            reply.int(rank);
            reply.double(score);
        }
        Some((rank, _)) => reply.int(rank),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn zscan(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    scan::<Zset>(cx, args, reply, Elements, |zset, page| match zset.view() {
        View::Packed(pairs) => {
            let mut elements = pairs.iter();
            while let (Some(name), Some(score)) = (elements.next(), elements.next()) {
                if page.packed_name(name) {
                    page.packed(score);
                }
            }
            None
        }
        View::Table(entries) => page.walk(entries, |page, entry| {
            if page.name(entry.name()) {
                let mut text = Vec::with_capacity(24);
                decimal::write_f64_rounded(&mut text, entry.score, 17);
                page.bulk(&text);
            }
        }),
    })
}
