//! Rows of the commands for the deadlines of members: SEXPIRE and its relatives for sets, as in
//! Redis 8.12, and ZEXPIRE and its relatives, which Redis does not have, for sorted sets. The
//! handlers are in `parts.rs`.

use crate::command::parts::{expire, persist, ttl};
use crate::command::timers::NOT_IN_REDIS;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};
use crate::value::set::Set;
use crate::value::zset::Zset;

const READ: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE: Flags = Flags::WRITE.or(Flags::FAST);

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    group: Group,
    handler: Handler,
) -> Command {
    Command::new(name, arity, flags, group, handler).keys(1, 1, 1)
}

/// The rows for a type of collection; `$letter` begins the names of the commands.
macro_rules! members {
    ($type:ty, $group:expr, $since:expr, $letter:literal, $set:literal) => {
        &[
            members!(
                $group,
                $since,
                "RW update",
                expire::<$type, 1000, false>,
                concat!($letter, "expire"),
                -6,
                WRITE,
                concat!("Sets the expiration time of ", $set, " members in seconds."),
                "key seconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member ...)"
            ),
            members!(
                $group,
                $since,
                "RW update",
                expire::<$type, 1000, true>,
                concat!($letter, "expireat"),
                -6,
                WRITE,
                concat!(
                    "Sets the expiration time of ",
                    $set,
                    " members to a Unix timestamp."
                ),
                "key unix-time-seconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member \
                 ...)"
            ),
            members!(
                $group,
                $since,
                "RO access",
                ttl::<$type, 1000, true>,
                concat!($letter, "expiretime"),
                -5,
                READ,
                concat!(
                    "Returns the expiration times of ",
                    $set,
                    " members as Unix timestamps."
                ),
                "key MEMBERS (nummembers member ...)"
            ),
            members!(
                $group,
                $since,
                "RW update",
                persist::<$type>,
                concat!($letter, "persist"),
                -5,
                WRITE,
                concat!("Removes the expiration times of ", $set, " members."),
                "key MEMBERS (nummembers member ...)"
            ),
            members!(
                $group,
                $since,
                "RW update",
                expire::<$type, 1, false>,
                concat!($letter, "pexpire"),
                -6,
                WRITE,
                concat!(
                    "Sets the expiration time of ",
                    $set,
                    " members in milliseconds."
                ),
                "key milliseconds [condition: NX | XX | GT | LT] MEMBERS (nummembers member ...)"
            ),
            members!(
                $group,
                $since,
                "RW update",
                expire::<$type, 1, true>,
                concat!($letter, "pexpireat"),
                -6,
                WRITE,
                concat!(
                    "Sets the expiration time of ",
                    $set,
                    " members to a Unix timestamp in milliseconds."
                ),
                "key unix-time-milliseconds [condition: NX | XX | GT | LT] MEMBERS (nummembers \
                 member ...)"
            ),
            members!(
                $group,
                $since,
                "RO access",
                ttl::<$type, 1, true>,
                concat!($letter, "pexpiretime"),
                -5,
                READ,
                concat!(
                    "Returns the expiration times of ",
                    $set,
                    " members as Unix timestamps in milliseconds."
                ),
                "key MEMBERS (nummembers member ...)"
            ),
            members!(
                $group,
                $since,
                "RO access",
                ttl::<$type, 1, false>,
                concat!($letter, "pttl"),
                -5,
                READ,
                concat!(
                    "Returns the remaining times to live of ",
                    $set,
                    " members in milliseconds."
                ),
                "key MEMBERS (nummembers member ...)"
            )
            .tips(&["nondeterministic_output"]),
            members!(
                $group,
                $since,
                "RO access",
                ttl::<$type, 1000, false>,
                concat!($letter, "ttl"),
                -5,
                READ,
                concat!(
                    "Returns the remaining times to live of ",
                    $set,
                    " members in seconds."
                ),
                "key MEMBERS (nummembers member ...)"
            )
            .tips(&["nondeterministic_output"]),
        ]
    };
    ($group:expr, $since:expr, $access:literal, $handler:expr, $name:expr, $arity:literal,
        $flags:expr, $summary:expr, $syntax:literal) => {
        row($name, $arity, $flags, $group, $handler)
            .access(&[$access])
            .since($since)
            .complexity("O(N) where N is the number of specified members.")
            .summary($summary)
            .syntax($syntax)
    };
}

/// Rows for sets.
pub static SETS: &[Command] = members!(Set, Group::Set, "8.12.0", "s", "set");

/// Rows for sorted sets.
pub static SORTED_SETS: &[Command] =
    members!(Zset, Group::SortedSet, NOT_IN_REDIS, "z", "sorted set");
