//! FAILOVER between two of our servers, and with redis-servers.

use punctual_resp::Value;

use crate::replication::{builder, caught_up, follow, follow_with_redis, info, primary, same_data};
use crate::wire::pair::Pair;
use crate::wire::{Open as _, Wire, eventually};

/// Fails over from one server to another. Asserts that both continue without a full
/// synchronization.
#[track_caller]
fn fail_over(old: &mut Wire, new: &mut Wire, options: &[&str]) {
    old.ask(&["SET", "before", "1"]);
    let fulls = |c: &mut Wire| {
        let stats = c.text("INFO stats");
        let line = stats.lines().find(|line| line.starts_with("sync_full:"));
        line.unwrap().to_owned()
    };
    let before = fulls(new);
    let mut command = vec!["FAILOVER"];
    command.extend(options);
    assert_eq!(old.ask(&command), Value::Simple("OK".into()));
    eventually(|| info(new, "role") == "master");
    eventually(|| info(old, "role") == "slave" && info(old, "master_link_status") == "up");
    assert_eq!(info(old, "master_failover_state"), "no-failover");
    assert_eq!(new.text("SET after 1"), "OK");
    same_data(new, old);
    assert_eq!(fulls(new), before, "the old primary has continued");
    assert!(old.ask(&["SET", "k", "v"]).is_error());
}

#[test]
fn roles_are_exchanged_and_exchanged_back() {
    let first = builder().option("repl-diskless-sync-delay", "0");
    let first = first.spawn().unwrap();
    let second = follow(first.port(), builder().threads(2));
    let (mut one, mut two) = (Wire::open(&first), Wire::open(&second));
    caught_up(&mut one, &mut two);
    fail_over(&mut one, &mut two, &[]);
    let port = first.port().to_string();
    fail_over(
        &mut two,
        &mut one,
        &["TO", "127.0.0.1", &port, "TIMEOUT", "20000"],
    );
}

#[test]
fn roles_are_exchanged_with_a_redis_server() {
    let redis = primary(&[]);
    let server = follow(redis.port, builder());
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    caught_up(&mut theirs, &mut ours);
    fail_over(&mut theirs, &mut ours, &[]);
    fail_over(&mut ours, &mut theirs, &[]);
}

#[test]
fn a_failover_that_cannot_succeed_ends() {
    let server = builder().option("repl-diskless-sync-delay", "0");
    let server = server.spawn().unwrap();
    let replica = follow(server.port(), builder());
    let mut c = Wire::open(&server);
    // The replica cannot acknowledge a part of the stream that it does not apply.
    let mut lower = Wire::open(&replica);
    caught_up(&mut c, &mut lower);
    lower.ask(&["CLIENT", "PAUSE", "100000", "ALL"]);
    c.ask(&["SET", "k", "v"]);
    let mut writer = Wire::open(&server);
    for (options, end) in [(&["TIMEOUT", "50"][..], None), (&[], Some("ABORT"))] {
        let mut command = vec!["FAILOVER"];
        command.extend(options);
        assert_eq!(c.ask(&command), Value::Simple("OK".into()));
        writer.send(&["SET waits 1"]);
        if let Some(end) = end {
            assert_eq!(info(&mut c, "master_failover_state"), "waiting-for-sync");
            let again = c.ask(&["FAILOVER"]);
            assert_eq!(
                again,
                Value::Error(b"ERR FAILOVER already in progress.".into())
            );
            assert_eq!(c.ask(&["FAILOVER", end]), Value::Simple("OK".into()));
        }
        writer.receive("+OK|");
        eventually(|| info(&mut c, "master_failover_state") == "no-failover");
        assert_eq!(info(&mut c, "role"), "master");
    }
}

#[test]
fn errors_are_those_of_redis() {
    let server = builder().option("repl-diskless-sync-delay", "0");
    let server = server.spawn().unwrap();
    let redis = primary(&[]);
    let mut pair = Pair::open(&server, &redis, "2");
    let both = [
        &["FAILOVER"][..],
        &["FAILOVER", "ABORT"],
        &["FAILOVER", "TIMEOUT", "0"],
        &["FAILOVER", "TIMEOUT", "x"],
        &["FAILOVER", "TO", "host"],
        &["FAILOVER", "TO", "host", "x"],
        &["FAILOVER", "FORCE"],
        &["FAILOVER", "FORCE", "FORCE"],
        &["FAILOVER", "ABORT", "FORCE"],
        &["FAILOVER", "TO", "127.0.0.1", "1", "FORCE"],
        &["FAILOVER", "TO", "127.0.0.1", "1", "TIMEOUT", "5"],
        &["REPLICAOF", "host", "x"],
        &["REPLICAOF", "host", "65536"],
        &["REPLICAOF", "NO", "ONE"],
        &["PSYNC", "x", "1", "FAILOVER"],
    ];
    for command in both {
        pair.ask(command);
    }
    // From here on, the servers have replicas or are replicas. The last four commands, REPLICAOF
    // and PSYNC, are not sent to such servers.
    let ours = follow_with_redis(server.port());
    let theirs = follow_with_redis(redis.port);
    for command in &both[..both.len() - 4] {
        if *command != both[0] {
            pair.ask(command);
        }
    }
    // A replica of a replica replies with other errors.
    let last = follow(ours.port, builder());
    let mut pair = Pair::open(&last, &ours, "2");
    drop(theirs);
    for command in &both[..both.len() - 4] {
        pair.ask(command);
    }
}
