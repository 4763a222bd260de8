//! `redis-cli --cluster` rebalance, import, backup, call and set-timeout.

use std::fs;
use std::path::Path;

use punctual_cluster::slot;
use punctual_harness::{Peer, Process};

use super::managed::{Managed, address, compare};
use super::{Node, Program};
use crate::process::Start as _;
use crate::wire::eventually;

/// An empty primary that gets slots, and gives all of them away. The weights are numbers of slots,
/// whose sum is 16,384, so that no node gets one more or less by chance. Few slots move, so that
/// the test is short.
fn rebalance(programs: &[Program]) -> Option<String> {
    let mut managed = Managed::start(programs, &[(0, 5480), (5481, 10922), (10923, 16383)])?;
    for slot in 0..30 {
        let tag = slot::tag(slot);
        managed.run(0, &format!("SET {{{tag}}} {slot}"));
        managed.run(0, &format!("RPUSH {{{tag}}}:list a b c"));
    }
    managed.manage("rebalance <b:at> --cluster-threshold 5");
    let exact = "--cluster-threshold 0.001 --cluster-weight";
    managed.manage(&format!(
        "rebalance <b:at> {exact} <a>=5460 <b>=5462 <c>=5462"
    ));
    managed.note_state();
    let with_d = "<a>=5450 <b>=5458 <c>=5446 <d>=30 --cluster-use-empty-masters";
    managed.manage(&format!(
        "rebalance <b:at> --cluster-simulate {exact} {with_d}"
    ));
    managed.manage(&format!("rebalance <b:at> {exact} {with_d}"));
    managed.note_state();
    let without_d = "<a>=5455 <b>=5470 <c>=5459 <d>=0 --cluster-pipeline 3";
    managed.manage(&format!("rebalance <c:at> {exact} {without_d}"));
    managed.note_state();
    managed.manage("check <c:at>");
    Some(managed.transcript())
}

/// Keys of the types that all programs have, in all slots, some with a deadline.
const DATA: [&str; 9] = [
    "SET text hello",
    "SET number 12345",
    "SET brief x PX 100000000",
    "RPUSH list a b c 4",
    "SADD numbers 1 2 3",
    "SADD words alpha beta",
    "HSET hash field value other 2",
    "ZADD scores 1 one 2.5 two",
    "XADD stream 7-1 name value",
];
/// A command that reads each key, and the reply of each server.
const READS: [&str; 9] = [
    "GET text",
    "GET number",
    "GET brief",
    "LRANGE list 0 -1",
    "SORT numbers",
    "SORT words ALPHA",
    "HGET hash other",
    "ZRANGE scores 0 -1 WITHSCORES",
    "XRANGE stream - +",
];

/// Reads all keys through redis-cli, which follows redirections.
fn read_all(managed: &mut Managed) {
    let port = managed.nodes[0].port().to_string();
    for line in READS {
        let output = std::process::Command::new("redis-cli")
            .args(["-c", "-p", &port])
            .args(line.split(' '))
            .output()
            .expect("redis-cli is installed with redis-server");
        let text = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
        managed.note(&format!("{line}: {text}"));
    }
    let output = std::process::Command::new("redis-cli")
        .args(["-c", "-p", &port, "PTTL", "brief"])
        .output()
        .expect("redis-cli is installed with redis-server");
    let left = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse::<u64>();
    managed.note(&format!(
        "deadline: {}",
        left.is_ok_and(|ms| (90_000_000..=100_000_000).contains(&ms))
    ));
}

/// A program that is no node.
fn plain(program: Program) -> Option<Process> {
    match program {
        Program::Ours => Some(Process::start(&[])),
        Program::Real(peer) => peer.start(&[]),
    }
}

fn import(programs: &[Program]) -> Option<String> {
    let mut managed = Managed::start(&programs[..3], &[(0, 5460), (5461, 10922), (10923, 16383)])?;
    let source = plain(programs[0])?;
    let mut client = source.wire();
    for line in DATA {
        client.run(line);
    }
    let from = address(source.port);
    let all = managed.manage(&format!(
        "import <b:at> --cluster-from {from} --cluster-copy"
    ));
    let moved = all.lines().filter(|line| line.ends_with(": OK")).count();
    assert_eq!(moved, DATA.len(), "{all}");
    assert_eq!(client.int("DBSIZE"), DATA.len() as i64, "copies");
    read_all(&mut managed);
    // A key that is there already is an error, unless it may be replaced.
    client.run("SET text changed");
    let (succeeds, again) = managed.ask_manager(&format!("import <a:at> --cluster-from {from}"));
    assert!(!succeeds && again.contains("BUSYKEY"), "{again}");
    managed.manage(&format!(
        "import <a:at> --cluster-from {from} --cluster-replace"
    ));
    assert_eq!(client.int("DBSIZE"), 0, "all keys have moved");
    read_all(&mut managed);
    managed.note_state();
    let port = from;
    Some(managed.transcript().replace(&port, "<source>"))
}

/// Commands to all nodes, their time limit, and a backup.
fn backup(programs: &[Program]) -> Option<String> {
    let mut managed = Managed::start(&programs[..3], &[(0, 5460), (5461, 10922), (10923, 16383)])?;
    let primary = managed.nodes[0].id.clone();
    let mut replica = Node::start(programs[3])?;
    let (port, bus_port) = (managed.nodes[0].port(), managed.nodes[0].bus_port);
    replica
        .wire
        .run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
    replica.wait_for("cluster_known_nodes:4");
    replica.wire.run(&format!("CLUSTER REPLICATE {primary}"));
    replica.wait("INFO replication", |info| {
        info.contains("master_link_status:up")
    });
    managed.nodes.push(replica);
    for node in &mut managed.nodes {
        node.wait_for("cluster_known_nodes:4");
        let line = format!("slave {primary}");
        node.wait("CLUSTER NODES", |table| table.contains(&line));
    }
    for slot in [0, 1, 8_000, 16_383] {
        let tag = slot::tag(slot);
        let at = usize::from(slot / 5_461).min(2);
        managed.run(at, &format!("HSET {{{tag}}} field {slot}"));
        if at == 0 {
            // Commands below count the replica's keys.
            assert_eq!(managed.nodes[0].wire.int("WAIT 1 0"), 1);
        }
    }
    managed.manage("call <b:at> CLUSTER COUNTKEYSINSLOT 1");
    managed.manage("call <b:at> DBSIZE --cluster-only-masters");
    managed.manage("call <b:at> INFO nosection --cluster-only-replicas");
    managed.manage("call <b:at> CONFIG");
    managed.manage("set-timeout <b:at> 1500");
    managed.manage("call <b:at> CONFIG GET cluster-node-timeout");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    managed.manage(&format!("backup <c:at> {path}"));
    for (at, node) in managed.nodes.iter().enumerate() {
        let name = format!("redis-node-127.0.0.1-{}-{}.rdb", node.port(), node.id);
        let file = folder.path().join(name);
        assert_eq!(file.is_file(), at < 3, "{file:?}: of each primary");
    }
    let first = &managed.nodes[0];
    let name = format!("redis-node-127.0.0.1-{}-{}.rdb", first.port(), first.id);
    assert_eq!(keys_of(programs[0], &folder.path().join(name)), 2);
    let nodes = fs::read_to_string(folder.path().join("nodes.json")).expect("a file");
    for node in &managed.nodes[..3] {
        assert!(nodes.contains(&node.id), "{nodes}");
    }
    Some(managed.transcript().replace(&path, "<folder>"))
}

/// Starts a program with a snapshot, and returns its number of keys.
fn keys_of(program: Program, snapshot: &Path) -> i64 {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(snapshot, folder.path().join("dump.rdb")).expect("it can be copied");
    let folder = folder.path().display().to_string();
    let options = ["--dir", &folder];
    let server = match program {
        Program::Ours => Process::start(&options),
        Program::Real(peer) => peer.start(&options).expect("it is installed"),
    };
    let mut client = server.wire();
    eventually(|| client.text("INFO persistence").contains("\nloading:0"));
    client.int("DBSIZE")
}

#[test]
fn a_node_timeout_is_kept_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("redis.conf");
    fs::write(&file, "cluster-enabled yes\n").expect("it can be written");
    let bus_port = punctual_harness::free_port().to_string();
    let node = Process::with_file(Some(&file), &["--cluster-port", &bus_port]);
    node.wire().run("CLUSTER ADDSLOTSRANGE 0 16383");
    let output = std::process::Command::new("redis-cli")
        .args(["--cluster", "set-timeout", &address(node.port), "1500"])
        .output()
        .expect("redis-cli is installed with redis-server");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 OK, 0 ERR"), "{text}");
    let kept = fs::read_to_string(&file).expect("a file");
    assert!(kept.contains("cluster-node-timeout 1500"), "{kept}");
}

#[test]
fn slots_are_rebalanced_as_by_redis_7() {
    compare(Peer::Redis7, rebalance);
}

#[test]
fn slots_are_rebalanced_as_by_redis_8() {
    compare(Peer::Redis8, rebalance);
}

#[test]
fn slots_are_rebalanced_as_by_valkey_9() {
    compare(Peer::Valkey9, rebalance);
}

#[test]
fn keys_of_a_plain_server_are_imported_as_by_redis_7() {
    compare(Peer::Redis7, import);
}

#[test]
fn keys_of_a_plain_server_are_imported_as_by_redis_8() {
    compare(Peer::Redis8, import);
}

#[test]
fn keys_of_a_plain_server_are_imported_as_by_valkey_9() {
    compare(Peer::Valkey9, import);
}

#[test]
fn calls_and_backups_are_those_of_redis_7() {
    compare(Peer::Redis7, backup);
}

#[test]
fn calls_and_backups_are_those_of_redis_8() {
    compare(Peer::Redis8, backup);
}

#[test]
fn calls_and_backups_are_those_of_valkey_9() {
    compare(Peer::Valkey9, backup);
}
