//! Sorted sets: the family's rows. `add` has ZADD, `read` look-ups and counts, `range` ZRANGE and its variants, `remove`
//! ZREM, `pop` the pops, `random` ZRANDMEMBER, `combine` unions, intersections and differences.

mod add;
mod combine;
mod pop;
mod query;
mod random;
mod range;
mod read;
mod remove;
#[cfg(test)]
mod tests;

use punctual_rdb::listpack::Element;
use punctual_resp::{Protocol, Reply};

use crate::error::Error;
use crate::events::Classes;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::Kind;
use crate::value::zset::Zset;
pub(crate) use pop::{End, MultiPop, pop_entries, pop_one};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("zadd", -4, GROW.or(Flags::FAST), add::zadd)
        .access(&["RW update"])
        .doc(
            "1.2.0",
            "O(log(N)) for each member, where N is the number of members in the sorted set.",
            "Adds members to a sorted set or gives them other scores; the set is created if the key is new.",
        )
        .history(&[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ]),
    row("zcard", 2, READ_FAST, read::zcard).access(&["RO"]).doc(
        "1.2.0",
        "O(1)",
        "Counts the members of a sorted set.",
    ),
    row("zcount", 4, READ_FAST, read::zcount)
        .access(&["RO access"])
        .doc(
            "2.0.0",
            LOOK_COST,
            "Counts the members of a sorted set whose scores are in a range.",
        ),
    row("zdiff", -3, Flags::READONLY, combine::zdiff)
        .counted_keys(1)
        .access(&["RO access"])
        .doc(
            "6.2.0",
            DIFF_COST,
            "Returns the members of the first sorted set that are in none of the others.",
        ),
    row("zdiffstore", -4, GROW, combine::zdiffstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .doc(
            "6.2.0",
            DIFF_COST,
            "Stores the members of the first sorted set that are in none of the others.",
        ),
    row("zincrby", 4, GROW.or(Flags::FAST), add::zincrby)
        .access(&["RW access update"])
        .doc(
            "1.2.0",
            LOOK_COST,
            "Adds a number to a member's score, which starts at 0 if the member is new.",
        ),
    row("zinter", -3, Flags::READONLY, combine::zinter)
        .counted_keys(1)
        .access(&["RO access"])
        .doc(
            "6.2.0",
            INTER_COST,
            "Returns the members that are in all of the sorted sets.",
        ),
    row("zintercard", -3, Flags::READONLY, combine::zintercard)
        .counted_keys(1)
        .access(&["RO access"])
        .doc(
            "7.0.0",
            "O(N*K) at worst, N being the size of the smallest of K sorted sets.",
            "Counts the members that are in all of the sorted sets.",
        ),
    row("zinterstore", -4, GROW, combine::zinterstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .doc(
            "2.0.0",
            INTER_COST,
            "Stores the members that are in all of the sorted sets.",
        ),
    row("zlexcount", 4, READ_FAST, read::zlexcount)
        .access(&["RO access"])
        .doc(
            "2.8.9",
            LOOK_COST,
            "Counts the members of a sorted set whose names are in a range.",
        ),
    row("zmpop", -4, Flags::WRITE, pop::zmpop)
        .counted_keys(1)
        .access(&["RW access delete"])
        .doc(
            "7.0.0",
            "O(K) + O(M*log(N)) where K is the number of keys, N that of members and M that of members removed.",
            "Removes members with the lowest or highest scores from the first sorted set that there is, and returns them.",
        ),
    row("zmscore", -3, READ_FAST, read::zmscore)
        .access(&["RO access"])
        .doc(
            "6.2.0",
            "O(N) where N is the number of members that are asked for.",
            "Returns the scores of several members.",
        ),
    row("zpopmax", -2, WRITE_FAST, pop::zpopmax)
        .access(&["RW access delete"])
        .doc(
            "5.0.0",
            POP_COST,
            "Removes the members with the highest scores and returns them.",
        ),
    row("zpopmin", -2, WRITE_FAST, pop::zpopmin)
        .access(&["RW access delete"])
        .doc(
            "5.0.0",
            POP_COST,
            "Removes the members with the lowest scores and returns them.",
        ),
    row("zrandmember", -2, Flags::READONLY, random::zrandmember)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .doc(
            "6.2.0",
            "O(M*log(N)) where M is the count without its sign and N the number of members.",
            "Returns members of a sorted set at random.",
        ),
    row("zrange", -4, Flags::READONLY, range::zrange)
        .access(&["RO access"])
        .doc(
            "1.2.0",
            RANGE_COST,
            "Returns a part of a sorted set, by rank, score or name.",
        )
        .history(&[(
            "6.2.0",
            "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.",
        )]),
    row("zrangebylex", -4, Flags::READONLY, range::zrangebylex)
        .access(&["RO access"])
        .doc(
            "2.8.9",
            RANGE_COST,
            "Returns the members of a sorted set whose names are in a range.",
        )
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    row("zrangebyscore", -4, Flags::READONLY, range::zrangebyscore)
        .access(&["RO access"])
        .doc(
            "1.0.5",
            RANGE_COST,
            "Returns the members of a sorted set whose scores are in a range.",
        )
        .history(&[("2.0.0", "Added the `WITHSCORES` modifier.")])
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    row("zrangestore", -5, GROW, range::zrangestore)
        .keys(1, 2, 1)
        .access(STORE)
        .doc(
            "6.2.0",
            "O(log(N)+M) with N members in the sorted set and M of them stored.",
            "Stores a part of a sorted set under another key.",
        ),
    row("zrank", -3, READ_FAST, read::zrank)
        .access(&["RO access"])
        .doc(
            "2.0.0",
            "O(log(N))",
            "Tells how many members of a sorted set come before a member.",
        )
        .history(WITH_SCORE),
    row("zrem", -3, WRITE_FAST, remove::zrem)
        .access(&["RW delete"])
        .doc(
            "1.2.0",
            "O(M*log(N)) with N members in the sorted set and M of them to be removed.",
            "Removes members from a sorted set.",
        )
        .history(&[("2.4.0", "Accepts multiple elements.")]),
    row("zremrangebylex", 4, Flags::WRITE, remove::zremrangebylex)
        .access(&["RW delete"])
        .doc(
            "2.8.9",
            REMOVE_COST,
            "Removes the members of a sorted set whose names are in a range.",
        ),
    row("zremrangebyrank", 4, Flags::WRITE, remove::zremrangebyrank)
        .access(&["RW delete"])
        .doc(
            "2.0.0",
            REMOVE_COST,
            "Removes the members of a sorted set whose ranks are in a range.",
        ),
    row("zremrangebyscore", 4, Flags::WRITE, remove::zremrangebyscore)
        .access(&["RW delete"])
        .doc(
            "1.2.0",
            REMOVE_COST,
            "Removes the members of a sorted set whose scores are in a range.",
        ),
    row("zrevrange", -4, Flags::READONLY, range::zrevrange)
        .access(&["RO access"])
        .doc(
            "1.2.0",
            RANGE_COST,
            "Returns a part of a sorted set by rank, highest scores first.",
        )
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    row("zrevrangebylex", -4, Flags::READONLY, range::zrevrangebylex)
        .access(&["RO access"])
        .doc(
            "2.8.9",
            RANGE_COST,
            "Returns the members of a sorted set whose names are in a range, last ones first.",
        )
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    row(
        "zrevrangebyscore",
        -4,
        Flags::READONLY,
        range::zrevrangebyscore,
    )
    .access(&["RO access"])
    .doc(
        "2.2.0",
        RANGE_COST,
        "Returns the members of a sorted set whose scores are in a range, highest scores first.",
    )
    .history(&[("2.1.6", "`min` and `max` can be exclusive.")])
    .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    row("zrevrank", -3, READ_FAST, read::zrevrank)
        .access(&["RO access"])
        .doc(
            "2.0.0",
            "O(log(N))",
            "Tells how many members of a sorted set come behind a member.",
        )
        .history(WITH_SCORE),
    row("zscan", -3, Flags::READONLY, read::zscan)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .doc(
            "2.8.0",
            "O(1) a call, O(N) for a whole scan, N being the number of members.",
            "Walks through the members of a sorted set and their scores, some at each call.",
        ),
    row("zscore", 3, READ_FAST, read::zscore)
        .access(&["RO access"])
        .doc("1.2.0", "O(1)", "Returns the score of a member."),
    row("zunion", -3, Flags::READONLY, combine::zunion)
        .counted_keys(1)
        .access(&["RO access"])
        .doc(
            "6.2.0",
            UNION_COST,
            "Returns the members that are in any of the sorted sets.",
        ),
    row("zunionstore", -4, GROW, combine::zunionstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .doc(
            "2.0.0",
            UNION_COST,
            "Stores the members that are in any of the sorted sets.",
        ),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const STORE: &[&str] = &["OW update", "RO access"];
const WITH_SCORE: &[(&str, &str)] = &[("7.2.0", "Added the optional `WITHSCORE` argument.")];
const LOOK_COST: &str = "O(log(N)) with N members in the sorted set.";
const RANGE_COST: &str = "O(log(N)+M) with N members in the sorted set and M of them returned.";
const REMOVE_COST: &str = "O(M*log(N)) with N members in the sorted set and M of them removed.";
const POP_COST: &str = "O(M*log(N)) with N members in the sorted set and M of them removed.";
const UNION_COST: &str =
    "O(N)+O(M*log(M)) with N members in all of the sorted sets and M in the result.";
const INTER_COST: &str = "O(N*K)+O(M*log(M)) at worst, N being the size of the smallest of K sorted sets and M that of the result.";
const DIFF_COST: &str = "O(N*K)+O(M*log(M)) at worst, N being the size of the first of K sorted sets and M that of the result.";

/// Creates the row of a command on one key, its first argument.
const fn row(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, flags, Group::SortedSet, handler).keys(1, 1, 1)
}

/// Writes a name.
#[inline]
fn reply_name(reply: &mut Reply<'_>, name: Element<'_>) {
    match name {
        Element::Bytes(name) => reply.bulk(name),
        Element::Int(int) => reply.bulk_int(int),
    }
}

/// Writes `count` entries. With scores, they are pairs in RESP3, and alternating names and scores in RESP2.
fn reply_entries<'a>(
    reply: &mut Reply<'_>,
    entries: impl Iterator<Item = (Element<'a>, f64)>,
    count: usize,
    with_scores: bool,
) {
    let pairs = with_scores && reply.protocol() == Protocol::Resp3;
    reply.array(if with_scores && !pairs {
        count * 2
    } else {
        count
    });
    for (name, score) in entries {
        if pairs {
            reply.array(2);
        }
        reply_name(reply, name);
        if with_scores {
            reply.double(score);
        }
    }
}

/// Stores the result of a `*STORE` command and replies with its size. An empty result removes the key.
fn store(cx: &mut Cx<'_, '_>, key: &[u8], result: Zset, event: &str, reply: &mut Reply<'_>) {
    reply.int(result.len() as i64);
    if !result.is_empty() {
        cx.overwrite(key, result.into_value());
        cx.commit(key, Classes::ZSET, event, 1);
    } else if cx.remove(key).is_some() {
        cx.commit(key, Classes::GENERIC, "del", 1);
    }
}

/// Parses a count that must not be negative; returns `error` for any other argument.
fn not_negative(arg: &[u8], error: Error) -> Result<usize, Error> {
    let count = punctual_resp::decimal::parse_i64(arg);
    count
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(error)
}
