//! Snapshots on disk: made, loaded, refused, and survived.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::wire::Wire;
use crate::wire::redis::Redis;
use punctual_server::{Builder, LoadError, Server, StartError};

fn builder(folder: &Path) -> Builder {
    Server::builder()
        .port(0)
        .option("dir", folder.to_str().unwrap())
        .option("save", "")
        .option("enable-debug-command", "yes")
}

fn file(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("dump.rdb")).unwrap()
}

/// Values of every type that Redis 7.0 has, in every form.
fn fill(c: &mut Wire) {
    for line in [
        "SET int 12345678901",
        "SET negative -7",
        "SET text hello",
        "SET timed soon PX 100000000",
        "SETBIT bits 5000 1",
        "PFADD hll a b c",
        "RPUSH list a 1 -300 b",
        "SADD ints 1 2 70000 -5",
        "SADD words a b 3",
        "HSET hash f v g 12",
        "ZADD zset 1 a 2.5 b inf c -inf d 3.0000000000000004 e",
        "GEOADD geo 13.361389 38.115556 Palermo",
    ] {
        let answer = c.ask(&line.split(' ').collect::<Vec<_>>());
        assert!(!answer.is_error(), "{line}: {answer:?}");
    }
    let long = "x".repeat(10_000);
    c.ask(&["SET", "compressible", &long]);
    c.ask(&["RPUSH", "wide list", &long, "after"]);
    c.ask(&["HSET", "wide hash", "field", &long]);
    c.ask(&["SELECT", "3"]);
    for n in 0..700 {
        let (name, score) = (format!("element:{n}"), format!("{}.25", n * 7 % 500));
        c.ask(&["RPUSH", "long list", &name]);
        c.ask(&["SADD", "large set", &name]);
        c.ask(&["HSET", "large hash", &name, &n.to_string()]);
        c.ask(&["ZADD", "large zset", &score, &name]);
    }
    c.ask(&["SELECT", "0"]);
}

/// Everything that commands tell of the keys.
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
fn same(ours: &[String], theirs: &[String]) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert!(a == b, "{:.300}\n{:.300}", a, b);
    }
}

#[test]
fn redis_reads_ours_and_we_read_redis() {
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
        same(&state(&mut Wire::to(redis.port)), &expected);
        drop(redis);

        let dir = theirs_at.path().to_str().unwrap();
        let redis = Redis::start(&["--dir", dir, "--rdbcompression", compress]);
        let mut theirs = Wire::to(redis.port);
        fill(&mut theirs);
        let expected = state(&mut theirs);
        theirs.expect(&["SAVE"], "+OK|");
        let ours = builder(theirs_at.path()).threads(2).spawn().unwrap();
        same(&state(&mut Wire::open(&ours)), &expected);
    }
}

#[test]
fn payloads_go_both_ways() {
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
    same(&state(&mut theirs), &expected);
    same(&state(&mut ours), &expected);
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

/// The file is as it was, and the message says where and what.
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
            .expect("it must not start");
        assert!(
            matches!(error, StartError::Load(LoadError::Damaged { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bad, "the file is kept");
    }
    fs::write(&path, &good).unwrap();
    let error = builder(folder.path())
        .option("databases", "2")
        .spawn()
        .err();
    let error = error.expect("database 3 has keys").to_string();
    assert!(
        error.contains("database 3") && error.contains("databases 4"),
        "{error}"
    );
    builder(folder.path()).spawn().unwrap();
}

#[test]
fn save_points_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .virtual_clock()
        .option("save", "60 3 3600 1")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let info = |c: &mut Wire, field: &str| -> u64 {
        let text = c.text("INFO persistence");
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().trim().parse().unwrap()
    };
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
    // The third change is enough, after more than a minute.
    c.expect(&["SET c 1"], "+OK|");
    saves(&mut c, 1);
    assert_eq!(c.int("LASTSAVE"), last + 60);
    assert_eq!(info(&mut c, "rdb_changes_since_last_save"), 0);
    // The minute is enough, after three changes.
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

#[test]
fn a_save_that_fails_stops_writes_until_one_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("save", "3600 1000")
        .option("enable-protected-configs", "yes")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET a 1"], "+OK|");
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    c.ask(&["CONFIG", "SET", "dir", gone.to_str().unwrap()]);
    fs::remove_dir(&gone).unwrap();
    c.expect(&["SAVE"], "-ERR|");
    let refused = c.ask(&["SET", "b", "1"]);
    let refused = String::from_utf8_lossy(refused.as_bytes().unwrap()).into_owned();
    assert!(refused.starts_with("MISCONF "), "{refused}");
    c.expect(&["GET a"], "$1|1|");
    assert!(
        c.text("INFO persistence")
            .contains("rdb_last_bgsave_status:err")
    );
    c.ask(&["CONFIG", "SET", "dir", folder.path().to_str().unwrap()]);
    c.expect(&["SAVE", "SET b 1"], "+OK|+OK|");
    assert!(
        c.text("INFO persistence")
            .contains("rdb_last_bgsave_status:ok")
    );
}

#[test]
fn bgsave_answers_as_redis_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect_error("BGSAVE x", "syntax error");
    c.expect_error("BGSAVE SCHEDULE x", "syntax error");
    c.expect(&["DEBUG POPULATE 300000"], "+OK|");
    c.expect(
        &["BGSAVE", "BGSAVE", "BGSAVE SCHEDULE", "SAVE", "FLUSHALL", "SET after 1"],
        "+Background saving started|-ERR Background save already in progress|+Background saving scheduled|-ERR Background save already in progress|+OK|+OK|",
    );
    // FLUSHALL gives the first one up, if it has not ended; the scheduled one is of what came after.
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let info = c.text("INFO persistence");
        let done = ["rdb_bgsave_in_progress:0", "rdb_changes_since_last_save:0"];
        if done.iter().all(|line| info.contains(line)) {
            break;
        }
        assert!(Instant::now() < end, "{info}");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(server);
    let server = builder(folder.path()).spawn().unwrap();
    Wire::open(&server).expect(&["KEYS *"], "*1|$5|after|");
}

/// Starts the binary in `folder`, and waits until it has loaded what is there.
fn start(folder: &Path, port: u16) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["--port", &port.to_string(), "--save", "", "--dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + crate::process::PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "it does not serve");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut c = Wire::to(port);
    while c.ask(&["DBSIZE"]).is_error() {
        assert!(Instant::now() < end, "it loads for ever");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// Killed a hundred times in the middle of a save, each time at another moment: every start finds a whole snapshot, the
/// last one that was reported as saved or a later one.
#[test]
fn a_kill_in_the_middle_of_a_save_loses_no_snapshot() {
    const KEYS: usize = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut unfinished = 0;
    let mut least = 0;
    for round in 1..=100u64 {
        let mut child = start(folder.path(), port);
        let mut c = Wire::to(port);
        let generation = c.ask(&["GET", "generation"]);
        let generation = generation.as_bytes().unwrap_or(b"0");
        let generation = String::from_utf8_lossy(generation).into_owned();
        let generation: u64 = generation
            .parse()
            .unwrap_or_else(|_| panic!("round {round}: {generation}"));
        assert!(
            generation >= least,
            "round {round}: {generation}, but {least} was saved"
        );
        let size = c.int("DBSIZE");
        assert!(
            size == 0 && generation == 0 || size as usize == KEYS + 1,
            "round {round}: {size} keys"
        );
        if generation > 0 {
            // All keys are of one generation: of one instant.
            let wanted = format!("v{generation}");
            for n in [0, KEYS / 2, KEYS - 1] {
                assert_eq!(
                    c.ask(&["GET", &format!("k{n}")]).as_bytes(),
                    Some(wanted.as_bytes())
                );
            }
        }
        let value = format!("v{round}");
        let mut lines: Vec<String> = (0..KEYS).map(|n| format!("SET k{n} {value}")).collect();
        lines.insert(0, "MULTI".into());
        lines.push(format!("SET generation {round}"));
        lines.push("EXEC".into());
        c.send(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..lines.len() - 1 {
            c.value();
        }
        assert!(!c.value().is_error());
        c.expect(&["BGSAVE"], "+Background saving started|");
        // From at once to well after the end.
        std::thread::sleep(Duration::from_micros(round % 50 * 80));
        if c.text("INFO persistence").contains("rdb_saves:1") {
            least = round;
        } else {
            unfinished += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(
        unfinished >= 20,
        "only {unfinished} kills came in the middle of a save"
    );
}
