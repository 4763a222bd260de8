//! WAIT, WAITAOF and `min-replicas-to-write`.

use std::time::{Duration, Instant};

use punctual_server::Builder;
use rustix::process::Signal;

use crate::follower::Follower;
use crate::primary::info;
use crate::process::{Process, Start as _};
use crate::waiters::{block, waiting};
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder() -> Builder {
    configured("save|dbfilename no-such-file.rdb|repl-diskless-sync-delay 0")
}

/// Reads the stream up to the request for an acknowledgement after `SET k v`.
#[track_caller]
fn until_asked(follower: &mut Follower) {
    while follower.command() != "SET k v" {}
    assert_eq!(follower.command(), "REPLCONF GETACK *");
}

#[test]
fn wait_ignores_a_replica_that_may_still_load_the_snapshot() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    // Without replicas the offset stays 0, which is also the acknowledged offset of a new replica.
    c.expect(&["SET k v"], "+OK|");
    let mut follower = Follower::able(server.port());
    follower.ask("?", -1);
    follower.answer();
    follower.payload();
    eventually(|| info(&mut c, "replication", "slave0").contains("state=online"));
    assert_eq!(c.int("WAIT 1 1"), 0);
    follower.ack();
    assert_eq!(follower.command(), "REPLCONF GETACK *");
    follower.ack();
    eventually(|| c.int("WAIT 1 1000") == 1);
}

#[test]
fn wait_ends_with_the_acknowledgement() {
    for threads in [1, 2] {
        let server = builder().threads(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        let (mut one, _) = Follower::synced(server.port());
        let (mut two, _) = Follower::synced(server.port());
        // Nothing is written yet, so both replicas are up to date.
        eventually(|| c.int("WAIT 2 1000") == 2);
        c.send(&["SET k v", "WAIT 2 0", "PING"]);
        c.receive("+OK|");
        until_asked(&mut one);
        until_asked(&mut two);
        assert_eq!(waiting(&server), 1);
        one.ack();
        // One replica is not enough.
        two.offset -= 100;
        two.ack();
        c.expect_silence();
        two.offset += 100;
        two.ack();
        c.receive(":2|+PONG|");
        assert_eq!(waiting(&server), 0);
        // The client has not written since, so no acknowledgement is requested.
        c.expect(&["WAIT 2 0", "GET k"], ":2|$1|v|");
        c.send(&["PUBLISH ch m", "WAIT 2 0"]);
        c.receive(":0|");
        for follower in [&mut one, &mut two] {
            assert_eq!(follower.command(), "PUBLISH ch m");
            assert_eq!(follower.command(), "REPLCONF GETACK *");
            follower.ack();
        }
        c.receive(":2|");
        c.expect(
            &["MULTI", "SET k w", "WAIT 2 0", "EXEC"],
            "+OK|+QUEUED|+QUEUED|*2|+OK|:2|",
        );
    }
}

#[test]
fn wait_ends_at_its_timeout_or_by_unblock() {
    let server = builder().virtual_clock().spawn().unwrap();
    let (mut c, mut other) = (Wire::open(&server), Wire::open(&server));
    let (mut one, _) = Follower::synced(server.port());
    eventually(|| other.int("WAIT 1 0") == 1);
    c.expect(&["SET k v"], "+OK|");
    block(&server, &mut c, "WAIT 2 500");
    until_asked(&mut one);
    one.ack();
    eventually(|| {
        let replica = info(&mut other, "replication", "slave0");
        replica.contains(&format!("offset={}", one.offset))
    });
    server
        .advance(std::time::Duration::from_millis(499))
        .unwrap();
    assert_eq!(waiting(&server), 1);
    server.advance(std::time::Duration::from_millis(1)).unwrap();
    c.receive(":1|");
    let id = c.int("CLIENT ID");
    for (how, reply) in [
        ("TIMEOUT", ":1|"),
        ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK|"),
    ] {
        block(&server, &mut c, "WAIT 5 0");
        assert_eq!(other.int(&format!("CLIENT UNBLOCK {id} {how}")), 1);
        c.receive(reply);
    }
    // The waiter of a client that disconnects is removed.
    block(&server, &mut c, "WAIT 5 0");
    drop(c);
    eventually(|| waiting(&server) == 0);
    one.ack();
    assert_eq!(other.int("WAIT 1 0"), 1);
}

#[test]
fn waitaof_counts_the_files_of_replicas() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    let (mut one, _) = Follower::synced(server.port());
    c.send(&["SET k v", "WAITAOF 0 1 0"]);
    c.receive("+OK|");
    until_asked(&mut one);
    let offset = one.offset.to_string();
    one.send(&["REPLCONF", "ACK", &offset, "FACK", "0"]);
    c.expect_silence();
    one.send(&["REPLCONF", "ACK", &offset, "FACK", &offset]);
    c.receive("*2|:0|:1|");
    c.expect(
        &["WAITAOF 1 0 0"],
        "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.|",
    );
}

#[test]
fn writes_need_good_replicas() {
    const REFUSED: &str = "-NOREPLICAS Not enough good replicas to write.|";
    let server = builder()
        .option("min-replicas-to-write", "1")
        .option("min-replicas-max-lag", "10")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["SET k v"], REFUSED);
    c.expect(&["GET k", "DEL k"], &format!("$-1|{REFUSED}"));
    c.expect(
        &["CONFIG SET min-replicas-max-lag 0", "SET k v"],
        "+OK|+OK|",
    );
    c.expect(
        &["CONFIG SET min-replicas-max-lag 10", "SET k v"],
        &format!("+OK|{REFUSED}"),
    );
    c.expect(
        &["MULTI", "SET k v", "EXEC"],
        "+OK|-NOREPLICAS Not enough good replicas to write.|-EXECABORT Transaction discarded because of previous errors.|",
    );
    let (mut one, _) = Follower::synced(server.port());
    eventually(|| c.text("SET k v") == "OK");
    assert_eq!(info(&mut c, "replication", "min_slaves_good_slaves"), "1");
    c.expect(&["CONFIG SET min-replicas-max-lag 1"], "+OK|");
    eventually(|| c.text("SET k v").starts_with("NOREPLICAS"));
    assert!(!info(&mut c, "replication", "slave0").contains("lag=0"));
    c.expect(&["CONFIG SET min-replicas-max-lag 3600"], "+OK|");
    c.expect(&["SET k v"], "+OK|");
    one.ack();
    eventually(|| info(&mut c, "replication", "slave0").contains("lag=0"));
    let script = ["EVAL", "return redis.call('set','k','w')", "0"];
    assert!(!c.ask(&script).is_error());
    drop(one);
    eventually(|| c.text("SET k v").starts_with("NOREPLICAS"));
    let reply = c.ask(&script);
    assert!(reply.is_error(), "{reply:?}");
    // A script that declares that it may write is refused before it begins.
    for (flags, refused) in [("", true), (" flags=no-writes", false)] {
        let script = format!("#!lua{flags}\nreturn 1");
        assert_eq!(
            c.ask(&["EVAL", &script, "0"]).is_error(),
            refused,
            "{flags}"
        );
    }
    c.expect(
        &["CONFIG SET min-replicas-to-write 0", "SET k v"],
        "+OK|+OK|",
    );
}

/// A process that was suspended for longer than the maximum lag changes nothing before it has
/// counted its replicas again.
#[test]
fn a_frozen_primary_fires_nothing() {
    for threads in ["1", "2"] {
        let process = Process::start(&[
            "--threads",
            threads,
            "--repl-diskless-sync-delay",
            "0",
            "--min-replicas-to-write",
            "1",
            "--min-replicas-max-lag",
            "1",
        ]);
        let mut c = Wire::to(process.port);
        let (mut one, _) = Follower::synced(process.port);
        for timer in 0..8 {
            eventually(|| {
                one.ack();
                c.text(&format!("TIMER SET {timer} IN 3000 DO INCR fired")) == "OK"
            });
        }
        // No acknowledgement is in transit when the process is suspended.
        while !one.command().starts_with("TIMER SET 7") {}
        one.ack();
        assert_eq!(c.int("WAIT 1 0"), 1);
        process.freeze();
        c.send(&["SET k w"]);
        let end = Instant::now() + Duration::from_millis(3_100);
        eventually(|| Instant::now() >= end);
        process.signal(Signal::CONT);
        assert!(c.value().is_error());
        assert_eq!(c.int("EXISTS fired"), 0);
        // The timers are postponed until the replica is good again, and fire once.
        eventually(|| {
            one.ack();
            c.ask(&["GET", "fired"]).as_bytes() == Some(b"8")
        });
        process.stop();
    }
}
