//! Intersections, unions and differences. All sets are found first, in the order of the keys, and then looked at
//! together.

use std::collections::HashSet;

use ahash::RandomState;
use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{answer, answer_all};
use crate::command::arguments::{int, is};
use crate::error::Error;
use crate::events::Classes;
use crate::limits::Limits;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::set::{Set, View};

/// The sets of some keys, `None` for those that are not there.
type Sets<'a> = [Option<&'a Set>];

/// Members of any form, each once.
type Unique<'a> = HashSet<Element<'a>, RandomState>;

/// A member as it compares with those of other forms: a table's may look like an integer.
fn plain(member: Element<'_>) -> Element<'_> {
    match member {
        Element::Bytes(text) => Element::of(text),
        int => int,
    }
}

pub(super) fn sinter(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let sets = cx.views::<Set>(args.skip(1))?;
    if let [Some(only)] = sets[..] {
        answer_all(reply, only);
        return Ok(());
    }
    let common: Vec<Element<'_>> = intersection(by_size(&sets)).collect();
    reply.set(common.len());
    common.into_iter().for_each(|member| answer(reply, member));
    Ok(())
}

pub(super) fn sintercard(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    const FEW: Error = Error::fixed("ERR numkeys should be greater than 0");
    const MANY: Error = Error::fixed("ERR Number of keys can't be greater than number of args");
    const NEGATIVE: Error = Error::fixed("ERR LIMIT can't be negative");
    let keys = int(&args[1]).ok().filter(|&keys| keys > 0).ok_or(FEW)?;
    let keys = usize::try_from(keys)
        .ok()
        .filter(|&keys| keys <= args.len() - 2)
        .ok_or(MANY)?;
    let mut limit = 0;
    let mut options = args.skip(2 + keys);
    while let Some(option) = options.get(0) {
        let value = options.get(1).filter(|_| is(option, "LIMIT"));
        let value = int(value.ok_or(Error::Syntax)?);
        limit = value.ok().filter(|&limit| limit >= 0).ok_or(NEGATIVE)?;
        options = options.skip(2);
    }
    let limit = match limit {
        0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let sets = cx.views::<Set>(args.skip(2).into_iter().take(keys))?;
    let common = match sets[..] {
        [Some(only)] => only.len().min(limit),
        _ => intersection(by_size(&sets)).take(limit).count(),
    };
    reply.int(common as i64);
    Ok(())
}

pub(super) fn sinterstore(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = by_size(&cx.views::<Set>(args.skip(2))?);
    // The form that Redis's result begins in.
    let mut result = match sets.first().map(|smallest| smallest.view()) {
        Some(View::Ints(_)) => Set::no_ints(),
        _ => Set::default(),
    };
    for member in intersection(sets) {
        result.insert_element(member, &limits);
    }
    result.become_ints(&limits);
    store(cx, &args[1], result, "sinterstore", reply);
    Ok(())
}

/// The sets from the smallest to the largest; none if one of them is not there.
fn by_size<'a>(sets: &Sets<'a>) -> SmallVec<[&'a Set; 4]> {
    let there: Option<SmallVec<[&Set; 4]>> = sets.iter().copied().collect();
    let mut there = there.unwrap_or_default();
    there.sort_by_key(|set| set.len());
    there
}

/// The members of the first set that are in all others; none if there is no set.
fn intersection<'a>(sets: SmallVec<[&'a Set; 4]>) -> impl Iterator<Item = Element<'a>> {
    let first = sets.first().map(|set| set.iter());
    first.into_iter().flatten().filter(move |member| {
        let mut others = sets[1..].iter();
        others.all(|other| std::ptr::eq(*other, sets[0]) || other.contains_element(*member))
    })
}

pub(super) fn sunion(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let sets = cx.views::<Set>(args.skip(1))?;
    let there: SmallVec<[&Set; 4]> = sets.into_iter().flatten().collect();
    if let [only] = there[..] {
        answer_all(reply, only);
        return Ok(());
    }
    let largest = there.iter().map(|set| set.len()).max().unwrap_or_default();
    let mut all = Unique::with_capacity_and_hasher(largest, RandomState::default());
    for set in there {
        all.extend(set.iter().map(plain));
    }
    reply.set(all.len());
    all.into_iter().for_each(|member| answer(reply, member));
    Ok(())
}

pub(super) fn sunionstore(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = cx.views::<Set>(args.skip(2))?;
    let mut result = Set::no_ints();
    for member in sets.into_iter().flatten().flat_map(Set::iter) {
        result.insert_element(member, &limits);
    }
    store(cx, &args[1], result, "sunionstore", reply);
    Ok(())
}

pub(super) fn sdiff(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let sets = cx.views::<Set>(args.skip(1))?;
    let members: Vec<Element<'_>> = match Difference::of(&sets) {
        Difference::Empty => Vec::new(),
        Difference::Looking(first, others) => difference(first, &others).collect(),
        Difference::Removing(first, others) => {
            let mut left: Unique<'_> = first.iter().map(plain).collect();
            for member in others.into_iter().flat_map(Set::iter) {
                if left.is_empty() {
                    break;
                }
                left.remove(&plain(member));
            }
            left.into_iter().collect()
        }
    };
    reply.set(members.len());
    members.into_iter().for_each(|member| answer(reply, member));
    Ok(())
}

pub(super) fn sdiffstore(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let limits = cx.limits();
    let sets = cx.views::<Set>(args.skip(2))?;
    let result = match Difference::of(&sets) {
        Difference::Empty => Set::default(),
        Difference::Looking(first, others) => gather(difference(first, &others), &limits),
        Difference::Removing(first, others) => {
            let mut left = gather(first.iter(), &limits);
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

/// The set of these members, in the form that it gets when they are added one by one.
fn gather<'a>(members: impl Iterator<Item = Element<'a>>, limits: &Limits) -> Set {
    let mut set = Set::no_ints();
    for member in members {
        set.insert_element(member, limits);
    }
    set
}

/// How a difference is found: the first set, and the others that are there. Redis chooses by the same figures, which
/// shows in the form of what is stored.
enum Difference<'a> {
    /// There is none.
    Empty,
    /// Each member of the first set is looked for in the others.
    Looking(&'a Set, SmallVec<[&'a Set; 4]>),
    /// The members of the others are taken from a copy of the first set.
    Removing(&'a Set, SmallVec<[&'a Set; 4]>),
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
        let looked_for = first.len() * (others.len() + 1);
        let all: usize = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
        if looked_for / 2 <= all {
            // The largest is the likeliest to have a member.
            others.sort_by_key(|other| std::cmp::Reverse(other.len()));
            Self::Looking(first, others)
        } else {
            Self::Removing(first, others)
        }
    }
}

/// The members of `first` that are in none of the others.
fn difference<'a>(first: &'a Set, others: &[&Set]) -> impl Iterator<Item = Element<'a>> {
    let members = first.iter();
    members.filter(|member| !others.iter().any(|other| other.contains_element(*member)))
}

/// Ends a `*STORE` command: a result without members takes the destination away.
fn store(cx: &mut Cx<'_, '_>, key: &[u8], result: Set, event: &str, reply: &mut Reply<'_>) {
    reply.int(result.len() as i64);
    if !result.is_empty() {
        cx.overwrite(key, result.into_value());
        cx.commit(key, Classes::SET, event, 1);
    } else if cx.remove(key).is_some() {
        cx.commit(key, Classes::GENERIC, "del", 1);
    }
}
