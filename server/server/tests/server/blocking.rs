//! BLPOP and the other blocking commands: which clients wait, and which element each one receives.

use crate::waiters::{assert_no_waiters, block, resp3, start, with_threads};
use crate::wire::{Open as _, Wire, field, server_with};
use punctual_resp::Value;

#[test]
fn available_elements_are_returned_at_once() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        c.expect(&["RPUSH l 1 2 3 4 5 6 7", "RPUSH m x"], ":7|:1|");
        c.expect(
            &["BLPOP none l m 0", "BRPOP l 0"],
            "*2|$1|l|$1|1|*2|$1|l|$1|7|",
        );
        c.expect(
            &["BLMOVE l m LEFT RIGHT 0", "BRPOPLPUSH l m 0"],
            "$1|2|$1|6|",
        );
        c.expect(&["LRANGE m 0 -1"], "*3|$1|6|$1|x|$1|2|");
        c.expect(
            &["BLMPOP 0 2 none l RIGHT COUNT 2", "BLMPOP 0 2 none l LEFT"],
            "*2|$1|l|*2|$1|5|$1|4|*2|$1|l|*1|$1|3|",
        );
        c.expect(&["EXISTS l", "SET s v"], ":0|+OK|");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
        for line in [
            "BLPOP s m 0",
            "BRPOP none s 0",
            "BLMOVE s l LEFT LEFT 0",
            "BLMOVE m s LEFT LEFT 0",
            "BRPOPLPUSH s l 0",
            "BLMPOP 0 2 s m LEFT",
        ] {
            c.expect(&[line], wrong);
        }
        c.expect(&["LLEN m"], ":3|");
    }
}

#[test]
fn a_push_serves_a_waiter() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut pusher, mut two, mut three) =
            (Wire::open(&server), Wire::open(&server), resp3(&server));
        for c in [&mut two, &mut three] {
            block(&server, c, "BLPOP k l 0");
            pusher.expect(&["RPUSH l a b"], ":2|");
            c.receive("*2|$1|l|$1|a|");
            c.expect(&["BRPOP l 0"], "*2|$1|l|$1|b|");
            block(&server, c, "BLMOVE k l LEFT LEFT 0");
            pusher.expect(&["RPUSH k a"], ":1|");
            c.receive("$1|a|");
            block(&server, c, "BRPOPLPUSH k l 0");
            pusher.expect(
                &["RPUSH k a b", "LRANGE l 0 -1", "DEL k l"],
                ":2|*2|$1|b|$1|a|:2|",
            );
            c.receive("$1|b|");
            block(&server, c, "BLMPOP 0 2 k l RIGHT COUNT 2");
            pusher.expect(&["RPUSH l a b c", "LLEN l", "DEL l"], ":3|:1|:1|");
            c.receive("*2|$1|l|*2|$1|c|$1|b|");
        }
        assert_no_waiters(&server);
    }
}

#[test]
fn sorted_set_pops_block() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut a, mut three, mut b) = (Wire::open(&server), resp3(&server), Wire::open(&server));
        b.expect(&["ZADD z 1 a 2.5 b 3 c", "SET s v"], ":3|+OK|");
        a.expect(
            &["BZPOPMIN none z 0", "BZPOPMAX z 0"],
            "*3|$1|z|$1|a|$1|1|*3|$1|z|$1|c|$1|3|",
        );
        three.expect(
            &["BZMPOP 0 2 none z MAX COUNT 5"],
            "*2|$1|z|*1|*2|$1|b|,2.5|",
        );
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
        a.expect(&["BZPOPMIN s z 0", "BZMPOP 0 1 s MIN"], &wrong.repeat(2));
        block(&server, &mut a, "BZPOPMAX y z 0");
        block(&server, &mut three, "BZPOPMIN z 0");
        b.expect(&["ZADD z 1 a 2.5 b", "EXISTS z"], ":2|:0|");
        a.receive("*3|$1|z|$1|b|$3|2.5|");
        three.receive("*3|$1|z|$1|a|,1|");
        block(&server, &mut a, "BZMPOP 0.5 2 y z MIN COUNT 2");
        block(&server, &mut three, "BZPOPMIN z 0.5");
        b.int("CLOCK ADVANCE 500");
        a.receive("*-1|");
        three.receive("_|");
        b.expect_error("BZPOPMIN z x", "timeout is not a float or out of range");
        b.expect_error("BZMPOP -1 1 z MIN", "timeout is negative");
        assert_no_waiters(&server);
    }
}

#[test]
fn first_come_first_served() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let mut pusher = Wire::open(&server);
        let mut clients: Vec<Wire> = (0..6).map(|_| Wire::open(&server)).collect();
        for (n, c) in clients.iter_mut().enumerate() {
            block(
                &server,
                c,
                &format!("BLPOP own:{n} k {} 0", if n % 2 == 0 { "k" } else { "l" }),
            );
        }
        pusher.expect(&["RPUSH k 0 1 2 3"], ":4|");
        for (n, c) in clients[..4].iter_mut().enumerate() {
            c.receive(&format!("*2|$1|k|$1|{n}|"));
        }
        pusher.expect(&["EXISTS k", "RPUSH l x y"], ":0|:2|");
        clients[5].receive("*2|$1|l|$1|x|");
        pusher.expect(&["LLEN l", "RPUSH k z w"], ":1|:2|");
        clients[4].receive("*2|$1|k|$1|z|");
        pusher.expect(&["LRANGE k 0 -1"], "*1|$1|w|");
        assert_no_waiters(&server);
    }
}

#[test]
fn a_waiter_is_served_from_its_first_ready_key() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        block(&server, &mut a, "BLPOP x y z 0");
        b.expect(
            &[
                "MULTI",
                "LPUSH z 3",
                "LPUSH y 2",
                "DEL z",
                "LPUSH x 1",
                "LPUSH z 4",
                "EXEC",
            ],
            "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*5|:1|:1|:1|:1|:1|",
        );
        a.receive("*2|$1|x|$1|1|");
        b.expect(&["LLEN y", "LLEN z"], ":1|:1|");
        // An element that the transaction removes again is not served.
        a.expect(
            &["BLPOP x y z 0", "BLPOP x y z 0"],
            "*2|$1|y|$1|2|*2|$1|z|$1|4|",
        );
        block(&server, &mut a, "BLPOP x 0");
        b.expect(
            &[
                "MULTI",
                "LPUSH x 1",
                "DEL x",
                "EXEC",
                "MULTI",
                "LPUSH x 1",
                "LPUSH x 2",
                "EXEC",
            ],
            "+OK|+QUEUED|+QUEUED|*2|:1|:1|+OK|+QUEUED|+QUEUED|*2|:1|:2|",
        );
        a.receive("*2|$1|x|$1|2|");
    }
}

#[test]
fn commands_after_a_blocking_command_wait() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        a.send(&[
            "PING",
            "BLPOP k 0",
            "SET seen 1",
            "BLPOP k 0",
            "BLPOP k 0",
            "ECHO end",
        ]);
        a.receive("+PONG|");
        b.expect(&["EXISTS seen"], ":0|");
        a.send(&["ECHO later"]);
        a.expect_silence();
        b.expect(&["RPUSH k x y"], ":2|");
        a.receive("*2|$1|k|$1|x|+OK|*2|$1|k|$1|y|");
        a.expect_silence();
        b.expect(&["RPUSH k z"], ":1|");
        a.receive("*2|$1|k|$1|z|$3|end|$5|later|");
        assert_no_waiters(&server);
    }
}

#[test]
fn blocking_commands_do_not_block_in_transactions() {
    let server = start();
    let (mut two, mut three) = (Wire::open(&server), resp3(&server));
    let lines = [
        "MULTI",
        "BLPOP k 0",
        "BRPOP k 0",
        "BLMPOP 0 1 k LEFT",
        "BLMOVE k l LEFT LEFT 0",
        "BRPOPLPUSH k l 0",
        "RPUSH k x",
        "BLPOP k 0",
    ];
    for (c, nulls) in [
        (&mut two, "*-1|*-1|*-1|$-1|$-1|"),
        (&mut three, "_|_|_|_|_|"),
    ] {
        c.send(&lines);
        c.receive(&format!("+OK|{}", "+QUEUED|".repeat(7)));
        c.expect(&["EXEC"], &format!("*7|{nulls}:1|*2|$1|k|$1|x|"));
    }
}

#[test]
fn client_list_and_info_show_waiters() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    let id = a.int("CLIENT ID");
    block(&server, &mut a, "BLPOP k l 0");
    let line = b.text(&format!("CLIENT LIST ID {id}"));
    assert_eq!((field(&line, "flags"), field(&line, "cmd")), ("b", "blpop"));
    let info = b.text("INFO clients");
    assert!(info.contains("blocked_clients:1\r\n"), "{info}");
    assert!(info.contains("total_blocking_keys:2\r\n"), "{info}");
    let stats = b.text("INFO commandstats");
    assert!(
        !stats.contains("cmdstat_blpop"),
        "counted before its reply: {stats}"
    );
    b.expect(&["RPUSH k x"], ":1|");
    a.receive("*2|$1|k|$1|x|");
    let line = b.text(&format!("CLIENT LIST ID {id}"));
    assert_eq!(field(&line, "flags"), "N");
    let info = b.text("INFO clients");
    assert!(info.contains("blocked_clients:0\r\n"), "{info}");
    assert!(info.contains("total_blocking_keys:0\r\n"), "{info}");
    let stats = b.text("INFO commandstats");
    assert!(stats.contains("cmdstat_blpop:calls=1,"), "{stats}");
    assert!(stats.contains("failed_calls=0"), "{stats}");
}

#[test]
fn a_served_move_serves_the_next_waiter() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let mut clients: Vec<Wire> = (0..5).map(|_| Wire::open(&server)).collect();
        let mut pusher = Wire::open(&server);
        for (n, line) in [
            "BLMOVE a b LEFT RIGHT 0",
            "BRPOPLPUSH b c 0",
            "BLMOVE c a LEFT LEFT 0",
            "BLPOP a 0",
            "BLPOP a 0",
        ]
        .iter()
        .enumerate()
        {
            block(&server, &mut clients[n], line);
        }
        pusher.expect(&["RPUSH a x"], ":1|");
        for c in &mut clients[..3] {
            c.receive("$1|x|");
        }
        clients[3].receive("*2|$1|a|$1|x|");
        clients[4].expect_silence();
        pusher.expect(&["EXISTS a b c", "RPUSH a y"], ":0|:1|");
        clients[4].receive("*2|$1|a|$1|y|");
        assert_no_waiters(&server);
    }
}

/// A move of a list onto itself serves each waiter once and then stops.
#[test]
fn a_list_may_be_moved_onto_itself() {
    let server = start();
    let (mut a, mut b, mut pusher) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    block(&server, &mut a, "BLMOVE k k LEFT RIGHT 0");
    block(&server, &mut b, "BLMOVE k k LEFT RIGHT 0");
    pusher.expect(&["RPUSH k x y"], ":2|");
    a.receive("$1|x|");
    b.receive("$1|y|");
    pusher.expect(&["LRANGE k 0 -1"], "*2|$1|x|$1|y|");
}

#[test]
fn a_wrong_destination_is_an_error_and_keeps_the_element() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut a, mut b, mut pusher) = (
            Wire::open(&server),
            Wire::open(&server),
            Wire::open(&server),
        );
        block(&server, &mut a, "BLMOVE k s LEFT LEFT 0");
        block(&server, &mut b, "BLPOP k 0");
        pusher.expect(&["SET s v", "RPUSH k x"], "+OK|:1|");
        a.receive("-WRONGTYPE Operation against a key holding the wrong kind of value|");
        b.receive("*2|$1|k|$1|x|");
        let stats = pusher.text("INFO commandstats");
        let line = stats
            .lines()
            .find(|l| l.starts_with("cmdstat_blmove"))
            .unwrap();
        assert!(
            line.contains("calls=1,") && line.ends_with("failed_calls=1"),
            "{line}"
        );
        assert_no_waiters(&server);
    }
}

#[test]
fn a_key_that_expires_within_a_transaction_serves_no_waiter() {
    let server = server_with("clock virtual|enable-debug-command yes");
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    b.expect(&["DEBUG SET-ACTIVE-EXPIRE 0"], "+OK|");
    block(&server, &mut a, "BLPOP k 1");
    b.send(&[
        "MULTI",
        "RPUSH k x",
        "PEXPIRE k 100",
        "CLOCK ADVANCE 200",
        "EXEC",
    ]);
    b.receive("+OK|+QUEUED|+QUEUED|+QUEUED|*3|:1|:1|");
    b.value();
    a.expect_silence();
    // The expiry was noticed while the waiter was being served.
    b.expect(&["DBSIZE", "RPUSH k y"], ":0|:1|");
    a.receive("*2|$1|k|$1|y|");
}

/// The second BLPOP finds an empty list, because an earlier waiter was served first.
#[test]
fn a_push_serves_waiters_before_the_next_command_of_its_client() {
    let server = start();
    let (mut a, mut b, mut c) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    block(&server, &mut a, "BLPOP k 0");
    b.send(&["RPUSH k 1", "BLPOP k 0"]);
    a.receive("*2|$1|k|$1|1|");
    b.receive(":1|");
    c.expect(&["RPUSH k 2"], ":1|");
    b.receive("*2|$1|k|$1|2|");
    assert_no_waiters(&server);
}

#[test]
fn a_key_of_another_type_serves_no_waiter() {
    let server = start();
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    block(&server, &mut a, "BLPOP k 0");
    b.expect(
        &["SET k v", "APPEND k w", "DEL k", "RPUSH k x"],
        "+OK|:2|:1|:1|",
    );
    a.receive("*2|$1|k|$1|x|");
}

#[test]
fn every_way_to_create_a_list_serves_waiters() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
        for lines in [
            &["RENAME src k"][..],
            &["RENAMENX src k"],
            &["COPY src k"],
            &["LMOVE src k LEFT LEFT"],
            &["SELECT 3", "RPUSH k x", "MOVE k 0", "SELECT 0"],
            &["SELECT 3", "RPUSH k x", "SWAPDB 3 0", "SELECT 0"],
            &["MULTI", "RPUSH k x", "EXEC"],
            &["SORT src ALPHA STORE k"],
        ] {
            b.send(&["FLUSHALL", "RPUSH src x"]);
            b.receive("+OK|:1|");
            block(&server, &mut a, "BLPOP k 0");
            b.send(lines);
            for line in lines {
                let reply = b.value();
                assert!(!reply.is_error(), "{line}: {reply:?}");
            }
            assert_eq!(
                a.value(),
                Value::Array(vec![Value::bulk("k"), Value::bulk("x")]),
                "{lines:?}"
            );
            assert_no_waiters(&server);
        }
        // None of these creates a list in the waiter's database.
        block(&server, &mut a, "BLPOP k 0");
        b.expect(
            &[
                "FLUSHALL",
                "RPUSHX k x",
                "SWAPDB 0 1",
                "SWAPDB 0 1",
                "SELECT 1",
                "RPUSH k x",
                "SELECT 0",
            ],
            "+OK|:0|+OK|+OK|+OK|:1|+OK|",
        );
        a.expect_silence();
        b.expect(&["RPUSH k y"], ":1|");
        a.receive("*2|$1|k|$1|y|");
    }
}

#[test]
fn monitors_see_a_blocking_command_once() {
    let server = start();
    let (mut a, mut b, mut m) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    m.expect(&["MONITOR"], "+OK|");
    block(&server, &mut a, "BLPOP k 0");
    b.expect(&["RPUSH k x"], ":1|");
    a.receive("*2|$1|k|$1|x|");
    b.expect(&["PING"], "+PONG|");
    for shown in ["\"BLPOP\" \"k\" \"0\"", "\"RPUSH\" \"k\" \"x\"", "\"PING\""] {
        let line = m.value();
        let line = String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned();
        assert!(line.ends_with(shown), "{line}");
    }
}

#[test]
fn events_are_published_in_order() {
    let server = start();
    let (mut a, mut b, mut events) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    b.expect(&["CONFIG SET notify-keyspace-events KA"], "+OK|");
    events.expect(
        &["PSUBSCRIBE __keyspace@0__:*"],
        "*3|$10|psubscribe|$16|__keyspace@0__:*|:1|",
    );
    block(&server, &mut a, "BLMOVE k l LEFT RIGHT 0");
    b.expect(&["RPUSH k x"], ":1|");
    a.receive("$1|x|");
    let mut seen = Vec::new();
    for _ in 0..4 {
        let message = events.value();
        let text = |n: usize| {
            String::from_utf8_lossy(message.as_slice().unwrap()[n].as_bytes().unwrap()).into_owned()
        };
        seen.push(format!("{} {}", text(3), &text(2)[15..]));
    }
    assert_eq!(seen, ["rpush k", "rpush l", "lpop k", "del k"]);
}

/// A waiting subscriber receives messages while it waits, in order with the reply.
#[test]
fn messages_arrive_before_and_after_the_reply() {
    let server = start();
    let (mut a, mut b) = (resp3(&server), Wire::open(&server));
    a.expect(&["SUBSCRIBE ch"], ">3|$9|subscribe|$2|ch|:1|");
    block(&server, &mut a, "BLPOP k 0");
    b.expect(&["PUBLISH ch 1"], ":1|");
    a.receive(">3|$7|message|$2|ch|$1|1|");
    b.expect(&["PUBLISH ch 2", "RPUSH k x", "PUBLISH ch 3"], ":1|:1|:1|");
    a.receive(">3|$7|message|$2|ch|$1|2|*2|$1|k|$1|x|>3|$7|message|$2|ch|$1|3|");
}

#[test]
fn a_served_pop_changes_a_watched_key() {
    let server = start();
    let (mut a, mut b, mut w) = (
        Wire::open(&server),
        Wire::open(&server),
        Wire::open(&server),
    );
    block(&server, &mut a, "BLMOVE k l LEFT LEFT 0");
    w.expect(&["WATCH l", "MULTI", "PING"], "+OK|+OK|+QUEUED|");
    b.expect(&["RPUSH k x"], ":1|");
    a.receive("$1|x|");
    w.expect(&["EXEC"], "*-1|");
}
