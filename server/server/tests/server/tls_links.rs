//! Links with TLS between servers: replication with redis-server on either side, Sentinel, and
//! MIGRATE.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use punctual_harness::{Running, free_port};
use punctual_server::{Builder, Server};

use crate::replication::{caught_up, fill, follow, info, same_data};
use crate::tls::{Authority, Encrypt as _, TlsWire};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually};

fn encrypted(authority: &Authority) -> Builder {
    authority
        .builder()
        .option("tls-auth-clients", "yes")
        .option("tls-replication", "yes")
        .option("tls-cluster", "yes")
        .option("repl-diskless-sync-delay", "0")
}

fn redis(authority: &Authority, options: &[&str]) -> (Redis, u16) {
    let port = free_port();
    let text = port.to_string();
    let files = authority.options();
    let mut all: Vec<&str> = files.iter().map(String::as_str).collect();
    all.extend([
        "--tls-port",
        &text,
        "--tls-replication",
        "yes",
        "--tls-cluster",
        "yes",
    ]);
    all.extend([
        "--repl-diskless-sync-delay",
        "0",
        "--enable-debug-command",
        "yes",
    ]);
    all.extend(options);
    (Redis::start(&all), port)
}

/// Writes enough data that a snapshot needs many TLS records and exceeds the sockets' buffers.
fn fill_much(c: &mut Wire) {
    fill(c);
    c.ask(&["SELECT", "0"]);
    for number in 0..40 {
        let value: String = (0..500_000)
            .map(|at| char::from(b'a' + (at * number % 26) as u8))
            .collect();
        c.ask(&["SET", &format!("large:{number}"), &value]);
    }
}

#[test]
fn a_replica_follows_a_redis_server_over_tls() {
    let authority = Authority::new();
    let (primary, port) = redis(&authority, &[]);
    let mut theirs = Wire::to(primary.port);
    fill_much(&mut theirs);
    let replica = follow(port, encrypted(&authority));
    let mut ours = Wire::open(&replica);
    same_data(&mut theirs, &mut ours);
    for number in 0..500 {
        theirs.ask(&["SET", &format!("more:{number}"), "1"]);
    }
    same_data(&mut theirs, &mut ours);
    // The primary closes the link. The replica continues where it was.
    theirs.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
    theirs.ask(&["SET", "after", "1"]);
    same_data(&mut theirs, &mut ours);
    let stats = theirs.text("INFO stats");
    assert!(
        stats.contains("sync_full:1\r") && stats.contains("sync_partial_ok:1\r"),
        "{stats}"
    );
    // The replica has announced its TLS port.
    let line = info(&mut theirs, "slave0");
    assert!(
        line.contains(&format!("port={}", replica.tls_port())),
        "{line}"
    );
}

#[test]
fn a_redis_server_follows_over_tls() {
    let authority = Authority::new();
    for diskless in ["yes", "no"] {
        let server = encrypted(&authority)
            .threads(2)
            .option("repl-diskless-sync", diskless)
            .spawn()
            .unwrap();
        let mut ours = Wire::open(&server);
        fill_much(&mut ours);
        let primary = format!("127.0.0.1 {}", server.tls_port());
        let (replica, _) = redis(&authority, &["--replicaof", &primary]);
        let mut theirs = Wire::to(replica.port);
        eventually(|| info(&mut theirs, "master_link_status") == "up");
        same_data(&mut ours, &mut theirs);
        for number in 0..500 {
            ours.ask(&["SET", &format!("more:{number}"), &"x".repeat(10_000)]);
        }
        same_data(&mut ours, &mut theirs);
        ours.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
        ours.ask(&["SET", "after", "1"]);
        same_data(&mut ours, &mut theirs);
        let stats = ours.text("INFO stats");
        assert!(
            stats.contains("sync_full:1\r") && stats.contains("sync_partial_ok:1\r"),
            "{stats}"
        );
    }
}

#[test]
fn a_link_to_a_server_that_is_not_trusted_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let primary = authority.builder().spawn().unwrap();
    let replica = encrypted(&other)
        .option("replicaof", &format!("127.0.0.1 {}", primary.tls_port()))
        .spawn()
        .unwrap();
    let mut theirs = Wire::open(&primary);
    eventually(|| {
        let stats = theirs.text("INFO stats");
        let count = stats
            .lines()
            .find_map(|l| l.strip_prefix("total_connections_received:"));
        count.unwrap().parse::<u32>().unwrap() >= 3
    });
    assert_eq!(
        info(&mut Wire::open(&replica), "master_link_status"),
        "down"
    );
    assert_eq!(info(&mut theirs, "connected_slaves"), "0");
}

#[test]
fn keys_migrate_over_tls() {
    let authority = Authority::new();
    let server = encrypted(&authority).spawn().unwrap();
    let (target, port) = redis(&authority, &[]);
    let (mut ours, mut theirs) = (Wire::open(&server), Wire::to(target.port));
    let value = "v".repeat(3_000_000);
    ours.ask(&["MSET", "a", &value, "b", "2"]);
    let line = format!("MIGRATE 127.0.0.1 {port} \"\" 0 20000 KEYS a b");
    ours.expect(&[&line], "+OK|");
    assert_eq!(theirs.int("STRLEN a"), 3_000_000);
    let line = format!(
        "MIGRATE 127.0.0.1 {} \"\" 0 20000 KEYS a b",
        server.tls_port()
    );
    theirs.expect(&[&line], "+OK|");
    assert_eq!(ours.int("STRLEN a"), 3_000_000);
}

#[test]
fn sentinel_fails_over_over_tls() {
    let authority = Authority::new();
    let primary = encrypted(&authority).spawn().unwrap();
    let replica = encrypted(&authority)
        .option("replicaof", &format!("127.0.0.1 {}", primary.tls_port()))
        .spawn()
        .unwrap();
    let mut second = Wire::open(&replica);
    eventually(|| info(&mut second, "master_link_status") == "up");
    let mut first = Wire::open(&primary);
    first.ask(&["SET", "a", "1"]);
    caught_up(&mut first, &mut second);
    let port = free_port();
    let file = authority.file("sentinel.conf");
    let mut text = format!(
        "port 0\ntls-port {port}\ntls-replication yes\nsentinel monitor us 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds us 500\nsentinel failover-timeout us 5000\n",
        primary.tls_port()
    );
    for (name, value) in authority.directives() {
        text += &format!("{name} {value}\n");
    }
    std::fs::File::create(&file)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let child = Command::new("redis-sentinel")
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _sentinel = Running(child);
    eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let config = Arc::new(authority.client(Some("client")));
    let mut sentinel = TlsWire::connect(port, &config);
    // Sentinel has found the replica in the primary's INFO, at its TLS port.
    let port = replica.tls_port().to_string();
    eventually(|| {
        let replicas = sentinel.ask(&["SENTINEL", "replicas", "us"]);
        let fields = replicas
            .as_slice()
            .unwrap()
            .iter()
            .flat_map(|r| r.as_slice().unwrap());
        fields
            .into_iter()
            .any(|field| field.as_bytes() == Some(port.as_bytes()))
    });
    drop(first);
    drop::<Server>(primary);
    // Sentinel disconnects the clients of a server that it promotes.
    eventually(|| {
        let address = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "us"]);
        address.as_slice().unwrap()[1].as_bytes() == Some(port.as_bytes())
    });
    assert_eq!(info(&mut Wire::open(&replica), "role"), "master");
    let mut fresh = TlsWire::connect(replica.tls_port(), &config);
    assert_eq!(fresh.text("GET a"), "1");
}
