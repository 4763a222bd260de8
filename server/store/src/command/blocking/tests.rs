use std::sync::Arc;

use punctual_resp::{OwnedArgs, Protocol, Reply};

use crate::command;
use crate::command::testing::Fixture;
use crate::keyspace::waiters::{Waiter, WaiterId, WaitingClient};
use crate::source::Source;
use crate::turn::{Command, Turn};

/// Returns all rows; the position of a row is its [`WaiterId::entry`].
fn rows() -> impl Iterator<Item = &'static Command> {
    command::FAMILIES.iter().copied().flatten()
}

fn row_of(id: &WaiterId) -> &'static Command {
    rows().nth(id.entry).unwrap()
}

/// A keyspace with blocked clients.
struct BlockedClients {
    fixture: Fixture,
    waiters: Vec<Arc<Waiter>>,
}

/// Runs a line as client number `client`. Returns its reply, or the waiter if the command blocks.
fn run(turn: &mut Turn, db: usize, client: u64, line: &str) -> Result<String, Arc<Waiter>> {
    let args: OwnedArgs = line.split(' ').collect();
    let mut command = command::find(&args.as_args()[0].to_ascii_lowercase()).unwrap();
    if command.handler.is_none() {
        let name = args.as_args()[1].to_ascii_lowercase();
        let mut subcommands = command.subcommands.iter();
        command = subcommands.find(|sub| sub.name.as_bytes() == name).unwrap();
    }
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    if let Err(error) = turn.run(command, db, true, args.as_args(), &mut reply) {
        reply.error(error.bytes());
    }
    let Some(wait) = turn.wait.take() else {
        return Ok(shown(&out));
    };
    assert!(out.is_empty(), "a blocked client has no reply yet");
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

/// Serves clients whose keys are ready. Returns the number and reply of each.
fn serve(turn: &mut Turn) -> Vec<String> {
    let (mut served, mut out) = (Vec::new(), Vec::new());
    while let Some((waiter, _)) = turn.serve_next(row_of, &mut out) {
        served.push(format!("{}: {}", waiter.id().client, shown(&out)));
        assert!(waiter.has_ended() && !waiter.is_queued());
        out.clear();
    }
    assert!(!turn.has_ready());
    served
}

impl BlockedClients {
    fn new(shards: usize) -> Self {
        Self {
            fixture: Fixture::sharded(shards),
            waiters: Vec::new(),
        }
    }

    /// Blocks a new client on a command; clients are numbered from 0.
    fn block(&mut self, line: &str) -> Arc<Waiter> {
        let (db, client) = (self.fixture.db, self.waiters.len() as u64);
        let waiter = self.fixture.with_turn(|turn| run(turn, db, client, line));
        let waiter = waiter.expect_err("the command should block");
        self.waiters.push(Arc::clone(&waiter));
        waiter
    }

    /// Runs a line. Returns its reply, and the number and reply of each client that it served.
    fn run(&mut self, line: &str) -> String {
        self.run_all(&[line])
    }

    /// Runs several lines and then serves clients, as a transaction does.
    fn run_all(&mut self, lines: &[&str]) -> String {
        let db = self.fixture.db;
        self.fixture.with_turn(|turn| {
            let replies = lines.iter().map(|line| run(turn, db, 99, line).unwrap());
            let mut all: Vec<String> = replies.collect();
            all.extend(serve(turn));
            all.join(", ")
        })
    }

    /// Expires due entries, as an event loop does. Returns the number and reply of each client that
    /// this served.
    fn expire(&mut self) -> String {
        let shards = self.fixture.store.shards();
        self.fixture.with_turn(|turn| {
            for shard in 0..shards {
                while !turn.expire(shard, &mut 1000) {}
            }
            serve(turn).join(", ")
        })
    }

    /// Moves the clock to the next deadline of the keyspace, and expires due entries. Returns the
    /// time in ms, and the number and reply of each client that this served.
    fn next(&mut self) -> (u64, String) {
        let next = self.fixture.with_turn(|turn| turn.next_deadline());
        let next = next.expect("the keyspace has a deadline");
        let now = self.fixture.now.read_ms();
        self.fixture.advance(next.saturating_sub(now));
        (next, self.expire())
    }

    fn end(&mut self, waiter: &Waiter) {
        assert!(waiter.claim());
        self.fixture.with_turn(|turn| turn.stop_waiting(waiter));
    }
}

#[test]
fn elements_are_served_in_order_and_once() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        for line in ["BLPOP a b 0", "BRPOP b 0", "BLPOP b a 0", "BLPOP c b 0"] {
            blocked.block(line);
        }
        assert_eq!(blocked.fixture.store.waiting_keys(), 3);
        assert_eq!(
            blocked.run_all(&["RPUSH b 1 2", "RPUSH a 3"]),
            ":2, :1, 0: *2 $1 a $1 3, 1: *2 $1 b $1 2, 2: *2 $1 b $1 1",
            "client 0 pops from `a`, its first key, although `b` was ready first"
        );
        assert_eq!(blocked.run("RPUSH b 4"), ":1, 3: *2 $1 b $1 4");
        assert_eq!(blocked.run("RPUSH b 5"), ":1");
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn ended_and_timed_out_waiters_are_not_served() {
    let mut blocked = BlockedClients::new(4);
    let first = blocked.block("BLPOP a b 0");
    let second = blocked.block("BLPOP a 0");
    let third = blocked.block("BLPOP a 1");
    blocked.block("BLPOP a 2");
    assert!(first.claim() && !first.claim());
    blocked.end(&second);
    assert!(!second.is_queued());
    blocked.fixture.advance(1000);
    assert_eq!(blocked.run("RPUSH a 1 2"), ":2, 3: *2 $1 a $1 1");
    assert!(third.claim(), "a timed-out waiter is still unclaimed");
    blocked.fixture.with_turn(|turn| {
        turn.stop_waiting(&first);
        turn.stop_waiting(&first);
        turn.stop_waiting(&third);
    });
    assert_eq!(blocked.fixture.store.waiting_keys(), 0);
}

#[test]
fn timeouts_are_rounded_up() {
    let mut blocked = BlockedClients::new(1);
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
        let waiter = blocked.block(&format!("BLPOP k {timeout}"));
        let wanted = deadline.map(|ms: u64| 1_000_000 + ms);
        assert_eq!(waiter.deadline_ms(), wanted, "{timeout}");
        blocked.end(&waiter);
    }
    assert_eq!(
        blocked.run("BLPOP k 9223372036853775.808"),
        "-ERR timeout is out of range"
    );
    blocked.fixture.now = crate::Now::from_micros(1_000_000_001);
    let waiter = blocked.block("BLPOP k 0.001");
    assert_eq!(
        waiter.deadline_ms(),
        Some(1_000_002),
        "the timeout lasts at least a millisecond"
    );
}

#[test]
fn blpop_waits_if_the_list_is_due() {
    let mut blocked = BlockedClients::new(1);
    blocked.fixture.run("RPUSH k x");
    blocked.fixture.run("PEXPIRE k 10");
    blocked.fixture.advance(10);
    blocked.block("BLPOP k 0");
    assert_eq!(blocked.run("EXISTS k"), ":0");
    assert_eq!(blocked.run("RPUSH k y"), ":1, 0: *2 $1 k $1 y");
}

#[test]
fn a_push_serves_clients_of_its_database_only() {
    let mut blocked = BlockedClients::new(4);
    blocked.block("BLPOP k 0");
    blocked.fixture.db = 1;
    blocked.block("BLPOP k 0");
    assert_eq!(blocked.run("RPUSH k x"), ":1, 1: *2 $1 k $1 x");
    assert_eq!(blocked.run("RPUSH k y"), ":1");
    assert_eq!(blocked.run("SWAPDB 0 1"), "+OK, 0: *2 $1 k $1 y");
    assert_eq!(blocked.fixture.store.waiting_keys(), 0);
}

#[test]
fn a_served_move_serves_the_next_waiter() {
    for shards in [1, 8] {
        let mut blocked = BlockedClients::new(shards);
        for n in 0..20 {
            blocked.block(&format!("BLMOVE k:{n} k:{} LEFT RIGHT 0", n + 1));
        }
        blocked.fixture.events();
        let served = blocked.run("RPUSH k:0 x");
        assert_eq!(served.matches("$1 x").count(), 20, "{served}");
        assert_eq!(blocked.fixture.run("LRANGE k:20 0 -1"), "*1 $1 x");
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
        let events = blocked.fixture.events();
        let first = "new k:0, rpush k:0, new k:1, rpush k:1, lpop k:0, del k:0, new k:2, rpush k:2, lpop k:1, del k:1";
        assert!(events.starts_with(first), "{events}");
    }
}

#[test]
fn lists_and_sorted_sets_do_not_serve_each_other() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        for line in [
            "BLPOP k 0",
            "BZPOPMIN k l 0",
            "BZPOPMAX l k 0",
            "BZMPOP 0 2 l k MAX COUNT 2",
            "BRPOP k 0",
        ] {
            blocked.block(line);
        }
        blocked.fixture.events();
        assert_eq!(
            blocked.run("ZADD k 1 a 2 b 3 c 4 d"),
            ":4, 1: *3 $1 k $1 a $1 1, 2: *3 $1 k $1 d $1 4, 3: *2 $1 k *2 *2 $1 c $1 3 *2 $1 b $1 2"
        );
        assert_eq!(
            blocked.fixture.events(),
            "new k, zadd k, zpopmin k, zpopmax k, zpopmax k, del k"
        );
        assert_eq!(
            blocked.run("RPUSH k x y"),
            ":2, 0: *2 $1 k $1 x, 4: *2 $1 k $1 y"
        );
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn commands_that_store_sorted_sets_serve_waiters() {
    let mut blocked = BlockedClients::new(4);
    blocked.run("ZADD src 1 a 2 b");
    for line in [
        "ZUNIONSTORE k 1 src",
        "ZRANGESTORE k src 0 0",
        "COPY src k",
        "ZINCRBY k 1 a",
    ] {
        blocked.block("BZPOPMIN k 0");
        let served = blocked.run(line);
        assert!(served.contains(": *3 $1 k $1 a $1 1"), "{line}: {served}");
        blocked.run("DEL k");
    }
}

/// Joining and leaving a queue take O(log n), so the test is fast, and an empty queue is removed.
#[test]
fn ten_thousand_waiters_of_one_key_join_and_leave() {
    let mut blocked = BlockedClients::new(2);
    for n in 0..10_000 {
        blocked.block(&format!("BLPOP k own:{n} 0"));
    }
    assert_eq!(blocked.fixture.store.waiting_keys(), 10_001);
    let waiters = std::mem::take(&mut blocked.waiters);
    blocked.fixture.with_turn(|turn| {
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
    let served = blocked.run(&format!("RPUSH k {elements}"));
    let served_clients: Vec<u64> = served
        .split(", ")
        .skip(1)
        .map(|s| s.split(':').next().unwrap().parse().unwrap())
        .collect();
    let wanted: Vec<u64> = (0..10_000).skip(3).step_by(4).collect();
    assert_eq!(served_clients, wanted);
    assert_eq!(blocked.fixture.run("LLEN k"), ":500");
    assert_eq!(blocked.fixture.store.waiting_keys(), 0);
}

#[test]
fn readers_of_streams_wait_for_entries_after_their_id() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        blocked.run("XADD s 5-0 f old");
        blocked.block("XREAD BLOCK 0 STREAMS s $");
        blocked.block("XREAD BLOCK 0 STREAMS s 7-0");
        blocked.block("XREAD COUNT 1 BLOCK 0 STREAMS none s 0 5");
        let entry = |id: u32| format!("*1 *2 $1 s *1 *2 $3 {id}-0 *2 $1 f $1 v");
        assert_eq!(
            blocked.run_all(&["XADD s 6-0 f v", "XDEL s 5-0"]),
            format!("$3 6-0, :1, 0: {}, 2: {}", entry(6), entry(6)),
            "`$` was 5-0, and no entry is after 7-0"
        );
        assert_eq!(blocked.run("XADD s 7-0 f v"), "$3 7-0");
        assert_eq!(
            blocked.run("XADD s 8-0 f v"),
            format!("$3 8-0, 1: {}", entry(8))
        );
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn consumers_of_a_group_are_served_once_and_in_order() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        blocked.run("XGROUP CREATE s g $ MKSTREAM");
        blocked.run("XGROUP CREATE s h $");
        for line in [
            "XREADGROUP GROUP g a COUNT 1 BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP h c BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
        ] {
            blocked.block(line);
        }
        let entry = "*2 $3 1-0 *2 $1 f $1 v";
        assert_eq!(
            blocked.run("XADD s 1-0 f v"),
            format!("$3 1-0, 0: *1 *2 $1 s *1 {entry}, 2: *1 *2 $1 s *1 {entry}")
        );
        assert_eq!(blocked.run("XPENDING s g - + 9"), "*1 *4 $3 1-0 $1 a :0 :1");
        assert_eq!(blocked.run("XACK s g 1-0"), ":1");
        blocked.block("XREADGROUP GROUP h e BLOCK 0 STREAMS s >");
        assert_eq!(
            blocked.run("XGROUP DESTROY s h"),
            ":1, 4: -NOGROUP No such key 's' or consumer group 'h' in XREADGROUP with GROUP option"
        );
        assert_eq!(
            blocked.run("DEL s"),
            ":1, 1: -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option, \
             3: -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"
        );
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn a_blocked_reader_gets_an_entry_when_its_lease_ends() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        blocked.run_all(&["XADD s 1-0 f v", "XADD s 2-0 f v", "XGROUP CREATE s g 0"]);
        blocked.run("XGROUP SETLEASE s g 500 MAXDELIVERIES 2 DEADLETTER dead");
        blocked.run("XREADGROUP GROUP g x COUNT 1 STREAMS s >");
        blocked.fixture.advance(7);
        blocked.run("XREADGROUP GROUP g x COUNT 1 STREAMS s >");
        blocked.block("XREADGROUP GROUP g a COUNT 1 BLOCK 0 STREAMS s >");
        blocked.block("XREADGROUP GROUP g b BLOCK 0 STREAMS s >");
        blocked.block("XREAD BLOCK 0 STREAMS dead $");
        let entry = |id: u32| format!("*1 *2 $1 s *1 *2 $3 {id}-0 *2 $1 f $1 v");
        assert_eq!(blocked.next(), (1_000_500, format!("0: {}", entry(1))));
        assert_eq!(blocked.next(), (1_000_507, format!("1: {}", entry(2))));
        blocked.block("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        blocked.run("XACK s g 2-0");
        let (at, served) = blocked.next();
        assert_eq!(at, 1_001_000);
        assert!(
            served.starts_with("2: *1 *2 $4 dead *1 *2 $9 1001000-0 *12 "),
            "{served}"
        );
        assert_eq!(blocked.run("XPENDING s g"), "*4 :0 $-1 $-1 *-1");
        assert_eq!(
            blocked.run("XADD s 3-0 f v"),
            format!("$3 3-0, 3: {}", entry(3)),
            "the reader still waits for new entries"
        );
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
    }
}

#[test]
fn a_lapsed_entry_waits_for_a_reader_and_fires_once() {
    let mut blocked = BlockedClients::new(1);
    blocked.run_all(&[
        "XADD s 1-0 f v",
        "XGROUP CREATE s g 0",
        "XGROUP SETLEASE s g 500",
    ]);
    blocked.run("XREADGROUP GROUP g x STREAMS s >");
    assert_eq!(blocked.next(), (1_000_500, String::new()));
    let none = blocked.fixture.with_turn(|turn| turn.next_deadline());
    assert_eq!(none, None, "the entry wakes readers once");
    // XCLAIM with a time in the past makes the entry due for a reader that is already waiting.
    blocked.run("XCLAIM s g x 0 1-0");
    blocked.block("XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
    blocked.run("XCLAIM s g x 0 1-0 IDLE 9999");
    let (at, served) = blocked.next();
    assert!(at <= 1_000_500, "{at}");
    assert_eq!(served, "0: *1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 v");
}

#[test]
fn readers_that_claim_wake_at_the_millisecond() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        blocked.run_all(&[
            "XADD s 1-0 f v",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE t g 0 MKSTREAM",
        ]);
        // Nothing is pending when the readers begin to wait.
        blocked.run("XREADGROUP GROUP g x STREAMS s >");
        blocked.run("XACK s g 1-0");
        blocked.block("XREADGROUP GROUP g a BLOCK 0 CLAIM 300 STREAMS t s > >");
        blocked.block("XREADGROUP GROUP g b BLOCK 0 CLAIM 100 STREAMS s >");
        blocked.block("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        assert_eq!(blocked.fixture.with_turn(|turn| turn.next_deadline()), None);
        blocked.run("XCLAIM s g x 0 1-0 FORCE JUSTID");
        let claimed = |idle: u32, count: u32| {
            format!("*1 *2 $1 s *1 *4 $3 1-0 *2 $1 f $1 v :{idle} :{count}")
        };
        assert_eq!(
            blocked.next(),
            (1_000_100, format!("1: {}", claimed(100, 1)))
        );
        assert_eq!(
            blocked.next(),
            (1_000_400, format!("0: {}", claimed(300, 2)))
        );
        // A command that replaces the stream does not end the wait of its readers.
        blocked.block("XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >");
        blocked.fixture.advance(50);
        blocked.run("COPY s other");
        assert_eq!(blocked.run("COPY other s REPLACE"), ":1");
        assert_eq!(
            blocked.next(),
            (1_001_400, format!("3: {}", claimed(1000, 3)))
        );
        let waiter = blocked.block("XREADGROUP GROUP g e BLOCK 0 CLAIM 1000 STREAMS s >");
        blocked.end(&waiter);
        assert_eq!(blocked.next().1, "");
        assert_eq!(blocked.fixture.with_turn(|turn| turn.next_deadline()), None);
    }
}

#[test]
fn commands_that_may_not_wait_reply_as_after_a_timeout() {
    let mut fixture = Fixture::new();
    fixture.run("SET s v");
    fixture.with_turn(|turn| {
        let _ = turn.enter(Source::Exec);
        for (line, reply) in [
            ("BLPOP k 0", "*-1"),
            ("BRPOP k l 0", "*-1"),
            ("BLMPOP 0 1 k LEFT", "*-1"),
            ("BLMOVE k l LEFT LEFT 0", "$-1"),
            ("BRPOPLPUSH k l 0", "$-1"),
            ("BZPOPMIN k 0", "*-1"),
            ("BZPOPMAX k l 0", "*-1"),
            ("BZMPOP 0 1 k MIN", "*-1"),
            ("XREAD BLOCK 0 STREAMS k $", "*-1"),
        ] {
            assert_eq!(run(turn, 0, 0, line).unwrap(), reply, "{line}");
        }
    });
}

/// BLMOVEM with EXACTLY waits until the list has enough elements, and does not delay other waiters.
#[test]
fn blmovem_waits_for_as_many_elements_as_it_moves() {
    for shards in [1, 4] {
        let mut blocked = BlockedClients::new(shards);
        assert_eq!(blocked.run("RPUSH l 1 2"), ":2");
        blocked.block("BLMOVEM l m LEFT RIGHT 0 EXACTLY 3 BULK");
        assert_eq!(blocked.run("LSET l 0 1"), "+OK");
        assert_eq!(
            blocked.run("LINSERT l BEFORE 1 0"),
            ":3, 0: *3 $1 0 $1 1 $1 2"
        );
        assert_eq!(blocked.run("LRANGE m 0 -1"), "*3 $1 0 $1 1 $1 2");
        blocked.block("BLMOVEM l m LEFT LEFT 0 EXACTLY 3 OBO");
        blocked.block("BLMOVEM l n RIGHT LEFT 0 COUNT 5 BULK");
        blocked.block("BLMOVEM l n LEFT LEFT 0");
        assert_eq!(blocked.run("RPUSH l a b"), ":2, 2: *2 $1 a $1 b");
        assert_eq!(blocked.run("RPUSH l c"), ":1, 3: *1 $1 c");
        assert_eq!(blocked.run("RPUSH feed f"), ":1");
        assert_eq!(blocked.run("RPUSH l d e"), ":2");
        assert_eq!(
            blocked.run("LMOVE feed l LEFT RIGHT"),
            "$1 f, 1: *3 $1 f $1 e $1 d"
        );
        assert_eq!(blocked.fixture.store.waiting_keys(), 0);
        assert_eq!(
            blocked.run("BLMOVEM none m LEFT LEFT -1 EXACTLY 3 OBO"),
            "-ERR timeout is negative"
        );
    }
}
