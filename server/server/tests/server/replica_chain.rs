//! Chains of replicas, links that break, and changes of roles, with redis-servers and with our own
//! servers.

use std::net::TcpListener;

use punctual_harness::Proxy;
use punctual_resp::Value;

use crate::replication::{
    builder, caught_up, fill, follow, follow_with_redis, info, load, primary, same_data,
};
use crate::wire::{Open as _, Wire, eventually};

/// Returns a field of the section `stats` of INFO.
fn stat(c: &mut Wire, name: &str) -> u64 {
    c.info("stats", name).parse().unwrap()
}

#[test]
fn a_chain_passes_the_stream_on() {
    let redis = primary(&[]);
    let mut first = Wire::to(redis.port);
    fill(&mut first);
    let server = follow(
        redis.port,
        builder().threads(2).option("repl-diskless-sync-delay", "0"),
    );
    let mut second = Wire::open(&server);
    // When the last two replicas attach, the stream has selected database 7.
    first.ask(&["SELECT", "7"]);
    first.ask(&["SET", "in:seven", "1"]);
    caught_up(&mut first, &mut second);
    let ours = follow(server.port(), builder());
    let theirs = follow_with_redis(server.port());
    let (mut third, mut fourth) = (Wire::open(&ours), Wire::to(theirs.port));
    first.ask(&["INCR", "in:seven"]);
    first.ask(&["MULTI"]);
    first.ask(&["INCR", "a"]);
    first.ask(&["SELECT", "0"]);
    first.ask(&["INCR", "a"]);
    first.ask(&["EXEC"]);
    load(&mut first, "other", "more", "7");
    let digest = first.text("DEBUG DIGEST");
    for last in [&mut second, &mut third, &mut fourth] {
        caught_up(&mut first, last);
        eventually(|| last.text("DEBUG DIGEST") == digest);
        assert_eq!(last.int("FCALL more 0"), 7);
        assert_eq!(
            info(last, "master_replid"),
            info(&mut first, "master_replid")
        );
    }
    // The replicas of a promoted server continue, and so do their own replicas.
    assert_eq!(second.text("REPLICAOF NO ONE"), "OK");
    assert_eq!(second.text("SET own x"), "OK");
    for last in [&mut third, &mut fourth] {
        same_data(&mut second, last);
        assert_eq!(
            info(last, "master_replid"),
            info(&mut second, "master_replid")
        );
    }
    assert_eq!(stat(&mut second, "sync_full"), 2);
    // The former primary continues too, as a replica.
    first.ask(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    same_data(&mut second, &mut first);
    assert_eq!(stat(&mut second, "sync_full"), 2);
}

/// As with Sentinel: the former primary, one of our servers, becomes a replica of the promoted
/// server.
#[test]
fn a_former_primary_continues() {
    // A PING that only the old server has in its stream would cause a full synchronization.
    let old = builder()
        .option("repl-ping-replica-period", "3600")
        .option("repl-diskless-sync-delay", "0")
        .spawn()
        .unwrap();
    let mut old_client = Wire::open(&old);
    old_client.ask(&["SELECT", "2"]);
    old_client.ask(&["SET", "k", "v"]);
    let new = follow(old.port(), builder());
    let mut new_client = Wire::open(&new);
    old_client.ask(&["INCR", "n"]);
    same_data(&mut old_client, &mut new_client);
    assert_eq!(new_client.text("REPLICAOF NO ONE"), "OK");
    new_client.ask(&["SELECT", "2"]);
    new_client.ask(&["INCR", "n"]);
    old_client.send(&["MULTI"]);
    assert_eq!(old_client.value(), Value::Simple("OK".into()));
    let port = new.port().to_string();
    for command in [
        &["REPLICAOF", "127.0.0.1", &port][..],
        &["CLIENT", "KILL", "TYPE", "normal"],
    ] {
        assert_eq!(old_client.ask(command), Value::Simple("QUEUED".into()));
    }
    old_client.send(&["EXEC"]);
    let reply = old_client.value();
    assert_eq!(reply.as_slice().unwrap()[0], Value::Simple("OK".into()));
    same_data(&mut new_client, &mut old_client);
    assert_eq!(stat(&mut new_client, "sync_full"), 0);
    assert_eq!(stat(&mut new_client, "sync_partial_ok"), 1);
    let shown = old_client.ask(&["CONFIG", "GET", "replicaof"]);
    assert_eq!(
        shown.as_slice().unwrap()[1],
        Value::Bulk(format!("127.0.0.1 {port}").into_bytes())
    );
}

#[test]
fn a_cut_in_the_snapshot_leaves_the_old_data() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["DEBUG", "POPULATE", "20000"]);
    let proxy = Proxy::to(redis.port);
    proxy.limit(100_000);
    let server = builder().spawn().unwrap();
    let mut ours = Wire::open(&server);
    ours.ask(&["SET", "mine", "1"]);
    ours.ask(&["REPLICAOF", "127.0.0.1", &proxy.port.to_string()]);
    eventually(|| proxy.accepted() >= 2);
    assert_eq!(ours.int("DBSIZE"), 1);
    assert_eq!(ours.text("GET mine"), "1");
    assert_eq!(info(&mut ours, "master_link_status"), "down");
    proxy.limit(0);
    eventually(|| info(&mut ours, "master_link_status") == "up");
    same_data(&mut theirs, &mut ours);
}

/// A handshake with a name that does not exist, and a handshake with a server that never replies,
/// end when REPLICAOF names another primary. The loop serves its clients meanwhile.
#[test]
fn a_server_follows_another_primary_in_the_middle_of_a_handshake() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["SET", "k", "1"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port().to_string();
    let server = builder().threads(1).spawn().unwrap();
    let mut ours = Wire::open(&server);
    for (host, port) in [("no-such-host.invalid", "1"), ("127.0.0.1", &silent_port)] {
        ours.ask(&["REPLICAOF", host, port]);
        assert_eq!(ours.text("PING"), "PONG");
        assert_eq!(info(&mut ours, "master_link_status"), "down");
    }
    let _connection = silent.accept().unwrap();
    ours.ask(&["REPLICAOF", "localhost", &redis.port.to_string()]);
    eventually(|| info(&mut ours, "master_link_status") == "up");
    assert_eq!(ours.text("GET k"), "1");
}

#[test]
fn cuts_in_the_stream_lose_nothing() {
    let redis = primary(&["--repl-backlog-size", "10mb"]);
    let mut theirs = Wire::to(redis.port);
    let proxy = Proxy::to(redis.port);
    let server = follow(proxy.port, builder());
    let mut ours = Wire::open(&server);
    for round in 0..40 {
        // The cut is within a command, in some rounds between MULTI and EXEC.
        proxy.limit(1_000 + round * 37);
        let before = proxy.accepted();
        proxy.cut();
        eventually(|| proxy.accepted() > before);
        for n in 0..30 {
            theirs.ask(&["MULTI"]);
            theirs.ask(&["RPUSH", "list", &format!("{round}:{n}")]);
            theirs.ask(&["SELECT", &(n % 3).to_string()]);
            theirs.ask(&["INCRBY", "n", &n.to_string()]);
            theirs.ask(&["EXEC"]);
        }
    }
    proxy.limit(0);
    proxy.cut();
    same_data(&mut theirs, &mut ours);
    assert_eq!(stat(&mut theirs, "sync_full"), 1);
    assert!(stat(&mut theirs, "sync_partial_ok") > 5);
}

#[test]
fn a_command_that_cannot_be_applied_ends_the_link() {
    // The primary replicates a command that the server does not know.
    let redis = primary(&["--rename-command", "INCR", "BUMP"]);
    let mut theirs = Wire::to(redis.port);
    let server = follow(redis.port, builder());
    let mut ours = Wire::open(&server);
    theirs.ask(&["SET", "before", "1"]);
    caught_up(&mut theirs, &mut ours);
    let offset = info(&mut ours, "slave_repl_offset");
    theirs.ask(&["BUMP", "counter"]);
    theirs.ask(&["SET", "behind", "1"]);
    eventually(|| info(&mut ours, "master_link_status") == "down");
    assert_eq!(info(&mut ours, "slave_repl_offset"), offset);
    // The server asks again once a second, not continuously.
    assert!(stat(&mut theirs, "sync_partial_ok") < 5);
    assert_eq!(ours.ask(&["GET", "behind"]), Value::NullBulk);
    assert_eq!(ours.text("REPLICAOF NO ONE"), "OK");
    assert_eq!(ours.text("GET before"), "1");
    // With `import-skip-unknown`, the rest of the stream is applied without this command.
    let lenient = follow(redis.port, builder().option("import-skip-unknown", "yes"));
    let mut ours = Wire::open(&lenient);
    theirs.ask(&["BUMP", "counter"]);
    theirs.ask(&["SET", "behind", "2"]);
    caught_up(&mut theirs, &mut ours);
    assert_eq!(ours.text("GET behind"), "2");
    // The full synchronization contained the first change.
    assert_eq!(ours.text("GET counter"), "1");
}

#[test]
fn the_append_only_file_of_a_replica_has_its_data() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    fill(&mut theirs);
    let folder = tempfile::tempdir().unwrap();
    let appending = || {
        builder()
            .option("dir", folder.path().to_str().unwrap())
            .option("appendonly", "yes")
    };
    let server = appending().spawn().unwrap();
    let mut ours = Wire::open(&server);
    ours.ask(&["SET", "mine", "1"]);
    ours.ask(&["REPLICAOF", "127.0.0.1", &redis.port.to_string()]);
    eventually(|| info(&mut ours, "master_link_status") == "up");
    theirs.ask(&["INCR", "later"]);
    theirs.ask(&["SELECT", "5"]);
    theirs.ask(&["INCR", "later"]);
    same_data(&mut theirs, &mut ours);
    eventually(|| {
        ours.text("INFO persistence")
            .contains("aof_rewrite_in_progress:0")
    });
    server.shutdown();
    let server = appending().spawn().unwrap();
    let mut ours = Wire::open(&server);
    assert_eq!(info(&mut ours, "role"), "master");
    assert_eq!(ours.text("DEBUG DIGEST"), theirs.text("DEBUG DIGEST"));
    assert_eq!(ours.int("FCALL answer 0"), 42);
}

#[test]
fn a_replica_acknowledges_the_synced_part_of_its_file() {
    let first = builder().option("repl-diskless-sync-delay", "0");
    let first = first.spawn().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let appending = builder()
        .option("dir", folder.path().to_str().unwrap())
        .option("appendonly", "yes")
        .option("appendfsync", "always");
    let second = follow(first.port(), appending);
    let (mut one, mut two) = (Wire::open(&first), Wire::open(&second));
    for n in 0..5 {
        one.ask(&["SET", "k", &n.to_string()]);
        let reply = one.ask(&["WAITAOF", "0", "1", "20000"]);
        assert_eq!(reply, Value::Array(vec![Value::Int(0), Value::Int(1)]));
    }
    same_data(&mut one, &mut two);
    // A replica without an append-only file is not counted.
    two.ask(&["CONFIG", "SET", "appendonly", "no"]);
    one.ask(&["SET", "k", "last"]);
    assert_eq!(one.ask(&["WAIT", "1", "20000"]), Value::Int(1));
    let reply = one.ask(&["WAITAOF", "0", "1", "10"]);
    assert_eq!(reply, Value::Array(vec![Value::Int(0), Value::Int(0)]));
}
