//! Nodes that start with their files.

use std::path::Path;

use punctual_harness::{Process, Wire, eventually, free_port};

use super::Node;
use crate::process::Start as _;

/// Keys of the first base of the append-only file, and how many the primary deletes later.
const KEYS: usize = 300;
const DELETED: usize = 10;

/// Starts a node with this folder.
fn start(folder: &Path, bus_port: u16, options: &[&str]) -> Process {
    let (folder, port) = (folder.display().to_string(), bus_port.to_string());
    let mut all = vec!["--dir", &folder, "--cluster-enabled", "yes"];
    all.extend(["--cluster-port", &port]);
    all.extend(options);
    Process::start(&all)
}

/// Starts a node with an append-only file. `delay_us` is the pause after each key that it loads.
fn start_with_log(folder: &Path, bus_port: u16, delay_us: u32) -> Process {
    let delay = delay_us.to_string();
    let options = ["--appendonly", "yes", "--key-load-delay", &delay];
    start(folder, bus_port, &options)
}

/// Makes a started node a replica of `primary`.
fn replica_of(primary: &mut Node, bus_port: u16, process: Process) -> Node {
    let mut wire = process.wire();
    wait_for_load(&mut wire);
    let id = wire.text("CLUSTER MYID");
    let mut replica = Node {
        process,
        wire,
        bus_port,
        id,
    };
    replica.meet(primary);
    let line = format!("CLUSTER REPLICATE {}", primary.id);
    replica.wire.run(&line);
    replica
}

/// Returns a primary that owns all slots. It waits for no second replica before it sends data.
fn primary() -> Node {
    let mut primary = Node::ours();
    primary.wire.run("CONFIG SET repl-diskless-sync-delay 0");
    primary.wire.run("CLUSTER ADDSLOTSRANGE 0 16383");
    primary.wait_for("cluster_state:ok");
    primary
}

fn wait_for_load(wire: &mut Wire) {
    eventually(|| wire.info("persistence", "loading") == "0");
}

/// Waits until a replica has its primary's data, also in its append-only file.
fn wait_for_data(replica: &mut Node) {
    replica.wait("INFO replication", |info| {
        info.contains("master_link_status:up")
    });
    replica.wait("INFO persistence", |info| {
        info.contains("aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0")
    });
}

/// A full synchronization during the load would replace a keyspace that is incomplete, and the
/// append-only file would go on without the data that it brought.
#[test]
fn a_replica_loads_its_files_before_it_follows_its_primary() {
    let folder = tempfile::tempdir().unwrap();
    let mut primary = primary();
    for n in 0..KEYS {
        primary.wire.run(&format!("SET key:{n} {n}"));
    }
    let bus_port = free_port();
    let process = start_with_log(folder.path(), bus_port, 0);
    let mut replica = replica_of(&mut primary, bus_port, process);
    wait_for_data(&mut replica);

    replica.process.kill();
    for n in 0..DELETED {
        primary.wire.run(&format!("DEL key:{n}"));
    }
    primary.wire.run("SET new 1");
    primary.wait("INFO replication", |info| {
        info.contains("connected_slaves:0\r\n")
    });
    replica.process = start_with_log(folder.path(), bus_port, 2_000);
    replica.wire = replica.process.wire();
    loop {
        let attached = primary.wire.info("replication", "connected_slaves");
        if replica.wire.info("persistence", "loading") == "0" {
            break;
        }
        assert_eq!(attached, "0", "the replica follows during its load");
    }
    wait_for_data(&mut replica);
    primary.wire.run("SET newer 2");
    assert_eq!(primary.wire.int("WAIT 1 0"), 1);
    assert_eq!(replica.wire.int("DBSIZE"), (KEYS - DELETED + 2) as i64);

    replica.process.kill();
    primary.process.kill();
    let alone = start_with_log(folder.path(), bus_port, 0);
    let mut wire = alone.wire();
    wait_for_load(&mut wire);
    assert_eq!(wire.int("DBSIZE"), (KEYS - DELETED + 2) as i64);
}

/// The snapshot names the replica's position in its primary's history.
#[test]
fn a_replica_continues_after_a_restart_with_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (mut primary, bus_port) = (primary(), free_port());
    primary.wire.run("SET old 1");
    let process = start(folder.path(), bus_port, &[]);
    let mut replica = replica_of(&mut primary, bus_port, process);
    wait_for_data(&mut replica);
    replica.wire.run("SAVE");
    replica.process.kill();
    primary.wire.run("SET new 1");
    let full = primary.wire.info("stats", "sync_full");
    replica.process = start(folder.path(), bus_port, &[]);
    replica.wire = replica.process.wire();
    wait_for_data(&mut replica);
    assert_eq!(replica.wire.int("DBSIZE"), 2);
    assert_eq!(primary.wire.info("stats", "sync_full"), full);
    assert_eq!(primary.wire.info("stats", "sync_partial_ok"), "1");
}
