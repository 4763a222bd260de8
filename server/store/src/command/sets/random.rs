//! SPOP and SRANDMEMBER.

use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Reply};
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::{reply_member, reply_members};
use crate::arguments::int;
use crate::error::Error;
use crate::events::Classes;
use crate::random::below;
use crate::turn::Cx;
use crate::value::set::{Set, View};

const NEGATIVE: Error = Error::fixed("ERR value is out of range, must be positive");
const LOWEST: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
/// Size of the shortest element of a reply.
const ELEMENT_MIN: u64 = b"$0\r\n\r\n".len() as u64;

pub(super) fn spop(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    match args.len() {
        2 => {}
        3 => return spop_count(cx, key, &args[2], reply),
        _ => return Err(Error::Syntax),
    }
    let (place, found) = cx.seek_as::<Set>(key)?;
    let Some(id) = found else {
        reply.null();
        return Ok(());
    };
    let mut random = cx.store().draws.generator();
    let set = cx.edit::<Set>(place, id)?;
    let (spot, member) = set.pick(below(&mut random)).expect("no set is empty");
    reply.lift_limit();
    let start = reply.len();
    reply_member(reply, member);
    set.remove_at(spot);
    cx.commit_elements(place, id, key, Classes::SET, "spop", 1);
    cx.effect_with_bulks(&[b"SREM", key], 1, &reply.since(start));
    Ok(())
}

/// Runs SPOP with a count.
fn spop_count(cx: &mut Cx, key: &[u8], count: &[u8], reply: &mut Reply) -> Result<(), Error> {
    let count = int(count).map_or(Err(NEGATIVE), |count| {
        usize::try_from(count).map_err(|_| NEGATIVE)
    })?;
    let limits = cx.limits();
    let (place, found) = cx.seek_as::<Set>(key)?;
    let Some(id) = found.filter(|_| count > 0) else {
        reply.set(0);
        return Ok(());
    };
    let set = cx.view::<Set>(place, id)?;
    let len = set.len();
    if count >= len {
        reply_members(reply, set);
        cx.db_at(place).remove(id);
    } else {
        reply.set(count);
        // The effect is built from the whole reply, so the reply may exceed the limit.
        reply.lift_limit();
        let start = reply.len();
        let mut random = cx.store().draws.generator();
        let set = cx.edit::<Set>(place, id)?;
        set.take_some(count, &limits, below(&mut random), |member| {
            reply_member(reply, member);
        });
        cx.rearm(place, id);
        cx.effect_with_bulks(&[b"SREM", key], count, &reply.since(start));
    }
    cx.commit(key, Classes::SET, "spop", count.min(len) as u64);
    if count >= len {
        cx.commit(key, Classes::GENERIC, "del", 0);
        cx.effect(&[b"DEL", key]);
    }
    Ok(())
}

pub(super) fn srandmember(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let count = match args.len() {
        2 => None,
        3 => Some(int(&args[2])?),
        _ => return Err(Error::Syntax),
    };
    if count == Some(i64::MIN) {
        return Err(LOWEST);
    }
    let longest = cx.store().string_max();
    let mut random = cx.store().draws.generator();
    let set = cx.read_as::<Set>(key)?;
    match (count, set) {
        (None, None) => reply.null(),
        (None, Some(set)) => {
            let (_, member) = set.pick(below(&mut random)).expect("no set is empty");
            reply_member(reply, member);
        }
        (Some(_), None) | (Some(0), _) => reply.array(0),
        (Some(count @ ..0), Some(set)) => {
            return reply_with_repeats(set, count.unsigned_abs(), &mut random, longest, reply);
        }
        (Some(count), Some(set)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(set.len());
            reply.array(count);
            set.sample(count, below(&mut random), |member| {
                reply_member(reply, member);
            });
        }
    }
    Ok(())
}

/// Writes `count` members, each drawn from the whole set. Redis has no limit. Here a reply of more
/// than `longest` bytes is an error.
fn reply_with_repeats(
    set: &Set,
    count: u64,
    random: &mut SmallRng,
    longest: u64,
    reply: &mut Reply,
) -> Result<(), Error> {
    if count > longest / ELEMENT_MIN {
        return Err(Error::OutOfRange);
    }
    // Decodes a listpack once instead of for each member.
    let entries: Vec<Element<'_>> = match set.view() {
        View::Packed(entries) if count > 1 => entries.iter().collect(),
        _ => Vec::new(),
    };
    let start = reply.len();
    reply.array(count as usize);
    for _ in 0..count {
        let member = if entries.is_empty() {
            set.pick(below(random)).expect("no set is empty").1
        } else {
            entries[random.random_range(0..entries.len())]
        };
        reply_member(reply, member);
        if (reply.len() - start) as u64 > longest {
            return Err(Error::OutOfRange);
        }
    }
    Ok(())
}
