//! Retention, leases, dead letters and claims, on a clock that the tests move.

use crate::command::testing::Fixture;

const NIL: &str = "*-1";

#[test]
fn entries_are_removed_at_their_age() {
    let mut f = Fixture::new();
    f.run("XADD s 1000000-0 f 1");
    f.run("XADD s 1000005-0 f 2");
    f.run("XADD s 1000005-1 f 3");
    assert_eq!(f.run("XRETAIN s GET"), "$-1");
    assert_eq!(f.run("XRETAIN s MAXAGE 100"), "+OK");
    assert_eq!(f.run("XRETAIN s GET"), "*4 $7 max-age :100 $7 max-len $-1");
    f.events();
    f.advance(99);
    f.expire();
    assert_eq!((f.run("XLEN s"), f.events()), (":3".into(), String::new()));
    f.advance(1);
    f.expire();
    assert_eq!(
        (f.run("XLEN s"), f.events()),
        (":2".into(), "xtrim s".into())
    );
    f.jump(1_000_104);
    assert_eq!(f.run("XLEN s"), ":2");
    f.jump(1_000_105);
    assert_eq!(
        (f.run("XLEN s"), f.events()),
        (":0".into(), "xtrim s".into())
    );
    assert_eq!(f.run("EXISTS s"), ":1", "the stream stays");
    assert_eq!(f.stats.retained_out, 3);
    // An entry with an ID in the future stays until that time plus the age, and an entry that is
    // too old is removed at once.
    assert_eq!(f.run("XADD s 1000105-5 f old"), "$9 1000105-5");
    f.run("XADD s 1005000-0 f new");
    f.jump(1_005_099);
    assert_eq!(f.run("XRANGE s - +"), "*1 *2 $9 1005000-0 *2 $1 f $3 new");
    f.jump(1_005_100);
    assert_eq!(f.run("XLEN s"), ":0");
    assert_eq!(f.run("XADD s 1005000-1 f old"), "$9 1005000-1");
    assert_eq!(f.run("XLEN s"), ":0");
    assert_eq!(f.run("XRETAIN s PERSIST"), ":1");
    assert_eq!(f.run("XRETAIN s PERSIST"), ":0");
    f.run("XADD s 1005001-0 f old");
    f.jump(9_000_000);
    assert_eq!(f.run("XLEN s"), ":1");
}

#[test]
fn no_command_sees_an_old_entry_before_the_wheel_takes_it() {
    for read in [
        "XLEN s => :1",
        "XRANGE s - + => *1 *2 $9 1000050-0 *2 $1 f $1 2",
        "XREVRANGE s + - => *1 *2 $9 1000050-0 *2 $1 f $1 2",
        "XREAD STREAMS s 0 => *1 *2 $1 s *1 *2 $9 1000050-0 *2 $1 f $1 2",
        "XDEL s 1000000-0 => :0",
        "XTRIM s MAXLEN 1 => :0",
        "XREADGROUP GROUP g c STREAMS s > => *1 *2 $1 s *1 *2 $9 1000050-0 *2 $1 f $1 2",
        "XCLAIM s g c 0 1000000-0 FORCE => *0",
    ] {
        let (command, expected) = read.split_once(" => ").unwrap();
        for frozen in [false, true] {
            let mut f = Fixture::new();
            f.run("XADD s 1000000-0 f 1");
            f.run("XADD s 1000050-0 f 2");
            f.run("XGROUP CREATE s g 0");
            f.run("XRETAIN s MAXAGE 100");
            f.advance(100);
            f.frozen = frozen;
            let hides = ["XLEN", "XRANGE", "XREVRANGE", "XREAD "];
            if frozen && !hides.iter().any(|name| command.starts_with(name)) {
                continue;
            }
            assert_eq!(f.run(command), expected, "{command}");
            f.frozen = false;
            f.expire();
            assert_eq!(f.run("XLEN s"), ":1", "{command}");
        }
    }
}

#[test]
fn retention_by_number_holds_for_each_entry() {
    let mut f = Fixture::new();
    for n in 1..=5 {
        f.run(&format!("XADD s {n}-0 f {n}"));
    }
    assert_eq!(f.run("XRETAIN s MAXAGE 9999999 MAXLEN 3"), "+OK");
    assert_eq!(f.run("XLEN s"), ":3");
    f.run("XADD s 6-0 f 6");
    assert_eq!(f.run("XRANGE s - + COUNT 1"), "*1 *2 $3 4-0 *2 $1 f $1 4");
    for wrong in [
        "XRETAIN s",
        "XRETAIN s MAXAGE 0",
        "XRETAIN s MAXAGE -1",
        "XRETAIN s MAXAGE 1 MAXLEN 0",
        "XRETAIN s MAXAGE 1 MINLEN 1",
        "XRETAIN s MAXLEN 1",
        "XRETAIN s GET now",
        "XRETAIN none GET",
    ] {
        assert!(f.run(wrong).starts_with("-ERR"), "{wrong}");
    }
    f.run("SET text v");
    assert!(f.run("XRETAIN text GET").starts_with("-WRONGTYPE"));
}

/// Reads the IDs of a reply of XREADGROUP.
fn ids(reply: &str) -> Vec<&str> {
    reply
        .split(' ')
        .filter(|word| {
            word.split_once('-')
                .is_some_and(|(a, b)| a.parse::<u64>().is_ok() && b.parse::<u64>().is_ok())
        })
        .collect()
}

fn leased(lease: &str) -> Fixture {
    let mut f = Fixture::sharded(4);
    for n in 1..=3 {
        f.run(&format!("XADD s {n}-0 f {n}"));
    }
    f.run("XGROUP CREATE s g 0");
    assert_eq!(f.run(&format!("XGROUP SETLEASE s g {lease}")), "+OK");
    f
}

#[test]
fn an_entry_is_delivered_again_when_its_lease_ends() {
    let mut f = leased("1000");
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >")),
        ["1-0", "2-0"]
    );
    f.advance(999);
    f.expire();
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g b COUNT 1 STREAMS s >")),
        ["3-0"]
    );
    assert_eq!(f.run("XREADGROUP GROUP g b STREAMS s >"), NIL);
    f.advance(1);
    // An acknowledgement after the end of the lease, before the entry is delivered again, counts.
    assert_eq!(f.run("XACK s g 1-0"), ":1");
    assert_eq!(
        f.run("XREADGROUP GROUP g b STREAMS s >"),
        "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 2"
    );
    assert_eq!(
        f.run("XPENDING s g - + 9"),
        "*2 *4 $3 2-0 $1 b :0 :2 *4 $3 3-0 $1 b :1 :1"
    );
    // As in Redis, XACK names no consumer: the first consumer may acknowledge an entry that another
    // consumer has now.
    assert_eq!(f.run("XACK s g 2-0"), ":1");
    f.advance(999);
    assert_eq!(ids(&f.run("XREADGROUP GROUP g a STREAMS s >")), ["3-0"]);
    f.run("XACK s g 3-0");
    f.advance(5000);
    f.expire();
    assert_eq!(f.run("XREADGROUP GROUP g a STREAMS s >"), NIL);
    assert_eq!(f.stats.redelivered, 2);
}

#[test]
fn lapsed_entries_come_before_new_ones_and_count() {
    let mut f = leased("1000");
    f.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
    f.advance(1000);
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g b COUNT 1 STREAMS s >")),
        ["1-0"]
    );
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g b COUNT 2 STREAMS s >")),
        ["2-0", "3-0"]
    );
    // NOACK applies only to new entries.
    f.advance(1000);
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g b NOACK STREAMS s >")),
        ["1-0", "2-0", "3-0"]
    );
    assert!(f.run("XPENDING s g").starts_with("*4 :3"));
}

#[test]
fn claims_and_history_renew_a_lease() {
    let mut f = leased("1000");
    f.run("XREADGROUP GROUP g a STREAMS s >");
    f.advance(600);
    f.run("XCLAIM s g b 0 1-0");
    f.run("XCLAIM s g b 0 2-0 IDLE 900");
    f.advance(100);
    assert_eq!(ids(&f.run("XREADGROUP GROUP g c STREAMS s >")), ["2-0"]);
    f.run("XREADGROUP GROUP g a STREAMS s 0");
    f.advance(300);
    assert_eq!(f.run("XREADGROUP GROUP g c STREAMS s >"), NIL);
    f.advance(600);
    assert_eq!(ids(&f.run("XREADGROUP GROUP g c STREAMS s >")), ["1-0"]);
    f.advance(100);
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g c STREAMS s >")),
        ["2-0", "3-0"]
    );
}

#[test]
fn an_entry_moves_to_the_dead_letter_stream_after_its_last_delivery() {
    let mut f = leased("1000 MAXDELIVERIES 2 DEADLETTER dead");
    f.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    f.advance(1000);
    f.run("XREADGROUP GROUP g b COUNT 1 STREAMS s >");
    f.advance(999);
    f.expire();
    assert_eq!(f.run("EXISTS dead"), ":0");
    f.events();
    f.advance(1);
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g c COUNT 1 STREAMS s >")),
        ["2-0"]
    );
    f.expire();
    assert_eq!(
        f.run("XRANGE dead - +"),
        "*1 *2 $9 1002000-0 *12 $1 f $1 1 $13 origin-stream $1 s $12 origin-group $1 g $9 origin-id $3 1-0 \
         $15 origin-consumer $1 b $17 origin-deliveries $1 2"
    );
    assert_eq!(f.events(), "xgroup-createconsumer s, new dead, xadd dead");
    assert_eq!(
        f.run("XACK s g 1-0"),
        ":0",
        "the entry is no longer pending"
    );
    assert_eq!(f.run("XLEN s"), ":3", "the entry stays in its stream");
    assert_eq!(f.stats.dead_letters, 1);
}

#[test]
fn a_dead_letter_key_of_another_type_loses_no_entry() {
    let mut f = leased("1000 MAXDELIVERIES 1 DEADLETTER dead");
    f.run("SET dead text");
    f.run("XREADGROUP GROUP g a STREAMS s >");
    f.advance(1000);
    f.expire();
    assert!(f.run("XPENDING s g").starts_with("*4 :3"));
    assert_eq!(f.stats.dead_letter_errors, 1);
    f.run("DEL dead");
    f.advance(999);
    f.expire();
    assert!(f.run("XPENDING s g").starts_with("*4 :3"));
    f.advance(1);
    f.expire();
    assert_eq!(f.run("XLEN dead"), ":3");
    assert!(f.run("XPENDING s g").starts_with("*4 :0"));
}

#[test]
fn wrong_leases_are_refused() {
    let mut f = leased("1000 MAXDELIVERIES 3 DEADLETTER dead");
    assert_eq!(
        f.run("XINFO GROUPS s"),
        "*1 *18 $4 name $1 g $9 consumers :0 $7 pending :0 $17 last-delivered-id $3 0-0 $12 entries-read $-1 $3 lag :3 \
         $5 lease :1000 $14 max-deliveries :3 $11 dead-letter $4 dead"
    );
    for wrong in [
        "XGROUP SETLEASE s g -1",
        "XGROUP SETLEASE s g soon",
        "XGROUP SETLEASE s none 1",
        "XGROUP SETLEASE s g 1 MAXDELIVERIES 3",
        "XGROUP SETLEASE s g 1 MAXDELIVERIES 0 DEADLETTER d",
        "XGROUP SETLEASE s g 1 MAXDELIVERIES 4294967296 DEADLETTER d",
        "XGROUP SETLEASE s g 1 MAXDELIVERIES 3 DEADLETTER s",
        "XGROUP SETLEASE s g 1 DEADLETTER d MAXDELIVERIES 3",
    ] {
        let reply = f.run(wrong);
        assert!(
            reply.starts_with("-ERR") || reply.starts_with("-NOGROUP"),
            "{wrong}: {reply}"
        );
    }
    assert_eq!(f.run("XGROUP SETLEASE s g 0"), "+OK");
    assert!(f.run("XINFO GROUPS s").starts_with("*1 *12 "));
}

#[test]
fn settings_survive_copies_moves_and_snapshots() {
    for shards in [1, 8] {
        let mut f = Fixture::sharded(shards);
        f.run("XADD s 1000000-0 f 1");
        f.run("XADD s 1000100-0 f 2");
        f.run("XGROUP CREATE s g 0");
        f.run("XRETAIN s MAXAGE 5000 MAXLEN 100");
        f.run("XGROUP SETLEASE s g 1000 MAXDELIVERIES 9 DEADLETTER dead");
        f.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
        f.run("COPY s copied");
        f.reload();
        f.run("RENAME s renamed");
        f.run("COPY renamed moved");
        f.run("MOVE moved 1");
        let dump = f.reply(
            ["DUMP", "renamed"]
                .into_iter()
                .collect::<punctual_resp::OwnedArgs>()
                .as_args(),
        );
        let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let payload = &dump[start..dump.len() - 2];
        // The first byte of the payload of a stream with settings.
        assert_eq!(payload[0], 200);
        let words: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", payload];
        assert_eq!(f.run_words(&words), "+OK");
        f.advance(1000);
        f.expire();
        for (db, key) in [(0, "copied"), (0, "renamed"), (1, "moved"), (0, "restored")] {
            f.db = db;
            let read = format!("XREADGROUP GROUP g b COUNT 1 STREAMS {key} >");
            assert_eq!(ids(&f.run(&read)), ["1000000-0"], "{key}");
            assert_eq!(
                f.run(&format!("XRETAIN {key} GET")),
                "*4 $7 max-age :5000 $7 max-len :100"
            );
            assert!(
                f.run(&format!("XINFO GROUPS {key}"))
                    .contains("dead-letter"),
                "{key}"
            );
        }
        f.db = 0;
        f.events();
        f.jump(1_005_000);
        let events = f.events();
        for key in ["copied", "renamed", "moved", "restored"] {
            assert!(
                events.contains(&format!("xtrim {key}")),
                "{key} in {events}"
            );
        }
    }
}

#[test]
fn claim_takes_idle_entries_before_new_ones() {
    let mut f = Fixture::new();
    for n in 1..=3 {
        f.run(&format!("XADD s {n}-0 f {n}"));
    }
    f.run("XGROUP CREATE s g 0");
    f.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    f.advance(50);
    assert_eq!(
        f.run("XREADGROUP GROUP g b COUNT 2 CLAIM 50 STREAMS s >"),
        "*1 *2 $1 s *2 *4 $3 1-0 *2 $1 f $1 1 :50 :1 *4 $3 2-0 *2 $1 f $1 2 :0 :0"
    );
    assert_eq!(
        f.run("XREADGROUP GROUP g b CLAIM 51 STREAMS s 0"),
        "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 f $1 1 *2 $3 2-0 *2 $1 f $1 2"
    );
    f.advance(49);
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g c CLAIM 50 STREAMS s >")),
        ["3-0"]
    );
    f.advance(1);
    // The entries come in the order of their deliveries, and NOACK does not apply.
    assert_eq!(
        f.run("XREADGROUP GROUP g c NOACK CLAIM 50 STREAMS s >"),
        "*1 *2 $1 s *2 *4 $3 1-0 *2 $1 f $1 1 :50 :3 *4 $3 2-0 *2 $1 f $1 2 :50 :2"
    );
    f.advance(1000);
    f.run("XDEL s 1-0");
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g d COUNT 1 CLAIM 50 STREAMS s >")),
        ["3-0"]
    );
    assert_eq!(
        ids(&f.run("XREADGROUP GROUP g d COUNT 1 CLAIM 50 STREAMS s >")),
        ["2-0"]
    );
    assert!(
        f.run("XPENDING s g").starts_with("*4 :2"),
        "a deleted entry is no longer pending"
    );
    assert_eq!(
        f.run("XREADGROUP GROUP g d CLAIM 9223372036854775807 STREAMS s >"),
        NIL
    );
    for (claim, error) in [
        ("test", "is not an integer"),
        ("+10", "is not an integer"),
        ("-0", "is not an integer"),
        ("5.5", "is not an integer"),
        ("-10", "must be a positive integer"),
    ] {
        let line = format!("XREADGROUP GROUP g a CLAIM {claim} STREAMS s >");
        assert_eq!(f.run(&line), format!("-ERR min-idle-time {error}"));
    }
}
