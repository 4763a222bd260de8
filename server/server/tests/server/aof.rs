//! The append-only file: its contents, when writes are on the device, rewrites, and failures.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use punctual_server::{Builder, Server};
use rustix::process::Signal;

use crate::aof_load::{fill, rewrite, state};
use crate::process::{Process, Start as _};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder(folder: &Path) -> Builder {
    configured("save|appendonly yes|enable-debug-command yes")
        .option("dir", folder.to_str().unwrap())
}

/// Checks the files with redis-check-aof.
#[track_caller]
fn check_aof(folder: &Path) {
    let manifest = folder.join("appendonlydir/appendonly.aof.manifest");
    let output = Command::new("redis-check-aof").arg(manifest).output();
    let output = output.expect("redis-check-aof is not installed: `make test` installs it");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("All AOF files and manifest are valid"),
        "{text}"
    );
}

/// Returns the state that a redis-server loads from these files.
fn loaded_by_redis(folder: &Path) -> String {
    check_aof(folder);
    let redis = Redis::start(&[
        "--appendonly",
        "yes",
        "--dir",
        folder.to_str().unwrap(),
        "--enable-debug-command",
        "yes",
    ]);
    state(&mut ready(redis.port))
}

/// Connects to a server, and waits until it has loaded its files.
fn ready(port: u16) -> Wire {
    let mut c = Wire::to(port);
    eventually(|| c.text("PING") == "PONG");
    c
}

fn loaded_by_us(folder: &Path) -> String {
    let server = builder(folder).spawn().unwrap();
    // DEBUG DIGEST replies even during the load, so `ready` first waits for the end of the load.
    state(&mut ready(server.port()))
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder.join("appendonlydir")).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Asserts that both our server and redis-server load this state from the files.
#[track_caller]
fn assert_both_load(folder: &Path, expected: &str) {
    assert_eq!(loaded_by_us(folder), expected);
    assert_eq!(loaded_by_redis(folder), expected);
}

#[test]
fn our_files_are_loaded_by_redis_and_by_us() {
    for (sync, threads) in [("always", 1), ("everysec", 2), ("no", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path())
            .threads(threads)
            .option("appendfsync", sync)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        fill(&mut c);
        // The string grows although the number does not fit. No keyspace event reports this change,
        // but the log must contain it.
        c.ask(&["SET", "padded", "x"]);
        c.send(&[
            "BITFIELD padded OVERFLOW FAIL SET u4 100 99",
            "STRLEN padded",
        ]);
        assert_eq!(
            [c.value(), c.value()].map(|value| value.as_int()),
            [None, Some(13)]
        );
        // Commands that Redis 7.0 does not have.
        for line in [
            "MSETEX 2 m1 x m2 y PX 100000000",
            "MSETEX 2 m1 y m2 z KEEPTTL",
            "MSETEX 1 m3 x",
            "SET m3 y IFEQ x",
            "DELEX m2 IFEQ z",
            "INCREX window UBOUND 10 EX 6000 ENX",
            "INCREX window BYFLOAT 0.5 EX 10 ENX",
            "INCREX float BYFLOAT 0.5 PERSIST",
            "INCREX gone PXAT 1",
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert!(!c.ask(&words).is_error(), "{line}");
        }
        let expected = state(&mut c);
        server.shutdown();
        assert_eq!(loaded_by_us(folder.path()), expected, "{sync}");
        assert_eq!(loaded_by_redis(folder.path()), expected, "{sync}");
    }
}

#[test]
fn a_base_is_a_snapshot_and_the_log_says_so() {
    const WARNING: &str = "the base of the append-only file is always written as RDB";
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let warnings = || fs::read_to_string(&log).unwrap().matches(WARNING).count();
    let server = builder(folder.path())
        .option("aof-use-rdb-preamble", "no")
        .option("logfile", log.to_str().unwrap())
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    assert_eq!(warnings(), 1);
    for (value, count) in [("no", 1), ("yes", 1), ("no", 2)] {
        c.ask(&["CONFIG", "SET", "aof-use-rdb-preamble", value]);
        assert_eq!(warnings(), count);
        let shown = format!("*2|$20|aof-use-rdb-preamble|${}|{value}|", value.len());
        c.expect(&["CONFIG GET aof-use-rdb-preamble"], &shown);
    }
    fill(&mut c);
    rewrite(&mut c);
    let name = "appendonlydir/appendonly.aof.2.base.rdb";
    assert!(
        fs::read(folder.path().join(name))
            .unwrap()
            .starts_with(b"REDIS")
    );
    let expected = state(&mut c);
    server.shutdown();
    assert_both_load(folder.path(), &expected);
}

#[test]
fn deadlines_of_fields_survive() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    for line in [
        "HSETEX h EX 1000 FIELDS 4 a 1 b 2 c 3 d 4",
        "HSETEX h KEEPTTL FIELDS 2 a 5 e 6",
        "HGETEX h PERSIST FIELDS 1 b",
        "HGETEX h PX 2000000 FIELDS 1 c",
        "HGETDEL h FIELDS 1 d",
        "HGETEX h PXAT 1 FIELDS 1 e",
    ] {
        c.send(&[line]);
        assert!(!c.value().is_error(), "{line}");
    }
    let fields = |c: &mut Wire| {
        let deadlines = c.ask(
            &"HPEXPIRETIME h FIELDS 5 a b c d e"
                .split(' ')
                .collect::<Vec<_>>(),
        );
        format!(
            "{:?} {deadlines:?}",
            c.ask(&["HMGET", "h", "a", "b", "c", "d", "e"])
        )
    };
    let expected = fields(&mut c);
    server.shutdown();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    assert_eq!(fields(&mut c), expected);
    rewrite(&mut c);
    server.shutdown();
    let server = builder(folder.path()).spawn().unwrap();
    assert_eq!(fields(&mut Wire::open(&server)), expected);
}

#[test]
fn rewrites_lose_nothing_that_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).threads(2).spawn().unwrap();
    let mut c = Wire::open(&server);
    fill(&mut c);
    c.ask(&["DEBUG", "POPULATE", "20000"]);
    for round in 0..3 {
        assert!(!c.ask(&["BGREWRITEAOF"]).is_error());
        let mut written = 0;
        while c
            .text("INFO persistence")
            .contains("aof_rewrite_in_progress:1")
        {
            for _ in 0..50 {
                written += 1;
                c.ask(&["SET", &format!("key:{written}"), "changed"]);
                c.ask(&["INCR", "count"]);
                c.ask(&["LPUSH", &format!("round:{round}"), "x"]);
            }
        }
        let info = c.text("INFO persistence");
        assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
        assert!(
            info.contains(&format!("aof_rewrites:{}", round + 1)),
            "{info}"
        );
    }
    let expected = state(&mut c);
    server.shutdown();
    assert_eq!(
        names(folder.path()),
        [
            "appendonly.aof.4.base.rdb",
            "appendonly.aof.4.incr.aof",
            "appendonly.aof.manifest"
        ]
    );
    assert_both_load(folder.path(), &expected);
}

#[test]
fn config_set_turns_it_on_and_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("appendonly", "no")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    fill(&mut c);
    assert!(!folder.path().join("appendonlydir").exists());
    for round in 0..2 {
        assert_eq!(c.text("CONFIG SET appendonly yes"), "OK");
        c.ask(&["INCR", "while starting"]);
        eventually(|| {
            c.text("INFO persistence")
                .contains("aof_rewrite_in_progress:0")
        });
        c.ask(&["INCR", "while on"]);
        let expected = state(&mut c);
        assert_eq!(c.text("CONFIG SET appendonly no"), "OK");
        assert_eq!(loaded_by_us(folder.path()), expected, "{round}");
        assert_eq!(loaded_by_redis(folder.path()), expected, "{round}");
        c.ask(&["INCR", "while off"]);
    }
    c.expect(&["MULTI", "CONFIG SET appendonly yes"], "+OK|+QUEUED|");
    c.send(&["EXEC"]);
    assert!(format!("{:?}", c.value()).contains("Error"));
}

#[test]
fn a_server_without_files_begins_with_the_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("appendonly", "no")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    fill(&mut c);
    c.ask(&["SAVE"]);
    let expected = state(&mut c);
    server.shutdown();
    assert_eq!(loaded_by_us(folder.path()), expected);
    fs::remove_file(folder.path().join("dump.rdb")).unwrap();
    assert_both_load(folder.path(), &expected);
}

#[test]
fn an_old_single_file_is_moved_into_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    punctual_resp::encode_command(&mut bytes, &["SELECT", "0"]);
    punctual_resp::encode_command(&mut bytes, &["SET", "old", "file"]);
    let whole = bytes.len();
    punctual_resp::encode_command(&mut bytes, &["SET", "torn", "x"]);
    fs::write(
        folder.path().join("appendonly.aof"),
        &bytes[..bytes.len() - 2],
    )
    .unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["GET old", "EXISTS torn", "SET new 1"], "$4|file|:0|+OK|");
    server.shutdown();
    assert_eq!(
        names(folder.path()),
        [
            "appendonly.aof",
            "appendonly.aof.1.incr.aof",
            "appendonly.aof.manifest"
        ]
    );
    let moved = folder.path().join("appendonlydir/appendonly.aof");
    assert_eq!(fs::metadata(moved).unwrap().len(), whole as u64);
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["MGET old new"], "*2|$4|file|$1|1|");
    rewrite(&mut c);
    assert!(!names(folder.path()).contains(&"appendonly.aof".to_owned()));
}

#[test]
fn overdue_keys_expire_after_the_load_and_do_not_return() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).virtual_clock().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET soon x PX 5", "SET later x PX 100000000"], "+OK|+OK|");
    server.shutdown();
    // The next servers have a real clock, which is then past the first deadline.
    std::thread::sleep(std::time::Duration::from_millis(6));
    for _ in 0..2 {
        let server = builder(folder.path()).spawn().unwrap();
        let mut c = Wire::open(&server);
        eventually(|| c.int("DBSIZE") == 1);
        server.shutdown();
    }
    let incremental = fs::read(
        folder
            .path()
            .join("appendonlydir/appendonly.aof.1.incr.aof"),
    );
    let text = String::from_utf8_lossy(&incremental.unwrap()).into_owned();
    assert_eq!(text.matches("DEL").count(), 1, "{text}");
}

/// Increments a counter until the connection breaks. Returns the last value that was acknowledged.
fn count_up(mut stream: TcpStream, number: usize) -> i64 {
    let (mut last, mut read) = (0, BufReader::new(stream.try_clone().unwrap()));
    let mut line = String::new();
    while stream
        .write_all(format!("INCR count:{number}\r\n").as_bytes())
        .is_ok()
        && read.read_line(&mut line).is_ok()
        && line.ends_with('\n')
    {
        last = line.trim().trim_start_matches(':').parse().unwrap();
        line.clear();
    }
    last
}

#[test]
fn kill_9_loses_no_acknowledged_write_under_always() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let options = [
        "--dir",
        dir,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let mut acknowledged = [0; 4];
    for _ in 0..5 {
        let process = Process::start(&[&options[..], &["--threads", "2"]].concat());
        let mut c = ready(process.port);
        let writers: Vec<_> = (0..acknowledged.len())
            .map(|number| {
                let stream = process.connect();
                std::thread::spawn(move || count_up(stream, number))
            })
            .collect();
        eventually(|| c.int("INCRBY count:0 0") > acknowledged[0] + 20);
        process.signal(Signal::KILL);
        drop(process);
        for (known, writer) in acknowledged.iter_mut().zip(writers) {
            *known = writer.join().unwrap().max(*known);
        }
        let server = builder(folder.path()).spawn().unwrap();
        let mut c = Wire::open(&server);
        for (number, known) in acknowledged.iter().enumerate() {
            let found = c.int(&format!("INCRBY count:{number} 0"));
            assert!(found >= *known, "{found} of {known}");
            assert!(found <= known + 1, "one command may be without reply");
        }
        drop(c);
        server.shutdown();
        check_aof(folder.path());
    }
}

/// Sends writes one by one, and asserts that each is in the file after its reply.
fn find_each_in_file(server: &Server, file: &Path, client: usize) {
    let mut c = Wire::open(server);
    let mut file = fs::File::open(file).unwrap();
    let mut end = Vec::new();
    for number in 0..1_000 {
        let value = format!("<{client}:{number}>");
        assert_eq!(c.text(&format!("SET k{client} {value}")), "OK");
        file.read_to_end(&mut end).unwrap();
        assert!(find(&end, value.as_bytes()), "{value} is not in the file");
        end.drain(..end.len().saturating_sub(64));
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn a_write_is_in_the_file_before_its_reply() {
    for (sync, threads) in [("everysec", 1), ("no", 1), ("everysec", 3), ("no", 3)] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path())
            .threads(threads)
            .option("appendfsync", sync)
            .spawn()
            .unwrap();
        let file = folder
            .path()
            .join("appendonlydir/appendonly.aof.1.incr.aof");
        std::thread::scope(|scope| {
            for client in 0..3 {
                let (server, file) = (&server, &file);
                scope.spawn(move || find_each_in_file(server, file, client));
            }
        });
    }
}

#[test]
fn waitaof_waits_for_the_device() {
    for sync in ["always", "everysec"] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path())
            .option("appendfsync", sync)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        c.expect(&["SET k v", "WAITAOF 1 0 0"], "+OK|*2|:1|:0|");
        c.expect(&["WAITAOF 1 1 10"], "*2|:1|:0|");
        assert_eq!(c.text("CONFIG SET appendonly no"), "OK");
        let error = "WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
        c.expect_error("WAITAOF 1 0 0", error);
    }
}

#[test]
fn appendfsync_can_change_while_changes_are_not_synced() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("appendfsync", "no")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    for sync in ["no", "always", "no", "everysec", "always"] {
        c.expect(&["SET k v"], "+OK|");
        assert_eq!(c.text(&format!("CONFIG SET appendfsync {sync}")), "OK");
        assert!(!c.ask(&["KEYS", "*"]).is_error());
    }
}

#[test]
fn a_large_file_is_rewritten_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("auto-aof-rewrite-min-size", "20000")
        .option("aof-timestamp-enabled", "yes")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    while !c.text("INFO persistence").contains("aof_rewrites:2") {
        for _ in 0..50 {
            c.ask(&["SET", "k", &"x".repeat(100)]);
        }
    }
    let expected = state(&mut c);
    server.shutdown();
    assert_both_load(folder.path(), &expected);
}

#[test]
fn the_files_of_a_replica_contain_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let delay = ["--repl-diskless-sync-delay", "0"];
    let redis = Redis::start(&[&["--enable-debug-command", "yes"], &delay[..]].concat());
    let mut theirs = Wire::to(redis.port);
    fill(&mut theirs);
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET own 1"], "+OK|");
    assert_eq!(c.text(&format!("REPLICAOF 127.0.0.1 {}", redis.port)), "OK");
    eventually(|| c.text("INFO replication").contains("master_link_status:up"));
    theirs.expect(&["SET later 1"], "+OK|");
    eventually(|| c.int("EXISTS later") == 1);
    eventually(|| {
        let info = c.text("INFO persistence");
        ["aof_rewrites:1", "in_progress:0", "scheduled:0"]
            .iter()
            .all(|part| info.contains(part))
    });
    // Redis may not have deleted the due key `past` yet, and its digest would include the key. This
    // read deletes it.
    assert_eq!(theirs.int("EXISTS past"), 0);
    let expected = state(&mut theirs);
    eventually(|| state(&mut c) == expected);
    server.shutdown();
    assert_both_load(folder.path(), &expected);
}

#[test]
fn bgrewriteaof_writes_a_base_even_if_nothing_is_appended() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path())
        .option("appendonly", "no")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    fill(&mut c);
    for base in ["appendonly.aof.1.base.rdb", "appendonly.aof.2.base.rdb"] {
        c.ask(&["INCR", "counted"]);
        rewrite(&mut c);
        assert_eq!(names(folder.path()), [base, "appendonly.aof.manifest"]);
    }
    let expected = state(&mut c);
    assert_both_load(folder.path(), &expected);
}
