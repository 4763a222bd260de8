//! SINTER, SUNION, SDIFF and their variants. The commands look up all sets in the order of the keys
//! before they combine them.

use std::collections::HashSet;

use ahash::RandomState;
use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{reply_member, reply_members};
use crate::arguments::{int, is};
use crate::command::hyperloglog::Union;
use crate::error::Error;
use crate::events::Classes;
use crate::limits::Limits;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::set::{Set, View};

/// The sets of some keys; `None` for a missing key.
type Sets<'a> = [Option<&'a Set>];

/// Distinct members.
type Unique<'a> = HashSet<Element<'a>, RandomState>;

/// Normalises a member to compare it with members of other encodings: a hash table holds integers
/// as texts.
fn normalised(member: Element<'_>) -> Element<'_> {
    match member {
        Element::Bytes(text) => Element::of(text),
        int => int,
    }
}

pub(super) fn sinter(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let sets = cx.views::<Set>(args.skip(1))?;
    if let [Some(only)] = sets[..] {
        reply_members(reply, only);
        return Ok(());
    }
    let common: Vec<Element<'_>> = intersection(by_size(&sets)).collect();
    reply.set(common.len());
    common
        .into_iter()
        .for_each(|member| reply_member(reply, member));
    Ok(())
}

pub(super) fn sintercard(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Counted { keys, limit, .. } = Counted::parse(args, false)?;
    let sets = cx.views::<Set>(keys)?;
    let common = match sets[..] {
        [Some(only)] => only.len().min(limit),
        _ => intersection(by_size(&sets)).take(limit).count(),
    };
    reply.int(common as i64);
    Ok(())
}

/// Arguments of SINTERCARD, SUNIONCARD and SDIFFCARD: the number of keys, the keys, and options.
struct Counted<'a> {
    keys: Args<'a>,
    /// Maximum count.
    limit: usize,
    approximate: bool,
}

impl<'a> Counted<'a> {
    fn parse(args: Args<'a>, may_approximate: bool) -> Result<Self, Error> {
        const FEW: Error = Error::fixed("ERR numkeys should be greater than 0");
        const MANY: Error = Error::fixed("ERR Number of keys can't be greater than number of args");
        const NEGATIVE: Error = Error::fixed("ERR LIMIT can't be negative");
        let keys = int(&args[1]).ok().filter(|&keys| keys > 0).ok_or(FEW)?;
        let keys = usize::try_from(keys)
            .ok()
            .filter(|&keys| keys <= args.len() - 2)
            .ok_or(MANY)?;
        let (mut limit, mut approximate) = (0, false);
        let mut options = args.skip(2 + keys);
        while let Some(option) = options.get(0) {
            if may_approximate && is(option, "APPROX") {
                approximate = true;
                options = options.skip(1);
                continue;
            }
            let value = options.get(1).filter(|_| is(option, "LIMIT"));
            let value = int(value.ok_or(Error::Syntax)?);
            limit = value.ok().filter(|&limit| limit >= 0).ok_or(NEGATIVE)?;
            options = options.skip(2);
        }
        Ok(Self {
            keys: args.skip(2).take(keys),
            limit: match limit {
                0 => usize::MAX,
                limit => usize::try_from(limit).unwrap_or(usize::MAX),
            },
            approximate,
        })
    }
}

pub(super) fn sinterstore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = by_size(&cx.views::<Set>(args.skip(2))?);
    // Redis's result begins with the encoding of the smallest set.
    let mut result = match sets.first().map(|smallest| smallest.view()) {
        Some(View::Ints(_)) => Set::empty_ints(),
        _ => Set::default(),
    };
    for member in intersection(sets) {
        result.insert_element(member, &limits);
    }
    result.become_ints(&limits);
    store(cx, &args[1], result, "sinterstore", reply);
    Ok(())
}

/// Sorts the sets by size, smallest first. Returns no sets if one is missing.
fn by_size<'a>(sets: &Sets<'a>) -> SmallVec<[&'a Set; 4]> {
    let sets: Option<SmallVec<[&Set; 4]>> = sets.iter().copied().collect();
    let mut sets = sets.unwrap_or_default();
    sets.sort_by_key(|set| set.len());
    sets
}

/// Returns the members of the first set that all other sets have. Without sets, returns no members.
fn intersection<'a>(sets: SmallVec<[&'a Set; 4]>) -> impl Iterator<Item = Element<'a>> {
    let first = sets.first().map(|set| set.iter());
    first.into_iter().flatten().filter(move |member| {
        let mut others = sets[1..].iter();
        others.all(|other| std::ptr::eq(*other, sets[0]) || other.contains_element(*member))
    })
}

pub(super) fn sunion(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let store = cx.store();
    let sets = cx.views::<Set>(args.skip(1))?;
    let sets: SmallVec<[&Set; 4]> = sets.into_iter().flatten().collect();
    if let [only] = sets[..] {
        reply_members(reply, only);
        return Ok(());
    }
    let largest = sets.iter().map(|set| set.len()).max().unwrap_or_default();
    let mut all = Unique::with_capacity_and_hasher(largest, store.hasher.clone());
    for set in sets {
        all.extend(set.iter().map(normalised));
    }
    reply.set(all.len());
    all.into_iter()
        .for_each(|member| reply_member(reply, member));
    Ok(())
}

pub(super) fn sunioncard(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let counted = Counted::parse(args, true)?;
    let store = cx.store();
    let sets = cx.views::<Set>(counted.keys)?;
    let sets: SmallVec<[&Set; 4]> = sets.into_iter().flatten().collect();
    let members = || sets.iter().flat_map(|set| set.iter());
    let count = if let [only] = sets[..] {
        only.len()
    } else if counted.approximate {
        // The registers take 16 KiB, regardless of the size of the sets.
        let mut registers = Union::new();
        members().for_each(|member| {
            member.with_text(|text| registers.insert(text));
        });
        usize::try_from(registers.cardinality()).unwrap_or(usize::MAX)
    } else {
        let mut all = Unique::with_hasher(store.hasher.clone());
        for member in members() {
            all.insert(normalised(member));
            if all.len() >= counted.limit {
                break;
            }
        }
        all.len()
    };
    reply.int(count.min(counted.limit) as i64);
    Ok(())
}

pub(super) fn sunionstore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = cx.views::<Set>(args.skip(2))?;
    let mut result = Set::empty_ints();
    for member in sets.into_iter().flatten().flat_map(Set::iter) {
        result.insert_element(member, &limits);
    }
    store(cx, &args[1], result, "sunionstore", reply);
    Ok(())
}

pub(super) fn sdiff(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let store = cx.store();
    let sets = cx.views::<Set>(args.skip(1))?;
    let members: Vec<Element<'_>> = match Difference::of(&sets) {
        Difference::Empty => Vec::new(),
        Difference::Probe(first, others) => difference(first, &others).collect(),
        Difference::Remove(first, others) => {
            let mut left = Unique::with_capacity_and_hasher(first.len(), store.hasher.clone());
            left.extend(first.iter().map(normalised));
            for member in others.into_iter().flat_map(Set::iter) {
                if left.is_empty() {
                    break;
                }
                left.remove(&normalised(member));
            }
            left.into_iter().collect()
        }
    };
    reply.set(members.len());
    members
        .into_iter()
        .for_each(|member| reply_member(reply, member));
    Ok(())
}

pub(super) fn sdiffcard(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let counted = Counted::parse(args, false)?;
    let sets = cx.views::<Set>(counted.keys)?;
    let count = match Difference::of(&sets) {
        Difference::Empty => 0,
        Difference::Probe(first, others) | Difference::Remove(first, others) => {
            difference(first, &others).take(counted.limit).count()
        }
    };
    reply.int(count as i64);
    Ok(())
}

pub(super) fn sdiffstore(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = cx.views::<Set>(args.skip(2))?;
    let result = match Difference::of(&sets) {
        Difference::Empty => Set::default(),
        Difference::Probe(first, others) => collect_set(difference(first, &others), &limits),
        Difference::Remove(first, others) => {
            let mut left = collect_set(first.iter(), &limits);
            for member in others.into_iter().flat_map(Set::iter) {
                if left.is_empty() {
                    break;
                }
                left.remove_element(member);
            }
            left
        }
    };
    drop(sets);
    store(cx, &args[1], result, "sdiffstore", reply);
    Ok(())
}

/// Collects members into a set, with the encoding that single insertions give it.
fn collect_set<'a>(members: impl Iterator<Item = Element<'a>>, limits: &Limits) -> Set {
    let mut set = Set::empty_ints();
    for member in members {
        set.insert_element(member, limits);
    }
    set
}

/// Algorithm for a difference, with the first set and the other existing sets. The choice is the
/// same as in Redis, because it determines the encoding of a stored result.
enum Difference<'a> {
    /// The difference is empty.
    Empty,
    /// Looks up each member of the first set in the others.
    Probe(&'a Set, SmallVec<[&'a Set; 4]>),
    /// Removes the members of the others from a copy of the first set.
    Remove(&'a Set, SmallVec<[&'a Set; 4]>),
}

impl<'a> Difference<'a> {
    fn of(sets: &Sets<'a>) -> Self {
        let Some((&Some(first), others)) = sets.split_first() else {
            return Self::Empty;
        };
        let mut others: SmallVec<[&Set; 4]> = others.iter().flatten().copied().collect();
        if others.iter().any(|other| std::ptr::eq(*other, first)) {
            return Self::Empty;
        }
        let probes = first.len() * (others.len() + 1);
        let all: usize = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
        if probes / 2 <= all {
            // The largest set is the most likely to contain a member.
            others.sort_by_key(|other| std::cmp::Reverse(other.len()));
            Self::Probe(first, others)
        } else {
            Self::Remove(first, others)
        }
    }
}

/// Returns the members of `first` that no other set has.
fn difference<'a>(first: &'a Set, others: &[&Set]) -> impl Iterator<Item = Element<'a>> {
    let members = first.iter();
    members.filter(|member| !others.iter().any(|other| other.contains_element(*member)))
}

/// Stores the result of a `*STORE` command and replies with its size. An empty result removes the
/// key.
fn store(cx: &mut Cx, key: &[u8], result: Set, event: &str, reply: &mut Reply) {
    reply.int(result.len() as i64);
    if !result.is_empty() {
        cx.overwrite(key, result.into_value());
        cx.commit(key, Classes::SET, event, 1);
    } else if cx.remove(key).is_some() {
        cx.commit(key, Classes::GENERIC, "del", 1);
    }
}
