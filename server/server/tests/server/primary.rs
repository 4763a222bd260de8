//! Real redis-servers as replicas of ours.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use punctual_server::{Builder, Server};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn builder(threads: usize) -> Builder {
    configured(
        "save|dbfilename no-such-file.rdb|enable-debug-command yes|repl-diskless-sync-delay 0",
    )
    .threads(threads)
    .option("dir", std::env::temp_dir().to_str().unwrap())
}

/// Starts a redis-server that is a replica of our server.
fn replica_of(server: &Server) -> Redis {
    let port = server.port().to_string();
    Redis::start(&[
        "--replicaof",
        "127.0.0.1",
        &port,
        "--enable-debug-command",
        "yes",
        "--repl-diskless-load",
        "swapdb",
    ])
}

/// Returns a field of a section of INFO.
pub fn info(c: &mut Wire, section: &str, field: &str) -> String {
    c.info(section, field)
}

/// Blocks until the replica has the whole stream of the primary.
#[track_caller]
fn wait_until_equal(ours: &mut Wire, theirs: &mut Wire) {
    eventually(|| info(theirs, "replication", "master_link_status") == "up");
    let end = info(ours, "replication", "master_repl_offset");
    let end: u64 = end.parse().unwrap();
    eventually(|| {
        let at = info(theirs, "replication", "slave_repl_offset");
        at.parse::<u64>().unwrap() >= end
    });
}

#[track_caller]
fn assert_same_data(ours: &mut Wire, theirs: &mut Wire) {
    wait_until_equal(ours, theirs);
    for db in ["0", "1", "9"] {
        ours.ask(&["SELECT", db]);
        theirs.ask(&["SELECT", db]);
        let mut keys: Vec<String> = ours
            .ask(&["KEYS", "*"])
            .as_slice()
            .unwrap()
            .iter()
            .map(|key| String::from_utf8(key.as_bytes().unwrap().to_vec()).unwrap())
            .collect();
        keys.sort_unstable();
        for key in keys {
            for command in ["PEXPIRETIME", "DEBUG DIGEST-VALUE"] {
                let mut args: Vec<&str> = command.split(' ').collect();
                args.push(&key);
                assert_eq!(
                    ours.ask(&args),
                    theirs.ask(&args),
                    "{command} {key} in {db}"
                );
            }
        }
    }
    assert_eq!(
        ours.ask(&["DEBUG", "DIGEST"]),
        theirs.ask(&["DEBUG", "DIGEST"])
    );
    ours.ask(&["SELECT", "0"]);
    theirs.ask(&["SELECT", "0"]);
}

/// Runs random commands that change keys of every type except streams, some in transactions.
fn write_randomly(c: &mut Wire, random: &mut StdRng, count: usize) {
    const LINES: &[&str] = &[
        "SET sK V",
        "SET sK V EX N",
        "SET sK V KEEPTTL",
        "SETNX sK V",
        "APPEND sK V",
        "SETRANGE sK N V",
        "INCR cK",
        "INCRBYFLOAT fK 0.1",
        "DECRBY cK N",
        "GETSET sK V",
        "GETDEL sK",
        "GETEX sK EX N",
        "MSET sK V sK V",
        "SETBIT bK N 1",
        "BITFIELD bK INCRBY u8 N 7",
        "BITOP OR bK bK bK",
        "PFADD pK V N",
        "PFMERGE pK pK pK",
        "DEL sK",
        "UNLINK lK hK",
        "EXPIRE hK N",
        "PEXPIRE sK 2",
        "PERSIST hK",
        "EXPIREAT lK 4102444800",
        "RENAME sK sK",
        "COPY sK sK REPLACE",
        "MOVE sK 1",
        "SELECT D",
        "RPUSH lK V N",
        "LPUSH lK V",
        "LPOP lK N",
        "RPOP lK",
        "LMOVE lK lK LEFT RIGHT",
        "LINSERT lK BEFORE N V",
        "LREM lK 0 V",
        "LSET lK 0 V",
        "LTRIM lK 0 N",
        "RPOPLPUSH lK lK",
        "LMPOP 1 lK LEFT",
        "BLPOP lK 0.001",
        "SADD uK V N",
        "SREM uK V",
        "SPOP uK",
        "SPOP uK 2",
        "SMOVE uK uK V",
        "SUNIONSTORE uK uK uK",
        "SDIFFSTORE uK uK uK",
        "HSET hK V N",
        "HSETNX hK N V",
        "HDEL hK V",
        "HINCRBY nK V N",
        "HINCRBYFLOAT gK V 0.5",
        "ZADD zK N V",
        "ZADD zK GT N V",
        "ZINCRBY zK 0.5 V",
        "ZREM zK V",
        "ZPOPMIN zK",
        "ZPOPMAX zK 2",
        "ZREMRANGEBYRANK zK 0 1",
        "ZUNIONSTORE zK 2 zK zK",
        "ZRANGESTORE zK zK 0 5",
        "GEOADD zK 13.4 52.5 V",
        "SORT lK ALPHA STORE lK",
        "ZMPOP 1 zK MIN",
        "PUBLISH channel V",
        "EVAL redis.call('set','sK','V');return redis.call('incr','cK') 0",
    ];
    for number in 0..count {
        let line = LINES[random.random_range(0..LINES.len())];
        if number % 50 == 0 {
            c.ask(&["MULTI"]);
        }
        let mut args: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let key = |random: &mut StdRng| random.random_range(0..8).to_string();
            args.push(match word {
                "V" => format!("v{}", random.random_range(0..20)),
                "N" => random.random_range(1..90).to_string(),
                "D" => ["0", "1", "9"][random.random_range(0..3)].to_owned(),
                word => word.replace('K', &key(random)),
            });
        }
        if line.starts_with("EVAL") {
            // The script is one argument that contains several words.
            let script = args[1..args.len() - 1].join(" ");
            args = vec!["EVAL".to_owned(), script, "0".to_owned()];
        }
        c.ask(&args);
        if number % 50 == 20 {
            c.ask(&["EXEC"]);
        }
    }
    c.ask(&["EXEC"]);
    c.ask(&["SELECT", "0"]);
}

#[test]
fn a_redis_server_follows() {
    for threads in [1, 3] {
        let server = builder(threads).spawn().unwrap();
        let mut ours = Wire::open(&server);
        let random = &mut StdRng::seed_from_u64(15);
        write_randomly(&mut ours, random, 1_500);
        let redis = replica_of(&server);
        let mut theirs = Wire::to(redis.port);
        assert_same_data(&mut ours, &mut theirs);
        write_randomly(&mut ours, random, 1_500);
        assert_same_data(&mut ours, &mut theirs);
        assert_eq!(info(&mut ours, "stats", "sync_full"), "1");
        let replica = info(&mut ours, "replication", "slave0");
        let start = format!("ip=127.0.0.1,port={},state=online,offset=", redis.port);
        assert!(replica.starts_with(&start), "{replica}");
    }
}

#[test]
fn a_replica_that_was_cut_continues() {
    let server = builder(1).spawn().unwrap();
    let redis = replica_of(&server);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    wait_until_equal(&mut ours, &mut theirs);
    let random = &mut StdRng::seed_from_u64(7);
    for _ in 0..8 {
        write_randomly(&mut ours, random, 100);
        assert_eq!(ours.int("CLIENT KILL TYPE replica"), 1);
        write_randomly(&mut ours, random, 100);
        wait_until_equal(&mut ours, &mut theirs);
    }
    assert_same_data(&mut ours, &mut theirs);
    assert_eq!(info(&mut ours, "stats", "sync_full"), "1");
    assert_eq!(info(&mut ours, "stats", "sync_partial_ok"), "8");
}

#[test]
fn writers_on_all_loops_do_not_confuse_the_replica() {
    let server = builder(3).option("shards", "8").spawn().unwrap();
    let (mut ours, redis) = (Wire::open(&server), replica_of(&server));
    let mut theirs = Wire::to(redis.port);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let random = &mut StdRng::seed_from_u64(seed);
                write_randomly(&mut Wire::open(server), random, 3_000);
            });
        }
        // A replica attaches while clients write, and its link is cut.
        let other = replica_of(&server);
        let mut also = Wire::to(other.port);
        for _ in 0..3 {
            wait_until_equal(&mut ours, &mut also);
            eventually(|| ours.int("CLIENT KILL TYPE replica") > 0);
        }
        wait_until_equal(&mut ours, &mut theirs);
    });
    assert_same_data(&mut ours, &mut theirs);
}

#[test]
fn an_expired_key_is_deleted_on_the_replica() {
    let server = builder(1).spawn().unwrap();
    let redis = replica_of(&server);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    wait_until_equal(&mut ours, &mut theirs);
    for n in 0..50 {
        ours.ask(&["SET", &format!("k{n}"), "v", "PX", "30"]);
    }
    eventually(|| ours.int("DBSIZE") == 0);
    wait_until_equal(&mut ours, &mut theirs);
    assert_eq!(theirs.int("DBSIZE"), 0, "the primary has sent DEL");
}

#[test]
fn replicas_of_every_setting_attach() {
    for (diskless, load, delay) in [
        ("no", "disabled", "0"),
        ("yes", "disabled", "1"),
        ("yes", "on-empty-db", "0"),
    ] {
        let server = builder(2)
            .option("repl-diskless-sync", diskless)
            .option("repl-diskless-sync-delay", delay)
            .option("repl-disable-tcp-nodelay", "yes")
            .spawn()
            .unwrap();
        let mut ours = Wire::open(&server);
        write_randomly(&mut ours, &mut StdRng::seed_from_u64(3), 500);
        let folder = tempfile::tempdir().unwrap();
        let port = server.port().to_string();
        let redis = Redis::start(&[
            "--replicaof",
            "127.0.0.1",
            &port,
            "--repl-diskless-load",
            load,
            "--enable-debug-command",
            "yes",
            "--dir",
            folder.path().to_str().unwrap(),
        ]);
        let mut theirs = Wire::to(redis.port);
        assert_same_data(&mut ours, &mut theirs);
    }
}

#[test]
fn redis_cli_takes_a_snapshot() {
    let server = builder(1).spawn().unwrap();
    let mut ours = Wire::open(&server);
    ours.ask(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 1 end)",
    ]);
    write_randomly(&mut ours, &mut StdRng::seed_from_u64(4), 500);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let port = server.port().to_string();
    for option in ["--functions-rdb", "--rdb"] {
        let run = Command::new("redis-cli")
            .args(["-p", &port, option, path.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        let redis = Redis::start(&[
            "--dir",
            folder.path().to_str().unwrap(),
            "--enable-debug-command",
            "yes",
        ]);
        let mut theirs = Wire::to(redis.port);
        assert_eq!(theirs.ask(&["FCALL", "f", "0"]).as_int(), Some(1));
        if option == "--rdb" {
            assert_eq!(
                ours.ask(&["DEBUG", "DIGEST"]),
                theirs.ask(&["DEBUG", "DIGEST"])
            );
        } else {
            assert_eq!(theirs.int("DBSIZE"), 0);
        }
    }
    eventually(|| info(&mut ours, "replication", "connected_slaves") == "0");
}

#[test]
fn redis_cli_follows_the_stream() {
    let server = builder(1).spawn().unwrap();
    let mut ours = Wire::open(&server);
    ours.ask(&["SET", "before", "1"]);
    let mut cli = Command::new("redis-cli")
        .args(["-p", &server.port().to_string(), "--replica"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| ours.text("INFO replication").contains("state=online"));
    ours.ask(&["SET", "after", "1"]);
    let lines = BufReader::new(cli.stdout.take().unwrap()).lines();
    let (found, line) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = lines.map_while(Result::ok);
        found.send(lines.find(|l| l.contains("after")))
    });
    let line = line.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(line.as_deref(), Some(r#""SET","after","1""#));
    cli.kill().unwrap();
    cli.wait().unwrap();
}

#[test]
fn functions_and_published_messages_reach_the_replica() {
    let server = builder(1).spawn().unwrap();
    let redis = replica_of(&server);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    wait_until_equal(&mut ours, &mut theirs);
    theirs.expect(&["SUBSCRIBE news"], "*3|$9|subscribe|$4|news|:1|");
    ours.ask(&["PUBLISH", "news", "hello"]);
    theirs.receive("*3|$7|message|$4|news|$5|hello|");
    theirs.send(&["UNSUBSCRIBE"]);
    theirs.value();
    ours.ask(&["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 5 end, flags={'no-writes'}}"]);
    wait_until_equal(&mut ours, &mut theirs);
    assert_eq!(theirs.ask(&["FCALL_RO", "f", "0"]).as_int(), Some(5));
}

#[test]
fn info_has_the_fields_of_redis_in_their_order() {
    let server = builder(1).spawn().unwrap();
    let redis = Redis::start(&["--repl-diskless-sync-delay", "0"]);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(redis.port));
    let names = |c: &mut Wire| -> Vec<String> {
        let text = c.text("INFO replication");
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&mut ours), names(&mut theirs));
    let replicas = [
        replica_of(&server),
        Redis::start(&[
            "--replicaof",
            "127.0.0.1",
            &redis.port.to_string(),
            "--repl-diskless-load",
            "swapdb",
        ]),
    ];
    for c in [&mut ours, &mut theirs] {
        c.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        eventually(|| {
            let text = c.text("INFO replication");
            text.contains("state=online") && text.contains("min_slaves_good_slaves:1")
        });
    }
    assert_eq!(names(&mut ours), names(&mut theirs));
    drop(replicas);
}
