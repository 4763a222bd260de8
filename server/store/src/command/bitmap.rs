//! Bitmaps and bit fields in strings. Bit 0 is the highest bit of byte 0; bits after the end of a
//! string are 0. `single` has SETBIT and GETBIT, `range` BITCOUNT and BITPOS, `operation` BITOP,
//! and `field` BITFIELD.

mod field;
mod operation;
mod range;
mod single;
#[cfg(test)]
mod tests;

use punctual_resp::decimal::parse_i64;

use crate::error::Error;
use crate::events::Classes;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Cx, Handler};
use crate::value::Value;
use crate::value::string::Str;

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("bitcount", -2, Flags::READONLY, range::bitcount)
        .access(&["RO access"])
        .since("2.6.0")
        .complexity("O(N)")
        .summary("Counts the number of set bits (population counting) in a string.")
        .history(UNITS)
        .syntax("key [range: start:integer end:integer [unit: BYTE | BIT]@7.0.0]"),
    row("bitfield", -2, GROW, field::bitfield)
        .access(&["RW access update variable_flags"])
        .since("3.2.0")
        .complexity(FIELD_COST)
        .summary("Performs arbitrary bitfield integer operations on a string.")
        .syntax(
            "key [operation: (get-block: GET (encoding offset)) | (write: [overflow-block: \
             OVERFLOW (WRAP | SAT | FAIL)] (write-operation: (set-block: SET (encoding offset \
             value:integer)) | (incrby-block: INCRBY (encoding offset increment:integer))))] \
             ...",
        ),
    row("bitfield_ro", -2, READ_FAST, field::bitfield_ro)
        .access(&["RO access"])
        .since("6.0.0")
        .complexity(FIELD_COST)
        .summary("Performs read-only bitfield integer operations on a string.")
        .syntax("key [get-block: GET (encoding offset)] ..."),
    row("bitop", -4, GROW, operation::bitop)
        .keys(2, -1, 1)
        .access(&["OW update", "RO access"])
        .since("2.6.0")
        .complexity("O(N)")
        .summary("Performs a bitwise operation on strings and stores the result.")
        .syntax(
            "(operation: AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE) destkey:key \
             key:key1 ...",
        ),
    row("bitpos", -3, Flags::READONLY, range::bitpos)
        .access(&["RO access"])
        .since("2.8.7")
        .complexity("O(N)")
        .summary("Finds the first set (1) or clear (0) bit in a string.")
        .history(UNITS)
        .syntax(
            "key bit:integer [range: start:integer [end-unit-block: end:integer [unit: BYTE | \
             BIT]@7.0.0]]",
        ),
    row("getbit", 3, READ_FAST, single::getbit)
        .access(&["RO access"])
        .doc("2.2.0", "O(1)", "Returns the bit at an offset of a string.")
        .syntax("key offset"),
    row("setbit", 4, GROW, single::setbit)
        .access(&["RW access update"])
        .since("2.2.0")
        .summary("Sets or clears the bit at an offset of a string and returns its old value.")
        .syntax("key offset value:integer"),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);
const FIELD_COST: &str = "O(1) for each subcommand.";
const UNITS: &[(&str, &str)] = &[("7.0.0", "Added the `BYTE|BIT` option.")];

const BAD_OFFSET: Error = Error::fixed("ERR bit offset is not an integer or out of range");

crate::family!(Handler, Group::Bitmap, Flags::NONE, keys(1, 1, 1));

/// Parses a bit offset: `number` units of `width` bits. The bit must lie within the maximum length
/// of a string.
fn offset(cx: &Cx, number: &[u8], width: u32) -> Result<u64, Error> {
    parse_i64(number)
        .and_then(|number| u64::try_from(number).ok())
        .and_then(|number| number.checked_mul(u64::from(width)))
        .filter(|bit| bit >> 3 < cx.store().string_max())
        .ok_or(BAD_OFFSET)
}

/// Returns the bytes of a string to change in place, and true if it grew. Creates a missing key,
/// and extends the string with zeros up to byte `last`.
fn grow_string<'c>(
    cx: &'c mut Cx<'_, '_>,
    key: &[u8],
    last: u64,
) -> Result<(&'c mut [u8], bool), Error> {
    let len = usize::try_from(last + 1).map_err(|_| BAD_OFFSET)?;
    let (place, found) = cx.seek_as::<Str>(key)?;
    let (id, longer) = match found {
        None => (cx.add_at(place, key, Value::Str(Str::zeros(len))), true),
        Some(id) => (id, cx.view::<Str>(place, id)?.len() < len),
    };
    Ok((cx.edit::<Str>(place, id)?.at_least(len), longer))
}

/// Commits `count` changed bits or fields of `key`.
fn commit_bits(cx: &mut Cx, key: &[u8], count: u64) {
    cx.commit(key, Classes::STRING, "setbit", count);
}
