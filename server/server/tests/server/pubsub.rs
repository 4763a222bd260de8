//! Publish/subscribe and keyspace notifications.

use std::time::Duration;

use crate::process::{Process, Start as _};
use crate::wire::{Open as _, Wire, configured, eventually, server_with, start, unix_time};
use punctual_resp::Value;

fn hello3(c: &mut Wire) {
    c.send(&["HELLO 3"]);
    assert!(matches!(c.value(), Value::Map(_)));
}

/// Returns a message in RESP2, with `|` for line ends.
fn message(channel: &str, text: &str) -> String {
    let (c, t) = (channel.len(), text.len());
    format!("*3|$7|message|${c}|{channel}|${t}|{text}|")
}

#[test]
fn all_commands_and_replies_in_resp2() {
    let server = start();
    let (mut c, mut d) = (Wire::open(&server), Wire::open(&server));
    c.expect(
        &["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"],
        "*3|$11|unsubscribe|$-1|:0|*3|$12|punsubscribe|$-1|:0|*3|$12|sunsubscribe|$-1|:0|",
    );
    c.expect(
        &["UNSUBSCRIBE a b"],
        "*3|$11|unsubscribe|$1|a|:0|*3|$11|unsubscribe|$1|b|:0|",
    );
    c.expect(
        &["SUBSCRIBE a b a", "PSUBSCRIBE a*", "SSUBSCRIBE s t"],
        "*3|$9|subscribe|$1|a|:1|*3|$9|subscribe|$1|b|:2|*3|$9|subscribe|$1|a|:2|*3|$10|psubscribe|$2|a*|:3|*3|$10|ssubscribe|$1|s|:1|*3|$10|ssubscribe|$1|t|:2|",
    );
    for (line, name) in [
        ("GET a", "get"),
        ("CLIENT ID", "client|id"),
        ("HELLO 3", "hello"),
        ("AUTH x", "auth"),
    ] {
        c.expect_error(
            line,
            &format!(
                "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ),
        );
    }
    c.expect_error("CLIENT FOO", "unknown subcommand 'FOO'. Try CLIENT HELP.");
    c.expect(&["PING", "PING hi"], "*2|$4|pong|$0||*2|$4|pong|$2|hi|");
    d.expect(
        &[
            "PUBLISH a x",
            "SPUBLISH s y",
            "PUBLISH zz t",
            "SPUBLISH a x",
        ],
        ":2|:1|:0|:0|",
    );
    c.receive(&message("a", "x"));
    c.receive("*4|$8|pmessage|$2|a*|$1|a|$1|x|*3|$8|smessage|$1|s|$1|y|");
    d.expect(
        &[
            "PUBSUB CHANNELS",
            "PUBSUB CHANNELS b*",
            "PUBSUB NUMSUB",
            "PUBSUB NUMSUB a zz",
            "PUBSUB NUMPAT",
        ],
        "*2|$1|a|$1|b|*1|$1|b|*0|*4|$1|a|:1|$2|zz|:0|:1|",
    );
    d.expect(
        &[
            "PUBSUB SHARDCHANNELS",
            "PUBSUB SHARDCHANNELS s*",
            "PUBSUB SHARDNUMSUB s z",
        ],
        "*2|$1|s|$1|t|*1|$1|s|*4|$1|s|:1|$1|z|:0|",
    );
    d.expect_error(
        "PUBSUB CHANNELS a b",
        "unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
    );
    d.expect_error(
        "PUBSUB NUMPAT x",
        "wrong number of arguments for 'pubsub|numpat' command",
    );
    d.expect_error("PUBSUB", "wrong number of arguments for 'pubsub' command");
    c.expect(
        &["UNSUBSCRIBE zz a", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE t", "SUNSUBSCRIBE", "SUNSUBSCRIBE"],
        "*3|$11|unsubscribe|$2|zz|:3|*3|$11|unsubscribe|$1|a|:2|*3|$11|unsubscribe|$1|b|:1|*3|$12|punsubscribe|$2|a*|:0|*3|$12|sunsubscribe|$1|t|:1|*3|$12|sunsubscribe|$1|s|:0|*3|$12|sunsubscribe|$-1|:0|",
    );
    c.expect(&["GET a"], "$-1|");
    d.expect(
        &["PUBSUB CHANNELS", "PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS"],
        "*0|:0|*0|",
    );
}

#[test]
fn messages_are_in_order_with_replies() {
    let server = start();
    let mut c = Wire::open(&server);
    hello3(&mut c);
    c.expect(
        &["SUBSCRIBE c", "PUBLISH c 1", "PING", "PUBLISH c 2", "UNSUBSCRIBE c", "PUBLISH c 3"],
        ">3|$9|subscribe|$1|c|:1|:1|>3|$7|message|$1|c|$1|1|+PONG|:1|>3|$7|message|$1|c|$1|2|>3|$11|unsubscribe|$1|c|:0|:0|",
    );
    // CONFIG SET takes effect for the next command of the same pipeline.
    c.expect(
        &["CONFIG SET notify-keyspace-events Kg$", "SUBSCRIBE __keyspace@0__:k", "SET k v", "DEL k", "PING"],
        "+OK|>3|$9|subscribe|$16|__keyspace@0__:k|:1|+OK|>3|$7|message|$16|__keyspace@0__:k|$3|set|:1|>3|$7|message|$16|__keyspace@0__:k|$3|del|+PONG|",
    );
}

#[test]
fn the_protocol_can_change_while_subscribed() {
    let server = start();
    let (mut c, mut d) = (Wire::open(&server), Wire::open(&server));
    hello3(&mut c);
    c.expect(&["SUBSCRIBE a"], ">3|$9|subscribe|$1|a|:1|");
    d.expect(&["PUBLISH a 1"], ":1|");
    c.receive(">3|$7|message|$1|a|$1|1|");
    c.send(&["HELLO 2"]);
    assert!(matches!(c.value(), Value::Array(_)));
    d.expect(&["PUBLISH a 2"], ":1|");
    c.receive(&message("a", "2"));
    c.expect(&["RESET", "GET k"], "+RESET|$-1|");
    d.expect(&["PUBLISH a 3", "PUBSUB CHANNELS"], ":0|*0|");
    hello3(&mut c);
    c.expect(
        &["PSUBSCRIBE *", "RESET"],
        ">3|$10|psubscribe|$1|*|:1|+RESET|",
    );
    d.expect(&["PUBLISH a 3"], ":0|");
}

#[test]
fn a_disconnected_subscriber_is_removed() {
    let server = server_with("threads 2");
    let mut d = Wire::open(&server);
    for _ in 0..4 {
        let mut c = Wire::open(&server);
        c.send(&["SUBSCRIBE a", "PSUBSCRIBE a*", "SSUBSCRIBE a"]);
        (0..3).for_each(|_| drop(c.value()));
        d.expect(&["PUBLISH a m", "SPUBLISH a m"], ":2|:1|");
        drop(c);
        eventually(|| d.int("PUBLISH a m") == 0);
        d.expect(&["SPUBLISH a m"], ":0|");
    }
}

#[test]
fn unsubscribing_from_ten_thousand_channels_is_fast() {
    const CHANNELS: usize = 10_000;
    // A child process, so that only the CPU time of the server is measured.
    let server = Process::start(&[]);
    let mut crowd: Vec<Wire> = (0..20).map(|_| Wire::to(server.port)).collect();
    let mut observer = Wire::to(server.port);
    let mut cpu_seconds = || -> f64 {
        let info = observer.text("INFO cpu");
        let used = |field| info.lines().find_map(|line| line.strip_prefix(field));
        ["used_cpu_user:", "used_cpu_sys:"]
            .map(|field| used(field).unwrap().parse::<f64>().unwrap())
            .iter()
            .sum()
    };
    let names: Vec<String> = (0..CHANNELS).map(|n| format!("channel:{n}")).collect();
    for (verb, end) in [("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE")] {
        let before = cpu_seconds();
        for c in &mut crowd {
            let args: Vec<&str> = std::iter::once(verb)
                .chain(names.iter().map(String::as_str))
                .collect();
            c.ask(&args);
            (1..CHANNELS).for_each(|_| drop(c.value()));
        }
        for c in &mut crowd {
            c.ask(&[end]);
            for left in (0..CHANNELS - 1).rev() {
                let Value::Array(parts) = c.value() else {
                    panic!()
                };
                assert_eq!(parts[2].as_int(), Some(left as i64));
            }
        }
        // 200,000 subscriptions: linear searches would take minutes.
        let took = cpu_seconds() - before;
        assert!(took < 30.0, "{took} s");
    }
    crowd[0].expect(&["PUBSUB NUMPAT", "PUBSUB CHANNELS"], ":0|*0|");
}

#[test]
fn every_class_of_event() {
    let server = server_with("clock virtual");
    let (mut c, mut events) = (Wire::open(&server), Wire::open(&server));
    events.expect(
        &["PSUBSCRIBE __key*__:*"],
        "*3|$10|psubscribe|$10|__key*__:*|:1|",
    );
    let commands = [
        "SET k v",
        "EXPIRE k 100",
        "APPEND k w",
        "DEL k",
        "GET k",
        "SET e v PX 5",
        "CLOCK ADVANCE 5",
    ];
    // A letter of `notify-keyspace-events`, and the events of `commands` that it enables.
    let all: &[(&str, &[&str])] = &[
        ("$", &["set k", "append k", "set e"]),
        ("g", &["expire k", "del k", "expire e"]),
        ("x", &["expired e"]),
        ("m", &["keymiss k"]),
        ("n", &["new k", "new e"]),
        ("l", &[]),
        ("s", &[]),
        ("h", &[]),
        ("z", &[]),
        ("e", &[]),
        ("t", &[]),
        ("d", &[]),
        (
            "A",
            &[
                "set k",
                "expire k",
                "append k",
                "del k",
                "set e",
                "expire e",
                "expired e",
            ],
        ),
    ];
    for (letter, wanted) in all {
        for kind in ["K", "E", "KE", ""] {
            c.send(&[&format!(
                "CONFIG SET notify-keyspace-events \"{kind}{letter}\""
            )]);
            assert_eq!(c.value().as_bytes(), Some(&b"OK"[..]));
            for command in commands {
                c.send(&[command]);
                assert!(!c.value().is_error());
            }
            for one in *wanted {
                let (event, key) = one.split_once(' ').unwrap();
                let mut expected = Vec::new();
                if kind.contains('K') {
                    expected.push([format!("__keyspace@0__:{key}"), event.to_owned()]);
                }
                if kind.contains('E') {
                    expected.push([format!("__keyevent@0__:{event}"), key.to_owned()]);
                }
                for [channel, text] in expected {
                    let (l, t) = (channel.len(), text.len());
                    events.receive(&format!(
                        "*4|$8|pmessage|$10|__key*__:*|${l}|{channel}|${t}|{text}|"
                    ));
                }
            }
            // The marker message proves that no other event precedes it.
            c.expect(&["PUBLISH __key__:mark m"], ":1|");
            events.receive("*4|$8|pmessage|$10|__key*__:*|$12|__key__:mark|$1|m|");
        }
    }
}

#[test]
fn expired_keys_are_published_once_and_in_order() {
    for threads in ["1", "2"] {
        let server = configured("notify-keyspace-events Ex|clock virtual")
            .option("threads", threads)
            .spawn()
            .unwrap();
        let (mut c, mut events) = (Wire::open(&server), Wire::open(&server));
        events.send(&["PSUBSCRIBE __keyevent@*__:expired"]);
        events.value();
        let deadline = |n: u64| 1 + n * 7919 % 1_000;
        for n in 0..1_000 {
            let (db, ms) = (n % 3, deadline(n));
            c.expect(
                &[&format!("SELECT {db}"), &format!("SET {ms} v PX {ms}")],
                "+OK|+OK|",
            );
        }
        c.int("CLOCK ADVANCE 500");
        c.int("CLOCK ADVANCE 500");
        for wanted in 1..=1_000 {
            let value = events.value();
            let parts = match value {
                Value::Array(parts) => parts,
                other => panic!("{other:?}"),
            };
            assert_eq!(parts[3].as_bytes().unwrap(), wanted.to_string().as_bytes());
        }
        c.expect(&["PUBLISH __keyevent@0__:expired end"], ":1|");
        let Value::Array(parts) = events.value() else {
            panic!()
        };
        assert_eq!(parts[3].as_bytes(), Some(&b"end"[..]));
    }
}

#[test]
fn last_values_of_expired_strings() {
    let server = server_with("clock virtual");
    let (mut c, mut events) = (Wire::open(&server), Wire::open(&server));
    events.send(&["PSUBSCRIBE __key*"]);
    events.value();
    let mut next = || match events.value() {
        Value::Array(parts) => parts[2..]
            .iter()
            .map(|p| String::from_utf8_lossy(p.as_bytes().unwrap()).into_owned())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    c.expect(
        &["CONFIG SET notify-keyspace-events Ex notify-expired-values yes"],
        "+OK|",
    );
    c.expect(
        &["SELECT 2", "SET s text PX 5", "SET i 41 PX 6", "INCR i"],
        "+OK|+OK|+OK|:42|",
    );
    c.int("CLOCK ADVANCE 10");
    assert_eq!(next(), ["__keyvalue@2__:s", "text"]);
    assert_eq!(next(), ["__keyevent@2__:expired", "s"]);
    assert_eq!(next(), ["__keyvalue@2__:i", "42"]);
    assert_eq!(next(), ["__keyevent@2__:expired", "i"]);
    // Only expiry publishes the value, and only while the option is on.
    c.expect(
        &[
            "SET s text PX 5",
            "DEL s",
            "CONFIG SET notify-expired-values no",
            "SET s u PX 5",
        ],
        "+OK|:1|+OK|+OK|",
    );
    c.int("CLOCK ADVANCE 10");
    assert_eq!(next(), ["__keyevent@2__:expired", "s"]);
    c.expect(
        &[
            "CONFIG SET notify-keyspace-events \"\" notify-expired-values yes",
            "SET s w PX 5",
        ],
        "+OK|+OK|",
    );
    c.int("CLOCK ADVANCE 10");
    assert_eq!(next(), ["__keyvalue@2__:s", "w"]);
}

/// With the real clock, no event arrives before its deadline, and the loop wakes up for each
/// deadline.
#[test]
fn expired_events_arrive_on_time() {
    let server = server_with("notify-keyspace-events Ex");
    let (mut c, mut events) = (Wire::open(&server), Wire::open(&server));
    events.send(&["SUBSCRIBE __keyevent@0__:expired"]);
    events.value();
    // A busy machine delays some rounds. A server that polls would be late in every round.
    eventually(|| {
        let first_ms = unix_time().as_millis() as u64 + 50;
        let deadlines: Vec<u64> = (0..10).map(|n| first_ms + n * 4).collect();
        for at in &deadlines {
            c.expect(&[&format!("SET {at} v PXAT {at}")], "+OK|");
        }
        let mut late: Vec<Duration> = deadlines
            .iter()
            .map(|at| {
                let value = events.value();
                let received = unix_time();
                let name = value.as_slice().unwrap()[2].as_bytes().unwrap();
                assert_eq!(
                    name,
                    at.to_string().as_bytes(),
                    "events are not in deadline order"
                );
                received
                    .checked_sub(Duration::from_millis(*at))
                    .unwrap_or_else(|| panic!("{at} expired at {received:?}"))
            })
            .collect();
        late.sort_unstable();
        late[5] < Duration::from_millis(5)
    });
}

#[test]
fn publishers_and_listeners_on_different_loops() {
    let server = server_with("threads 3");
    let mut listeners: Vec<Wire> = (0..6).map(|_| Wire::open(&server)).collect();
    for (n, l) in listeners.iter_mut().enumerate() {
        if n % 2 == 0 {
            hello3(l);
        }
        l.send(&["SUBSCRIBE c"]);
        l.value();
    }
    let mut publishers: Vec<Wire> = (0..3).map(|_| Wire::open(&server)).collect();
    for n in 0..200 {
        for (p, publisher) in publishers.iter_mut().enumerate() {
            publisher.expect(&[&format!("PUBLISH c {p}:{n}")], ":6|");
        }
    }
    for l in &mut listeners {
        for n in 0..200 {
            for p in 0..3 {
                let parts = match l.value() {
                    Value::Array(parts) | Value::Push(parts) => parts,
                    other => panic!("{other:?}"),
                };
                assert_eq!(parts[2].as_bytes().unwrap(), format!("{p}:{n}").as_bytes());
            }
        }
    }
}

#[test]
fn through_the_redis_crate() {
    let server = start();
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let mut listening = client.get_connection().unwrap();
    let mut pubsub = listening.as_pubsub();
    pubsub.subscribe("news").unwrap();
    pubsub.psubscribe("n?ws").unwrap();
    let mut connection = client.get_connection().unwrap();
    let count: usize = redis::cmd("PUBLISH")
        .arg("news")
        .arg("hello")
        .query(&mut connection)
        .unwrap();
    assert_eq!(count, 2);
    for pattern in [false, true] {
        let message = pubsub.get_message().unwrap();
        assert_eq!(message.get_channel_name(), "news");
        assert_eq!(message.get_payload::<String>().unwrap(), "hello");
        assert_eq!(message.from_pattern(), pattern);
    }
    pubsub.unsubscribe("news").unwrap();
    pubsub.punsubscribe("n?ws").unwrap();
    let count: usize = redis::cmd("PUBLISH")
        .arg("news")
        .arg("hello")
        .query(&mut connection)
        .unwrap();
    assert_eq!(count, 0);
}
