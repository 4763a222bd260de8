//! The string commands. This file has their rows, and the handlers are in submodules: `read` (GET,
//! MGET, GETEX), `set` (SET and its variants), `compare` (conditions on values, DELEX, DIGEST),
//! `change` (INCR, APPEND, SETRANGE), `increx` (INCREX) and `lcs` (LCS).

mod change;
mod compare;
mod increx;
mod lcs;
mod read;
mod set;
#[cfg(test)]
mod tests;

use punctual_resp::Reply;

use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};
use crate::value::string::Str;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("append", 3, GROW_FAST, change::append)
        .access(&["RW insert"])
        .since("2.0.0")
        .complexity("O(1) amortized if the appended value is small.")
        .summary("Appends a string to the value of a key. Creates the key if it doesn't exist.")
        .syntax("key value"),
    row("decr", 2, GROW_FAST, change::decr)
        .access(&["RW access update"])
        .since("1.0.0")
        .summary(
            "Decrements the integer value of a key by one. Uses 0 as initial value if the key \
             doesn't exist.",
        )
        .syntax("key"),
    row("decrby", 3, GROW_FAST, change::decrby)
        .access(&["RW access update"])
        .since("1.0.0")
        .summary(
            "Decrements the integer value of a key by a number. Uses 0 as initial value if the \
             key doesn't exist.",
        )
        .syntax("key decrement:integer"),
    row("delex", -2, WRITE_FAST, compare::delex)
        .access(&["RW delete variable_flags"])
        .since("8.4.0")
        .complexity(
            "O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE, where N is the length of the value.",
        )
        .summary(
            "Deletes a key, optionally only if its value or the digest of its value is equal to, \
             or different from, an argument.",
        )
        .syntax(
            "key [condition: IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE \
             ifdne-digest]",
        ),
    row("digest", 2, READ_FAST, compare::digest)
        .access(&["RO access"])
        .since("8.4.0")
        .complexity("O(N) where N is the length of the value.")
        .summary("Returns the XXH3 hash of the string value of a key, in hexadecimal.")
        .syntax("key"),
    row("get", 2, READ_FAST, read::get)
        .access(&["RO access"])
        .doc("1.0.0", "O(1)", "Returns the string value of a key.")
        .syntax("key"),
    row("getdel", 2, WRITE_FAST, read::getdel)
        .access(&["RW access delete"])
        .since("6.2.0")
        .summary("Returns the string value of a key and deletes the key.")
        .syntax("key"),
    row("getex", -2, WRITE_FAST, read::getex)
        .access(&["RW access update"])
        .since("6.2.0")
        .summary("Returns the string value of a key and optionally sets its expiration time.")
        .syntax(
            "key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
             unix-time-milliseconds | PERSIST]",
        ),
    row("getrange", 4, Flags::READONLY, read::getrange)
        .access(&["RO access"])
        .since("2.4.0")
        .complexity(RANGE_COST)
        .summary("Returns a substring of the string value of a key.")
        .syntax("key start:integer end:integer"),
    row("getset", 3, GROW_FAST, set::getset)
        .access(&["RW access update"])
        .since("1.0.0")
        .summary("Sets the string value of a key and returns its old value.")
        .deprecated("6.2.0", "`SET` with the `!GET` argument")
        .syntax("key value"),
    row("incr", 2, GROW_FAST, change::incr)
        .access(&["RW access update"])
        .since("1.0.0")
        .summary(
            "Increments the integer value of a key by one. Uses 0 as initial value if the key \
             doesn't exist.",
        )
        .syntax("key"),
    row("incrby", 3, GROW_FAST, change::incrby)
        .access(&["RW access update"])
        .since("1.0.0")
        .summary(
            "Increments the integer value of a key by a number. Uses 0 as initial value if the \
             key doesn't exist.",
        )
        .syntax("key increment:integer"),
    row("incrbyfloat", 3, GROW_FAST, change::incrbyfloat)
        .access(&["RW access update"])
        .since("2.6.0")
        .summary(
            "Increments the floating-point value of a key by a number. Uses 0 as initial value if \
             the key doesn't exist.",
        )
        .syntax("key increment:double"),
    row("increx", -2, GROW_FAST, increx::increx)
        .access(&["RW access update"])
        .since("8.8.0")
        .summary(
            "Increments the numeric value of a key within bounds and sets its expiration time. Uses 0 \
             as initial value if the key doesn't exist.",
        )
        .syntax(
            "key [increment: BYINT increment:integer | BYFLOAT increment:double] [LBOUND \
             lower-bound:double] [UBOUND upper-bound:double] [SATURATE] [expiration: EX \
             seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds \
             | PERSIST] [ENX]",
        ),
    row("lcs", -3, Flags::READONLY, lcs::lcs)
        .keys(1, 2, 1)
        .access(&["RO access"])
        .since("7.0.0")
        .complexity("O(N*M) where N and M are the lengths of the two strings.")
        .summary("Finds the longest common subsequence of two strings.")
        .syntax(
            "key1:key key2:key [LEN] [IDX] [MINMATCHLEN min-match-len:integer] [WITHMATCHLEN]",
        ),
    row("mget", -2, READ_FAST, read::mget)
        .keys(1, -1, 1)
        .access(&["RO access"])
        .tips(&["request_policy:multi_shard"])
        .since("1.0.0")
        .complexity("O(N) where N is the number of keys.")
        .summary("Returns the string values of several keys atomically.")
        .syntax("key ..."),
    row("mset", -3, GROW, set::mset)
        .keys(1, -1, 2)
        .access(&["OW update"])
        .tips(&[
            "request_policy:multi_shard",
            "response_policy:all_succeeded",
        ])
        .since("1.0.1")
        .complexity("O(N) where N is the number of keys.")
        .summary("Sets the string values of several keys atomically.")
        .syntax("(data: key value) ..."),
    row("msetex", -4, GROW, set::msetex)
        .counted_pairs(1)
        .access(&["OW update"])
        .tips(&[
            "request_policy:multi_shard",
            "response_policy:all_succeeded",
        ])
        .since("8.4.0")
        .complexity("O(N) where N is the number of keys.")
        .summary(
            "Sets the string values of several keys atomically, optionally with a shared \
             expiration time, and optionally only if all or none of the keys exist.",
        )
        .syntax(
            "numkeys (data: key value) ... [condition: NX | XX] [expiration: EX seconds | PX \
             milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        ),
    row("msetnx", -3, GROW, set::msetnx)
        .keys(1, -1, 2)
        .access(&["OW insert"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .since("1.0.1")
        .complexity("O(N) where N is the number of keys.")
        .summary(
            "Sets the string values of several keys atomically, only if none of the keys exist.",
        )
        .syntax("(data: key value) ..."),
    row("psetex", 4, GROW, set::psetex)
        .access(&["OW update"])
        .since("2.6.0")
        .summary("Sets the string value and the expiration time in milliseconds of a key.")
        .deprecated("2.6.12", "`SET` with the `PX` argument")
        .syntax("key milliseconds value"),
    row("set", -3, GROW, set::set)
        .access(&["RW access update variable_flags"])
        .since("1.0.0")
        .summary(
            "Sets the string value of a key, ignoring its type. Creates the key if it doesn't \
             exist.",
        )
        .history(&[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            (
                "7.0.0",
                "Allowed the `NX` and `GET` options to be used together.",
            ),
            (
                "8.4.0",
                "Added the `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE` options.",
            ),
        ])
        .syntax(
            "key value [condition: NX | XX | IFEQ ifeq-value@8.4.0 | IFNE ifne-value@8.4.0 | \
             IFDEQ ifdeq-digest@8.4.0 | IFDNE ifdne-digest@8.4.0]@2.6.12 [GET@6.2.0] \
             [expiration: EX seconds@2.6.12 | PX milliseconds@2.6.12 | EXAT \
             unix-time-seconds@6.2.0 | PXAT unix-time-milliseconds@6.2.0 | KEEPTTL@6.0.0]",
        ),
    row("setex", 4, GROW, set::setex)
        .access(&["OW update"])
        .since("2.0.0")
        .summary("Sets the string value and the expiration time in seconds of a key.")
        .deprecated("2.6.12", "`SET` with the `EX` argument")
        .syntax("key seconds value"),
    row("setnx", 3, GROW_FAST, set::setnx)
        .access(&["OW insert"])
        .since("1.0.0")
        .summary("Sets the string value of a key, only if the key doesn't exist.")
        .deprecated("2.6.12", "`SET` with the `NX` argument")
        .syntax("key value"),
    row("setrange", 4, GROW, change::setrange)
        .access(&["RW update"])
        .since("2.2.0")
        .complexity("O(1) for a small value, else O(M) where M is the length of the value.")
        .summary(
            "Overwrites a part of a string value, starting at an offset. Creates the key if it \
             doesn't exist.",
        )
        .syntax("key offset value"),
    row("strlen", 2, READ_FAST, read::strlen)
        .access(&["RO"])
        .doc("2.2.0", "O(1)", "Returns the length of a string value.")
        .syntax("key"),
    row("substr", 4, Flags::READONLY, read::getrange)
        .access(&["RO access"])
        .since("1.0.0")
        .complexity(RANGE_COST)
        .summary("Returns a substring of a string value.")
        .deprecated("2.0.0", "`GETRANGE`")
        .syntax("key start:integer end:integer"),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROW_FAST: Flags = GROW.or(Flags::FAST);
const RANGE_COST: &str = "O(N) where N is the length of the returned string.";

crate::family!(Handler, Group::String, Flags::NONE, keys(1, 1, 1));

/// Writes a string.
#[inline]
fn reply_str(reply: &mut Reply, string: &Str) {
    reply.bulk(string.text(&mut itoa::Buffer::new()));
}
