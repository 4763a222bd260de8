//! ZADD and ZINCRBY. As with SADD and HINCRBY, a member that the sorted set has keeps its deadline.

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use crate::arguments::{Pairs, is};
use crate::command::parts::add::Added;
use crate::command::parts::options::Grammar;
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::Kind;
use crate::value::zset::{Zset, parse_score};

const NX_XX: Error = Error::fixed("ERR XX and NX options at the same time are not compatible");
const GT_LT_NX: Error =
    Error::fixed("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: Error =
    Error::fixed("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: Error = Error::fixed("ERR resulting score is not a number (NaN)");

/// Options of ZADD.
#[derive(Default)]
struct Options {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    count_changes: bool,
    increment: bool,
}

impl Options {
    /// Parses options up to the first argument that is no option. Returns the number of options.
    fn parse(&mut self, args: Args) -> usize {
        let mut count = 0;
        while let Some(arg) = args.get(count) {
            // Compares lengths first: most arguments here are scores.
            match arg.len() {
                2 if is(arg, "NX") => self.only_new = true,
                2 if is(arg, "XX") => self.only_existing = true,
                2 if is(arg, "GT") => self.only_greater = true,
                2 if is(arg, "LT") => self.only_less = true,
                2 if is(arg, "CH") => self.count_changes = true,
                4 if is(arg, "INCR") => self.increment = true,
                _ => break,
            }
            count += 1;
        }
        count
    }

    fn check(&self, pairs: usize) -> Result<(), Error> {
        if self.only_new && self.only_existing {
            return Err(NX_XX);
        }
        let compares = u8::from(self.only_greater) + u8::from(self.only_less);
        if compares + u8::from(self.only_new) > 1 {
            return Err(GT_LT_NX);
        }
        if self.increment && pairs > 1 {
            return Err(ONE_INCREMENT);
        }
        Ok(())
    }
}

pub(super) fn zadd(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    add(cx, args, Options::default(), reply)
}

/// As in Redis, ZINCRBY also accepts the options of ZADD.
pub(super) fn zincrby(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options {
        increment: true,
        ..Options::default()
    };
    add(cx, args, options, reply)
}

impl Added for Zset {
    const GRAMMAR: Grammar = Grammar {
        command: "zaddex",
        each: 2,
        writes: true,
        any_order: true,
    };
    const ADD: (&'static [u8], &'static str) = (b"ZADD", "zadd");

    fn add(
        cx: &mut Cx<'_, '_>,
        place: Place,
        found: Option<Id>,
        key: &[u8],
        members: Args<'_>,
    ) -> Result<(Id, usize), Error> {
        let limits = cx.limits();
        let count = members.len() / 2;
        let id = found.unwrap_or_else(|| {
            let zset = Zset::new(count, members[1].len(), limits);
            cx.add_at(place, key, zset.into_value())
        });
        let zset = cx.edit::<Zset>(place, id)?;
        zset.reserve(count, limits);
        let mut changed = 0;
        for (score, name) in Pairs(members) {
            let score = parse_score(score).ok_or(Error::NotFloat)?;
            zset.update(name, limits, |old| {
                let new = Some(score).filter(|_| old != Some(score));
                changed += usize::from(new.is_some());
                new
            });
        }
        Ok((id, changed))
    }

    fn check_members(members: Args<'_>) -> Result<(), Error> {
        let valid = Pairs(members).all(|(score, _)| parse_score(score).is_some());
        valid.then_some(()).ok_or(Error::NotFloat)
    }
}

fn add(cx: &mut Cx, args: Args, mut options: Options, reply: &mut Reply) -> Result<(), Error> {
    let key = &args[1];
    let pairs = args.skip(2);
    let pairs = pairs.skip(options.parse(pairs));
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(Error::Syntax);
    }
    let count = pairs.len() / 2;
    options.check(count)?;
    let scores: SmallVec<[f64; 8]> = (0..count)
        .map(|pair| parse_score(&pairs[pair * 2]).ok_or(Error::NotFloat))
        .collect::<Result<_, _>>()?;

    let limits = cx.limits();
    let names = Pairs(pairs).map(|(_, name)| name);
    let (place, found) = cx.seek_named::<Zset>(key, names)?;
    let id = match found {
        Some(id) => Some(id),
        None if options.only_existing => None,
        None => {
            let zset = Zset::new(count, pairs[1].len(), limits);
            Some(cx.add_at(place, key, zset.into_value()))
        }
    };
    let (mut added, mut updated, mut not_a_number) = (0, 0, false);
    let mut result = None;
    if let Some(id) = id {
        let zset = cx.edit::<Zset>(place, id)?;
        if count > 1 {
            zset.reserve(count, limits);
            zset.warm_changes(Pairs(pairs).map(|(_, name)| name), &scores);
        }
        for (pair, &score) in scores.iter().enumerate() {
            zset.update(&pairs[pair * 2 + 1], limits, |old| {
                let Some(old) = old else {
                    if options.only_existing {
                        return None;
                    }
                    added += 1;
                    result = Some(score);
                    return Some(score);
                };
                if options.only_new {
                    return None;
                }
                let new = if options.increment {
                    old + score
                } else {
                    score
                };
                if new.is_nan() {
                    not_a_number = true;
                    return None;
                }
                if (options.only_less && new >= old) || (options.only_greater && new <= old) {
                    return None;
                }
                result = Some(new);
                if new == old {
                    return None;
                }
                updated += 1;
                Some(new)
            });
        }
    }
    if not_a_number {
        return Err(NOT_A_NUMBER);
    }
    if added + updated > 0 {
        let event = if options.increment { "zincr" } else { "zadd" };
        cx.commit(key, Classes::ZSET, event, added + updated);
    }
    match result {
        Some(score) if options.increment => reply.double(score),
        None if options.increment => reply.null(),
        _ if options.count_changes => reply.int((added + updated) as i64),
        _ => reply.int(added as i64),
    }
    Ok(())
}
