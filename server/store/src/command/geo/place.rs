//! GEOADD, GEOPOS, GEOHASH and GEODIST.

use punctual_resp::{Args, Reply};

use super::cell::Point;
use super::shape::distance_m;
use super::{point, reply_distance, reply_point, unit_m};
use crate::arguments::is;
use crate::error::Error;
use crate::events::Classes;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::zset::Zset;

pub(super) fn geoadd(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let (mut only_new, mut only_old, mut count_changed) = (false, false, false);
    let mut first = 2;
    while let Some(word) = args.get(first) {
        match () {
            () if is(word, "NX") => only_new = true,
            () if is(word, "XX") => only_old = true,
            () if is(word, "CH") => count_changed = true,
            () => break,
        }
        first += 1;
    }
    let places = args.skip(first);
    if places.is_empty() || !places.len().is_multiple_of(3) || (only_new && only_old) {
        return Err(Error::Syntax);
    }
    let mut members: Vec<(f64, &[u8])> = Vec::with_capacity(places.len() / 3);
    for at in (0..places.len()).step_by(3) {
        let score = point(places.at(at), places.at(at + 1))?.score();
        members.push((score, places.at(at + 2)));
    }
    let limits = cx.limits();
    let names = members.iter().map(|(_, member)| *member);
    let (place, found) = cx.seek_named::<Zset>(key, names)?;
    let id = match found {
        Some(id) => id,
        None if only_old => {
            reply.int(0);
            return Ok(());
        }
        None => {
            let longest = members.iter().map(|(_, member)| member.len()).max();
            let zset = Zset::new(members.len(), longest.unwrap_or(0), limits);
            cx.add_at(place, key, zset.into_value())
        }
    };
    let zset = cx.edit::<Zset>(place, id)?;
    let (mut added, mut moved) = (0, 0);
    for &(score, member) in &members {
        zset.update(member, limits, |old| match old {
            None if only_old => None,
            None => {
                added += 1;
                Some(score)
            }
            Some(old) if only_new || old == score => None,
            Some(_) => {
                moved += 1;
                Some(score)
            }
        });
    }
    if added + moved > 0 {
        cx.commit(key, Classes::ZSET, "zadd", added + moved);
        log_scores(cx, key, args.take(first).skip(2), &members);
    }
    let counted = if count_changed { added + moved } else { added };
    reply.int(counted as i64);
    Ok(())
}

/// Adds the ZADD that has the same result as the GEOADD as an effect, as in Redis.
fn log_scores(cx: &mut Cx, key: &[u8], options: Args, members: &[(f64, &[u8])]) {
    if cx.is_logged() {
        let scores: Vec<String> = members.iter().map(|(score, _)| score.to_string()).collect();
        let mut words: Vec<&[u8]> = vec![b"ZADD", key];
        words.extend(options.iter());
        for (score, (_, member)) in scores.iter().zip(members) {
            words.extend([score.as_bytes(), member]);
        }
        cx.effect(&words);
    }
}

pub(super) fn geopos(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let zset = cx.read_as::<Zset>(&args[1])?;
    let members = args.skip(2);
    reply.array(members.len());
    for member in members {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => reply_point(reply, Point::of_score(score)),
            None => reply.null_array(),
        }
    }
    Ok(())
}

pub(super) fn geohash(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let zset = cx.read_as::<Zset>(&args[1])?;
    let members = args.skip(2);
    reply.array(members.len());
    for member in members {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => reply.bulk(&Point::of_score(score).geohash()),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) fn geodist(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if args.len() > 5 {
        return Err(Error::Syntax);
    }
    let unit_m = args.get(4).map_or(Ok(1.0), unit_m)?;
    let zset = cx.read_as::<Zset>(&args[1])?;
    let score = |member: &[u8]| zset?.score(member);
    match (score(&args[2]), score(&args[3])) {
        (Some(a), Some(b)) => {
            let metres = distance_m(Point::of_score(a), Point::of_score(b));
            reply_distance(reply, metres / unit_m);
        }
        _ => reply.null(),
    }
    Ok(())
}
