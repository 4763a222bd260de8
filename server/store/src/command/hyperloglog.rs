//! HyperLogLog: estimates the number of distinct elements from 16,384 registers of 6 bits, with a
//! standard error of 0.81 %. The value is a string with the same bytes as in Redis, so GET and SET
//! can transfer it.
//!
//! The sketch is from P. Flajolet, É. Fusy, O. Gandouet and F. Meunier, "HyperLogLog: the analysis
//! of a near-optimal cardinality estimation algorithm" (2007), with a hash of 64 bits; the estimate
//! is from O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).
//!
//! `sketch` has the format of the string: a header of 16 bytes, then plain registers (`dense`) or
//! runs (`sparse`). `hash` maps elements to registers, `estimate` registers to a number. `commands`
//! has PFADD, PFCOUNT and PFMERGE, `debug` PFDEBUG and PFSELFTEST.

mod commands;
mod debug;
mod dense;
mod estimate;
mod hash;
mod sketch;
mod sparse;
#[cfg(test)]
mod tests;

pub(crate) use sketch::Union;

use crate::error::Error;
use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("pfadd", -2, GROW.or(Flags::FAST), commands::pfadd)
        .keys(1, 1, 1)
        .access(&["RW insert"])
        .since(SINCE)
        .complexity("O(1) for each element added.")
        .summary("Adds elements to a HyperLogLog. Creates the key if it doesn't exist.")
        .syntax("key [element ...]"),
    row(
        "pfcount",
        -2,
        Flags::READONLY.or(Flags::MAY_REPLICATE),
        commands::pfcount,
    )
    .keys(1, -1, 1)
    .access(&["RW access"])
    .since(SINCE)
    .complexity(
        "O(1) with a very small average constant time for one key; O(N) with much greater \
         constant times for N keys.",
    )
    .summary("Returns the approximated cardinality of the union of HyperLogLogs.")
    .syntax("key ..."),
    row("pfdebug", 3, GROW.or(Flags::ADMIN), debug::pfdebug)
        .keys(2, 2, 1)
        .access(&["RW access"])
        .since(SINCE)
        .complexity("N/A")
        .summary("An internal command for debugging HyperLogLog values.")
        .internal()
        .syntax("subcommand key"),
    row("pfmerge", -2, GROW, commands::pfmerge)
        .keys(1, -1, 1)
        .access(&["RW access insert", "RO access"])
        .since(SINCE)
        .complexity("O(N) to merge N HyperLogLogs, with high constant times.")
        .summary("Merges HyperLogLogs into one.")
        .syntax("destkey:key [sourcekey:key1 ...]"),
    row("pfselftest", 1, Flags::ADMIN, debug::pfselftest)
        .since(SINCE)
        .complexity("N/A")
        .summary("An internal command for testing HyperLogLog values.")
        .internal(),
];

const SINCE: &str = "2.8.9";
const GROW: Flags = Flags::WRITE.or(Flags::DENYOOM);

/// Number of registers: 2^14.
const REGISTERS: usize = 1 << hash::INDEX_BITS;

const NOT_A_SKETCH: Error = Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: Error = Error::fixed("INVALIDOBJ Corrupted HLL object detected");

crate::family!(Handler, Group::HyperLogLog, Flags::NONE);
