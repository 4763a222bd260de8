use std::sync::Arc;

use punctual_resp::{OwnedArgs, Protocol, Reply};

use crate::command;
use crate::command::testing::Fixture;
use crate::keyspace::waiters::{Waiter, WaiterId, WaitingClient};
use crate::turn::{Command, Turn};

/// Every row, in an order that numbers them.
fn rows() -> impl Iterator<Item = &'static Command> {
    command::FAMILIES.iter().copied().flatten()
}

fn row_of(id: &WaiterId) -> &'static Command {
    rows().nth(id.entry).unwrap()
}

/// A keyspace with clients that wait.
struct BlockedClients {
    fixture: Fixture,
    waiters: Vec<Arc<Waiter>>,
}

/// Runs a line as client number `client`; its reply, or the command that waits.
fn run(turn: &mut Turn<'_>, db: usize, client: u64, line: &str) -> Result<String, Arc<Waiter>> {
    let args: OwnedArgs = line.split(' ').collect();
    let command = command::find(&args.as_args()[0].to_ascii_lowercase()).unwrap();
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    if let Err(error) = turn.run(command, db, true, args.as_args(), &mut reply) {
        reply.error(error.bytes());
    }
    let Some(wait) = turn.wait.take() else {
        return Ok(shown(&out));
    };
    assert!(out.is_empty(), "a waiting client has no reply yet");
    let entry = rows().position(|row| row.name == command.name).unwrap();
    let waiting = WaitingClient {
        db,
        touch: true,
        protocol: Protocol::Resp2,
        id: WaiterId {
            client,
            loop_number: 0,
            slot: 0,
            entry,
            silent: false,
            nanos: 0,
        },
    };
    Err(turn.begin_waiting(wait, args, &waiting))
}

fn shown(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply)
        .trim_end()
        .replace("\r\n", " ")
}

impl BlockedClients {
    fn new(shards: usize) -> Self {
        Self {
            fixture: Fixture::sharded(shards),
            waiters: Vec::new(),
        }
    }

    /// A new client's command waits; clients are numbered from 0.
    fn wait(&mut self, line: &str) -> Arc<Waiter> {
        let (db, client) = (self.fixture.db, self.waiters.len() as u64);
        let waiter = self.fixture.with_turn(|turn| run(turn, db, client, line));
        let waiter = waiter.expect_err("it should wait");
        self.waiters.push(Arc::clone(&waiter));
        waiter
    }

    /// Runs a line; its reply, and who was served with what.
    fn run(&mut self, line: &str) -> String {
        self.run_all(&[line])
    }

    /// Runs lines and then serves, as a transaction does.
    fn run_all(&mut self, lines: &[&str]) -> String {
        let db = self.fixture.db;
        self.fixture.with_turn(|turn| {
            let replies = lines.iter().map(|line| run(turn, db, 99, line).unwrap());
            let mut all: Vec<String> = replies.collect();
            let mut out = Vec::new();
            while let Some((waiter, _)) = turn.serve_next(row_of, &mut out) {
                all.push(format!("{}: {}", waiter.id().client, shown(&out)));
                assert!(waiter.has_ended() && !waiter.is_queued());
                out.clear();
            }
            assert!(!turn.has_ready());
            all.join(", ")
        })
    }

    fn end(&mut self, waiter: &Waiter) {
        assert!(waiter.claim());
        self.fixture.with_turn(|turn| turn.stop_waiting(waiter));
    }
}

#[test]
fn keys_are_served_in_order_and_once() {
    for shards in [1, 4] {
        let mut hall = BlockedClients::new(shards);
        for line in ["BLPOP a b 0", "BRPOP b 0", "BLPOP b a 0", "BLPOP c b 0"] {
            hall.wait(line);
        }
        assert_eq!(hall.fixture.store.waiting_keys(), 3);
        assert_eq!(
            hall.run_all(&["RPUSH b 1 2", "RPUSH a 3"]),
            ":2, :1, 0: *2 $1 a $1 3, 1: *2 $1 b $1 2, 2: *2 $1 b $1 1",
            "the first finds its first key, though the second came first"
        );
        assert_eq!(hall.run("RPUSH b 4"), ":1, 3: *2 $1 b $1 4");
        assert_eq!(hall.run("RPUSH b 5"), ":1");
        assert_eq!(hall.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn who_has_ended_is_passed_over() {
    let mut hall = BlockedClients::new(4);
    let first = hall.wait("BLPOP a b 0");
    let second = hall.wait("BLPOP a 0");
    let third = hall.wait("BLPOP a 1");
    hall.wait("BLPOP a 2");
    assert!(first.claim() && !first.claim());
    hall.end(&second);
    assert!(!second.is_queued());
    hall.fixture.advance(1000);
    assert_eq!(hall.run("RPUSH a 1 2"), ":2, 3: *2 $1 a $1 1");
    assert!(third.claim(), "its time was over, but nobody had said so");
    hall.fixture.with_turn(|turn| {
        turn.stop_waiting(&first);
        turn.stop_waiting(&first);
        turn.stop_waiting(&third);
    });
    assert_eq!(hall.fixture.store.waiting_keys(), 0);
}

#[test]
fn deadlines_are_rounded_up() {
    let mut hall = BlockedClients::new(1);
    for (timeout, deadline) in [
        ("0", None),
        ("0.0", None),
        ("-0.0001", None),
        ("0.001", Some(1)),
        ("0.0010001", Some(2)),
        ("1.1", Some(1100)),
        ("0x10", Some(16_000)),
        ("9223372036853775.806", Some(9_223_372_036_853_775_806)),
    ] {
        let waiter = hall.wait(&format!("BLPOP k {timeout}"));
        let wanted = deadline.map(|ms: u64| 1_000_000 + ms);
        assert_eq!(waiter.deadline_ms(), wanted, "{timeout}");
        hall.end(&waiter);
    }
    assert_eq!(
        hall.run("BLPOP k 9223372036853775.808"),
        "-ERR timeout is out of range"
    );
    hall.fixture.now = crate::Now::from_micros(1_000_000_001);
    let waiter = hall.wait("BLPOP k 0.001");
    assert_eq!(
        waiter.deadline_ms(),
        Some(1_000_002),
        "it lasts a millisecond"
    );
}

#[test]
fn a_due_list_is_none() {
    let mut hall = BlockedClients::new(1);
    hall.fixture.run("RPUSH k x");
    hall.fixture.run("PEXPIRE k 10");
    hall.fixture.advance(10);
    hall.wait("BLPOP k 0");
    assert_eq!(hall.run("EXISTS k"), ":0");
    assert_eq!(hall.run("RPUSH k y"), ":1, 0: *2 $1 k $1 y");
}

#[test]
fn databases_are_told_apart() {
    let mut hall = BlockedClients::new(4);
    hall.wait("BLPOP k 0");
    hall.fixture.db = 1;
    hall.wait("BLPOP k 0");
    assert_eq!(hall.run("RPUSH k x"), ":1, 1: *2 $1 k $1 x");
    assert_eq!(hall.run("RPUSH k y"), ":1");
    assert_eq!(hall.run("SWAPDB 0 1"), "+OK, 0: *2 $1 k $1 y");
    assert_eq!(hall.fixture.store.waiting_keys(), 0);
}

#[test]
fn moves_go_on_as_long_as_somebody_waits() {
    for shards in [1, 8] {
        let mut hall = BlockedClients::new(shards);
        for n in 0..20 {
            hall.wait(&format!("BLMOVE k:{n} k:{} LEFT RIGHT 0", n + 1));
        }
        hall.fixture.events();
        let served = hall.run("RPUSH k:0 x");
        assert_eq!(served.matches("$1 x").count(), 20, "{served}");
        assert_eq!(hall.fixture.run("LRANGE k:20 0 -1"), "*1 $1 x");
        assert_eq!(hall.fixture.store.waiting_keys(), 0);
        let events = hall.fixture.events();
        let first = "new k:0, rpush k:0, new k:1, rpush k:1, lpop k:0, del k:0, new k:2, rpush k:2, lpop k:1, del k:1";
        assert!(events.starts_with(first), "{events}");
    }
}

#[test]
fn lists_and_sorted_sets_do_not_serve_each_other() {
    for shards in [1, 4] {
        let mut hall = BlockedClients::new(shards);
        for line in [
            "BLPOP k 0",
            "BZPOPMIN k l 0",
            "BZPOPMAX l k 0",
            "BZMPOP 0 2 l k MAX COUNT 2",
            "BRPOP k 0",
        ] {
            hall.wait(line);
        }
        hall.fixture.events();
        assert_eq!(
            hall.run("ZADD k 1 a 2 b 3 c 4 d"),
            ":4, 1: *3 $1 k $1 a $1 1, 2: *3 $1 k $1 d $1 4, 3: *2 $1 k *2 *2 $1 c $1 3 *2 $1 b $1 2"
        );
        assert_eq!(
            hall.fixture.events(),
            "new k, zadd k, zpopmin k, zpopmax k, zpopmax k, del k"
        );
        assert_eq!(
            hall.run("RPUSH k x y"),
            ":2, 0: *2 $1 k $1 x, 4: *2 $1 k $1 y"
        );
        assert_eq!(hall.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn stored_sorted_sets_serve_too() {
    let mut hall = BlockedClients::new(4);
    hall.run("ZADD src 1 a 2 b");
    for line in [
        "ZUNIONSTORE k 1 src",
        "ZRANGESTORE k src 0 0",
        "COPY src k",
        "ZINCRBY k 1 a",
    ] {
        hall.wait("BZPOPMIN k 0");
        let served = hall.run(line);
        assert!(served.contains(": *3 $1 k $1 a $1 1"), "{line}: {served}");
        hall.run("DEL k");
    }
}

/// Waiters come and go in any order: each is O(log n), and nothing stays.
#[test]
fn ten_thousand_wait_for_one_key() {
    let mut hall = BlockedClients::new(2);
    for n in 0..10_000 {
        hall.wait(&format!("BLPOP k own:{n} 0"));
    }
    assert_eq!(hall.fixture.store.waiting_keys(), 10_001);
    let waiters = std::mem::take(&mut hall.waiters);
    hall.fixture.with_turn(|turn| {
        for waiter in waiters
            .iter()
            .step_by(2)
            .chain(waiters.iter().skip(1).step_by(4))
        {
            assert!(waiter.claim());
            turn.stop_waiting(waiter);
        }
    });
    let elements = vec!["x"; 3_000].join(" ");
    let served = hall.run(&format!("RPUSH k {elements}"));
    let clients: Vec<u64> = served
        .split(", ")
        .skip(1)
        .map(|s| s.split(':').next().unwrap().parse().unwrap())
        .collect();
    let wanted: Vec<u64> = (0..10_000).skip(3).step_by(4).collect();
    assert_eq!(clients, wanted);
    assert_eq!(hall.fixture.run("LLEN k"), ":500");
    assert_eq!(hall.fixture.store.waiting_keys(), 0);
}

#[test]
fn where_nobody_may_wait_there_is_nothing() {
    let mut fixture = Fixture::new();
    fixture.run("SET s v");
    fixture.with_turn(|turn| {
        turn.may_wait = false;
        for (line, reply) in [
            ("BLPOP k 0", "*-1"),
            ("BRPOP k l 0", "*-1"),
            ("BLMPOP 0 1 k LEFT", "*-1"),
            ("BLMOVE k l LEFT LEFT 0", "$-1"),
            ("BRPOPLPUSH k l 0", "$-1"),
            ("BZPOPMIN k 0", "*-1"),
            ("BZPOPMAX k l 0", "*-1"),
            ("BZMPOP 0 1 k MIN", "*-1"),
        ] {
            assert_eq!(run(turn, 0, 0, line).unwrap(), reply, "{line}");
        }
    });
}
