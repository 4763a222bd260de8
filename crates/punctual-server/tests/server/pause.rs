//! CLIENT PAUSE: commands wait, keys stay.

use std::time::Duration;

use crate::waiters::start;
use crate::wire::{Wire, field, unix_time};
use punctual_resp::Value;
use punctual_server::Server;

#[test]
fn what_it_takes_and_what_it_does_not() {
    let server = start();
    let mut c = Wire::open(&server);
    for (line, error) in [
        (
            "CLIENT PAUSE",
            "wrong number of arguments for 'client|pause' command",
        ),
        (
            "CLIENT PAUSE abc",
            "timeout is not an integer or out of range",
        ),
        ("CLIENT PAUSE -1", "timeout is negative"),
        (
            "CLIENT PAUSE 1 FOO",
            "CLIENT PAUSE mode must be WRITE or ALL",
        ),
        (
            "CLIENT PAUSE 1 ALL x",
            "unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
        ),
        (
            "CLIENT UNPAUSE x",
            "wrong number of arguments for 'client|unpause' command",
        ),
    ] {
        c.expect_error(line, error);
    }
    c.expect(
        &["CLIENT UNPAUSE", "CLIENT PAUSE 0", "PING"],
        "+OK|+OK|+PONG|",
    );
}

#[test]
fn all_wait_even_for_unpause() {
    let server = start();
    let mut clock = Wire::open(&server);
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["PING", "CLIENT PAUSE 1000", "ECHO later"], "+PONG|+OK|");
    b.send(&["CLIENT UNPAUSE", "SET k v", "NOSUCH"]);
    b.silent();
    clock.int("CLOCK ADVANCE 999");
    a.silent();
    clock.int("CLOCK ADVANCE 1");
    a.receive("$5|later|");
    b.receive("+OK|+OK|-ERR unknown command 'NOSUCH', with args beginning with: |");
}

#[test]
fn monitors_do_not_wait() {
    let server = start();
    let (mut a, mut m) = (Wire::open(&server), Wire::open(&server));
    m.send(&["MONITOR"]);
    if m.value().is_error() {
        return; // MONITOR is not served here.
    }
    a.expect(&["CLIENT PAUSE 1000"], "+OK|");
    m.send(&["ECHO now"]);
    // What others have done may be shown before.
    while m.value() != Value::bulk("now") {}
}

#[test]
fn writes_wait_and_reads_do_not() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(
        &["SET k v", "CLIENT PAUSE 1000 WRITE", "GET k"],
        "+OK|+OK|$1|v|",
    );
    b.send(&["GET k", "SET k w", "GET k"]);
    b.receive("$1|v|");
    b.silent();
    let list = a.text("CLIENT LIST");
    let line = list.lines().find(|l| field(l, "cmd") == "set").unwrap();
    assert_eq!(field(line, "flags"), "b");
    // A second pause neither shortens nor weakens the first.
    a.expect(&["CLIENT PAUSE 1 WRITE", "GET k"], "+OK|$1|v|");
    a.expect(&["CLIENT UNPAUSE"], "+OK|");
    b.receive("+OK|$1|w|");
    // What others would see of it waits too.
    a.expect(&["CLIENT PAUSE 1000 WRITE"], "+OK|");
    b.send(&["PUBLISH c m"]);
    b.silent();
    a.expect(&["CLIENT UNPAUSE"], "+OK|");
    b.receive(":0|");
}

#[test]
fn a_pause_of_all_is_not_weakened() {
    let server = start();
    let mut clock = Wire::open(&server);
    let mut a = Wire::open(&server);
    a.expect(
        &["CLIENT PAUSE 500 WRITE", "CLIENT PAUSE 100 ALL", "PING"],
        "+OK|+OK|",
    );
    clock.int("CLOCK ADVANCE 499");
    a.silent();
    clock.int("CLOCK ADVANCE 1");
    a.receive("+PONG|");
}

#[test]
fn keys_stay_but_are_not_seen() {
    let server = start();
    let mut clock = Wire::open(&server);
    let (mut a, mut events) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["CONFIG SET notify-keyspace-events Ex"], "+OK|");
    events.expect(
        &["SUBSCRIBE __keyevent@0__:expired"],
        "*3|$9|subscribe|$22|__keyevent@0__:expired|:1|",
    );
    a.expect(
        &["SET k v PX 30", "SET l v PX 150", "CLIENT PAUSE 100 WRITE"],
        "+OK|+OK|+OK|",
    );
    clock.int("CLOCK ADVANCE 60");
    for _ in 0..2 {
        a.expect(
            &[
                "GET k",
                "EXISTS k",
                "TTL k",
                "TYPE k",
                "TOUCH k",
                "KEYS k",
                "RANDOMKEY",
                "DBSIZE",
                "GET l",
            ],
            "$-1|:0|:-2|+none|:0|*0|$1|l|:2|$1|v|",
        );
    }
    events.silent();
    clock.int("CLOCK ADVANCE 200");
    events.receive("*3|$7|message|$22|__keyevent@0__:expired|$1|k|");
    events.receive("*3|$7|message|$22|__keyevent@0__:expired|$1|l|");
    a.expect(&["DBSIZE"], ":0|");
    events.silent();
}

#[test]
fn unpause_lets_keys_go() {
    let server = start();
    let mut clock = Wire::open(&server);
    let mut a = Wire::open(&server);
    a.expect(&["SET k v PX 30", "CLIENT PAUSE 100000 WRITE"], "+OK|+OK|");
    clock.int("CLOCK ADVANCE 60");
    a.expect(
        &["DBSIZE", "CLIENT UNPAUSE", "DBSIZE", "SET k w", "GET k"],
        ":1|+OK|:0|+OK|$1|w|",
    );
}

#[test]
fn who_goes_while_it_waits_leaves_its_commands_undone() {
    let server = start();
    let mut a = Wire::open(&server);
    a.expect(&["CLIENT PAUSE 100000 WRITE"], "+OK|");
    let mut b = Wire::open(&server);
    b.send(&["GET k", "SET k v"]);
    b.receive("$-1|");
    drop(b);
    crate::wire::eventually(|| a.text("CLIENT LIST").lines().count() == 1);
    a.expect(&["CLIENT UNPAUSE", "GET k"], "+OK|$-1|");
}

/// The real clock ends a pause by itself.
#[test]
fn a_pause_ends_by_itself_and_never_early() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut a = Wire::open(&server);
    let began = unix_time();
    a.expect(&["CLIENT PAUSE 80", "PING"], "+OK|+PONG|");
    let took = unix_time() - began;
    assert!(took >= Duration::from_millis(80), "{took:?}");
}
