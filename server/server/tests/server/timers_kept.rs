//! Timers across restarts, snapshots, replicas and promotions: no timer is lost, and no timer fires
//! twice.

use std::path::Path;
use std::process::Command;

use punctual_harness::free_port;
use punctual_resp::Value;
use punctual_server::Builder;

use crate::replication::{builder, caught_up, follow, same_data};
use crate::wire::{Open as _, Wire, eventually, run, show};

fn integer(c: &mut Wire, key: &str) -> i64 {
    let value = c.ask(&["GET", key]);
    let text = value.as_bytes().map(String::from_utf8_lossy);
    text.map_or(0, |text| text.parse().unwrap())
}

/// Returns the reply of TIMER GET as text.
fn shown(c: &mut Wire, key: &str) -> String {
    show(c, &format!("TIMER GET {key}"))
}

fn keeping(folder: &Path, options: &[(&str, &str)]) -> Builder {
    let builder = builder()
        .virtual_clock()
        .option("dir", folder.to_str().unwrap());
    let add = |builder: Builder, (name, value): &(&str, &str)| builder.option(name, value);
    options.iter().fold(builder, add)
}

const TIMERS: &[&str] = &[
    "TIMER SET once IN 5000 DO INCR once:n",
    "TIMER SET due IN 3 DO INCR due:n",
    "TIMER SET every EVERY 1000 LIMIT 1000 JITTER 3 CATCHUP skip DO INCR every:n",
    "TIMER SET cron CRON \"0 0 * * *\" TZ Europe/Berlin DO INCR cron:n",
    "TIMER SET paused IN 7000 DO INCR paused:n",
    "TIMER SET bad EVERY 1000 DO LPUSH once:n x",
    "TIMER SET as IN 60000 DO INCR as:n",
    "CLOCK ADVANCE 2",
    "TIMER PAUSE paused",
];

/// A restarted virtual clock begins at the system's time, which is a little later than the old
/// clock's time. The timers are due after many minutes, so a slow restart fires only `due`.
#[test]
fn timers_outlive_restarts() {
    for options in [[("appendonly", "no")], [("appendonly", "yes")]] {
        let folder = tempfile::tempdir().unwrap();
        let server = keeping(folder.path(), &options).spawn().unwrap();
        let mut c = Wire::open(&server);
        for line in TIMERS {
            run(&mut c, &[&line.replace("000 ", "000000 ")]);
        }
        run(&mut c, &["SET once:n 0", "CLOCK ADVANCE 0"]);
        let before: Vec<String> = ["once", "every", "cron", "paused", "bad"]
            .map(|key| shown(&mut c, key))
            .into();
        let digest = c.text("DEBUG DIGEST");
        if options[0].1 == "no" {
            run(&mut c, &["SAVE"]);
        }
        drop(c);
        server.shutdown();
        let server = keeping(folder.path(), &options).spawn().unwrap();
        let mut c = Wire::open(&server);
        let now = c.int("CLOCK NOW");
        let after: Vec<String> = ["once", "every", "cron", "paused", "bad"]
            .map(|key| shown(&mut c, key))
            .into();
        assert_eq!(before, after, "{options:?}");
        // Only timers that have become due in the meantime have fired.
        let due_fired = integer(&mut c, "due:n") == 1;
        assert_eq!(due_fired, c.int("EXISTS due") == 0);
        if !due_fired {
            assert_eq!(c.text("DEBUG DIGEST"), digest, "{options:?}");
        }
        c.int(&format!("CLOCK SET {}", now + 100_000_000));
        assert_eq!(integer(&mut c, "due:n"), 1);
        assert_eq!(integer(&mut c, "once:n"), 1);
        let every = integer(&mut c, "every:n");
        assert!((98..=102).contains(&every), "{every}");
        assert!(shown(&mut c, "bad").contains("WRONGTYPE"));
        assert_eq!(integer(&mut c, "paused:n"), 0);
        run(&mut c, &["TIMER RESUME paused", "CLOCK ADVANCE 7000000"]);
        assert_eq!(integer(&mut c, "paused:n"), 1);
    }
}

/// Each timer that fires is one transaction in the log of changes.
#[test]
fn a_timer_that_fires_is_one_transaction_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping(folder.path(), &[("appendonly", "yes")])
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let now = c.int("CLOCK NOW");
    run(
        &mut c,
        &[
            "TIMER SET t IN 100 JITTER 0 DO RPUSH l a b",
            "CLOCK ADVANCE 100",
            "SET end x",
        ],
    );
    drop(c);
    server.shutdown();
    let files = std::fs::read_dir(folder.path().join("appendonlydir")).unwrap();
    let incr = files
        .map(|file| file.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .unwrap();
    let text = String::from_utf8_lossy(&std::fs::read(incr).unwrap()).into_owned();
    let words: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(['*', '$', '#']))
        .collect();
    let expected = format!(
        "SELECT 0 TIMER SET t AT {} DO RPUSH l a b MULTI DEL t RPUSH l a b EXEC SET end x",
        now + 100
    );
    assert_eq!(words.join(" "), expected);
}

#[test]
fn a_replica_fires_due_timers_only_after_its_promotion() {
    // With a delay of 0 s, a full synchronization begins at once.
    let primary = builder()
        .virtual_clock()
        .threads(2)
        .option("repl-diskless-sync-delay", "0")
        .spawn()
        .unwrap();
    let mut theirs = Wire::open(&primary);
    run(&mut theirs, &["SET once:n 0"]);
    run(&mut theirs, TIMERS);
    // The commands of these timers move or copy the timers themselves.
    run(
        &mut theirs,
        &[
            "TIMER SET renamed EVERY 1000 DO RENAME renamed other",
            "TIMER SET copied EVERY 1000 LIMIT 2 DO COPY copied copy",
            "TIMER SET moved EVERY 1000 DO MOVE moved 1",
            "SELECT 2",
            "TIMER SET swapped EVERY 1000 DO SWAPDB 2 3",
            "SELECT 0",
        ],
    );
    let replica = follow(primary.addr().unwrap().port(), builder().virtual_clock());
    let mut ours = Wire::open(&replica);
    caught_up(&mut theirs, &mut ours);
    same_data(&mut theirs, &mut ours);
    // The effects of the primary arrive through the stream: runs, failures, moves and pauses.
    run(
        &mut theirs,
        &[
            "CLOCK ADVANCE 2500",
            "PEXPIRE once 9000000",
            "TIMER SET later IN 9000000 DO INCR later:n",
            "TIMER RESUME paused",
            "TIMER PAUSE paused",
            "TIMER RUN every",
        ],
    );
    caught_up(&mut theirs, &mut ours);
    same_data(&mut theirs, &mut ours);
    assert_eq!(shown(&mut theirs, "every"), shown(&mut ours, "every"));
    assert_eq!(integer(&mut ours, "due:n"), 1);
    let runs = integer(&mut ours, "every:n");
    ours.int("CLOCK ADVANCE 10000000");
    assert_eq!(
        (integer(&mut ours, "every:n"), integer(&mut ours, "later:n")),
        (runs, 0)
    );
    assert_eq!(ours.int("EXISTS later"), 1, "a due timer is seen");
    assert!(ours.ask(&["TIMER", "RUN", "later"]).is_error());
    run(&mut ours, &["REPLICAOF NO ONE"]);
    eventually(|| integer(&mut ours, "later:n") == 1 && integer(&mut ours, "once:n") == 1);
    assert_eq!(ours.int("EXISTS later once"), 0);
    // This timer skips runs for which it is late.
    assert_eq!(integer(&mut ours, "every:n"), runs);
    assert_eq!(integer(&mut theirs, "later:n"), 0);
}

/// redis-server refuses a snapshot with timers, with a message that names their type. Its tools can
/// read the snapshot.
#[test]
fn redis_server_refuses_a_snapshot_with_timers() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder()
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    run(
        &mut c,
        &[
            "SET k v",
            "TIMER SET t IN 3600000 DO INCR n",
            "TIMER SET u EVERY 3600000 DO INCR n",
            "SAVE",
        ],
    );
    let file = folder.path().join("dump.rdb");
    let checked = Command::new("redis-check-rdb").arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{text}");
    assert!(text.contains("RDB looks OK"), "{text}");
    let port = free_port().to_string();
    let refused = Command::new("redis-server")
        .args(["--port", &port, "--save", "", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    // redis-server has exited. The exit code is the code of the check that it runs on the file.
    assert!(text.contains("module type 'punctimer'"), "{text}");
    // The same applies to payloads of DUMP.
    let redis = crate::wire::redis::Redis::start(&[]);
    let payload = c.ask(&["DUMP", "t"]);
    let mut theirs = Wire::to(redis.port);
    let reply = theirs.ask(&[&b"RESTORE"[..], b"t", b"0", payload.as_bytes().unwrap()]);
    assert!(matches!(reply, Value::Error(_)), "{reply:?}");
}
