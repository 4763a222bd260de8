//! The hash commands. This file has their rows, and the handlers are in submodules: `read` (HGET,
//! HGETALL, HSCAN), `random` (HRANDFIELD), `write` (HSET, HDEL, HINCRBY) and `extended` (HGETDEL,
//! HGETEX, HSETEX). `command/parts.rs` has HEXPIRE, HTTL and HPERSIST.
//!
//! A command that names due fields expires them first (`Cx::expire_due_parts`), as commands do
//! with due keys. A command that returns all fields skips due ones.

mod extended;
mod random;
mod read;
#[cfg(test)]
mod tests;
mod write;

use punctual_rdb::listpack::Element;

use crate::command::parts;
use crate::error::Error;
use crate::keyspace::records::Id;
use crate::spec::{Flags, Group};
use crate::turn::cx::Place;
use crate::turn::{Command, Cx, Handler};
use crate::value::Kind;
use crate::value::hash::Hash;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("hdel", -3, WRITE_FAST, write::hdel)
        .access(&["RW delete"])
        .since("2.0.0")
        .complexity("O(N) where N is the number of fields to be removed.")
        .summary("Deletes fields of a hash. Deletes the hash if no fields remain.")
        .history(&[("2.4.0", "Accepts multiple `field` arguments.")])
        .syntax("key field ..."),
    row("hexists", 3, READ_FAST, read::hexists)
        .access(&["RO"])
        .since("2.0.0")
        .summary("Determines whether a field exists in a hash.")
        .syntax("key field"),
    row("hexpire", -6, GROW_FAST, parts::expire::<Hash, 1000, false>)
        .access(&["RW update"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Sets the expiration time of hash fields in seconds.")
        .syntax("key seconds [condition: NX | XX | GT | LT] FIELDS (numfields field ...)"),
    row(
        "hexpireat",
        -6,
        GROW_FAST,
        parts::expire::<Hash, 1000, true>,
    )
    .access(&["RW update"])
    .since("7.4.0")
    .complexity(PER_FIELD)
    .summary("Sets the expiration time of hash fields to a Unix timestamp.")
    .syntax(
        "key unix-time-seconds [condition: NX | XX | GT | LT] FIELDS (numfields field \
             ...)",
    ),
    row("hexpiretime", -5, READ_FAST, parts::ttl::<Hash, 1000, true>)
        .access(&["RO access"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Returns the expiration times of hash fields as Unix timestamps.")
        .syntax("key FIELDS (numfields field ...)"),
    row("hget", 3, READ_FAST, read::hget)
        .access(&["RO access"])
        .doc("2.0.0", "O(1)", "Returns the value of a field in a hash.")
        .syntax("key field"),
    row("hgetall", 2, Flags::READONLY, read::hgetall)
        .access(&["RO access"])
        .tips(UNORDERED)
        .doc("2.0.0", WHOLE, "Returns all fields and values of a hash.")
        .syntax("key"),
    row("hgetdel", -5, WRITE_FAST, extended::hgetdel)
        .access(&["RW access delete"])
        .since("8.0.0")
        .complexity(PER_FIELD)
        .summary(
            "Returns the values of fields of a hash and deletes the fields. Deletes the hash if no \
             fields remain.",
        )
        .syntax("key FIELDS (numfields field ...)"),
    row("hgetex", -5, WRITE_FAST, extended::hgetex)
        .access(&["RW access update"])
        .since("8.0.0")
        .complexity(PER_FIELD)
        .summary(
            "Returns the values of fields of a hash, and optionally sets or removes their \
             expiration times.",
        )
        .syntax(
            "key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
             unix-time-milliseconds | PERSIST] FIELDS (numfields field ...)",
        ),
    row("hincrby", 4, GROW_FAST, write::hincrby)
        .access(&["RW access update"])
        .since("2.0.0")
        .summary(
            "Increments the integer value of a field in a hash. Uses 0 as initial value if the \
             field doesn't exist.",
        )
        .syntax("key field increment:integer"),
    row("hincrbyfloat", 4, GROW_FAST, write::hincrbyfloat)
        .access(&["RW access update"])
        .since("2.6.0")
        .summary(
            "Increments the floating-point value of a field in a hash. Uses 0 as initial value if \
             the field doesn't exist.",
        )
        .syntax("key field increment:double"),
    row("hkeys", 2, Flags::READONLY, read::hkeys)
        .access(&["RO access"])
        .tips(UNORDERED)
        .doc("2.0.0", WHOLE, "Returns all field names of a hash.")
        .syntax("key"),
    row("hlen", 2, READ_FAST, read::hlen)
        .access(&["RO"])
        .since("2.0.0")
        .summary("Returns the number of fields in a hash.")
        .syntax("key"),
    row("hmget", -3, READ_FAST, read::hmget)
        .access(&["RO access"])
        .since("2.0.0")
        .complexity("O(N) where N is the number of fields requested.")
        .summary("Returns the values of several fields in a hash.")
        .syntax("key field ..."),
    row("hmset", -4, GROW_FAST, write::hmset)
        .access(&["RW update"])
        .since("2.0.0")
        .complexity("O(N) where N is the number of fields set.")
        .summary("Sets the values of several fields in a hash.")
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs")
        .syntax("key (data: field value) ..."),
    row("hpersist", -5, WRITE_FAST, parts::persist::<Hash>)
        .access(&["RW update"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Removes the expiration times of hash fields.")
        .syntax("key FIELDS (numfields field ...)"),
    row("hpexpire", -6, GROW_FAST, parts::expire::<Hash, 1, false>)
        .access(&["RW update"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Sets the expiration time of hash fields in milliseconds.")
        .syntax("key milliseconds [condition: NX | XX | GT | LT] FIELDS (numfields field ...)"),
    row("hpexpireat", -6, GROW_FAST, parts::expire::<Hash, 1, true>)
        .access(&["RW update"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Sets the expiration time of hash fields to a Unix timestamp in milliseconds.")
        .syntax(
            "key unix-time-milliseconds [condition: NX | XX | GT | LT] FIELDS (numfields \
             field ...)",
        ),
    row("hpexpiretime", -5, READ_FAST, parts::ttl::<Hash, 1, true>)
        .access(&["RO access"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Returns the expiration times of hash fields as Unix timestamps in milliseconds.")
        .syntax("key FIELDS (numfields field ...)"),
    row("hpttl", -5, READ_FAST, parts::ttl::<Hash, 1, false>)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Returns the remaining times to live of hash fields in milliseconds.")
        .syntax("key FIELDS (numfields field ...)"),
    row("hrandfield", -2, Flags::READONLY, random::hrandfield)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("6.2.0")
        .complexity("O(N) where N is the number of fields returned.")
        .summary("Returns one or more random fields of a hash.")
        .syntax("key [options: count [WITHVALUES]]"),
    row("hscan", -3, Flags::READONLY, read::hscan)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("2.8.0")
        .complexity(
            "O(1) for each call, O(N) for a complete iteration, where N is the number of fields \
             in the hash.",
        )
        .summary("Iterates over the fields and values of a hash.")
        .history(&[("7.4.0", "Added the `NOVALUES` option.")])
        .syntax("key cursor [MATCH pattern] [COUNT count] [NOVALUES]"),
    row("hset", -4, GROW_FAST, write::hset)
        .access(&["RW update"])
        .since("2.0.0")
        .complexity("O(1) for each field, so O(N) for N fields.")
        .summary("Creates fields of a hash or changes their values.")
        .history(&[("4.0.0", "Accepts multiple `field` and `value` arguments.")])
        .syntax("key (data: field value) ..."),
    row("hsetex", -6, GROW_FAST, extended::hsetex)
        .access(&["RW update"])
        .since("8.0.0")
        .complexity("O(N) where N is the number of fields being set.")
        .summary("Sets the values of fields of a hash, and optionally their expiration time.")
        .syntax(
            "key [condition: FNX | FXX] [expiration: EX seconds | PX milliseconds | EXAT \
             unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] FIELDS (numfields \
             (data: field value) ...)",
        ),
    row("hsetnx", 4, GROW_FAST, write::hsetnx)
        .access(&["RW insert"])
        .since("2.0.0")
        .summary("Sets the value of a field in a hash, only if the field doesn't exist.")
        .syntax("key field value"),
    row("hstrlen", 3, READ_FAST, read::hstrlen)
        .access(&["RO"])
        .since("3.2.0")
        .summary("Returns the length of the value of a field in a hash.")
        .syntax("key field"),
    row("httl", -5, READ_FAST, parts::ttl::<Hash, 1000, false>)
        .access(&["RO access"])
        .tips(&["nondeterministic_output"])
        .since("7.4.0")
        .complexity(PER_FIELD)
        .summary("Returns the remaining times to live of hash fields in seconds.")
        .syntax("key FIELDS (numfields field ...)"),
    row("hvals", 2, Flags::READONLY, read::hvals)
        .access(&["RO access"])
        .tips(UNORDERED)
        .doc("2.0.0", WHOLE, "Returns all values of a hash.")
        .syntax("key"),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW_FAST: Flags = WRITE_FAST.or(Flags::DENYOOM);
const PER_FIELD: &str = "O(N) where N is the number of specified fields.";
const WHOLE: &str = "O(N) where N is the size of the hash.";
const UNORDERED: &[&str] = &["nondeterministic_output_order"];

/// The part of HIMPORT SET that changes the keyspace. It has the arguments of HSET, and replaces
/// the hash. The server calls it after its own checks, so it is no command here.
pub const IMPORT: Command = row("hset", -4, Flags::WRITE.or(Flags::DENYOOM), write::import);

crate::family!(Handler, Group::Hash, Flags::NONE, keys(1, 1, 1));

/// Finds a hash to read, and expires the named fields that are due. Counts hits and misses
/// and sends events as [`Cx::read`] does.
#[inline]
fn find_to_read<'k>(
    cx: &mut Cx,
    key: &[u8],
    names: impl Iterator<Item = &'k [u8]>,
) -> Result<Option<(Place, Id)>, Error> {
    let (place, found) = cx.seek_to_read(key);
    let Some(id) = found else {
        return Ok(None);
    };
    cx.view::<Hash>(place, id)?;
    Ok(cx
        .expire_due_parts(place, id, key, names)
        .map(|id| (place, id)))
}

/// Returns the value of a field, unless the field is due.
#[inline]
fn value_of<'h>(hash: &'h Hash, name: &[u8], now: crate::time::Now) -> Option<Element<'h>> {
    let (value, deadline) = hash.get(name)?;
    (!now.is_due(deadline)).then_some(value)
}

/// Adds a hash of one field; the key must not exist.
fn add_hash_of(cx: &mut Cx, place: Place, key: &[u8], name: &[u8], value: &[u8]) {
    let hash = Hash::of_pairs(std::iter::once((name, value)), &cx.limits());
    cx.add_at(place, key, hash.into_value());
}
