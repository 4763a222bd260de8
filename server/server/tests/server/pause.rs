//! CLIENT PAUSE delays commands and expiry.

use std::io::Write as _;
use std::time::Duration;

use crate::waiters::start;
use crate::wire::{Open as _, Wire, eventually, field, unix_time};
use punctual_resp::{Value, encode_command};
use punctual_server::Server;

#[test]
fn arguments_are_checked() {
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
fn a_pause_of_all_delays_every_command() {
    let server = start();
    let mut clock = Wire::open(&server);
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(&["PING", "CLIENT PAUSE 1000", "ECHO later"], "+PONG|+OK|");
    b.send(&["CLIENT UNPAUSE", "SET k v", "NOSUCH"]);
    b.expect_silence();
    clock.int("CLOCK ADVANCE 999");
    a.expect_silence();
    clock.int("CLOCK ADVANCE 1");
    a.receive("$5|later|");
    b.receive("+OK|+OK|-ERR unknown command 'NOSUCH', with args beginning with: |");
}

#[test]
fn monitors_do_not_wait() {
    let server = start();
    let (mut a, mut m) = (Wire::open(&server), Wire::open(&server));
    m.expect(&["MONITOR"], "+OK|");
    a.expect(&["CLIENT PAUSE 1000"], "+OK|");
    m.send(&["ECHO now"]);
    // Commands of other clients may appear first.
    while m.value() != Value::bulk("now") {}
}

#[test]
fn a_pause_of_writes_delays_only_writes() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.expect(
        &["SET k v", "CLIENT PAUSE 1000 WRITE", "GET k"],
        "+OK|+OK|$1|v|",
    );
    b.send(&["GET k", "SET k w", "GET k"]);
    b.receive("$1|v|");
    b.expect_silence();
    let list = a.text("CLIENT LIST");
    let line = list.lines().find(|l| field(l, "cmd") == "set").unwrap();
    assert_eq!(field(line, "flags"), "b");
    // A second pause does not shorten the first pause or change its mode.
    a.expect(&["CLIENT PAUSE 1 WRITE", "GET k"], "+OK|$1|v|");
    a.expect(&["CLIENT UNPAUSE"], "+OK|");
    b.receive("+OK|$1|w|");
    // Commands that affect other clients also wait.
    a.expect(&["CLIENT PAUSE 1000 WRITE"], "+OK|");
    b.send(&["PUBLISH c m"]);
    b.expect_silence();
    a.expect(&["CLIENT UNPAUSE"], "+OK|");
    b.receive(":0|");
}

/// Like redis-server 7.0.15 and 8.2.3, which read the flags of scripts and functions before they
/// run.
#[test]
fn a_pause_of_writes_lets_scripts_run_that_declare_no_writes() {
    let server = start();
    let mut a = Wire::open(&server);
    let load = "#!lua name=l\nredis.register_function{function_name='r', callback=function() return 1 end, flags={'no-writes'}}\n\
                redis.register_function('w', function() return 1 end)";
    a.ask(&["FUNCTION", "LOAD", load]);
    let mut digest = |code: &str| {
        let reply = a.ask(&["SCRIPT", "LOAD", code]);
        String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap()
    };
    let declared = digest("#!lua flags=no-writes\nreturn 1");
    let undeclared = digest("#!lua flags=allow-oom\nreturn 1");
    let plain = digest("return 1");
    for (command, held) in [
        (["EVAL", "#!lua flags=no-writes\nreturn 1", "0"], false),
        (["EVAL", "#!lua\nreturn 1", "0"], true),
        (["EVAL", "return 1", "0"], true),
        (["EVAL_RO", "return 1", "0"], false),
        (["EVALSHA", &declared, "0"], false),
        (["EVALSHA", &undeclared, "0"], true),
        (["EVALSHA", &plain, "0"], true),
        (["EVALSHA_RO", &plain, "0"], false),
        (["FCALL", "r", "0"], false),
        (["FCALL", "w", "0"], true),
        (["FCALL_RO", "r", "0"], false),
    ] {
        for transaction in [false, true] {
            let mut b = Wire::open(&server);
            let mut reply = ":1|";
            if transaction {
                b.expect(&["MULTI"], "+OK|");
                b.ask(&command);
                reply = "*1|:1|";
            }
            a.expect(&["CLIENT PAUSE 1000 WRITE"], "+OK|");
            let last: &[&str] = if transaction { &["EXEC"] } else { &command };
            let mut request = Vec::new();
            encode_command(&mut request, last);
            b.stream.write_all(&request).unwrap();
            if held {
                // The server has received the command.
                eventually(|| a.text("INFO clients").contains("blocked_clients:1"));
                b.expect_silence();
            } else {
                b.receive(reply);
            }
            a.expect(&["CLIENT UNPAUSE"], "+OK|");
            if held {
                b.receive(reply);
            }
        }
    }
}

#[test]
fn a_later_pause_of_all_keeps_the_longer_end() {
    let server = start();
    let mut clock = Wire::open(&server);
    let mut a = Wire::open(&server);
    a.expect(
        &["CLIENT PAUSE 500 WRITE", "CLIENT PAUSE 100 ALL", "PING"],
        "+OK|+OK|",
    );
    clock.int("CLOCK ADVANCE 499");
    a.expect_silence();
    clock.int("CLOCK ADVANCE 1");
    a.receive("+PONG|");
}

#[test]
fn expired_keys_are_hidden_but_not_removed() {
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
    events.expect_silence();
    clock.int("CLOCK ADVANCE 200");
    events.receive("*3|$7|message|$22|__keyevent@0__:expired|$1|k|");
    events.receive("*3|$7|message|$22|__keyevent@0__:expired|$1|l|");
    a.expect(&["DBSIZE"], ":0|");
    events.expect_silence();
}

#[test]
fn unpause_removes_expired_keys() {
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
fn commands_of_a_client_that_disconnects_do_not_run() {
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

/// With the real clock, a pause ends without another event.
#[test]
fn a_pause_ends_on_time_and_never_early() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut a = Wire::open(&server);
    let began = unix_time();
    a.expect(&["CLIENT PAUSE 80", "PING"], "+OK|+PONG|");
    let took = unix_time() - began;
    assert!(took >= Duration::from_millis(80), "{took:?}");
}
