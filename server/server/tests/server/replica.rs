//! A replica of a real redis-server: full and partial synchronization, the stream, and promotion.

use std::time::Duration;

use punctual_resp::Value;

use crate::replication::{
    builder, caught_up, fill, follow, follow_with_redis, info, load, primary, primary_with,
    same_data,
};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually, field};

#[test]
fn a_full_sync_has_every_type_and_the_stream_follows() {
    for (threads, diskless) in [(1, "yes"), (2, "yes"), (1, "no")] {
        let redis = primary(&["--repl-diskless-sync", diskless]);
        let mut theirs = Wire::to(redis.port);
        fill(&mut theirs);
        let server = follow(redis.port, builder().threads(threads));
        let mut ours = Wire::open(&server);
        same_data(&mut theirs, &mut ours);
        assert_eq!(ours.int("FCALL answer 0"), 42);
        let at = theirs.int("PEXPIRETIME timed");
        assert_eq!(ours.int("PEXPIRETIME timed"), at);

        for line in [
            "SET a 1 EX 1000",
            "INCRBYFLOAT f 1.5",
            "SPOP words 2",
            "LMOVE list other LEFT RIGHT",
            "EXPIRE text 500",
            "GETEX int PX 700000",
            "SELECT 3",
            "SET in:three x",
            "SELECT 0",
            "COPY hash copied DB 5",
            "SWAPDB 3 5",
            "EVAL redis.call('set','s','1');redis.call('incr','s') 0",
            "MULTI",
            "SET m 1",
            "SELECT 2",
            "INCR m",
            "EXEC",
            "SELECT 0",
            "SETRANGE a 5 x",
            "PEXPIREAT a 1",
            "RENAME zset moved",
            "RESTORE r 0 none",
        ] {
            theirs.ask(&line.split(' ').collect::<Vec<_>>());
        }
        load(&mut theirs, "lib", "answer", "43");
        same_data(&mut theirs, &mut ours);
        assert_eq!(ours.int("FCALL answer 0"), 43);
        assert_eq!(ours.int("PEXPIRETIME int"), theirs.int("PEXPIRETIME int"));
        theirs.ask(&["FUNCTION", "FLUSH"]);
        theirs.ask(&["FLUSHALL"]);
        theirs.ask(&["SET", "after", "x"]);
        same_data(&mut theirs, &mut ours);
        assert_eq!(ours.int("DBSIZE"), 1);
        assert!(ours.ask(&["FCALL", "answer", "0"]).is_error());
    }
}

#[test]
fn clients_of_a_replica_read_and_do_not_write() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["SET", "k", "v"]);
    let server = follow(redis.port, builder());
    let mut ours = Wire::open(&server);
    assert_eq!(ours.text("GET k"), "v");
    let refusal = "READONLY You can't write against a read only replica.";
    assert_eq!(ours.text("SET k w"), refusal);
    load(&mut theirs, "pure", "reads", "1");
    let writer = "#!lua name=impure\nredis.register_function('writes', function() return 2 end)";
    theirs.ask(&["FUNCTION", "LOAD", writer]);
    let other = follow_with_redis(redis.port);
    let mut other = Wire::to(other.port);
    caught_up(&mut theirs, &mut other);
    caught_up(&mut theirs, &mut ours);
    for command in [
        &["EVAL", "redis.call('set', KEYS[1], 'w')", "1", "k"][..],
        &["EVAL", "#!lua\nreturn 1", "0"],
        &["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
        &["EVAL", "return redis.pcall('get', KEYS[1])", "1", "k"],
        &["FCALL", "reads", "0"],
        &["FCALL", "writes", "0"],
        &["PUBLISH", "c", "m"],
        &["PFCOUNT", "k"],
        &["FLUSHALL"],
        &["FUNCTION", "FLUSH"],
        &["SORT", "k"],
    ] {
        assert_eq!(ours.ask(command), other.ask(command), "{command:?}");
    }
    ours.send(&["MULTI", "SET k w", "EXEC"]);
    assert_eq!(ours.value(), Value::Simple("OK".into()));
    assert!(ours.value().is_error());
    assert!(ours.value().is_error());
    ours.expect(
        &["CONFIG SET replica-read-only no", "SET mine w"],
        "+OK|+OK|",
    );
    let line = ours.text("CLIENT LIST TYPE master");
    assert_eq!(field(&line, "flags"), "M");
    assert_eq!(field(&line, "addr"), format!("127.0.0.1:{}", redis.port));
}

#[test]
fn a_lost_link_continues() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    let server = follow(redis.port, builder());
    let mut ours = Wire::open(&server);
    for round in 0..20 {
        theirs.ask(&["SELECT", &(round % 3).to_string()]);
        for n in 0..50 {
            theirs.ask(&["INCR", &format!("n:{n}")]);
            theirs.ask(&["RPUSH", "list", &format!("{round}:{n}")]);
        }
        theirs.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
    }
    theirs.ask(&["SELECT", "0"]);
    same_data(&mut theirs, &mut ours);
    let stats = theirs.text("INFO stats");
    assert!(stats.contains("sync_full:1\r\n"), "{stats}");
    assert!(!stats.contains("sync_partial_ok:0\r\n"), "{stats}");
}

#[test]
fn a_primary_with_a_password() {
    let redis = primary(&["--requirepass", "secret"]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["AUTH", "secret"]);
    theirs.ask(&["SET", "k", "v"]);
    let server = builder().option("masterauth", "wrong").spawn().unwrap();
    let mut ours = Wire::open(&server);
    let port = redis.port.to_string();
    assert_eq!(
        ours.ask(&["REPLICAOF", "127.0.0.1", &port]),
        Value::Simple("OK".into())
    );
    assert_eq!(info(&mut ours, "master_link_status"), "down");
    ours.ask(&["CONFIG", "SET", "masterauth", "secret"]);
    same_data(&mut theirs, &mut ours);
    ours.ask(&["CONFIG", "SET", "masteruser", "default"]);
    theirs.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
    theirs.ask(&["SET", "k", "w"]);
    same_data(&mut theirs, &mut ours);
}

/// Due keys of a replica are hidden, but stay in the keyspace until the server is promoted.
#[test]
fn the_deadlines_are_the_promoted_servers_own() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    let server = follow(redis.port, builder().virtual_clock());
    let mut ours = Wire::open(&server);
    for (key, ms) in [
        ("first", "400000"),
        ("second", "500000"),
        ("third", "900000"),
    ] {
        theirs.ask(&["SET", key, "v", "PX", ms]);
    }
    caught_up(&mut theirs, &mut ours);
    let mut events = Wire::open(&server);
    events.ask(&["CONFIG", "SET", "notify-keyspace-events", "Ex"]);
    events.ask(&["SUBSCRIBE", "__keyevent@0__:expired"]);
    server.advance(Duration::from_secs(700)).unwrap();
    assert_eq!(ours.ask(&["GET", "first"]), Value::NullBulk);
    assert_eq!(ours.int("DBSIZE"), 3);
    assert_eq!(ours.text("GET third"), "v");
    events.expect_silence();

    assert_eq!(ours.text("REPLICAOF NO ONE"), "OK");
    for key in ["first", "second"] {
        events.receive(&format!(
            "*3|$7|message|$22|__keyevent@0__:expired|${}|{key}|",
            key.len()
        ));
    }
    assert_eq!(ours.int("DBSIZE"), 1);
    server.advance(Duration::from_secs(1_000)).unwrap();
    events.receive("*3|$7|message|$22|__keyevent@0__:expired|$5|third|");
    assert_eq!(ours.text("SET own x"), "OK");
    assert_eq!(info(&mut ours, "role"), "master");
}

#[test]
fn a_due_key_expires_when_the_primary_deletes_it() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    let server = follow(redis.port, builder());
    let mut ours = Wire::open(&server);
    let mut events = Wire::open(&server);
    events.ask(&["CONFIG", "SET", "notify-keyspace-events", "Exg"]);
    events.ask(&["PSUBSCRIBE", "__keyevent@0__:*"]);
    theirs.ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    theirs.ask(&["SET", "k", "v", "PX", "20"]);
    eventually(|| ours.ask(&["GET", "k"]) == Value::NullBulk && ours.int("DBSIZE") == 1);
    events.receive("*4|$8|pmessage|$16|__keyevent@0__:*|$21|__keyevent@0__:expire|$1|k|");
    events.expect_silence();
    assert_eq!(theirs.ask(&["GET", "k"]), Value::NullBulk);
    eventually(|| ours.int("DBSIZE") == 0);
    events.receive("*4|$8|pmessage|$16|__keyevent@0__:*|$18|__keyevent@0__:del|$1|k|");
}

#[test]
fn a_full_sync_raises_watches_and_takes_the_place_of_all_data() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["SET", "k", "theirs"]);
    let server = builder().threads(2).spawn().unwrap();
    let mut ours = Wire::open(&server);
    ours.expect(
        &[
            "SET k mine",
            "SET only mine",
            "SELECT 4",
            "SET x y",
            "SELECT 0",
        ],
        "+OK|+OK|+OK|+OK|+OK|",
    );
    load(&mut ours, "old", "gone", "1");
    let mut watching = Wire::open(&server);
    watching.expect(&["WATCH k", "MULTI", "GET k"], "+OK|+OK|+QUEUED|");
    let mut waiting = Wire::open(&server);
    waiting.send(&["BLPOP nothing 0"]);
    eventually(|| ours.text("INFO clients").contains("blocked_clients:1"));
    ours.ask(&["REPLICAOF", "127.0.0.1", &redis.port.to_string()]);
    waiting.receive("-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)|");
    assert_eq!(waiting.ends(), 0);
    eventually(|| info(&mut ours, "master_link_status") == "up");
    same_data(&mut theirs, &mut ours);
    watching.expect(&["EXEC"], "*-1|");
    assert!(ours.ask(&["FCALL", "gone", "0"]).is_error());
}

#[test]
fn a_killed_primary_leaves_the_data() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["SET", "k", "v"]);
    let server = follow(redis.port, builder());
    let mut ours = Wire::open(&server);
    drop(redis);
    eventually(|| info(&mut ours, "master_link_status") == "down");
    assert_eq!(ours.text("GET k"), "v");
    ours.ask(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    assert_eq!(
        ours.text("GET k"),
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
    );
    assert_eq!(
        ours.text("PING"),
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
    );
    let script = "#!lua flags=no-writes,allow-stale\nreturn redis.pcall('GET', 'k').err";
    assert_eq!(
        ours.ask(&["EVAL", script, "1", "k"]).as_bytes(),
        Some(&b"ERR Can not execute the command on a stale replica"[..])
    );
    assert_eq!(ours.text("REPLICAOF NO ONE"), "OK");
    assert_eq!(ours.text("SET k w"), "OK");
}

#[test]
fn a_replica_that_loads_serves_its_data_and_may_be_promoted() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    let port = primary_with(1_000, b"REDIS0010".to_vec());
    c.expect(
        &["SET k v", &format!("REPLICAOF 127.0.0.1 {port}")],
        "+OK|+OK|",
    );
    eventually(|| c.text("INFO persistence").contains("async_loading:1"));
    assert_eq!(c.text("GET k"), "v");
    for refused in ["SAVE", "BGSAVE", "BGREWRITEAOF", "PSYNC ? -1"] {
        let reply = c.text(refused);
        assert_eq!(
            reply, "LOADING Redis is loading the dataset in memory",
            "{refused}"
        );
    }
    c.expect(&["REPLICAOF NO ONE", "SET k w"], "+OK|+OK|");
    assert!(c.text("INFO persistence").contains("async_loading:0"));
}

#[test]
fn a_replica_tells_its_primary_and_sentinel_who_it_is() {
    let redis = primary(&[]);
    let options = builder()
        .option("replica-announce-ip", "10.9.8.7")
        .option("replica-announce-port", "1234")
        .option("replica-priority", "7")
        .option("replica-announced", "no");
    let server = follow(redis.port, options);
    let mut theirs = Wire::to(redis.port);
    eventually(|| info(&mut theirs, "slave0").starts_with("ip=10.9.8.7,port=1234,"));
    let mut ours = Wire::open(&server);
    assert_eq!(info(&mut ours, "slave_priority"), "7");
    assert_eq!(info(&mut ours, "replica_announced"), "0");
}

/// Keys with a deadline that clients of a writable replica have set expire on time, with their
/// event. Keys of the primary wait for its DEL.
#[test]
fn a_writable_replicas_own_keys_expire() {
    for threads in [1, 2] {
        let redis = primary(&[]);
        let mut theirs = Wire::to(redis.port);
        let server = builder().virtual_clock().threads(threads);
        let server = follow(redis.port, server.option("replica-read-only", "no"));
        let mut ours = Wire::open(&server);
        for key in ["theirs", "again", "renamed"] {
            theirs.ask(&["SET", key, "v", "PX", "900000"]);
        }
        caught_up(&mut theirs, &mut ours);
        let mut events = Wire::open(&server);
        events.ask(&["CONFIG", "SET", "notify-keyspace-events", "Ex"]);
        events.ask(&["SUBSCRIBE", "__keyevent@0__:expired"]);
        ours.expect(
            &[
                "SET set v PX 1000",
                "SET kept v",
                "PEXPIRE kept 2000",
                "PERSIST kept",
                "SADD expire v",
                "PEXPIRE expire 3000",
                "SET later v PX 1000",
                "PEXPIRE later 4000",
                "SET again v PX 1000",
                "SET flushed v PX 1000",
                "DEL flushed",
                "RENAME renamed mine",
                "PEXPIRE mine 5000",
            ],
            "+OK|+OK|:1|:1|:1|:1|+OK|:1|+OK|+OK|:1|+OK|:1|",
        );
        let script = "redis.call('set', KEYS[1], 'v', 'px', 6000)";
        ours.ask(&["EVAL", script, "1", "script"]);
        assert_eq!(ours.int("DBSIZE"), 8);
        // A deadline that the primary sets makes the key one of the primary's keys.
        theirs.ask(&["PEXPIRE", "again", "800000"]);
        caught_up(&mut theirs, &mut ours);
        server.advance(Duration::from_secs(10_000)).unwrap();
        for key in ["set", "expire", "later", "mine", "script"] {
            events.receive(&format!(
                "*3|$7|message|$22|__keyevent@0__:expired|${}|{key}|",
                key.len()
            ));
        }
        events.expect_silence();
        assert_eq!(ours.int("DBSIZE"), 3, "kept, theirs and again");
        assert_eq!(ours.ask(&["GET", "theirs"]), Value::NullBulk);
        // The list of own keys survives FLUSHALL and CONFIG SET.
        ours.expect(
            &[
                "FLUSHALL",
                "SET set v PX 1000",
                "CONFIG SET replica-read-only yes",
            ],
            "+OK|+OK|+OK|",
        );
        server.advance(Duration::from_secs(1)).unwrap();
        events.receive("*3|$7|message|$22|__keyevent@0__:expired|$3|set|");
        assert_eq!(ours.int("DBSIZE"), 0);
        // After a full synchronization, the server is a replica again.
        ours.ask(&["CONFIG", "SET", "replica-read-only", "no"]);
        ours.ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
        ours.expect(&["REPLICAOF NO ONE"], "+OK|");
        ours.ask(&["SET", "other", "history"]);
        ours.ask(&["REPLICAOF", "127.0.0.1", &redis.port.to_string()]);
        eventually(|| info(&mut ours, "master_link_status") == "up");
        ours.expect(&["SET set v PX 1000"], "+OK|");
        server.advance(Duration::from_secs(1)).unwrap();
        events.receive("*3|$7|message|$22|__keyevent@0__:expired|$3|set|");
    }
}

/// As on redis-server, EXEC decides whether the commands of a transaction may run.
#[test]
fn a_transaction_that_changes_the_role_continues() {
    let redis = primary(&[]);
    let mut theirs = Wire::to(redis.port);
    theirs.ask(&["SET", "k", "theirs"]);
    let server = builder().threads(2).spawn().unwrap();
    let mut ours = Wire::open(&server);
    let port = redis.port;
    ours.expect(
        &[
            "MULTI",
            &format!("REPLICAOF 127.0.0.1 {port}"),
            "SET k ours",
            "GET k",
            "EXEC",
        ],
        "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|+OK|$4|ours|",
    );
    assert!(ours.text("SET k v").starts_with("READONLY"));
    eventually(|| info(&mut ours, "master_link_status") == "up");
    // The primary's stream does not contain this write, so a full synchronization follows.
    same_data(&mut theirs, &mut ours);
    assert_eq!(ours.text("GET k"), "theirs");
    assert!(theirs.text("INFO stats").contains("sync_full:1\r\n"));
}

#[test]
fn exec_is_refused_if_the_replica_is_stale_by_then() {
    let server = builder();
    let server = server
        .option("replica-serve-stale-data", "no")
        .spawn()
        .unwrap();
    let redis = Redis::start(&["--replica-serve-stale-data", "no"]);
    let mut replies = Vec::new();
    for port in [server.port(), redis.port] {
        let (mut c, mut other) = (Wire::to(port), Wire::to(port));
        let mut all = Vec::new();
        for queued in ["GET k", "PING", "EVAL return(1) 0"] {
            c.expect(&["MULTI"], "+OK|");
            assert_eq!(c.text(queued), "QUEUED");
            other.expect(&["REPLICAOF 127.0.0.1 1"], "+OK|");
            let reply = c.ask(&["EXEC"]);
            all.push(format!("{reply:?}"));
            for declared in ["", "#!lua", "#!lua flags=allow-stale,no-writes"] {
                let script = format!("{declared}\nreturn 1");
                all.push(format!("{:?}", c.ask(&["EVAL", &script, "0"])));
            }
            other.expect(&["REPLICAOF NO ONE"], "+OK|");
        }
        replies.push(all);
    }
    assert_eq!(replies[0], replies[1]);
}
