//! Commands on the whole server: databases, configuration, introspection.

use super::line;
use crate::command::{Command, Step};
use crate::draw::Draw;

/// Appends one server command, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    match draw.between(0..=99) {
        0..=24 => steps.push(line::command(draw, "DBSIZE").into()),
        25..=31 => flush(draw, steps),
        32..=39 => steps.push(line::command(draw, "SWAPDB database database").into()),
        40..=61 => command(draw, steps),
        62..=79 => config(draw, steps),
        80..=86 => steps.push(Command::of(&["INFO", "keyspace"]).into()),
        _ => fixed(draw, steps),
    }
}

/// Appends FLUSHDB or FLUSHALL, usually with invalid arguments, so that the keyspace can grow.
fn flush(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["FLUSHDB", "FLUSHDB", "FLUSHALL"]);
    let mut command = Command::new(draw.case(name));
    match draw.between(0..=9) {
        0 => {}
        1 => command.push(draw.case("ASYNC")),
        2 => command.push(draw.case("SYNC")),
        3..=6 => command.push("NOSUCH"),
        _ => command.extend(["ASYNC", "SYNC"]),
    }
    steps.push(command.into());
}

/// Arguments of COMMAND GETKEYS and GETKEYSANDFLAGS: commands with keys, and commands for which
/// both must return an error.
const KEYED: &[&[&str]] = &[
    &["GET", "k"],
    &["SET", "k", "v"],
    &["SET", "k", "v", "EX", "10"],
    &["MGET", "a", "b", "c"],
    &["MSET", "a", "1", "b", "2"],
    &["MSETNX", "a", "1"],
    &["GETEX", "k"],
    &["GETDEL", "k"],
    &["GETSET", "k", "v"],
    &["SETEX", "k", "1", "v"],
    &["PSETEX", "k", "1", "v"],
    &["SETNX", "k", "v"],
    &["APPEND", "k", "v"],
    &["STRLEN", "k"],
    &["GETRANGE", "k", "0", "1"],
    &["SUBSTR", "k", "0", "1"],
    &["SETRANGE", "k", "0", "v"],
    &["INCR", "k"],
    &["DECR", "k"],
    &["INCRBY", "k", "1"],
    &["DECRBY", "k", "1"],
    &["INCRBYFLOAT", "k", "1"],
    &["LCS", "a", "b"],
    &["DEL", "a", "b"],
    &["UNLINK", "a"],
    &["EXISTS", "a", "a"],
    &["TYPE", "k"],
    &["RENAME", "a", "b"],
    &["RENAMENX", "a", "b"],
    &["COPY", "a", "b", "DB", "1"],
    &["MOVE", "k", "1"],
    &["TOUCH", "a", "b"],
    &["OBJECT", "ENCODING", "k"],
    &["OBJECT", "FREQ", "k"],
    &["EXPIRE", "k", "1"],
    &["PEXPIRE", "k", "1"],
    &["EXPIREAT", "k", "1"],
    &["PEXPIREAT", "k", "1"],
    &["TTL", "k"],
    &["PTTL", "k"],
    &["EXPIRETIME", "k"],
    &["PEXPIRETIME", "k"],
    &["PERSIST", "k"],
    &["SPUBLISH", "ch", "m"],
    &["SSUBSCRIBE", "a", "b"],
    &["MEMORY", "USAGE", "k"],
    &["PING", "x"],
    &["KEYS", "*"],
    &["SCAN", "0"],
    &["PUBLISH", "ch", "m"],
    &["FLUSHALL", "SYNC"],
    &["RANDOMKEY", "x"],
    &["GET", "a", "b"],
    &["SET", "k"],
    &["NOSUCHCOMMAND", "k"],
    &["OBJECT", "NOSUCH", "k"],
    &["CLIENT", "GETNAME"],
    &["SELECT", "1"],
    &["LCS", "a"],
    &["COMMAND", "GETKEYS", "GET", "k"],
];

/// Arguments of COMMAND INFO, of whose reply only the parts that both versions have are compared,
/// and of COMMAND DOCS.
const DESCRIBED: &str = "get|SET|mget|mset|msetnx|getex|getdel|getset|setex|psetex|setnx|append|\
     strlen|getrange|substr|setrange|incr|decr|incrby|decrby|incrbyfloat|lcs|del|unlink|exists|\
     type|keys|scan|randomkey|rename|renamenx|copy|move|touch|expire|pexpire|expireat|pexpireat|\
     ttl|pttl|expiretime|pexpiretime|persist|ping|echo|auth|hello|select|quit|reset|subscribe|\
     psubscribe|ssubscribe|unsubscribe|punsubscribe|sunsubscribe|publish|spublish|dbsize|flushdb|\
     flushall|swapdb|time|info|asking|cluster|function|module|readonly|readwrite|script|\
     nosuchcommand";

fn command(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = Command::new(draw.case("COMMAND"));
    match draw.between(0..=9) {
        0 => command.push(draw.case("COUNT")),
        1 => command.extend(["COUNT", "x"]),
        2..=4 => {
            command.push(draw.case("INFO"));
            for _ in 0..draw.between(1..=3) {
                command.push(draw.one_of(DESCRIBED));
            }
        }
        5 => command.extend(["DOCS", draw.one_of(DESCRIBED)]),
        6 => command.extend(draw.pick(&[
            &["GETKEYS"][..],
            &["LIST", "FILTERBY"],
            &["LIST", "NOSUCH", "x"],
            &["NOSUCH"],
            &["LIST", "FILTERBY", "NOSUCH", "x"],
        ])),
        _ => {
            let sub = draw.pick(&["GETKEYS", "GETKEYS", "GETKEYSANDFLAGS"]);
            command.push(draw.case(sub));
            command.extend(KEYED[draw.count(0..=KEYED.len() - 1)]);
        }
    }
    steps.push(command.into());
}

/// Arguments of CONFIG GET: parameters that have equal values on both servers, patterns for such
/// parameters, and unknown names.
const PARAMETERS: &str = "maxmemory|maxmemory-policy|maxmemory-samples|databases|timeout|\
     tcp-keepalive|appendonly|save|proto-max-bulk-len|lfu-log-factor|lfu-decay-time|\
     slowlog-log-slower-than|slowlog-max-len|latency-monitor-threshold|client-output-buffer-limit|\
     notify-keyspace-events|maxmemory-clients|requirepass|hz|appendfsync|lazyfree-lazy-expire|\
     nosuch||notify-keyspace-event?|MAXMEMORY-POLICY|appendfs*";

fn config(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = match draw.between(0..=19) {
        0..=9 => {
            let mut command = Command::new(draw.case("CONFIG")).arg(draw.case("GET"));
            for _ in 0..draw.weighted(&[(6, 1), (2, 2), (1, 3)]) {
                command.push(draw.one_of(PARAMETERS));
            }
            command
        }
        10 => Command::of(&["CONFIG", "RESETSTAT"]),
        11..=15 => {
            notify(draw, steps);
            return;
        }
        16 => {
            change(draw, steps);
            return;
        }
        _ => Command::of(draw.pick(&[
            &["CONFIG"][..],
            &["CONFIG", "GET"],
            &["CONFIG", "NOSUCH"],
            &["CONFIG", "SET"],
            &["CONFIG", "SET", "timeout"],
            &["CONFIG", "SET", "timeout", "abc"],
            &["CONFIG", "SET", "timeout", "-1"],
            &["CONFIG", "SET", "nosuch", "x"],
            &["CONFIG", "SET", "appendonly", "maybe"],
            &["CONFIG", "SET", "databases", "4"],
            &["CONFIG", "SET", "timeout", "0", "timeout", "0"],
            &["CONFIG", "SET", "timeout", "0", "nosuch", "1"],
            &["CONFIG", "SET", "slowlog-max-len", "128"],
            &["CONFIG", "SET", "hz", "10", "slowlog-max-len", "128"],
            &["CONFIG", "RESETSTAT", "x"],
            &["CONFIG", "SET", "save", "60 x"],
            &["CONFIG", "SET", "maxmemory", "1x"],
            &["CONFIG", "SET", "port", "99999"],
            &["CONFIG", "SET", "timeout", "2147483648"],
            &["CONFIG", "SET", "maxclients", "0"],
            &["CONFIG", "SET", "client-output-buffer-limit", "normal 1 2"],
            &[
                "CONFIG",
                "SET",
                "client-output-buffer-limit",
                "nosuch 1 2 3",
            ],
            &["CONFIG", "SET", "loglevel", "nosuch"],
            &["CONFIG", "SET", "enable-debug-command", "no"],
            &["CONFIG", "SET", "slowlog-max-len", "-1"],
            &["CONFIG", "SET", "lfu-decay-time", "x"],
            &["CONFIG", "SET", "dir", "/nosuchdir"],
            &["CONFIG", "SET", "tcp-backlog", "10"],
        ])),
    };
    steps.push(command.into());
}

/// Names of parameters, with a new value and the old value.
const CHANGES: &[[&str; 3]] = &[
    ["save", "60 100 30 5", ""],
    ["maxmemory", "100mb", "0"],
    ["maxmemory", "3G", "0"],
    ["hz", "1000", "10"],
    [
        "client-output-buffer-limit",
        "normal 1mb 2mb 10",
        "normal 0 0 0",
    ],
    [
        "client-output-buffer-limit",
        "slave 0 0 0 pubsub 1g 1g 60",
        "slave 256mb 64mb 60 pubsub 32mb 8mb 60",
    ],
    ["slowlog-max-len", "17", "128"],
    ["timeout", "3600", "0"],
    ["proto-max-bulk-len", "1gb", "512mb"],
    ["maxmemory-policy", "ALLKEYS-lru", "noeviction"],
    ["lazyfree-lazy-expire", "YES", "no"],
];

/// Changes a parameter, reads it, and restores it.
fn change(draw: &mut Draw, steps: &mut Vec<Step>) {
    let [name, value, back] = CHANGES[draw.count(0..=CHANGES.len() - 1)];
    for value in [value, back] {
        let set = Command::of(&["CONFIG", "SET"])
            .arg(draw.case(name))
            .arg(value);
        steps.push(set.into());
        steps.push(Command::of(&["CONFIG", "GET", name]).into());
    }
}

/// Changes the published event classes for a few commands, then restores all classes.
fn notify(draw: &mut Draw, steps: &mut Vec<Step>) {
    let flags =
        draw.one_of("|K|E|KE|A|KEA|Kg$|E$x|KEgx|KEm|KEn|AKEmn|g$lshzxetdKEmn|KEAA|KEq|kea|Kxe$");
    let set = |flags: &str| {
        Step::from(Command::of(&[
            "CONFIG",
            "SET",
            "notify-keyspace-events",
            flags,
        ]))
    };
    steps.push(set(flags));
    if matches!(flags, "KEq" | "kea") {
        // The server refuses the value, but changes the classes: see `differences`.
        steps.push(set(super::ALL_EVENTS));
    }
    steps.push(Command::of(&["CONFIG", "GET", "notify-keyspace-events"]).into());
    for _ in 0..draw.between(1..=5) {
        match draw.between(0..=2) {
            0 => super::strings::commands(draw, steps),
            1 => super::keys::commands(draw, steps),
            _ => super::expiry::commands(draw, steps),
        }
    }
    steps.push(set(super::ALL_EVENTS));
}

/// Other commands. Among them are some whose replies always differ and are compared by type, and
/// some that are refused.
const FIXED: &[&[&str]] = &[
    &["TIME"],
    &["TIME", "x"],
    &["INFO"],
    &["INFO", "server"],
    &["INFO", "nosuch"],
    &["INFO", "clients", "memory"],
    &["INFO", "everything"],
    &["MEMORY", "USAGE", "k0"],
    &["MEMORY", "USAGE", "no such key"],
    &["MEMORY", "USAGE", "k1", "SAMPLES", "5"],
    &["MEMORY", "USAGE", "k1", "SAMPLES", "-1"],
    &["MEMORY", "USAGE", "k1", "NOSUCH"],
    &["MEMORY", "USAGE"],
    &["MEMORY", "NOSUCH"],
    &["MEMORY"],
    &["SLOWLOG", "LEN"],
    &["SLOWLOG", "GET", "1"],
    &["SLOWLOG", "GET", "-2"],
    &["SLOWLOG", "GET", "abc"],
    &["SLOWLOG", "RESET"],
    &["SLOWLOG", "NOSUCH"],
    &["SLOWLOG"],
    &["LATENCY", "LATEST"],
    &["LATENCY", "HISTORY", "nosuch"],
    &["LATENCY", "HISTORY"],
    &["LATENCY", "RESET"],
    &["LATENCY", "RESET", "nosuch"],
    &["LATENCY", "NOSUCH"],
    &["LATENCY"],
    &["OBJECT"],
    &["OBJECT", "NOSUCH", "k"],
    &["OBJECT", "ENCODING"],
    &["DEBUG", "SLEEP", "0"],
    &["DBSIZE", "x"],
    &["SWAPDB", "0"],
    &["COMMAND", "COUNT"],
    &["COMMAND", "LIST", "FILTERBY", "PATTERN", "GETR*"],
    &["ROLE"],
    &["ROLE", "x"],
    &["WAIT", "0", "0"],
    &["WAIT", "x", "0"],
    &["WAIT", "0", "x"],
    &["WAIT", "0", "-1"],
    &["WAIT", "0"],
    &["ACL", "WHOAMI"],
    &["ACL", "CAT", "nosuch"],
    &["ACL", "NOSUCH"],
    &["ACL"],
    &["LOLWUT", "VERSION", "x"],
    &["LATENCY", "HISTOGRAM", "nosuch"],
    &["LATENCY", "GRAPH", "nosuch"],
    &["LATENCY", "GRAPH"],
    &["LATENCY", "LATEST", "x"],
    &["LATENCY", "DOCTOR", "x"],
    &["SLOWLOG", "GET", "0"],
    &["SLOWLOG", "GET", "1", "2"],
    &["SLOWLOG", "LEN", "x"],
    &["SLOWLOG", "RESET", "x"],
    &["MEMORY", "PURGE"],
    &["MEMORY", "PURGE", "x"],
    &["MEMORY", "STATS", "x"],
    &["MEMORY", "DOCTOR", "x"],
    &["MEMORY", "USAGE", "k1", "SAMPLES"],
    &["MEMORY", "USAGE", "k1", "SAMPLES", "x"],
    &["OBJECT", "ENCODING", "k", "x"],
    &["DEBUG"],
    &["DEBUG", "NOSUCH"],
    &["DEBUG", "SLEEP"],
    &["DEBUG", "OBJECT"],
    &["DEBUG", "OBJECT", "no such key"],
    &["DEBUG", "SET-ACTIVE-EXPIRE"],
    &["DEBUG", "POPULATE", "x"],
    &["DEBUG", "POPULATE", "-1"],
    &["DEBUG", "ERROR", "CODE and more"],
    &["DEBUG", "ERROR", "word"],
    &["DEBUG", "PROTOCOL", "string"],
    &["DEBUG", "PROTOCOL", "integer"],
    &["DEBUG", "PROTOCOL", "double"],
    &["DEBUG", "PROTOCOL", "bignum"],
    &["DEBUG", "PROTOCOL", "null"],
    &["DEBUG", "PROTOCOL", "array"],
    &["DEBUG", "PROTOCOL", "set"],
    &["DEBUG", "PROTOCOL", "map"],
    &["DEBUG", "PROTOCOL", "verbatim"],
    &["DEBUG", "PROTOCOL", "true"],
    &["DEBUG", "PROTOCOL", "false"],
    &["DEBUG", "PROTOCOL", "nosuch"],
    &["CONFIG", "REWRITE"],
    &["CONFIG", "REWRITE", "x"],
    &["MODULE", "LIST"],
    &["MODULE", "LOAD", "x"],
    &["MODULE", "NOSUCH"],
    &["READONLY"],
    &["READWRITE"],
    &["ASKING"],
    &["CLUSTER", "HELP"],
    &["CLUSTER", "SLOTS"],
    &["CLUSTER", "NOSUCH"],
    &["CLUSTER"],
    &["FUNCTION", "DELETE", "x"],
    &["FUNCTION", "DUMP"],
    &["FUNCTION", "FLUSH", "SYNC"],
    &["FUNCTION", "KILL"],
    &["FUNCTION", "LIST"],
    &["FUNCTION", "STATS"],
    &["SCRIPT", "KILL"],
    &["COMMAND", "HELP"],
    &["CONFIG", "HELP"],
    &["LATENCY", "HELP"],
    &["MEMORY", "HELP"],
    &["MODULE", "HELP"],
    &["OBJECT", "HELP"],
    &["PUBSUB", "HELP"],
    &["SLOWLOG", "HELP"],
    &["CLIENT", "GETREDIR"],
    &["CLIENT", "TRACKINGINFO"],
];

fn fixed(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(Command::of(FIXED[draw.count(0..=FIXED.len() - 1)]).into());
}
