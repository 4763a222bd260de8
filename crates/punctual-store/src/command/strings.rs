//! Strings: the family's rows. `read` has the readers and GETEX, `set` SET and its variants, `change` INCR, APPEND and
//! SETRANGE, `lcs` the longest common subsequence.

mod change;
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
        .doc(
            "2.0.0",
            "O(1) amortised for short values; a string that grows gets room to spare.",
            "Appends to a string, which starts empty if the key is new.",
        ),
    row("decr", 2, GROW_FAST, change::decr)
        .access(&["RW access update"])
        .doc(
            "1.0.0",
            "O(1)",
            "Takes one from an integer, which starts at 0 if the key is new.",
        ),
    row("decrby", 3, GROW_FAST, change::decrby)
        .access(&["RW access update"])
        .doc(
            "1.0.0",
            "O(1)",
            "Takes a number from an integer, which starts at 0 if the key is new.",
        ),
    row("get", 2, READ_FAST, read::get)
        .access(&["RO access"])
        .doc("1.0.0", "O(1)", "Returns the string of a key."),
    row("getdel", 2, WRITE_FAST, read::getdel)
        .access(&["RW access delete"])
        .doc(
            "6.2.0",
            "O(1)",
            "Returns the string of a key and deletes the key.",
        ),
    row("getex", -2, WRITE_FAST, read::getex)
        .access(&["RW access update"])
        .doc(
            "6.2.0",
            "O(1)",
            "Returns the string of a key and gives the key another expiration, if asked to.",
        ),
    row("getrange", 4, Flags::READONLY, read::getrange)
        .access(&["RO access"])
        .doc("2.4.0", RANGE_COST, "Returns a part of a string."),
    row("getset", 3, GROW_FAST, set::getset)
        .access(&["RW access update"])
        .doc(
            "1.0.0",
            "O(1)",
            "Sets the string of a key and returns the one before.",
        )
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    row("incr", 2, GROW_FAST, change::incr)
        .access(&["RW access update"])
        .doc(
            "1.0.0",
            "O(1)",
            "Adds one to an integer, which starts at 0 if the key is new.",
        ),
    row("incrby", 3, GROW_FAST, change::incrby)
        .access(&["RW access update"])
        .doc(
            "1.0.0",
            "O(1)",
            "Adds a number to an integer, which starts at 0 if the key is new.",
        ),
    row("incrbyfloat", 3, GROW_FAST, change::incrbyfloat)
        .access(&["RW access update"])
        .doc(
            "2.6.0",
            "O(1)",
            "Adds a float to a number, which starts at 0 if the key is new.",
        ),
    row("lcs", -3, Flags::READONLY, lcs::lcs)
        .keys(1, 2, 1)
        .access(&["RO access"])
        .doc(
            "7.0.0",
            "O(N*M) where N and M are the lengths of the two strings.",
            "Finds the longest common subsequence of two strings.",
        ),
    row("mget", -2, READ_FAST, read::mget)
        .keys(1, -1, 1)
        .access(&["RO access"])
        .tips(&["request_policy:multi_shard"])
        .doc(
            "1.0.0",
            "O(N) where N is the number of keys.",
            "Returns the strings of several keys at once.",
        ),
    row("mset", -3, GROW, set::mset)
        .keys(1, -1, 2)
        .access(&["OW update"])
        .tips(&[
            "request_policy:multi_shard",
            "response_policy:all_succeeded",
        ])
        .doc(
            "1.0.1",
            "O(N) where N is the number of keys.",
            "Sets the strings of several keys at once.",
        ),
    row("msetnx", -3, GROW, set::msetnx)
        .keys(1, -1, 2)
        .access(&["OW insert"])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .doc(
            "1.0.1",
            "O(N) where N is the number of keys.",
            "Sets the strings of several keys at once, only if none of the keys exists.",
        ),
    row("psetex", 4, GROW, set::psetex)
        .access(&["OW update"])
        .doc(
            "2.6.0",
            "O(1)",
            "Sets the string of a key and lets it expire after a number of milliseconds.",
        )
        .deprecated("2.6.12", "`SET` with the `PX` argument"),
    row("set", -3, GROW, set::set)
        .access(&["RW access update variable_flags"])
        .doc(
            "1.0.0",
            "O(1)",
            "Sets the string of a key, whatever it held before.",
        )
        .history(&[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            (
                "7.0.0",
                "Allowed the `NX` and `GET` options to be used together.",
            ),
        ]),
    row("setex", 4, GROW, set::setex)
        .access(&["OW update"])
        .doc(
            "2.0.0",
            "O(1)",
            "Sets the string of a key and lets it expire after a number of seconds.",
        )
        .deprecated("2.6.12", "`SET` with the `EX` argument"),
    row("setnx", 3, GROW_FAST, set::setnx)
        .access(&["OW insert"])
        .doc(
            "1.0.0",
            "O(1)",
            "Sets the string of a key, only if the key is new.",
        )
        .deprecated("2.6.12", "`SET` with the `NX` argument"),
    row("setrange", 4, GROW, change::setrange)
        .access(&["RW update"])
        .doc(
            "2.2.0",
            "O(M) where M is the length of the value, and the zeros that lengthen the string.",
            "Overwrites a part of a string, which is lengthened with zeros as needed.",
        ),
    row("strlen", 2, READ_FAST, read::strlen)
        .access(&["RO"])
        .doc("2.2.0", "O(1)", "Returns the length of a string in bytes."),
    row("substr", 4, Flags::READONLY, read::getrange)
        .access(&["RO access"])
        .doc("1.0.0", RANGE_COST, "Returns a part of a string.")
        .deprecated("2.0.0", "`GETRANGE`"),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROW_FAST: Flags = GROW.or(Flags::FAST);
const RANGE_COST: &str = "O(N) where N is the length of the part.";

/// Creates the row of a command on one key, its first argument.
const fn row(name: &'static str, arity: i32, flags: Flags, handler: Handler) -> Command {
    Command::new(name, arity, flags, Group::String, handler).keys(1, 1, 1)
}

/// Writes a string.
#[inline]
fn reply_str(reply: &mut Reply<'_>, string: &Str) {
    reply.bulk(string.text(&mut itoa::Buffer::new()));
}
