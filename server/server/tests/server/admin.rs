//! SLOWLOG, LATENCY, MEMORY, MONITOR, LOLWUT and HELP.

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, server_with};
use punctual_resp::Value;
use punctual_server::{Builder, Server};

fn debuggable() -> Builder {
    configured("enable-debug-command local")
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_slice().unwrap_or_else(|| panic!("{value:?}"));
    all.iter()
        .map(|v| String::from_utf8_lossy(v.as_bytes().unwrap()).into_owned())
        .collect()
}

/// Returns the id and the arguments of the newest entry of the slow log.
fn newest(c: &mut Wire) -> (i64, Vec<String>) {
    let entries = c.ask(&["SLOWLOG", "GET", "1"]);
    let entry = entries.as_slice().unwrap()[0].as_slice().unwrap();
    assert_eq!(entry.len(), 6);
    (entry[0].as_int().unwrap(), strings(&entry[3]))
}

#[test]
fn the_slow_log_follows_its_directives() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SLOWLOG LEN", "SLOWLOG GET"], ":0|*0|");
    c.expect(
        &[
            "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5",
            "CLIENT SETNAME me",
            "SET k v",
        ],
        "+OK|+OK|+OK|",
    );
    assert_eq!(
        newest(&mut c),
        (2, vec!["SET".to_owned(), "k".into(), "v".into()])
    );
    let entries = c.ask(&["SLOWLOG", "GET", "-1"]);
    let entries = entries.as_slice().unwrap();
    assert_eq!(
        strings(&entries[3].as_slice().unwrap()[3])[..2],
        ["CONFIG", "SET"]
    );
    let set = entries[1].as_slice().unwrap();
    assert!(set[1].as_int().unwrap() > 1_700_000_000 && set[2].as_int().unwrap() >= 0);
    assert_eq!(
        set[4].as_bytes().unwrap(),
        format!("127.0.0.1:{}", c.port()).as_bytes()
    );
    assert_eq!(set[5].as_bytes().unwrap(), b"me");
    // Long commands and long arguments are truncated.
    let long = "x".repeat(200);
    let many: Vec<String> = std::iter::once("DEL".to_owned())
        .chain((0..40).map(|n| n.to_string()))
        .collect();
    c.ask(&["GET", &long]);
    let (_, args) = newest(&mut c);
    assert_eq!(args[1], format!("{}... (72 more bytes)", "x".repeat(128)));
    c.ask(&many);
    let (_, args) = newest(&mut c);
    assert_eq!(
        (args.len(), args[31].as_str()),
        (32, "... (10 more arguments)")
    );
    assert_eq!(c.int("SLOWLOG LEN"), 5);
    c.expect(&["SLOWLOG RESET"], "+OK|");
    assert_eq!(c.int("SLOWLOG LEN"), 1, "the entry of SLOWLOG RESET");
    c.expect(
        &[
            "CONFIG SET slowlog-log-slower-than -1",
            "SLOWLOG RESET",
            "SLOWLOG LEN",
        ],
        "+OK|+OK|:0|",
    );
    c.expect(
        &[
            "CONFIG SET slowlog-log-slower-than 10000000",
            "PING",
            "SLOWLOG LEN",
        ],
        "+OK|+PONG|:0|",
    );
}

#[test]
fn secrets_are_redacted_in_every_log() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut watcher = Wire::open(&server);
    watcher.expect(&["MONITOR"], "+OK|");
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "CONFIG SET slowlog-log-slower-than 0",
            "CONFIG SET requirepass hunter2 maxmemory 0",
            "AUTH hunter2",
            "AUTH default hunter2",
            "CONFIG SET requirepass ''",
        ],
        "+OK|+OK|+OK|+OK|+OK|",
    );
    c.text("AUTH default hunter2");
    c.ask(&["HELLO", "2", "AUTH", "default", "hunter2"]);
    c.expect(&["SET k v"], "+OK|");
    let all = format!("{:?}", c.ask(&["SLOWLOG", "GET", "-1"]));
    let hidden = |text: &str| {
        !text.contains("hunter2") && !text.contains(&format!("{:?}", b"hunter2".to_vec())[1..20])
    };
    assert!(hidden(&all), "{all}");
    let entries = c.ask(&["SLOWLOG", "GET", "-1"]);
    let commands: Vec<String> = entries
        .as_slice()
        .unwrap()
        .iter()
        .map(|e| strings(&e.as_slice().unwrap()[3]).join(" "))
        .collect();
    for line in [
        "CONFIG SET requirepass (redacted) maxmemory 0",
        "AUTH (redacted)",
        "AUTH (redacted) (redacted)",
        "HELLO 2 AUTH (redacted) (redacted)",
    ] {
        assert!(commands.iter().any(|c| c == line), "{line}: {commands:?}");
    }
    let mut shown = String::new();
    while !shown.contains("\"SET\"") {
        shown.push_str(&format!(
            "{}\n",
            String::from_utf8_lossy(watcher.value().as_bytes().unwrap())
        ));
    }
    assert!(
        hidden(&shown) && shown.contains("\"AUTH\" \"(redacted)\" \"(redacted)\""),
        "{shown}"
    );
    assert!(
        !shown.contains("CONFIG"),
        "administrative commands are not shown"
    );
}

#[test]
fn monitors_see_every_command_as_redis_shows_it() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let mut lines = Vec::new();
    for port in [redis.port, server.port()] {
        let (mut watcher, mut c) = (Wire::to(port), Wire::to(port));
        watcher.expect(&["MONITOR"], "+OK|");
        for line in [
            "select 5",
            "auth a b",
            "get",
            "nosuch",
            "config get port",
            "command count",
            "client setname x",
            "set k '\"q\\x01'",
            "incrby k x",
            "slowlog len",
            "quit",
        ] {
            c.send(&[line]);
            c.value();
        }
        c = Wire::to(port);
        c.ask(&[b"SET".as_slice(), b"\r\n\t\x07\x08\"\\ \x7f\xff\0", b""]);
        let address = format!("127.0.0.1:{}", c.port());
        let mut shown = Vec::new();
        loop {
            let line = String::from_utf8(watcher.value().as_bytes().unwrap().to_vec()).unwrap();
            let (stamp, rest) = line.split_once(' ').unwrap();
            let (seconds, micros) = stamp.split_once('.').unwrap();
            assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000 && micros.len() == 6);
            let (source, words) = rest.split_once("] ").unwrap();
            let (db, from) = source.split_once(' ').unwrap();
            shown.push(format!("{db} {words}"));
            assert!(from.starts_with("127.0.0.1:"));
            if words.starts_with("\"SET\"") {
                assert_eq!(from, address);
                break;
            }
        }
        // A second MONITOR gets no reply, commands on data are refused, and the client remains a
        // monitor.
        watcher.send(&["MONITOR"]);
        watcher.expect(&["GET a"], "-ERR Replica can't interact with the keyspace|");
        c.expect(&["PING"], "+PONG|");
        assert!(
            String::from_utf8_lossy(watcher.value().as_bytes().unwrap()).ends_with("] \"PING\"")
        );
        lines.push(shown);
    }
    assert_eq!(lines[1], lines[0]);
}

#[test]
fn monitors_on_other_loops_and_disconnected_ones() {
    let server = server_with("threads 2");
    let mut watchers: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
    for w in &mut watchers {
        w.expect(&["MONITOR"], "+OK|");
    }
    let mut c = Wire::open(&server);
    c.expect(&["PING one"], "$3|one|");
    drop(watchers.pop());
    watchers[0].expect(&["RESET"], "");
    for w in &mut watchers[1..] {
        assert!(
            String::from_utf8_lossy(w.value().as_bytes().unwrap()).ends_with("\"PING\" \"one\"")
        );
    }
    for n in 0..200 {
        c.expect(
            &[&format!("PING {n}")],
            &format!("${}|{n}|", n.to_string().len()),
        );
    }
}

#[test]
fn latency_events_are_recorded_and_reported() {
    let server = debuggable().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "DEBUG SLEEP 0.02",
            "LATENCY LATEST",
            "LATENCY HISTORY command",
            "LATENCY RESET",
        ],
        "+OK|*0|*0|:0|",
    );
    assert!(
        c.text("LATENCY DOCTOR")
            .contains("latency-monitor-threshold")
    );
    // No command takes an hour, even on a busy machine.
    const AN_HOUR: &str = "CONFIG SET latency-monitor-threshold 3600000";
    c.expect(&[AN_HOUR], "+OK|");
    assert!(
        c.text("LATENCY DOCTOR")
            .starts_with("Nothing has taken 3600000 ms")
    );
    c.expect(
        &[
            "CONFIG SET latency-monitor-threshold 5",
            "DEBUG SLEEP 0.02",
            "DEBUG SLEEP 0.01",
            AN_HOUR,
        ],
        "+OK|+OK|+OK|+OK|",
    );
    let latest = c.ask(&["LATENCY", "LATEST"]);
    let command = latest
        .as_slice()
        .unwrap()
        .iter()
        .map(|e| e.as_slice().unwrap())
        .find(|e| e[0].as_bytes() == Some(b"command"))
        .unwrap();
    assert!(
        command[3].as_int().unwrap() >= 20 && command[2].as_int().unwrap() >= 10,
        "{command:?}"
    );
    let history = c.ask(&["LATENCY", "HISTORY", "command"]);
    assert!(!history.as_slice().unwrap().is_empty());
    let graph = c.text("LATENCY GRAPH command");
    assert!(
        graph.starts_with("command - high ") && graph.lines().count() > 6,
        "{graph}"
    );
    assert!(c.text("LATENCY DOCTOR").contains("1. command: "));
    c.expect_error(
        "LATENCY GRAPH nothing",
        "No samples available for event 'nothing'",
    );
    assert_eq!(c.int("LATENCY RESET nothing command"), 1);
    c.expect(&["LATENCY HISTORY command"], "*0|");
    c.expect_error(
        "LATENCY SOON",
        "unknown subcommand 'SOON'. Try LATENCY HELP.",
    );
}

#[test]
fn durations_are_reported_per_command() {
    let server = debuggable()
        .option("latency-tracking-info-percentiles", "50 100")
        .threads(2)
        .spawn()
        .unwrap();
    let mut clients: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
    for c in &mut clients {
        for _ in 0..25 {
            c.expect(&["SET k v"], "+OK|");
        }
    }
    let c = &mut clients[0];
    c.expect(
        &["DEBUG SLEEP 0.03", "CONFIG GET port x"],
        "+OK|*2|$4|port|",
    );
    c.value();
    let all = c.ask(&["LATENCY", "HISTOGRAM", "set", "nosuch", "config", "debug"]);
    let all = all.as_slice().unwrap();
    let names: Vec<_> = all
        .iter()
        .step_by(2)
        .map(|n| n.as_bytes().unwrap().to_vec())
        .collect();
    assert_eq!(
        names,
        [b"set".to_vec(), b"config|get".to_vec(), b"debug".to_vec()]
    );
    let set = all[1].as_slice().unwrap();
    assert_eq!(set[1].as_int(), Some(100));
    let pairs = set[3].as_slice().unwrap();
    let counts: Vec<i64> = pairs
        .iter()
        .skip(1)
        .step_by(2)
        .map(|n| n.as_int().unwrap())
        .collect();
    assert!(
        counts.is_sorted() && counts.last() == Some(&100),
        "{counts:?}"
    );
    let sleeping = all[5].as_slice().unwrap()[3].as_slice().unwrap();
    assert!(sleeping[0].as_int().unwrap() > 30_000, "{sleeping:?}");
    let stats = c.text("INFO latencystats");
    let line = stats.lines().find(|l| l.contains("_debug:")).unwrap();
    let p100: f64 = line.rsplit_once("p100=").unwrap().1.parse().unwrap();
    assert!(p100 >= 30_000.0 && line.contains(":p50="), "{line}");
    c.expect(
        &[
            "CONFIG SET latency-tracking no",
            "CONFIG RESETSTAT",
            "GET k",
            "LATENCY HISTOGRAM",
        ],
        "+OK|+OK|$1|v|*0|",
    );
    assert_eq!(c.text("INFO latencystats"), "# Latencystats\r\n");
}

#[test]
fn memory_is_reported_by_part() {
    let server = debuggable().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "MEMORY PURGE",
            "SELECT 2",
            "DEBUG POPULATE 2000 key 100",
            "SET k v EX 100",
            "DBSIZE",
        ],
        "+OK|+OK|+OK|+OK|:2001|",
    );
    assert!(c.int("MEMORY USAGE key:7") > 160);
    let stats = c.ask(&["MEMORY", "STATS"]);
    let stats = stats.as_slice().unwrap();
    let figure = |name: &str| {
        &stats[stats
            .iter()
            .position(|v| v.as_bytes() == Some(name.as_bytes()))
            .unwrap()
            + 1]
    };
    assert_eq!(figure("keys.count").as_int(), Some(2001));
    let (total, overhead, data) = (
        figure("total.allocated").as_int().unwrap(),
        figure("overhead.total").as_int().unwrap(),
        figure("dataset.bytes").as_int().unwrap(),
    );
    assert!(total > 0 && total == overhead + data);
    assert!(
        figure("db.2").as_slice().unwrap()[1].as_int().unwrap() >= 2001 * 5,
        "overhead of database 2's hash table"
    );
    assert!(c.text("MEMORY DOCTOR").ends_with('\n'));
    assert_eq!(
        c.text("MEMORY MALLOC-STATS"),
        "Stats not supported for the current allocator"
    );
    c.expect_error(
        "MEMORY NOSUCH",
        "unknown subcommand 'NOSUCH'. Try MEMORY HELP.",
    );
    c.expect_error(
        "MEMORY STATS x",
        "wrong number of arguments for 'memory|stats' command",
    );
    c.expect_error(
        "MEMORY USAGE",
        "wrong number of arguments for 'memory|usage' command",
    );
    // In RESP3 the reply is a map.
    c.ask(&["HELLO", "3"]);
    let Value::Map(pairs) = c.ask(&["MEMORY", "STATS"]) else {
        panic!("no map")
    };
    assert_eq!(pairs.len(), stats.len() / 2);
}

#[test]
fn lolwut_shows_the_versions() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    for line in ["LOLWUT", "LOLWUT VERSION 5 1 2 3", "LOLWUT x"] {
        let text = c.text(line);
        assert!(
            text.contains("Redis ver. 7.2") && text.contains("Punctual "),
            "{text}"
        );
    }
}

/// Returns the heading of a HELP reply and its entries, each a usage line and its description.
fn help_entries(c: &mut Wire, container: &str) -> (String, Vec<Vec<String>>) {
    let reply = c.ask(&[container, "HELP"]);
    let all = reply.as_slice().unwrap_or_else(|| panic!("{reply:?}"));
    assert!(all.iter().all(|line| matches!(line, Value::Simple(_))));
    let mut lines = strings(&reply).into_iter();
    let heading = lines.next().unwrap();
    let mut entries: Vec<Vec<String>> = Vec::new();
    for line in lines {
        if line.starts_with(' ') {
            entries.last_mut().unwrap().push(line);
        } else {
            entries.push(vec![line]);
        }
    }
    (heading, entries)
}

/// Entries of HELP that Redis 7.0 lacks: container, entry, the entry before it.
#[rustfmt::skip]
const NEW_HELP: &[(&str, &[&str], &str)] = &[
    ("acl", &[
        "DELROLE <rolename> [<rolename> ...]",
        "    Delete a list of roles that no user has.",
    ], "CAT"),
    ("acl", &[
        "GETROLE <rolename>",
        "    Get the role's details, and the users that have it.",
    ], "DRYRUN"),
    ("acl", &["ROLES", "    List all the role names."], "LOG"),
    ("debug", &[
        "CHECK",
        "    Check that indexes and counters agree with the data. Reply OK, or an error that",
        "    names the first disagreements. Locks all keys for a time that depends on their number.",
    ], "CHANGE-REPL-ID"),
    ("acl", &[
        "SETROLE <rolename> <attribute> [<attribute> ...]",
        "    Create or modify a role with the specified attributes.",
    ], "SAVE"),
    ("client", &[
        "SETINFO <option> <value>",
        "    Set client meta attr. Options are:",
        "    * LIB-NAME: the client lib name.",
        "    * LIB-VER: the client lib version.",
    ], "SETNAME"),
    ("client", &[
        "NO-TOUCH (ON|OFF)",
        "    Will not touch LRU/LFU stats when this mode is on.",
    ], "NO-EVICT"),
    ("xgroup", &[
        "SETLEASE <key> <groupname> <milliseconds> [MAXDELIVERIES <n> DEADLETTER <stream>]",
        "    Set the time after which an entry is delivered again, and the stream for entries",
        "    that were delivered n times. 0 removes it.",
    ], "SETID"),
    ("debug", &[
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    Setting it to 1 lets scripts call the commands that are not allowed from scripts.",
    ], "SET-ACTIVE-EXPIRE"),
];

#[test]
fn help_texts_match_redis_for_supported_subcommands() {
    /// Subcommands of DEBUG, which are not in the command table.
    const DEBUG: &str = "AOF-FLUSH-SLEEP ASSERT CHANGE-REPL-ID CHECK CONFIG-REWRITE-FORCE-ALL CRASH-AND-RECOVER \
        DIGEST DIGEST-VALUE ERROR HELP HTSTATS HTSTATS-KEY LISTPACK LOADAOF LOG OBJECT PANIC PAUSE-CRON POPULATE PROTOCOL QUICKLIST \
        QUICKLIST-PACKED-THRESHOLD RELOAD REPLICATE REPLYBUFFER RESTART SEGFAULT SET-ACTIVE-EXPIRE \
        SET-DISABLE-DENY-SCRIPTS SET-SKIP-CHECKSUM-VALIDATION SLEEP";
    let redis = Redis::start(&["--enable-debug-command", "yes"]);
    let server = debuggable().spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    let names = strings(&ours.ask(&["COMMAND", "LIST"]));
    let first_word = |entry: &Vec<String>| entry[0].split(' ').next().unwrap().to_owned();
    let mut containers: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_suffix("|help"))
        // CLUSTER HELP is an error outside cluster mode, BACKUP is of Redis 8.10, and the others
        // are Punctual's own.
        .filter(|of| !["cluster", "backup", "clock", "notify", "timer", "job"].contains(of))
        .collect();
    assert!(containers.len() >= 12, "{containers:?}");
    containers.push("debug");
    for container in containers {
        let mut supported: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_prefix(container)?.strip_prefix('|'))
            .map(str::to_uppercase)
            .collect();
        match container {
            "debug" => supported.extend(DEBUG.split_ascii_whitespace().map(str::to_owned)),
            "command" => supported.push("(no".to_owned()),
            _ => {}
        }
        let (heading, mut expected) = help_entries(&mut theirs, container);
        expected.retain(|entry| supported.contains(&first_word(entry)));
        for (_, entry, before) in NEW_HELP.iter().filter(|(of, ..)| *of == container) {
            let at = expected.iter().position(|e| first_word(e) == *before);
            let entry = entry.iter().map(|line| (*line).to_owned()).collect();
            expected.insert(at.unwrap() + 1, entry);
        }
        let helped: Vec<String> = expected.iter().map(first_word).collect();
        assert!(
            supported.iter().all(|name| helped.contains(name)),
            "{container}: {helped:?}"
        );
        assert_eq!(help_entries(&mut ours, container), (heading, expected));
    }
}

#[test]
fn memory_stats_has_the_fields_of_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let [theirs, ours] = [redis.port, server.port()].map(|port| {
        let mut c = Wire::to(port);
        c.expect(&["SET k v"], "+OK|");
        let stats = c.ask(&["MEMORY", "STATS"]);
        let pairs = stats.as_slice().unwrap().chunks(2);
        strings(&Value::Array(pairs.map(|pair| pair[0].clone()).collect()))
    });
    assert_eq!(ours, theirs);
}
