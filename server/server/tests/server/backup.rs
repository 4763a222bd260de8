//! BACKUP: the states, the files, refusals, and what loads the files.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_harness::Peer;
use punctual_server::{Builder, Server};

use crate::wire::{Open as _, Wire, configured, eventually, run, show};

fn builder(folder: &Path, append_only: &str) -> Builder {
    configured("save|enable-debug-command yes")
        .option("dir", folder.to_str().unwrap())
        .option("appendonly", append_only)
}

/// Returns a field of BACKUP STATUS.
fn field(c: &mut Wire, name: &str) -> String {
    let reply = c.run("BACKUP STATUS");
    let text = |value: &punctual_resp::Value| match value.as_int() {
        Some(number) => number.to_string(),
        None => String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned(),
    };
    let pairs = reply.as_slice().unwrap().chunks_exact(2);
    let mut found = pairs.filter(|pair| text(&pair[0]) == name);
    text(&found.next().expect("a field of the status")[1])
}

fn state(c: &mut Wire) -> String {
    field(c, "state")
}

/// Starts a backup, and waits for its base.
#[track_caller]
fn begin(c: &mut Wire) {
    c.expect(&["BACKUP START"], "+OK|");
    eventually(|| state(c) == "incrementing");
}

fn listed(c: &mut Wire) -> Vec<PathBuf> {
    let reply = c.run("BACKUP LIST");
    let paths = reply.as_slice().unwrap_or(&[]).iter();
    let text = |path: &[u8]| PathBuf::from(str::from_utf8(path).unwrap());
    paths.map(|path| text(path.as_bytes().unwrap())).collect()
}

fn info(c: &mut Wire, field: &str) -> String {
    let page = c.text("INFO persistence");
    let line = page.lines().find_map(|line| line.strip_prefix(field));
    line.expect(field).trim_start_matches(':').to_owned()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Copies the files of a backup to the place of an append-only file in a new folder.
fn restored(files: &[PathBuf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("appendonlydir");
    fs::create_dir(&to).unwrap();
    for path in files {
        fs::copy(path, to.join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// Asserts that our server and each redis-server that is installed find `expected` in the files.
#[track_caller]
fn assert_loads(files: &[PathBuf], lines: &[&str], expected: &str) {
    let folder = restored(files);
    let server = builder(folder.path(), "yes").spawn().unwrap();
    let mut c = Wire::open(&server);
    eventually(|| c.text("PING") == "PONG");
    c.expect(lines, expected);
    server.shutdown();
    for peer in [Peer::Redis7, Peer::Redis8] {
        let folder = restored(files);
        let dir = folder.path().to_str().unwrap();
        let Some(redis) = peer.start(&["--appendonly", "yes", "--dir", dir]) else {
            continue;
        };
        let mut c = Wire::to(redis.port);
        eventually(|| c.text("PING") == "PONG");
        c.expect(lines, expected);
    }
}

#[test]
fn a_backup_has_all_writes_before_seal_and_none_after_it() {
    for (append_only, threads) in [("no", 1), ("yes", 1), ("no", 2), ("yes", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join("backupdir");
        let server = builder(folder.path(), append_only)
            .threads(threads)
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        assert_eq!(state(&mut c), "idle");
        run(&mut c, &["SET before 1", "RPUSH list a b", "SELECT 3"]);
        run(&mut c, &["SET third 3", "SELECT 0"]);
        begin(&mut c);
        assert_eq!(info(&mut c, "backup_in_progress"), "1");
        let enabled = u8::from(append_only == "yes").to_string();
        assert_eq!(info(&mut c, "aof_enabled"), enabled);
        run(
            &mut c,
            &["SET during 2", "RPUSH list c", "EXPIRE before 1000000"],
        );
        let files = listed(&mut c);
        assert_eq!(files.len(), 1);
        assert!(files[0].is_absolute() && files[0].starts_with(&backups));
        assert!(files[0].to_str().unwrap().ends_with(".base.rdb"));
        c.expect(&["BACKUP SEAL"], "+OK|");
        assert_eq!(state(&mut c), "sealed");
        assert_eq!(info(&mut c, "backup_in_progress"), "0");
        assert_ne!(field(&mut c, "start_time"), "0");
        assert_ne!(field(&mut c, "end_time"), "0");
        let files = listed(&mut c);
        let names: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names.len(), 3);
        assert!(names[0].ends_with(".base.rdb"), "{names:?}");
        assert!(names[1].ends_with(".incr.aof"), "{names:?}");
        assert!(names[2].ends_with("/appendonly.aof.manifest"), "{names:?}");

        // Later writes and rewrites change neither the files nor their names.
        let bytes: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        run(&mut c, &["SET after 4", "BGREWRITEAOF"]);
        eventually(|| info(&mut c, "aof_rewrite_in_progress") == "0");
        run(&mut c, &["DEL before", "BGREWRITEAOF"]);
        eventually(|| info(&mut c, "aof_rewrite_in_progress") == "0");
        let again: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(bytes, again);
        assert_loads(
            &files,
            &[
                "DBSIZE",
                "GET before",
                "GET during",
                "LRANGE list 0 -1",
                "GET after",
            ],
            ":3|$1|1|$1|2|*3|$1|a|$1|b|$1|c|$-1|",
        );
        c.expect(&["BACKUP CLEANUP"], "+OK|");
        assert_eq!(state(&mut c), "idle");
        assert!(listed(&mut c).is_empty() && is_empty(&backups));
        // The server keeps its own files.
        begin(&mut c);
        c.expect(&["BACKUP SEAL", "BACKUP CLEANUP"], "+OK|+OK|");
        let expected = show(&mut c, "KEYS *").len();
        server.shutdown();
        if append_only == "yes" {
            let server = builder(folder.path(), "yes").spawn().unwrap();
            let mut c = Wire::open(&server);
            eventually(|| c.text("PING") == "PONG");
            assert_eq!(show(&mut c, "KEYS *").len(), expected);
        }
    }
}

#[test]
fn refusals_have_the_texts_of_redis() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().join("backupdir");
    let server = builder(folder.path(), "no").spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["BACKUP ABORT", "BACKUP SEAL", "BACKUP CLEANUP"],
        "-ERR No backup in progress|\
         -ERR No backup ready to seal (must be in the incrementing state)|+OK|",
    );
    c.expect(
        &["BACKUP"],
        "-ERR wrong number of arguments for 'backup' command|",
    );
    begin(&mut c);
    c.expect(
        &["BACKUP START", "BACKUP CLEANUP"],
        "-ERR A backup is already in progress, ABORT it first|-ERR Backup is in progress|",
    );
    c.expect(&["BACKUP ABORT"], "+OK|");
    assert_eq!(state(&mut c), "failed");
    assert_eq!(field(&mut c, "error"), "aborted by user");
    assert!(is_empty(&backups));
    begin(&mut c);
    c.expect(
        &["BACKUP SEAL", "BACKUP START", "BACKUP ABORT"],
        "+OK|-ERR A sealed backup exists, CLEANUP it first|-ERR No backup in progress|",
    );
    c.expect(&["BACKUP CLEANUP"], "+OK|");
    fs::write(backups.join("mine"), "x").unwrap();
    let refused = show(&mut c, "BACKUP START");
    assert!(refused.contains("is not empty"), "{refused}");
    assert_eq!(fs::read(backups.join("mine")).unwrap(), b"x");
    let refused = show(&mut c, "CONFIG SET backupdirname other");
    assert!(refused.contains("immutable"), "{refused}");
    let path = Server::builder().option("backupdirname", "a/b");
    assert!(path.spawn().is_err());
    assert!(show(&mut c, "BACKUP HELP").contains("BACKUP <subcommand>"));
}

#[test]
fn a_transaction_is_whole_in_the_base() {
    for append_only in ["no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path(), append_only).spawn().unwrap();
        let mut c = Wire::open(&server);
        run(&mut c, &["MULTI", "SET a 1", "BACKUP START", "SET b 2"]);
        c.expect(&["EXEC"], "*3|+OK|+OK|+OK|");
        eventually(|| state(&mut c) == "incrementing");
        run(&mut c, &["MULTI", "BACKUP SEAL"]);
        let refused = show(&mut c, "EXEC");
        assert!(refused.contains("in a transaction"), "{refused}");
        c.expect(&["BACKUP SEAL"], "+OK|");
        assert_loads(&listed(&mut c), &["MGET a b"], "*2|$1|1|$1|2|");
        // ABORT and CLEANUP are possible in transactions.
        c.expect(&["BACKUP CLEANUP"], "+OK|");
        begin(&mut c);
        run(&mut c, &["MULTI", "BACKUP ABORT"]);
        c.expect(&["EXEC"], "*1|+OK|");
        eventually(|| is_empty(&folder.path().join("backupdir")));
        c.expect(&["BACKUP CLEANUP"], "+OK|");
    }
}

#[test]
fn a_backup_waits_for_a_save_and_rewrites_wait_for_seal() {
    for append_only in ["no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path(), append_only).spawn().unwrap();
        let mut c = Wire::open(&server);
        run(&mut c, &["MSET a 1 b 2 c 3"]);
        run(
            &mut c,
            &["CONFIG SET rdb-key-save-delay 2147483647", "BGSAVE"],
        );
        c.expect(&["BACKUP START"], "+OK|");
        assert_eq!(state(&mut c), "pending");
        assert!(listed(&mut c).is_empty());
        // FLUSHALL aborts the save.
        run(&mut c, &["CONFIG SET rdb-key-save-delay 0", "FLUSHALL"]);
        eventually(|| state(&mut c) == "incrementing");
        run(&mut c, &["SET d 4"]);
        eventually(|| info(&mut c, "aof_rewrite_in_progress") == "0");
        // A rewrite would replace the files that the backup needs, so it waits for SEAL.
        let rewrites = info(&mut c, "aof_rewrites");
        c.expect(
            &["BGREWRITEAOF"],
            "+Background append only file rewriting scheduled|",
        );
        assert_eq!(info(&mut c, "aof_rewrite_scheduled"), "1");
        assert_eq!(info(&mut c, "aof_rewrites"), rewrites);
        c.expect(&["BACKUP SEAL"], "+OK|");
        eventually(|| info(&mut c, "aof_rewrites") != rewrites);
        assert_loads(&listed(&mut c), &["MGET a d"], "*2|$-1|$1|4|");
        eventually(|| info(&mut c, "aof_rewrite_in_progress") == "0");
        run(&mut c, &["CONFIG SET rdb-key-save-delay 2147483647"]);
        c.expect(&["BACKUP CLEANUP", "BACKUP START"], "+OK|+OK|");
        assert_eq!(state(&mut c), "snapshotting");
        c.expect(&["BACKUP ABORT"], "+OK|");
        assert_eq!(state(&mut c), "failed");
        assert!(is_empty(&folder.path().join("backupdir")));
    }
}

#[test]
fn a_backup_fails_when_its_files_no_longer_follow_the_keyspace() {
    for (append_only, line, error) in [
        ("yes", "CONFIG SET appendonly no", "appendonly is stopped"),
        ("no", "CONFIG SET appendonly yes", "appendonly is started"),
        (
            "yes",
            "DEBUG RELOAD NOSAVE",
            "another keyspace has replaced the old one",
        ),
        (
            "no",
            "DEBUG RELOAD NOSAVE",
            "another keyspace has replaced the old one",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = builder(folder.path(), append_only).spawn().unwrap();
        let mut c = Wire::open(&server);
        run(&mut c, &["SET a 1", "SAVE"]);
        begin(&mut c);
        c.expect(&[line], "+OK|");
        assert_eq!(state(&mut c), "failed");
        assert_eq!(field(&mut c, "error"), error);
        eventually(|| is_empty(&folder.path().join("backupdir")));
        // The next backup works.
        eventually(|| info(&mut c, "aof_rewrite_in_progress") == "0");
        begin(&mut c);
        c.expect(&["BACKUP SEAL"], "+OK|");
        assert_loads(&listed(&mut c), &["GET a"], "$1|1|");
    }
}

#[test]
fn a_sealed_backup_is_removed_after_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path(), "no")
        .option("clock", "virtual")
        .option("backup-sealed-ttl", "60")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    begin(&mut c);
    c.expect(&["BACKUP SEAL"], "+OK|");
    c.int("CLOCK ADVANCE 58000");
    assert_eq!(state(&mut c), "sealed");
    c.int("CLOCK ADVANCE 2000");
    eventually(|| state(&mut c) == "idle");
    assert!(is_empty(&folder.path().join("backupdir")));
}

/// A clean stop removes the files of a backup that is not sealed, and keeps a sealed one.
#[test]
fn a_stop_keeps_only_a_sealed_backup() {
    for append_only in ["no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join("backupdir");
        for seals in [false, true] {
            let server = builder(folder.path(), append_only).spawn().unwrap();
            let mut c = Wire::open(&server);
            eventually(|| c.text("PING") == "PONG");
            begin(&mut c);
            if seals {
                c.expect(&["BACKUP SEAL"], "+OK|");
            }
            server.shutdown();
            assert_eq!(is_empty(&backups), !seals, "{append_only}");
        }
    }
}

/// redis-check-aof of the peer accepts the files, so a plain append-only file is all they are.
#[test]
fn redis_check_aof_accepts_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path(), "yes").spawn().unwrap();
    let mut c = Wire::open(&server);
    begin(&mut c);
    run(&mut c, &["SET a 1"]);
    c.expect(&["BACKUP SEAL"], "+OK|");
    let manifest = listed(&mut c).pop().unwrap();
    let check = std::process::Command::new("redis-check-aof")
        .arg(manifest)
        .output()
        .expect("redis-check-aof is not installed: `make test` installs it");
    let text = String::from_utf8_lossy(&check.stdout);
    assert!(
        text.contains("All AOF files and manifest are valid"),
        "{text}"
    );
}
