//! Replication across a restart of the primary.

use std::path::Path;

use punctual_server::Builder;

use crate::follower::{Follower, Synced};
use crate::primary::info;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder(folder: &Path) -> Builder {
    configured("save 3600 1000000|repl-diskless-sync-delay 0")
        .option("dir", folder.to_str().unwrap())
}

#[test]
fn replicas_continue_after_a_restart() {
    for command in ["SHUTDOWN", "BGSAVE"] {
        let folder = tempfile::tempdir().unwrap();
        // While the virtual clock stands still, the key with a deadline stays and is in the
        // snapshot. At the next start it is due.
        let server = builder(folder.path()).virtual_clock().spawn().unwrap();
        let mut c = Wire::open(&server);
        let (mut follower, id) = Follower::synced(server.port());
        c.ask(&["SELECT", "2"]);
        c.ask(&["SET", "due", "v", "PX", "1"]);
        c.ask(&["SET", "a", "1"]);
        assert_eq!(follower.command(), "SELECT 2");
        assert!(follower.command().starts_with("SET due v PXAT"));
        assert_eq!(follower.command(), "SET a 1");
        follower.ack();
        c.send(&[command]);
        match command {
            "SHUTDOWN" => {
                c.ends();
                drop(server);
            }
            _ => {
                c.receive("+Background saving started|");
                eventually(|| info(&mut c, "persistence", "rdb_bgsave_in_progress") == "0");
                c.send(&["SHUTDOWN NOSAVE"]);
                c.ends();
                drop(server);
            }
        }
        let server = builder(folder.path()).spawn().unwrap();
        let mut c = Wire::open(&server);
        let now = info(&mut c, "replication", "master_replid");
        assert_ne!(now, id);
        assert_eq!(info(&mut c, "replication", "master_replid2"), id);
        let next = follower.offset + 1;
        assert_eq!(
            info(&mut c, "replication", "second_repl_offset"),
            next.to_string()
        );
        c.ask(&["SET", "b", "1"]);
        let mut again = Follower::able(server.port());
        again.ask(&id, next);
        assert_eq!(again.answer(), Synced::Continued(now));
        for line in ["SELECT 2", "DEL due", "SELECT 0", "SET b 1"] {
            assert_eq!(again.command(), line, "after {command}");
        }
        assert_eq!(info(&mut c, "stats", "sync_full"), "0");
        let mut late = Follower::able(server.port());
        late.ask(&id, next + 1);
        assert!(
            matches!(late.answer(), Synced::Full(..)),
            "the past ends at the snapshot"
        );
    }
}

#[test]
fn replicas_continue_after_flushall_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    let (mut follower, id) = Follower::synced(server.port());
    c.ask(&["SET", "a", "1"]);
    // FLUSHALL writes the snapshot.
    c.ask(&["FLUSHALL"]);
    for line in ["SELECT 0", "SET a 1", "FLUSHALL"] {
        assert_eq!(follower.command(), line);
    }
    follower.ack();
    c.send(&["SHUTDOWN NOSAVE"]);
    c.ends();
    drop(server);
    let server = builder(folder.path()).spawn().unwrap();
    let mut again = Follower::able(server.port());
    again.ask(&id, follower.offset + 1);
    assert!(matches!(again.answer(), Synced::Continued(..)));
    Wire::open(&server).ask(&["SET", "b", "1"]);
    assert_eq!(again.command(), "SELECT 0");
    assert_eq!(again.command(), "SET b 1");
}

#[test]
fn the_position_in_the_history_matches_redis() {
    // Our server loads the snapshot of a Redis primary.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let redis = Redis::start(&["--dir", path, "--repl-diskless-sync-delay", "0"]);
    let mut theirs = Wire::to(redis.port);
    let (mut follower, id) = Follower::synced(redis.port);
    // Redis begins the stream at the first acknowledgement after its child process has ended.
    eventually(|| info(&mut theirs, "replication", "slave0").contains("state=online"));
    follower.ack();
    theirs.ask(&["SET", "a", "1"]);
    assert_eq!(follower.command(), "SELECT 0");
    assert!(follower.command().eq_ignore_ascii_case("SET a 1"));
    theirs.ask(&["SAVE"]);
    drop(redis);
    let server = builder(folder.path()).spawn().unwrap();
    let mut again = Follower::able(server.port());
    again.ask(&id, follower.offset + 1);
    assert!(matches!(again.answer(), Synced::Continued(..)));
    Wire::open(&server).ask(&["SET", "b", "1"]);
    assert_eq!(again.command(), "SELECT 0");
    assert_eq!(again.command(), "SET b 1");
}

#[test]
fn a_server_without_replicas_names_no_position() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder(folder.path()).spawn().unwrap();
    let mut c = Wire::open(&server);
    c.ask(&["SET", "a", "1"]);
    c.ask(&["SAVE"]);
    let file = std::fs::read(folder.path().join("dump.rdb")).unwrap();
    let has = |name: &[u8]| file.windows(name.len()).any(|part| part == name);
    assert!(has(b"aof-base") && !has(b"repl-id"));
}
