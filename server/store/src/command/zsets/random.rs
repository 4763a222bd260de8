//! ZRANDMEMBER.

use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Protocol, Reply};
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::{reply_entries, reply_name};
use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::zset::Zset;

const LOWEST: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
/// Size of the shortest element of a reply.
const ELEMENT_MIN: u64 = b"$0\r\n\r\n".len() as u64;

pub(super) fn zrandmember(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let count = match args.get(2).map(int).transpose()? {
        Some(i64::MIN) => return Err(LOWEST),
        count => count,
    };
    let with_scores = match args.get(3) {
        _ if args.len() > 4 => return Err(Error::Syntax),
        None => false,
        Some(option) if !is(option, "WITHSCORES") => return Err(Error::Syntax),
        Some(_) if count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) => {
            return Err(Error::OutOfRange);
        }
        Some(_) => true,
    };
    let longest = cx.store().string_max();
    let random = &mut cx.store().draws.generator();
    let zset = cx.read_as::<Zset>(&args[1])?;
    match (count, zset) {
        (None, None) => reply.null(),
        (None, Some(zset)) => reply_name(reply, pick(zset, random).0),
        (Some(_), None) | (Some(0), _) => reply.array(0),
        (Some(count @ ..0), Some(zset)) => {
            return reply_with_repeats(
                zset,
                count.unsigned_abs(),
                with_scores,
                random,
                longest,
                reply,
            );
        }
        (Some(count), Some(zset)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            reply_sample(zset, count.min(zset.len()), with_scores, random, reply);
        }
    }
    Ok(())
}

/// Returns a random entry. O(log n), O(n) in a listpack.
fn pick<'z>(zset: &'z Zset, random: &mut SmallRng) -> (Element<'z>, f64) {
    let rank = random.random_range(0..zset.len());
    zset.nth(rank).expect("a rank below the length")
}

/// Writes `count` distinct random entries.
fn reply_sample(
    zset: &Zset,
    count: usize,
    with_scores: bool,
    random: &mut SmallRng,
    reply: &mut Reply,
) {
    let len = zset.len();
    if count * 3 <= len {
        let ranks = rand::seq::index::sample(random, len, count);
        let entries = ranks.into_iter().filter_map(|rank| zset.nth(rank));
        return reply_entries(reply, entries, count, with_scores);
    }
    // Knuth's selection sampling (The Art of Computer Programming, volume 2, 3.4.2, algorithm S):
    // takes each entry with probability `wanted / left`.
    let (mut left, mut wanted) = (len, count);
    let chosen = zset.iter().filter(move |_| {
        let take = random.random_range(0..left) < wanted;
        left -= 1;
        wanted -= usize::from(take);
        take
    });
    reply_entries(reply, chosen, count, with_scores);
}

/// Writes `count` entries, each drawn from all entries. Redis has no limit. Here a reply of more
/// than `longest` bytes is an error.
fn reply_with_repeats(
    zset: &Zset,
    count: u64,
    with_scores: bool,
    random: &mut SmallRng,
    longest: u64,
    reply: &mut Reply,
) -> Result<(), Error> {
    if count > longest / ELEMENT_MIN {
        return Err(Error::OutOfRange);
    }
    // Decodes a listpack once instead of for each entry.
    let entries: Vec<(Element<'_>, f64)> = match zset.packed() {
        Some(_) if count > 1 => zset.iter().collect(),
        _ => Vec::new(),
    };
    let pairs = with_scores && reply.protocol() == Protocol::Resp3;
    let heads = if with_scores && !pairs {
        count * 2
    } else {
        count
    };
    let start = reply.len();
    reply.array(heads as usize);
    for _ in 0..count {
        let (name, score) = match entries.len() {
            0 => pick(zset, random),
            len => entries[random.random_range(0..len)],
        };
        if pairs {
            reply.array(2);
        }
        reply_name(reply, name);
        if with_scores {
            reply.double(score);
        }
        if (reply.len() - start) as u64 > longest {
            return Err(Error::OutOfRange);
        }
    }
    Ok(())
}
