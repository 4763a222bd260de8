//! Replies of one command that are longer than one output buffer.

use punctual_resp::Value;
use punctual_server::Server;

use crate::wire::{Open as _, Wire, eventually};

/// Number of members of twenty bytes each. They are added in commands of a thousand members.
const MEMBERS: usize = 30_000;

fn start(threads: usize, options: &[(&str, &str)]) -> Server {
    let mut builder = Server::builder().port(0).threads(threads);
    for (name, value) in options {
        builder = builder.option(name, value);
    }
    builder.spawn().unwrap()
}

fn member(number: usize) -> String {
    format!("member:{number:013}")
}

fn fill(c: &mut Wire, command: &str) {
    for first in (0..MEMBERS).step_by(1_000) {
        let members: Vec<String> = (first..first + 1_000).map(member).collect();
        c.int(&format!("{command} {}", members.join(" ")));
    }
}

fn texts(value: &Value) -> Vec<&[u8]> {
    let elements = value.as_slice().unwrap();
    elements.iter().map(|e| e.as_bytes().unwrap()).collect()
}

/// The header of these replies is rewritten when the number of elements is known.
#[test]
fn replies_of_unknown_length_are_whole() {
    let server = start(2, &[]);
    let mut c = Wire::open(&server);
    for first in (0..MEMBERS).step_by(1_000) {
        let keys = (first..first + 1_000).map(|n| format!("{} v", member(n)));
        c.text(&format!("MSET {}", keys.collect::<Vec<_>>().join(" ")));
        let adds: Vec<String> = (first..first + 1_000)
            .map(|n| format!("XADD s 1-{} f {}", n + 1, member(n)))
            .collect();
        c.send(&adds.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in adds {
            c.value();
        }
    }
    for _ in 0..2 {
        c.send(&["PING", "KEYS member:*", "XREAD STREAMS s 1-9", "PING"]);
        assert_eq!(c.value(), Value::Simple(b"PONG".into()));
        let keys = c.value();
        let mut keys = texts(&keys);
        keys.sort_unstable();
        let expected: Vec<String> = (0..MEMBERS).map(member).collect();
        assert!(
            keys.iter()
                .copied()
                .eq(expected.iter().map(|m| m.as_bytes()))
        );
        let streams = c.value();
        let entries = &streams.as_slice().unwrap()[0].as_slice().unwrap()[1];
        assert_eq!(entries.as_slice().unwrap().len(), MEMBERS - 9);
        assert_eq!(c.value(), Value::Simple(b"PONG".into()));
    }
}

/// The popped members are in the reply and in the log.
#[test]
fn members_popped_in_a_long_reply_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(
        1,
        &[
            ("appendonly", "yes"),
            ("dir", folder.path().to_str().unwrap()),
            ("enable-debug-command", "yes"),
        ],
    );
    let mut c = Wire::open(&server);
    fill(&mut c, "SADD s");
    c.send(&["SPOP s 20000"]);
    assert_eq!(texts(&c.value()).len(), 20_000);
    let long = "x".repeat(200_000);
    assert_eq!(
        c.ask(&["RPUSH", "l", &long, &long, &long]).as_int(),
        Some(3)
    );
    c.send(&[
        "MULTI",
        "LMOVE l m LEFT LEFT",
        "LMOVE l m LEFT LEFT",
        "SPOP s",
        "SPOP s 15",
        "EXEC",
    ]);
    for _ in 0..5 {
        c.value();
    }
    assert_eq!(c.value().as_slice().unwrap().len(), 4);
    c.expect(&["LLEN m", "STRLEN none", "SCARD s"], ":2|:0|:9984|");
    let digest = c.text("DEBUG DIGEST");
    eventually(|| c.text("DEBUG LOADAOF") == "OK");
    assert_eq!(c.text("DEBUG DIGEST"), digest);
}

/// Suppressing a long reply leaves all bytes of the replies before it.
#[test]
fn a_long_reply_can_be_suppressed() {
    let server = start(1, &[]);
    let mut c = Wire::open(&server);
    let value = "v".repeat(100_000);
    c.ask(&["SET", "k", &value]);
    let many = format!("MGET {}", "k ".repeat(30));
    c.send(&["GET k", "CLIENT REPLY SKIP", &many, "ECHO after", &many]);
    assert_eq!(c.value().as_bytes(), Some(value.as_bytes()));
    assert_eq!(c.value().as_bytes(), Some(b"after".as_slice()));
    assert_eq!(texts(&c.value()), vec![value.as_bytes(); 30]);
    c.send(&["MULTI", &many, "GET k", &many, "EXEC"]);
    for _ in 0..4 {
        c.value();
    }
    let replies = c.value();
    let replies = replies.as_slice().unwrap();
    assert_eq!(texts(&replies[0]).len(), 30);
    assert_eq!(replies[1].as_bytes(), Some(value.as_bytes()));
    assert_eq!(texts(&replies[2]), vec![value.as_bytes(); 30]);
    let script = "return #table.concat(redis.call('MGET', unpack(ARGV)))";
    let mut eval = vec!["EVAL", script, "0"];
    eval.extend(vec!["k"; 30]);
    assert_eq!(c.ask(&eval).as_int(), Some(3_000_000));
}
