//! Hashes over sockets: replies in both protocols, and fields that expire with a virtual and a real
//! clock.

use crate::waiters::with_threads;
use crate::wire::{Open as _, Wire, eventually};
use punctual_server::Server;

#[test]
fn replies_in_both_protocols() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "HSET h a 1 b two",
            "HGETALL h",
            "HGET h a",
            "HINCRBYFLOAT h a 1.5",
        ],
        ":2|*4|$1|a|$1|1|$1|b|$3|two|$1|1|$3|2.5|",
    );
    c.send(&["HELLO 3"]);
    c.value();
    c.expect(
        &["HGETALL h", "HGET h nope", "HRANDFIELD h 2 WITHVALUES"],
        "%2|$1|a|$3|2.5|$1|b|$3|two|_|*2|*2|$1|a|$3|2.5|*2|$1|b|$3|two|",
    );
    c.expect(&["HKEYS nope", "HGETALL nope"], "*0|%0|");
}

#[test]
fn fields_expire_with_the_virtual_clock() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        let mut events = Wire::open(&server);
        c.expect(&["CONFIG SET notify-keyspace-events Eghx"], "+OK|");
        events.expect(
            &["PSUBSCRIBE __keyevent@0__:h* __keyevent@0__:del"],
            "*3|$10|psubscribe|$17|__keyevent@0__:h*|:1|*3|$10|psubscribe|$18|__keyevent@0__:del|:2|",
        );
        let event = |name: &str, key: &str| {
            let pattern = if name == "del" {
                "__keyevent@0__:del"
            } else {
                "__keyevent@0__:h*"
            };
            let channel = format!("__keyevent@0__:{name}");
            format!(
                "*4|$8|pmessage|${}|{pattern}|${}|{channel}|${}|{key}|",
                pattern.len(),
                channel.len(),
                key.len()
            )
        };
        c.expect(
            &[
                "HSET session token x seen 1",
                "HEXPIRE session 3600 FIELDS 1 token",
                "HPEXPIRE session 5000 FIELDS 1 seen",
            ],
            ":2|*1|:1|*1|:1|",
        );
        events.receive(
            &[
                event("hset", "session"),
                event("hexpire", "session"),
                event("hexpire", "session"),
            ]
            .concat(),
        );
        c.int("CLOCK ADVANCE 4999");
        c.expect(&["HPTTL session FIELDS 2 token seen"], "*2|:3595001|:1|");
        c.int("CLOCK ADVANCE 1");
        events.receive(&event("hexpired", "session"));
        c.expect(
            &["HTTL session FIELDS 2 token seen", "HLEN session"],
            "*2|:3595|:-2|:1|",
        );
        c.int("CLOCK ADVANCE 3600000");
        events.receive(&[event("hexpired", "session"), event("del", "session")].concat());
        c.expect(&["EXISTS session", "DBSIZE"], ":0|:0|");
        let stats = c.text("INFO stats");
        assert!(stats.contains("\r\nexpired_subkeys:2\r\n"), "{stats}");
        assert!(stats.contains("\r\nexpired_keys:0\r\n"), "{stats}");
        let timers = c.text("INFO timers");
        assert!(timers.contains("timers_pending:0\r\n"), "{timers}");
        assert!(timers.contains("timers_fired:2\r\n"), "{timers}");
    }
}

/// The loop wakes for a field's deadline without a command.
#[test]
fn fields_expire_on_a_real_clock() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    let mut events = Wire::open(&server);
    c.expect(&["CONFIG SET notify-keyspace-events Eh"], "+OK|");
    events.expect(
        &["SUBSCRIBE __keyevent@0__:hexpired"],
        "*3|$9|subscribe|$23|__keyevent@0__:hexpired|:1|",
    );
    c.expect(&["HSET h a 1 b 2", "HPEXPIRE h 30 FIELDS 1 a"], ":2|*1|:1|");
    events.receive("*3|$7|message|$23|__keyevent@0__:hexpired|$1|h|");
    c.expect(&["HGETALL h"], "*2|$1|b|$1|2|");
    eventually(|| c.text("INFO stats").contains("\r\nexpired_subkeys:1\r\n"));
}

#[test]
fn an_expired_field_changes_a_watched_hash() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    let mut other = Wire::open(&server);
    c.expect(
        &["HSET h a 1 b 2", "HPEXPIRE h 10 FIELDS 1 a", "WATCH h"],
        ":2|*1|:1|+OK|",
    );
    other.int("CLOCK ADVANCE 10");
    c.expect(&["MULTI", "HLEN h", "EXEC"], "+OK|+QUEUED|*-1|");
    c.expect(&["MULTI", "HLEN h", "EXEC"], "+OK|+QUEUED|*1|:1|");
}
