//! Snapshots: saving, loading, damaged files, save points and failures.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, fill_large, fill_small};
use punctual_server::{Builder, LoadError, Server, StartError};

fn builder(folder: &Path) -> Builder {
    configured("save|enable-debug-command yes").option("dir", folder.to_str().unwrap())
}

fn file(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("dump.rdb")).unwrap()
}

/// Writes values of every type and encoding of Redis 7.0, except streams.
fn fill(c: &mut Wire) {
    fill_small(c);
    c.run("SET negative -7");
    let long = "x".repeat(10_000);
    c.ask(&["SET", "compressible", &long]);
    c.ask(&["RPUSH", "wide list", &long, "after"]);
    c.ask(&["HSET", "wide hash", "field", &long]);
    c.ask(&["SELECT", "3"]);
    fill_large(c);
    c.ask(&["SELECT", "0"]);
}

/// Returns the type, deadline and content of every key, as commands show them.
fn state(c: &mut Wire) -> Vec<String> {
    let mut state = Vec::new();
    for db in ["0", "3"] {
        c.ask(&["SELECT", db]);
        let mut keys = strings(&c.ask(&["KEYS", "*"]));
        keys.sort_unstable();
        for key in keys {
            let kind = c.ask(&["TYPE", &key]);
            let kind = String::from_utf8_lossy(kind.as_bytes().unwrap()).into_owned();
            let mut content = match kind.as_str() {
                "list" => strings(&c.ask(&["LRANGE", &key, "0", "-1"])),
                "zset" => strings(&c.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])),
                "set" => strings(&c.ask(&["SMEMBERS", &key])),
                "hash" => {
                    let names = strings(&c.ask(&["HKEYS", &key]));
                    let value =
                        |name: &String| format!("{name}={:?}", c.ask(&["HGET", &key, name]));
                    names.iter().map(value).collect()
                }
                _ => vec![format!("{:?}", c.ask(&["GET", &key]))],
            };
            if matches!(kind.as_str(), "set" | "hash") {
                content.sort_unstable();
            }
            let at = c.ask(&["PEXPIRETIME", &key]);
            state.push(format!("{db} {key} {kind} {at:?} {}", content.join(",")));
        }
    }
    c.ask(&["SELECT", "0"]);
    state
}

fn strings(value: &punctual_resp::Value) -> Vec<String> {
    let text = |v: &punctual_resp::Value| {
        String::from_utf8_lossy(v.as_bytes().unwrap_or_default()).into_owned()
    };
    value
        .as_slice()
        .unwrap_or_default()
        .iter()
        .map(text)
        .collect()
}

#[track_caller]
fn assert_same_state(ours: &[String], theirs: &[String]) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert!(a == b, "{:.300}\n{:.300}", a, b);
    }
}

#[test]
fn snapshots_are_exchanged_with_redis() {
    for compress in ["yes", "no"] {
        let (ours_at, theirs_at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ours = builder(ours_at.path())
            .option("rdbcompression", compress)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&ours);
        fill(&mut c);
        let expected = state(&mut c);
        assert!(expected.len() > 15);
        c.expect(&["SAVE"], "+OK|");
        let dir = ours_at.path().to_str().unwrap();
        let redis = Redis::start(&["--dir", dir]);
        assert_same_state(&state(&mut Wire::to(redis.port)), &expected);
        drop(redis);

        let dir = theirs_at.path().to_str().unwrap();
        let redis = Redis::start(&["--dir", dir, "--rdbcompression", compress]);
        let mut theirs = Wire::to(redis.port);
        fill(&mut theirs);
        let expected = state(&mut theirs);
        theirs.expect(&["SAVE"], "+OK|");
        let ours = builder(theirs_at.path()).threads(2).spawn().unwrap();
        assert_same_state(&state(&mut Wire::open(&ours)), &expected);
    }
}

#[test]
fn dump_payloads_are_exchanged_with_redis() {
    let folder = tempfile::tempdir().unwrap();
    let ours = builder(folder.path()).spawn().unwrap();
    let redis = Redis::start(&[]);
    let (mut ours, mut theirs) = (Wire::open(&ours), Wire::to(redis.port));
    fill(&mut ours);
    let expected = state(&mut ours);
    for db in ["0", "3"] {
        ours.ask(&["SELECT", db]);
        theirs.ask(&["SELECT", db]);
        for key in strings(&ours.ask(&["KEYS", "*"])) {
            for turn in 0..2 {
                let (from, to) = if turn == 0 {
                    (&mut ours, &mut theirs)
                } else {
                    (&mut theirs, &mut ours)
                };
                let payload = from.ask(&["DUMP", &key]);
                let at = from
                    .ask(&["PEXPIRETIME", &key])
                    .as_int()
                    .unwrap()
                    .max(0)
                    .to_string();
                let words: [&[u8]; 6] = [
                    b"RESTORE",
                    key.as_bytes(),
                    at.as_bytes(),
                    payload.as_bytes().unwrap(),
                    b"REPLACE",
                    b"ABSTTL",
                ];
                let answer = to.ask(&words);
                assert!(!answer.is_error(), "{key}, turn {turn}: {answer:?}");
            }
        }
    }
    assert_same_state(&state(&mut theirs), &expected);
    assert_same_state(&state(&mut ours), &expected);
    ours.expect(&["SELECT 0", "SET t 1", "DUMP nope"], "+OK|+OK|$-1|");
    let payload = ours.ask(&["DUMP", "t"]);
    let payload = payload.as_bytes().unwrap();
    let mut damaged = payload.to_vec();
    damaged[1] ^= 1;
    for words in [
        vec![b"RESTORE".as_slice(), b"t", b"0", payload],
        vec![b"RESTORE", b"u", b"-1", payload],
        vec![b"RESTORE", b"u", b"x", payload],
        vec![b"RESTORE", b"u", b"0", b"short"],
        vec![b"RESTORE", b"u", b"0", &damaged],
        vec![b"RESTORE", b"u", b"0", payload, b"FREQ", b"256"],
        vec![b"RESTORE", b"u", b"0", payload, b"IDLETIME", b"-1"],
        vec![
            b"RESTORE",
            b"u",
            b"0",
            payload,
            b"IDLETIME",
            b"1",
            b"FREQ",
            b"1",
        ],
        vec![b"RESTORE", b"u", b"0", payload, b"NOSUCH"],
        vec![b"RESTORE", b"u", b"5", payload, b"ABSTTL"],
        vec![b"EXISTS", b"u"],
        vec![b"RESTORE", b"u", b"0", payload, b"IDLETIME", b"1000"],
    ] {
        theirs.ask(&["SELECT", "0"]);
        theirs.ask(&["SET", "t", "1"]);
        assert_eq!(
            format!("{:?}", ours.ask(&words)),
            format!("{:?}", theirs.ask(&words))
        );
    }
    let idle = ours.ask(&["OBJECT", "IDLETIME", "u"]).as_int().unwrap();
    assert!((999..1010).contains(&idle), "{idle}");
}

#[test]
fn fields_keep_their_deadlines_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["HSET h a 1 b 2", "HPEXPIREAT h 32503680000000 FIELDS 1 a"],
        ":2|*1|:1|",
    );
    c.expect(&["SAVE"], "+OK|");
    assert!(file(folder.path()).starts_with(b"REDIS0012"));
    drop(server);
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["HPEXPIRETIME h FIELDS 2 a b"], "*2|:32503680000000|:-1|");
}

/// The server does not change the file, and its error names the position and the reason.
#[test]
fn a_damaged_file_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    fill(&mut c);
    c.expect(&["SAVE"], "+OK|");
    drop(server);
    let good = file(folder.path());
    let path = folder.path().join("dump.rdb");
    let mut flipped = good.clone();
    let middle = good.len() / 2;
    flipped[middle] ^= 0x10;
    for (bad, reason) in [
        (good[..good.len() - 5].to_vec(), "damaged at byte"),
        (good[..good.len() / 3].to_vec(), "damaged at byte"),
        (flipped, "damaged at byte"),
        (b"REDISxxxx".to_vec(), "damaged at byte"),
        (b"not a snapshot".to_vec(), "damaged at byte 0"),
        (Vec::new(), "damaged at byte 0"),
    ] {
        fs::write(&path, &bad).unwrap();
        let error = builder(folder.path())
            .spawn()
            .err()
            .expect("the server starts from a damaged file");
        assert!(
            matches!(error, StartError::Load(LoadError::Damaged { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(
            fs::read(&path).unwrap(),
            bad,
            "the damaged file was changed"
        );
    }
    fs::write(&path, &good).unwrap();
    let error = builder(folder.path())
        .option("databases", "2")
        .spawn()
        .err();
    let error = error
        .expect("the server starts although database 3 has keys")
        .to_string();
    assert!(
        error.contains("database 3") && error.contains("databases 4"),
        "{error}"
    );
    builder(folder.path()).spawn().unwrap();
}

#[test]
fn save_points_trigger_saves() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .virtual_clock()
        .option("save", "60 3 3600 1")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let info = |c: &mut Wire, field: &str| -> u64 { c.info("persistence", field).parse().unwrap() };
    let saves = |c: &mut Wire, wanted: u64| {
        let end = Instant::now() + Duration::from_secs(20);
        while info(c, "rdb_saves") != wanted || info(c, "rdb_bgsave_in_progress") != 0 {
            assert!(Instant::now() < end, "{} saves", info(c, "rdb_saves"));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let last = c.int("LASTSAVE");
    c.expect(&["SET a 1", "SET b 1"], "+OK|+OK|");
    c.int("CLOCK ADVANCE 60000");
    assert_eq!(info(&mut c, "rdb_changes_since_last_save"), 2);
    saves(&mut c, 0);
    // After a minute, the third change reaches the save point.
    c.expect(&["SET c 1"], "+OK|");
    saves(&mut c, 1);
    assert_eq!(c.int("LASTSAVE"), last + 60);
    assert_eq!(info(&mut c, "rdb_changes_since_last_save"), 0);
    // After three changes, the end of the minute reaches the save point.
    c.expect(&["SET a 2", "SET b 2", "SET c 2"], "+OK|+OK|+OK|");
    c.int("CLOCK ADVANCE 59999");
    saves(&mut c, 1);
    c.int("CLOCK ADVANCE 1");
    saves(&mut c, 2);
    c.expect(&["DEL a"], ":1|");
    c.int("CLOCK ADVANCE 3600000");
    saves(&mut c, 3);
    c.expect(&["SET last 1", "SHUTDOWN"], "+OK|");
    server.join();
    let server = builder(folder.path()).spawn().unwrap();
    Wire::open(&server).expect(&["DBSIZE", "GET last"], ":3|$1|1|");
}

/// Starts a server with save points that cannot rename a snapshot in its folder.
fn unable_to_save(folder: &Path) -> (Server, Wire) {
    let server = builder(folder)
        .option("save", "3600 1000")
        .option("enable-protected-configs", "yes")
        .spawn()
        .unwrap();
    fs::create_dir_all(folder.join("dump.rdb/in the way")).unwrap();
    let c = Wire::open(&server);
    (server, c)
}

fn has_status(c: &mut Wire, status: &str) -> bool {
    let line = format!("rdb_last_bgsave_status:{status}\r");
    c.text("INFO persistence").contains(&line)
}

#[track_caller]
fn expect_misconf(c: &mut Wire, line: &str) {
    let refused = c.ask(&line.split(' ').collect::<Vec<_>>());
    let refused = String::from_utf8_lossy(refused.as_bytes().unwrap_or_default()).into_owned();
    assert!(refused.contains("MISCONF "), "{line}: {refused}");
}

#[test]
fn a_failed_background_save_stops_writes_until_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mut c) = unable_to_save(folder.path());
    c.expect(&["SET a 1", "BGSAVE"], "+OK|+Background saving started|");
    let end = Instant::now() + Duration::from_secs(20);
    while !has_status(&mut c, "err") {
        assert!(Instant::now() < end, "the save does not fail");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Redis also refuses PING.
    for line in ["SET b 1", "FLUSHALL", "PING"] {
        expect_misconf(&mut c, line);
    }
    c.expect(&["GET a", "PUBLISH channel x"], "$1|1|:0|");
    // EXEC refuses writes that were queued before the failure.
    c.expect(
        &[
            "CONFIG SET stop-writes-on-bgsave-error no",
            "MULTI",
            "SET a 2",
        ],
        "+OK|+OK|+QUEUED|",
    );
    let mut other = Wire::open(&server);
    other.expect(&["CONFIG SET stop-writes-on-bgsave-error yes"], "+OK|");
    expect_misconf(&mut c, "EXEC");
    c.expect(&["GET a"], "$1|1|");
    // A failed SAVE changes nothing. A successful SAVE allows writes again.
    c.expect(&["SAVE"], "-ERR|");
    expect_misconf(&mut c, "PING");
    fs::remove_dir_all(folder.path().join("dump.rdb")).unwrap();
    c.expect(&["SAVE", "SET b 1"], "+OK|+OK|");
    assert!(has_status(&mut c, "ok"));
}

#[test]
fn a_failed_save_or_shutdown_does_not_stop_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut c) = unable_to_save(folder.path());
    c.expect(
        &[
            "SET a 1", "SAVE", "PING", "SET a 2", "SHUTDOWN", "PING", "SET a 3",
        ],
        "+OK|-ERR|+PONG|+OK|-ERR Errors trying to SHUTDOWN. Check logs.|+PONG|+OK|",
    );
    c.expect(&["FLUSHALL", "SET a 4"], "+OK|+OK|");
    assert!(has_status(&mut c, "ok"));
    // FLUSHALL could not save, so the removed key counts as a change in addition to the four
    // writes.
    let text = c.text("INFO persistence");
    assert!(text.contains("rdb_changes_since_last_save:5\r"), "{text}");
}

#[test]
fn bgsave_replies_match_redis() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect_error("BGSAVE x", "syntax error");
    c.expect_error("BGSAVE SCHEDULE x", "syntax error");
    c.expect(&["DEBUG POPULATE 300000"], "+OK|");
    const BUSY: &str = "-ERR Background save already in progress|";
    c.expect(
        &[
            "BGSAVE SCHEDULE",
            "BGSAVE",
            "BGSAVE SCHEDULE",
            "MULTI",
            "BGSAVE",
            "EXEC",
            "SAVE",
        ],
        &format!("+Background saving started|{BUSY}{BUSY}+OK|+QUEUED|*1|{BUSY}{BUSY}"),
    );
    let wait = |c: &mut Wire, lines: &[&str]| {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let info = c.text("INFO persistence");
            if lines.iter().all(|line| info.contains(line)) {
                break;
            }
            assert!(Instant::now() < end, "{info}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&mut c, &["rdb_bgsave_in_progress:0"]);
    // In a transaction, the save starts after EXEC.
    c.expect(
        &["FLUSHALL", "MULTI", "SET before 1", "BGSAVE", "BGSAVE SCHEDULE", "SET after 1", "EXEC"],
        "+OK|+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*4|+OK|+Background saving scheduled|+Background saving scheduled|+OK|",
    );
    wait(
        &mut c,
        &["rdb_bgsave_in_progress:0", "rdb_changes_since_last_save:0"],
    );
    drop(server);
    let server = builder(folder.path()).spawn().unwrap();
    Wire::open(&server).expect(&["DBSIZE", "EXISTS before after"], ":2|:2|");
}

#[test]
fn flushall_saves_the_empty_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("save", "3600 1")
        .threads(2)
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let changes = |c: &mut Wire, count: u64| {
        let text = c.text("INFO persistence");
        let line = format!("rdb_changes_since_last_save:{count}\r");
        assert!(text.contains(&line), "{count}: {text}");
    };
    c.expect(&["MSET a 1 b 2", "SAVE", "FLUSHALL"], "+OK|+OK|+OK|");
    changes(&mut c, 0);
    let saved = file(folder.path());
    assert!(saved.len() < 200, "{} bytes", saved.len());
    // Later writes of the same transaction are not in the file, and count as changes.
    c.expect(
        &["MULTI", "SET a 1", "FLUSHALL", "SET b 1", "SET c 1", "EXEC"],
        "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*4|+OK|+OK|+OK|+OK|",
    );
    changes(&mut c, 2);
    // Without save points, FLUSHALL keeps the file.
    c.expect(&["SAVE", "CONFIG SET save \"\""], "+OK|+OK|");
    let saved = file(folder.path());
    c.expect(&["FLUSHALL"], "+OK|");
    changes(&mut c, 2);
    assert_eq!(file(folder.path()), saved);
}
