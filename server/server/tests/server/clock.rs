//! The virtual clock: CLOCK ADVANCE and CLOCK SET move everything that depends on time.

use std::io::Read as _;
use std::net::TcpStream;

use crate::waiters::{start, with_threads};
use crate::wire::{Open as _, Wire, eventually, server_with};
use punctual_resp::Value;
use punctual_server::Server;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

#[test]
fn a_key_of_thirty_days_expires_on_time() {
    let server = start();
    let mut c = Wire::open(&server);
    let before = c.int("CLOCK NOW");
    c.expect(
        &["SET token secret EX 2592000", "TTL token"],
        "+OK|:2592000|",
    );
    assert_eq!(c.int("CLOCK ADVANCE 2591999999"), before + 30 * DAY_MS - 1);
    c.expect(&["GET token", "PTTL token"], "$6|secret|:1|");
    c.int("CLOCK ADVANCE 1");
    c.expect(&["GET token", "PTTL token", "DBSIZE"], "$-1|:-2|:0|");
    assert!(c.text("INFO stats").contains("\r\nexpired_keys:1\r\n"));
}

#[test]
fn time_passes_only_by_clock_commands() {
    let server = start();
    let mut c = Wire::open(&server);
    let before = c.int("CLOCK NOW");
    c.expect(&["SET k v PX 1"], "+OK|");
    std::thread::sleep(std::time::Duration::from_millis(20));
    c.expect(&["GET k", "PTTL k"], "$1|v|:1|");
    assert_eq!(c.int("CLOCK NOW"), before);
    let (seconds, micros) = (before / 1000, before % 1000 * 1000);
    let shown = format!(
        "*2|${}|{seconds}|${}|{micros}|",
        seconds.to_string().len(),
        micros.to_string().len()
    );
    c.expect(&["TIME"], &shown);
    // SLOWLOG shows the time of the virtual clock.
    c.expect(
        &[
            "CONFIG SET slowlog-log-slower-than 0",
            "CLOCK ADVANCE 86400000",
        ],
        &format!("+OK|:{}|", before + DAY_MS),
    );
    let newest = c.ask(&["SLOWLOG", "GET", "1"]);
    assert_eq!(
        newest.as_slice().unwrap()[0].as_slice().unwrap()[1].as_int(),
        Some((before + DAY_MS) / 1000)
    );
}

/// One advance publishes the expiries of all shards and databases in the order of their deadlines.
fn check_event_order(server: &Server) {
    let mut c = Wire::open(server);
    c.expect(&["CONFIG SET notify-keyspace-events Ex"], "+OK|");
    let mut listener = Wire::open(server);
    listener.expect(
        &["PSUBSCRIBE __keyevent@*__:expired"],
        "*3|$10|psubscribe|$22|__keyevent@*__:expired|:1|",
    );
    let keys = 500;
    for n in 0..keys {
        let (db, after_ms) = (n % 3, 1 + n * 7919 % 10_007);
        c.expect(
            &[
                &format!("SELECT {db}"),
                &format!("SET {after_ms} v PX {after_ms}"),
            ],
            "+OK|+OK|",
        );
    }
    c.int("CLOCK ADVANCE 5000");
    let passed = (0..keys)
        .map(|n| 1 + n * 7919 % 10_007)
        .filter(|after_ms| *after_ms <= 5000);
    let count = passed.count();
    let mut before = 0;
    for _ in 0..count {
        let message = listener.value();
        let key = message.as_slice().unwrap()[3].as_bytes().unwrap();
        let after_ms: u64 = String::from_utf8_lossy(key).parse().unwrap();
        assert!(
            after_ms > before && after_ms <= 5000,
            "{after_ms} after {before}"
        );
        before = after_ms;
    }
    assert!(count > 200);
    listener.expect_silence();
    c.int("CLOCK ADVANCE 5006");
    c.int("CLOCK ADVANCE 1");
    for _ in count..keys {
        listener.value();
    }
    for db in 0..3 {
        c.expect(&[&format!("SELECT {db}"), "DBSIZE"], "+OK|:0|");
    }
}

#[test]
fn events_arrive_in_deadline_order() {
    check_event_order(&start());
}

#[test]
fn events_arrive_in_deadline_order_with_several_loops() {
    check_event_order(&with_threads(2));
    check_event_order(&with_threads(4));
}

/// The reply follows the complete advance: commands that are sent later on any loop see no expired
/// key.
#[test]
fn an_advance_is_complete_on_every_loop_before_its_reply() {
    let server = with_threads(3);
    let mut clients: Vec<Wire> = (0..6).map(|_| Wire::open(&server)).collect();
    for round in 1..=50_i64 {
        for n in 0..60 {
            clients[n % 6].expect(&[&format!("SET {round}:{n} v PX {}", 1 + n)], "+OK|");
        }
        let moved = clients[round as usize % 6].int("CLOCK ADVANCE 30");
        for (i, c) in clients.iter_mut().enumerate() {
            assert_eq!(c.int("CLOCK NOW"), moved);
            c.expect(&["DBSIZE"], ":30|");
            let last = format!("EXISTS {round}:{} {round}:{}", 24 + i, 30 + i);
            c.expect(&[&last], ":1|");
        }
        clients[0].int("CLOCK ADVANCE 30");
        clients[5].expect(&["DBSIZE"], ":0|");
    }
}

#[test]
fn the_clock_only_moves_forward() {
    let server = start();
    let mut c = Wire::open(&server);
    let now = c.int("CLOCK NOW");
    assert_eq!(c.int(&format!("CLOCK SET {now}")), now);
    assert_eq!(c.int(&format!("CLOCK SET {}", now + 5)), now + 5);
    assert_eq!(c.int("CLOCK ADVANCE 0"), now + 5);
    c.expect_error(&format!("CLOCK SET {now}"), "the clock cannot go back");
    c.expect_error("CLOCK ADVANCE -1", "value is out of range");
    c.expect_error(
        "CLOCK ADVANCE soon",
        "value is not an integer or out of range",
    );
    c.expect_error("CLOCK ADVANCE 9223372036854775807", "value is out of range");
    c.expect_error("CLOCK SET 9223372036854775807", "value is out of range");
    c.expect_error(
        "CLOCK ADVANCE",
        "wrong number of arguments for 'clock|advance' command",
    );
    c.expect_error("CLOCK BACK", "unknown subcommand 'BACK'. Try CLOCK HELP.");
    assert_eq!(c.int("CLOCK NOW"), now + 5);
    // The deadline of `k` is the largest time that the clock can have, in ms.
    c.expect(&["SET k v PXAT 9223372036854775"], "+OK|");
    c.expect(
        &["CLOCK SET 9223372036854774", "PTTL k"],
        ":9223372036854774|:1|",
    );
    c.expect(&["CLOCK ADVANCE 1", "PTTL k"], ":9223372036854775|:-2|");
    c.expect(
        &["CLOCK ADVANCE 1", "PING"],
        "-ERR value is out of range|+PONG|",
    );
    let Some(lines) = c.ask(&["CLOCK", "HELP"]).as_slice().map(<[_]>::len) else {
        panic!("no list");
    };
    assert_eq!(lines, 9);
}

#[test]
fn the_real_clock_cannot_be_moved() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    const REFUSAL: &str =
        "the clock is real and cannot be moved; start the server with --clock virtual";
    c.expect_error("CLOCK ADVANCE 1", REFUSAL);
    c.expect_error("CLOCK SET 1", REFUSAL);
    c.expect_error(
        "CONFIG SET clock virtual",
        "CONFIG SET failed (possibly related to argument 'clock') - can't set immutable config",
    );
    let before = c.int("CLOCK NOW");
    eventually(|| c.int("CLOCK NOW") > before);
}

#[test]
fn the_idle_timeout_follows_the_clock() {
    for threads in [1, 2] {
        let server = with_threads(threads);
        let mut mover = Wire::open(&server);
        mover.expect(&["CONFIG SET timeout 60"], "+OK|");
        let mut idle: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
        for c in &mut idle {
            c.expect(&["PING"], "+PONG|");
        }
        mover.int("CLOCK ADVANCE 59999");
        idle[0].expect(&["PING"], "+PONG|");
        mover.int("CLOCK ADVANCE 1");
        for c in &mut idle[1..] {
            assert_eq!(c.ends(), 0);
        }
        mover.int("CLOCK ADVANCE 59998");
        idle[0].expect(&["PING"], "+PONG|");
        // A client that moves the clock is not idle after an advance of any length.
        mover.int(&format!("CLOCK ADVANCE {DAY_MS}"));
        assert_eq!(idle[0].ends(), 0);
        mover.expect(&["PING"], "+PONG|");
    }
}

#[test]
fn keys_expire_on_access_without_active_expiry() {
    let server = server_with("clock virtual|enable-debug-command local");
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "DEBUG SET-ACTIVE-EXPIRE 0",
            "SET a v PX 10",
            "SET b v PX 10",
        ],
        "+OK|+OK|+OK|",
    );
    c.int("CLOCK ADVANCE 10");
    assert!(c.text("INFO timers").contains("timers_pending:2"));
    c.expect(&["GET a"], "$-1|");
    assert!(c.text("INFO timers").contains("timers_pending:1"));
    c.expect(&["DEBUG SET-ACTIVE-EXPIRE 1"], "+OK|");
    eventually(|| c.text("INFO timers").contains("timers_pending:0"));
}

/// A timer copies itself, and the copies are due at the same instant. They fire at that instant,
/// and the clock moves on.
#[test]
fn the_clock_passes_timers_that_copy_others() {
    let server = with_threads(3);
    let mut c = Wire::open(&server);
    // The copy and the timer fire for the last time at the same instant, in any order of their
    // shards.
    for n in 0..30 {
        let line = format!("TIMER SET copied:{n} EVERY 10 LIMIT 2 DO COPY copied:{n} copy:{n}");
        c.expect(&[&line], "+OK|");
    }
    c.int("CLOCK ADVANCE 30");
    assert_eq!(c.int("DBSIZE"), 0);

    // Two timers that copy each other never end. The clock stops at their instant until they are
    // deleted.
    let script = "if redis.call('EXISTS', 'b') == 1 then redis.call('COPY', 'b', 'a') else redis.call('COPY', 'a', 'b') end";
    let library = format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
    c.ask(&["FUNCTION", "LOAD", &library]);
    let before = c.int("CLOCK NOW");
    for name in ["a", "b"] {
        c.expect(&[&format!("TIMER SET {name} IN 5 DO FCALL f 0")], "+OK|");
    }
    c.send(&["CLOCK ADVANCE 10"]);
    let endless = c.value();
    assert!(endless.is_error(), "{endless:?}");
    assert_eq!(c.int("CLOCK NOW"), before + 5);
    c.int("DEL a b");
    assert_eq!(c.int("CLOCK ADVANCE 10"), before + 15);
}

/// CLOCK ADVANCE replies after all loops have sent their messages, so a client can read them
/// without waiting.
#[test]
fn all_loops_have_sent_their_messages_before_the_reply() {
    let server = server_with("threads 4|clock virtual|notify-keyspace-events Ex");
    let mut subscribers: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut wire = Wire::open(&server);
            wire.expect(
                &["SUBSCRIBE __keyevent@0__:expired"],
                "*3|$9|subscribe|$22|__keyevent@0__:expired|:1|",
            );
            wire.stream
        })
        .collect();
    let mut c = Wire::open(&server);
    for round in 0..50 {
        c.expect(&["SET key value PX 5"], "+OK|");
        c.int("CLOCK ADVANCE 10");
        for subscriber in &mut subscribers {
            subscriber.set_nonblocking(true).unwrap();
            let mut message = [0; 256];
            let len = subscriber.read(&mut message);
            assert!(len.is_ok_and(|len| len > 0), "round {round}");
        }
    }
    // A transaction does not wait.
    c.expect(&["MULTI", "CLOCK ADVANCE 0"], "+OK|+QUEUED|");
    c.send(&["EXEC"]);
    assert!(matches!(c.value(), Value::Array(values) if values.len() == 1));
}
