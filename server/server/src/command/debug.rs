//! DEBUG, for tests of clients and tools. Disabled unless `enable-debug-command` enables it.
//!
//! As in Redis, the handler of DEBUG parses the subcommand, so the command table has no rows for
//! subcommands of DEBUG.

mod check;
mod loading;
mod process;
mod protocol;
mod replication;
mod structures;
mod switches;

use std::ops::RangeInclusive;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "debug",
    -2,
    Flags::ADMIN
        .or(Flags::NOSCRIPT)
        .or(Flags::LOADING)
        .or(Flags::STALE),
    Group::Server,
    debug,
)
.since("1.0.0")
.complexity("Depends on subcommand.")
.summary("A container for debugging commands.")];

/// A subcommand of DEBUG.
struct Subcommand {
    /// Name in lower case.
    name: &'static str,
    /// Allowed numbers of words, including DEBUG.
    words: RangeInclusive<usize>,
    run: ServerHandler,
    /// Lines of DEBUG HELP.
    help: &'static [&'static str],
}

const fn row(
    name: &'static str,
    words: RangeInclusive<usize>,
    run: ServerHandler,
    help: &'static [&'static str],
) -> Subcommand {
    Subcommand {
        name,
        words,
        run,
        help,
    }
}

const ANY: usize = usize::MAX;

/// One row per subcommand, with its lines of DEBUG HELP.
#[rustfmt::skip]
static SUBCOMMANDS: &[Subcommand] = &[
    row("aof-flush-sleep", 3..=3, switches::aof_flush_sleep, &[
        "AOF-FLUSH-SLEEP <microsec>",
        "    Server will sleep before flushing the AOF, this is used for testing.",
    ]),
    row("assert", 2..=ANY, process::assert, &["ASSERT", "    Crash by assertion failed."]),
    row("change-repl-id", 2..=2, replication::change_id, &[
        "CHANGE-REPL-ID",
        "    Change the replication IDs of the instance.",
        "    Dangerous: should be used only for testing the replication subsystem.",
    ]),
    row("check", 2..=2, check::check, &[
        "CHECK",
        "    Check that indexes and counters agree with the data. Reply OK, or an error that",
        "    names the first disagreements. Locks all keys for a time that depends on their number.",
    ]),
    row("config-rewrite-force-all", 2..=2, process::rewrite_config, &[
        "CONFIG-REWRITE-FORCE-ALL",
        "    Like CONFIG REWRITE but writes all configuration options, including",
        "    keywords not listed in original configuration file or default values.",
    ]),
    row("crash-and-recover", 2..=ANY, process::crash_and_recover, &[
        "CRASH-AND-RECOVER [<milliseconds>]",
        "    Hard crash and restart after a <milliseconds> delay (default 0).",
    ]),
    row("digest", 2..=2, structures::digest, &[
        "DIGEST",
        "    Output a hex signature representing the current DB content.",
    ]),
    row("digest-value", 2..=ANY, structures::digest_value, &[
        "DIGEST-VALUE <key> [<key> ...]",
        "    Output a hex signature of the values of all the specified keys.",
    ]),
    row("error", 3..=3, protocol::error, &[
        "ERROR <string>",
        "    Return a Redis protocol error with <string> as message. Useful for clients",
        "    unit tests to simulate Redis errors.",
    ]),
    row("log", 3..=3, process::log, &["LOG <message>", "    Write <message> to the server log."]),
    row("htstats", 3..=3, structures::table_stats, &[
        "HTSTATS <dbid>",
        "    Return hash table statistics of the specified Redis database.",
    ]),
    row("htstats-key", 3..=3, structures::table_stats_of_key, &[
        "HTSTATS-KEY <key>",
        "    Like HTSTATS but for the hash table stored at <key>'s value.",
    ]),
    row("loadaof", 2..=2, loading::load_aof, &[
        "LOADAOF",
        "    Flush the AOF buffers on disk and reload the AOF in memory.",
    ]),
    row("replicate", 3..=ANY, replication::replicate, &[
        "REPLICATE <string>",
        "    Replicates the provided string to replicas, allowing data divergence.",
    ]),
    row("object", 3..=ANY, structures::object, &[
        "OBJECT <key>",
        "    Show low level info about `key` and associated value.",
    ]),
    row("panic", 2..=ANY, process::panic, &["PANIC", "    Crash the server simulating a panic."]),
    row("populate", 3..=5, loading::populate, &[
        "POPULATE <count> [<prefix>] [<size>]",
        "    Create <count> string keys named key:<num>. If <prefix> is specified then",
        "    it is used instead of the 'key' prefix. These are not propagated to",
        "    replicas. Cluster slots are not respected so keys not belonging to the",
        "    current node can be created in cluster mode.",
    ]),
    row("protocol", 3..=3, protocol::protocol, &[
        "PROTOCOL <type>",
        "    Reply with a test value of the specified type. <type> can be: string,",
        "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
        "    true, false.",
    ]),
    row("reload", 2..=ANY, loading::reload, &[
        "RELOAD [option ...]",
        "    Save the RDB on disk and reload it back to memory. Valid <option> values:",
        "    * MERGE: conflicting keys will be loaded from RDB.",
        "    * NOFLUSH: the existing database will not be removed before load, but",
        "      conflicting keys will generate an exception and kill the server.",
        "    * NOSAVE: the database will be loaded from an existing RDB file.",
        "    Examples:",
        "    * DEBUG RELOAD: verify that the server is able to persist, flush and reload",
        "      the database.",
        "    * DEBUG RELOAD NOSAVE: replace the current database with the contents of an",
        "      existing RDB file.",
        "    * DEBUG RELOAD NOSAVE NOFLUSH MERGE: add the contents of an existing RDB",
        "      file to the database.",
    ]),
    row("restart", 2..=ANY, process::restart, &[
        "RESTART [<milliseconds>]",
        "    Graceful restart: save config, db, restart after a <milliseconds> delay (default 0).",
    ]),
    row("segfault", 2..=ANY, process::segfault, &["SEGFAULT", "    Crash the server with sigsegv."]),
    row("set-active-expire", 3..=3, switches::set_active_expire, &[
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Setting it to 0 disables expiring keys in background when they are not",
        "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
        "    default.",
    ]),
    row("set-disable-deny-scripts", 3..=3, switches::set_disable_deny_scripts, &[
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    Setting it to 1 lets scripts call the commands that are not allowed from scripts.",
    ]),
    row("quicklist-packed-threshold", 3..=3, switches::set_packed_threshold, &[
        "QUICKLIST-PACKED-THRESHOLD <size>",
        "    Sets the threshold for elements to be inserted as plain vs packed nodes",
        "    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
    ]),
    row("set-skip-checksum-validation", 3..=3, switches::set_skip_checksums, &[
        "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
        "    Enables or disables checksum checks for RDB files and RESTORE's payload.",
    ]),
    row("sleep", 3..=3, process::sleep, &[
        "SLEEP <seconds>",
        "    Stop the server for <seconds>. Decimals allowed.",
    ]),
    row("listpack", 3..=3, structures::listpack, &[
        "LISTPACK <key>",
        "    Show low level info about the listpack encoding of <key>.",
    ]),
    row("quicklist", 3..=4, structures::quicklist, &[
        "QUICKLIST <key> [<0|1>]",
        "    Show low level info about the quicklist encoding of <key>.",
        "    The optional argument (0 by default) sets the level of detail",
    ]),
    row("pause-cron", 3..=3, switches::pause_cron, &["PAUSE-CRON <0|1>", "    Stop periodic cron job processing."]),
    row("replybuffer", 4..=4, switches::reply_buffer, &[
        "REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
        "    Sets the time (in milliseconds) to wait between client reply buffer peak resets.",
        "    In case NEVER is provided the last observed peak will never be reset",
        "    In case RESET is provided the peak reset time will be restored to the default value",
        "REPLYBUFFER RESIZING <0|1>",
        "    Enable or disable the reply buffer resize cron job",
    ]),
    row("help", 2..=2, help, &[]),
];

fn debug(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !call
        .shared
        .settings()
        .debug_command
        .allows(call.session.info.local)
    {
        return Err(Error::fixed(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from \
             a local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        ));
    }
    let named = |row: &&Subcommand| args[1].eq_ignore_ascii_case(row.name.as_bytes());
    match SUBCOMMANDS.iter().find(named) {
        Some(row) if row.words.contains(&args.len()) => (row.run)(call, args, reply),
        _ => Err(crate::command::replies::wrong_form("DEBUG", args)),
    }
}

fn help(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let lines: Vec<&str> = SUBCOMMANDS
        .iter()
        .flat_map(|row| row.help)
        .copied()
        .collect();
    punctual_store::command::help(reply, "DEBUG", &lines)
}

#[cfg(test)]
mod tests {
    use super::SUBCOMMANDS;

    #[test]
    fn the_documentation_lists_every_subcommand() {
        let page = include_str!("../../../../docs/redis-compatibility.md");
        let listed = page
            .lines()
            .find_map(|line| line.strip_prefix("| DEBUG | "));
        let mut names: Vec<String> = SUBCOMMANDS
            .iter()
            .map(|row| row.name.to_ascii_uppercase())
            .collect();
        names.sort_unstable();
        assert_eq!(listed, Some(format!("{} |", names.join(" ")).as_str()));
    }
}
