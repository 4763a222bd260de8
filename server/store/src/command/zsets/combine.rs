//! ZUNION, ZINTER, ZDIFF and their variants. An input is a sorted set, or a set, whose members get
//! the score 1. The commands look up all inputs in the order of the keys before they combine them.

use std::cmp::Ordering;
use std::collections::HashMap;

use ahash::RandomState;
use punctual_rdb::listpack::Element;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use super::{not_negative, reply_entries, store};
use crate::arguments::{int, is};
use crate::error::Error;
use crate::turn::Cx;
use crate::value::set::{self, Set};
use crate::value::zset::{self, Zset, compare_names};
use crate::value::{Kind, Value};

const NEGATIVE_LIMIT: Error = Error::fixed("ERR LIMIT can't be negative");
const NOT_WEIGHT: Error = Error::fixed("ERR weight value is not a float");

/// Set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// What a command does with the result: it returns, counts or stores the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

/// Combination of the scores of one member.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// COUNT: the sum of the weights of the inputs that have the member.
    Count,
}

impl Aggregate {
    /// Returns the contribution of an input that has the member.
    fn weighed(self, weight: f64, score: f64) -> f64 {
        match self {
            Self::Count => weight,
            Self::Sum | Self::Min | Self::Max => weight * score,
        }
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // The sum of opposite infinities is 0.
            Self::Sum | Self::Count => number(a + b),
            Self::Min if b < a => b,
            Self::Max if b > a => b,
            Self::Min | Self::Max => a,
        }
    }
}

/// Returns 0 for NaN, as Redis does.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The members of an input.
#[derive(Clone, Copy)]
enum Members<'a> {
    Zset(&'a Zset),
    Set(&'a Set),
    None,
}

impl<'a> Members<'a> {
    fn of(value: Option<&'a Value>) -> Self {
        let Some(value) = value else {
            return Self::None;
        };
        match Zset::of(value) {
            Some(zset) => Self::Zset(zset),
            None => Set::of(value).map_or(Self::None, Self::Set),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Zset(zset) => zset.len(),
            Self::Set(set) => set.len(),
            Self::None => 0,
        }
    }

    fn score(self, name: Element<'_>) -> Option<f64> {
        match self {
            Self::Zset(zset) => name.with_text(|name| zset.score(name)),
            Self::Set(set) => set.contains_element(name).then_some(1.0),
            Self::None => None,
        }
    }

    /// Returns true if both are the same value.
    fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Zset(a), Self::Zset(b)) => std::ptr::eq(a, b),
            (Self::Set(a), Self::Set(b)) => std::ptr::eq(a, b),
            _ => false,
        }
    }

    /// Iterates over names and scores in any order.
    fn iter(self) -> Iter<'a> {
        match self {
            Self::Zset(zset) => Iter::Zset(zset.iter()),
            Self::Set(set) => Iter::Set(set.iter()),
            Self::None => Iter::None,
        }
    }
}

enum Iter<'a> {
    Zset(zset::Walk<'a>),
    Set(set::Members<'a>),
    None,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Zset(walk) => walk.next(),
            Self::Set(members) => Some((members.next()?, 1.0)),
            Self::None => None,
        }
    }
}

/// An input and its weight.
#[derive(Clone, Copy)]
struct Source<'a> {
    members: Members<'a>,
    weight: f64,
}

/// Options after the keys.
struct Options {
    weights: Option<SmallVec<[f64; 4]>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// LIMIT of ZINTERCARD: the maximum count.
    limit: usize,
}

impl Options {
    fn parse(
        mut args: Args,
        keys: usize,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let mut options = Self {
            weights: None,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let weighs = operation != Operation::Diff && purpose != Purpose::Count;
        while let Some(option) = args.get(0) {
            let parsed = match () {
                () if weighs && args.len() > keys && is(option, "WEIGHTS") => {
                    let weights = args.skip(1).take(keys).into_iter();
                    let weights = weights.map(|arg| zset::parse_score(arg).ok_or(NOT_WEIGHT));
                    options.weights = Some(weights.collect::<Result<_, _>>()?);
                    1 + keys
                }
                () if weighs && args.len() > 1 && is(option, "AGGREGATE") => {
                    options.aggregate = match args.at(1) {
                        word if is(word, "SUM") => Aggregate::Sum,
                        word if is(word, "MIN") => Aggregate::Min,
                        word if is(word, "MAX") => Aggregate::Max,
                        word if is(word, "COUNT") => Aggregate::Count,
                        _ => return Err(Error::Syntax),
                    };
                    2
                }
                () if purpose == Purpose::Reply && is(option, "WITHSCORES") => {
                    options.with_scores = true;
                    1
                }
                () if purpose == Purpose::Count && args.len() > 1 && is(option, "LIMIT") => {
                    options.limit = match not_negative(args.at(1), NEGATIVE_LIMIT)? {
                        0 => usize::MAX,
                        limit => limit,
                    };
                    2
                }
                () => return Err(Error::Syntax),
            };
            args = args.skip(parsed);
        }
        Ok(options)
    }
}

/// Runs a command of this family.
fn combine(
    cx: &mut Cx,
    args: Args,
    command: &'static str,
    operation: Operation,
    purpose: Purpose,
    reply: &mut Reply,
) -> Result<(), Error> {
    let count_at = if purpose == Purpose::Store { 2 } else { 1 };
    let keys = int(&args[count_at])?;
    if keys < 1 {
        let text = format!("ERR at least 1 input key is needed for '{command}' command");
        return Err(Error::Text(text.into()));
    }
    let rest = args.skip(count_at + 1);
    let keys = usize::try_from(keys)
        .ok()
        .filter(|&keys| keys <= rest.len());
    let keys = keys.ok_or(Error::Syntax)?;

    let (limits, hasher) = (cx.limits(), &cx.store().hasher);
    let fits = |value: &Value| Zset::of(value).is_some() || Set::of(value).is_some();
    let values = cx.values(rest.take(keys), fits)?;
    let options = Options::parse(rest.skip(keys), keys, operation, purpose)?;
    let weight = |i: usize| options.weights.as_ref().map_or(1.0, |weights| weights[i]);
    let mut sources: SmallVec<[Source<'_>; 4]> = values
        .into_iter()
        .enumerate()
        .map(|(i, value)| Source {
            members: Members::of(value),
            weight: weight(i),
        })
        .collect();
    if operation != Operation::Diff {
        // Sums of floats depend on the order of the inputs. Redis sorts the inputs by size.
        sources.sort_by_key(|source| source.members.len());
    }
    if purpose == Purpose::Count {
        let common = intersection(&sources, options.aggregate).take(options.limit);
        reply.int(common.count() as i64);
        return Ok(());
    }
    let mut result: Vec<(Element<'_>, f64)> = match operation {
        Operation::Union => union(&sources, options.aggregate, hasher),
        Operation::Inter => intersection(&sources, options.aggregate).collect(),
        Operation::Diff => difference(&sources),
    };
    if purpose == Purpose::Store {
        let result = Zset::from_unique(result.into_iter(), limits);
        drop(sources);
        store(cx, &args[1], result, command, reply);
    } else {
        result.sort_by(|(a, x), (b, y)| {
            let scores = x.partial_cmp(y).unwrap_or(Ordering::Equal);
            scores.then_with(|| compare_names(*a, *b))
        });
        let count = result.len();
        reply_entries(reply, result.into_iter(), count, options.with_scores);
    }
    Ok(())
}

/// Normalises a name to compare it with names of other encodings: a large set holds integers as
/// texts.
fn normalised(name: Element<'_>) -> Element<'_> {
    match name {
        Element::Bytes(text) => Element::of(text),
        int => int,
    }
}

fn union<'a>(
    sources: &[Source<'a>],
    aggregate: Aggregate,
    hasher: &RandomState,
) -> Vec<(Element<'a>, f64)> {
    let largest = sources.last().map_or(0, |source| source.members.len());
    let mut all: HashMap<Element<'a>, f64, RandomState> =
        HashMap::with_capacity_and_hasher(largest, hasher.clone());
    for source in sources {
        for (name, score) in source.members.iter() {
            let score = number(aggregate.weighed(source.weight, score));
            all.entry(normalised(name))
                .and_modify(|old| *old = aggregate.of(*old, score))
                .or_insert(score);
        }
    }
    all.into_iter().collect()
}

/// Returns the members of the first source that all other sources have.
fn intersection<'a>(
    sources: &[Source<'a>],
    aggregate: Aggregate,
) -> impl Iterator<Item = (Element<'a>, f64)> {
    let first = sources.first().copied();
    let members = first.map(|first| first.members.iter());
    members
        .into_iter()
        .flatten()
        .filter_map(move |(name, score)| {
            let first = first?;
            let mut result = number(aggregate.weighed(first.weight, score));
            for other in &sources[1..] {
                let found = if other.members.is_same(first.members) {
                    score
                } else {
                    other.members.score(name)?
                };
                result = aggregate.of(result, aggregate.weighed(other.weight, found));
            }
            Some((name, result))
        })
}

/// Returns the members of the first source that no other source has.
fn difference<'a>(sources: &[Source<'a>]) -> Vec<(Element<'a>, f64)> {
    let Some((first, others)) = sources.split_first() else {
        return Vec::new();
    };
    if others
        .iter()
        .any(|other| other.members.is_same(first.members))
    {
        return Vec::new();
    }
    let members = first.members.iter();
    members
        .filter(|(name, _)| {
            !others
                .iter()
                .any(|other| other.members.score(*name).is_some())
        })
        .collect()
}

macro_rules! commands {
    ($($command:ident: $operation:ident, $purpose:ident;)*) => {$(
        pub(super) fn $command(
            cx: &mut Cx<'_, '_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Result<(), Error> {
            let (operation, purpose) = (Operation::$operation, Purpose::$purpose);
            combine(cx, args, stringify!($command), operation, purpose, reply)
        }
    )*};
}

commands! {
    zunion: Union, Reply;
    zinter: Inter, Reply;
    zdiff: Diff, Reply;
    zunionstore: Union, Store;
    zinterstore: Inter, Store;
    zdiffstore: Diff, Store;
    zintercard: Inter, Count;
}
