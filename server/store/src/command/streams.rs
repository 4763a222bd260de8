//! The stream commands. This file has their rows, and the handlers are in submodules: `add` (XADD,
//! XTRIM, XDEL), `range` (XRANGE), `read` (XREAD, XREADGROUP), `group` (XGROUP), `pending` (XACK,
//! XPENDING), `claim` (XCLAIM, XAUTOCLAIM), `redeliver` (pending entries that XREADGROUP delivers
//! again), `references` (XDELEX, XACKDEL, XNACK) and `info` (XINFO). `retain` (XRETAIN) and `lease`
//! (XGROUP SETLEASE) are commands that Redis does not have. Handlers find their streams through
//! `lookup`.
//!
//! As in Redis, commands that change only consumer groups do not make a WATCH fail
//! (`Turn::commit_group`). Their effects (the commands that replicas and the log get) have explicit
//! IDs, times and counts, so a replay at any time has the same result.

mod add;
mod arguments;
mod budget;
mod claim;
mod effects;
mod group;
#[cfg(test)]
mod idempotence_tests;
mod info;
mod lease;
mod lookup;
#[cfg(test)]
mod model_tests;
mod pending;
mod range;
mod read;
mod redeliver;
mod references;
#[cfg(test)]
mod references_tests;
mod reply;
mod retain;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timed_tests;

use crate::spec::{Flags, Group};
use crate::turn::{Command, Handler};

/// The family's rows.
pub static COMMANDS: &[Command] = &[
    row("xack", -4, WRITE_FAST, pending::xack)
        .access(&["RW update"])
        .since("5.0.0")
        .complexity("O(1) for each message ID processed.")
        .summary("Acknowledges pending entries of a consumer group and returns their number.")
        .syntax("key group id ..."),
    row("xackdel", -6, WRITE_FAST, references::xackdel)
        .access(&["RW delete"])
        .since("8.2.0")
        .complexity("O(1) for each entry ID.")
        .summary(
            "Acknowledges entries of a consumer group and deletes them from the stream, unless \
             `ACKED` is given and other groups still refer to them.",
        )
        .syntax("key group [condition: KEEPREF | DELREF | ACKED] IDS (numids id ...)"),
    row("xadd", -5, GROW_FAST, add::xadd)
        .access(&["RW update"])
        .tips(RANDOM)
        .since("5.0.0")
        .complexity(
            "O(1) to add an entry, O(N) to trim, where N is the number of removed entries.",
        )
        .summary("Appends an entry to a stream. Creates the key if it doesn't exist.")
        .history(&[
            (
                "6.2.0",
                "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option.",
            ),
            ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
            (
                "8.2.0",
                "Added the `KEEPREF`, `DELREF` and `ACKED` options.",
            ),
            ("8.6.0", "Added the `IDMP` and `IDMPAUTO` options."),
        ])
        .syntax(
            "key [NOMKSTREAM@6.2.0] [condition: KEEPREF | DELREF | ACKED] [idmp: (pid: \
             IDMPAUTO producer-id) | IDMP ((pid: producer-id) (iid: idempotent-id))]@8.6.0 \
             [trim: (strategy: MAXLEN | MINID@6.2.0) [operator: (equal: =) | (approximately: \
             ~)] threshold [LIMIT count@6.2.0]] (id-selector: (auto-id: *) | id) (data: field \
             value) ...",
        ),
    row("xautoclaim", -6, WRITE_FAST, claim::xautoclaim)
        .access(&["RW delete"])
        .tips(RANDOM)
        .since("6.2.0")
        .complexity("O(1) if COUNT is small.")
        .summary(
            "Transfers ownership of pending entries of a consumer group that were idle for a \
             minimum time to another consumer.",
        )
        .history(&[(
            "7.0.0",
            "Added an element to the reply array, containing deleted entries the command cleared \
             from the PEL",
        )])
        .syntax("key group consumer min-idle-time start [COUNT count] [JUSTID]"),
    row("xcfgset", -2, WRITE_FAST, add::xcfgset)
        .access(&["RW update"])
        .since("8.6.0")
        .complexity("O(N) where N is the number of messages that are forgotten.")
        .summary(
            "Sets how long a stream remembers idempotent messages, and the maximum number of \
             messages for each producer.",
        )
        .syntax("key [IDMP-DURATION idmp-duration:integer] [IDMP-MAXSIZE idmp-maxsize:integer]"),
    row("xclaim", -6, WRITE_FAST, claim::xclaim)
        .access(&["RW update"])
        .tips(RANDOM)
        .since("5.0.0")
        .complexity("O(log(N)) where N is the number of pending entries of the group.")
        .summary("Transfers ownership of pending entries of a consumer group to another consumer.")
        .syntax(
            "key group consumer min-idle-time id ... [IDLE ms:integer] [TIME \
             unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
        ),
    row("xdel", -3, WRITE_FAST, add::xdel)
        .access(&["RW delete"])
        .since("5.0.0")
        .complexity("O(1) for each entry, regardless of the stream size.")
        .summary("Deletes entries of a stream and returns their number.")
        .syntax("key id ..."),
    row("xdelex", -5, WRITE_FAST, references::xdelex)
        .access(&["RW delete"])
        .since("8.2.0")
        .complexity("O(1) for each entry, regardless of the stream size.")
        .summary(
            "Deletes entries of a stream, and keeps or removes the references of consumer groups \
             to them.",
        )
        .syntax("key [condition: KEEPREF | DELREF | ACKED] IDS (numids id ...)"),
    Command::container("xgroup", Group::Stream, group::SUBCOMMANDS)
        .since("5.0.0")
        .summary("A container for consumer groups commands."),
    row("xidmprecord", 5, GROW_FAST, add::xidmprecord)
        .access(&["RW update"])
        .since("8.6.2")
        .complexity("O(log(N)) where N is the number of messages that are remembered.")
        .summary("An internal command that records the producer's idempotent ID of an entry.")
        .syntax("key pid iid stream-id"),
    Command::container("xinfo", Group::Stream, info::SUBCOMMANDS)
        .since("5.0.0")
        .summary("A container for stream introspection commands."),
    row("xlen", 2, READ_FAST, range::xlen)
        .access(&["RO"])
        .since("5.0.0")
        .summary("Returns the number of entries of a stream.")
        .syntax("key"),
    row("xnack", -7, WRITE_FAST, references::xnack)
        .access(&["RW update"])
        .since("8.8.0")
        .complexity("O(1) for each entry ID.")
        .summary(
            "Releases pending entries of a consumer group, so that other consumers can claim them \
             at once.",
        )
        .syntax(
            "key group (mode: SILENT | FAIL | FATAL) IDS (numids id ...) [RETRYCOUNT count] \
             [FORCE]",
        ),
    row("xpending", -3, Flags::READONLY, pending::xpending)
        .access(&["RO access"])
        .tips(RANDOM)
        .since("5.0.0")
        .complexity(
            "O(N) where N is the number of entries returned, or visited if IDLE is given. The \
             summary is O(N) where N is the number of consumers.",
        )
        .summary("Returns the pending entries of a consumer group, or a summary of them.")
        .history(&[(
            "6.2.0",
            "Added the `IDLE` option and exclusive range intervals.",
        )])
        .syntax(
            "key group [filters: [IDLE min-idle-time:integer@6.2.0] start end count \
             [consumer]]",
        ),
    row("xrange", -4, Flags::READONLY, range::xrange)
        .access(&["RO access"])
        .since("5.0.0")
        .complexity(PER_RETURNED)
        .summary("Returns the entries of a stream in a range of IDs.")
        .history(EXCLUSIVE)
        .syntax("key start end [COUNT count]"),
    Command::new(
        "xread",
        -4,
        Flags::READONLY.or(READS),
        Group::Stream,
        read::xread,
    )
    .stream_keys(1)
    .access(&["RO access"])
    .since("5.0.0")
    .complexity(PER_RETURNED)
    .summary(
        "Returns entries of several streams with IDs greater than the given IDs. Blocks until an \
         entry is available.",
    )
    .history(&[("8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options.")])
    .syntax(
        "[COUNT count] [MAXCOUNT maxcount:integer@8.10.0] [MAXSIZE maxsize:integer@8.10.0] \
             [BLOCK milliseconds] STREAMS (key ... id ...)",
    ),
    Command::new(
        "xreadgroup",
        -7,
        Flags::WRITE.or(READS),
        Group::Stream,
        read::xreadgroup,
    )
    .stream_keys(4)
    .access(&["RO access"])
    .since("5.0.0")
    .complexity(PER_RETURNED)
    .summary(
        "Delivers new entries of several streams to a consumer of a group, or returns the \
         consumer's pending entries. Blocks until an entry is available.",
    )
    .history(&[
        ("8.4.0", "Added the `CLAIM` option."),
        ("8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options."),
    ])
    .syntax(
        "(group-block: GROUP (group consumer)) [COUNT count] [MAXCOUNT \
             maxcount:integer@8.10.0] [MAXSIZE maxsize:integer@8.10.0] \
             [BLOCK milliseconds] [CLAIM min-idle-time:integer@8.4.0] [NOACK] STREAMS (key ... id ...)",
    ),
    row("xretain", -3, GROW_FAST, retain::xretain)
        .access(&["RW update"])
        .since("7.2.0")
        .complexity(
            "O(1) to set the limits, O(N) to trim, where N is the number of removed entries.",
        )
        .summary(
            "Sets, removes or returns the maximum age and the maximum number of a stream's \
             entries.",
        )
        .syntax("key (action: (limits: MAXAGE milliseconds [MAXLEN count]) | PERSIST | GET)"),
    row("xrevrange", -4, Flags::READONLY, range::xrevrange)
        .access(&["RO access"])
        .since("5.0.0")
        .complexity(PER_RETURNED)
        .summary("Returns the entries of a stream in a range of IDs, in reverse order.")
        .history(EXCLUSIVE)
        .syntax("key end start [COUNT count]"),
    row("xsetid", -3, GROW_FAST, add::xsetid)
        .access(&["RW update"])
        .since("5.0.0")
        .summary("An internal command for replicating stream values.")
        .history(&[(
            "7.0.0",
            "Added the `entries_added` and `max_deleted_entry_id` arguments.",
        )])
        .syntax(
            "key last-id [ENTRIESADDED entries-added:integer@7.0.0] [MAXDELETEDID \
             max-deleted-id@7.0.0]",
        ),
    row("xtrim", -4, Flags::WRITE, add::xtrim)
        .access(&["RW delete"])
        .tips(RANDOM)
        .since("5.0.0")
        .complexity(
            "O(N) where N is the number of removed entries. Entries are removed in blocks, so the \
             constant is small.",
        )
        .summary("Removes the oldest entries of a stream.")
        .history(&[
            (
                "6.2.0",
                "Added the `MINID` trimming strategy and the `LIMIT` option.",
            ),
            (
                "8.2.0",
                "Added the `KEEPREF`, `DELREF` and `ACKED` options.",
            ),
        ])
        .syntax(
            "key (trim: (strategy: MAXLEN | MINID@6.2.0) [operator: (equal: =) | \
             (approximately: ~)] threshold [LIMIT count@6.2.0] [condition: KEEPREF | DELREF | \
             ACKED])",
        ),
];

const READ_FAST: Flags = Flags::READONLY.or(Flags::FAST);
const WRITE_FAST: Flags = Flags::WRITE.or(Flags::FAST);
const GROW_FAST: Flags = WRITE_FAST.or(Flags::DENYOOM);
const READS: Flags = Flags::BLOCKING.or(Flags::MOVABLE_KEYS);
const RANDOM: &[&str] = &["nondeterministic_output"];
const PER_RETURNED: &str = "O(N) where N is the number of entries returned.";
const EXCLUSIVE: &[(&str, &str)] = &[("6.2.0", "Added exclusive ranges.")];

crate::family!(Handler, Group::Stream, Flags::NONE, keys(1, 1, 1));
