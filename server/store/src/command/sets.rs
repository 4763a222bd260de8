//! The set commands. This file has their rows, and the handlers are in submodules: `change` (SADD,
//! SADDEX, SREM, SMOVE), `read` (SMEMBERS, SISMEMBER, SSCAN), `random` (SPOP, SRANDMEMBER) and
//! `combine` (SINTER, SUNION, SDIFF).

mod change;
mod combine;
mod random;
mod read;
#[cfg(test)]
mod tests;

use punctual_rdb::listpack::Element;
use punctual_resp::Reply;

use crate::command::parts::add::addex;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};
use crate::value::set::Set;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("sadd", -3, GROW.or(Flags::FAST), change::sadd)
        .access(&["RW insert"])
        .since("1.0.0")
        .complexity("O(1) for each member added, so O(N) to add N members.")
        .summary("Adds members to a set. Creates the key if it doesn't exist.")
        .history(MANY_MEMBERS)
        .syntax("key member ..."),
    row("saddex", -5, GROW.or(Flags::FAST), addex::<Set>)
        .access(&["RW update"])
        .since("8.12.0")
        .complexity("O(N) where N is the number of members being added.")
        .summary("Adds members to a set, and optionally sets their expiration time.")
        .syntax(
            "key [condition: MNX | MXX] [expiration: EX seconds | PX milliseconds | EXAT \
             unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] MEMBERS \
             (nummembers member ...)",
        ),
    row("scard", 2, READ_FAST, read::scard)
        .access(&["RO"])
        .doc("1.0.0", "O(1)", "Returns the number of members in a set.")
        .syntax("key"),
    row("sdiff", -2, Flags::READONLY, combine::sdiff)
        .keys(1, -1, 1)
        .access(&["RO access"])
        .tips(ANY_ORDER)
        .doc("1.0.0", ALL_COST, "Returns the difference of sets.")
        .syntax("key ..."),
    row("sdiffcard", -3, Flags::READONLY, combine::sdiffcard)
        .counted_keys(1)
        .access(&["RO access"])
        .since("8.10.0")
        .complexity(ALL_COST)
        .summary("Returns the number of members of the difference of sets.")
        .syntax("numkeys key ... [LIMIT limit]"),
    row("sdiffstore", -3, GROW, combine::sdiffstore)
        .keys(1, -1, 1)
        .access(&["OW update", "RO access"])
        .doc("1.0.0", ALL_COST, "Stores the difference of sets in a key.")
        .syntax("destination:key key:key1 ..."),
    row("sinter", -2, Flags::READONLY, combine::sinter)
        .keys(1, -1, 1)
        .access(&["RO access"])
        .tips(ANY_ORDER)
        .doc("1.0.0", SMALLEST_COST, "Returns the intersection of sets.")
        .syntax("key ..."),
    row("sintercard", -3, Flags::READONLY, combine::sintercard)
        .counted_keys(1)
        .access(&["RO access"])
        .since("7.0.0")
        .complexity(SMALLEST_COST)
        .summary("Returns the number of members of the intersection of sets.")
        .syntax("numkeys key ... [LIMIT limit]"),
    row("sinterstore", -3, GROW, combine::sinterstore)
        .keys(1, -1, 1)
        .access(&["RW update", "RO access"])
        .since("1.0.0")
        .complexity(SMALLEST_COST)
        .summary("Stores the intersection of sets in a key.")
        .syntax("destination:key key:key1 ..."),
    row("sismember", 3, READ_FAST, read::sismember)
        .access(&["RO"])
        .since("1.0.0")
        .summary("Determines whether a member belongs to a set.")
        .syntax("key member"),
    row("smembers", 2, Flags::READONLY, read::smembers)
        .access(&["RO access"])
        .tips(ANY_ORDER)
        .since("1.0.0")
        .complexity("O(N) where N is the number of members in the set.")
        .summary("Returns all members of a set.")
        .syntax("key"),
    row("smismember", -3, READ_FAST, read::smismember)
        .access(&["RO access"])
        .since("6.2.0")
        .complexity("O(N) where N is the number of members checked.")
        .summary("Determines for each of several members whether it belongs to a set.")
        .syntax("key member ..."),
    row("smove", 4, WRITE_FAST, change::smove)
        .keys(1, 2, 1)
        .access(&["RW access delete", "RW insert"])
        .doc("1.0.0", "O(1)", "Moves a member from one set to another.")
        .syntax("source:key destination:key1 member"),
    row("spop", -2, WRITE_FAST, random::spop)
        .access(&["RW access delete"])
        .tips(&["nondeterministic_output"])
        .since("1.0.0")
        .complexity("O(1) without a count, else O(N) where N is the count.")
        .summary(
            "Removes and returns random members of a set. Deletes the set if no members remain.",
        )
        .history(&[("3.2.0", "Added the `count` argument.")])
        .syntax("key [count@3.2.0]"),
    row("srandmember", -2, Flags::READONLY, random::srandmember)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("1.0.0")
        .complexity("O(1) without a count, else O(N) where N is the absolute value of the count.")
        .summary("Returns random members of a set.")
        .history(&[("2.6.0", "Added the optional `count` argument.")])
        .syntax("key [count@2.6.0]"),
    row("srem", -3, WRITE_FAST, change::srem)
        .access(&["RW delete"])
        .since("1.0.0")
        .complexity("O(N) where N is the number of members to be removed.")
        .summary("Removes members from a set. Deletes the set if no members remain.")
        .history(MANY_MEMBERS)
        .syntax("key member ..."),
    row("sscan", -3, Flags::READONLY, read::sscan)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .complexity(
            "O(1) for each call, O(N) for a complete iteration, where N is the number of members \
             in the set.",
        )
        .summary("Iterates over the members of a set.")
        .syntax("key cursor [MATCH pattern] [COUNT count]"),
    row("sunion", -2, Flags::READONLY, combine::sunion)
        .keys(1, -1, 1)
        .access(&["RO access"])
        .tips(ANY_ORDER)
        .doc("1.0.0", ALL_COST, "Returns the union of sets.")
        .syntax("key ..."),
    row("sunioncard", -3, Flags::READONLY, combine::sunioncard)
        .counted_keys(1)
        .access(&["RO access"])
        .since("8.10.0")
        .complexity(ALL_COST)
        .summary("Returns the number of members of the union of sets.")
        .syntax("numkeys key ... [APPROX] [LIMIT limit]"),
    row("sunionstore", -3, GROW, combine::sunionstore)
        .keys(1, -1, 1)
        .access(&["OW update", "RO access"])
        .doc("1.0.0", ALL_COST, "Stores the union of sets in a key.")
        .syntax("destination:key key:key1 ..."),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const MANY_MEMBERS: &[(&str, &str)] = &[("2.4.0", "Accepts multiple `member` arguments.")];
const ALL_COST: &str = "O(N) where N is the total number of members in all sets.";
const SMALLEST_COST: &str =
    "O(N*M) worst case, where N is the size of the smallest set and M is the number of sets.";

crate::family!(Handler, Group::Set, Flags::NONE, keys(1, 1, 1));

/// Writes a member.
#[inline]
fn reply_member(reply: &mut Reply, member: Element<'_>) {
    match member {
        Element::Bytes(text) => reply.bulk(text),
        Element::Int(int) => reply.bulk_int(int),
    }
}

/// Writes all members of a set.
fn reply_members(reply: &mut Reply, set: &Set) {
    reply.set(set.len());
    set.iter().for_each(|member| reply_member(reply, member));
}
