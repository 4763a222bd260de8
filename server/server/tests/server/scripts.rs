//! EVAL together with several loops, transactions, blocked clients, and scripts that do not end.

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, server_with};

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

fn start(threads: &str) -> Server {
    configured("clock virtual")
        .option("threads", threads)
        .spawn()
        .unwrap()
}

/// Runs a script without keys on a separate connection, and returns when the server is busy.
fn run_endless(server: &Server, script: &str) -> Wire {
    let (mut runner, mut other) = (Wire::open(server), Wire::open(server));
    other.expect(&["CONFIG SET busy-reply-threshold 1"], "+OK|");
    runner.send(&[&format!("EVAL \"{script}\" 0")]);
    eventually(|| other.text("PING") == BUSY);
    runner
}

#[track_caller]
fn expect_killed(runner: &mut Wire) {
    let reply = runner.value();
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
    assert!(text.starts_with(KILLED), "{text}");
}

/// The script holds up to sixteen of 64 shards, about half of them of the other loop. The keys of
/// that loop's other shards expire in time. The clock is real, because a virtual one does not move
/// during a script.
#[test]
fn keys_of_free_shards_expire_while_a_script_does_not_end() {
    let server = server_with("threads 2|shards 64|notify-keyspace-events Ex");
    let [mut c, mut listener, mut runner] = [(); 3].map(|()| Wire::open(&server));
    let channel = "__keyevent@0__:expired";
    listener.send(&[&format!("SUBSCRIBE {channel}")]);
    listener.receive(&format!("*3|$9|subscribe|${}|{channel}|:1|", channel.len()));
    for n in 0..2_000 {
        c.expect(&[&format!("SET key:{n} {n} PX 1000")], "+OK|");
    }
    c.expect(&["CONFIG SET busy-reply-threshold 1"], "+OK|");
    let keys: Vec<String> = (0..16).map(|n| format!("key:{n}")).collect();
    let script = "redis.call('mget', unpack(KEYS)) while true do end";
    runner.send(&[&format!("EVAL \"{script}\" 16 {}", keys.join(" "))]);
    eventually(|| c.text("PING") == BUSY);
    // About 24 of 64 shards are of the other loop and free.
    for _ in 0..500 {
        listener.value();
    }
    c.expect(&["SCRIPT KILL"], "+OK|");
    expect_killed(&mut runner);
}

#[test]
fn all_clients_are_served_while_a_script_does_not_end() {
    for threads in ["1", "4"] {
        let server = start(threads);
        let mut clients: Vec<Wire> = (0..12).map(|_| Wire::open(&server)).collect();
        for client in &mut clients {
            client.expect(&["SET k 0"], "+OK|");
        }
        clients[0].expect(&["WATCH k", "MULTI"], "+OK|+OK|");
        // The next command of the script's own client waits for the script.
        let mut runner = run_endless(&server, "while true do end");
        runner.send(&["GET k"]);
        for client in &mut clients {
            for command in ["GET k", "SET k 2", "EVAL 'return 1' 0", "PING"] {
                assert_eq!(client.text(command), BUSY, "{command}");
            }
        }
        // The refused commands make the transaction fail.
        let aborted = format!("-EXECABORT Transaction discarded because of: {BUSY}|");
        clients[0].expect(&["EXEC"], &aborted);
        clients[1].expect(&["MULTI", "DISCARD"], "+OK|+OK|");
        for command in ["SHUTDOWN", "FUNCTION KILL"] {
            assert_eq!(clients[2].text(command), BUSY, "{command}");
        }
        clients[3].expect(&["SCRIPT KILL"], "+OK|");
        expect_killed(&mut runner);
        runner.receive("$1|0|");
        for (n, client) in (1..).zip(&mut clients) {
            assert_eq!(client.int("EVAL \"return redis.call('incr', 'n')\" 1 n"), n);
        }
        assert_eq!(
            clients[4].text("SCRIPT KILL"),
            "NOTBUSY No scripts in execution right now."
        );
    }
}

#[test]
fn a_protected_call_does_not_outlive_a_kill() {
    let server = start("1");
    let mut runner = run_endless(
        &server,
        "while true do pcall(function() while true do end end) end",
    );
    Wire::open(&server).expect(&["SCRIPT KILL"], "+OK|");
    expect_killed(&mut runner);
}

#[test]
fn a_script_that_has_written_ends_with_the_server_only() {
    for threads in ["1", "4"] {
        let server = start(threads);
        let _runner = run_endless(&server, "redis.call('set', 'a', 1) while true do end");
        let mut client = Wire::open(&server);
        assert!(client.text("SCRIPT KILL").starts_with("UNKILLABLE "));
        client.send(&["SHUTDOWN NOSAVE"]);
        client.ends();
        server.join();
    }
}

#[test]
fn undeclared_keys_of_a_script_change_atomically() {
    const ACCOUNTS: usize = 20;
    const TOTAL: i64 = 2_000;
    for threads in ["1", "4"] {
        let server = start(threads);
        let mut first = Wire::open(&server);
        for account in 0..ACCOUNTS {
            first.expect(&[&format!("SET a{account} 100")], "+OK|");
        }
        std::thread::scope(|scope| {
            for client in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    let mut wire = Wire::open(server);
                    for turn in 0..200 {
                        let (from, to) = ((client * 7 + turn) % ACCOUNTS, (turn * 3 + 1) % ACCOUNTS);
                        wire.int(&format!(
                            "EVAL \"redis.call('decr', 'a' .. ARGV[1]) return redis.call('incr', 'a' .. ARGV[2])\" 0 {from} {to}"
                        ));
                        let sum = format!(
                            "EVAL \"local s = 0 for i = 0, {} do s = s + redis.call('get', 'a' .. i) end return s\" 0",
                            ACCOUNTS - 1
                        );
                        assert_eq!(wire.int(&sum), TOTAL);
                        let queued = ["MULTI", &sum, "INCR a0", "DECR a0", &sum, "EXEC"];
                        wire.expect(
                            &queued,
                            &format!("+OK|{}*4|:{TOTAL}|", "+QUEUED|".repeat(4)),
                        );
                        wire.value();
                        wire.value();
                        assert_eq!(wire.value().as_int(), Some(TOTAL));
                    }
                });
            }
        });
    }
}

#[test]
fn a_script_wakes_waiting_clients_when_it_has_ended() {
    for threads in ["1", "4"] {
        let server = start(threads);
        let (mut waiting, mut client) = (Wire::open(&server), Wire::open(&server));
        waiting.send(&["BLPOP q 0"]);
        eventually(|| client.text("INFO clients").contains("blocked_clients:1"));
        // The script removes one of two elements before the waiters are served.
        client.expect(
            &["EVAL \"redis.call('rpush', 'q', 'a', 'b') return redis.call('lpop', 'q')\" 1 q"],
            "$1|a|",
        );
        waiting.receive("*2|$1|q|$1|b|");
        client.expect(&["EVAL \"return redis.call('exists', 'q')\" 1 q"], ":0|");
        // A command in a script never waits.
        client.expect(
            &["EVAL \"return redis.call('lmove', 'q', 'r', 'left', 'left') or 'none'\" 2 q r"],
            "$4|none|",
        );
    }
}

#[test]
fn time_stands_still_in_a_script_and_watches_notice_its_writes() {
    let server = start("1");
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(
        &["SET k 1 PX 10", "WATCH k", "MULTI", "GET k"],
        "+OK|+OK|+OK|+QUEUED|",
    );
    b.expect(&["EVAL \"return redis.call('incr', KEYS[1])\" 1 k"], ":2|");
    a.expect(&["EXEC"], "*-1|");
    b.expect(
        &["EVAL \"local t = redis.call('time') for i = 1, 1000000 do end local u = redis.call('time') return t[2] == u[2]\" 0"],
        ":1|",
    );
}

#[test]
fn calls_and_errors_are_counted_as_in_redis() {
    let redis = Redis::start(&[]);
    let server = start("1");
    let counted = |c: &mut Wire| {
        c.expect(&["SET s x"], "+OK|");
        c.text("CONFIG RESETSTAT");
        for script in [
            "EVAL \"return redis.call('get')\" 0",
            "EVAL \"return redis.pcall('lpush', 's', 'a')\" 0",
            "EVAL \"redis.pcall('lpush', 's', 'a') return 'fine'\" 0",
            "EVAL \"return redis.call('lpush', 's', 'a')\" 0",
            "EVAL \"return redis.call('nosuch')\" 0",
            "EVAL \"return redis.pcall('subscribe', 's')\" 0",
            "EVAL \"return {err='MY error'}\" 0",
            "EVAL \"error('x')\" 0",
            "EVAL_RO \"return redis.call('set', 'a', 'b')\" 0",
            "EVAL \"return (\" 0",
            "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
        ] {
            c.text(script);
        }
        let mut lines: Vec<String> = ["commandstats", "errorstats"]
            .iter()
            .flat_map(|section| {
                let page = c.text(&format!("INFO {section}"));
                let lines = page.lines().filter(|line| !line.contains("config"));
                // All fields except durations.
                lines
                    .map(|line| {
                        let fields = line.split(',').filter(|field| !field.contains("usec"));
                        fields.collect::<Vec<_>>().join(",")
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(
        counted(&mut Wire::open(&server)),
        counted(&mut Wire::to(redis.port))
    );
}

/// redis-server 7.2 and later also run these commands in scripts. 7.0 refuses them.
#[test]
fn commands_in_scripts_do_not_wait() {
    let server = start("1");
    let mut c = Wire::open(&server);
    let mut run = |line: &str| {
        let script = "local r = redis.pcall(unpack(ARGV)) \
                      if r == false then return 'nothing' end return r";
        let words = ["EVAL", script, "0"].into_iter().chain(line.split(' '));
        let reply = c.ask(&words.collect::<Vec<_>>());
        let text = |value: &Value| match value {
            Value::Int(number) => number.to_string(),
            value => String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned(),
        };
        match reply.as_slice() {
            Some(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
            None => text(&reply),
        }
    };
    assert_eq!(run("XGROUP CREATE s g 0 MKSTREAM"), "OK");
    for line in [
        "BLPOP q 0",
        "BRPOP q r 0",
        "BLMOVE a b LEFT LEFT 0",
        "BLMOVEM a b LEFT RIGHT 0 COUNT 2 BULK",
        "BRPOPLPUSH a b 0",
        "BLMPOP 0 1 q LEFT",
        "BZPOPMIN z 0",
        "BZPOPMAX z 0",
        "BZMPOP 0 1 z MIN",
        "XREAD BLOCK 0 STREAMS s $",
        "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "JOB TAKE q BLOCK 0",
    ] {
        assert_eq!(run(line), "nothing", "{line}");
    }
    for (line, reply) in [
        ("WAIT 1 0", "0"),
        ("WAITAOF 0 1 0", "0 0"),
        ("BLPOP q -1", "ERR timeout is negative"),
        ("BLPOP q x", "ERR timeout is not a float or out of range"),
        ("RPUSH q 1 2 3", "3"),
        ("BLPOP q 0", "q 1"),
        ("BLMOVE q b LEFT LEFT 0", "2"),
        ("BRPOPLPUSH q b 0", "3"),
        ("EXISTS q", "0"),
        ("ZADD z 1 m 2 n", "2"),
        ("BZPOPMAX z 0", "z n 2"),
        (
            "SUBSCRIBE c",
            "ERR This Redis command is not allowed from script",
        ),
    ] {
        assert_eq!(run(line), reply, "{line}");
    }
    let info = c.ask(&["COMMAND", "INFO", "BLPOP", "WAIT"]);
    let flags = |at: usize| info.as_slice().unwrap()[at].as_slice().unwrap()[2].clone();
    let simple = |text: &str| Value::Simple(text.into());
    assert_eq!(
        flags(0),
        Value::Array(vec![simple("write"), simple("blocking")])
    );
    assert_eq!(flags(1), Value::Array(vec![simple("blocking")]));
}

/// SORT of a set sorts in a script, as in Redis. So a script has the same result on every server.
#[test]
fn a_script_sorts_a_set_although_it_asks_for_no_order() {
    let server = start("1");
    let mut c = Wire::open(&server);
    let members: Vec<String> = (0..200).map(|n| format!("m{}", n * 7919 % 1000)).collect();
    let mut sorted = members.clone();
    sorted.sort_unstable();
    let words = ["SADD", "s"].into_iter();
    c.ask(
        &words
            .chain(members.iter().map(String::as_str))
            .collect::<Vec<_>>(),
    );
    let bulk = |names: &[String]| Value::Array(names.iter().map(Value::bulk).collect());
    let script = "return redis.call(ARGV[1], 's', 'BY', 'nosort')";
    for name in ["SORT", "SORT_RO"] {
        assert_eq!(c.ask(&["EVAL", script, "0", name]), bulk(&sorted), "{name}");
    }
    assert_ne!(c.ask(&["SORT", "s", "BY", "nosort"]), bulk(&sorted));
    let part = "return redis.call('SORT', 's', 'BY', 'nosort', 'DESC', 'LIMIT', 1, 2)";
    sorted.reverse();
    assert_eq!(c.ask(&["EVAL", part, "0"]), bulk(&sorted[1..3]));
    // The elements of a list have an order.
    c.ask(&["RPUSH", "l", "c", "a", "b"]);
    let list = "return redis.call('SORT', 'l', 'BY', 'nosort')";
    let names = ["c", "a", "b"].map(str::to_owned);
    assert_eq!(c.ask(&["EVAL", list, "0"]), bulk(&names));
}
