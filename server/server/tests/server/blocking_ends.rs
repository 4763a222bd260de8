//! Waits that end without an element: timeouts, CLIENT UNBLOCK and disconnections. No waiter
//! remains and no element is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::waiters::{assert_no_waiters, block, resp3, start, waiting, with_threads};
use crate::wire::{Open as _, Wire, eventually, server_with, unix_time};
use punctual_server::Server;

#[test]
fn invalid_timeouts_are_refused() {
    let server = start();
    let mut c = Wire::open(&server);
    for (timeout, error) in [
        ("abc", "timeout is not a float or out of range"),
        ("nan", "timeout is not a float or out of range"),
        ("-1", "timeout is negative"),
        ("-0.002", "timeout is negative"),
        ("-inf", "timeout is negative"),
        ("inf", "timeout is out of range"),
        ("1e400", "timeout is out of range"),
        ("9223372036854775", "timeout is out of range"),
        ("9223372036854776", "timeout is out of range"),
    ] {
        for line in [
            "BLPOP k #",
            "BRPOP k #",
            "BLMOVE k l LEFT LEFT #",
            "BRPOPLPUSH k l #",
            "BLMPOP # 1 k LEFT",
        ] {
            c.expect_error(&line.replace('#', timeout), error);
        }
    }
    c.expect_error("BLMOVE k l UP LEFT abc", "syntax error");
    c.expect_error("BLMPOP 0 0 k LEFT", "numkeys should be greater than 0");
    c.expect_error("BLMPOP abc 0 k LEFT", "numkeys should be greater than 0");
}

#[test]
fn timeouts_are_exact() {
    let server = start();
    let mut clock = Wire::open(&server);
    let (mut two, mut three) = (Wire::open(&server), resp3(&server));
    for (line, wait) in [
        ("BLPOP k 0.05", 50),
        ("BRPOP k l 0.0501", 51),
        ("BLMOVE k l LEFT LEFT 1.1", 1100),
        ("BRPOPLPUSH k l 0x1p-1", 500),
        ("BLMPOP 1e-9 1 k LEFT", 1),
    ] {
        block(&server, &mut two, line);
        block(&server, &mut three, line);
        clock.int(&format!("CLOCK ADVANCE {}", wait - 1));
        two.expect_silence();
        three.expect_silence();
        clock.int("CLOCK ADVANCE 1");
        two.receive("*-1|");
        three.receive("_|");
        assert_no_waiters(&server);
    }
}

/// A waiter past its timeout is not served, even before its event loop reads the clock.
#[test]
fn a_push_after_the_timeout_serves_the_next_waiter() {
    let server = start();
    let (mut a, mut b, mut clock) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    block(&server, &mut a, "BLPOP k 1");
    block(&server, &mut b, "BLPOP k 2");
    clock.send(&["CLOCK ADVANCE 1000", "RPUSH k x"]);
    a.receive("*-1|");
    b.receive("*2|$1|k|$1|x|");
    assert_no_waiters(&server);
}

#[test]
fn a_pause_does_not_delay_timeouts() {
    let server = start();
    let (mut a, mut clock) = (Wire::open(&server), Wire::open(&server));
    block(&server, &mut a, "BLPOP k 1");
    clock.expect(&["CLIENT PAUSE 100000"], "+OK|");
    clock.int("CLOCK ADVANCE 1000");
    a.receive("*-1|");
}

#[test]
fn client_unblock() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        let id = a.int("CLIENT ID");
        b.expect(&[&format!("CLIENT UNBLOCK {id}")], ":0|");
        for (how, answer) in [
            ("", "*-1|"),
            (" TIMEOUT", "*-1|"),
            (" error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK|"),
        ] {
            block(&server, &mut a, "BLPOP k l 100");
            b.expect(&[&format!("CLIENT UNBLOCK {id}{how}")], ":1|");
            b.expect(&[&format!("CLIENT UNBLOCK {id}{how}")], ":0|");
            a.receive(answer);
            assert_no_waiters(&server);
            a.expect(&["PING"], "+PONG|");
        }
        b.expect_error(
            "CLIENT UNBLOCK x",
            "value is not an integer or out of range",
        );
        b.expect_error(
            &format!("CLIENT UNBLOCK {id} now"),
            "CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
        );
        b.expect(&["CLIENT UNBLOCK 99999"], ":0|");
    }
}

#[test]
fn a_disconnected_waiter_takes_no_element() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let mut pusher = Wire::open(&server);
        let mut clients: Vec<Wire> = (0..20).map(|_| Wire::open(&server)).collect();
        for (n, c) in clients.iter_mut().enumerate() {
            block(&server, c, &format!("BLPOP k own:{n} {}", n % 3 * 1000));
        }
        let mut last = clients.pop().unwrap();
        clients.truncate(10);
        eventually(|| waiting(&server) == 11);
        // A client that no longer waits may be connected for another moment.
        eventually(|| pusher.info("clients", "connected_clients") == "12");
        assert_eq!(pusher.int("CLIENT KILL TYPE normal SKIPME yes"), 11);
        last.ends();
        assert_no_waiters(&server);
        pusher.expect(&["RPUSH k x", "LLEN k"], ":1|:1|");
    }
}

/// The last bytes and the end of the stream arrive together: no second event reports the end.
#[test]
fn a_client_that_disconnects_before_it_waits_is_removed() {
    let server = start();
    for _ in 0..20 {
        let mut c = Wire::open(&server);
        c.send(&["PING", "BLPOP k 0", "PING"]);
        c.stream.shutdown(std::net::Shutdown::Write).unwrap();
        c.receive("+PONG|");
        assert_eq!(c.ends(), 0);
    }
    assert_no_waiters(&server);
    Wire::open(&server).expect(&["RPUSH k x"], ":1|");
}

#[test]
fn reply_modes() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    a.send(&["CLIENT REPLY SKIP"]);
    block(&server, &mut a, "BLPOP k 0");
    b.expect(&["RPUSH k x"], ":1|");
    a.expect(&["ECHO a"], "$1|a|");
    a.send(&["CLIENT REPLY OFF"]);
    block(&server, &mut a, "BLPOP k 0.1");
    b.int("CLOCK ADVANCE 100");
    eventually(|| waiting(&server) == 0);
    a.expect(&["ECHO b", "CLIENT REPLY ON"], "+OK|");
}

#[test]
fn waiting_clients_are_not_idle() {
    let server = server_with("clock virtual|timeout 10");
    let (mut a, mut clock) = (Wire::open(&server), Wire::open(&server));
    block(&server, &mut a, "BLPOP k 0");
    for _ in 0..5 {
        clock.int("CLOCK ADVANCE 9000");
    }
    clock.expect(&["RPUSH k x"], ":1|");
    a.receive("*2|$1|k|$1|x|");
}

/// With the real clock, a loop wakes for timeouts without other events.
#[test]
fn timeouts_end_waits_and_are_never_early() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    let began = unix_time();
    c.expect(&["BLPOP k 0.08"], "*-1|");
    let took = unix_time() - began;
    assert!(took >= Duration::from_millis(80), "{took:?}");
}

/// Every element is delivered to exactly one consumer, under any interleaving of clients, keys and
/// loops.
#[test]
fn every_element_is_delivered_once() {
    const CONSUMERS: usize = 12;
    const PRODUCERS: usize = 4;
    const ELEMENTS: usize = 600;
    for threads in [1, 4] {
        let server = with_threads(threads);
        let seen: Vec<AtomicU64> = (0..PRODUCERS * ELEMENTS)
            .map(|_| AtomicU64::new(0))
            .collect();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..CONSUMERS {
                let (server, seen, taken) = (&server, &seen, &taken);
                scope.spawn(move || {
                    let mut c = Wire::open(server);
                    for round in 0_usize.. {
                        // The keys are in several orders and shards, and BLMOVE moves some elements
                        // to another key first.
                        let (a, b) = ((number + round) % 5, (number + round * 3) % 5);
                        let line = match round % 4 {
                            0 => format!("BLPOP k:{a} k:{b} k:0 k:1 k:2 k:3 k:4 0"),
                            1 => format!("BLMPOP 0 6 k:{b} k:0 k:1 k:2 k:3 k:4 LEFT"),
                            2 => format!("BRPOP k:{b} k:{a} k:4 k:3 k:2 k:1 k:0 0"),
                            _ => format!("BLMOVE k:{a} k:{b} LEFT RIGHT 0.001"),
                        };
                        c.send(&[&line]);
                        let reply = c.value();
                        let Some(parts) = reply.as_slice() else {
                            continue; // The reply of BLMOVE, or a timeout.
                        };
                        let element = parts[1].as_slice().map_or(&parts[1], |list| &list[0]);
                        let text = std::str::from_utf8(element.as_bytes().unwrap()).unwrap();
                        if text == "end" {
                            return;
                        }
                        seen[text.parse::<usize>().unwrap()].fetch_add(1, Ordering::Relaxed);
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|number| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut c = Wire::open(server);
                        for n in 0..ELEMENTS {
                            let (element, key) = (number * ELEMENTS + n, (n * 7 + number) % 5);
                            if n % 3 == 0 {
                                c.send(&["MULTI", &format!("RPUSH k:{key} {element}"), "EXEC"]);
                                c.receive("+OK|+QUEUED|*1|");
                            } else {
                                c.send(&[&format!("RPUSH k:{key} {element}")]);
                            }
                            assert!(!c.value().is_error());
                        }
                    })
                })
                .collect();
            producers.into_iter().for_each(|p| p.join().unwrap());
            // A lost element would keep this count too low.
            eventually(|| {
                let clock = server.shared().clock.now();
                let mut c = Wire::open(&server);
                c.int("CLOCK ADVANCE 1");
                assert!(server.shared().clock.now() >= clock);
                taken.load(Ordering::Relaxed) == (PRODUCERS * ELEMENTS) as u64
            });
            let mut c = Wire::open(&server);
            let ends = vec!["end"; CONSUMERS * 3].join(" ");
            c.int(&format!("RPUSH k:0 {ends}"));
            let done = &seen;
            assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            // Ends each BLMOVE that still waits for its timeout.
            for _ in 0..20 {
                c.int("CLOCK ADVANCE 1");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_no_waiters(&server);
    }
}

/// No client sends a command at the moment at which the key expires.
#[test]
fn a_stream_that_expires_ends_the_waits_of_its_groups() {
    let server = server_with("clock virtual");
    let (mut c, mut reader) = (Wire::open(&server), Wire::open(&server));
    assert_eq!(c.text("XGROUP CREATE s g $ MKSTREAM"), "OK");
    assert_eq!(c.int("PEXPIRE s 100"), 1);
    reader.send(&["XREADGROUP GROUP g me BLOCK 0 STREAMS s >"]);
    eventually(|| c.text("INFO clients").contains("blocked_clients:1"));
    server.advance(Duration::from_millis(100)).unwrap();
    reader
        .receive("-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option|");
}
