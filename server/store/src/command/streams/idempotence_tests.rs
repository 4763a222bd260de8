//! Tests of XADD's IDMP and IDMPAUTO, XCFGSET and XIDMPRECORD, after the documentation and the
//! tests of Redis 8.6 (redis-server 7.0 lacks these commands).

use crate::command::testing::Fixture;

/// Returns XINFO's fields: duration, size, producers, messages, added, duplicates.
fn kept(f: &mut Fixture, key: &str) -> String {
    let info = f.run(&format!("XINFO STREAM {key}"));
    let names = [
        "idmp-duration",
        "idmp-maxsize",
        "pids-tracked",
        "iids-tracked",
        "iids-added",
        "iids-duplicates",
    ];
    let value = |name: &&str| Some(info.split_once(*name)?.1.split(' ').nth(1)?.to_owned());
    names.iter().filter_map(value).collect::<Vec<_>>().join("")
}

#[test]
fn a_message_is_added_once_for_each_producer() {
    let mut f = Fixture::new();
    assert_eq!(f.run("XADD s NOMKSTREAM IDMP p a * f 1"), "$-1");
    let first = f.run("XADD s IDMP p a * f 1");
    assert_eq!(first, "$9 1000000-0");
    f.events();
    f.advance(1);
    assert_eq!(f.run("XADD s IDMP p a MAXLEN 0 * g 2 h 3"), first);
    assert_eq!((f.run("XLEN s"), f.events()), (":1".into(), String::new()));
    assert_eq!(f.run("XADD s IDMP q a * f 1"), "$9 1000001-0");
    assert_eq!(
        f.run("XADD s MAXLEN ~ 10 idmp p b KEEPREF * f 1"),
        "$9 1000001-1"
    );
    assert_eq!(kept(&mut f, "s"), ":100:100:2:3:3:1");
    // A duplicate is found even if the first message's entry was deleted.
    f.run("XDEL s 1000000-0");
    assert_eq!(f.run("XADD s IDMP p a * f 1"), first);
    // A name may look like an ID or an option.
    assert_eq!(f.run("XADD s IDMP * * * f 1"), "$9 1000001-2");
    assert_eq!(f.run("XADD s IDMP * * * f 1"), "$9 1000001-2");
    assert_eq!(f.run("XADD s IDMPAUTO IDMP * f 1"), "$9 1000001-3");
    f.run("XADD other * f 1");
    assert_eq!(kept(&mut f, "other"), "");
}

#[test]
fn idmpauto_names_a_message_by_its_fields_in_any_order() {
    let mut f = Fixture::new();
    let first = f.run("XADD s IDMPAUTO p * a 1 b 2 b 3");
    assert_eq!(f.run("XADD s IDMPAUTO p * b 3 a 1 b 2"), first);
    for other in [
        "a 1 b 2",
        "a 1 b 2 b 3 b 3",
        "a 1b 2 b 3 \"\"",
        "a 2 b 1 b 3",
    ] {
        assert_ne!(
            f.run(&format!("XADD s IDMPAUTO p * {other}")),
            first,
            "{other}"
        );
    }
    assert_ne!(f.run("XADD s IDMPAUTO q * a 1 b 2 b 3"), first);
}

#[test]
fn errors_match_redis() {
    let mut f = Fixture::new();
    f.run("SET string v");
    f.run("XADD s * f v");
    for (line, error) in [
        (
            "XADD s IDMP p * f v",
            "Invalid stream ID specified as stream command argument",
        ),
        (
            "XADD s IDMP p a 1-1 f v",
            "IDMP/IDMPAUTO can be used only with auto-generated IDs",
        ),
        (
            "XADD s IDMPAUTO p 1-* f v",
            "IDMP/IDMPAUTO can be used only with auto-generated IDs",
        ),
        (
            "XADD s IDMP p a IDMP q b * f v",
            "IDMP/IDMPAUTO specified multiple times",
        ),
        (
            "XADD s IDMPAUTO p IDMP q b * f v",
            "IDMP/IDMPAUTO specified multiple times",
        ),
        (
            "XADD s IDMP \"\" a * f v",
            "IDMP requires a non-empty producer ID",
        ),
        (
            "XADD s IDMP p \"\" * f v",
            "IDMP requires a non-empty idempotent ID",
        ),
        (
            "XADD s IDMPAUTO \"\" * f v",
            "IDMPAUTO requires a non-empty producer ID",
        ),
        ("XTRIM s IDMPAUTO p", "syntax error"),
        ("XCFGSET s IDMP-DURATION", "syntax error"),
        ("XCFGSET s INVALID", "syntax error"),
        (
            "XCFGSET s IDMP-DURATION 000",
            "value is not an integer or out of range",
        ),
        (
            "XCFGSET s IDMP-MAXSIZE A IDMP-DURATION",
            "value is not an integer or out of range",
        ),
        (
            "XCFGSET s IDMP-DURATION 0",
            "IDMP-DURATION must be between 1 and 86400 seconds",
        ),
        (
            "XCFGSET s IDMP-DURATION 86401",
            "IDMP-DURATION must be between 1 and 86400 seconds",
        ),
        (
            "XCFGSET s IDMP-MAXSIZE -50",
            "IDMP-MAXSIZE must be between 1 and 10000 entries",
        ),
        (
            "XCFGSET s IDMP-MAXSIZE 10001",
            "IDMP-MAXSIZE must be between 1 and 10000 entries",
        ),
        ("XCFGSET none IDMP-MAXSIZE 10", "no such key"),
        ("XIDMPRECORD none p a 1-1", "no such key"),
    ] {
        assert_eq!(f.run(line), format!("-ERR {error}"), "{line}");
    }
    assert!(
        f.run("XCFGSET s")
            .starts_with("-ERR At least one parameter")
    );
    for line in [
        "XADD string IDMP p a * f v",
        "XCFGSET string IDMP-MAXSIZE 9",
    ] {
        assert!(f.run(line).starts_with("-WRONGTYPE"), "{line}");
    }
    assert_eq!(
        (f.run("XLEN s"), kept(&mut f, "s")),
        (":1".into(), String::new())
    );
}

#[test]
fn messages_are_forgotten_by_age_and_number() {
    let mut f = Fixture::new();
    f.run("XADD s * f v");
    assert_eq!(f.run("XCFGSET s IDMP-MAXSIZE 2 IDMP-DURATION 10"), "+OK");
    let all: Vec<String> = ["a", "b", "c"]
        .map(|m| f.run(&format!("XADD s IDMP p {m} * f v")))
        .into();
    f.run("XADD s IDMP q a * f v");
    assert_eq!(kept(&mut f, "s"), ":10:2:2:3:4:0");
    assert_eq!(f.run("XADD s IDMP p c * f v"), all[2]);
    assert_ne!(
        f.run("XADD s IDMP p a * f v"),
        all[0],
        "IDMP-MAXSIZE is 2, so c has replaced a"
    );
    f.advance(9_999);
    assert_eq!(f.run("XADD s IDMP p c * f v"), all[2]);
    f.advance(1);
    assert_ne!(
        f.run("XADD s IDMP p c * f v"),
        all[2],
        "the duration has ended, although the timer has not removed c"
    );
    f.expire();
    assert_eq!(kept(&mut f, "s"), ":10:2:1:1:6:2");
    // The timer removes messages after their duration.
    f.jump(1_030_000);
    assert_eq!(kept(&mut f, "s"), ":10:2:0:0:6:2");
    // The timer removes a large number of messages in steps.
    f.run("XCFGSET s IDMP-MAXSIZE 10000");
    for n in 0..9_000 {
        f.run(&format!("XADD s IDMP p {n} * f v"));
    }
    assert_eq!(kept(&mut f, "s"), ":10:10000:1:9000:9006:2");
    f.jump(1_041_000);
    assert_eq!(kept(&mut f, "s"), ":10:10000:0:0:9006:2");
}

#[test]
fn only_changed_settings_clear_messages() {
    let mut f = Fixture::new();
    let first = f.run("XADD s IDMP p a * f v");
    f.run("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100");
    assert_eq!(f.run("XADD s IDMP p a * f v"), first);
    f.run("XCFGSET s IDMP-DURATION 50");
    assert_eq!(kept(&mut f, "s"), ":50:100:0:0:1:1");
    assert_ne!(f.run("XADD s IDMP p a * f v"), first);
}

#[test]
fn messages_survive_copies_moves_and_snapshots() {
    let mut f = Fixture::sharded(8);
    f.run("XADD s IDMP p a * f 1");
    f.run("XCFGSET s IDMP-DURATION 50");
    let ids = ["p a", "p b", "q a"].map(|names| f.run(&format!("XADD s IDMP {names} * f 1")));
    f.run("XADD s IDMP p a * f 1");
    f.run("COPY s copied");
    f.reload();
    f.run("RENAME s renamed");
    f.run("COPY renamed moved");
    f.run("MOVE moved 1");
    let dump: punctual_resp::OwnedArgs = ["DUMP", "renamed"].into_iter().collect();
    let dump = f.reply(dump.as_args());
    let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let words: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", &dump[start..dump.len() - 2]];
    assert_eq!(f.run_words(&words), "+OK");
    for (db, key) in [(0, "copied"), (0, "renamed"), (1, "moved"), (0, "restored")] {
        f.db = db;
        assert_eq!(kept(&mut f, key), ":50:100:2:3:4:1", "{key}");
        for (names, id) in ["p a", "p b", "q a"].iter().zip(&ids) {
            assert_eq!(
                f.run(&format!("XADD {key} IDMP {names} * f 1")),
                *id,
                "{key}"
            );
        }
    }
    // The timers of all copies are armed.
    f.jump(1_051_000);
    for (db, key) in [(0, "copied"), (0, "renamed"), (1, "moved"), (0, "restored")] {
        f.db = db;
        assert_eq!(kept(&mut f, key), ":50:100:0:0:4:4", "{key}");
    }
}

/// A replay of the log leads to the same entries and messages, and counts the same duplicates.
#[test]
fn the_log_replays_to_the_same_messages() {
    let (mut f, mut replica) = (Fixture::new(), Fixture::new());
    f.set_logged(true);
    for line in [
        "XADD s IDMP p a * f 1",
        "XADD s IDMP p a * f 2",
        "XADD s IDMPAUTO p MAXLEN ~ 5 * f 3",
        "XADD s IDMPAUTO p DELREF MAXLEN 5 * f 3",
        "XADD s IDMPAUTO p DELREF MAXLEN 5 * f 4",
        "XADD s NOMKSTREAM IDMP q a MAXLEN 1 * f 5",
        "XRETAIN s MAXAGE 100000",
        "XADD s IDMP q b * f 6",
        "XCFGSET s IDMP-MAXSIZE 3",
        "XADD s IDMP q b * f 7",
        "XADD s IDMP q b * f 8",
    ] {
        f.advance(1);
        f.run(line);
        let log = f.take_log();
        replica.apply(&log);
    }
    for read in ["XINFO STREAM s", "XRANGE s - +"] {
        assert_eq!(f.run(read), replica.run(read));
    }
    assert_eq!(kept(&mut f, "s"), ":100:3:1:1:6:3");
    // The replica adds no entry for a duplicate whose message it has forgotten.
    f.run("XADD s IDMP q b * f 9");
    replica.advance(1_000_000);
    let (log, len) = (f.take_log(), replica.run("XLEN s"));
    replica.apply(&log);
    assert_eq!(replica.run("XLEN s"), len);
}

#[test]
fn xidmprecord_names_an_entry() {
    let mut f = Fixture::new();
    let id = f.run("XADD s * f v");
    for _ in 0..2 {
        assert_eq!(f.run("XIDMPRECORD s p a 1000000-0"), "+OK");
    }
    assert_eq!(f.run("XADD s IDMP p a * f v"), id);
    assert_eq!(kept(&mut f, "s"), ":100:100:1:1:0:1");
    f.run("XADD s * f v");
    for line in [
        "XIDMPRECORD s p a 1000000-1",
        "XIDMPRECORD s p b 7-7",
        "XIDMPRECORD s \"\" b 1000000-1",
        "XIDMPRECORD s p \"\" 1000000-1",
    ] {
        assert!(f.run(line).starts_with("-ERR"), "{line}");
    }
}
