//! MIGRATE to and from a real redis-server, and the behaviour of our server during a transfer.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_server::Server;
use rustix::process::Signal;

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn start(threads: usize) -> Server {
    configured("enable-debug-command yes")
        .threads(threads)
        .spawn()
        .unwrap()
}

#[test]
fn keys_of_every_type_move_to_redis_and_back() {
    let (ours, redis) = (start(2), Redis::start(&[]));
    let (mut a, mut b) = (Wire::open(&ours), Wire::to(redis.port));
    a.expect(
        &[
            "SET text hello",
            "SET timed soon PX 100000000",
            "RPUSH list a 1 -300 b",
            "SADD ints 1 2 70000 -5",
            "HSET hash f v g 12",
            "ZADD zset 1 a 2.5 b inf c",
            "PFADD hll a b c",
            "SELECT 3",
            "SET other 1",
            "SELECT 0",
        ],
        "+OK|+OK|:4|:4|:2|:3|:1|+OK|+OK|+OK|",
    );
    let digest = a.text("DEBUG DIGEST");
    let at = a.int("PEXPIRETIME timed");
    let mut events = Wire::open(&ours);
    events.expect(&["CONFIG SET notify-keyspace-events Egx"], "+OK|");
    events.send(&["PSUBSCRIBE __keyevent@*"]);
    events.value();
    let (redis_port, own_port) = (redis.port, ours.port());
    let keys = "text timed list ints hash zset hll nosuch";
    let line = format!("MIGRATE 127.0.0.1 {redis_port} \"\" 5 5000 KEYS {keys}");
    a.expect(&[&line, &line, "DBSIZE"], "+OK|+NOKEY|:0|");
    for _ in 0..7 {
        let event = events.value();
        let channel = event.as_slice().unwrap()[2].as_bytes();
        assert_eq!(channel, Some(&b"__keyevent@0__:del"[..]));
    }
    b.expect(&["SELECT 5", "DBSIZE", "GET text"], "+OK|:7|$5|hello|");
    let ttl = b.int("PTTL timed");
    assert!((99_000_000..=100_000_000).contains(&ttl), "{ttl}");
    let line = format!("MIGRATE 127.0.0.1 {own_port} \"\" 0 5000 KEYS {keys}");
    b.expect(&[&line, "DBSIZE"], "+OK|:0|");
    assert_eq!(a.text("DEBUG DIGEST"), digest);
    // Both servers send the remaining time, so the deadline at the target is a little later.
    let later = a.int("PEXPIRETIME timed") - at;
    assert!((0..60_000).contains(&later), "{later}");
    // MIGRATE to the server itself, into another database. COPY leaves the key.
    let line = format!("MIGRATE 127.0.0.1 {own_port} text 7 5000");
    a.expect(
        &[
            &format!("{line} COPY"),
            "EXISTS text",
            &format!("{line} REPLACE"),
            "EXISTS text",
            "SELECT 7",
            "GET text",
        ],
        "+OK|:1|+OK|:0|+OK|$5|hello|",
    );
}

/// Redis keeps connections to targets as well. A target may close a kept one at any time.
#[test]
fn migrations_to_one_target_use_one_connection() {
    let (ours, target) = (start(1), start(1));
    let (mut a, mut b) = (Wire::open(&ours), Wire::open(&target));
    let port = target.port();
    let connections = |b: &mut Wire| b.info("stats", "total_connections_received");
    let migrate = |a: &mut Wire, key: &str, db: u8, reply: &str| {
        a.run(&format!("SET {key} 1"));
        let line = format!("MIGRATE 127.0.0.1 {port} {key} {db} 5000");
        assert_eq!(a.text(&line), reply);
    };
    let before: u64 = connections(&mut b).parse().unwrap();
    migrate(&mut a, "a", 0, "OK");
    migrate(&mut a, "b", 0, "OK");
    let busy = "ERR Target instance replied with error: BUSYKEY Target key name already exists.";
    migrate(&mut a, "b", 0, busy);
    migrate(&mut a, "b", 3, "OK");
    migrate(&mut a, "c", 0, "OK");
    assert_eq!(connections(&mut b), (before + 1).to_string());
    b.expect(
        &["MGET a b c", "SELECT 3", "GET b"],
        "*3|$1|1|$1|1|$1|1|+OK|$1|1|",
    );
    assert_eq!(b.int("CLIENT KILL TYPE normal"), 1);
    migrate(&mut a, "d", 0, "OK");
    assert_eq!(connections(&mut b), (before + 2).to_string());
    // A connection with another user is another one.
    b.run("CONFIG SET requirepass secret");
    a.run("SET e 1");
    let line = format!("MIGRATE 127.0.0.1 {port} e 0 5000 AUTH secret");
    assert_eq!(a.text(&line), "OK");
    assert_eq!(connections(&mut b), (before + 3).to_string());
}

/// A timer that is due while the target does not reply fires once, at the target. No worker here
/// gets a job that is being transferred.
#[test]
fn timers_and_jobs_act_in_one_place() {
    let (ours, target) = (start(2), start(1));
    let (mut a, mut b) = (Wire::open(&ours), Wire::open(&target));
    let mut worker = Wire::open(&ours);
    a.expect(&["JOB ADD jobs x ID 1", "SET runs 0"], "$1|1|+OK|");
    b.expect(&["CLIENT PAUSE 700 WRITE"], "+OK|");
    a.expect(&["TIMER SET t IN 200 DO INCR runs"], "+OK|");
    let port = target.port();
    a.send(&[&format!(
        "MIGRATE 127.0.0.1 {port} \"\" 0 30000 KEYS t jobs"
    )]);
    eventually(|| b.text("INFO clients").contains("connected_clients:2\r\n"));
    // The job has been packed, and is transferred before this command is served.
    worker.send(&["JOB TAKE jobs"]);
    a.expect(&[], "+OK|");
    a.expect(&["EXISTS t jobs", "GET runs"], ":0|$1|0|");
    eventually(|| b.int("EXISTS runs") == 1);
    b.expect(&["GET runs", "EXISTS t jobs"], "$1|1|:1|");
    assert_eq!(worker.value().as_bytes(), None, "the job is at the target");
}

#[test]
fn errors_are_those_of_redis() {
    let target = Redis::start(&["--requirepass", "secret"]);
    let open = Redis::start(&[]);
    let (ours, redis) = (start(1), Redis::start(&[]));
    let (mut a, mut b) = (Wire::open(&ours), Wire::to(redis.port));
    let nobody = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    Wire::to(open.port).expect(&["SET taken 1"], "+OK|");
    let (port, open) = (target.port, open.port);
    for line in [
        format!("MIGRATE 127.0.0.1 {nobody} a 0 1000"),
        format!("MIGRATE 127.0.0.1 {nobody} nosuch 0 1000"),
        "MIGRATE no.such.host.invalid 1 a 0 1000".to_owned(),
        "MIGRATE 127.0.0.1 x a 0 1000".to_owned(),
        format!("MIGRATE 127.0.0.1 {port} a x 1000"),
        format!("MIGRATE 127.0.0.1 {port} a 0 x"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 NOSUCH"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 AUTH"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 AUTH2 x"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 KEYS a"),
        format!("MIGRATE 127.0.0.1 {port} \"\" 0 1000 KEYS"),
        format!("MIGRATE 127.0.0.1 {port} \"\" 0 1000 KEYS x y"),
        format!("MIGRATE 127.0.0.1 {port} a 0"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 AUTH wrong"),
        format!("MIGRATE 127.0.0.1 {port} a 0 1000 AUTH2 default wrong"),
        format!("MIGRATE 127.0.0.1 {open} a 99 1000"),
        format!("MIGRATE 127.0.0.1 {open} \"\" 0 -1 KEYS taken a"),
        "GET a".to_owned(),
        "GET taken".to_owned(),
        format!("MIGRATE 127.0.0.1 {open} taken 0 0 REPLACE"),
        "COMMAND INFO migrate".to_owned(),
        "COMMAND GETKEYS MIGRATE h 1 \"\" 0 1 COPY KEYS a b".to_owned(),
        "COMMAND GETKEYS MIGRATE h 1 k 0 1 COPY".to_owned(),
        "COMMAND GETKEYS MIGRATE h 1 k 0 1 AUTH keys".to_owned(),
        "COMMAND GETKEYS MIGRATE h 1 \"\" 0 1 AUTH keys KEYS z".to_owned(),
        "COMMAND GETKEYSANDFLAGS MIGRATE h 1 \"\" 0 1 KEYS z".to_owned(),
    ] {
        let ask = |c: &mut Wire| {
            // Deletes a key that an earlier line has moved.
            Wire::to(open).ask(&["DEL", "a"]);
            c.send(&["SET a 1", "SET taken 2", &line]);
            c.value();
            c.value();
            format!("{:?}", c.value())
        };
        let (ours, theirs) = (ask(&mut a), ask(&mut b));
        assert_eq!(ours, theirs, "{line}");
    }
    for auth in ["AUTH secret", "AUTH2 default secret"] {
        a.expect(
            &[
                "SET a 1",
                &format!("MIGRATE 127.0.0.1 {port} a 0 1000 REPLACE {auth}"),
                "EXISTS a",
            ],
            "+OK|+OK|:0|",
        );
    }
    // Passwords are hidden.
    a.expect(
        &["SET a 1", "CONFIG SET slowlog-log-slower-than 0"],
        "+OK|+OK|",
    );
    a.send(&[&format!("MIGRATE 127.0.0.1 {port} a 0 1000 AUTH hidden")]);
    assert!(a.value().is_error());
    a.send(&["SLOWLOG GET"]);
    let logged = a.value();
    let entry = logged.as_slice().unwrap()[0].as_slice().unwrap();
    let words = entry[3].as_slice().unwrap();
    assert_eq!(words[0].as_bytes(), Some(&b"MIGRATE"[..]));
    assert_eq!(words[7].as_bytes(), Some(&b"(redacted)"[..]));
}

/// Waits until a client of the server is blocked.
fn wait_for_migration(c: &mut Wire) {
    eventually(|| c.text("INFO clients").contains("blocked_clients:1\r\n"));
}

#[test]
fn the_loop_serves_clients_during_a_migration_and_no_change_is_lost() {
    for threads in [1, 2] {
        let (ours, redis) = (start(threads), Redis::start(&[]));
        let (mut a, mut c) = (Wire::open(&ours), Wire::open(&ours));
        let port = redis.port;
        a.expect(
            &[
                "MSET unchanged 1 changed 1 deleted 1 replaced 1",
                "SADD copied x",
            ],
            "+OK|:1|",
        );
        redis.freeze();
        a.send(&[&format!(
            "MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS unchanged changed deleted replaced"
        )]);
        wait_for_migration(&mut c);
        let mut copier = Wire::open(&ours);
        copier.send(&[&format!("MIGRATE 127.0.0.1 {port} copied 0 60000 COPY")]);
        eventually(|| c.text("INFO clients").contains("blocked_clients:2\r\n"));
        c.expect(
            &[
                "GET unchanged",
                "INCR changed",
                "DEL deleted",
                "DEL replaced",
                "RPUSH replaced b",
                "SADD copied y",
                "CLIENT UNBLOCK 1",
            ],
            "$1|1|:2|:1|:1|:1|:1|:0|",
        );
        redis.signal(Signal::CONT);
        a.receive("+OK|");
        copier.receive("+OK|");
        c.expect(&["KEYS *"], "*1|$6|copied|");
        Wire::to(port).expect(
            &[
                "GET unchanged",
                "GET changed",
                "EXISTS deleted",
                "LRANGE replaced 0 -1",
                "SMEMBERS copied",
                "DBSIZE",
            ],
            "$1|1|$1|2|:0|*1|$1|b|*1|$1|x|:4|",
        );
    }
}

/// WATCH ignores changes of a stream's groups, but a copy without them would deliver entries twice.
#[test]
fn no_delivery_and_no_acknowledgement_is_lost_during_a_migration() {
    let (ours, redis) = (start(1), Redis::start(&[]));
    let (mut a, mut c) = (Wire::open(&ours), Wire::open(&ours));
    for id in 1..=4 {
        a.run(&format!("XADD s {id} f v"));
    }
    a.run("XGROUP CREATE s g 0");
    a.run("XREADGROUP GROUP g one COUNT 1 STREAMS s >");
    redis.freeze();
    a.send(&[&format!("MIGRATE 127.0.0.1 {} s 0 60000", redis.port)]);
    wait_for_migration(&mut c);
    c.expect(
        &[
            "XREADGROUP GROUP g two COUNT 2 STREAMS s >",
            "XACK s g 1 2",
            "EXISTS s",
        ],
        "*1|*2|$1|s|*2|*2|$3|2-0|*2|$1|f|$1|v|*2|$3|3-0|*2|$1|f|$1|v|:2|:1|",
    );
    redis.signal(Signal::CONT);
    a.receive("+OK|");
    Wire::to(redis.port).expect(
        &["XREADGROUP GROUP g one STREAMS s >", "XPENDING s g"],
        "*1|*2|$1|s|*1|*2|$3|4-0|*2|$1|f|$1|v|*4|:2|$3|3-0|$3|4-0|*2|*2|$3|one|$1|1|*2|$3|two|$1|1|",
    );
    assert_eq!(c.int("EXISTS s"), 0);
}

#[test]
fn a_silent_target_times_out_and_the_key_stays() {
    let (ours, redis) = (start(1), Redis::start(&[]));
    let mut a = Wire::open(&ours);
    redis.freeze();
    let line = format!("MIGRATE 127.0.0.1 {} k 0 50", redis.port);
    const ERROR: &str = "-IOERR error or timeout reading to target instance|";
    a.expect(&["SET k v", &line, "GET k"], &format!("+OK|{ERROR}$1|v|"));
    // In a transaction and in a script, the server blocks, as Redis does.
    a.expect(
        &["MULTI", &line, "GET k", "EXEC"],
        &format!("+OK|+QUEUED|+QUEUED|*2|{ERROR}$1|v|"),
    );
    redis.signal(Signal::CONT);
    let line = format!("MIGRATE 127.0.0.1 {} k 0 20000 REPLACE", redis.port);
    a.expect(
        &["MULTI", &line, "GET k", "SET k w", "EXEC"],
        "+OK|+QUEUED|+QUEUED|+QUEUED|*3|+OK|$-1|+OK|",
    );
    let script = format!(
        "return redis.call('MIGRATE', '127.0.0.1', {}, 'k', 0, 20000, 'REPLACE')",
        redis.port
    );
    a.ask(&["EVAL", &script, "0"]);
    a.expect(&["EXISTS k"], ":0|");
    Wire::to(redis.port).expect(&["GET k"], "$1|w|");
}

/// A client that disconnects does not interrupt its migration.
#[test]
fn a_migration_outlives_its_client_and_waits_for_a_pause() {
    let (ours, redis) = (start(1), Redis::start(&[]));
    let (mut a, mut c) = (Wire::open(&ours), Wire::open(&ours));
    redis.freeze();
    a.expect(&["SET k v"], "+OK|");
    a.send(&[&format!("MIGRATE 127.0.0.1 {} k 0 60000", redis.port)]);
    wait_for_migration(&mut c);
    drop(a);
    c.expect(&["CLIENT PAUSE 3600000 WRITE"], "+OK|");
    redis.signal(Signal::CONT);
    let mut target = Wire::to(redis.port);
    eventually(|| target.int("EXISTS k") == 1);
    c.expect(&["GET k"], "$1|v|");
    c.expect(&["CLIENT UNPAUSE"], "+OK|");
    eventually(|| c.int("EXISTS k") == 0);
}

/// Clients increment a key that moves all the time. Each acknowledged increment is at the target or
/// here.
#[test]
fn no_write_is_lost_while_a_hot_key_moves() {
    for threads in [1, 2] {
        let (ours, redis) = (start(threads), Redis::start(&[]));
        let port = redis.port;
        let ended = AtomicBool::new(false);
        let steps: i64 = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    let mut c = Wire::open(&ours);
                    let ended = &ended;
                    scope.spawn(move || {
                        let mut steps = 0;
                        while !ended.load(Ordering::Relaxed) {
                            c.int("INCR hot");
                            steps += 1;
                        }
                        steps
                    })
                })
                .collect();
            let (mut a, mut b) = (Wire::open(&ours), Wire::to(port));
            let mut moved = 0;
            // On a busy machine, the writers begin late.
            eventually(|| a.int("EXISTS hot") == 1);
            for _ in 0..40 {
                let line = format!("MIGRATE 127.0.0.1 {port} hot 0 20000");
                // The key may not exist at this moment.
                let reply = a.text(&line);
                assert!(reply == "OK" || reply == "NOKEY", "{reply}");
                if reply == "OK" {
                    b.send(&["GETDEL hot"]);
                    let value = b.value();
                    let text = String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
                    moved += text.parse::<i64>().unwrap();
                }
            }
            ended.store(true, Ordering::Relaxed);
            let steps: i64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
            a.send(&["GET hot"]);
            let left = a.value();
            let left = left.as_bytes().map_or(0, |text| {
                String::from_utf8_lossy(text).parse::<i64>().unwrap()
            });
            assert_eq!(moved + left, steps);
            steps
        });
        assert!(steps > 0);
    }
}

#[test]
fn moved_keys_are_deleted_at_replicas_and_in_the_append_only_file() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let dir = folder.path().to_str().unwrap();
        let builder = Server::builder().port(0).option("dir", dir);
        let builder = builder
            .option("save", "")
            .option("repl-diskless-sync-delay", "0");
        let builder = builder
            .option("appendonly", "yes")
            .option("appendfsync", "always");
        builder.spawn().unwrap()
    };
    let (ours, target) = (start(), Redis::start(&[]));
    let mut a = Wire::open(&ours);
    a.expect(&["MSET a 1 b 2 c 3"], "+OK|");
    let address = format!("127.0.0.1 {}", ours.port());
    let replica = Redis::start(&["--replicaof", &address]);
    let mut r = Wire::to(replica.port);
    eventually(|| r.int("DBSIZE") == 3);
    let to = format!("MIGRATE 127.0.0.1 {}", target.port);
    a.expect(
        &[
            &format!("{to} \"\" 0 20000 KEYS a nosuch"),
            "MULTI",
            &format!("{to} b 0 20000"),
            "SET d 4",
            "EXEC",
        ],
        "+OK|+OK|+QUEUED|+QUEUED|*2|+OK|+OK|",
    );
    eventually(|| r.text("GET d") == "4");
    r.expect(&["EXISTS a b", "GET c"], ":0|$1|3|");
    drop((a, ours));
    let ours = start();
    Wire::open(&ours).expect(&["EXISTS a b", "GET c", "GET d"], ":0|$1|3|$1|4|");
}

/// A script that does not end keeps the keys locked. The migration ends after the script is killed.
#[test]
fn a_migration_waits_for_a_busy_script() {
    let ours = configured("threads 2|busy-reply-threshold 1");
    let (ours, redis) = (ours.spawn().unwrap(), Redis::start(&[]));
    // Connections are assigned to the loops in turn.
    let (mut a, mut script) = (Wire::open(&ours), Wire::open(&ours));
    let mut c = Wire::open(&ours);
    redis.freeze();
    a.expect(&["SET k v"], "+OK|");
    a.send(&[&format!("MIGRATE 127.0.0.1 {} k 0 60000", redis.port)]);
    wait_for_migration(&mut c);
    script.send(&["EVAL \"redis.call('GET', KEYS[1]) while true do end\" 1 k"]);
    eventually(|| c.text("PING").starts_with("BUSY"));
    redis.signal(Signal::CONT);
    let mut target = Wire::to(redis.port);
    eventually(|| target.int("EXISTS k") == 1);
    assert!(c.text("GET k").starts_with("BUSY"));
    a.expect_silence();
    c.expect(&["SCRIPT KILL"], "+OK|");
    assert!(script.value().is_error());
    a.receive("+OK|");
    c.expect(&["EXISTS k"], ":0|");
}
