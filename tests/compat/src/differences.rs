//! The known differences between the oracle (redis-server 7.0, Debian's) and the semantics that we
//! follow (7.2).
//!
//! The generators avoid them, or the comparison tolerates them; each entry says how. If a newly
//! found difference is right, add it to this list; if it is wrong, fix the bug.

mod later;

pub use later::{LATER, Later, accepts, omits};

/// One known difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The command, or the part of it that differs.
    pub what: &'static str,
    /// The behaviour of 7.0 and of 7.2.
    pub how: &'static str,
    /// The way in which the streams avoid it.
    pub avoided: &'static str,
}

/// All known differences.
pub const KNOWN: &[Difference] = &[
    Difference {
        what: "CLIENT SETINFO, CLIENT NO-TOUCH",
        how: "unknown subcommands in 7.0, commands in 7.2",
        avoided: "not drawn",
    },
    Difference {
        what: "CLIENT INFO, CLIENT LIST",
        how: "7.2 adds lib-name and lib-ver",
        avoided: "only fields that both have and that follow from the commands are compared",
    },
    Difference {
        what: "ACL, CLIENT, DEBUG, FUNCTION and SCRIPT HELP",
        how: "7.2's CLIENT HELP lists SETINFO and NO-TOUCH; ours lists the subcommands that exist",
        avoided: "not drawn",
    },
    Difference {
        what: "ACL LIST, ACL GETUSER",
        how: "7.0 prints the shortest list of categories and commands that it finds; 7.2 and ours print the rules in their order",
        avoided: "ACL DRYRUN compares the commands that the rules allow",
    },
    Difference {
        what: "ACL DRYRUN of PFMERGE without sources and of MIGRATE and XREADGROUP with invalid arguments",
        how: "redis-server finds no keys, and lets a user without permission create the destination of PFMERGE; ours checks the keys",
        avoided: "not drawn",
    },
    Difference {
        what: "ACL SETUSER that takes a permission from a blocked client",
        how: "7.0 serves the client; 7.2 checks the permission before it serves the client; ours replies NOPERM at once",
        avoided: "not drawn",
    },
    Difference {
        what: "%RW~* in ACL LIST and ACL GETUSER",
        how: "redis-server prints ~*, which also allows the empty key, and which ACL LOAD refuses before other patterns; ours prints %RW~*",
        avoided: "compared as ~*",
    },
    Difference {
        what: "ACL LOG",
        how: "7.2 adds entry-id, timestamp-created and timestamp-last-updated",
        avoided: "not drawn",
    },
    Difference {
        what: "COMMAND, COMMAND COUNT, COMMAND LIST, COMMAND DOCS",
        how: "different sets of commands; documentation texts",
        avoided: "compared by kind of reply; COMMAND INFO by name, arity, flags, key positions and categories",
    },
    Difference {
        what: "COMMAND GETKEYS with only a name",
        how: "7.0 replies with a wrong number of arguments, 7.2 looks the name up",
        avoided: "not drawn",
    },
    Difference {
        what: "CONFIG SET maxmemory-policy with an unknown policy",
        how: "the error lists the policies; ours also lists volatile-lrm and allkeys-lrm of 8.6",
        avoided: "not drawn",
    },
    Difference {
        what: "HELLO",
        how: "the version, the modules and the connection's id differ",
        avoided: "the id compared by kind, the others not compared",
    },
    Difference {
        what: "messages a RESP3 connection publishes to itself",
        how: "before the reply of PUBLISH in 7.0, after it in 7.2",
        avoided: "pushes and replies of a session are compared as two sequences",
    },
    Difference {
        what: "CONFIG GET notify-keyspace-events",
        how: "both forget the class n when A is set, so that CONFIG REWRITE and a CONFIG SET that is refused lose it; \
              ours keeps it",
        avoided: "n is not compared beside A; after a refused CONFIG SET of classes they are set again",
    },
    Difference {
        what: "RESET",
        how: "keeps CLIENT NO-EVICT in 7.0, resets it in 7.2",
        avoided: "CLIENT NO-EVICT OFF follows it",
    },
    Difference {
        what: "a NUL byte in an inline request",
        how: "both wait forever for the end of the line, because C's string ends there; in ours it is an ordinary byte",
        avoided: "requests of random bytes have no NUL bytes",
    },
    Difference {
        what: "requests of more than 1,048,576 arguments",
        how: "both accept up to 2,147,483,647; ours refuses them, like Redis up to 6.2",
        avoided: "not drawn",
    },
    Difference {
        what: "XSETID",
        how: "7.0 accepts an ID below the ID of a deleted entry, 7.2 refuses it",
        avoided: "drawn IDs are above the IDs of all entries",
    },
    Difference {
        what: "+ as the ID of XREAD and XREADGROUP",
        how: "an invalid ID in 7.0; since 7.4 it means the last entry for XREAD, and XREADGROUP refuses it with another error",
        avoided: "not drawn",
    },
    Difference {
        what: "XREAD and XREADGROUP of a client that waits for several streams",
        how: "7.0 replies with the stream that was filled first, 7.2 with all streams that have entries",
        avoided: "a client waits for one stream",
    },
    Difference {
        what: "XINFO CONSUMERS and XINFO STREAM FULL",
        how: "consumers have `inactive` and `active-time` in 7.2",
        avoided: "not compared",
    },
    Difference {
        what: "XINFO STREAM, radix-tree-nodes",
        how: "ours has no radix tree; the number is the number of blocks plus one",
        avoided: "not compared",
    },
    Difference {
        what: "OBJECT ENCODING",
        how: "7.2 has listpacks for small lists, 7.0 only quicklists; 7.2 also has listpacks for small sets of texts, 7.0 hashtables",
        avoided: "both names are accepted; the audit checks that ours is small if it is a listpack",
    },
    Difference {
        what: "OBJECT ENCODING of a sorted set after SORT",
        how: "SORT, and even SORT_RO, converts it to a skiplist in both; ours does not change it",
        avoided: "like other OBJECT ENCODING replies",
    },
    Difference {
        what: "SORT after a number beyond all doubles",
        how: "both mistake the errno that parsing the number has set (also for 1e-320) for an error of SORT; a replica then stores nothing. Ours checks each number",
        avoided: "a command that clears errno precedes each SORT",
    },
    Difference {
        what: "scores in replies of RESP2",
        how: "17 digits in 7.0; in 7.2 the shortest text, but all digits of a whole number",
        avoided: "compared as numbers, and ours must be the text of 7.2",
    },
    Difference {
        what: "a score of -0",
        how: "small sorted sets lose the sign, and SORT converts small ones to large ones",
        avoided: "0 and -0 in replies with scores count as equal",
    },
    Difference {
        what: "SORT STORE, ZUNIONSTORE and similar commands that replace a value of another type, while clients block on the key",
        how: "both leave the clients blocked although there is data; ours serves them",
        avoided: "scenes either store collections or have values of other types",
    },
    Difference {
        what: "RESTORE with a TTL beyond all deadlines",
        how: "both overflow, and the key expires at once; ours refuses the TTL, as other commands do",
        avoided: "not drawn",
    },
    Difference {
        what: "timeouts of more than 9223372036854775 s",
        how: "negative in 7.0, out of range in 7.2",
        avoided: "not drawn",
    },
    Difference {
        what: "BITCOUNT and BITPOS with wrong arguments",
        how: "7.0 checks the key first and replies 0 or -1 if it does not exist; 7.2 refuses them at once",
        avoided: "wrong arguments are drawn for keys with a text",
    },
    Difference {
        what: "ZRANK and ZREVRANK WITHSCORE, deadlines of hash fields",
        how: "not in 7.0",
        avoided: "not drawn; the family `fields` is drawn if the oracle is 7.4 or later",
    },
    Difference {
        what: "ranges by members of a sorted set whose scores differ",
        how: "documented as unspecified; in 7.0 and 7.2 they depend on the random levels of the skip list",
        avoided: "drawn for separate keys, whose scores are all equal",
    },
    Difference {
        what: "a timeout of less than 0 and more than -1 ms",
        how: "both round it to 0, which means forever",
        avoided: "not drawn",
    },
    Difference {
        what: "COMMAND GETKEYS PFMERGE with only a destination",
        how: "both refuse arguments that the command itself accepts; ours returns the destination",
        avoided: "not drawn",
    },
    Difference {
        what: "LPOS RANK -9223372036854775808",
        how: "7.0 negates it and finds nothing, 7.2 refuses it",
        avoided: "not drawn",
    },
    Difference {
        what: "INFO",
        how: "different fields",
        avoided: "compared by type; INFO keyspace exactly, except avg_ttl, which is an estimate",
    },
    Difference {
        what: "doubles in replies of scripts, and in the texts that a script makes of them",
        how: "17 digits in 7.0, the shortest text in 7.2; -nan in 7.0",
        avoided: "only doubles with equal digits in both are drawn",
    },
    Difference {
        what: "TIME and PTTL in scripts",
        how: "time continues during a script in 7.0, and stands still in 7.2",
        avoided: "compared by type; the corpus states our reply",
    },
    Difference {
        what: "BLPOP and its relatives, BLOCK of XREAD and XREADGROUP, and WAIT in scripts",
        how: "7.0 refuses them, 7.2 runs them without waiting; COMMAND INFO has other flags and categories",
        avoided: "not drawn",
    },
    Difference {
        what: "error tables without a text",
        how: "7.0 crashes; ours replies with an error",
        avoided: "not drawn; in the corpus, only our server runs it",
    },
    Difference {
        what: "scripts without end, and tables that contain themselves",
        how: "7.0 allocates until the system kills the server; ours ends the script at its memory limit",
        avoided: "not drawn; in the corpus, only our server runs it",
    },
    Difference {
        what: "os.clock, collectgarbage(\"setpause\")",
        how: "7.0 has no table os, and a script can tune its collector; ours has os.clock as 7.4, and ignores the tuning",
        avoided: "not drawn; in the corpus, only our server runs it",
    },
    Difference {
        what: "FUNCTION LIST, FUNCTION DUMP",
        how: "both have the order of a hash table",
        avoided: "compared in any order, and by type; FUNCTION RESTORE of several libraries has the option FLUSH",
    },
];
