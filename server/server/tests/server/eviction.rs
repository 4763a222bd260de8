//! `maxmemory`, `maxmemory-clients` and `used_memory` in the binary, whose allocator counts bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use punctual_resp::Value;

use crate::process::{Process, Start as _};
use crate::replication;
use crate::wire::redis::Redis;
use crate::wire::{Wire, eventually};

const MIB: u64 = 1 << 20;
/// Number of commands in one write.
const BATCH: usize = 500;

fn info(wire: &mut Wire, section: &str, name: &str) -> u64 {
    wire.info(section, name).parse().unwrap()
}

fn used(wire: &mut Wire) -> u64 {
    info(wire, "memory", "used_memory")
}

fn set(wire: &mut Wire, name: &str, value: &str) {
    wire.expect(&[&format!("CONFIG SET {name} {value}")], "+OK|");
}

/// Sends numbered commands in batches. Returns the number of error replies.
fn send(wire: &mut Wire, count: usize, command: impl Fn(usize) -> String) -> usize {
    let mut errors = 0;
    for first in (0..count).step_by(BATCH) {
        let lines: Vec<String> = (first..count.min(first + BATCH)).map(&command).collect();
        wire.send(&lines);
        errors += lines.iter().filter(|_| wire.value().is_error()).count();
    }
    errors
}

/// Above the limit, commands get the same replies as from redis-server.
#[test]
fn commands_without_memory_are_refused_as_by_redis() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = Process::start(&[]);
    let (mut ours, mut theirs) = (Wire::to(server.port), Wire::to(redis.port));
    let mut ask = |args: &[&str]| {
        let (ours, theirs) = (ours.ask(args), theirs.ask(args));
        assert_eq!(ours, theirs, "{args:?}");
        ours
    };
    ask(&["SET", "a", "1"]);
    ask(&["RPUSH", "list", "1", "2"]);
    let library = "#!lua name=lib\n\
        redis.register_function('writes', function(k) return redis.call('SET', k[1], 'f') end)\n\
        redis.register_function{function_name='allowed', callback=function(k) return redis.call('SET', k[1], 'f') end, \
        flags={'allow-oom'}}\n\
        redis.register_function{function_name='reads', callback=function(k) return redis.call('GET', k[1]) end, \
        flags={'no-writes'}}";
    ask(&["FUNCTION", "LOAD", library]);
    // A queued command needs memory when it runs.
    ask(&["MULTI"]);
    ask(&["CONFIG", "SET", "maxmemory", "1"]);
    ask(&["SET", "b", "1"]);
    ask(&["EXEC"]);
    ask(&["CONFIG", "SET", "maxmemory", "1"]);
    for args in [
        &["SET", "a", "2"][..],
        &["GET", "a"],
        &["INCR", "a"],
        &["APPEND", "a", "x"],
        &["HSET", "h", "f", "v"],
        &["LPOP", "list"],
        &["EXPIRE", "a", "1000"],
        &["PERSIST", "a"],
        &["PUBLISH", "channel", "message"],
        &["RENAME", "a", "c"],
        &["COPY", "c", "d"],
        &["SCRIPT", "LOAD", "return 1"],
        &["MULTI"],
        &["GET", "c"],
        &["EXEC"],
        &["MULTI"],
        &["DISCARD"],
        &["MULTI"],
        &["EXEC"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "c"],
        &["EVAL", "return redis.pcall('SET', KEYS[1], 'x')", "1", "c"],
        &[
            "EVAL",
            "redis.call('DEL', 'x') return redis.pcall('SET', KEYS[1], 'x')",
            "1",
            "c",
        ],
        &["EVAL", "#!lua\nreturn 1", "0"],
        &[
            "EVAL",
            "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
            "1",
            "c",
        ],
        &[
            "EVAL",
            "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 'x')",
            "1",
            "c",
        ],
        &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "c"],
        &["FCALL", "writes", "1", "c"],
        &["FCALL", "allowed", "1", "c"],
        &["FCALL", "reads", "1", "c"],
        &["FUNCTION", "DELETE", "lib"],
        &["DEL", "c"],
        &["CONFIG", "SET", "maxmemory", "0"],
        &["SET", "a", "2"],
    ] {
        ask(args);
    }
    server.stop();
}

/// Returns the arity and the flags of the commands and subcommands in a reply of COMMAND, by name.
fn flags_of(commands: &Value) -> BTreeMap<String, (i64, BTreeSet<String>)> {
    let text = |value: &Value| String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    let mut all = BTreeMap::new();
    for fields in commands
        .as_slice()
        .unwrap()
        .iter()
        .map(|c| c.as_slice().unwrap())
    {
        let flags = fields[2].as_slice().unwrap().iter().map(text).collect();
        all.insert(text(&fields[0]), (fields[1].as_int().unwrap(), flags));
        all.extend(flags_of(&fields[9]));
    }
    all
}

/// Each command that redis-server also has is refused above the limit if and only if redis-server
/// refuses it: alone, in MULTI, and in a script.
#[test]
fn every_command_needs_memory_as_in_redis() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = Process::start(&[]);
    let (mut ours, mut theirs) = (Wire::to(server.port), Wire::to(redis.port));
    let mut flags = [&mut ours, &mut theirs].map(|wire| flags_of(&wire.ask(&["COMMAND"])));
    let mut ask = |args: &[&str]| {
        let (ours, theirs) = (ours.ask(args), theirs.ask(args));
        let short = [&ours, &theirs].map(|reply| {
            let text = reply.as_bytes().filter(|_| reply.is_error());
            text.is_some_and(|text| text.starts_with(b"OOM "))
        });
        assert_eq!(short[0], short[1], "{args:?}: {ours:?} {theirs:?}");
        if short[0] {
            assert_eq!(ours, theirs, "{args:?}");
        }
        short[0]
    };
    ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let [ours, theirs] = &mut flags;
    let (mut denied, mut allowed) = (0, 0);
    for (name, (arity, flags)) in theirs {
        let Some((_, own)) = ours.get(name) else {
            continue;
        };
        let denies = flags.contains("denyoom");
        assert_eq!(denies, own.contains("denyoom"), "{name}");
        if !denies && !flags.contains("write") {
            continue;
        }
        // The refusal comes before the arguments are parsed, so any arguments are sufficient.
        let mut args: Vec<&str> = name.split('|').collect();
        args.resize(arity.unsigned_abs() as usize, "1");
        assert_eq!(ask(&args), denies, "{name}");
        // The queue itself needs memory.
        ask(&["MULTI"]);
        assert!(ask(&args), "{name}");
        ask(&["DISCARD"]);
        // 7.0 does not run BLPOP and similar commands in scripts.
        if flags.contains("noscript") == own.contains("noscript") {
            let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
            let script = format!("return redis.pcall({})", words.join(","));
            let in_script = ask(&["EVAL", &script, "0"]);
            assert_eq!(in_script, denies && !flags.contains("noscript"), "{name}");
        }
        *(if denies { &mut denied } else { &mut allowed }) += 1;
    }
    assert!(denied > 50 && allowed > 40, "{denied} {allowed}");
    server.stop();
}

/// Under these policies, the memory exceeds the limit by less than 2 %, with one and with several
/// loops. Volatile policies keep keys without a deadline.
#[test]
fn the_memory_stays_at_the_limit() {
    for threads in ["1", "3"] {
        let server = Process::start(&["--threads", threads]);
        let mut wires: Vec<Wire> = (0..4).map(|_| Wire::to(server.port)).collect();
        let limit = used(&mut wires[0]) + 8 * MIB;
        set(&mut wires[0], "maxmemory", &limit.to_string());
        for policy in [
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-lrm",
            "allkeys-random",
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
        ] {
            wires[0].expect(&["FLUSHALL"], "+OK|");
            set(&mut wires[0], "maxmemory-policy", policy);
            let evicted = info(&mut wires[0], "stats", "evicted_keys");
            assert_eq!(
                send(&mut wires[0], 1_000, |n| format!("SET fixed:{n} {n}")),
                0
            );
            let mut most = 0;
            for (at, wire) in wires.iter_mut().enumerate() {
                // Short values are inside their records, long values outside.
                let errors = send(wire, 15_000, |n| match n % 3 {
                    0 => format!("SET key:{at}:{n} value EX {}", 1_000 + n),
                    1 => format!("SET key:{at}:{n} {:0200} EX {}", n, 1_000 + n),
                    _ => format!("SET key:{at}:{n} {:0900} EX {}", n, 1_000 + n),
                });
                assert_eq!(errors, 0, "{policy}");
                most = most.max(used(wire));
            }
            assert!(
                most < limit + limit / 50,
                "{policy}, {threads} loops: {most} of {limit}"
            );
            let gone = info(&mut wires[0], "stats", "evicted_keys") - evicted;
            let left = wires[0].int("DBSIZE") as u64;
            assert_eq!(gone + left, 61_000, "{policy}");
            assert!(left > 5_000, "{policy}: {left} keys");
            if policy.starts_with("volatile") {
                let missing = send(&mut wires[0], 1_000, |n| format!("GETRANGE fixed:{n} 0 -1"));
                assert_eq!(missing, 0);
                assert_eq!(wires[0].int("EXISTS fixed:0 fixed:500 fixed:999"), 3);
            }
        }
        server.stop();
    }
}

/// Evictions are deletions in the replication stream and in the append-only file, and are published
/// as events.
#[test]
fn evictions_are_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap().to_owned();
    let persistent = [
        "--dir",
        &dir,
        "--appendonly",
        "yes",
        "--enable-debug-command",
        "yes",
    ];
    let server = Process::start(&persistent);
    let replica = replication::follow_with_redis(server.port);
    let mut c = Wire::to(server.port);
    set(&mut c, "notify-keyspace-events", "Ee");
    let mut events = Wire::to(server.port);
    events.send(&["SUBSCRIBE __keyevent@0__:evicted"]);
    events.value();
    // The limit leaves room for the backlog and for the buffers of the append-only file.
    let limit = used(&mut c) + 6 * MIB;
    set(&mut c, "maxmemory-policy", "allkeys-lru");
    set(&mut c, "maxmemory", &limit.to_string());
    let errors = send(&mut c, 20_000, |n| format!("SET key:{n} {n:0500}"));
    assert_eq!(errors, 0);
    let evicted = info(&mut c, "stats", "evicted_keys");
    assert!(evicted > 5_000);
    for _ in 0..evicted {
        let message = events.value();
        let key = message.as_slice().and_then(|words| words[2].as_bytes());
        assert!(
            key.is_some_and(|key| key.starts_with(b"key:")),
            "{message:?}"
        );
    }
    let mut theirs = Wire::to(replica.port);
    replication::same_data(&mut c, &mut theirs);
    let digest = c.text("DEBUG DIGEST");
    drop((theirs, replica));
    server.stop();
    let server = Process::start(&persistent);
    let mut c = Wire::to(server.port);
    eventually(|| info(&mut c, "persistence", "loading") == 0);
    assert_eq!(c.text("DEBUG DIGEST"), digest);
    server.stop();
}

/// A transaction that watches an evicted key does nothing.
#[test]
fn an_eviction_ends_a_watch() {
    let server = Process::start(&["--maxmemory-policy", "allkeys-random"]);
    let mut c = Wire::to(server.port);
    c.expect(&["SET watched 1", "WATCH watched"], "+OK|+OK|");
    let mut other = Wire::to(server.port);
    set(&mut other, "maxmemory", "1");
    eventually(|| other.int("DBSIZE") == 0);
    set(&mut other, "maxmemory", "0");
    c.expect(&["MULTI", "SET a 1", "EXEC"], "+OK|+QUEUED|*-1|");
    server.stop();
}

/// After CONFIG SET below the memory in use, the server evicts keys in steps without a further
/// command, and replies meanwhile.
#[test]
fn a_lower_limit_is_reached_in_steps() {
    let server = Process::start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut c = Wire::to(server.port);
    let start = used(&mut c);
    send(&mut c, 50_000, |n| format!("SET key:{n} value"));
    let limit = start + (used(&mut c) - start) / 4;
    // Both in one turn of the loop: however slow the machine is, there is one step between them.
    c.send(&[&*format!("CONFIG SET maxmemory {limit}"), "DBSIZE"]);
    assert!(!c.value().is_error());
    let Value::Int(mut last) = c.value() else {
        panic!("DBSIZE is an integer");
    };
    assert!(last > 25_000, "one step does not reach it: {last}");
    eventually(|| {
        let keys = c.int("DBSIZE");
        assert!(keys <= last && keys > 3_000, "{keys}");
        last = keys;
        info(&mut c, "stats", "current_eviction_exceeded_time") == 0
    });
    let bytes = used(&mut c);
    assert!(bytes <= limit + limit / 100, "{bytes} of {limit}");
    assert!(info(&mut c, "stats", "total_eviction_exceeded_time") > 0);
    server.stop();
}

/// Also with many shards, which all have nothing to evict, and without a time limit for the search.
#[test]
fn without_keys_to_evict_commands_are_refused() {
    let server = Process::start(&[
        "--shards",
        "256",
        "--maxmemory-policy",
        "allkeys-lru",
        "--maxmemory-eviction-tenacity",
        "100",
    ]);
    let mut wire = Wire::to(server.port);
    set(&mut wire, "maxmemory", "1");
    let reply = wire.ask(&["SET", "k", "v"]);
    assert!(
        matches!(&reply, Value::Error(text) if text.starts_with(b"OOM")),
        "{reply:?}"
    );
    set(&mut wire, "maxmemory", "0");
    wire.expect(&["SET k v"], "+OK|");
    server.stop();
}

/// Large values are dropped by another thread. Their bytes count as free at once, so not too many
/// keys are evicted.
#[test]
fn large_values_are_not_evicted_twice() {
    let server = Process::start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut c = Wire::to(server.port);
    for key in 0..8 {
        send(&mut c, 30_000, |n| {
            format!("HSET hash:{key} field:{n} {n:030}")
        });
    }
    let limit = used(&mut c) - MIB;
    set(&mut c, "maxmemory", &limit.to_string());
    eventually(|| used(&mut c) <= limit);
    assert_eq!(c.int("DBSIZE"), 7);
    server.stop();
}

/// Memory of deleted keys and closed clients is no longer in use.
#[test]
fn used_memory_returns_after_floods() {
    let server = Process::start(&[]);
    let mut c = Wire::to(server.port);
    let fill = |c: &mut Wire, n: usize| match n {
        0 => send(c, 50_000, |n| format!("SET key:{n} {n:0300}")),
        1 => send(c, 50_000, |n| format!("ZADD zset {n} member:{n}")),
        2 => send(c, 50_000, |n| format!("XADD stream * field {n:0100}")),
        _ => send(c, 50_000, |n| format!("RPUSH list:{} {n:0100}", n % 100)),
    };
    for n in 0..4 {
        fill(&mut c, n);
    }
    c.expect(&["FLUSHALL"], "+OK|");
    eventually(|| info(&mut c, "memory", "lazyfree_pending_objects") == 0);
    let start = used(&mut c);
    for n in 0..4 {
        assert_eq!(fill(&mut c, n), 0);
    }
    assert!(used(&mut c) > start + 20 * MIB);
    c.expect(&["FLUSHALL"], "+OK|");
    eventually(|| used(&mut c) < start + MIB);
    // A client that does not read its replies.
    let mut slow = Wire::to(server.port);
    c.ask(&["SET", "large", &"x".repeat(1 << 20)]);
    slow.send(&vec!["GET large"; 64]);
    eventually(|| used(&mut c) > start + 20 * MIB);
    drop(slow);
    eventually(|| used(&mut c) < start + 3 * MIB);
    let peak = info(&mut c, "memory", "used_memory_peak");
    assert!(peak > start + 20 * MIB);
    c.expect(&["CONFIG RESETSTAT"], "+OK|");
    assert!(info(&mut c, "memory", "used_memory_peak") < peak / 2);
    server.stop();
}

/// Invalidations of evicted keys cause no further evictions.
#[test]
fn invalidations_cause_no_evictions() {
    for mode in ["", " BCAST"] {
        let server = Process::start(&["--maxmemory-policy", "allkeys-lru"]);
        let mut c = Wire::to(server.port);
        let key = |n| format!("{n:01000}");
        send(&mut c, 2_000, |n| format!("SET {} x", key(n)));
        let mut readers: Vec<Wire> = (0..10).map(|_| Wire::to(server.port)).collect();
        for reader in &mut readers {
            reader.ask(&["HELLO", "3"]);
            reader.expect(&[&format!("CLIENT TRACKING on{mode}")], "+OK|");
            send(reader, 2_000, |n| format!("GET {}", key(n)));
        }
        let limit = used(&mut c) - 60_000;
        set(&mut c, "maxmemory", &limit.to_string());
        eventually(|| used(&mut c) <= limit + limit / 100);
        let evicted = info(&mut c, "stats", "evicted_keys");
        assert!((20..100).contains(&evicted), "{evicted}{mode}");
        server.stop();
    }
}

/// The largest clients are disconnected first. Clients with NO-EVICT stay.
#[test]
fn clients_are_evicted_by_their_memory() {
    for threads in ["1", "2"] {
        let server = Process::start(&["--threads", threads, "--maxmemory-clients", "12mb"]);
        let mut c = Wire::to(server.port);
        c.expect(&["CLIENT NO-EVICT ON"], "+OK|");
        let mut small = Wire::to(server.port);
        small.expect(&["CLIENT SETNAME small"], "+OK|");
        let open = |bytes: usize| {
            let mut wire = Wire::to(server.port);
            let id = wire.int("CLIENT ID");
            // An incomplete command.
            let start = format!("*2\r\n$4\r\nECHO\r\n$9000000\r\n{}", "x".repeat(bytes));
            // The server may disconnect the client before it has read everything.
            let _ = wire.stream.write_all(start.as_bytes());
            (wire, id)
        };
        let exists = |c: &mut Wire, id: i64| {
            let list = c.text(&format!("CLIENT LIST ID {id}"));
            !list.trim().is_empty()
        };
        let (_first, first) = open(2 << 20);
        let (_second, second) = open(1 << 20);
        eventually(|| info(&mut c, "memory", "mem_clients_normal") > 3 * MIB);
        assert_eq!(info(&mut c, "stats", "evicted_clients"), 0);
        let (_third, third) = open(4 << 20);
        eventually(|| info(&mut c, "stats", "evicted_clients") == 1);
        eventually(|| !exists(&mut c, third));
        assert!(exists(&mut c, first) && exists(&mut c, second));
        small.expect(&["CLIENT GETNAME"], "$5|small|");
        // A lower limit disconnects the next client.
        set(&mut c, "maxmemory-clients", "5mb");
        eventually(|| !exists(&mut c, first));
        assert!(exists(&mut c, second));
        // A limit in percent is a part of `maxmemory`.
        set(&mut c, "maxmemory", "50mb");
        set(&mut c, "maxmemory-clients", "1%");
        eventually(|| !exists(&mut c, second));
        assert_eq!(info(&mut c, "stats", "evicted_clients"), 3);
        small.expect(&["CLIENT GETNAME"], "$5|small|");
        server.stop();
    }
}

/// A command counts as a whole, although it could run as soon as its last byte has arrived.
#[test]
fn a_command_above_the_limit_disconnects_its_client() {
    let server = Process::start(&["--maxmemory-clients", "10mb"]);
    let mut c = Wire::to(server.port);
    c.expect(&["CLIENT NO-EVICT ON"], "+OK|");
    let mut large = Wire::to(server.port);
    large.expect(&["PING"], "+PONG|");
    let value = "x".repeat(10 << 20);
    // The server may disconnect the client before it has read everything.
    let command = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{value}\r\n", value.len());
    let _ = large.stream.write_all(command.as_bytes());
    eventually(|| info(&mut c, "stats", "evicted_clients") == 1);
    large.ends();
}
