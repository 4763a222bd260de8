//! Rows of the commands for the deadlines of members: SEXPIRE and its relatives for sets, as in
//! Redis 8.12, and ZEXPIRE and its relatives, which Redis does not have, for sorted sets. The
//! handlers are in `parts.rs`.

use crate::command::parts::{expire, persist, ttl};
use crate::command::timers::NOT_IN_REDIS;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};
use crate::value::set::Set;
use crate::value::zset::Zset;

/// Returns a row of a command that sets or removes deadlines.
const fn set(name: &'static str, arity: i32, group: Group, handler: Handler) -> Command {
    let flags = Flags::WRITE.or(Flags::FAST);
    Command::new(name, arity, flags, group, handler)
        .keys(1, 1, 1)
        .access(&["RW update"])
}

/// Returns a row of a command that replies deadlines.
const fn get(name: &'static str, arity: i32, group: Group, handler: Handler) -> Command {
    let flags = Flags::READONLY.or(Flags::FAST);
    Command::new(name, arity, flags, group, handler)
        .keys(1, 1, 1)
        .access(&["RO access"])
}

/// Returns a row of a command that replies the time until deadlines.
const fn left(name: &'static str, arity: i32, group: Group, handler: Handler) -> Command {
    get(name, arity, group, handler).tips(&["nondeterministic_output"])
}

/// The rows for a type of collection. `$letter` begins the names of the commands, and `$set` is the
/// name of the type in their summaries.
macro_rules! members {
    (($group:expr, $since:expr, $letter:literal, $set:literal)
     $($row:ident($name:literal, $arity:literal, $handler:expr)
         $begin:literal $end:literal $syntax:literal;)*) => {
        &[$(
            $row(concat!($letter, $name), $arity, $group, $handler)
                .since($since)
                .complexity("O(N) where N is the number of specified members.")
                .summary(concat!($begin, $set, $end))
                .syntax($syntax),
        )*]
    };
    ($type:ty, $group:expr, $since:expr, $letter:literal, $set:literal) => {
        members! {
            ($group, $since, $letter, $set)
            set("expire", -6, expire::<$type, 1000, false>)
                "Sets the expiration time of " " members in seconds."
                "key seconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member ...)";
            set("expireat", -6, expire::<$type, 1000, true>)
                "Sets the expiration time of " " members to a Unix timestamp."
                "key unix-time-seconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member \
                 ...)";
            get("expiretime", -5, ttl::<$type, 1000, true>)
                "Returns the expiration times of " " members as Unix timestamps."
                "key MEMBERS (nummembers member ...)";
            set("persist", -5, persist::<$type>)
                "Removes the expiration times of " " members."
                "key MEMBERS (nummembers member ...)";
            set("pexpire", -6, expire::<$type, 1, false>)
                "Sets the expiration time of " " members in milliseconds."
                "key milliseconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member ...)";
            set("pexpireat", -6, expire::<$type, 1, true>)
                "Sets the expiration time of " " members to a Unix timestamp in milliseconds."
                "key unix-time-milliseconds [condition: NX | XX | GT | LT] MEMBERS (nummembers \
                 member ...)";
            get("pexpiretime", -5, ttl::<$type, 1, true>)
                "Returns the expiration times of " " members as Unix timestamps in milliseconds."
                "key MEMBERS (nummembers member ...)";
            left("pttl", -5, ttl::<$type, 1, false>)
                "Returns the remaining times to live of " " members in milliseconds."
                "key MEMBERS (nummembers member ...)";
            left("ttl", -5, ttl::<$type, 1000, false>)
                "Returns the remaining times to live of " " members in seconds."
                "key MEMBERS (nummembers member ...)";
        }
    };
}

/// Rows for sets.
pub static SETS: &[Command] = members!(Set, Group::Set, "8.12.0", "s", "set");

/// Rows for sorted sets.
pub static SORTED_SETS: &[Command] =
    members!(Zset, Group::SortedSet, NOT_IN_REDIS, "z", "sorted set");
