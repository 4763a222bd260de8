//! The sorted set commands. This file has their rows, and the handlers are in submodules: `add`
//! (ZADD, ZADDEX), `read` (ZSCORE, ZRANK, ZCOUNT), `range` (ZRANGE and its variants), `remove`
//! (ZREM), `pop` (ZPOPMIN, ZMPOP), `random` (ZRANDMEMBER) and `combine` (ZUNION, ZINTER, ZDIFF).
//! `query` parses ranges.

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

use crate::command::parts::add::addex;
use crate::command::timers::NOT_IN_REDIS;
use crate::error::Error;
use crate::events::Classes;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::Kind;
use crate::value::zset::Zset;
pub(crate) use pop::{End, MultiPop, pop_first, pop_one};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("zadd", -4, GROW.or(Flags::FAST), add::zadd)
        .access(&["RW update"])
        .since("1.2.0")
        .complexity(
            "O(log(N)) for each member added, where N is the number of members in the sorted set.",
        )
        .summary(
            "Adds members to a sorted set, or updates their scores. Creates the key if it doesn't \
             exist.",
        )
        .history(&[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ])
        .syntax(
            "key [condition: NX | XX]@3.0.2 [comparison: GT | LT]@6.2.0 [change: CH@3.0.2] \
             [increment: INCR@3.0.2] (data: score member) ...",
        ),
    row("zaddex", -6, GROW.or(Flags::FAST), addex::<Zset>)
        .access(&["RW update"])
        .since(NOT_IN_REDIS)
        .complexity(
            "O(log(N)) for each member added, where N is the number of members in the sorted set.",
        )
        .summary(
            "Adds members to a sorted set or updates their scores, and optionally sets their \
             expiration time.",
        )
        .syntax(
            "key [condition: MNX | MXX] [expiration: EX seconds | PX milliseconds | EXAT \
             unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] MEMBERS \
             (nummembers (data: score member) ...)",
        ),
    row("zcard", 2, READ_FAST, read::zcard)
        .access(&["RO"])
        .since("1.2.0")
        .summary("Returns the number of members in a sorted set.")
        .syntax("key"),
    row("zcount", 4, READ_FAST, read::zcount)
        .access(&["RO access"])
        .since("2.0.0")
        .complexity(LOOK_COST)
        .summary("Returns the number of members of a sorted set within a range of scores.")
        .syntax("key min:double max:double"),
    row("zdiff", -3, Flags::READONLY, combine::zdiff)
        .counted_keys(1)
        .access(&["RO access"])
        .doc("6.2.0", DIFF_COST, "Returns the difference of sorted sets.")
        .syntax("numkeys key ... [WITHSCORES]"),
    row("zdiffstore", -4, GROW, combine::zdiffstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .since("6.2.0")
        .complexity(DIFF_COST)
        .summary("Stores the difference of sorted sets in a key.")
        .syntax("destination:key numkeys key:key1 ..."),
    row("zincrby", 4, GROW.or(Flags::FAST), add::zincrby)
        .access(&["RW access update"])
        .since("1.2.0")
        .complexity(LOOK_COST)
        .summary("Increments the score of a member in a sorted set.")
        .syntax("key increment:integer member"),
    row("zinter", -3, Flags::READONLY, combine::zinter)
        .counted_keys(1)
        .access(&["RO access"])
        .since("6.2.0")
        .complexity(INTER_COST)
        .summary("Returns the intersection of sorted sets.")
        .syntax(
            "numkeys key ... [WEIGHTS weight:integer ...] [AGGREGATE (SUM | MIN | MAX | \
             COUNT@8.8.0)] [WITHSCORES]",
        ),
    row("zintercard", -3, Flags::READONLY, combine::zintercard)
        .counted_keys(1)
        .access(&["RO access"])
        .since("7.0.0")
        .complexity(
            "O(N*K) worst case, where N is the size of the smallest input and K is the number of \
             inputs.",
        )
        .summary("Returns the number of members of the intersection of sorted sets.")
        .syntax("numkeys key ... [LIMIT limit]"),
    row("zinterstore", -4, GROW, combine::zinterstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .since("2.0.0")
        .complexity(INTER_COST)
        .summary("Stores the intersection of sorted sets in a key.")
        .syntax(
            "destination:key numkeys key:key1 ... [WEIGHTS weight:integer ...] [AGGREGATE \
             (SUM | MIN | MAX | COUNT@8.8.0)]",
        ),
    row("zlexcount", 4, READ_FAST, read::zlexcount)
        .access(&["RO access"])
        .since("2.8.9")
        .complexity(LOOK_COST)
        .summary("Returns the number of members of a sorted set within a lexicographical range.")
        .syntax("key min max"),
    row("zmpop", -4, Flags::WRITE, pop::zmpop)
        .counted_keys(1)
        .access(&["RW access delete"])
        .since("7.0.0")
        .complexity(
            "O(K) + O(M*log(N)) where K is the number of keys, N is the number of members in the \
             sorted set and M is the number of members popped.",
        )
        .summary(
            "Removes and returns members by score from the first non-empty sorted set of several. \
             Deletes the sorted set if no members remain.",
        )
        .syntax("numkeys key ... (where: MIN | MAX) [COUNT count]"),
    row("zmscore", -3, READ_FAST, read::zmscore)
        .access(&["RO access"])
        .since("6.2.0")
        .complexity("O(N) where N is the number of members requested.")
        .summary("Returns the scores of members of a sorted set.")
        .syntax("key member ..."),
    row("zpopmax", -2, WRITE_FAST, pop::zpopmax)
        .access(&["RW access delete"])
        .since("5.0.0")
        .complexity(POP_COST)
        .summary(
            "Removes and returns the members with the highest scores of a sorted set. Deletes the \
             sorted set if no members remain.",
        )
        .syntax("key [count]"),
    row("zpopmin", -2, WRITE_FAST, pop::zpopmin)
        .access(&["RW access delete"])
        .since("5.0.0")
        .complexity(POP_COST)
        .summary(
            "Removes and returns the members with the lowest scores of a sorted set. Deletes the \
             sorted set if no members remain.",
        )
        .syntax("key [count]"),
    row("zrandmember", -2, Flags::READONLY, random::zrandmember)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .complexity("O(N) where N is the number of members returned.")
        .summary("Returns one or more random members of a sorted set.")
        .syntax("key [options: count [WITHSCORES]]"),
    row("zrange", -4, Flags::READONLY, range::zrange)
        .access(&["RO access"])
        .since("1.2.0")
        .complexity(RANGE_COST)
        .summary("Returns members of a sorted set within a range of ranks, scores or names.")
        .history(&[(
            "6.2.0",
            "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.",
        )])
        .syntax(
            "key start stop [sortby: BYSCORE | BYLEX]@6.2.0 [REV@6.2.0] [LIMIT (offset \
             count)]@6.2.0 [WITHSCORES]",
        ),
    row("zrangebylex", -4, Flags::READONLY, range::zrangebylex)
        .access(&["RO access"])
        .since("2.8.9")
        .complexity(RANGE_COST)
        .summary("Returns members of a sorted set within a lexicographical range.")
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument")
        .syntax("key min max [LIMIT (offset count)]"),
    row("zrangebyscore", -4, Flags::READONLY, range::zrangebyscore)
        .access(&["RO access"])
        .since("1.0.5")
        .complexity(RANGE_COST)
        .summary("Returns members of a sorted set within a range of scores.")
        .history(&[("2.0.0", "Added the `WITHSCORES` modifier.")])
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument")
        .syntax("key min:double max:double [WITHSCORES@2.0.0] [LIMIT (offset count)]"),
    row("zrangestore", -5, GROW, range::zrangestore)
        .keys(1, 2, 1)
        .access(STORE)
        .since("6.2.0")
        .complexity(
            "O(log(N)+M) where N is the number of members in the sorted set and M is the number \
             of members stored.",
        )
        .summary("Stores a range of members of a sorted set in another key.")
        .syntax("dst:key src:key1 min max [sortby: BYSCORE | BYLEX] [REV] [LIMIT (offset count)]"),
    row("zrank", -3, READ_FAST, read::zrank)
        .access(&["RO access"])
        .since("2.0.0")
        .complexity("O(log(N))")
        .summary("Returns the rank of a member in a sorted set, ordered by ascending scores.")
        .history(WITH_SCORE)
        .syntax("key member [WITHSCORE]"),
    row("zrem", -3, WRITE_FAST, remove::zrem)
        .access(&["RW delete"])
        .since("1.2.0")
        .complexity(
            "O(M*log(N)) where N is the number of members in the sorted set and M is the number \
             of members to be removed.",
        )
        .summary("Removes members from a sorted set. Deletes the sorted set if no members remain.")
        .history(&[("2.4.0", "Accepts multiple elements.")])
        .syntax("key member ..."),
    row("zremrangebylex", 4, Flags::WRITE, remove::zremrangebylex)
        .access(&["RW delete"])
        .since("2.8.9")
        .complexity(REMOVE_COST)
        .summary("Removes the members of a sorted set within a lexicographical range.")
        .syntax("key min max"),
    row("zremrangebyrank", 4, Flags::WRITE, remove::zremrangebyrank)
        .access(&["RW delete"])
        .since("2.0.0")
        .complexity(REMOVE_COST)
        .summary("Removes the members of a sorted set within a range of ranks.")
        .syntax("key start:integer stop:integer"),
    row(
        "zremrangebyscore",
        4,
        Flags::WRITE,
        remove::zremrangebyscore,
    )
    .access(&["RW delete"])
    .since("1.2.0")
    .complexity(REMOVE_COST)
    .summary("Removes the members of a sorted set within a range of scores.")
    .syntax("key min:double max:double"),
    row("zrevrange", -4, Flags::READONLY, range::zrevrange)
        .access(&["RO access"])
        .since("1.2.0")
        .complexity(RANGE_COST)
        .summary("Returns members of a sorted set within a range of ranks, in reverse order.")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument")
        .syntax("key start:integer stop:integer [WITHSCORES]"),
    row("zrevrangebylex", -4, Flags::READONLY, range::zrevrangebylex)
        .access(&["RO access"])
        .since("2.8.9")
        .complexity(RANGE_COST)
        .summary(
            "Returns members of a sorted set within a lexicographical range, in reverse order.",
        )
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")
        .syntax("key max min [LIMIT (offset count)]"),
    row(
        "zrevrangebyscore",
        -4,
        Flags::READONLY,
        range::zrevrangebyscore,
    )
    .access(&["RO access"])
    .since("2.2.0")
    .complexity(RANGE_COST)
    .summary("Returns members of a sorted set within a range of scores, in reverse order.")
    .history(&[("2.1.6", "`min` and `max` can be exclusive.")])
    .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")
    .syntax("key max:double min:double [WITHSCORES] [LIMIT (offset count)]"),
    row("zrevrank", -3, READ_FAST, read::zrevrank)
        .access(&["RO access"])
        .since("2.0.0")
        .complexity("O(log(N))")
        .summary("Returns the rank of a member in a sorted set, ordered by descending scores.")
        .history(WITH_SCORE)
        .syntax("key member [WITHSCORE]"),
    row("zscan", -3, Flags::READONLY, read::zscan)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .complexity(
            "O(1) for each call, O(N) for a complete iteration, where N is the number of members \
             in the sorted set.",
        )
        .summary("Iterates over the members and scores of a sorted set.")
        .syntax("key cursor [MATCH pattern] [COUNT count]"),
    row("zscore", 3, READ_FAST, read::zscore)
        .access(&["RO access"])
        .since("1.2.0")
        .summary("Returns the score of a member in a sorted set.")
        .syntax("key member"),
    row("zunion", -3, Flags::READONLY, combine::zunion)
        .counted_keys(1)
        .access(&["RO access"])
        .doc("6.2.0", UNION_COST, "Returns the union of sorted sets.")
        .syntax(
            "numkeys key ... [WEIGHTS weight:integer ...] [AGGREGATE (SUM | MIN | MAX | \
             COUNT@8.8.0)] [WITHSCORES]",
        ),
    row("zunionstore", -4, GROW, combine::zunionstore)
        .destination_and_counted_keys(2)
        .access(STORE)
        .since("2.0.0")
        .complexity(UNION_COST)
        .summary("Stores the union of sorted sets in a key.")
        .syntax(
            "destination:key numkeys key:key1 ... [WEIGHTS weight:integer ...] [AGGREGATE \
             (SUM | MIN | MAX | COUNT@8.8.0)]",
        ),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const STORE: &[&str] = &["OW update", "RO access"];
const WITH_SCORE: &[(&str, &str)] = &[("7.2.0", "Added the optional `WITHSCORE` argument.")];
const LOOK_COST: &str = "O(log(N)) where N is the number of members in the sorted set.";
const RANGE_COST: &str = "O(log(N)+M) where N is the number of members in the sorted set and M is the number of \
                          members returned.";
const REMOVE_COST: &str = "O(log(N)+M) where N is the number of members in the sorted set and M is the number of \
                           members removed.";
const POP_COST: &str = "O(log(N)*M) where N is the number of members in the sorted set and M is the number of members \
                        popped.";
const UNION_COST: &str =
    "O(N)+O(M*log(M)) where N is the total size of the inputs and M is the size of the result.";
const INTER_COST: &str = "O(N*K)+O(M*log(M)) worst case, where N is the size of the smallest input, K is the number of \
                          inputs and M is the size of the result.";
const DIFF_COST: &str = "O(L + (N-K)log(N)) worst case, where L is the total size of the inputs, N is the size of the \
                         first input and K is the size of the result.";

crate::family!(Handler, Group::SortedSet, Flags::NONE, keys(1, 1, 1));

/// Writes the name of a member.
#[inline]
fn reply_name(reply: &mut Reply, name: Element<'_>) {
    match name {
        Element::Bytes(name) => reply.bulk(name),
        Element::Int(int) => reply.bulk_int(int),
    }
}

/// Writes `count` entries. With scores, they are pairs in RESP3, and alternating names and scores
/// in RESP2.
fn reply_entries<'a>(
    reply: &mut Reply,
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

/// Stores the result of a `*STORE` command and replies with its size. An empty result removes the
/// key.
fn store(cx: &mut Cx, key: &[u8], result: Zset, event: &str, reply: &mut Reply) {
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
