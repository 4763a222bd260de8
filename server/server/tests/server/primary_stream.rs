//! The replication stream and its handshake, byte by byte.

use std::time::Duration;

use punctual_resp::encode_command;
use punctual_server::Builder;

use crate::follower::{Follower, Synced};
use crate::primary::info;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, field};

fn builder() -> Builder {
    configured("save|dbfilename no-such-file.rdb|repl-diskless-sync-delay 0")
}

#[test]
fn a_follower_sees_the_commands() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.ask(&["SET", "before", "1"]);
    let (mut follower, id) = Follower::synced(server.port());
    assert_eq!(follower.offset, 0);
    assert_eq!(id.len(), 40);
    c.ask(&["SET", "a", "1"]);
    c.ask(&["GET", "a"]);
    c.ask(&["SELECT", "3"]);
    c.send(&[
        "INCR n",
        "MULTI",
        "LPUSH l x",
        "SADD s y",
        "EXEC",
        "PUBLISH ch hi",
    ]);
    c.receive(":1|+OK|+QUEUED|+QUEUED|*2|:1|:1|:0|");
    c.ask(&["SELECT", "0"]);
    let expected = [
        "SELECT 0",
        "SET a 1",
        "SELECT 3",
        "INCR n",
        "MULTI",
        "LPUSH l x",
        "SADD s y",
        "EXEC",
        "PUBLISH ch hi",
    ];
    for line in expected {
        assert_eq!(follower.command(), line);
    }
    follower.ack();
    let end = follower.offset.to_string();
    eventually(|| {
        let replica = info(&mut c, "replication", "slave0");
        field(&replica.replace(',', " "), "offset") == end
    });
    assert_eq!(info(&mut c, "replication", "master_repl_offset"), end);
    // The follower continues where it was, and gets the missed commands without another SELECT.
    drop(follower);
    c.ask(&["SELECT", "3"]);
    c.ask(&["SET", "missed", "1"]);
    let mut again = Follower::able(server.port());
    again.ask(&id.to_ascii_uppercase(), end.parse::<i64>().unwrap() + 1);
    assert_eq!(again.answer(), Synced::Continued(id));
    assert_eq!(again.command(), "SET missed 1");
}

/// Returns the next command other than SELECT. Each full synchronization makes the log repeat
/// SELECT.
#[track_caller]
fn without_select(follower: &mut Follower) -> String {
    loop {
        let command = follower.command();
        if !command.starts_with("SELECT") {
            return command;
        }
    }
}

#[test]
fn only_offsets_in_the_backlog_are_continued() {
    let server = builder()
        .option("repl-backlog-size", "50kb")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let (mut follower, id) = Follower::synced(server.port());
    c.ask(&["SET", "a", "1"]);
    assert_eq!(follower.command(), "SELECT 0");
    let second = follower.offset + 1;
    assert_eq!(follower.command(), "SET a 1");
    let port = server.port();
    let try_at = |id: &str, offset: i64| {
        let mut other = Follower::able(port);
        other.ask(id, offset);
        other.answer()
    };
    let synced = |field: &str| info(&mut Wire::to(port), "stats", field);
    assert_eq!(try_at(&id, second), Synced::Continued(id.clone()));
    let before = synced("sync_partial_err");
    for (id, offset) in [
        (id.as_str(), follower.offset + 2),
        (id.as_str(), 0),
        ("0000000000000000000000000000000000000000", 1),
        ("f00ba0f00ba0f00ba0f00ba0f00ba0f00ba0f00b", 1),
    ] {
        assert!(
            matches!(try_at(id, offset), Synced::Full(..)),
            "{id} {offset}"
        );
    }
    assert_eq!(before, "0");
    assert_eq!(synced("sync_partial_err"), "4");
    assert_eq!(c.text("CONFIG RESETSTAT"), "OK");
    for count in ["sync_full", "sync_partial_ok", "sync_partial_err"] {
        assert_eq!(synced(count), "0", "{count}");
    }
    // The first bytes leave the backlog, but not before a slow follower has received them.
    let mut slow = Follower::able(port);
    slow.ask(&id, second);
    assert_eq!(slow.answer(), Synced::Continued(id.clone()));
    let value = "v".repeat(30_000);
    for _ in 0..4 {
        c.ask(&["SET", "b", &value]);
        assert!(without_select(&mut follower) == format!("SET b {value}"));
    }
    assert_eq!(slow.command(), "SET a 1");
    for _ in 0..4 {
        assert!(without_select(&mut slow) == format!("SET b {value}"));
    }
    eventually(|| {
        c.ask(&["SET", "c", &"v".repeat(20_000)]);
        info(&mut c, "replication", "repl_backlog_first_byte_offset") != "1"
    });
    assert!(matches!(try_at(&id, second), Synced::Full(..)));
    let kept: u64 = info(&mut c, "replication", "repl_backlog_histlen")
        .parse()
        .unwrap();
    assert!(kept >= 50 << 10, "{kept}");
}

#[test]
fn several_replicas_share_a_snapshot() {
    let server = builder()
        .option("repl-diskless-sync-delay", "3600")
        .option("repl-diskless-sync-max-replicas", "2")
        .option("threads", "2")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.ask(&["SET", "k", "v"]);
    let mut one = Follower::able(server.port());
    one.ask("?", -1);
    eventually(|| {
        let replica = c.text("INFO replication");
        replica.contains("slave0:ip=127.0.0.1,port=7777,state=wait_bgsave,offset=0,lag=0")
    });
    c.ask(&["SET", "l", "v"]);
    let mut two = Follower::able(server.port());
    two.ask("?", -1);
    assert_eq!(one.answer(), two.answer());
    let (first, second) = (one.payload(), two.payload());
    assert!(first.1.is_some());
    assert_eq!(first, second, "the same bytes, and the same mark");
    // Both followers get the following commands, each after its own acknowledgement.
    c.ask(&["SET", "m", "v"]);
    for follower in [&mut two, &mut one] {
        follower.ack();
        assert_eq!(follower.command(), "SELECT 0");
        assert_eq!(follower.command(), "SET m v");
    }
    assert_eq!(info(&mut c, "stats", "sync_full"), "2");
}

#[test]
fn a_replica_without_eof_gets_a_length() {
    for diskless in ["yes", "no"] {
        let server = builder()
            .option("repl-diskless-sync", diskless)
            .option("dir", std::env::temp_dir().to_str().unwrap())
            .spawn()
            .unwrap();
        let mut c = Wire::open(&server);
        c.ask(&["SET", "k", &"x".repeat(100_000)]);
        let mut follower = Follower::open(server.port());
        follower.ask("?", -1);
        let Synced::Full(id, 0) = follower.answer() else {
            panic!("expected a full synchronization");
        };
        let (payload, mark) = follower.payload();
        assert!(payload.starts_with(b"REDIS00"));
        assert_eq!(mark, None);
        // The stream begins at once.
        c.ask(&["SET", "a", "1"]);
        assert_eq!(follower.command(), "SELECT 0");
        assert_eq!(follower.command(), "SET a 1");
        // Like redis-cli: SYNC instead of PSYNC, so no line +FULLRESYNC with an ID comes first.
        let mut old = Follower::open(server.port());
        old.send(&["SYNC"]);
        assert!(old.payload().0.starts_with(b"REDIS00"));
        c.ask(&["SET", "a", "2"]);
        assert_eq!(old.command(), "SELECT 0");
        assert_eq!(old.command(), "SET a 2");
        assert_ne!(id, server.shared().run_id);
    }
}

#[test]
fn replconf_answers_as_redis() {
    let server = builder().spawn().unwrap();
    let redis = Redis::start(&[]);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    for line in [
        "REPLCONF",
        "REPLCONF listening-port",
        "REPLCONF listening-port x",
        "REPLCONF listening-port 7",
        "REPLCONF listening-port 7 ip-address 1.2.3.4",
        "REPLCONF capa anything capa eof",
        "REPLCONF nonsense x",
        "REPLCONF rdb-only 2",
        "REPLCONF rdb-only x",
        "REPLCONF rdb-only 0",
        "REPLCONF rdb-filter-only keys",
        "PSYNC",
        "PSYNC ? x",
        "PSYNC ? -1 FAILOVER",
        "SYNC x",
        "WAIT",
        "WAIT x 0",
        "WAIT 1 x",
        "WAIT 1 -1",
        "WAIT x x",
        "WAIT 0 0",
        "WAIT -1 0",
        "WAIT 1 1",
        "ROLE",
    ] {
        assert_eq!(
            ours.ask(&line.split(' ').collect::<Vec<_>>()),
            theirs.ask(&line.split(' ').collect::<Vec<_>>()),
            "{line}"
        );
    }
    let long = "x".repeat(300);
    let args = ["REPLCONF", "ip-address", &long];
    assert_eq!(ours.ask(&args), theirs.ask(&args));
    let args = ["REPLCONF", "rdb-filter-only", "functions"];
    assert_eq!(ours.ask(&args), theirs.ask(&args));
    for command in ["PSYNC ? -1", "MULTI", "SYNC", "EXEC"] {
        ours.ask(&["REPLCONF", "rdb-only", "0"]);
        let args: Vec<&str> = command.split(' ').collect();
        if command != "PSYNC ? -1" {
            assert_eq!(ours.ask(&args), theirs.ask(&args), "{command}");
        }
    }
    let mut pipelined = Wire::open(&server);
    pipelined.send(&["PING", "PSYNC ? -1"]);
    pipelined.receive("+PONG|-ERR SYNC and PSYNC are invalid with pending output|");
    for c in [&mut ours, &mut theirs] {
        // A client that is no replica gets no reply to these commands.
        c.expect(&["REPLCONF ACK 7", "REPLCONF GETACK *", "PING"], "+PONG|");
    }
}

#[test]
fn replicas_are_shown_and_killed_by_type() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    let (mut follower, _) = Follower::synced(server.port());
    let role = |c: &mut Wire| c.ask(&["ROLE"]).as_slice().unwrap()[2].clone();
    eventually(|| role(&mut c).as_slice().unwrap().len() == 1);
    let replica = role(&mut c).as_slice().unwrap()[0].clone();
    let words: Vec<_> = replica.as_slice().unwrap().to_vec();
    assert_eq!(words[0].as_bytes().unwrap(), b"127.0.0.1");
    assert_eq!(words[1].as_bytes().unwrap(), b"7777");
    let line = c.text("CLIENT LIST TYPE replica");
    assert_eq!(field(&line, "flags"), "S");
    assert_eq!(c.text("CLIENT LIST TYPE slave"), line);
    assert!(!c.text("CLIENT LIST TYPE normal").contains("flags=S"));
    assert_eq!(c.int("CLIENT KILL TYPE replica"), 1);
    follower.ends();
    eventually(|| info(&mut c, "replication", "connected_slaves") == "0");
    assert_eq!(role(&mut c).as_slice().unwrap().len(), 0);
}

#[test]
fn a_replica_may_not_use_the_keyspace() {
    let server = builder().spawn().unwrap();
    let mut c = Wire::open(&server);
    for command in [&["GET", "k"][..], &["SET", "k", "v"], &["PING"]] {
        let (mut follower, _) = Follower::synced(server.port());
        follower.send(command);
        follower.ends();
    }
    assert_eq!(c.int("EXISTS k"), 0);
}

#[test]
fn a_replica_that_does_not_read_is_disconnected_and_delays_no_other() {
    let server = builder()
        .option("client-output-buffer-limit", "replica 4mb 0 0")
        .option("repl-backlog-size", "16kb")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let (mut stuck, _) = Follower::synced(server.port());
    let (mut quick, _) = Follower::synced(server.port());
    let value = "v".repeat(1 << 20);
    let mut written = 0;
    while info(&mut c, "replication", "connected_slaves") == "2" {
        assert!(written < 100, "nothing limits what a replica has not read");
        c.ask(&["SET", "k", &value]);
        while !quick.command().starts_with("SET") {}
        written += 1;
    }
    stuck.ends();
    assert_eq!(
        info(&mut c, "stats", "client_output_buffer_limit_disconnections"),
        "1"
    );
    // The bytes that were kept for the slow replica are freed.
    eventually(|| {
        c.ask(&["SET", "k", &value]);
        while !quick.command().starts_with("SET") {}
        let kept = info(&mut c, "replication", "repl_backlog_histlen");
        kept.parse::<u64>().unwrap() < 4 << 20
    });
}

#[test]
fn a_stuck_full_synchronization_delays_no_other_replica() {
    let server = builder()
        .option("repl-diskless-sync-delay", "3600")
        .option("repl-diskless-sync-max-replicas", "2")
        .option("repl-timeout", "1")
        .option("rdbcompression", "no")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let value = "v".repeat(1 << 20);
    for n in 0..24 {
        c.ask(&["SET", &n.to_string(), &value]);
    }
    // The snapshot exceeds the buffers of the sockets, but not the number of bytes by which the
    // quick replica may be ahead of the stuck one.
    let mut stuck = Follower::able(server.port());
    stuck.ask("?", -1);
    let mut quick = Follower::able(server.port());
    quick.ask("?", -1);
    assert!(matches!(quick.answer(), Synced::Full(..)));
    let (payload, _) = quick.payload();
    assert!(payload.len() > 24 << 20);
    quick.ack();
    c.ask(&["SET", "after", "1"]);
    assert_eq!(quick.command(), "SELECT 0");
    assert_eq!(quick.command(), "SET after 1");
    // The stuck replica is disconnected, and the bytes that were kept for it are freed.
    eventually(|| {
        quick.ack();
        info(&mut c, "replication", "connected_slaves") == "1"
    });
    assert!(info(&mut c, "replication", "slave0").contains("state=online"));
    eventually(|| info(&mut c, "persistence", "rdb_bgsave_in_progress") == "0");
}

#[test]
fn a_primary_that_is_alone_forgets_its_history() {
    let server = builder()
        .virtual_clock()
        .option("repl-backlog-ttl", "3600")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let (follower, id) = Follower::synced(server.port());
    drop(follower);
    eventually(|| info(&mut c, "replication", "connected_slaves") == "0");
    // Time limits of links do not follow the virtual clock.
    server.advance(Duration::from_secs(7200)).unwrap();
    assert_eq!(info(&mut c, "replication", "repl_backlog_active"), "1");
    assert_eq!(info(&mut c, "replication", "master_replid"), id);
    assert!(server.shared().store.is_logged());
    c.ask(&["CONFIG", "SET", "repl-backlog-ttl", "1"]);
    eventually(|| info(&mut c, "replication", "repl_backlog_active") == "0");
    assert_ne!(info(&mut c, "replication", "master_replid"), id);
    assert!(
        !server.shared().store.is_logged(),
        "writes cost nothing more"
    );
}

/// Time limits of links follow real time: while a virtual clock stands still, a dead replica is
/// disconnected and PINGs are sent, and an advance of the clock ends no link.
#[test]
fn links_do_not_follow_a_virtual_clock() {
    let server = builder()
        .virtual_clock()
        .option("repl-timeout", "3600")
        .option("repl-ping-replica-period", "1")
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    let (mut follower, _) = Follower::synced(server.port());
    eventually(|| info(&mut c, "replication", "slave0").contains("state=online"));
    server.advance(Duration::from_secs(7200)).unwrap();
    for pings in 1..3 {
        eventually(|| {
            let offset = info(&mut c, "replication", "master_repl_offset");
            offset.parse::<u64>().unwrap() >= pings * 14
        });
    }
    assert_eq!(info(&mut c, "replication", "connected_slaves"), "1");
    c.ask(&["CONFIG", "SET", "repl-timeout", "1"]);
    follower.ends();
}

/// Runs the commands on a server, and returns the commands that a replica gets.
fn stream_of(port: u16, lines: &[&str]) -> Vec<String> {
    let (mut follower, _) = Follower::synced(port);
    let begin = follower.offset;
    let [mut c, mut waiting, mut other] = [port; 3].map(Wire::to);
    let mut until_blocked = |count| {
        let field = format!("blocked_clients:{count}\r\n");
        eventually(|| other.text("INFO clients").contains(&field));
    };
    for line in lines {
        match line.strip_prefix("later ") {
            Some(line) => {
                waiting.send(&[line]);
                until_blocked(1);
            }
            None => {
                c.ask(&line.split(' ').collect::<Vec<_>>());
                until_blocked(0);
            }
        }
    }
    c.ask(&["SET", "end", "1"]);
    let mut stream = Vec::new();
    while stream.last().is_none_or(|last| last != "SET end 1") {
        stream.push(follower.command());
    }
    let mut bytes = Vec::new();
    for line in &stream {
        encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
    }
    let len = follower.offset - begin;
    assert_eq!(len, bytes.len() as i64, "no PING is among the commands");
    stream
}

/// Test cases of the stream: sequences of commands. A command after `later` waits, and a command of
/// another client serves it.
const CASES: &[&str] = &[
    "RPUSH l a b c; LMPOP 1 l LEFT; LMPOP 2 m l RIGHT COUNT 10; LMPOP 1 l LEFT",
    "RPUSH l a b c; BLMPOP 1 1 l LEFT COUNT 2; BLPOP l 1",
    "later BLMPOP 0 2 l m LEFT COUNT 5; RPUSH m a b c",
    "later BLPOP l 0; RPUSH l a b c; DEL l; later BRPOP l 0; RPUSH l a b",
    "RPUSH l a b c; BLMOVE l m LEFT RIGHT 1; LMOVE l m LEFT RIGHT; RPOPLPUSH m l",
    "RPUSH l a b c; BRPOPLPUSH l m 1; later BRPOPLPUSH n m 0; LPUSH n a",
    "later BLMOVE n m RIGHT LEFT 0; LPUSH n a; LPOP m 5",
    "ZADD z 1 a 2 b 3 c 4 d; ZMPOP 1 z MIN; ZMPOP 2 y z MAX COUNT 10; ZMPOP 1 z MIN",
    "ZADD z 1 a 2 b 3 c 4 d; BZMPOP 1 1 z MIN COUNT 2; BZPOPMIN z 1; ZPOPMAX z 7",
    "later BZMPOP 0 2 y z MAX COUNT 9; ZADD z 1 a 2 b; later BZPOPMAX z 0; ZADD z 1 a",
    "SET s v; GETSET s w; GETSET n w; GETDEL s; GETDEL s; SET s v GET",
    "PUBLISH c x; SELECT 3; MULTI; PUBLISH c x; EXEC; SELECT 2; PUBLISH c x",
    "SELECT 1; MULTI; PUBLISH c x; SET k v; SELECT 2; PUBLISH c x; EXEC",
    "SELECT 1; SPUBLISH c x; SELECT 3; MULTI; SPUBLISH c x; SPUBLISH c y; EXEC",
    "SET a b; SET a c XX GET; SET a d NX GET; SET n d NX GET; SET a e KEEPTTL GET",
    "SET a b EXAT 99999999999; SET a c XX GET EXAT 99999999999; GETEX a PERSIST; GETEX a",
    "SET a b; GETEX a PXAT 99999999999; EXPIREAT a 99999999999; PERSIST a",
    "SET a b; EXPIRE a -1; SET a b; GETEX a EXAT 1; SETNX a b; SETNX a b",
    "PFADD p a b; PFCOUNT p; PFCOUNT p; PFMERGE q p; PFADD p a; PFADD p",
    "SETRANGE q 0 abc; SETRANGE q 0; BITOP OR d q q; BITOP OR d none; SETBIT q 3 1",
    "BITFIELD q SET u8 0 1; BITFIELD q GET u8 0; UNLINK q; UNLINK q; DEL q",
    "SADD u a; SPOP u; SADD u a; SPOP u 1; SADD u a b; SPOP u 5; SPOP u; SREM u a",
    "SINTERSTORE x y z; SADD y a; SADD x b; SUNIONSTORE x y z; SINTERSTORE x y z",
    "SORT l STORE m; RPUSH l c b a; SORT l ALPHA STORE m; SORT n STORE m; LTRIM l 5 6",
    "GEOADD g 1 1 a; GEOADD g XX CH 2 1 a 3 3 b; GEOADD g NX 1 1 a; GEORADIUS g 1 1 10 km STORE h; GEOSEARCHSTORE h g FROMMEMBER a BYRADIUS 10 km",
    "HSET h a 1; HSET h a 1; HINCRBYFLOAT h a 1.5; HINCRBY h b 1; HDEL h a c; HDEL h c",
    "INCRBYFLOAT i 1.5; INCRBY j 1; APPEND i x; DECR j; MSETNX i a; MSETNX c a d b",
    "SET a b; COPY a c; RENAME a d; MOVE d 5; RENAMENX c c; SWAPDB 0 1",
    "RPUSH l a; LINSERT l BEFORE a x; LINSERT l BEFORE q x; LSET l 0 y; LREM l 0 y; LREM l 0 y",
    "RPUSHX n a; ZADD z 1 a; ZADD z 1 a; ZADD z INCR 1 a; ZINCRBY z 1 a; ZADD z GT 0 a",
    "ZADD z 1 a; ZRANGESTORE y z 0 -1; ZRANGESTORE y n 0 -1; ZUNIONSTORE y 1 z; ZREMRANGEBYSCORE z 0 9",
    "XADD s 1-1 a b; XADD s MAXLEN 1 2-1 a b; XDEL s 9-9; XTRIM s MAXLEN 0; XSETID s 3-1",
    "XADD s 1-1 a b; XGROUP CREATE s g 0; XREADGROUP GROUP g c NOACK STREAMS s >; XACK s g 1-1",
    "SET a b; FLUSHDB; FLUSHDB; SET a b; FLUSHALL ASYNC; SCRIPT FLUSH; FUNCTION FLUSH",
    "MULTI; SET a b; EXEC; MULTI; GET a; EXEC; MULTI; DEL n; EXEC",
    "MULTI; SET a b; SELECT 3; SET a b; EXEC; SET c d; WAIT 0 0; SELECT 0; GET a",
    "SMOVE u v c; SADD u c; SMOVE u v c; SMOVE v v c; SDIFFSTORE v v v; RESTORE r 0 x",
];

/// A replica gets the same commands from both servers, in upper or lower case.
#[test]
fn the_stream_matches_redis() {
    let server = builder().option("repl-ping-replica-period", "3600");
    let server = server.spawn().unwrap();
    // With a diskless synchronization, redis-server begins the stream at the second
    // acknowledgement.
    let redis = Redis::start(&[
        "--repl-diskless-sync",
        "no",
        "--repl-ping-replica-period",
        "3600",
    ]);
    let mut different = Vec::new();
    for case in CASES {
        let lines: Vec<&str> = case.split("; ").collect();
        let [ours, theirs] = [server.port(), redis.port].map(|port| {
            Wire::to(port).ask(&["FLUSHALL"]);
            stream_of(port, &lines).join("; ").to_uppercase()
        });
        if ours != theirs {
            different.push(format!("{case}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
