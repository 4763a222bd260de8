use std::sync::atomic::Ordering;

use punctual_resp::{OwnedArgs, Protocol, Reply};

use crate::command;
use crate::command::testing::Fixture;
use crate::effects::Effects;
use crate::events::{Classes, Silent, Sink};
use crate::turn::Command;
use crate::{Now, Store, StoreOptions, Turn};

/// Returns the entries of a stream as lines: the milliseconds of the ID minus 1,000,000, and the
/// fields.
pub(super) fn entries(fixture: &mut Fixture, stream: &str) -> Vec<String> {
    let text = fixture.run(&format!("XRANGE {stream} - +"));
    let words: Vec<&str> = text
        .split(' ')
        .filter(|word| !word.starts_with('$'))
        .collect();
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match word.split_once('-').map(|(ms, _)| ms.parse::<u64>()) {
            Some(Ok(ms)) => lines.push((ms - 1_000_000).to_string()),
            _ if word.starts_with('*') => {}
            _ => {
                if let Some(line) = lines.last_mut() {
                    line.push(' ');
                    line.push_str(word);
                }
            }
        }
    }
    lines
}

#[test]
fn events_are_appended_at_their_instant() {
    for shards in [1, 4] {
        let mut f = Fixture::sharded(shards);
        assert_eq!(f.run("NOTIFY SET all STREAM log"), "+OK");
        f.run("SET a 1 PX 10");
        f.run("MSET b 2 c 3");
        f.run("DEL b nothing");
        f.run("HSET h f v");
        f.run("HPEXPIRE h 5 FIELDS 1 f");
        f.run("GET nothing");
        f.jump(1_000_020);
        f.run("RENAME c d");
        assert_eq!(
            entries(&mut f, "log"),
            [
                "0 event set key a",
                "0 event expire key a",
                "0 event set key b",
                "0 event set key c",
                "0 event del key b",
                "0 event hset key h",
                "0 event hexpire key h",
                "5 event hexpired key h",
                "5 event del key h",
                "10 event expired key a",
                "20 event rename_from key c",
                "20 event rename_to key d",
            ],
            "{shards} shards"
        );
        assert_eq!(f.run("TTL log"), ":-1");
        assert!(
            f.run("NOTIFY GET all")
                .ends_with("$8 appended :12 $6 failed :0")
        );
    }
}

#[test]
fn a_rule_chooses_events_keys_and_values() {
    let mut f = Fixture::sharded(4);
    f.run("NOTIFY SET gone STREAM s EVENTS xg MATCH job:* VALUE string MAXBYTES 5");
    f.run("NOTIFY SET new STREAM n EVENTS $n VALUE dump");
    f.run("SET job:1 short PX 7");
    f.run("SET job:2 toolong PX 7");
    f.run("SET other x PX 7");
    f.run("SADD job:3 member");
    f.run("DEL job:3");
    f.advance(8);
    f.run("GET job:1"); // expires it before the wheel does
    f.expire();
    let mut gone = entries(&mut f, "s");
    gone[3..].sort_unstable();
    assert_eq!(
        gone,
        [
            "0 event expire key job:1 value short",
            "0 event expire key job:2 omitted 7",
            "0 event del key job:3",
            "8 event expired key job:1 value short",
            "8 event expired key job:2 omitted 7",
        ]
    );
    // The rule `new` has copied `new` of the set, and `new` and `set` of three strings. It does not
    // copy `new` of the stream s, because s is the stream of a rule.
    assert_eq!(f.run("XLEN n"), ":7");
    f.run("SET copied x");
    let dump = f.run("DUMP copied");
    let last = f.run("XREVRANGE n + - COUNT 1");
    assert!(last.contains(&dump), "{last}");
    assert_eq!(
        f.run("NOTIFY GET gone"),
        "*16 $2 db :0 $6 stream $1 s $6 events $2 gx $5 match $5 job:* $5 value $6 string \
         $8 maxbytes $1 5 $8 appended :5 $6 failed :0"
    );
    assert_eq!(f.run("NOTIFY LIST"), "*2 $4 gone $3 new");
    assert_eq!(f.run("NOTIFY DEL gone nothing"), ":1");
    f.run("SET job:4 x PX 1");
    f.advance(2);
    f.expire();
    assert_eq!(f.run("XLEN s"), ":5");
    assert_eq!(f.run("NOTIFY GET gone"), "$-1");
}

#[test]
fn a_rule_is_for_one_database() {
    let mut f = Fixture::new();
    f.db = 3;
    f.run("NOTIFY SET here STREAM s");
    f.run("SET a 1");
    f.db = 0;
    f.run("SET a 1");
    assert_eq!(f.run("EXISTS s"), ":0");
    f.run("MOVE a 5");
    f.run("FLUSHALL");
    f.db = 3;
    assert_eq!(f.run("EXISTS s"), ":0");
    f.run("SET b 1");
    assert_eq!(entries(&mut f, "s"), ["0 event set key b"]);
}

#[test]
fn bad_rules_are_refused() {
    let mut f = Fixture::new();
    f.run("SET text x");
    for (words, error) in [
        (
            "a STREAM text",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("a EVENTS x", "-ERR NOTIFY SET requires the option STREAM"),
        ("a STREAM s EVENTS", "-ERR syntax error"),
        ("a STREAM s EVERY x", "-ERR syntax error"),
        ("a STREAM s VALUE some", "-ERR syntax error"),
        ("a STREAM s MAXAGE 0", "-ERR MAXAGE must be positive"),
        ("a STREAM s SINCE 5", "-ERR syntax error"),
        (
            "a STREAM s MAXBYTES x",
            "-ERR value is not an integer or out of range",
        ),
    ] {
        assert_eq!(f.run(&format!("NOTIFY SET {words}")), error);
    }
    for letters in ["q", "Kx", "Ex", "m", "\"\""] {
        let reply = f.run(&format!("NOTIFY SET a STREAM s EVENTS {letters}"));
        assert!(reply.starts_with("-ERR EVENTS takes letters of"), "{reply}");
    }
    assert_eq!(f.run("NOTIFY LIST"), "*0");
}

#[test]
fn an_event_without_a_stream_is_counted() {
    let mut f = Fixture::new();
    f.run("NOTIFY SET all STREAM s");
    f.run("SET s text");
    f.run("SET a 1");
    assert_eq!(f.run("GET s"), "$4 text");
    assert!(
        f.run("NOTIFY GET all")
            .ends_with("appended :0 $6 failed :1")
    );
    f.run("DEL s");
    f.run("XADD s 18446744073709551615-18446744073709551615 f v");
    f.run("SET a 1");
    assert!(
        f.run("NOTIFY GET all")
            .ends_with("appended :0 $6 failed :2")
    );
}

#[test]
fn entries_are_removed_at_their_age() {
    let mut f = Fixture::new();
    f.run("NOTIFY SET all STREAM s MAXAGE 100");
    for step in 0..3 {
        f.run(&format!("SET k{step} x"));
        f.advance(60);
    }
    assert_eq!(f.run("XRETAIN s GET"), "*4 $7 max-age :100 $7 max-len $-1");
    f.jump(1_000_219);
    assert!(f.events().ends_with("xtrim s"));
    assert_eq!(entries(&mut f, "s"), ["120 event set key k2"]);
    f.jump(1_000_220);
    assert_eq!(f.run("XLEN s"), ":0");
    // An existing stream gets the retention at once.
    f.run("XADD t 1000000-0 f v");
    f.run("NOTIFY SET all STREAM t MAXAGE 221");
    f.jump(1_000_221);
    assert_eq!(f.run("XLEN t"), ":0");
}

/// A due stream expires before the next entry is appended, and the rule gets no event for it.
#[test]
fn a_stream_may_expire() {
    let mut f = Fixture::new();
    f.run("NOTIFY SET all STREAM s");
    f.run("SET a 1");
    f.run("PEXPIRE s 5");
    f.advance(5);
    f.run("SET b 1");
    assert_eq!(entries(&mut f, "s"), ["5 event set key b"]);
}

#[test]
fn a_rename_may_replace_the_stream_of_a_rule() {
    for shards in [1, 4] {
        let mut f = Fixture::sharded(shards);
        f.run("NOTIFY SET all STREAM s");
        f.run("XADD other 5-1 f v");
        assert_eq!(f.run("RENAME other s"), "+OK");
        assert_eq!(f.run("DBSIZE"), ":1");
        assert_eq!(
            f.run("XLEN s"),
            ":2",
            "the entry 5-1, and the event rename_from"
        );
        let keys: usize = (0..shards)
            .map(|n| {
                f.with_turn(|turn| {
                    turn.lock_all();
                    turn.shard_db(n, 0).len()
                })
            })
            .sum();
        assert_eq!(keys, 1);
    }
}

#[test]
fn rules_survive_in_the_text_of_a_snapshot() {
    let mut f = Fixture::new();
    f.db = 2;
    f.run("NOTIFY SET a STREAM s EVENTS xn MATCH j:* VALUE dump MAXBYTES 9 MAXAGE 8");
    f.run("NOTIFY SET b STREAM t");
    let texts = f.store.notify_rules();
    let mut other = Fixture::new();
    for text in &texts {
        other.with_turn(|turn| turn.restore_notify_rule(text).unwrap());
    }
    for name in ["a", "b"] {
        let line = format!("NOTIFY GET {name}");
        assert_eq!(other.run(&line), f.run(&line));
    }
    for damaged in [&b""[..], b"x *1\r\n", b"0 *2\r\n$1\r\na\r\n", b"16 *0\r\n"] {
        assert!(other.with_turn(|turn| turn.restore_notify_rule(damaged).is_err()));
    }
}

/// An event sink that records the log.
#[derive(Default)]
struct Log(Vec<u8>);

impl Sink for Log {
    fn keyspace(&mut self, _: usize, _: Classes, _: &str, _: &[u8]) {}
    fn expired(&mut self, _: Now, _: usize, _: &[u8], _: Option<&[u8]>, _: u64) {}
    fn log(&mut self, effects: &Effects) {
        self.0.extend_from_slice(effects.bytes());
    }
    fn wake(&mut self, _: usize, _: u64) {}
}

/// Returns the row of a command, and its arguments.
fn parse(line: &str) -> (&'static Command, OwnedArgs) {
    let args: OwnedArgs = line.split(' ').collect();
    let name = args.as_args()[0].to_ascii_lowercase();
    let mut row = command::find(&name).unwrap();
    if row.handler.is_none() {
        let sub = args.as_args()[1].to_ascii_lowercase();
        row = row
            .subcommands
            .iter()
            .find(|row| row.name.as_bytes() == sub)
            .unwrap();
    }
    (row, args)
}

fn run(turn: &mut Turn, line: &str) {
    let (row, args) = parse(line);
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    turn.run(row, 0, true, args.as_args(), &mut reply).unwrap();
}

/// Returns the number of entries that a rule has appended.
fn appended(store: &Store, rule: &[u8]) -> u64 {
    let rules = store.notify.rules();
    rules
        .find(rule)
        .map_or(0, |rule| rule.appended.load(Ordering::Relaxed))
}

/// While a script runs on another event loop, a command may only try its locks (`try_lock_for`).
/// These include the shards of the rules' streams.
#[test]
fn locks_that_are_only_tried_include_the_target_streams() {
    let store = Store::new(StoreOptions {
        shards: 8,
        databases: 1,
        cluster: false,
        seed: 1,
        nap: std::thread::sleep,
    });
    let (mut first, mut second) = (Silent, Silent);
    let new = |sink| Turn::new(&store, Now::from_ms(1_000), sink, Classes::none());
    let mut turn = new(&mut first);
    run(&mut turn, "NOTIFY SET r STREAM s EVENTS $");
    let target = store.shard_of(b"s");
    let key = (0..).map(|n| format!("k{n}"));
    let mut elsewhere = key.filter(|key| store.shard_of(key.as_bytes()) != target);
    let line = format!("SET {} v", elsewhere.next().unwrap());
    let (row, args) = parse(&line);
    assert!(turn.try_lock_for(row, args.as_args()));
    run(&mut turn, &line);
    assert_eq!(appended(&store, b"r"), 1);

    turn.release();
    turn.lock_one(target);
    let mut other = new(&mut second);
    assert!(!other.try_lock_for(row, args.as_args()));
    turn.lock_all();
    turn.release();
    run(&mut other, &line);
    assert_eq!(appended(&store, b"r"), 2);
}

#[test]
fn the_log_has_a_change_and_its_entry_in_one_frame() {
    let store = Store::new(StoreOptions {
        shards: 2,
        databases: 1,
        cluster: false,
        seed: 1,
        nap: std::thread::sleep,
    });
    store.set_logged(true);
    let mut log = Log::default();
    let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut log, Classes::none());
    for line in [
        "NOTIFY SET r STREAM s EVENTS x$",
        "SET a 1 PXAT 1005",
        "SET b 1 PXAT 1006",
        "LPUSH l x",
    ] {
        run(&mut turn, line);
        turn.release();
    }
    turn.now = Now::from_ms(1_005);
    run(&mut turn, "GET a");
    turn.release();
    turn.now = Now::from_ms(1_006);
    for shard in 0..2 {
        turn.expire(shard, &mut 100);
    }
    drop(turn);
    let text = String::from_utf8(log.0).unwrap();
    let words: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(['$', '*']))
        .collect();
    assert_eq!(
        words.join(" "),
        "NOTIFY SET r STREAM s EVENTS x$ SINCE 1000 \
         MULTI SET a 1 PXAT 1005 XADD s 1000-0 event set key a EXEC \
         MULTI SET b 1 PXAT 1006 XADD s 1000-1 event set key b EXEC \
         LPUSH l x \
         MULTI DEL a XADD s 1005-0 event expired key a EXEC \
         MULTI DEL b XADD s 1006-0 event expired key b EXEC"
    );
}

/// SCAN locks one shard at a time, and logs each shard's expired keys together with their rule
/// entries in a frame.
#[test]
fn a_scan_appends_expiries_before_it_locks_the_next_shard() {
    let store = Store::new(StoreOptions {
        shards: 8,
        databases: 1,
        cluster: false,
        seed: 1,
        nap: std::thread::sleep,
    });
    store.set_logged(true);
    let mut log = Log::default();
    let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut log, Classes::none());
    run(&mut turn, "NOTIFY SET r STREAM s EVENTS x");
    for n in 0..20 {
        run(&mut turn, &format!("SET k{n} v PXAT 1005"));
    }
    turn.now = Now::from_ms(1_005);
    // This change is not yet logged when the scan begins.
    run(&mut turn, "SET other v");
    run(&mut turn, "SCAN 0 COUNT 1000");
    drop(turn);
    assert_eq!(appended(&store, b"r"), 20);
    let text = String::from_utf8(log.0).unwrap();
    let mut framed = false;
    for word in text.lines() {
        match word {
            "MULTI" => assert!(!std::mem::replace(&mut framed, true)),
            "EXEC" => assert!(std::mem::replace(&mut framed, false)),
            "DEL" | "XADD" => assert!(framed),
            _ => {}
        }
    }
    assert!(!framed);
}

/// Several threads change keys while rules are set and deleted, and each thread takes its locks in
/// another way. Every event gets an entry, and no thread deadlocks.
#[test]
fn threads_append_every_event() {
    const ROUNDS: usize = 2_000;
    let store = Store::new(StoreOptions {
        shards: 8,
        databases: 1,
        cluster: false,
        seed: 1,
        nap: std::thread::sleep,
    });
    let locked_turn = |line: &str, lock: &dyn Fn(&mut Turn)| {
        let mut sink = Silent;
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
        lock(&mut turn);
        run(&mut turn, line);
    };
    let turn = |line: &str| locked_turn(line, &|_| ());
    turn("NOTIFY SET first STREAM one EVENTS $");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let locked_turn = &locked_turn;
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    let line = format!("MSET k{thread}:{n} v other:{n} v");
                    let (row, args) = parse(&line);
                    locked_turn(&line, &|turn| match thread {
                        0 => {}
                        1 => drop(turn.try_lock_for(row, args.as_args())),
                        _ => turn.pin_and_grow(std::iter::empty()),
                    });
                }
            });
        }
        scope.spawn(|| {
            for n in 0..ROUNDS {
                match n % 3 {
                    0 => turn("NOTIFY SET second STREAM two EVENTS $"),
                    1 => turn("NOTIFY SET second STREAM three EVENTS $"),
                    _ => turn("NOTIFY DEL second"),
                }
            }
        });
    });
    assert_eq!(appended(&store, b"first"), 3 * 2 * ROUNDS as u64);
}
