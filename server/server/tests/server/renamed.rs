//! Compares `rename-command` with a real redis-server.

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire};

/// Renames of each kind: disabled, renamed, swapped, containers, and commands that the server
/// treats specially.
const RENAMES: [(&str, &str); 18] = [
    ("get", ""),
    ("SET", "Set2"),
    ("config", "MyCfg"),
    ("ping", "a|b"),
    ("client", "averyveryveryveryveryveryverylongname"),
    ("multi", "begin"),
    ("exec", "commit"),
    ("discard", "rollback"),
    ("watch", "look"),
    ("subscribe", "sub"),
    ("unsubscribe", "unsub"),
    ("incr", "tmp"),
    ("decr", "incr"),
    ("tmp", "decr"),
    ("auth", "login"),
    ("flushall", "wipe"),
    ("slowlog", "slow"),
    ("lpop", "LPOP"),
];

fn ours() -> Server {
    let mut server = Server::builder().port(0);
    for (from, to) in RENAMES {
        server = server.option("rename-command", &format!("{from} \"{to}\""));
    }
    server.spawn().unwrap()
}

fn theirs() -> Redis {
    let options: Vec<&str> = RENAMES
        .iter()
        .flat_map(|(from, to)| ["--rename-command", from, to])
        .collect();
    Redis::start(&options)
}

#[test]
fn renamed_commands_reply_as_in_redis() {
    const LINES: &[&str] = &[
        "get a",
        "GET",
        "set a 1",
        "set2 a 1",
        "SET2 a 1 EX",
        "set2 a",
        "set a",
        "incr a",
        "INCR a",
        "decr a",
        "decr a",
        "incr a",
        "DECR a b",
        "a|b",
        "ping",
        "mycfg get maxmemory",
        "mycfg get rename-command",
        "MyCfg set rename-command x",
        "mycfg",
        "mycfg foo",
        "config get maxmemory",
        "config",
        "averyveryveryveryveryveryverylongname getname",
        "averyveryveryveryveryveryverylongname foo",
        "client getname",
        "lpop nosuch",
        "multi",
        "begin",
        "begin",
        "set2 a 7",
        "incr a",
        "exec",
        "rollback",
        "begin",
        "set2 a 7",
        "incr a",
        "commit",
        "commit",
        "begin",
        "look a",
        "set2 a 8",
        "commit",
        "look a",
        "set2 a 9",
        "begin",
        "incr a",
        "commit",
        "begin",
        "get a",
        "commit",
        "begin",
        "commit x",
        "commit",
        "login x",
        "auth x",
        "command info get",
        "command info set",
        "command info client|id",
        "command info mycfg|nosuch",
        "command docs set get",
        "command getkeys set2 k v",
        "command getkeys set k v",
        "command getkeysandflags incr k",
        "latency histogram set get",
        "exists a",
        "wipe",
        "exists a",
        "flushall",
        "sub ch",
        "set2 a 1",
        "unsub ch",
        "slow nosuch",
    ];
    let (ours, theirs) = (ours(), theirs());
    let (mut ours, mut theirs) = (Wire::open(&ours), Wire::to(theirs.port));
    for line in LINES {
        for wire in [&mut ours, &mut theirs] {
            wire.send(&[line]);
        }
        assert_eq!(ours.value(), theirs.value(), "{line}");
    }
}

#[test]
fn a_renamed_command_keeps_its_table_entry() {
    let server = ours();
    let mut c = Wire::open(&server);
    let count = c.int("COMMAND COUNT");
    let all = Server::builder().port(0).spawn().unwrap();
    let mut everything = Wire::open(&all);
    assert_eq!(count + 1, everything.int("COMMAND COUNT"));
    for line in ["COMMAND", "COMMAND LIST", "COMMAND DOCS"] {
        let has = |wire: &mut Wire, name: &str| {
            wire.send(&[line]);
            holds(&wire.value(), name)
        };
        assert!(has(&mut c, "setrange") && !has(&mut c, "Set2"), "{line}");
    }
    c.expect(
        &[
            "COMMAND LIST FILTERBY PATTERN set",
            "COMMAND LIST FILTERBY PATTERN get",
        ],
        "*1|$3|set|*0|",
    );
    everything.expect(&["COMMAND LIST FILTERBY PATTERN get"], "*1|$3|get|");
    c.expect(
        &["set2 a 1", "set2 a"],
        "+OK|-ERR wrong number of arguments for 'set' command|",
    );
    let stats = c.text("INFO commandstats");
    assert!(
        stats.contains("\r\ncmdstat_set:calls=1,") && !stats.contains("set2"),
        "{stats}"
    );
    // Which words are redacted depends on the command, not on its new name.
    c.expect(
        &["mycfg set slowlog-log-slower-than 0 requirepass geheim"],
        "+OK|",
    );
    c.expect(&["login geheim"], "+OK|");
    c.send(&["slow get"]);
    let shown = c.value();
    assert!(holds(&shown, "(redacted)") && !holds(&shown, "geheim"));
}

/// Returns whether a string in the reply equals `text`.
fn holds(reply: &Value, text: &str) -> bool {
    format!("{reply:?}").contains(&format!("({:?})", text.as_bytes()))
}
